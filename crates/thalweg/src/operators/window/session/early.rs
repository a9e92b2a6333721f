//! Results of sessions that have not ended: what is remembered of each, and which of them are due.

use super::lenient::Lenience;
use super::open::{Open, Sessions, SessionsOf};
use crate::clock::Clock;
use crate::operators::window::early::{Early, Ticks};
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::plan::TaskContext;
use crate::support::keyed_timers::{BothClocks, Clocks, EventClock, processing};

/// Whether sessions of such a state have results before they end.
pub trait EarlySessions<S>: Earliness {
    /// What is remembered of a session for it.
    type Had: Had;
    /// Whether they have.
    const ANY: bool;

    /// For how many microseconds sessions take records in after they have ended.
    fn lateness(self) -> i64 {
        0
    }

    /// What is remembered of a session that begins.
    fn start(self) -> Self::Had;

    /// A copy of a state, for a result that is not the last.
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

/// What a session has had.
pub trait Had: Send + 'static {
    /// The clocks that its sessions go by.
    type Clocks: Clocks;
    /// When the sessions of a key are due by the engine's clock.
    type Tick: Tick;

    /// It has taken a record in.
    fn took(&mut self);

    /// It has become one with another session.
    fn merge(&mut self, other: Self);

    /// How many records it holds that were in no result.
    fn fresh(&self) -> u64;

    /// It has another result, whose number this is.
    fn give(&mut self) -> u32;

    /// What is remembered of it for late records, where those are taken in, to be changed.
    #[inline(always)]
    fn lenient(&mut self) -> Option<&mut Lenience> {
        None
    }

    /// What is remembered of it for late records, where those are taken in.
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

/// The records that were in no result, and the number of the last.
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

/// When there are results.
pub(super) struct Earlies {
    /// After how many records a session has one.
    records: Option<u64>,
    /// Or when all have that have changed.
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

    /// A record was taken into a session of a key, which now holds so many that were in no result. Answers whether the
    /// session is to have one at once.
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

    /// Shows the sessions of a key that are to have a result, with its number.
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

    /// When what has changed has results by the clock.
    pub(super) fn next_tick(&self) -> i64 {
        self.ticks.as_ref().map_or(i64::MAX, |ticks| processing(ticks.next()))
    }

    /// Between batches: what changes from now on waits for the tick that comes next.
    pub(super) fn look(&mut self) {
        if let Some(ticks) = &mut self.ticks {
            ticks.has_come(self.clock.now());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
