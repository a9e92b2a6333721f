//! What comes out of a window.

use crate::data::Data;
use crate::time::Timestamp;

/// The result of one window of time, with its bounds.
///
/// The record's own timestamp is the last one within the window, `end` less a microsecond; of a window of processing
/// time, the greatest of the window's records. Bounds beyond the first or the last timestamp are cut off there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct Pane<T> {
    /// The first timestamp of the window.
    pub start: Timestamp,
    /// The first timestamp behind the window.
    pub end: Timestamp,
    /// Whether it is the window's result, one before that, or one that late records have changed.
    pub timing: Timing,
    /// The result.
    pub value: T,
}

impl<T> Pane<T> {
    /// The result that a window has when it ends.
    pub fn on_time(start: Timestamp, end: Timestamp, value: T) -> Self {
        Self { start, end, timing: Timing::OnTime, value }
    }

    /// The same window, with another value.
    pub(super) fn with<U>(&self, value: U) -> Pane<U> {
        Pane { start: self.start, end: self.end, timing: self.timing, value }
    }
}

/// Why a window has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
#[non_exhaustive]
pub enum Timing {
    /// It has not ended, and this is what has come [so far](super::Early). The first such result of a key in a
    /// window is number 1. It replaces those before.
    Early(u32),
    /// It has ended.
    OnTime,
    /// Records have come after that, within the
    /// [lateness](super::EventTimeWindow::allowed_lateness) that is allowed: the result with all of
    /// them. The first such result of a key in a window is number 1. It replaces those before.
    Late(u32),
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
