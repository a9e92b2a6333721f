//! Counts the words of text files: maximal runs of the letters A to Z, lower-cased.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::{Result, cli, text};
use thalweg_first::{documents, output, print_rows};

/// Count the words of files, directories and globs; by default of this project's own documents.
#[derive(Parser)]
struct Args {
    /// What to read.
    files: Vec<PathBuf>,
    /// How the job is written: both count in each task before words are sent.
    #[arg(long, value_enum, default_value_t = Form::Idiomatic)]
    form: Form,
    /// Print every row, and nothing else; otherwise the twenty most frequent words.
    #[arg(long)]
    tsv: bool,
    /// Write every row into files of this directory, in no order, and print nothing. With `--checkpoint`, a
    /// program that is killed goes on when it is run again.
    #[arg(long, value_name = "DIR", conflicts_with = "tsv")]
    output: Option<PathBuf>,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Idiomatic,
    Assoc,
}

fn main() -> ExitCode {
    cli::run(count)
}

fn count() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let files = if args.files.is_empty() { documents() } else { args.files };

    let words = env.lines(files).flat_each(text::LowercaseWords).group_by_ref(|word| *word);
    let counts = match args.form {
        Form::Idiomatic => words.count().unkey().boxed(),
        Form::Assoc => words
            .fold_assoc(0, |count, _| *count += 1, |count, other| *count += other)
            .unkey()
            .boxed(),
    };
    if let Some(dir) = args.output {
        counts.map(|(word, count)| format!("{word}\t{count}")).write_lines_parallel(dir);
        return env.run();
    }
    let by_count = |a: &(String, u64), b: &(String, u64)| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
    let counts = counts.sorted_by(by_count).collect::<Vec<_>>();
    env.run()?;

    let counts = counts.take()?;
    let shown = if args.tsv { counts.len() } else { 20 };
    print_rows(counts.into_iter().take(shown)).map_err(output)
}
