//! The task that owns the keys: takes records into sessions, and gives out those that end.
//!
//! A key with open sessions has a timer for the first of them to end. A session that is extended keeps
//! its timer: when that comes, the next one is set. A timer knows its key by hash and number, so that
//! neither is a key copied nor does a table that grows have to tell the timers.

use super::super::pane::{Pane, Timing};
use super::Gap;
use super::early::{Earlies, EarlySessions, Had, KeyNumber};
use super::late::{Exit, Latecomers};
use super::open::{Open, Sessions, Taken};
use crate::clock::Nanos;
use crate::data::{Data, Key, Portable, Record};
use crate::error::Result;
use crate::flow::{CHUNK, Event, Flow, Forked, Op, Pipe, Push, arm, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::aggregates::Combine;
use crate::operators::keyed::KeyBy;
use crate::plan::TaskContext;
use crate::state::{GroupTable, Timers, Weighed};
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends in the results of sessions. All records of a key must come to one task.
pub struct Sessioning<C, G, F, L, E, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) gap: F,
    pub(super) late: L,
    pub(super) early: E,
    pub(super) aggregate: Arc<A>,
}

impl<C, G, F, L, E, A> Chain for Sessioning<C, G, F, L, E, A>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    F: Gap<G::Value>,
    L: Latecomers<C::Item, G, C::Time>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
{
    type Item = (<G::Key as Portable>::Owned, Pane<A::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<SessioningPush<C::Item, C::Time, G, F, L::Exit, E, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let push = SessioningPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            gap: self.gap.clone(),
            aggregate: Arc::clone(&self.aggregate),
            table: GroupTable::new(),
            timers: Timers::new(),
            numbers: 0,
            heap: 0,
            weighed: Weighed::new(),
            live: 0,
            watermark: Timestamp::MIN,
            due: None,
            held: None,
            reservation: cx.fixed(self.op),
            failed: false,
            emitted: 0,
            late: 0,
            early: Earlies::new(cx, self.early.early()),
            ends: Forked((next, self.late.exit(cx, self.op))),
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Sessions in a running task.
pub struct SessioningPush<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
{
    op: Op,
    keys: G,
    gap: F,
    aggregate: Arc<A>,
    table: GroupTable<G::Key, Sessions<(A::State, E::Had)>>,
    /// When the first session of a key may end.
    timers: Timers<KeyNumber>,
    /// Keys that were new so far.
    numbers: u64,
    /// The bytes of all sessions that do not lie in place.
    heap: usize,
    /// What their aggregates own on the heap.
    weighed: Weighed<A::State>,
    /// Keys that have open sessions.
    live: usize,
    /// Sessions that end before it have been given out.
    watermark: Timestamp,
    /// Sessions that end by then are to be given out.
    due: Option<i64>,
    /// An event that waits until they are.
    held: Option<Event>,
    reservation: Reservation,
    failed: bool,
    emitted: u64,
    late: u64,
    early: Earlies,
    /// Where results go, and where late records.
    ends: Forked<(N, X)>,
    types: PhantomData<fn(&I, T)>,
}

/// A key's place in the table, and what is needed to take a record in there.
struct Entry<'a, S, H, G, F, A> {
    sessions: &'a mut Sessions<(S, H)>,
    keys: &'a G,
    gap: &'a F,
    aggregate: &'a A,
}

/// What came of a record that was taken in.
struct Entered {
    taken: Taken,
    number: u64,
    /// How many records its session holds that were in no result, where that counts.
    fresh: u64,
    was_empty: bool,
    heap_before: usize,
    heap: usize,
}

impl<S, H: Had, G, F, A> Entry<'_, S, H, G, F, A> {
    #[inline(always)]
    fn enter<I>(self, item: I::Of<'_>, at: Timestamp, watermark: Timestamp) -> Entered
    where
        I: Record + ?Sized,
        G: KeyBy<I>,
        F: Gap<G::Value>,
        A: Combine<G::Value, State = S>,
    {
        let (value, aggregate) = (self.keys.value(item), self.aggregate);
        let gap = self.gap.gap(&value);
        self.enter_with::<I>(gap, at, watermark, |state| aggregate.update(state, value))
    }

    /// The same, of a record that lets others come after such a gap.
    #[inline(always)]
    fn enter_with<I>(
        self,
        gap: i64,
        at: Timestamp,
        watermark: Timestamp,
        update: impl FnOnce(&mut S),
    ) -> Entered
    where
        I: Record + ?Sized,
        G: KeyBy<I>,
        A: Combine<G::Value, State = S>,
    {
        let Self { sessions, aggregate, .. } = self;
        let (heap_before, was_empty) = (sessions.heap(), sessions.is_empty());
        let (at, mut fresh) = (at.as_micros(), 0);
        let taken = sessions.take(
            (at, at.saturating_add(gap)),
            |until| until < watermark.as_micros(),
            || (aggregate.start(), H::default()),
            |(state, had)| {
                update(state);
                had.took();
                fresh = had.fresh();
            },
            |(state, had), (other, other_had)| {
                aggregate.combine(state, other);
                had.merge(other_had);
            },
        );
        let (number, heap) = (sessions.number, sessions.heap());
        Entered { taken, number, fresh, was_empty, heap_before, heap }
    }
}

impl<I, T, G, F, X, E, A, N> SessioningPush<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>, at: Timestamp) {
        if X::OPEN && at < self.watermark {
            return self.take_behind(item, at);
        }
        let Self { op, keys, gap, aggregate, table, watermark, .. } = self;
        let armed = arm(op);
        let hash = keys.hash(&item);
        let found = table.known(hash, keys.key(&item).probe());
        if let Some(known) = found {
            let entered = known.guard(|sessions| {
                let entry = Entry { sessions, keys, gap, aggregate: &**aggregate };
                entry.enter::<I>(item, at, *watermark)
            });
            armed.disarm();
            self.note(hash, entered);
        } else {
            armed.disarm();
            self.take_new(hash, item, at);
        }
    }

    /// Takes in a record whose key is not in the table, if there is room.
    #[inline(never)]
    fn take_new(&mut self, hash: u64, item: I::Of<'_>, at: Timestamp) {
        if self.table.is_full() {
            let grown = self.table.bytes_if_grown() - self.table.bytes();
            if !self.reserve(self.bytes() + grown) {
                return;
            }
        }
        let number = self.numbers;
        self.numbers += 1;
        let Self { op, keys, gap, aggregate, table, watermark, .. } = self;
        let entered = guard(op, || {
            let key = keys.key(&item);
            let known = table.entry(hash, key.probe(), key, || Sessions::new(number));
            known.guard(|sessions| {
                let entry = Entry { sessions, keys, gap, aggregate: &**aggregate };
                entry.enter::<I>(item, at, *watermark)
            })
        });
        self.note(hash, entered);
    }

    /// Takes a record in that may be late, or sends it away.
    #[cold]
    #[inline(never)]
    fn take_behind(&mut self, item: I::Of<'_>, at: Timestamp) {
        if self.table.is_full() {
            let grown = self.table.bytes_if_grown() - self.table.bytes();
            if !self.reserve(self.bytes() + grown) {
                return;
            }
        }
        let number = self.numbers;
        self.numbers += 1;
        let Self { op, keys, gap, aggregate, table, watermark, .. } = self;
        let (hash, entered, late) = guard(op, || {
            let key = keys.key(&item);
            let (hash, own) = (keys.hash(&item), key.own());
            let known = table.entry(hash, key.probe(), key, || Sessions::new(number));
            let mut value = Some(keys.value(item));
            let gap_of = value.as_ref().map_or(0, |value| gap.gap(value));
            let entered = known.guard(|sessions| {
                let entry = Entry { sessions, keys, gap, aggregate: &**aggregate };
                entry.enter_with::<I>(gap_of, at, *watermark, |state| {
                    if let Some(value) = value.take() {
                        aggregate.update(state, value);
                    }
                })
            });
            (hash, entered, value.map(|value| (own, value)))
        });
        self.note(hash, entered);
        if let Some((key, value)) = late {
            self.ends.0.1.push_late(key, value, T::from(at));
        }
    }

    /// Does what a record asks for that was taken in.
    #[inline(always)]
    fn note(&mut self, hash: u64, entered: Entered) {
        self.weighed.changed();
        if entered.heap != entered.heap_before {
            self.heap = self.heap - entered.heap_before + entered.heap;
            self.reserve(self.bytes());
        }
        match entered.taken {
            Taken::In => {}
            Taken::Late => self.late += 1,
            Taken::Arm(until) => {
                self.live += usize::from(entered.was_empty);
                self.set_timer(until, (hash, entered.number));
            }
        }
        if E::ANY && entered.fresh > 0 && self.early.note((hash, entered.number), entered.fresh) {
            self.give_early((hash, entered.number));
        }
    }

    /// Gives the results that are due of the open sessions of a key.
    fn give_early(&mut self, (hash, number): KeyNumber) {
        if self.failed {
            return;
        }
        let Self { op, aggregate, table, early, emitted, ends, .. } = self;
        table.see_where(
            hash,
            |sessions| sessions.number == number,
            |key, sessions| {
                early.each_due(sessions, |open, number| {
                    let value =
                        guard(op, || E::copy(&open.state.0).map(|state| aggregate.finish(state)));
                    let Some(value) = value else { return };
                    let start = Timestamp::from_micros(open.first);
                    let end = Timestamp::from_micros(open.until.saturating_add(1));
                    *emitted += 1;
                    let pane = Pane { start, end, timing: Timing::Early(number), value };
                    ends.0.0.push((key.own(), pane), T::from(Timestamp::from_micros(open.until)));
                });
            },
        );
    }

    /// Gives the results of some keys whose time has come; answers whether there may be more.
    fn give_some_early(&mut self) -> bool {
        for _ in 0..CHUNK {
            match self.early.next() {
                Some(key) => self.give_early(key),
                None => return false,
            }
        }
        true
    }

    #[inline(never)]
    fn set_timer(&mut self, until: i64, alarm: KeyNumber) {
        if self.timers.is_full() {
            let grown = self.timers.bytes_if_grown() - self.timers.bytes();
            self.reserve(self.bytes() + grown);
        }
        self.timers.add(until, alarm);
    }

    fn bytes(&self) -> usize {
        let sessions = self.heap + self.weighed.bytes();
        self.table.bytes() + self.timers.bytes() + sessions + self.early.bytes()
    }

    /// Asks for memory, and fails the job when it is not there.
    #[cold]
    fn reserve(&mut self, bytes: usize) -> bool {
        if !self.failed && bytes > self.reservation.bytes() && !self.reservation.try_resize(bytes) {
            // What aggregates own may have been taken for more than it is.
            let estimate = self.weighed.bytes();
            self.weigh();
            if self.reservation.try_resize(bytes - estimate + self.weighed.bytes()) {
                return true;
            }
            self.failed = true;
            let what = format!(
                "the open sessions of one of its tasks are those of {} keys, for which the memory budget \
                 of {} bytes has no room, and sessions do not go to disk; a shorter gap or a smaller state (as of a count, \
                 in place of a list) needs less",
                self.live,
                self.reservation.pool().limit(),
            );
            self.op.fail(self.reservation.refused(what));
        }
        !self.failed
    }

    #[cold]
    fn weigh(&mut self) {
        let open = self.table.values().flat_map(Sessions::iter);
        self.weighed.weigh(open.map(|open| open.state.0.heap_size()));
    }

    /// Between two batches: accounts for what aggregates own.
    fn account(&mut self) {
        if self.weighed.is_due(|| self.table.len()) {
            self.weigh();
            self.reserve(self.bytes());
        }
    }

    /// Gives out the sessions of some keys that have ended; answers whether there may be more, or what
    /// follows has something to do with what they gave.
    fn give_some(&mut self) -> bool {
        // A job that has failed is stopped, and what it holds must not look like results.
        let Some(due) = self.due.filter(|_| !self.failed) else { return false };
        for done in 0..CHUNK {
            let Some((at, (hash, number))) = self.timers.pop(due) else { return done > 0 };
            let Self { op, aggregate, table, heap, weighed, live, emitted, ends, .. } = self;
            let found = table.see_where(
                hash,
                |sessions| sessions.number == number,
                |key, sessions| {
                    let (before, was_empty) = (sessions.heap(), sessions.is_empty());
                    let again = sessions.end(at, |open| {
                        let Open { first, until, state } = open;
                        weighed.leaves(&state.0);
                        let value = guard(op, || aggregate.finish(state.0));
                        let start = Timestamp::from_micros(first);
                        let end = Timestamp::from_micros(until.saturating_add(1));
                        *emitted += 1;
                        let pane = Pane::on_time(start, end, value);
                        ends.0.0.push((key.own(), pane), T::from(Timestamp::from_micros(until)));
                    });
                    *heap = *heap - before + sessions.heap();
                    *live -= usize::from(!was_empty && sessions.is_empty());
                    again
                },
            );
            if let Some(Some(again)) = found {
                self.set_timer(again, (hash, number));
            }
        }
        true
    }

    /// Drops the keys that have no sessions left, when there are many, and gives back memory.
    fn forget_spent(&mut self) {
        self.table.forget_spent(self.live, |sessions| !sessions.is_empty());
        let bytes = self.bytes();
        if bytes < self.reservation.bytes() {
            let _ = self.reservation.try_resize(bytes);
        } else {
            self.reserve(bytes);
        }
    }
}

impl<I, T, G, F, X, E, A, N> Push<I, T> for SessioningPush<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.take(item, time.into());
    }
}

impl<I, T, G, F, X, E, A, N> Pipe for SessioningPush<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn event(&mut self, event: Event) {
        self.due = match event {
            // A record at the last moment of a session may still come until the watermark is behind it.
            Event::Watermark(at) => at.as_micros().checked_sub(1),
            Event::Round(_) | Event::End => Some(i64::MAX),
            Event::Idle | Event::Partition(_) | Event::Barrier(_) => None,
        };
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        self.account();
        loop {
            match self.ends.resume() {
                Flow::Ready => {}
                other => return other,
            }
            let Some(event) = self.held else {
                let before = self.emitted;
                let more = E::ANY && self.give_some_early();
                return if more || self.emitted > before { Flow::Busy } else { Flow::Ready };
            };
            if self.give_some() {
                return Flow::Busy;
            }
            match event {
                Event::Watermark(at) => self.watermark = self.watermark.max(at),
                Event::Round(_) => self.watermark = Timestamp::MIN,
                Event::Idle | Event::Partition(_) | Event::Barrier(_) | Event::End => {}
            }
            self.forget_spent();
            (self.held, self.due) = (None, None);
            self.ends.event(event);
        }
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = self.ends.idle(now);
        if !E::ANY {
            return again;
        }
        again.into_iter().chain(self.early.look(now)).min()
    }

    fn tick(&mut self, now: Nanos) {
        if E::ANY {
            self.early.look(now);
        }
        self.ends.tick(now);
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.live as u64);
        report.late(op, self.late, if X::OPEN { 0 } else { self.late });
        // Those that were extended end later.
        let until = self.timers.first();
        report.open_until(op, until.map(|until| Timestamp::from_micros(until.saturating_add(1))));
        self.ends.report(report);
    }
}
