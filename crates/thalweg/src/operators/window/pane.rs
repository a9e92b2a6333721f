//! What comes out of a window.

use crate::data::Data;
use crate::time::Timestamp;

/// The result of one window of time, with its bounds.
///
/// The record's own timestamp is the last one within the window, `end` less a microsecond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct Pane<T> {
    /// The first timestamp of the window.
    pub start: Timestamp,
    /// The first timestamp behind the window.
    pub end: Timestamp,
    /// The result.
    pub value: T,
}

/// The result of one window of arrivals, with its bounds: which records of the key it holds.
///
/// In a stream with timestamps, its own timestamp is the greatest of those records, unless the window says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct CountPane<T> {
    /// The number of the first record, counted from 0 among all that arrived for its key.
    pub first: u64,
    /// How many records the window holds.
    pub count: u64,
    /// The result.
    pub value: T,
}
