//! What the examples share: printing result rows and tables, and the queries of the streaming benchmarks.

pub use thalweg_queries as queries;

use clap::{Args, ValueEnum};
use std::fmt::Display;
use std::io::{self, BufWriter, Write};

/// What the programs of the streaming benchmarks are told.
#[derive(Args)]
pub struct Generated {
    /// How many events, made from the seed before the job begins.
    #[arg(long, default_value_t = 1_000_000)]
    pub events: u64,
    /// What the events are drawn from.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Print every row, and nothing else; otherwise how many there are, and their digest.
    #[arg(long)]
    pub tsv: bool,
    /// How the engine runs.
    #[command(flatten)]
    pub engine: thalweg::cli::EngineArgs,
}

/// The two forms of the Yahoo benchmark's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// 64 bytes each, where every field has its place
    Fixed,
    /// Text of 136 bytes on average, as in the AIR paper, which has to be parsed
    Variable,
}

/// What the programs of the Yahoo benchmark are told.
#[derive(Args)]
pub struct Seen {
    /// What the events are before they are read: the answers are the same.
    #[arg(long, value_enum, default_value_t = Form::Fixed)]
    pub form: Form,
    /// The rest.
    #[command(flatten)]
    pub given: Generated,
}

/// Prints rows of a left and a right column to standard output, separated by a tab.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn print_rows<A: Display, B: Display>(
    rows: impl IntoIterator<Item = (A, B)>,
) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for (left, right) in rows {
        writeln!(out, "{left}\t{right}")?;
    }
    out.flush()
}

/// Prints rows to standard output: below their titles, in columns, or, as `tsv`, alone and separated
/// by tabs.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn print_table<const N: usize>(
    tsv: bool,
    titles: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if tsv {
        for row in rows {
            writeln!(out, "{}", row.join("\t"))?;
        }
        return out.flush();
    }
    let titles = titles.map(str::to_owned);
    let lines = || std::iter::once(&titles).chain(rows);
    let widths: Vec<usize> = (0..N)
        .map(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    for row in lines() {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    out.flush()
}

/// What went wrong when printing, as an error of the engine's kind.
pub fn output(cause: io::Error) -> thalweg::Error {
    thalweg::Error::new(thalweg::ErrorKind::Io, "cannot write to standard output").caused_by(cause)
}

/// Prints lines to standard output.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn print_lines(lines: impl IntoIterator<Item = impl Display>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
