//! Event time: timestamps and watermarks.

mod assign;
mod drift;
mod saved;
mod splits;
#[cfg(test)]
mod tests;
mod watermarks;

pub use assign::Assign;
pub use watermarks::{Disorder, Punctuated, WatermarkGenerator, Watermarks};
