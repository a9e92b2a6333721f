//! The engine of keyed timers: for operators that keep a state per key and act on it when time passes.
//!
//! Such an operator is a [`TimerPolicy`]: its state per key ([`TimedState`]), what a record does to the state, and
//! what happens when the state is due. Everything else is implemented here once: the table of keys, the timers, the
//! order of firing, memory, the end of the input and of rounds. All state of such an operator is in the table of a
//! [`KeyedTimers`], and its timers are derived from that table.
//!
//! ```text
//!   record ──> Takes::take ──> KeyedTimers::visit ──> Visit::state … Visit::leave
//!                                                       │ due? earlier than the timer that is armed: arm another
//!                                                       ▼
//!   watermark, clock ──> timers ──> TimerPolicy::wake ──> results
//! ```
//!
//! # Keys and timers
//!
//! A key is in the table from its first record until its state [is spent](TimedState::is_spent). If a timer spends it,
//! no key of the table needs memory outside its slot, and the table is not being saved, it is removed at once; otherwise spent keys
//! are dropped in bulk. For each clock, a key has at most one timer that counts, the *armed* one, however many sessions, windows or
//! user-defined timers its state holds. The state knows all of these, and [`TimedState::due`] returns the first.
//!
//! Each arming has a *ticket*, a number that is never used again. The timer carries the hash of its key and the
//! ticket, and the key stores the ticket of its armed timer. So no key is copied, and the table may grow and move. A
//! timer finds its key by one look-up. If it finds none, the timer was superseded or its key was dropped.
//!
//! - After each change, a key that is due before its armed timer gets a new timer, which supersedes the former.
//! - A key that is due later than its armed timer keeps that timer. When it fires, the key is armed again for the
//!   time at which it is due, and nothing else happens. So postponing with each record costs nothing.
//! - Superseded timers are removed in bulk when they outnumber the others.
//!
//! # In any order
//!
//! Where it does not matter in which order keys are woken ([`Clocks::ANY_ORDER`]), they have no timers but days in a
//! [calendar](calendar): a byte beside each slot of the table. All keys that are due are found in one search for each
//! watermark, each is woken once for all that is due. Spent keys stay in the table, in case they return: they are dropped when it would
//! have to grow and they are most of its keys, when memory is short, and when the table is far too large.
//!
//! # Firing
//!
//! Timers fire in [`Pipe::resume`], never during a push, so that no record is processed between them. On each clock
//! they fire in the order of their times, and event time goes before processing time. Event-time timers are due when
//! a watermark has arrived ([`TimerPolicy::passed`] returns the last moment that it completes), and fire before it is
//! passed on. Processing-time timers are due by the engine's clock, with or without records. [`TimerPolicy::wake`] is
//! called with a key that is due at the timer's time; what is still due afterwards fires again. It must make
//! progress: a state that stays due for ever is woken for ever.
//!
//! A bounded number of timers fire in one call, and none while the next operator is full; results of
//! [`TimerPolicy::catch_up`] are bounded by the policy. Where no operator
//! downstream wants results, or the job has failed, none fire.
//!
//! # End of the input, and of a round
//!
//! All timers are due: event-time timers first, then processing-time timers. Then [`TimerPolicy::end`] is called for
//! every key, if the policy [requests it](TimerPolicy::ENDS). After a round of a loop the table and the timers are
//! empty again.
//!
//! # Checkpoints
//!
//! At a barrier, when everything that is due before it is done, the states are saved with their keys, those on disk by what
//! was written of them since the barrier before, and the watermark. A large table is saved [in parts](crate::support::gradual_save),
//! between batches; meanwhile a state is saved before a record or a timer changes it, and spent keys stay in their slots.
//! Timers are derived from the states, and are armed again when these are restored.
//!
//! # Memory
//!
//! A budget covers the table, the timers or days, the bytes that states report ([`TimedState::heap`], compared before
//! and after each change) and the bytes that are measured from time to time ([`TimedState::owned`], for payloads that
//! take long to measure). It is adjusted between batches. Only a new key that makes the table grow needs its memory
//! reserved beforehand.
//!
//! # On disk
//!
//! When memory is short, half of the keys go to a [store on disk](cold). A key is either in the table or in the store. It comes
//! back when its next record comes, which finds it only after the table was found not to have it; when it is due: no key of
//! the table is woken before one in the store that is due earlier; and at the end, in portions. So results do not depend on
//! memory. The job fails if the state of a single key is too large to be moved, or the disk is full.

mod budget;
mod calendar;
mod cold;
mod keys;
mod remembered;

pub(crate) use cold::Cold;
#[cfg(test)]
pub(crate) use keys::tests::keys_in_memory;
pub(crate) use keys::{KeyedTimers, processing};
pub(crate) use remembered::Remembered;

use crate::clock::Nanos;
use crate::data::{Data, Key, Record};
use crate::flow::{CHUNK, Event, Flow, Pipe, Push};
use crate::metrics::Report;
use crate::state::HeapEstimate;
use crate::time::{Time, Timestamp};
use std::marker::PhantomData;

/// The clock that a timer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
pub enum TimerClock {
    /// Event time: watermarks, in microseconds.
    Event,
    /// Processing time: the engine's clock, in nanoseconds.
    Processing,
}

/// The clocks that the timers of an operator follow.
pub trait Clocks: 'static {
    /// The armed timers of a key: one for each clock.
    type Armed: AsRef<[Armed]> + AsMut<[Armed]> + Default + Send;

    /// Whether keys are woken by event time in any order, each at once for all that is due: that costs less.
    const ANY_ORDER: bool = false;

    /// The clocks, in the order in which they fire.
    fn clock(index: usize) -> TimerClock;
}

/// No clock: keys are never due.
pub struct NoClock;

impl Clocks for NoClock {
    type Armed = [Armed; 0];

    fn clock(_: usize) -> TimerClock {
        TimerClock::Event
    }
}

/// Event time only.
pub struct EventClock;

impl Clocks for EventClock {
    type Armed = [Armed; 1];

    #[inline(always)]
    fn clock(_: usize) -> TimerClock {
        TimerClock::Event
    }
}

/// Event time only, where the order in which keys are woken does not matter.
pub struct EventCalendar;

impl Clocks for EventCalendar {
    type Armed = [Armed; 0];

    const ANY_ORDER: bool = true;

    fn clock(_: usize) -> TimerClock {
        TimerClock::Event
    }
}

/// The time of a stream whose records carry `T`: event time where there are timestamps, else processing time.
pub struct OwnClock<T>(PhantomData<fn() -> T>);

impl<T: Time> Clocks for OwnClock<T> {
    type Armed = [Armed; 1];

    #[inline(always)]
    fn clock(_: usize) -> TimerClock {
        match T::LAST.timestamp() {
            Some(_) => TimerClock::Event,
            None => TimerClock::Processing,
        }
    }
}

/// Event time and processing time.
pub struct BothClocks;

impl Clocks for BothClocks {
    type Armed = [Armed; 2];

    #[inline(always)]
    fn clock(index: usize) -> TimerClock {
        if index == 0 { TimerClock::Event } else { TimerClock::Processing }
    }
}

/// The armed timer of a key, for one clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Armed {
    at: i64,
    /// 0 if there is none.
    ticket: u64,
}

/// The state of a key, with the times at which it is due. It is saved in checkpoints as it is encoded.
pub trait TimedState: Data {
    /// The clocks by which the key can be due.
    type Clocks: Clocks;
    /// The type of the payloads that are measured from time to time; `()` if there are none.
    type Owned: 'static;

    /// The time at which the key is to be woken, unless something else happens to it first. Called for each record.
    fn due(&self, clock: TimerClock) -> Option<i64>;

    /// Whether the key can be dropped: nothing would be lost with the state.
    fn is_spent(&self) -> bool;

    /// The bytes that the state owns outside itself, apart from what is [measured separately](Self::owned). Called
    /// for each record.
    fn heap(&self) -> usize;

    /// The bytes that its payloads of type [`Owned`](Self::Owned) own. May take long: called only from time to time.
    fn owned(&self) -> usize {
        0
    }
}

/// The circumstances in which a key is woken.
#[derive(Clone, Copy, Debug)]
pub struct Firing {
    /// The clock of the timer.
    pub(crate) clock: TimerClock,
    /// The timer's time, at which the state is due; as `until` where keys are woken in any order.
    pub(crate) at: i64,
    /// Everything that is due until then may be done.
    pub(crate) until: i64,
    /// The watermark that was passed on.
    pub(crate) watermark: Option<Timestamp>,
    /// Whether the input has ended, or that of a round.
    pub(crate) ended: bool,
}

/// The measurement of the payloads in the states of a policy.
pub type HeapEstimateOf<P> = HeapEstimate<<<P as TimerPolicy>::State as TimedState>::Owned>;
/// The table of keys of a policy.
pub type KeysOf<P> = KeyedTimers<<P as TimerPolicy>::Key, <P as TimerPolicy>::State>;

/// What an operator does with its keys; includes the operator after it.
pub trait TimerPolicy: Send {
    /// The type of the keys.
    type Key: Key + ?Sized;
    /// The state per key.
    type State: TimedState;
    /// The operator after this one.
    type Next: Pipe;

    /// Whether [`end`](Self::end) is to be called.
    const ENDS: bool = false;
    /// Whether records are held before their keys are visited.
    const HOLDS: bool = false;

    /// The operator after this one.
    fn next(&mut self) -> &mut Self::Next;

    /// The last moment that a watermark completes. Timers up to it fire.
    fn passed(watermark: Timestamp) -> Option<i64> {
        Some(watermark.as_micros())
    }

    /// Wakes a key: does what is due, or a bounded part of it.
    fn wake(
        &mut self,
        key: &Self::Key,
        state: &mut Self::State,
        firing: Firing,
        weighed: &mut HeapEstimateOf<Self>,
    );

    /// Called for each key when the input, or that of a round, has ended. Returns whether to call it once more for
    /// the key.
    fn end(
        &mut self,
        _key: &Self::Key,
        _state: &mut Self::State,
        _watermark: Option<Timestamp>,
    ) -> bool {
        false
    }

    /// Called between two batches, before timers fire: continues with what is left of the last batch; returns whether
    /// there may be more of it, or the next operator has to process what was emitted.
    fn catch_up(&mut self, _keys: &mut KeysOf<Self>) -> bool {
        false
    }

    /// Drops what is left, because results are no longer wanted.
    fn give_up(&mut self) {}

    /// As [`Pipe::is_full`].
    fn is_full(&mut self) -> bool {
        self.next().is_full()
    }

    /// Reports what the policy has counted.
    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report);
}

/// A policy that processes records of type `I`.
pub trait Takes<I: Record + ?Sized, T: Time>: TimerPolicy {
    /// Processes a record.
    fn take(&mut self, keys: &mut KeysOf<Self>, item: I::Of<'_>, time: T);
}

/// An operator with keyed timers in a running task.
pub struct TimerPush<P: TimerPolicy> {
    keys: KeysOf<P>,
    policy: P,
}

impl<P: TimerPolicy> TimerPush<P> {
    pub(crate) fn new(keys: KeysOf<P>, policy: P) -> Self {
        Self { keys, policy }
    }

    #[cfg(test)]
    pub(crate) fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Fires some timers; returns whether there may be more, or the next operator has to process what they emitted.
    fn fire_some(&mut self) -> bool {
        for done in 0..CHUNK {
            if !self.keys.fire_next(&mut self.policy) {
                return done > 0;
            }
            if self.policy.next().is_full() {
                return true;
            }
        }
        true
    }

    /// Calls [`TimerPolicy::end`] for some of the keys; returns the same as [`fire_some`](Self::fire_some).
    fn end_some(&mut self) -> bool {
        for done in 0..CHUNK {
            if !self.keys.end_next(&mut self.policy) {
                return done > 0;
            }
            if self.policy.next().is_full() {
                return true;
            }
        }
        true
    }

    /// Whether results are wanted. A job that has failed must not emit any more: they would look like valid results.
    fn goes_on(&mut self) -> bool {
        !self.keys.has_failed() && !self.policy.next().is_closed()
    }
}

impl<I: Record + ?Sized, T: Time, P: Takes<I, T>> Push<I, T> for TimerPush<P> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.policy.take(&mut self.keys, item, time);
    }

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        if !P::HOLDS {
            self.keys.prefetch(hash);
        }
    }
}

impl<P: TimerPolicy> Pipe for TimerPush<P> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(self.policy.next())
    }

    fn event(&mut self, event: Event) {
        self.keys.hold(event);
    }

    fn resume(&mut self) -> Flow {
        self.keys.settle();
        loop {
            match self.policy.next().resume() {
                Flow::Ready => {}
                other => return other,
            }
            let goes_on = self.goes_on();
            if !goes_on {
                self.policy.give_up();
            } else if self.policy.catch_up(&mut self.keys) || self.fire_some() {
                return Flow::Busy;
            }
            let Some(event) = self.keys.held() else { return Flow::Ready };
            if P::ENDS && goes_on && event.completes() && self.end_some() {
                return Flow::Busy;
            }
            self.keys.release();
            self.policy.next().event(event);
        }
    }

    fn is_full(&mut self) -> bool {
        self.policy.is_full()
    }

    fn save_part(&mut self) -> bool {
        let saves = self.keys.save_part();
        self.policy.next().save_part() || saves
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let next = self.policy.next().idle(now);
        let timer = if self.goes_on() { self.keys.fires_at() } else { None };
        next.into_iter().chain(timer).min()
    }

    fn report(&mut self, report: &mut Report) {
        report.keys(self.keys.op().id(), self.keys.live() as u64);
        report.spilled(self.keys.op().id(), self.keys.spilled());
        self.policy.report(&self.keys, report);
        self.policy.next().report(report);
    }
}
