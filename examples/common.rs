//! What the examples share: printing result rows.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

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
