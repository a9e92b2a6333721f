//! Rows held by column: types, columns, blocks. Nothing here depends on graphs or tasks.

mod block;
mod column;
mod types;

pub use block::{Block, Columnar};
pub use column::{Bits, Bytes, Column, Text};
pub use types::{Field, Type, Value};
