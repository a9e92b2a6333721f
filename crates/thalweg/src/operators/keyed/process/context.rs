//! What a handler can do beside changing its state.

use crate::clock::{Clock, nanos};
use crate::data::Data;
use crate::support::keyed_timers::{TimerClock, processing};
use crate::time::Timestamp;
use std::time::Duration;

/// When a handler is to be called again for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub enum Timer {
    /// When the watermark has reached this.
    EventTime(Timestamp),
    /// When the engine's clock shows this: see [`ProcessContext::now`].
    ProcessingTime(Duration),
}

/// A timer as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub(super) clock: TimerClock,
    pub(super) at: i64,
}

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

/// What a handler can do beside changing its state: emit, set and delete timers, forget the key.
///
/// All of it takes effect when the handler returns.
pub struct ProcessContext<'a, O, S> {
    pub(super) out: &'a mut Vec<(O, Timestamp)>,
    pub(super) aside: &'a mut Vec<(S, Timestamp)>,
    /// The timers of the key, in order.
    pub(super) timers: &'a mut Vec<Due>,
    pub(super) cleared: bool,
    /// The timestamp of what is emitted.
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

    /// Emits a record with the key and another timestamp. One before the
    /// [watermark](Self::watermark) makes it late.
    pub fn emit_at(&mut self, record: O, at: Timestamp) {
        self.out.push((record, at));
    }

    /// Emits a record to the side output: see
    /// [`process_with_side_output`](crate::KeyedStream::process_with_side_output).
    pub fn emit_side(&mut self, record: S) {
        self.aside.push((record, self.at));
    }

    /// Sets a timer for the key. Nothing happens where the same is set already. One whose time has come
    /// comes as soon as it can: one of event time with the next watermark.
    ///
    /// After the [end of the input](Self::is_ended), no timer of processing time can be set any more.
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

    /// Forgets the key: the state, also what is still done to it during this call, and the timers set so
    /// far. The next record or timer of the key finds a new state.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.timers.clear();
    }

    /// No record is to come before this; one that does is late. `None` as long as nothing is known.
    pub fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// What the engine's clock shows: how long it has been running. It is also what tests turn by hand.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now())
    }

    /// The timer that comes after so much processing time.
    pub fn after(&self, span: Duration) -> Timer {
        Timer::ProcessingTime(self.now().saturating_add(span))
    }

    /// Whether the input has ended, so that no record is to come, and timers come before their time.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}
