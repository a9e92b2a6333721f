//! The most frequent words of a text over a window that slides with time: what is being talked about.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::{Result, cli};
use thalweg_examples::queries::words::{paced, rolling_top, words};
use thalweg_examples::{OutputArgs, documents, output, positive, print_lines, print_table, span};

/// Find the most frequent words of each window that slides over the lines of files; by default of this
/// project's own documents.
///
/// Text says nothing of time, so it is read aloud: line n is said n / PACE seconds after the first.
#[derive(Parser)]
struct Args {
    /// What to read: files, and folders of files.
    files: Vec<PathBuf>,
    /// How many words of each window.
    #[arg(long, default_value_t = 3)]
    top: usize,
    /// How long a window is, as in 90s or 5min.
    #[arg(long, default_value = "60s", value_parser = span)]
    size: Duration,
    /// How long it is from the beginning of a window to that of the next.
    #[arg(long, default_value = "20s", value_parser = span)]
    slide: Duration,
    /// Lines in a second.
    #[arg(long, default_value = "1", value_parser = positive)]
    pace: f64,
    /// Print rows of the window's beginning in seconds, place, word and count, and nothing else; otherwise
    /// a line a window.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(find)
}

fn find() -> Result<()> {
    let Args { files, top, size, slide, pace, tsv, sink, engine } = Args::parse();
    let env = engine.environment()?;
    let files = if files.is_empty() { documents() } else { files };

    let lines = env.iter(paced(files, pace)).try_map(|line| line);
    let rows = rolling_top(words(lines), size, slide, top);
    if let Some(dir) = sink.dir() {
        rows.write_lines_parallel(dir);
        return env.run();
    }
    let rows = rows.sorted().collect::<Vec<_>>();
    env.run()?;

    let rows = rows.take()?;
    if tsv {
        return print_lines(rows).map_err(output);
    }
    let windows = rows.chunk_by(|a, b| a.start == b.start);
    let lines = windows.map(|window| {
        let from = window[0].start.as_micros() as f64 / 1e6;
        let found = window.iter().map(|row| format!("{} {}", row.word, row.count));
        let until = from + size.as_secs_f64();
        [format!("{from} s to {until} s"), found.collect::<Vec<_>>().join(", ")]
    });
    let lines: Vec<[String; 2]> = lines.collect();
    print_table(false, ["window", "most frequent words"], &lines).map_err(output)
}
