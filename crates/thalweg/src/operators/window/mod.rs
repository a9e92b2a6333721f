//! Windows: finite parts of a stream, each with a result of its own.
//!
//! ```text
//!   combines (count, sum, max, …)                   does not (fold, to_vec, …)
//!
//!   records                                         records
//!      │ Slicing: a table a slice, in each task        │ AddHash
//!      ▼                                               ▼
//!   Partial(hash, key, (slice, aggregate))           Hashed(hash, record)
//!      ║ exchange by key group                         ║ exchange by key group
//!      ▼                                               ▼
//!   Firing: closed slices become windows
//! ```
//!
//! A slice's table takes its records in whatever order they come, until the watermark has passed its end.
//! Then it goes into what the windows share, and is dropped when the last of them has had its result. So
//! a record costs one look-up, however many windows it is in, and memory is that of the slices and keys
//! that live.
//!
//! Windows with results before they end need the same tables: see `firing/early.rs` and [`Early`].
//!
//! Sessions are where their records are, so there is nothing to slice: see [`SessionWindow`]. Nor is anything
//! known of windows that a program makes itself: see [`CustomWindow`].

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
mod pane;
mod processing_time;
mod rolling;
mod session;
mod slices;
mod slicing;
mod windowed;

pub use all::{OfAll, Unkeyed};
pub use arrival::{
    CountWindow, GlobalWindow, Inspected, Kept, LastWindow, Transaction, TransactionWindow,
};
pub use custom::{CustomPane, CustomWindow, MakeWindows, WindowContext};
pub use early::Early;
pub use event_time::{AtEnd, Earliness, EventTimeWindow};
pub use in_order::{ToVec, WindowingInOrder};
pub use join::{BothLists, Joining};
pub use pane::{CountPane, Pane, Timing};
pub use processing_time::ProcessingTimeWindow;
pub use session::SessionWindow;
pub use windowed::{ByKey, Ending, Window, Windowed, Windowing};

#[cfg(all(test, not(loom)))]
pub(super) mod tests;
