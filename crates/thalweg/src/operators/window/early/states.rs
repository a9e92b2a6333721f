//! What windows whose states are kept by key store for early results: nothing, where there are none.
//!
//! Whether there are early results is a type, so that windows without them cost nothing more.

use super::{Early, Ticks};
use crate::clock::Clock;
use crate::data::Data;
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::plan::TaskContext;
use crate::support::keyed_timers::{BothClocks, Clocks, TimerClock, processing};

/// Whether windows with this state emit early results.
#[diagnostic::on_unimplemented(
    message = "windows with early results need a state that can be cloned, and `{S}` cannot",
    label = "lacks `Clone`",
    note = "an early result is computed from a copy of the state; for a type of your own, add `#[derive(Clone)]`"
)]
pub trait EarlyStates<S>: Earliness {
    /// The counts that are kept for each window.
    #[doc(hidden)]
    type Counts: Counts;
    /// Whether they emit early results.
    #[doc(hidden)]
    const ANY: bool;

    /// The counts of a new window.
    #[doc(hidden)]
    fn start(self) -> Self::Counts;

    /// A copy of a state, for a result that is not the last.
    #[doc(hidden)]
    fn copy(state: &S) -> Option<S>;
}

impl<S> EarlyStates<S> for AtEnd {
    type Counts = ();
    const ANY: bool = false;

    fn start(self) {}

    fn copy(_: &S) -> Option<S> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<S: Clone> EarlyStates<S> for Early {
    type Counts = Progress;
    const ANY: bool = true;

    fn start(self) -> Progress {
        Progress::default()
    }

    fn copy(state: &S) -> Option<S> {
        Some(state.clone())
    }
}

/// The counts of a window.
pub trait Counts: Data {
    /// The clocks of a key's timers, if those of its windows are `C`.
    #[doc(hidden)]
    type Clocks<C: Clocks>: Clocks;
    /// When the windows of a key are due by the engine's clock.
    #[doc(hidden)]
    type Tick: Tick;

    /// Accounts for a record that was added.
    #[doc(hidden)]
    fn took(&mut self);

    /// Accounts for a window that was merged into this one.
    #[doc(hidden)]
    fn merge(&mut self, other: Self);

    /// The number of its records that were in no result.
    #[doc(hidden)]
    fn fresh(&self) -> u64;

    /// Accounts for another result; returns its number.
    #[doc(hidden)]
    fn give(&mut self) -> u32;
}

impl Counts for () {
    type Clocks<C: Clocks> = C;
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
#[derive(Debug, Default, Data)]
pub struct Progress {
    fresh: u64,
    results: u32,
}

impl Counts for Progress {
    type Clocks<C: Clocks> = BothClocks;
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

/// When results are due by the engine's clock; `i64::MAX` if none are.
pub trait Tick: Data + Default {
    /// The time.
    fn get(&self) -> i64;

    /// Changes it, where there are such results.
    fn set(&mut self, at: i64);

    /// The time at which a key is due by a clock.
    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        let at = self.get();
        (clock == TimerClock::Processing && at < i64::MAX).then_some(at)
    }
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
#[derive(Debug, Data)]
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

/// When the windows of a task emit early results.
pub(in crate::operators::window) struct Pace {
    /// The number of records between results, or `None`.
    records: Option<u64>,
    /// The ticks at which all windows that have changed emit results, or `None`.
    ticks: Option<Ticks>,
    clock: Clock,
}

impl Pace {
    pub(in crate::operators::window) fn new(cx: &TaskContext<'_>, early: Option<Early>) -> Self {
        let mut ticks = early.and_then(Early::ticks);
        if let Some(ticks) = &mut ticks {
            ticks.restart(cx.clock.now());
        }
        Self { records: early.and_then(Early::records), ticks, clock: cx.clock.clone() }
    }

    /// The number of records between results; `None` if results depend on the clock, or there are none.
    #[inline(always)]
    pub(in crate::operators::window) fn records(&self) -> Option<u64> {
        self.records
    }

    /// The next tick, at which windows that change now emit results.
    #[inline(always)]
    pub(in crate::operators::window) fn next_tick(&self) -> i64 {
        self.ticks.as_ref().map_or(i64::MAX, |ticks| processing(ticks.next()))
    }

    /// Called between batches: changes from now on wait for the next tick.
    pub(in crate::operators::window) fn look(&mut self) {
        if let Some(ticks) = &mut self.ticks {
            ticks.has_come(self.clock.now());
        }
    }
}
