//! Rows as the sinks that write files serialise them.

use crate::Visit;
use crate::data::Record;
use crate::dynamic::columns::{Block, Column, Columnar, Field};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::sync::Arc;

/// A visitor that splits blocks into rows that can be serialised: with the columns' names, or without.
pub(super) struct Views {
    pub(super) schema: Arc<[Field]>,
    pub(super) named: bool,
}

/// The kind of record that a [`View`] is.
pub(super) struct Viewed {
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl Record for Viewed {
    type Of<'a> = View<'a>;
}

/// A row of a block.
pub(super) struct View<'a> {
    views: &'a Views,
    block: &'a Block,
    at: usize,
}

impl Visit<Columnar> for Views {
    type Out = Viewed;
    type Scratch = ();

    fn visit(&self, block: Block, (): &mut (), emit: &mut impl FnMut(View<'_>)) {
        (0..block.rows()).for_each(|at| emit(View { views: self, block: &block, at }));
    }
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = self.block.columns();
        if self.views.named {
            let mut map = serializer.serialize_map(Some(columns.len()))?;
            for (field, column) in self.views.schema.iter().zip(columns) {
                map.serialize_entry(&field.name, &Cell { column, at: self.at })?;
            }
            map.end()
        } else {
            let mut list = serializer.serialize_seq(Some(columns.len()))?;
            for column in columns {
                list.serialize_element(&Cell { column, at: self.at })?;
            }
            list.end()
        }
    }
}

struct Cell<'a> {
    column: &'a Column,
    at: usize,
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = self.at;
        match self.column {
            Column::I64(values) => serializer.serialize_i64(values[at]),
            Column::U64(values) => serializer.serialize_u64(values[at]),
            Column::F64(values) => serializer.serialize_f64(values[at]),
            Column::Bool(bits) => serializer.serialize_bool(bits.get(at)),
            Column::Utf8(text) => serializer.serialize_str(text.get(at)),
            Column::Bytes(bytes) => serializer.serialize_bytes(bytes.get(at)),
        }
    }
}
