//! When records happened, and how far time has come.

mod assign;
mod drift;
mod watermarks;

pub use watermarks::{Disorder, WatermarkGenerator, Watermarks};
