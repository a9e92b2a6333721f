//! Sessions that accept records after they have ended.
//!
//! A session that has emitted its result at its end is kept as long as records may arrive for it. Such a record
//! changes it, and the session emits another result before the next batch. A session that a late record has
//! extended beyond the watermark is open again, and emits a result at its end like any other.

use super::early::{EarlySessions, Had};
use crate::data::Data;
use crate::operators::window::early::{At, Counts, Early, EarlyStates};
use crate::operators::window::event_time::Earliness;
use crate::support::keyed_timers::{BothClocks, Clocks};

/// Sessions accept records for this many microseconds after they have ended.
#[derive(Clone, Copy, Debug)]
pub struct Lenient<E> {
    pub(super) early: E,
    pub(super) lateness: i64,
}

impl<E: Earliness> Earliness for Lenient<E> {
    fn early(self) -> Option<Early> {
        self.early.early()
    }
}

impl<S: Clone, E: EarlySessions<S>> EarlySessions<S> for Lenient<E> {
    fn lateness(self) -> i64 {
        self.lateness
    }
}

impl<S: Clone, E: EarlySessions<S>> EarlyStates<S> for Lenient<E> {
    type Counts = HadLate<E::Counts>;
    const ANY: bool = E::ANY;

    fn start(self) -> Self::Counts {
        let lenience =
            Lenience { lateness: self.lateness, has_ended: false, has_changed: false, results: 0 };
        HadLate { early: self.early.start(), lenience }
    }

    fn copy(state: &S) -> Option<S> {
        Some(state.clone())
    }
}

/// The state of a session for late records.
#[derive(Debug, Data)]
pub struct Lenience {
    lateness: i64,
    /// Whether it has emitted its result at its end, or ended before it was created.
    pub(super) has_ended: bool,
    /// Whether records have arrived since then that are in no result.
    pub(super) has_changed: bool,
    /// The number of results due to late records.
    results: u32,
}

impl Lenience {
    /// The last time at which a session that lasts until `until` is kept.
    pub(super) fn gone(&self, until: i64) -> i64 {
        until.saturating_add(self.lateness)
    }

    /// Accounts for a record that was added to the session; `has_ended` says whether the session has ended by
    /// now.
    pub(super) fn took(&mut self, has_ended: bool) {
        (self.has_ended, self.has_changed) = (has_ended, has_ended);
    }

    /// Accounts for another result due to late records; returns its number.
    pub(super) fn give(&mut self) -> u32 {
        self.has_changed = false;
        self.results = self.results.saturating_add(1);
        self.results
    }
}

/// The counts of a session that accepts late records.
#[derive(Debug, Data)]
pub struct HadLate<H> {
    early: H,
    lenience: Lenience,
}

impl<H: Had> Counts for HadLate<H> {
    type Clocks<C: Clocks> = BothClocks;
    type Tick = At;

    #[inline(always)]
    fn took(&mut self) {
        self.early.took();
    }

    fn merge(&mut self, other: Self) {
        self.early.merge(other.early);
        self.lenience.results = self.lenience.results.max(other.lenience.results);
    }

    fn fresh(&self) -> u64 {
        // Results due to late records replace early ones.
        if self.lenience.has_ended { 0 } else { self.early.fresh() }
    }

    fn give(&mut self) -> u32 {
        self.early.give()
    }
}

impl<H: Had> Had for HadLate<H> {
    #[inline(always)]
    fn lenient(&mut self) -> Option<&mut Lenience> {
        Some(&mut self.lenience)
    }

    #[inline(always)]
    fn lenience(&self) -> Option<&Lenience> {
        Some(&self.lenience)
    }
}
