//! The open sessions of one key: how records extend them, and how two of them become one.
//!
//! A session is the span from its first record to the last moment at which another one may still join,
//! which is the latest of its records' times plus their gaps. Both ends belong to it. Two sessions that
//! have a moment in common are one, so those of a key are always apart.

use super::early::Had;
use crate::data::Data;
use crate::support::keyed_timers::{TimedState, TimerClock};

/// One session.
#[derive(Debug)]
pub struct Open<S> {
    /// The time of its first record.
    pub(super) first: i64,
    /// The last moment at which a record may join.
    pub(super) until: i64,
    pub(super) state: S,
}

/// The sessions of a key. Nearly always there is one at most, which lies in place.
pub struct Sessions<S> {
    /// When early results are due that go by the clock; `i64::MAX` if none are.
    pub(super) tick: i64,
    latest: Option<Open<S>>,
    /// Those before it, in order.
    earlier: Vec<Open<S>>,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in a session.
    In,
    /// The session that it would have been in has ended.
    Late,
}

impl<S> Sessions<S> {
    pub(super) fn new() -> Self {
        Self { tick: i64::MAX, latest: None, earlier: Vec::new() }
    }

    /// Takes in a record of the span from `at` to `until`. `ended` says which moments are past: sessions
    /// that end there have been given out.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        (at, until): (i64, i64),
        ended: impl Fn(i64) -> bool,
        start: impl FnOnce() -> S,
        update: impl FnOnce(&mut S),
        combine: impl FnMut(&mut S, S),
    ) -> Taken {
        if let Some(open) = &mut self.latest
            && at <= open.until
            && open.first <= until
            && self.earlier.last().is_none_or(|earlier| earlier.until < at)
        {
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            update(&mut open.state);
            return Taken::In;
        }
        let Some(open) = self.join((at, until), combine) else {
            if ended(until) {
                return Taken::Late;
            }
            let mut state = start();
            update(&mut state);
            self.add(Open { first: at, until, state });
            return Taken::In;
        };
        update(&mut open.state);
        Taken::In
    }

    /// Makes one session of all that have a moment in common with the span, and of the span.
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
            // What comes out of order is nearly always in one session, which must not be moved for it.
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

    /// Shows all of them, in order.
    pub(super) fn each_open(&mut self, each: impl FnMut(&mut Open<S>)) {
        self.earlier.iter_mut().chain(&mut self.latest).for_each(each);
    }

    /// Adds a session that has no moment in common with another.
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

    /// Takes out the sessions that end by then.
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

impl<S: Data, H: Had> TimedState for Sessions<(S, H)> {
    type Clocks = H::Clocks;
    type Owned = S;

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        match clock {
            TimerClock::Event => {
                self.earlier.first().or(self.latest.as_ref()).map(|open| open.until)
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
