//! Results that windows have before they end: when they come, as a value and by the clock.

use crate::clock::{Nanos, nanos};
use std::time::Duration;

/// When windows have results before they end, for
/// [`EventTimeWindow::early`](super::EventTimeWindow::early) and
/// [`SessionWindow::early`](super::SessionWindow::early).
///
/// Such a result is of one key in one window, and holds all that has come so far to the task that owns the key:
/// it replaces the results before it, and the one that the window has when it ends replaces it. Windows
/// that have not changed since their last result have no other.
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
    /// A result of every `records` records of a key in a window: the first holds so many, the next twice as
    /// many.
    ///
    /// To be exact, records go one by one to the tasks that own their keys, and are not aggregated before;
    /// a record costs a look-up for each window that it is in. (Records of sessions go there in any case, and cost
    /// nothing more.) 0 is refused at the job's start.
    pub fn every(records: u64) -> Self {
        Self { when: When::Every(records) }
    }

    /// Results at each multiple of so much of processing time, by the engine's clock, of the windows of
    /// those keys that have changed since the last one.
    ///
    /// Processing time and not event time, because somebody waits for these results: when time in the stream
    /// stands still, they have to come all the same. A task that is busy is late by a turn, and passes a time
    /// by that it has missed.
    ///
    /// Where tasks aggregate their own records first, as for windows of event time over a stream that is not
    /// partitioned, they send on what they have half an interval before. So a result holds what had come one and
    /// a half intervals ago at the latest. Costs, each
    /// interval, a row a changed key and slice between tasks, and a look-up for each slice of a window
    /// that has changed. An interval of zero is refused at the job's start.
    pub fn interval(interval: Duration) -> Self {
        Self { when: When::Interval(interval) }
    }

    /// What is wrong with it, if anything is.
    pub(super) fn fault(self) -> Option<String> {
        match self.when {
            When::Every(0) => Some("early results of every 0 records can never come".to_owned()),
            When::Interval(Duration::ZERO) => {
                Some("an interval of nothing between early results never ends".to_owned())
            }
            When::Every(_) | When::Interval(_) => None,
        }
    }

    /// What it is, in words.
    pub(super) fn describe(self) -> String {
        match self.when {
            When::Every(records) => format!("early every {records} records"),
            When::Interval(interval) => format!("early every {interval:?}"),
        }
    }

    /// After how many records results come, if they go by that.
    pub(super) fn records(self) -> Option<u64> {
        match self.when {
            // A job with 0 is refused.
            When::Every(records) => Some(records.max(1)),
            When::Interval(_) => None,
        }
    }

    /// When results come, if they go by the clock.
    pub(super) fn ticks(self) -> Option<Ticks> {
        match self.when {
            When::Every(_) => None,
            When::Interval(interval) => Some(Ticks::new(interval, false)),
        }
    }

    /// When tasks send on what they have aggregated so that it is in those results.
    pub(super) fn ticks_before(self) -> Option<Ticks> {
        match self.when {
            When::Every(_) => None,
            When::Interval(interval) => Some(Ticks::new(interval, true)),
        }
    }
}

/// Times of the engine's clock at equal distances, the same in all tasks.
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

    /// Waits for the first tick after `now`.
    pub(super) fn restart(&mut self, now: Nanos) {
        let passed = now.checked_sub(self.offset).map_or(0, |since| since / self.period + 1);
        self.next = self.period.saturating_mul(passed).saturating_add(self.offset);
    }

    /// Whether the tick has come that was waited for; if so, waits for another one.
    pub(super) fn has_come(&mut self, now: Nanos) -> bool {
        let come = now >= self.next;
        if come {
            self.restart(now);
        }
        come
    }

    /// When it comes.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
