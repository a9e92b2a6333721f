//! Kernels: stateless operators on blocks.

use crate::Visit;
use crate::dynamic::columns::{Block, Column, Text};
use crate::dynamic::expressions::{Bound, evaluate};
use crate::dynamic::operation::Parts;
use crate::error::{Error, ErrorKind, Result};
use crate::operators::text;
use std::sync::Arc;

/// A stateless operator, ready to run.
pub(super) enum Kernel {
    Select(Vec<Bound>),
    Filter(Bound),
    Explode(usize, Parts),
}

/// The error for a block that does not have the checked schema, which is a bug in the engine.
#[cold]
pub(super) fn mismatch() -> Error {
    Error::new(ErrorKind::Internal, "a block is not of the checked schema")
}

impl Kernel {
    pub(super) fn apply(&self, block: Block) -> Result<Block> {
        match self {
            Self::Select(columns) => {
                let columns: Vec<Arc<Column>> =
                    columns.iter().map(|bound| evaluate(bound, &block)).collect::<Result<_>>()?;
                Block::new(block.rows(), columns).ok_or_else(mismatch)
            }
            Self::Filter(keep) => filter(&*evaluate(keep, &block)?, block),
            Self::Explode(at, parts) => explode(block, *at, *parts),
        }
    }
}

fn filter(keep: &Column, block: Block) -> Result<Block> {
    let Column::Bool(keep) = keep else { return Err(mismatch()) };
    let places: Vec<usize> = (0..keep.len()).filter(|at| keep.get(*at)).collect();
    Ok(if places.len() == block.rows() { block } else { block.take(&places) })
}

/// Replaces the texts of a column by their parts, and repeats the other columns beside them.
fn explode(block: Block, at: usize, parts: Parts) -> Result<Block> {
    let alone = block.columns().len() == 1;
    let mut columns = block.into_columns();
    if at >= columns.len() {
        return Err(mismatch());
    }
    // A column without other owners is modified in place.
    let mut source = Arc::unwrap_or_clone(columns.swap_remove(at));
    // `swap_remove` has put the last column in the place of the one removed.
    let Column::Utf8(source) = &mut source else { return Err(mismatch()) };
    if parts == Parts::LowercaseWords {
        source.lowercase_ascii();
    }
    let mut out = Exploded {
        parts: Text::with_capacity(source.data().len() / 4, source.data().len()),
        rows: (!alone).then(Vec::new),
    };
    match parts {
        Parts::Words | Parts::LowercaseWords => out.each(source, &text::Words),
        Parts::Whitespace => out.each(source, &text::Whitespace),
        Parts::Split(at) => out.each(source, &text::Split(at)),
    }
    let Exploded { parts, rows } = out;
    let count = parts.len();
    let mut columns: Vec<Arc<Column>> = match rows {
        Some(rows) => columns.iter().map(|column| Arc::new(column.take(&rows))).collect(),
        None => columns,
    };
    columns.push(Arc::new(Column::Utf8(parts)));
    let last = columns.len() - 1;
    columns.swap(at, last);
    Block::new(count, columns).ok_or_else(mismatch)
}

/// The parts of texts and, if requested, the row of each.
struct Exploded {
    parts: Text,
    rows: Option<Vec<usize>>,
}

impl Exploded {
    #[inline(always)]
    fn each<V: Visit<str, Out = str, Scratch = ()>>(&mut self, source: &Text, visitor: &V) {
        for (row, text) in source.iter().enumerate() {
            let start = text.as_ptr().addr();
            visitor.visit(text, &mut (), &mut |part| {
                // A part lies within its text, so its start determines how much may be copied.
                let from = part.as_ptr().addr().wrapping_sub(start);
                self.parts.push_part(text, from, from + part.len());
                if let Some(rows) = &mut self.rows {
                    rows.push(row);
                }
            });
        }
    }
}
