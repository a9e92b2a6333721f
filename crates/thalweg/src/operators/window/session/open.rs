//! The open sessions of one key: how records extend and merge them.
//!
//! A session is the span from its first record to the last timestamp at which another one may still join, the
//! latest of its records' times plus their gaps. Both ends are part of it. Two sessions that overlap are merged,
//! so the sessions of a key are always disjoint.

use super::early::Had;
use crate::data::Data;
use crate::operators::window::early::{Counts, Tick};
use crate::support::keyed_timers::{EventClock, TimedState, TimerClock};

/// One session.
#[derive(Debug)]
pub struct Open<S> {
    /// The time of its first record.
    pub(super) first: i64,
    /// The last timestamp at which a record may join.
    pub(super) until: i64,
    pub(super) state: S,
}

/// The sessions of a key. Nearly always there is one at most, which lies in place.
///
/// With many keys, each record waits for the cache lines of its key. So this is kept small: with an ordinary key, timer
/// and count, sessions that have results only at their end occupy one line of 64 bytes.
pub struct Sessions<S, K> {
    /// When results are due by the clock, early ones or those of late records.
    pub(super) tick: K,
    latest: Option<Open<S>>,
    /// Those before it.
    earlier: Option<Box<Earlier<S>>>,
}

/// The sessions of a key whose sessions have such states.
pub type SessionsOf<S, H> = Sessions<(S, H), <H as Counts>::Tick>;

/// Sessions before the latest, in order.
struct Earlier<S> {
    open: Vec<Open<S>>,
}

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
        Self { tick: K::default(), latest: None, earlier: None }
    }

    /// Those before the latest, in order.
    #[inline(always)]
    fn earlier(&self) -> &[Open<S>] {
        self.earlier.as_ref().map_or(&[], |earlier| &earlier.open)
    }

    /// Those before the latest, to be changed or added to.
    fn earlier_mut(&mut self) -> &mut Vec<Open<S>> {
        &mut self.earlier.get_or_insert_with(|| Box::new(Earlier { open: Vec::new() })).open
    }

    /// All of them, in order.
    fn iter(&self) -> impl Iterator<Item = &Open<S>> {
        self.earlier().iter().chain(&self.latest)
    }

    /// All of them, in order, to be changed.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open<S>> {
        self.earlier.iter_mut().flat_map(|earlier| &mut earlier.open).chain(&mut self.latest)
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
            && self.earlier.as_ref().is_none_or(|earlier| earlier.ends_before(at))
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
        // The latest alone would have been found.
        let earlier = &mut self.earlier.as_mut()?.open;
        let touched = earlier.partition_point(|open| open.until < at)
            ..earlier.partition_point(|open| open.first <= until);
        let in_latest = |open: &Open<S>| at <= open.until && open.first <= until;
        if touched.len() == 1 && !self.latest.as_ref().is_some_and(in_latest) {
            // What comes out of order is nearly always in one session, which must not be moved for it.
            let open = &mut earlier[touched.start];
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            return Some(open);
        }
        let latest = self.latest.take_if(|open| in_latest(open));
        let into_latest = latest.is_some();
        let place = touched.start;
        let joined = earlier.drain(touched).chain(latest).reduce(|mut one, other| {
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
        earlier.insert(place, joined);
        Some(&mut earlier[place])
    }

    /// Calls a closure with all sessions, in order.
    pub(super) fn each_open(&mut self, each: impl FnMut(&mut Open<S>)) {
        self.iter_mut().for_each(each);
    }

    /// Adds a session that overlaps no other.
    fn add(&mut self, open: Open<S>) {
        match &mut self.latest {
            Some(latest) if latest.first < open.first => {
                let former = std::mem::replace(latest, open);
                self.earlier_mut().push(former);
            }
            Some(_) => {
                let earlier = self.earlier_mut();
                let place = earlier.partition_point(|other| other.first < open.first);
                earlier.insert(place, open);
            }
            None => self.latest = Some(open),
        }
    }

    /// Removes the sessions that end by `at`.
    pub(super) fn end(&mut self, at: i64, mut give: impl FnMut(Open<S>)) {
        if let Some(Earlier { open: earlier }) = self.earlier.as_deref_mut() {
            let ended = earlier.partition_point(|open| open.until <= at);
            earlier.drain(..ended).for_each(&mut give);
        }
        if self.earlier().is_empty() {
            self.earlier = None;
            if let Some(open) = self.latest.take_if(|open| open.until <= at) {
                give(open);
            }
        }
    }
}

impl<S> Earlier<S> {
    /// The bytes that they occupy.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.open.capacity() * size_of::<Open<S>>()
    }

    /// Whether all of them end before a moment.
    fn ends_before(&self, at: i64) -> bool {
        self.open.last().is_none_or(|open| open.until < at)
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
        let first = self.earlier().partition_point(has_ended);
        let ending = self.iter_mut().skip(first);
        ending
            .filter(|open| !has_ended(open))
            .take_while(|open| open.until <= at)
            .for_each(&mut show);
        let is_gone = |open: &Open<(S, H)>| gone(open) <= at;
        if let Some(Earlier { open: earlier }) = self.earlier.as_deref_mut() {
            let gone = earlier.partition_point(is_gone);
            for mut open in earlier.drain(..gone) {
                if has_changed(&open) {
                    show(&mut open);
                }
                drop(open);
            }
        }
        if self.earlier().is_empty() {
            self.earlier = None;
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
        self.iter_mut().filter(|open| has_changed(open)).for_each(show);
    }

    /// Whether a session has records that were in no result.
    pub(super) fn is_fresh(&self) -> bool {
        self.iter().any(|open| open.state.1.fresh() > 0)
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
    type Clocks = H::Clocks<EventClock>;
    type Owned = S;

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        match clock {
            TimerClock::Event => {
                let first = self.earlier().first().or(self.latest.as_ref())?;
                if !has_ended(first) {
                    return Some(first.until);
                }
                // Those that have ended are before the others.
                let earlier = self.earlier();
                let open = earlier.get(earlier.partition_point(has_ended));
                let open = open.or(self.latest.as_ref()).filter(|open| !has_ended(open));
                Some(open.map_or(i64::MAX, |open| open.until).min(gone(first)))
            }
            TimerClock::Processing => self.tick.due(clock),
        }
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.latest.is_none()
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        self.earlier.as_ref().map_or(0, |earlier| earlier.bytes())
    }

    fn owned(&self) -> usize {
        self.iter().map(|open| open.state.0.heap_size()).sum()
    }
}
