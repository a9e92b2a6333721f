//! The open sessions of one key: how records extend and merge them.
//!
//! A session is the span from its first record to the last timestamp at which another one may still join, the
//! latest of its records' times plus their gaps. Both ends are part of it. Two sessions that overlap are merged,
//! so the sessions of a key are always disjoint.

use super::early::Had;
use crate::data::Data;
use crate::operators::window::early::{Counts, Tick};
use crate::support::keyed_timers::{EventCalendar, TimedState, TimerClock};
use smallvec::SmallVec;

/// One session.
#[derive(Debug, Data)]
pub struct Open<S> {
    /// The time of its first record.
    pub(super) first: i64,
    /// The last timestamp at which a record may join.
    pub(super) until: i64,
    pub(super) state: S,
}

/// The sessions of a key, in order. Nearly always there is one at most, which lies in place.
///
/// With many keys, each record waits for the cache lines of its key. So this is kept small: with an ordinary key
/// and count, sessions that have results only at their end occupy 40 bytes.
#[derive(Data)]
pub struct Sessions<S, K> {
    /// When results are due by the clock, early ones or those of late records.
    pub(super) tick: K,
    open: SmallVec<[Open<S>; 1]>,
}

/// The sessions of a key whose sessions have such states.
pub type SessionsOf<S, H> = Sessions<(S, H), <H as Counts>::Tick>;

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in a session.
    In,
    /// The session that it would be in has ended.
    Late,
}

impl<S, K: Tick> Sessions<S, K> {
    pub(super) fn new() -> Self {
        Self { tick: K::default(), open: SmallVec::new() }
    }

    /// Adds a record with the span from `at` to `until`. `gone` returns whether a session that ends at a time is
    /// no longer kept. `update` adds the record to a state, and receives the end of the session.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        span: (i64, i64),
        gone: impl Fn(i64) -> bool,
        start: impl FnOnce() -> S,
        update: impl FnOnce(&mut S, i64),
        combine: impl FnMut(&mut S, S),
    ) -> Taken {
        if let [earlier @ .., latest] = &mut *self.open
            && latest.overlaps(span)
            && earlier.last().is_none_or(|open| open.until < span.0)
        {
            latest.extend(span);
            update(&mut latest.state, latest.until);
            return Taken::In;
        }
        match self.join(span, combine) {
            Ok(open) => update(&mut open.state, open.until),
            Err(_) if gone(span.1) => return Taken::Late,
            Err(place) => {
                let mut state = start();
                update(&mut state, span.1);
                self.open.insert(place, Open { first: span.0, until: span.1, state });
            }
        }
        Taken::In
    }

    /// Merges all sessions that overlap the span, and extends the result by it. If there are none, returns the place
    /// of a session with this span.
    #[inline(never)]
    fn join(
        &mut self,
        span: (i64, i64),
        mut combine: impl FnMut(&mut S, S),
    ) -> Result<&mut Open<S>, usize> {
        let place = self.open.partition_point(|open| open.until < span.0);
        let count = self.open[place..].partition_point(|open| open.first <= span.1);
        if count > 1 {
            let joined = self.open.drain(place..place + count).reduce(|mut one, other| {
                one.until = other.until;
                combine(&mut one.state, other.state);
                one
            });
            if let Some(joined) = joined {
                self.open.insert(place, joined);
            }
        }
        match self.open.get_mut(place) {
            Some(open) if count > 0 => {
                open.extend(span);
                Ok(open)
            }
            _ => Err(place),
        }
    }

    /// Calls a closure with all sessions, in order.
    pub(super) fn each_open(&mut self, each: impl FnMut(&mut Open<S>)) {
        self.open.iter_mut().for_each(each);
    }

    /// Removes the session that ends before a time, if it is the only one of the key.
    #[inline(always)]
    pub(super) fn end_only(&mut self, time: i64) -> Option<Open<S>> {
        match &*self.open {
            [only] if only.until < time && !self.open.spilled() => self.open.pop(),
            _ => None,
        }
    }

    /// Removes the sessions that end by `at`.
    #[inline(always)]
    pub(super) fn end(&mut self, at: i64, mut give: impl FnMut(Open<S>)) {
        if let [only] = &*self.open
            && !self.open.spilled()
        {
            if only.until <= at {
                self.open.pop().into_iter().for_each(give);
            }
            return;
        }
        self.end_some(at, &mut give);
    }

    #[inline(never)]
    fn end_some(&mut self, at: i64, give: impl FnMut(Open<S>)) {
        let ended = self.open.partition_point(|open| open.until <= at);
        self.remove(ended, give);
    }

    /// Removes the first sessions.
    fn remove(&mut self, count: usize, each: impl FnMut(Open<S>)) {
        self.open.drain(..count).for_each(each);
        if self.open.spilled() && self.open.len() <= 1 {
            self.open.shrink_to_fit();
        }
    }
}

impl<S> Open<S> {
    #[inline(always)]
    fn overlaps(&self, (at, until): (i64, i64)) -> bool {
        at <= self.until && self.first <= until
    }

    #[inline(always)]
    fn extend(&mut self, (at, until): (i64, i64)) {
        (self.first, self.until) = (self.first.min(at), self.until.max(until));
    }
}

impl<S, H: Had> SessionsOf<S, H> {
    /// Of sessions that take late records in: shows those that end by then, which stay, and takes out those that have
    /// been there long enough, after it has shown those of them that have changed.
    pub(super) fn end_leniently(
        &mut self,
        at: i64,
        mut show: impl FnMut(&mut Open<(S, H)>),
        mut drop: impl FnMut(Open<(S, H)>),
    ) {
        // Those that have ended are before the others.
        let first = self.open.partition_point(has_ended);
        let ending = self.open.iter_mut().skip(first);
        ending
            .filter(|open| !has_ended(open))
            .take_while(|open| open.until <= at)
            .for_each(&mut show);
        let gone = self.open.partition_point(|open| gone(open) <= at);
        self.remove(gone, |mut open| {
            if has_changed(&open) {
                show(&mut open);
            }
            drop(open);
        });
    }

    /// Calls a closure with the sessions that late records have changed.
    pub(super) fn each_changed(&mut self, show: impl FnMut(&mut Open<(S, H)>)) {
        self.open.iter_mut().filter(|open| has_changed(open)).for_each(show);
    }

    /// Whether a session has records that were in no result.
    pub(super) fn is_fresh(&self) -> bool {
        self.open.iter().any(|open| open.state.1.fresh() > 0)
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

impl<S: Data, H: Had> TimedState for SessionsOf<S, H> {
    type Clocks = H::Clocks<EventCalendar>;
    type Owned = S;

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        match clock {
            TimerClock::Event => {
                let first = self.open.first()?;
                if !has_ended(first) {
                    return Some(first.until);
                }
                // Those that have ended are before the others.
                let open = self.open.get(self.open.partition_point(has_ended));
                let open = open.filter(|open| !has_ended(open));
                Some(open.map_or(i64::MAX, |open| open.until).min(gone(first)))
            }
            TimerClock::Processing => self.tick.due(clock),
        }
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.open.is_empty()
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        match self.open.spilled() {
            true => self.open.capacity() * size_of::<Open<S>>(),
            false => 0,
        }
    }

    fn owned(&self) -> usize {
        self.open.iter().map(|open| open.state.0.heap_size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Sums = SessionsOf<u64, ()>;

    fn take(sessions: &mut Sums, span: (i64, i64), value: u64) -> Taken {
        sessions.take(
            span,
            |until| until < 0,
            || (0, ()),
            |(sum, ()), _| *sum += value,
            |(sum, ()), (other, ())| *sum += other,
        )
    }

    fn all(sessions: &mut Sums) -> Vec<(i64, i64, u64)> {
        let mut all = Vec::new();
        sessions.each_open(|open| all.push((open.first, open.until, open.state.0)));
        all
    }

    proptest! {
        #[test]
        fn sessions_are_the_unions_of_spans_that_overlap(
            spans in proptest::collection::vec((-10..200i64, 0..20i64, 1..9u64), 0..60),
            ended in 0..200i64,
        ) {
            let (mut sessions, mut expected) = (Sums::new(), Vec::<(i64, i64, u64)>::new());
            for (at, gap, value) in spans {
                let mut joined = (at, at + gap, value);
                let (touched, apart): (Vec<_>, Vec<_>) =
                    expected.into_iter().partition(|one| one.0 <= at + gap && at <= one.1);
                expected = apart;
                let is_late = touched.is_empty() && at + gap < 0;
                for one in touched {
                    joined = (joined.0.min(one.0), joined.1.max(one.1), joined.2 + one.2);
                }
                if !is_late {
                    expected.push(joined);
                }
                expected.sort_unstable();
                prop_assert_eq!(take(&mut sessions, (at, at + gap), value) == Taken::Late, is_late);
                prop_assert_eq!(&all(&mut sessions), &expected);
                let first = expected.first().map(|one| one.1);
                prop_assert_eq!(sessions.due(TimerClock::Event), first);
            }
            let mut gone = Vec::new();
            sessions.end(ended, |open| gone.push((open.first, open.until, open.state.0)));
            let (before, after): (Vec<_>, Vec<_>) =
                expected.into_iter().partition(|one| one.1 <= ended);
            prop_assert_eq!(gone, before);
            prop_assert_eq!(sessions.is_spent(), after.is_empty());
            prop_assert_eq!(all(&mut sessions), after);
        }
    }

    #[test]
    fn only_a_session_that_is_alone_is_removed_before_the_others_of_its_time() {
        let mut sessions = Sums::new();
        take(&mut sessions, (10, 15), 1);
        assert!(sessions.end_only(15).is_none());
        assert_eq!(sessions.end_only(16).map(|open| open.until), Some(15));
        assert!(sessions.is_spent() && sessions.end_only(i64::MAX).is_none());
        take(&mut sessions, (10, 15), 1);
        take(&mut sessions, (30, 35), 1);
        assert!(sessions.end_only(i64::MAX).is_none());
    }

    #[test]
    fn one_session_owns_no_memory_and_that_of_more_is_returned() {
        let mut sessions = Sums::new();
        for (at, owns) in [(10, false), (30, true), (50, true), (70, true)] {
            take(&mut sessions, (at, at + 5), 1);
            assert_eq!(sessions.heap() > 0, owns, "{at}");
        }
        sessions.end(60, drop);
        assert_eq!((all(&mut sessions).len(), sessions.heap()), (1, 0));
        // Two that become one.
        for span in [(110, 115), (130, 135), (112, 133)] {
            take(&mut sessions, span, 1);
        }
        sessions.end(200, drop);
        assert_eq!((all(&mut sessions).len(), sessions.heap()), (0, 0));
    }
}
