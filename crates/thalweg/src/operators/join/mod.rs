//! Joins: records of two streams that belong together, by equal keys or by how far apart they are in event time.
//!
//! By equal keys:
//!
//! ```text
//!   left  ── pair, hash ──║ by key, everywhere, or forward ║──┐
//!                                                             ├── one stage: table, or sort-merge
//!   right ── pair, hash ──║ by key, everywhere, or forward ║──┘
//! ```
//!
//! How records come together (`inputs`) and how they are joined where they are (`hash`, `merge`, `symmetric`)
//! know nothing of each other; `local` says what goes with what. A kind of join is a type (`kinds`) that says
//! which records make a result, so that none of this is asked while records flow.
//!
//! By how far apart records are, and not by the windows they are in:
//!
//! ```text
//!   left  ── pair, hash ──║ by key, or forward ║──┐
//!                                                 ├── one stage: Tagged, each value with its side
//!   right ── pair, hash ──║ by key, or forward ║──┘
//!                  │
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
mod cross;
mod equal;
mod fixed;
mod hash;
mod inputs;
mod interval;
mod joinable;
mod kinds;
mod local;
mod meeting;
mod merge;
mod symmetric;
mod tagged;
mod timeline;
mod with;

pub use as_of::AsOf;
pub use fixed::StaticTable;
pub use interval::Interval;
pub use joinable::{Joinable, JoinableWith, KeyOf, TimeOf, ValueOf};
pub use tagged::Side;
pub(super) use tagged::{TaggedBy, both};
pub use with::JoinWith;

#[cfg(all(test, not(loom)))]
mod tests;
