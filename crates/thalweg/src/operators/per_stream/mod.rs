//! Operators on a whole stream without keys: they collect, order, limit or distribute its records.

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

/// Chains that end in one of these operators.
pub mod chains {
    pub use super::chunks::Chunks;
    pub use super::limit::Limit;
    pub use super::scan::Scan;
}
