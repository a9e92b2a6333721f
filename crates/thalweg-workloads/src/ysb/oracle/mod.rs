//! The queries of the Yahoo benchmark, answered in the simplest way: for checking engines, not for speed.
//!
//! An answer is a multiset of rows: the order in which a function returns them has no meaning. Windows are `[start,
//! start + size)`, their starts multiples of the slide since 1970; partial windows at both ends of the stream count.
//! Events may come in any order, and at the end of the stream all windows are closed.
//!
//! Events of the variable form are [parsed](super::TextEvent::parse) first; the answers are the same.

mod star;
mod swa;
#[cfg(test)]
mod tests;
mod ysb;

pub use star::{RowStar, STAR, ysb_star};
pub use swa::{RowSwa, SWA, swa};
pub use ysb::{RowYsb, YSB, ysb};
