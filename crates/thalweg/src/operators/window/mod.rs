//! Windows: finite parts of a stream, each with a result of its own.
//!
//! ```text
//!   combines (count, sum, max, …)                   does not (fold, to_vec, …)
//!
//!   records                                         records
//!      │ Slicing: a table per slice, in each task        │ AddHash
//!      ▼                                               ▼
//!   Partial(hash, key, (slice, aggregate))           Hashed(hash, record)
//!      ║ exchange by key group                         ║ exchange by key group
//!      ▼                                               ▼
//!   Firing: closed slices become windows
//! ```
//!
//! The table of a slice aggregates records in the order of arrival until the watermark has passed the slice's
//! end. The aggregates then enter the state that the windows share, and the slice is dropped after the last of
//! its windows has emitted its result. A record therefore costs one look-up, however many windows it is in, and
//! memory is that of the open slices and their keys. What has no room there goes to disk: see `firing/on_disk.rs`.
//!
//! Windows with early results use the same tables: see `firing/early.rs` and [`Early`].
//!
//! Sessions depend on the records, so they are not sliced: see [`SessionWindow`]. Neither are the windows that a
//! program defines itself: see [`CustomWindow`].

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod all;
mod arrival;
mod custom;
mod early;
mod event_time;
mod firing;
mod frames;
mod in_order;
mod join;
mod late;
mod misplaced;
mod pane;
mod processing_time;
mod rolling;
mod session;
mod slices;
mod slicing;
mod windowed;

pub use all::{OfAll, Unkeyed};
pub use arrival::{
    CountWindow, GlobalWindow, Inspected, LastWindow, StoredValue, Transaction, TransactionWindow,
};
pub use custom::{CustomPane, CustomWindow, MakeWindows, WindowContext};
pub use early::Early;
pub use event_time::{AtEnd, Earliness, EventTimeWindow};
pub use in_order::WindowingInOrder;
pub use join::{BothLists, Joining};
pub use pane::{CountPane, Pane, Timing};
pub use processing_time::ProcessingTimeWindow;
pub use session::SessionWindow;
/// Chains that end in windows, and what they are made of.
pub mod chains {
    pub use super::all::WithoutKey;
    pub use super::arrival::chains::*;
    pub use super::custom::RunningWindows;
    pub use super::early::{Counts, EarlyStates};
    pub use super::firing::{Feed, Firing, Parts, Values};
    pub use super::late::Punctual;
    pub use super::processing_time::{ByClock, Clocked};
    pub use super::session::chains::*;
}

pub use windowed::{ByKey, Ending, Window, Windowed, Windowing};

#[cfg(test)]
pub(super) mod tests;
