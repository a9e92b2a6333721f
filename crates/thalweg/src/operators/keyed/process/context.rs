//! The context of a handler's call: emits records, and sets and deletes timers.

use crate::clock::{Clock, nanos};
use crate::data::Data;
use crate::support::keyed_timers::{TimerClock, processing};
use crate::time::Timestamp;
use smallvec::SmallVec;
use std::time::Duration;

/// A time at which a handler is called again for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub enum Timer {
    /// Fires when the watermark has reached this timestamp.
    EventTime(Timestamp),
    /// Fires when the engine's clock has reached this time since 1970, at once if that has passed: see [`ProcessContext::now`],
    /// and [`ProcessContext::after`] for a span from now on.
    ProcessingTime(Duration),
}

/// A timer in the form in which it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
pub struct Due {
    pub(super) clock: TimerClock,
    pub(super) at: i64,
}

/// The timers of a key, in ascending order. A single one, which is the usual number, needs no memory of its own.
pub(super) type KeyTimers = SmallVec<[Due; 1]>;

impl From<Timer> for Due {
    fn from(timer: Timer) -> Self {
        match timer {
            Timer::EventTime(at) => Self { clock: TimerClock::Event, at: at.as_micros() },
            Timer::ProcessingTime(at) => {
                Self { clock: TimerClock::Processing, at: processing(nanos(at)) }
            }
        }
    }
}

impl From<Due> for Timer {
    fn from(due: Due) -> Self {
        match due.clock {
            TimerClock::Event => Self::EventTime(Timestamp::from_micros(due.at)),
            TimerClock::Processing => {
                Self::ProcessingTime(Duration::from_nanos(due.at.unsigned_abs()))
            }
        }
    }
}

/// What a handler can do besides changing its state: emit records, set and delete timers, and clear the key.
///
/// Everything takes effect when the handler returns.
pub struct ProcessContext<'a, O, S> {
    pub(super) out: &'a mut Vec<(O, Timestamp)>,
    pub(super) side: &'a mut Vec<(S, Timestamp)>,
    pub(super) timers: &'a mut KeyTimers,
    pub(super) cleared: bool,
    /// The timestamp of emitted records.
    pub(super) at: Timestamp,
    pub(super) watermark: Option<Timestamp>,
    pub(super) ended: bool,
    pub(super) clock: &'a Clock,
}

impl<O, S> ProcessContext<'_, O, S> {
    /// Emits a record with the key.
    pub fn emit(&mut self, record: O) {
        self.out.push((record, self.at));
    }

    /// Emits a record with the key and another timestamp. A timestamp before the [watermark](Self::watermark) makes
    /// the record late.
    pub fn emit_at(&mut self, record: O, at: Timestamp) {
        self.out.push((record, at));
    }

    /// Emits a record to the side output: see
    /// [`process_with_side_output`](crate::KeyedStream::process_with_side_output).
    pub fn emit_side(&mut self, record: S) {
        self.side.push((record, self.at));
    }

    /// Sets a timer for the key. Has no effect if the same timer is already set. A timer whose time has passed fires
    /// as soon as possible: an event-time timer with the next watermark.
    ///
    /// After the [end of the input](Self::is_ended), processing-time timers can no longer be set.
    pub fn set_timer(&mut self, timer: Timer) {
        let due = Due::from(timer);
        if self.ended && due.clock == TimerClock::Processing {
            return;
        }
        if let Err(place) = self.timers.binary_search(&due) {
            self.timers.insert(place, due);
        }
    }

    /// Deletes a timer of the key, if it is set.
    pub fn delete_timer(&mut self, timer: Timer) {
        if let Ok(place) = self.timers.binary_search(&Due::from(timer)) {
            self.timers.remove(place);
        }
    }

    /// Clears the key: drops its state, including changes made later in this call, and the timers set so far. The
    /// next record or timer of the key starts with a new state.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.timers.clear();
    }

    /// The watermark: no record before it is expected, and one that arrives is late. `None` until the first
    /// watermark.
    pub fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// The time of the engine's clock, since 1970 in UTC: the time of day when the program started, and what has passed since, so
    /// that it does not jump when the machine's clock is set. A job that goes on from a checkpoint begins no earlier than that was
    /// taken. Under the deterministic scheduler the clock is simulated, and begins at 0.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    /// A timer that fires after this much processing time.
    pub fn after(&self, span: Duration) -> Timer {
        Timer::ProcessingTime(self.now().saturating_add(span))
    }

    /// Whether the input has ended: no more records arrive, and timers fire before their time.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}
