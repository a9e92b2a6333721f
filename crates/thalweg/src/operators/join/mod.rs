//! Joins of two streams in event time by how far apart records are, and not by the windows they are in.
//!
//! ```text
//!   left records            right records
//!      │ Side::Left            │ Side::Right
//!      │ AddHash               │ AddHash
//!      ▼                       ▼
//!   Hashed(hash, (key, side of a value))
//!      ╚═══════════╦═══════════╝ exchange by key group
//!                  ▼
//!   Joined: for each key, the records of both sides that may still have partners, by time
//! ```
//!
//! `meeting` is the task: it knows of keys, watermarks and receivers that are full, and nothing of what
//! makes a pair. `interval` and `as_of` know what makes a pair, and nothing of tasks. For pairs by
//! windows see [`window_join`](crate::KeyedStream::window_join).

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod as_of;
mod interval;
mod meeting;
mod timeline;

pub use as_of::AsOf;
pub use interval::Interval;

#[cfg(all(test, not(loom)))]
mod tests;
