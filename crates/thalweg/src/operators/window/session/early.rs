//! Results of sessions that have not ended: what is remembered of each, and which of them are due.

use super::open::{Open, Sessions};
use crate::clock::{Clock, Nanos};
use crate::operators::window::early::{Early, Ticks};
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::plan::TaskContext;

/// Whether sessions of such a state have results before they end.
pub trait EarlySessions<S>: Earliness {
    /// What is remembered of a session for it.
    type Had: Had;
    /// Whether they have.
    const ANY: bool;

    /// A copy of a state, for a result that is not the last.
    fn copy(state: &S) -> Option<S>;
}

impl<S> EarlySessions<S> for AtEnd {
    type Had = ();
    const ANY: bool = false;

    fn copy(_: &S) -> Option<S> {
        None
    }
}

impl<S: Clone> EarlySessions<S> for Early {
    type Had = Progress;
    const ANY: bool = true;

    fn copy(state: &S) -> Option<S> {
        Some(state.clone())
    }
}

/// What a session has had.
pub trait Had: Default + Send + 'static {
    /// It has taken a record in.
    fn took(&mut self);

    /// It has become one with another session.
    fn merge(&mut self, other: Self);

    /// How many records it holds that were in no result.
    fn fresh(&self) -> u64;

    /// It has another result, whose number this is.
    fn give(&mut self) -> u32;
}

impl Had for () {
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

/// A key, by its hash and its number.
pub(super) type KeyNumber = (u64, u64);

/// When there are results, and of which keys.
pub(super) struct Earlies {
    /// After how many records a session has one.
    records: Option<u64>,
    /// Or when all have that have changed.
    ticks: Option<Ticks>,
    clock: Clock,
    /// That time has come.
    come: bool,
    /// Keys of which a session has changed; more than once if several have.
    changed: Vec<KeyNumber>,
    /// Those that are having their results.
    giving: Vec<KeyNumber>,
}

impl Earlies {
    pub(super) fn new(cx: &TaskContext<'_>, early: Option<Early>) -> Self {
        Self {
            records: early.and_then(Early::records),
            ticks: early.and_then(Early::ticks),
            clock: cx.clock.clone(),
            come: false,
            changed: Vec::new(),
            giving: Vec::new(),
        }
    }

    /// A record was taken into a session, which now holds so many that were in no result. Answers whether the session
    /// is to have one at once.
    pub(super) fn note(&mut self, key: KeyNumber, fresh: u64) -> bool {
        match self.records {
            Some(records) => fresh >= records,
            None => {
                // Of one with more it was noted before.
                if fresh == 1 {
                    self.changed.push(key);
                }
                false
            }
        }
    }

    /// Shows the sessions of a key that are to have a result, with its number.
    pub(super) fn each_due<S, H: Had>(
        &self,
        sessions: &mut Sessions<(S, H)>,
        mut each: impl FnMut(&Open<(S, H)>, u32),
    ) {
        let enough = self.records.unwrap_or(1);
        sessions.each_open(|open| {
            if open.state.1.fresh() >= enough {
                let number = open.state.1.give();
                each(open, number);
            }
        });
    }

    /// Between batches: the next key of which sessions are to have results since their time has come.
    pub(super) fn next(&mut self) -> Option<KeyNumber> {
        let ticks = self.ticks.as_mut()?;
        if self.giving.is_empty() {
            if self.changed.is_empty() {
                // What comes from now on waits for the tick after this.
                ticks.restart(self.clock.now());
                self.come = false;
                return None;
            }
            if !std::mem::take(&mut self.come) {
                return None;
            }
            std::mem::swap(&mut self.giving, &mut self.changed);
        }
        self.giving.pop()
    }

    /// Looks whether the time of results has come; when to look again, if something has changed.
    pub(super) fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let ticks = self.ticks.as_mut()?;
        if self.changed.is_empty() {
            return None;
        }
        self.come |= ticks.has_come(now);
        Some(if self.come { now } else { ticks.next() })
    }

    pub(super) fn bytes(&self) -> usize {
        (self.changed.capacity() + self.giving.capacity()) * size_of::<KeyNumber>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
