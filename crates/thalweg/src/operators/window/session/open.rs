//! The open sessions of one key: how records extend and merge them.
//!
//! A session is the span from its first record to the last timestamp at which another one may still join, the
//! latest of its records' times plus their gaps. Both ends are part of it. Two sessions that overlap are merged,
//! so the sessions of a key are always disjoint.

use super::early::Had;
use crate::data::Data;
use crate::support::keyed_timers::{TimedState, TimerClock};

/// One session.
#[derive(Debug)]
pub struct Open<S> {
    /// The time of its first record.
    pub(super) first: i64,
    /// The last timestamp at which a record may join.
    pub(super) until: i64,
    pub(super) state: S,
}

/// The sessions of a key. Nearly always there is at most one, which is stored inline.
pub struct Sessions<S> {
    /// When results are due by the clock, early ones or those due to late records; `i64::MAX` if none are.
    pub(super) tick: i64,
    latest: Option<Open<S>>,
    /// The sessions before it, in order.
    earlier: Vec<Open<S>>,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in a session.
    In,
    /// The session that it would be in has ended.
    Late,
}

impl<S> Sessions<S> {
    pub(super) fn new() -> Self {
        Self { tick: i64::MAX, latest: None, earlier: Vec::new() }
    }

    /// Adds a record with the span from `at` to `until`. `gone` returns whether a session that ends at a time is
    /// no longer kept. `update` adds the record to a state, and receives the end of the session.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        (at, until): (i64, i64),
        gone: impl Fn(i64) -> bool,
        start: impl FnOnce() -> S,
        update: impl FnOnce(&mut S, i64),
        combine: impl FnMut(&mut S, S),
    ) -> Taken {
        if let Some(open) = &mut self.latest
            && at <= open.until
            && open.first <= until
            && self.earlier.last().is_none_or(|earlier| earlier.until < at)
        {
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            update(&mut open.state, open.until);
            return Taken::In;
        }
        let Some(open) = self.join((at, until), combine) else {
            if gone(until) {
                return Taken::Late;
            }
            let mut state = start();
            update(&mut state, until);
            self.add(Open { first: at, until, state });
            return Taken::In;
        };
        update(&mut open.state, open.until);
        Taken::In
    }

    /// Merges all sessions that overlap the span, and extends the result by it.
    #[inline(never)]
    fn join(
        &mut self,
        (at, until): (i64, i64),
        mut combine: impl FnMut(&mut S, S),
    ) -> Option<&mut Open<S>> {
        let touched = self.earlier.partition_point(|open| open.until < at)
            ..self.earlier.partition_point(|open| open.first <= until);
        let in_latest = |open: &Open<S>| at <= open.until && open.first <= until;
        if touched.len() == 1 && !self.latest.as_ref().is_some_and(in_latest) {
            // Out-of-order records are nearly always in one session, which need not be moved.
            let open = &mut self.earlier[touched.start];
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            return Some(open);
        }
        let latest = self.latest.take_if(|open| in_latest(open));
        let into_latest = latest.is_some();
        let place = touched.start;
        let joined = self.earlier.drain(touched).chain(latest).reduce(|mut one, other| {
            one.until = other.until;
            combine(&mut one.state, other.state);
            one
        });
        let mut joined = joined?;
        joined.first = joined.first.min(at);
        joined.until = joined.until.max(until);
        if into_latest {
            return Some(self.latest.insert(joined));
        }
        self.earlier.insert(place, joined);
        Some(&mut self.earlier[place])
    }

    /// Calls a closure with all sessions, in order.
    pub(super) fn each_open(&mut self, each: impl FnMut(&mut Open<S>)) {
        self.earlier.iter_mut().chain(&mut self.latest).for_each(each);
    }

    /// Adds a session that overlaps no other.
    fn add(&mut self, open: Open<S>) {
        match &mut self.latest {
            Some(latest) if latest.first < open.first => {
                self.earlier.push(std::mem::replace(latest, open));
            }
            Some(_) => {
                let place = self.earlier.partition_point(|other| other.first < open.first);
                self.earlier.insert(place, open);
            }
            None => self.latest = Some(open),
        }
    }

    /// Removes the sessions that end by `at`.
    pub(super) fn end(&mut self, at: i64, mut give: impl FnMut(Open<S>)) {
        let ended = self.earlier.partition_point(|open| open.until <= at);
        self.earlier.drain(..ended).for_each(&mut give);
        if self.earlier.is_empty() {
            self.earlier = Vec::new();
            if let Some(open) = self.latest.take_if(|open| open.until <= at) {
                give(open);
            }
        }
    }
}

impl<S, H: Had> Sessions<(S, H)> {
    /// For sessions that accept late records: calls `show` with those that end by `at`, which are kept, and removes
    /// those that have been kept long enough, after a call of `show` for those of them that have changed.
    pub(super) fn end_leniently(
        &mut self,
        at: i64,
        mut show: impl FnMut(&mut Open<(S, H)>),
        mut drop: impl FnMut(Open<(S, H)>),
    ) {
        let first = self.earlier.partition_point(has_ended);
        let ending = self.earlier[first..].iter_mut().chain(&mut self.latest);
        ending
            .filter(|open| !has_ended(open))
            .take_while(|open| open.until <= at)
            .for_each(&mut show);
        let is_gone = |open: &Open<(S, H)>| gone(open) <= at;
        let gone = self.earlier.partition_point(is_gone);
        for mut open in self.earlier.drain(..gone) {
            if has_changed(&open) {
                show(&mut open);
            }
            drop(open);
        }
        if self.earlier.is_empty() {
            self.earlier = Vec::new();
            if let Some(mut open) = self.latest.take_if(|open| is_gone(open)) {
                if has_changed(&open) {
                    show(&mut open);
                }
                drop(open);
            }
        }
    }

    /// Calls a closure with the sessions that late records have changed.
    pub(super) fn each_changed(&mut self, show: impl FnMut(&mut Open<(S, H)>)) {
        let all = self.earlier.iter_mut().chain(&mut self.latest);
        all.filter(|open| has_changed(open)).for_each(show);
    }

    /// Whether a session has records that were in no result.
    pub(super) fn is_fresh(&self) -> bool {
        self.earlier.iter().chain(&self.latest).any(|open| open.state.1.fresh() > 0)
    }
}

/// Whether a session has ended and is kept for late records.
#[inline(always)]
fn has_ended<S, H: Had>(open: &Open<(S, H)>) -> bool {
    open.state.1.lenience().is_some_and(|late| late.has_ended)
}

fn has_changed<S, H: Had>(open: &Open<(S, H)>) -> bool {
    open.state.1.lenience().is_some_and(|late| late.has_changed)
}

/// When a session is removed.
fn gone<S, H: Had>(open: &Open<(S, H)>) -> i64 {
    open.state.1.lenience().map_or(open.until, |late| late.gone(open.until))
}

impl<S: Data, H: Had> TimedState for Sessions<(S, H)> {
    type Clocks = H::Clocks;
    type Owned = S;

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        match clock {
            TimerClock::Event => {
                let first = self.earlier.first().or(self.latest.as_ref())?;
                if !has_ended(first) {
                    return Some(first.until);
                }
                // Sessions that have ended come before the others.
                let open = self.earlier.get(self.earlier.partition_point(has_ended));
                let open = open.or(self.latest.as_ref()).filter(|open| !has_ended(open));
                Some(open.map_or(i64::MAX, |open| open.until).min(gone(first)))
            }
            TimerClock::Processing => (self.tick < i64::MAX).then_some(self.tick),
        }
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.latest.is_none()
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        self.earlier.capacity() * size_of::<Open<(S, H)>>()
    }

    fn owned(&self) -> usize {
        self.earlier.iter().chain(&self.latest).map(|open| open.state.0.heap_size()).sum()
    }
}
