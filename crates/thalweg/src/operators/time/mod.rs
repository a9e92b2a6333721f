//! When records happened, and how far time has come.

mod assign;
mod drift;
#[cfg(all(test, not(loom)))]
mod tests;
mod watermarks;

pub use watermarks::{Disorder, Punctuated, WatermarkGenerator, Watermarks};
