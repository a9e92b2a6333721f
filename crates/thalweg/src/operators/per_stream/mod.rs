//! Operators that see a whole stream without keys: they collect, order, limit or place its records.

mod absorb;
mod aggregate;
pub mod cache;
mod chunks;
mod fold;
pub(crate) mod limit;
mod reduce;
mod repartition;
mod scan;
mod sorted;
mod top;
