//! The task that owns the keys: hands each value to its key's course, and gives out what that answers.
//!
//! A result that a record completes is given with the record, of which there are two at most. Those that a timer completes are given before
//! the next batch, or before the watermark that has brought them, and those that remain before the end, in
//! steps of a bounded number.

use super::course::{Answer, Course, Cx, Due, nanos_of};
use crate::clock::Nanos;
use crate::data::{Data, Key, Portable, Record, Wire};
use crate::error::Result;
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, arm, guard, guard_key};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::keyed::{KeyBy, KeyedStream, Placement};
use crate::operators::window::CountPane;
use crate::operators::window::windowed::Described;
use crate::plan::TaskContext;
use crate::state::GroupTable;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The chain of windows by arrival, after records have come to the tasks of their keys.
pub(super) type ByArrival<C, G, P, X> =
    Arriving<<P as Placement<C, G>>::Chain, <P as Placement<C, G>>::Keys, X>;

/// Brings records to the tasks of their keys, and makes windows of them there.
pub(super) fn arriving<C, G, P, X>(
    keyed: KeyedStream<C, G, P>,
    plan: Described,
    course: X,
) -> Stream<ByArrival<C, G, P, X>>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    P: Placement<C, G>,
    X: Course<G::Value, C::Time>,
{
    let (stream, keys) = P::together(keyed, plan.origin).into_parts();
    stream.then_described(plan.origin, plan.detail, |prev, op| Arriving { prev, op, keys, course })
}

/// The chain that ends in windows by arrival. All records of a key must come to one task.
pub struct Arriving<C, G, X> {
    prev: C,
    op: usize,
    keys: G,
    course: X,
}

/// The key that a timer is for.
type OwnedKey<I, G> = <<G as KeyBy<I>>::Key as Portable>::Owned;

impl<C, G, X> Chain for Arriving<C, G, X>
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    X: Course<G::Value, C::Time>,
{
    type Item = (<G::Key as Portable>::Owned, CountPane<X::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<ArrivingPush<C::Item, C::Time, G, X, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let push = ArrivingPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            course: self.course.clone(),
            table: GroupTable::new(),
            timers: BinaryHeap::new(),
            asked: 0,
            shared: Cx::new(cx.clock.clone()),
            held: None,
            ending: 0,
            reservation: cx.fixed(self.op),
            failed: false,
            emitted: 0,
            next,
        };
        self.prev.attach(cx, push)
    }
}

/// Windows by arrival in a running task.
pub struct ArrivingPush<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    X: Course<G::Value, T>,
{
    op: Op,
    keys: G,
    course: X,
    table: GroupTable<G::Key, X::State>,
    timers: BinaryHeap<Reverse<Timer<OwnedKey<I, G>>>>,
    /// Timers asked for so far.
    asked: u64,
    shared: Cx,
    /// An event that waits until the results before it are given out.
    held: Option<Event>,
    /// At the end, the place in the table that is looked at.
    ending: usize,
    reservation: Reservation,
    failed: bool,
    emitted: u64,
    next: N,
}

/// When to look at a key again. Those of one time come in the order in which they were asked for.
struct Timer<K> {
    at: Due,
    number: u64,
    key: K,
}

impl<K> Timer<K> {
    fn order(&self) -> (Due, u64) {
        (self.at, self.number)
    }
}

impl<K> PartialEq for Timer<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<K> Eq for Timer<K> {}

impl<K> PartialOrd for Timer<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Timer<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl<I, T, G, X, N> ArrivingPush<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    X: Course<G::Value, T>,
    N: Push<(OwnedKey<I, G>, CountPane<X::Output>), T>,
{
    fn wake_at(&mut self, at: Due, key: OwnedKey<I, G>) {
        self.asked += 1;
        self.shared.resized(0, key.heap_size());
        self.timers.push(Reverse(Timer { at, number: self.asked, key }));
    }

    /// What all that is remembered occupies.
    fn bytes(&self) -> usize {
        let timers = self.timers.capacity() * size_of::<Timer<OwnedKey<I, G>>>();
        self.table.bytes() + timers + self.shared.heap
    }

    /// Asks for `bytes` in all, and fails the job when they are not there.
    fn reserve(&mut self, bytes: usize) -> bool {
        if !self.failed && !self.reservation.try_resize(bytes) {
            self.fail();
        }
        !self.failed
    }

    #[cold]
    fn fail(&mut self) {
        self.failed = true;
        let what = format!(
            "the windows of the {} keys of one of its tasks hold more than the memory budget of {} bytes \
             has room for, and windows do not go to disk; smaller ones, or a smaller state (as of a count, in place of a \
             list), need less",
            self.table.len(),
            self.reservation.pool().limit(),
        );
        self.op.fail(self.reservation.refused(what));
    }

    /// Accounts for what has grown since the last batch. Some more is asked for at a time, and given back
    /// when much of it is not used.
    fn account(&mut self) {
        let (used, held) = (self.bytes(), self.reservation.bytes());
        if used > held || held - used > used / 4 + SPARE {
            let more = used + used / 8;
            if !self.reservation.try_resize(more) {
                self.reserve(used);
            }
        }
    }

    /// Before a new key makes the table grow.
    #[cold]
    #[inline(never)]
    fn may_grow(&mut self) -> bool {
        let bytes = self.bytes() - self.table.bytes() + self.table.bytes_if_grown();
        self.reserve(bytes)
    }

    /// Looks at keys whose time has come, up to a chunk of them; answers whether that was all.
    fn fire(&mut self) -> bool {
        if self.timers.is_empty() {
            return true;
        }
        let Some(now) = self.shared.now::<T>() else { return true };
        for _ in 0..CHUNK {
            if self.timers.peek().is_none_or(|timer| timer.0.at > now) {
                return true;
            }
            let Some(Reverse(Timer { key, .. })) = self.timers.pop() else { return true };
            self.shared.resized(key.heap_size(), 0);
            let answer = {
                let Self { op, course, table, shared, .. } = self;
                let probe = key.borrow().probe();
                let known = table.find(G::Key::hash(probe), probe);
                known.map(|state| {
                    guard(op, || guard_key(key.borrow(), || course.wake(state, now, shared)))
                })
            };
            match answer {
                Some(Answer::Give((pane, time))) => {
                    self.emitted += 1;
                    self.next.push((key, pane), time);
                }
                Some(Answer::Wake(at)) => self.wake_at(at, key),
                Some(Answer::Nothing) | None => {}
            }
        }
        false
    }

    /// Forgets every key, for the next round of a loop.
    fn restart(&mut self) {
        self.table.clear();
        self.timers.clear();
        (self.ending, self.shared.heap) = (0, 0);
        (self.shared.ended, self.shared.watermark) = (false, None);
    }

    /// Gives what remains at the end, up to a chunk of it; answers whether that was all.
    fn give_rest(&mut self) -> bool {
        let Self { op, course, table, shared, ending, emitted, next, .. } = self;
        for _ in 0..CHUNK {
            let at = *ending;
            let given = table.see_next_mut(ending, |key, state| {
                let given = guard(op, || guard_key(key, || course.at_end(state, shared)));
                given.map(|given| (key.own(), given))
            });
            match given {
                None => return true,
                Some(None) => {}
                Some(Some((key, (pane, time)))) => {
                    *emitted += 1;
                    next.push((key, pane), time);
                    // The same key may have more.
                    *ending = at;
                }
            }
        }
        false
    }
}

/// Bytes that are not worth giving back.
const SPARE: usize = 4096;

impl<I, T, G, X, N> Push<I, T> for ArrivingPush<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    X: Course<G::Value, T>,
    N: Push<(OwnedKey<I, G>, CountPane<X::Output>), T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if self.failed || (self.table.is_full() && !self.may_grow()) {
            return;
        }
        let Self { op, keys, course, table, shared, emitted, next, .. } = self;
        let armed = arm(op);
        let (hash, key) = (keys.hash(&item), keys.key(&item));
        let mut known = table.entry(hash, key.probe(), key, || course.start());
        if let Some((pane, time)) = course.before(known.value, time, shared) {
            *emitted += 1;
            next.push((known.key(), pane), time);
        }
        let answer =
            known.reborrow().guard(|state| course.take(state, keys.value(item), time, shared));
        let key = match answer {
            Answer::Nothing => None,
            Answer::Give(_) | Answer::Wake(_) => Some(known.key()),
        };
        armed.disarm();
        match (answer, key) {
            (Answer::Give((pane, time)), Some(key)) => {
                self.emitted += 1;
                self.next.push((key, pane), time);
            }
            (Answer::Wake(at), Some(key)) => self.wake_at(at, key),
            _ => {}
        }
    }
}

impl<I, T, G, X, N> Pipe for ArrivingPush<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    X: Course<G::Value, T>,
    N: Push<(OwnedKey<I, G>, CountPane<X::Output>), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Watermark(at) => self.shared.watermark = self.shared.watermark.max(Some(at)),
            Event::Round(_) | Event::End => self.shared.ended = true,
            Event::Idle | Event::Partition(_) | Event::Barrier(_) => {}
        }
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        if !self.failed {
            self.account();
        }
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            // A job that has failed is stopped, and what it holds must not look like results.
            let before = self.emitted;
            let done = self.failed
                || (self.fire() && (!self.held.is_some_and(Event::completes) || self.give_rest()));
            if !done || self.emitted > before {
                return Flow::Busy;
            }
            let Some(event) = self.held.take() else { return Flow::Ready };
            if matches!(event, Event::Round(_)) {
                self.restart();
            }
            self.next.event(event);
        }
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let next = self.next.idle(now);
        // Those that go by the watermark wait for that.
        let timer = self.timers.peek().filter(|_| T::LAST.timestamp().is_none());
        let due = timer.map(|timer| nanos_of(timer.0.at));
        next.into_iter().chain(due).min()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.table.len() as u64);
        self.next.report(report);
    }
}
