//! Counts the words of text files over windows of each word's occurrences, as RStream does: the result of a
//! window is given when it is full, while the text is still being read.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::operators::window::CountWindow;
use thalweg::{Result, cli, text};
use thalweg_examples::{output, print_rows};

/// Count the words of files, directories and globs over windows of each word's occurrences; by default of
/// this project's own documents.
#[derive(Parser)]
struct Args {
    /// What to read.
    files: Vec<PathBuf>,
    /// How many occurrences a window holds.
    #[arg(long, default_value_t = 10)]
    size: u64,
    /// How many occurrences there are from the beginning of a window to that of the next.
    #[arg(long, default_value_t = 5)]
    slide: u64,
    /// Count the windows too that are not full at the end.
    #[arg(long)]
    partial: bool,
    /// Print the words of all windows, and nothing else; otherwise the twenty that fill most.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(count)
}

fn count() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let mut files = args.files;
    if files.is_empty() {
        files = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions"]
            .map(project)
            .to_vec();
    }
    let mut windows = CountWindow::sliding(args.size, args.slide);
    if args.partial {
        windows = windows.keep_partial();
    }

    let counts = env
        .lines(files)
        .flat_each(text::LowercaseWords)
        .group_by_ref(|word| *word)
        .window(windows)
        .count();
    // How many windows each word has filled, and the occurrences that all of them hold.
    let by_word = counts.fold_assoc(
        (0, 0),
        |(windows, words), window| {
            *windows += 1;
            *words += window.value;
        },
        |(windows, words), more| {
            *windows += more.0;
            *words += more.1;
        },
    );
    let most_first = |a: &(String, (u64, u64)), b: &(String, (u64, u64))| {
        b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))
    };
    let by_word = by_word.unkey().sorted_by(most_first).collect::<Vec<_>>();
    env.run()?;

    let by_word = by_word.take()?;
    let shown = if args.tsv { by_word.len() } else { 20 };
    let rows = by_word.into_iter().take(shown);
    print_rows(rows.map(|(word, (windows, words))| (word, format!("{windows}\t{words}"))))
        .map_err(output)
}

fn project(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}
