//! Sorting: rows as bytes with the same order, sorted by the engine's external sort.

use super::chain::{Blocks, erased};
use super::kernels::mismatch;
use super::ordered;
use super::pack::{BYTES, Fill, ROWS, pack};
use crate::Visit;
use crate::data::Data;
use crate::dynamic::columns::{Block, Column, Columnar, Field};
use crate::error::Result;
use crate::plan::{Details, Origin};
use crate::stream::Stream;
use std::sync::Arc;

/// Emits all rows in the order of these columns, each of which may be descending.
#[inline]
#[track_caller]
pub(super) fn sort(
    stream: Stream<Blocks>,
    schema: &[Field],
    by: &[(usize, bool)],
    (name, details): (&str, Details),
) -> Stream<Blocks> {
    let rows = Rows::new(schema, by);
    let sorted = stream
        .flat_each(rows.layout.clone())
        .name(format!("{name}/rows"))
        .sorted()
        .name(format!("{name}/order"));
    erased(pack(sorted, Origin::here("sort"), details, rows))
}

/// Emits the first `n` rows in the order of these columns.
#[inline]
#[track_caller]
pub(super) fn top(
    stream: Stream<Blocks>,
    schema: &[Field],
    (n, by): (usize, &[(usize, bool)]),
    (name, details): (&str, Details),
) -> Stream<Blocks> {
    let rows = Rows::new(schema, by);
    let first = stream
        .flat_each(rows.layout.clone())
        .name(format!("{name}/rows"))
        .top_by(n, |a, b| b.cmp(a))
        .name(format!("{name}/order"));
    erased(pack(first, Origin::here("top"), details, rows))
}

/// A row, encoded as bytes with the same order.
#[derive(Data, PartialEq, Eq, PartialOrd, Ord)]
struct SortRow(Vec<u8>);

/// The order in which the columns of a row are encoded, and which of them are descending: first the columns to sort
/// by, then the others.
#[derive(Clone)]
struct Layout(Arc<[(usize, bool)]>);

impl Visit<Columnar> for Layout {
    type Out = SortRow;
    type Scratch = Vec<u8>;

    fn visit(&self, block: Block, scratch: &mut Vec<u8>, emit: &mut impl FnMut(SortRow)) {
        for at in 0..block.rows() {
            scratch.clear();
            for (column, descending) in self.0.iter() {
                ordered::write(&block.columns()[*column], at, *descending, scratch);
            }
            emit(SortRow(scratch.as_slice().into()));
        }
    }
}

/// Sorted rows, to be packed into a block.
#[derive(Clone)]
struct Rows {
    layout: Layout,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    /// Whether a row did not decode.
    torn: bool,
}

impl Rows {
    fn new(schema: &[Field], by: &[(usize, bool)]) -> Self {
        let mut layout: Vec<(usize, bool)> = Vec::new();
        for &(column, descending) in by {
            if layout.iter().all(|(other, _)| *other != column) {
                layout.push((column, descending));
            }
        }
        for column in 0..schema.len() {
            if layout.iter().all(|(other, _)| *other != column) {
                layout.push((column, false));
            }
        }
        let columns = schema.iter().map(|field| Column::new(field.kind)).collect();
        Self { layout: Layout(layout.into()), columns, rows: 0, bytes: 0, torn: false }
    }
}

impl Fill<SortRow> for Rows {
    fn add(&mut self, SortRow(bytes): SortRow) {
        let mut input = bytes.as_slice();
        for (column, descending) in self.layout.0.iter() {
            let read = ordered::read(&mut input, *descending, &mut self.columns[*column]);
            self.torn |= !read;
        }
        self.rows += 1;
        self.bytes += bytes.len();
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BYTES
    }

    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn take(&mut self) -> Result<Block> {
        let empty = self.columns.iter().map(|column| Column::new(column.kind())).collect();
        let columns = std::mem::replace(&mut self.columns, empty);
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if self.torn {
            return Err(mismatch());
        }
        Block::new(rows, columns).ok_or_else(mismatch)
    }
}
