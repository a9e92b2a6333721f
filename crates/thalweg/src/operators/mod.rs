//! What a stream can do: one operator, one file, with the method that a program calls, its
//! documentation, the operator itself, and its tests.
//!
//! Folders say what an operator needs to know: `per_record` one record, `per_stream` a whole stream,
//! `multi_stream` several streams, and `keyed`, `window`, `join`, `time`, `loops` and `calls` what their names say.

pub mod aggregates;
pub mod calls;
pub mod chains;
pub mod join;
pub mod keyed;
pub mod loops;
pub(crate) mod multi_stream;
pub(crate) mod per_record;
pub(crate) mod per_stream;
#[cfg(test)]
mod protocol;
mod side_outlet;
pub mod time;
pub mod window;

pub use aggregates::{Number, Summand};
pub use multi_stream::{Route, connect};
pub use per_record::{Side, Texts, Visit, VisitInPieces, text};
pub use per_stream::cache;
