//! Counts the words of text files over sliding windows, as RStream does: windows of each word's
//! occurrences, whose result is given when they are full, while the text is still being read; or windows
//! of time.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::operators::window::{CountWindow, EventTimeWindow};
use thalweg::{Chain, Environment, Result, Stream, cli, text};
use thalweg_examples::queries::words::{by_count, by_time, paced, words};
use thalweg_examples::{OutputArgs, documents, output, positive, print_rows};

/// Count the words of files, directories and globs over sliding windows; by default of this project's own
/// documents.
///
/// By count, a window holds SIZE occurrences of a word. By time, it lasts SIZE seconds; since text says
/// nothing of time, it is read aloud, files and folders but no globs: line n is said n / PACE seconds
/// after the first.
#[derive(Parser)]
struct Args {
    /// What to read.
    files: Vec<PathBuf>,
    /// What a window is measured in.
    #[arg(long, value_enum, default_value_t = By::Count)]
    by: By,
    /// How many occurrences, or seconds, a window holds.
    #[arg(long, default_value_t = 10)]
    size: u64,
    /// How many there are from the beginning of a window to that of the next.
    #[arg(long, default_value_t = 5)]
    slide: u64,
    /// Count the windows too that are not full at the end; windows of time always count.
    #[arg(long)]
    partial: bool,
    /// Lines in a second, for windows of time.
    #[arg(long, default_value = "1", value_parser = positive)]
    pace: f64,
    /// Print the words of all windows, and nothing else; otherwise the twenty that fill most.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Count,
    Time,
}

fn main() -> ExitCode {
    cli::run(count)
}

fn count() -> Result<()> {
    let Args { files, by, size, slide, partial, pace, tsv, sink, engine } = Args::parse();
    let env = engine.environment()?;
    let files = if files.is_empty() { documents() } else { files };

    match by {
        By::Count => {
            let mut windows = CountWindow::sliding(size, slide);
            if partial {
                windows = windows.keep_partial();
            }
            let words = env.lines(files).flat_each(text::LowercaseWords);
            let windows = by_count(words, windows).map(|(word, window)| (word, window.value));
            summarise(&env, windows, tsv, &sink)
        }
        By::Time => {
            let seconds = Duration::from_secs;
            let windows = EventTimeWindow::sliding(seconds(size), seconds(slide));
            let words = words(env.iter(paced(files, pace)).try_map(|line| line));
            let windows = by_time(words, windows).map(|(word, window)| (word, window.value));
            summarise(&env, windows, tsv, &sink)
        }
    }
}

/// Writes or prints how many windows each word is in, and the occurrences that all of them hold.
fn summarise<C: Chain<Item = (String, u64)>>(
    env: &Environment,
    windows: Stream<C>,
    tsv: bool,
    sink: &OutputArgs,
) -> Result<()> {
    let by_word = windows.keyed().fold_assoc(
        (0, 0),
        |(windows, words), occurrences: u64| {
            *windows += 1;
            *words += occurrences;
        },
        |(windows, words), more: (u64, u64)| {
            *windows += more.0;
            *words += more.1;
        },
    );
    let by_word = by_word.unkey();
    if let Some(dir) = sink.dir() {
        by_word
            .map(|(word, (windows, words))| format!("{word}\t{windows}\t{words}"))
            .write_lines_parallel(dir);
        return env.run();
    }
    let most_first = |a: &(String, (u64, u64)), b: &(String, (u64, u64))| {
        b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))
    };
    let by_word = by_word.sorted_by(most_first).collect::<Vec<_>>();
    env.run()?;

    let by_word = by_word.take()?;
    let shown = if tsv { by_word.len() } else { 20 };
    let rows = by_word.into_iter().take(shown);
    print_rows(rows.map(|(word, (windows, words))| (word, format!("{windows}\t{words}"))))
        .map_err(output)
}
