//! What the examples print by, and the documents that there always are.
//!
//! A package of its own with the first program, `wordcount`, so that a newcomer waits for nothing that it does not need.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

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

/// This project's own documents: what there always is to count words of.
pub fn documents() -> Vec<PathBuf> {
    let project = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions"]
        .map(|path| project.join(path))
        .to_vec()
}
