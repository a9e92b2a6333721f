//! Expressions of the columns of a row, as data: checked against a schema, and evaluated a block at a time. Nothing
//! here depends on graphs or tasks.

mod bound;
mod eval;
mod expr;
#[cfg(test)]
mod tests;

pub(crate) use bound::{Bound, bind, find};
pub(crate) use eval::evaluate;
pub use expr::{Expr, Function, col, lit};
