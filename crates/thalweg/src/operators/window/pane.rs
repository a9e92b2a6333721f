//! The results of windows.

use crate::data::Data;
use crate::time::Timestamp;

/// The result of one time window, with its bounds.
///
/// The timestamp of the result is the last one within the window, `end` minus a microsecond. For a window of processing
/// time, it is the greatest of the window's records. Bounds beyond the first or the last timestamp are cut off there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct Pane<T> {
    /// The first timestamp of the window.
    pub start: Timestamp,
    /// The first timestamp after the window.
    pub end: Timestamp,
    /// Whether the result is the regular one, an early one, or one that late records have changed.
    pub timing: Timing,
    /// The result.
    pub value: T,
}

impl<T> Pane<T> {
    /// Creates the result of a window at its end.
    pub fn on_time(start: Timestamp, end: Timestamp, value: T) -> Self {
        Self { start, end, timing: Timing::OnTime, value }
    }

    /// The same window, with another value.
    pub(super) fn with<U>(&self, value: U) -> Pane<U> {
        Pane { start: self.start, end: self.end, timing: self.timing, value }
    }
}

/// Why a window has emitted a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
#[non_exhaustive]
pub enum Timing {
    /// The window has not ended; the value covers the records [so far](super::Early). The first such result of a
    /// key in a window is number 1. It replaces earlier ones.
    Early(u32),
    /// The window has ended: it is over, full, committed or fired. There is one such result of a key in a window.
    OnTime,
    /// Records have arrived after that, within the allowed [lateness](super::EventTimeWindow::allowed_lateness);
    /// the value covers all of them. The first such result of a key in a window is number 1. It replaces earlier
    /// ones.
    Late(u32),
}

/// The result of one window by order of arrival, with its bounds: which records of the key it covers.
///
/// In a stream with timestamps, the timestamp of the result is the greatest of those records, unless documented
/// otherwise for the kind of window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct CountPane<T> {
    /// The number of the first record, counted from 0 among all that arrived for its key.
    pub first: u64,
    /// The number of records in the window; in an early result, of those so far.
    pub count: u64,
    /// Whether the window was complete, or the result is an early one.
    pub timing: Timing,
    /// The result.
    pub value: T,
}

impl<T> CountPane<T> {
    /// Creates the result of a complete window.
    pub fn on_time(first: u64, count: u64, value: T) -> Self {
        Self { first, count, timing: Timing::OnTime, value }
    }
}
