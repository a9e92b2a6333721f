//! Joins of two streams, by equal keys or by how far apart records are in event time.
//!
//! By equal keys:
//!
//! ```text
//!   left  ── pair, hash ──║ by key, everywhere, or forward ║──┐
//!                                                             ├── one stage: table, or sort-merge
//!   right ── pair, hash ──║ by key, everywhere, or forward ║──┘
//! ```
//!
//! How records are brought together (`inputs`) and how they are joined in a task (`hash`, `merge`, `symmetric`)
//! are independent; `local` defines which combinations are allowed. A kind of join is a type (`kinds`) with
//! constants for which records make a result, so that nothing is decided per record.
//!
//! By how far apart records are, independent of windows:
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
//! `meeting` is the task: it handles keys, watermarks and receivers that are full, and does not know what makes
//! a pair. `interval` and `as_of` define what makes a pair, and do not know of tasks. For pairs by windows see
//! [`window_join`](crate::KeyedStream::window_join).

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
mod symmetric_side;
mod tagged;
mod timeline;
mod with;

pub use as_of::AsOf;
pub use fixed::StaticTable;
pub use interval::Interval;
pub use joinable::{Joinable, JoinableWith, KeyOf, TimeOf, ValueOf};
pub use tagged::{Either, Tagged};
pub(super) use tagged::{TaggedBy, both};
pub use with::JoinWith;

/// How [`JoinWith`] joins, as its type names it: how records are sent, how a task joins them, and the kind of join.
pub mod strategies {
    pub use super::joinable::SameKey;
    pub use super::kinds::{Anti, Full, Inner, Kind, Left, Right, Semi};
    pub use super::local::{
        Allows, ByKey, Keeping, LeftEverywhere, Local, Makes, OneSided, RightEverywhere, Shipping,
        Sorting, TableOfLeft, TableOfRight, TwoTables,
    };
}

#[cfg(test)]
mod tests;
