//! Workloads: the events of the Nexmark and the Yahoo streaming benchmarks, generated from a seed, and the answer to
//! every query, computed sequentially in the simplest way.
//!
//! The answers are an oracle for engines, so this crate does not depend on one: the feature `thalweg` only adds the
//! derive of `thalweg::Data` to the record types.
//!
//! - [`nexmark`]: persons, auctions and bids; queries 0 to 8.
//! - [`ysb`]: views of and clicks on advertisements; `ysb`, `ysb_star` and `swa`.
//! - [`readings`]: keys, times and numbers, for windows alone.
//! - [`segments`]: encoded events in memory and in a file, so that every system reads the same bytes.
//! - [`digest`]: one number for an answer, whatever the order of its rows.
//!
//! An event is a function of a [`Recipe`] and its number alone: any task can make any range.
//!
//! ```
//! use thalweg_workloads::digest::digest;
//! use thalweg_workloads::nexmark::{self, Segments, oracle};
//!
//! let segments = Segments::generate(nexmark::recipe(7), 10_000);
//! let rows = oracle::q2(segments.events());
//! assert!(rows.iter().all(|row| row.auction % 123 == 0));
//!
//! // The same from another order of the rows.
//! assert_eq!(digest(&rows), digest(rows.iter().rev()));
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod digest;
pub mod error;
pub mod nexmark;
mod random;
pub mod readings;
mod recipe;
pub mod segments;
pub mod windows;
mod wire;
pub mod ysb;

pub use recipe::Recipe;

/// Microseconds in a second: the unit of all times here is the microsecond.
pub const SECOND: i64 = 1_000_000;
