//! What a handler can do beside changing its state.

use crate::clock::{Clock, nanos};
use crate::data::Data;
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

/// A timer that a key has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) due: Due,
    /// Deleted, and still to be passed over when its time comes.
    pub(super) deleted: bool,
}

/// A timer as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) clock: Clocked,
    pub(super) at: i64,
}

/// Which of the two clocks a timer goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clocked {
    Event,
    Processing,
}

impl From<Timer> for Due {
    fn from(timer: Timer) -> Self {
        match timer {
            Timer::EventTime(at) => Self { clock: Clocked::Event, at: at.as_micros() },
            Timer::ProcessingTime(at) => {
                let at = i64::try_from(nanos(at)).unwrap_or(i64::MAX);
                Self { clock: Clocked::Processing, at }
            }
        }
    }
}

impl From<Due> for Timer {
    fn from(due: Due) -> Self {
        match due.clock {
            Clocked::Event => Self::EventTime(Timestamp::from_micros(due.at)),
            Clocked::Processing => {
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
    pub(super) timers: &'a mut Vec<Set>,
    /// How many of them are not deleted, of each clock.
    pub(super) set: &'a mut [usize; 2],
    /// Those that were not among them before.
    pub(super) fresh: &'a mut Vec<Due>,
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
        if self.ended && due.clock == Clocked::Processing {
            return;
        }
        match self.timers.binary_search_by_key(&due, |set| set.due) {
            Ok(at) => {
                let deleted = std::mem::take(&mut self.timers[at].deleted);
                self.set[due.clock as usize] += usize::from(deleted);
            }
            Err(at) => {
                self.set[due.clock as usize] += 1;
                self.timers.insert(at, Set { due, deleted: false });
                self.fresh.push(due);
            }
        }
    }

    /// Deletes a timer of the key, if it is set.
    pub fn delete_timer(&mut self, timer: Timer) {
        let due = Due::from(timer);
        if let Ok(at) = self.timers.binary_search_by_key(&due, |set| set.due) {
            let deleted = std::mem::replace(&mut self.timers[at].deleted, true);
            self.set[due.clock as usize] -= usize::from(!deleted);
        }
    }

    /// Forgets the key: the state, also what is still done to it during this call, and the timers set so
    /// far. The next record or timer of the key finds a new state.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.timers.iter_mut().for_each(|set| set.deleted = true);
        *self.set = [0; 2];
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
