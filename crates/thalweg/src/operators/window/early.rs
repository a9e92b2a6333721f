//! Early results: when windows emit results before they end.

mod states;

use crate::clock::{Nanos, nanos};
use crate::plan::Details;
use std::time::Duration;

pub(super) use states::Pace;
pub use states::{At, Counts, EarlyStates, Progress, Tick};

/// When windows emit results before they are complete; for the method `early` of
/// [`EventTimeWindow`](super::EventTimeWindow::early), [`ProcessingTimeWindow`](super::ProcessingTimeWindow::early),
/// [`SessionWindow`](super::SessionWindow::early), [`CountWindow`](super::CountWindow::early),
/// [`TransactionWindow`](super::TransactionWindow::early), [`GlobalWindow`](super::GlobalWindow::early) and
/// [`CustomWindow`](super::CustomWindow::early). ([`LastWindow`](super::LastWindow) has a result for each record.)
///
/// An early result belongs to one key in one window, and covers all records that have reached the task that owns
/// the key. It replaces the results before it, and is replaced by the result of the complete window, which is the same
/// as without early results. A window that has not changed since its last result emits no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early {
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Every(u64),
    Interval(Duration),
}

impl Early {
    /// Emits a result after every `records` records of a key in a window: the first covers that many records,
    /// the second twice as many.
    ///
    /// For exact counts, records are sent one by one to the tasks that own their keys, and are not aggregated
    /// before. A record costs a look-up for each window that it is in. (Records of sessions, of windows of arrivals
    /// and of custom windows are sent one by one in any case, so for them this costs next to nothing more.) Where a
    /// record completes a window, as in a [`CountWindow`](super::CountWindow), that window has no early result with
    /// it. 0 is refused at the job's start.
    pub fn every(records: u64) -> Self {
        Self { when: When::Every(records) }
    }

    /// Emits results at each multiple of `interval` in processing time, by the engine's clock, for the windows
    /// and keys that have changed since the last one.
    ///
    /// The interval is in processing time and not in event time, so that results are emitted even if event time
    /// does not advance. A busy task is late by up to one turn, and skips the ticks that it has missed. The end of
    /// the input is no tick.
    ///
    /// If tasks aggregate their own records first, as for windows of event time over a stream that is not
    /// partitioned, they send their partial aggregates half an interval before each tick. A result then covers
    /// at least the records that had arrived one and a half intervals ago. In each interval this costs one row
    /// between tasks for each changed key and slice, and one look-up for each slice of a window that has
    /// changed. An interval of zero is refused at the job's start.
    pub fn interval(interval: Duration) -> Self {
        Self { when: When::Interval(interval) }
    }

    /// The error in the definition, if there is one.
    pub(super) fn fault(self) -> Option<String> {
        match self.when {
            When::Every(0) => Some("early results of every 0 records can never come".to_owned()),
            When::Interval(Duration::ZERO) => {
                Some("an interval of nothing between early results never ends".to_owned())
            }
            When::Every(_) | When::Interval(_) => None,
        }
    }

    /// A description, for the plan.
    pub(super) fn details(self, windows: Details) -> Details {
        match self.when {
            When::Every(records) => windows.with("early", records),
            When::Interval(interval) => windows.with("early", interval),
        }
    }

    /// The number of records between results, if results depend on the number of records.
    pub(super) fn records(self) -> Option<u64> {
        match self.when {
            // A job with 0 is refused.
            When::Every(records) => Some(records.max(1)),
            When::Interval(_) => None,
        }
    }

    /// The ticks of results, if results depend on the clock.
    pub(super) fn ticks(self) -> Option<Ticks> {
        match self.when {
            When::Every(_) => None,
            When::Interval(interval) => Some(Ticks::new(interval, false)),
        }
    }

    /// The ticks at which tasks send their partial aggregates, so that the results at [`ticks`](Self::ticks)
    /// cover them.
    pub(super) fn ticks_before(self) -> Option<Ticks> {
        match self.when {
            When::Every(_) => None,
            When::Interval(interval) => Some(Ticks::new(interval, true)),
        }
    }
}

/// The most windows that a record may be in where each has several results, and is updated by every record or
/// change.
const MOST_AGAIN: i64 = 1 << 20;

/// The error if each window of `size` may have several results, and one begins every `slide`.
pub(super) fn too_many(size: i64, slide: i64) -> Option<String> {
    let windows = (size - 1) / slide + 1;
    (windows > MOST_AGAIN).then(|| {
        format!(
            "a record would be in {windows} windows, of which each may have several results: \
             at most {MOST_AGAIN} can have results early or late"
        )
    })
}

/// Ticks of the engine's clock at equal distances, the same in all tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    period: Nanos,
    offset: Nanos,
    next: Nanos,
}

impl Ticks {
    fn new(interval: Duration, between: bool) -> Self {
        let period = nanos(interval).max(1);
        let offset = if between { period / 2 } else { 0 };
        Self { period, offset, next: 0 }
    }

    /// Sets the next tick to the first after `now`.
    pub(super) fn restart(&mut self, now: Nanos) {
        let passed = now.checked_sub(self.offset).map_or(0, |since| since / self.period + 1);
        self.next = self.period.saturating_mul(passed).saturating_add(self.offset);
    }

    /// Returns whether the next tick has passed; if so, sets the following one.
    pub(super) fn has_come(&mut self, now: Nanos) -> bool {
        let come = now >= self.next;
        if come {
            self.restart(now);
        }
        come
    }

    /// The time of the next tick.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }
}

#[cfg(test)]
mod tests;
