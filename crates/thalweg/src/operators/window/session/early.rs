//! Early results of sessions: the counts for each session, and which results are due.

use super::lenient::Lenience;
use super::open::{Open, Sessions, SessionsOf};
use crate::operators::window::early::{Counts, Early, EarlyStates, Pace, Progress, Tick};
use crate::operators::window::event_time::AtEnd;
use crate::plan::TaskContext;

/// Whether sessions with this state emit early results.
pub trait EarlySessions<S>: EarlyStates<S, Counts: Had> {
    /// For how many microseconds sessions accept records after they have ended.
    #[doc(hidden)]
    fn lateness(self) -> i64 {
        0
    }
}

impl<S> EarlySessions<S> for AtEnd {}

impl<S: Clone> EarlySessions<S> for Early {}

/// The counts of a session.
pub trait Had: Counts {
    /// The state for late records, mutably, if they are accepted.
    #[inline(always)]
    #[doc(hidden)]
    fn lenient(&mut self) -> Option<&mut Lenience> {
        None
    }

    /// The state for late records, if they are accepted.
    #[inline(always)]
    #[doc(hidden)]
    fn lenience(&self) -> Option<&Lenience> {
        None
    }
}

impl Had for () {}

impl Had for Progress {}

/// When early results are emitted.
pub(super) struct Earlies(Pace);

impl Earlies {
    pub(super) fn new(cx: &TaskContext<'_>, early: Option<Early>) -> Self {
        Self(Pace::new(cx, early))
    }

    /// Registers a record in a session of a key that now has `fresh` records that were in no result. Returns
    /// whether the session is to emit a result at once.
    #[inline(always)]
    pub(super) fn note<S, K: Tick>(&self, sessions: &mut Sessions<S, K>, fresh: u64) -> bool {
        if let Some(records) = self.0.records() {
            return fresh >= records;
        }
        sessions.tick.set(sessions.tick.get().min(self.0.next_tick()));
        false
    }

    /// Calls a closure with the sessions of a key whose results are due, and the number of the result.
    pub(super) fn each_due<S, H: Had>(
        &self,
        sessions: &mut SessionsOf<S, H>,
        mut each: impl FnMut(&Open<(S, H)>, u32),
    ) {
        let enough = self.0.records().unwrap_or(1);
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
        self.0.next_tick()
    }

    /// Called between batches: changes from now on wait for the next tick.
    pub(super) fn look(&mut self) {
        self.0.look();
    }
}

#[cfg(test)]
mod tests;
