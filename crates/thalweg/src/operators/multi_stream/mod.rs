//! Operators with several input or output streams. Joins have a folder of their own.

pub mod connect;
mod merge;
mod route;
mod split;
mod zip;

pub use route::Route;

/// Chains that end in one of these operators.
pub mod chains {
    pub use super::connect::{Connected, StatefulWith};
    pub use super::route::{Predicates, Several};
    pub use super::zip::Zipped;
}
