//! The engine of keyed timers: operators that remember something for each key and act on it when time passes.
//!
//! An operator of this kind is a [`TimerPolicy`]: what it remembers of a key ([`TimedState`]), what a record does to it,
//! and what happens when it is due. Everything else is here, once: the table of keys, the timers, the order of firing,
//! memory, the end of the input and of rounds. All that such an operator remembers is in the table of a [`KeyedTimers`],
//! and all its timers follow from what is in the table.
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
//! A key is in the table from its first record until its state [is spent](TimedState::is_spent); spent keys are dropped
//! in bulk. A key has at most one timer a clock that counts, the *armed* one, whatever number of sessions, windows or
//! timers of the program's the state holds: the state knows all of them, and [`TimedState::due`] says which is first.
//!
//! Each arming has a *ticket*, a number that is never used again. The timer carries the hash of its key and the ticket,
//! and the key holds the ticket of its armed timer. So no key is copied, the table may grow and move, and a timer finds
//! its key by one look-up, or finds none: then it was superseded, or its key was dropped.
//!
//! - After each change, a key that is due earlier than its armed timer gets another one; the former is superseded.
//! - A key that is due later than its armed timer keeps it. When that fires, the key is armed for when it is due, and
//!   nothing else happens. So to put something off with each record costs nothing.
//! - Superseded timers are removed in bulk when they are more than the others.
//!
//! # Firing
//!
//! Timers fire in [`Pipe::resume`], never during a push, so that no record is between: in the order of their times on
//! each clock, those of event time before those of processing time. Those of event time are due when a watermark has come
//! ([`TimerPolicy::passed`] says which moments it leaves behind), and before it is passed on; those of processing time by
//! the engine's clock, with or without records. [`TimerPolicy::wake`] is called with a key that is due at the
//! timer's time; what is still due after it fires again. It must make progress: a state that stays due for ever is woken
//! for ever.
//!
//! A bounded number of timers fire a turn, and none while what follows is full. Where nothing downstream wants results, or
//! the job has failed, none fire.
//!
//! # End of the input, and of a round
//!
//! All timers are due, those of event time first, then those of processing time. Then [`TimerPolicy::end`] sees every key, if
//! the policy [wants it](TimerPolicy::ENDS). After a round of a loop the table and the timers are empty again.
//!
//! # Memory
//!
//! One reservation holds the table, the timers, what states say they own ([`TimedState::heap`], compared before
//! and after each change) and what is weighed now and then ([`TimedState::owned`], for payloads that are long to
//! measure). It is settled between batches. Only a new key that makes the table grow needs its room beforehand; without
//! it the job fails.

mod keys;

pub(crate) use keys::{KeyedTimers, processing};

use crate::clock::Nanos;
use crate::data::{Key, Record};
use crate::flow::{CHUNK, Event, Flow, Pipe, Push};
use crate::metrics::Report;
use crate::state::Weighed;
use crate::time::{Time, Timestamp};
use std::marker::PhantomData;

/// Which of the two clocks a timer goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerClock {
    /// Watermarks; microseconds.
    Event,
    /// The engine's clock; nanoseconds.
    Processing,
}

/// The clocks that the timers of an operator go by.
pub trait Clocks: 'static {
    /// The armed timers of a key: one for each clock.
    type Armed: AsRef<[Armed]> + AsMut<[Armed]> + Default + Send;

    /// The clocks, in the order in which they fire.
    fn clock(index: usize) -> TimerClock;
}

/// None: keys are never due.
pub struct NoClock;

impl Clocks for NoClock {
    type Armed = [Armed; 0];

    fn clock(_: usize) -> TimerClock {
        TimerClock::Event
    }
}

/// Event time alone.
pub struct EventClock;

impl Clocks for EventClock {
    type Armed = [Armed; 1];

    #[inline(always)]
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

/// A key's timer that counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Armed {
    at: i64,
    /// 0 if there is none.
    ticket: u64,
}

/// What is remembered of a key.
pub trait TimedState: Send + 'static {
    /// The clocks by which it is due.
    type Clocks: Clocks;
    /// What is weighed of it; `()` if nothing is.
    type Owned: 'static;

    /// When the key is to be woken, if nothing else happens to it. Called for each record.
    fn due(&self, clock: TimerClock) -> Option<i64>;

    /// Whether the key can be dropped: nothing would be lost with the state.
    fn is_spent(&self) -> bool;

    /// The bytes that the state owns outside of itself, apart from what is [weighed](Self::owned). Called for
    /// each record.
    fn heap(&self) -> usize;

    /// The bytes that its payloads of type [`Owned`](Self::Owned) own. May take long: called now and then.
    fn owned(&self) -> usize {
        0
    }
}

/// What is known when a key is woken.
#[derive(Clone, Copy, Debug)]
pub struct Firing {
    /// The clock of the timer.
    pub(crate) clock: TimerClock,
    /// The timer's time, at which the state is due.
    pub(crate) at: i64,
    /// All that is due until then may be done.
    pub(crate) until: i64,
    /// The watermark that was passed on.
    pub(crate) watermark: Option<Timestamp>,
    /// Whether the input has ended, or that of a round.
    pub(crate) ended: bool,
}

/// What is weighed of the states of a policy.
pub type WeighedOf<P> = Weighed<<<P as TimerPolicy>::State as TimedState>::Owned>;
/// The keys of a policy.
pub type KeysOf<P> = KeyedTimers<<P as TimerPolicy>::Key, <P as TimerPolicy>::State>;

/// What an operator does with its keys, and the operator after it.
pub trait TimerPolicy: Send {
    /// The keys.
    type Key: Key + ?Sized;
    /// What is remembered of each.
    type State: TimedState;
    /// What follows.
    type Next: Pipe;

    /// Whether [`end`](Self::end) is to be called.
    const ENDS: bool = false;

    /// The operator after this one.
    fn next(&mut self) -> &mut Self::Next;

    /// The last moment that is over when a watermark has come. Until there, timers fire.
    fn passed(watermark: Timestamp) -> Option<i64> {
        Some(watermark.as_micros())
    }

    /// Does what is due, or a bounded part of it.
    fn wake(
        &mut self,
        key: &Self::Key,
        state: &mut Self::State,
        firing: Firing,
        weighed: &mut WeighedOf<Self>,
    );

    /// The input has ended, or that of a round. Answers whether the key is to be shown once more.
    fn end(
        &mut self,
        _key: &Self::Key,
        _state: &mut Self::State,
        _watermark: Option<Timestamp>,
    ) -> bool {
        false
    }

    /// Between two batches, before timers fire: goes on with what was left of the last one; answers whether it has
    /// done something.
    fn catch_up(&mut self, _keys: &mut KeysOf<Self>) -> bool {
        false
    }

    /// Results are not wanted any more: drops what was left.
    fn give_up(&mut self) {}

    /// As [`Pipe::is_full`].
    fn is_full(&mut self) -> bool {
        self.next().is_full()
    }

    /// Reports what the policy has counted.
    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report);
}

/// What a policy does with records.
pub trait Takes<I: Record + ?Sized, T: Time>: TimerPolicy {
    /// Takes a record in.
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

    /// Fires some timers; answers whether there may be more, or what follows has something to do with what they gave.
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

    /// Tells some of the keys that the input has ended; answers as [`fire_some`](Self::fire_some).
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

    /// Whether results are wanted. Those of a job that has failed, which is stopped, must not look like results.
    fn goes_on(&mut self) -> bool {
        !self.keys.has_failed() && !self.policy.next().is_closed()
    }
}

impl<I: Record + ?Sized, T: Time, P: Takes<I, T>> Push<I, T> for TimerPush<P> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.policy.take(&mut self.keys, item, time);
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

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let next = self.policy.next().idle(now);
        let timer = if self.goes_on() { self.keys.fires_at() } else { None };
        next.into_iter().chain(timer).min()
    }

    fn report(&mut self, report: &mut Report) {
        report.keys(self.keys.op().id(), self.keys.live() as u64);
        self.policy.report(&self.keys, report);
        self.policy.next().report(report);
    }
}
