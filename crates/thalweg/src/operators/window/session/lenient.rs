//! Sessions that take records in after they have ended.
//!
//! A session that has had its result at its end stays as long as records may come for it. One that comes then changes
//! it, and it has another result before the next batch. A session that a late record has made longer than the watermark
//! is open again, and has a result at its end as any other.

use super::early::{At, EarlySessions, Had};
use crate::operators::window::early::Early;
use crate::operators::window::event_time::Earliness;
use crate::support::keyed_timers::BothClocks;

/// Sessions take records in for so many microseconds after they have ended.
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
    type Had = HadLate<E::Had>;
    const ANY: bool = E::ANY;

    fn lateness(self) -> i64 {
        self.lateness
    }

    fn start(self) -> Self::Had {
        let lenience =
            Lenience { lateness: self.lateness, has_ended: false, has_changed: false, results: 0 };
        HadLate { early: self.early.start(), lenience }
    }

    fn copy(state: &S) -> Option<S> {
        Some(state.clone())
    }
}

/// What is remembered of a session for late records.
#[derive(Debug)]
pub struct Lenience {
    lateness: i64,
    /// It has had its result, or would have had it if it had been there.
    pub(super) has_ended: bool,
    /// Records have come since then that are in no result.
    pub(super) has_changed: bool,
    /// Results of late records.
    results: u32,
}

impl Lenience {
    /// The last moment at which the session is there that lasts until then.
    pub(super) fn gone(&self, until: i64) -> i64 {
        until.saturating_add(self.lateness)
    }

    /// A record was taken into the session, which has ended by now, or is open.
    pub(super) fn took(&mut self, has_ended: bool) {
        (self.has_ended, self.has_changed) = (has_ended, has_ended);
    }

    /// It has another result because of late records, whose number this is.
    pub(super) fn give(&mut self) -> u32 {
        self.has_changed = false;
        self.results = self.results.saturating_add(1);
        self.results
    }
}

/// What a session has had that takes late records in.
#[derive(Debug)]
pub struct HadLate<H> {
    early: H,
    lenience: Lenience,
}

impl<H: Had> Had for HadLate<H> {
    type Clocks = BothClocks;
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
        // Results of late records take the place of early ones.
        if self.lenience.has_ended { 0 } else { self.early.fresh() }
    }

    fn give(&mut self) -> u32 {
        self.early.give()
    }

    #[inline(always)]
    fn lenient(&mut self) -> Option<&mut Lenience> {
        Some(&mut self.lenience)
    }

    #[inline(always)]
    fn lenience(&self) -> Option<&Lenience> {
        Some(&self.lenience)
    }
}
