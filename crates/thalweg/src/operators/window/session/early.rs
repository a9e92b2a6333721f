//! Early results of sessions: the counts for each session, and which results are due.

use super::lenient::Lenience;
use super::open::{Open, Sessions, SessionsOf};
use crate::clock::Clock;
use crate::operators::window::early::{Early, Ticks};
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::plan::TaskContext;
use crate::support::keyed_timers::{BothClocks, Clocks, EventClock, processing};

/// Whether sessions with this state emit early results.
pub trait EarlySessions<S>: Earliness {
    /// The counts that are kept for each session.
    #[doc(hidden)]
    type Had: Had;
    /// Whether they emit early results.
    #[doc(hidden)]
    const ANY: bool;

    /// For how many microseconds sessions accept records after they have ended.
    #[doc(hidden)]
    fn lateness(self) -> i64 {
        0
    }

    /// The counts of a new session.
    #[doc(hidden)]
    fn start(self) -> Self::Had;

    /// A copy of a state, for a result that is not the last.
    #[doc(hidden)]
    fn copy(state: &S) -> Option<S>;
}

impl<S> EarlySessions<S> for AtEnd {
    type Had = ();
    const ANY: bool = false;

    fn start(self) {}

    fn copy(_: &S) -> Option<S> {
        None
    }
}

impl<S: Clone> EarlySessions<S> for Early {
    type Had = Progress;
    const ANY: bool = true;

    fn start(self) -> Progress {
        Progress::default()
    }

    fn copy(state: &S) -> Option<S> {
        Some(state.clone())
    }
}

/// The counts of a session.
pub trait Had: Send + 'static {
    /// The clocks of its timers.
    type Clocks: Clocks;
    /// When the sessions of a key are due by the engine's clock.
    type Tick: Tick;

    /// Accounts for a record that was added.
    fn took(&mut self);

    /// Accounts for a session that was merged into this one.
    fn merge(&mut self, other: Self);

    /// The number of its records that were in no result.
    fn fresh(&self) -> u64;

    /// Accounts for another result; returns its number.
    fn give(&mut self) -> u32;

    /// The state for late records, mutably, if they are accepted.
    #[inline(always)]
    fn lenient(&mut self) -> Option<&mut Lenience> {
        None
    }

    /// The state for late records, if they are accepted.
    #[inline(always)]
    fn lenience(&self) -> Option<&Lenience> {
        None
    }
}

/// When results are due by the engine's clock; `i64::MAX` if none are.
pub trait Tick: Default + Send + 'static {
    /// The time.
    fn get(&self) -> i64;

    /// Changes it, where there are such results.
    fn set(&mut self, at: i64);
}

/// Never: there are results only at the end.
impl Tick for () {
    #[inline(always)]
    fn get(&self) -> i64 {
        i64::MAX
    }

    #[inline(always)]
    fn set(&mut self, _: i64) {}
}

/// At a time of its own.
#[derive(Debug)]
pub struct At(i64);

impl Default for At {
    fn default() -> Self {
        Self(i64::MAX)
    }
}

impl Tick for At {
    #[inline(always)]
    fn get(&self) -> i64 {
        self.0
    }

    #[inline(always)]
    fn set(&mut self, at: i64) {
        self.0 = at;
    }
}

impl Had for () {
    type Clocks = EventClock;
    type Tick = ();

    #[inline(always)]
    fn took(&mut self) {}

    #[inline(always)]
    fn merge(&mut self, (): Self) {}

    fn fresh(&self) -> u64 {
        0
    }

    fn give(&mut self) -> u32 {
        0
    }
}

/// The number of records that were in no result, and the number of the last result.
#[derive(Debug, Default)]
pub struct Progress {
    fresh: u64,
    results: u32,
}

impl Had for Progress {
    type Clocks = BothClocks;
    type Tick = At;

    #[inline(always)]
    fn took(&mut self) {
        self.fresh += 1;
    }

    fn merge(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.results = self.results.max(other.results);
    }

    fn fresh(&self) -> u64 {
        self.fresh
    }

    fn give(&mut self) -> u32 {
        self.fresh = 0;
        self.results = self.results.saturating_add(1);
        self.results
    }
}

/// When early results are emitted.
pub(super) struct Earlies {
    /// The number of records between results, or `None`.
    records: Option<u64>,
    /// The ticks at which all sessions that have changed emit results, or `None`.
    ticks: Option<Ticks>,
    clock: Clock,
}

impl Earlies {
    pub(super) fn new(cx: &TaskContext<'_>, early: Option<Early>) -> Self {
        Self {
            records: early.and_then(Early::records),
            ticks: early.and_then(Early::ticks),
            clock: cx.clock.clone(),
        }
    }

    /// Registers a record in a session of a key that now has `fresh` records that were in no result. Returns
    /// whether the session is to emit a result at once.
    #[inline(always)]
    pub(super) fn note<S, K: Tick>(&self, sessions: &mut Sessions<S, K>, fresh: u64) -> bool {
        match (&self.ticks, self.records) {
            (Some(ticks), _) => {
                sessions.tick.set(sessions.tick.get().min(processing(ticks.next())));
                false
            }
            (None, records) => records.is_some_and(|records| fresh >= records),
        }
    }

    /// Calls a closure with the sessions of a key whose results are due, and the number of the result.
    pub(super) fn each_due<S, H: Had>(
        &self,
        sessions: &mut SessionsOf<S, H>,
        mut each: impl FnMut(&Open<(S, H)>, u32),
    ) {
        let enough = self.records.unwrap_or(1);
        sessions.tick.set(i64::MAX);
        sessions.each_open(|open| {
            if open.state.1.fresh() >= enough {
                let number = open.state.1.give();
                each(open, number);
            }
        });
    }

    /// The next tick, at which changed sessions emit results.
    pub(super) fn next_tick(&self) -> i64 {
        self.ticks.as_ref().map_or(i64::MAX, |ticks| processing(ticks.next()))
    }

    /// Called between batches: changes from now on wait for the next tick.
    pub(super) fn look(&mut self) {
        if let Some(ticks) = &mut self.ticks {
            ticks.has_come(self.clock.now());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
