//! The operator of windows by arrival, in the task that owns the keys: passes each value to its key's `KeyWindows`,
//! and emits the results.
//!
//! Results that a record completes, at most two, and the early ones that are due with it, are emitted with the record.
//! Results that time completes, early ones at an interval, and those that remain at the end, are emitted by the engine
//! of keyed timers.

use super::key_windows::{Given, KeyWindows, Now};
use crate::clock::Clock;
use crate::data::{Key, Portable, Record, Wire};
use crate::error::Result;
use crate::flow::{Op, Push, arm, guard, guard_key};
use crate::metrics::Report;
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::operators::window::CountPane;
use crate::operators::window::early::Pace;
use crate::operators::window::windowed::Described;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;
use crate::stream::{Chain, Stream};
use crate::support::keyed_timers::{Firing, KeyedTimers, KeysOf, Takes, TimerPolicy, TimerPush};
use crate::time::{Time, Timestamp};
use std::marker::PhantomData;

/// The chain of windows by arrival, after the exchange by key.
pub(super) type ByArrival<C, G, P, X> =
    Arriving<<P as Placed>::PartitionedChain<C, G>, <P as Placed>::Keys<C, G>, X>;

/// Sends records to the tasks that own their keys, and makes windows there.
pub(super) fn arriving<C, G, P, X>(
    keyed: KeyedStream<C, G, P>,
    plan: Described,
    course: X,
) -> Stream<ByArrival<C, G, P, X>>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item>,
    P: Placed,
    X: KeyWindows<G::Value, C::Time>,
{
    let (stream, keys) = P::partitioned(keyed, plan.origin).into_parts();
    stream.then_described(plan.origin, plan.details, |prev, op| Arriving { prev, op, keys, course })
}

/// The chain that ends with windows by arrival. All records of a key must be in one task.
pub struct Arriving<C, G, X> {
    prev: C,
    op: usize,
    keys: G,
    course: X,
}

/// The key of a result.
type OwnedKey<I, G> = <<G as KeyBy<I>>::Key as Portable>::Owned;

impl<C, G, X> Chain for Arriving<C, G, X>
where
    C: Chain,
    G: KeyBy<C::Item>,
    X: KeyWindows<G::Value, C::Time>,
{
    type Item = (<G::Key as Portable>::Owned, CountPane<X::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<ArrivingKeys<C::Item, C::Time, G, X, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = ArrivingKeys {
            op: cx.op(self.op),
            by: self.keys.clone(),
            course: self.course.clone(),
            clock: cx.clock.clone(),
            pace: Pace::new(cx, self.course.early()),
            out: Vec::new(),
            emitted: 0,
            next,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the windows", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// A hint for the error when memory is exhausted.
const HINT: &str =
    "smaller windows, or a smaller state (as of a count, in place of a list), need less";

/// Windows by arrival in a running task.
pub struct ArrivingKeys<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    X: KeyWindows<G::Value, T>,
{
    op: Op,
    by: G,
    course: X,
    clock: Clock,
    pace: Pace,
    /// Results that are emitted together.
    out: Vec<Given<X::Output, T>>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I, T, G, X, N> TimerPolicy for ArrivingKeys<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    X: KeyWindows<G::Value, T>,
    N: Push<(OwnedKey<I, G>, CountPane<X::Output>), T>,
{
    type Key = G::Key;
    type State = X::State;
    type Next = N;

    const ENDS: bool = true;

    fn next(&mut self) -> &mut N {
        &mut self.next
    }

    fn wake(
        &mut self,
        key: &G::Key,
        state: &mut X::State,
        firing: Firing,
        _: &mut HeapEstimate<()>,
    ) {
        let Self { op, course, clock, pace, out, emitted, next, .. } = self;
        let now = Now { clock, pace, watermark: firing.watermark };
        guard(op, || {
            guard_key(key, || course.wake(state, firing, &now, |given| out.push(given)));
        });
        for (pane, time) in out.drain(..) {
            *emitted += 1;
            next.push((key.own(), pane), time);
        }
    }

    fn catch_up(&mut self, _: &mut KeysOf<Self>) -> bool {
        if X::EARLY {
            self.pace.look();
        }
        false
    }

    /// Emits what remains of a key, one window at a time.
    fn end(&mut self, key: &G::Key, state: &mut X::State, _: Option<Timestamp>) -> bool {
        let Self { op, course, emitted, next, .. } = self;
        let given = guard(op, || guard_key(key, || course.at_end(state)));
        let Some((pane, time)) = given else { return false };
        *emitted += 1;
        next.push((key.own(), pane), time);
        true
    }

    fn report(&mut self, _: &KeysOf<Self>, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
    }
}

impl<I, T, G, X, N> Takes<I, T> for ArrivingKeys<I, T, G, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    X: KeyWindows<G::Value, T>,
    N: Push<(OwnedKey<I, G>, CountPane<X::Output>), T>,
{
    #[inline(always)]
    fn take(&mut self, keys: &mut KeysOf<Self>, item: I::Of<'_>, time: T) {
        let Self { op, by, course, clock, pace, out, emitted, next, .. } = self;
        let now = Now { clock, pace, watermark: keys.watermark() };
        let armed = arm(op);
        let (hash, key) = (by.hash(&item), by.key(&item));
        let Some(mut visit) = keys.visit(hash, key, || course.start()) else {
            return armed.disarm();
        };
        if let Some((pane, time)) = course.before(visit.state(), time, &now) {
            *emitted += 1;
            next.push((visit.key(), pane), time);
        }
        let given = visit.guard(|state| course.take(state, by.value(item), time, &now));
        if X::EARLY {
            visit.guard(|state| course.after(state, &now, |given| out.push(given)));
        }
        armed.disarm();
        if let Some((pane, time)) = given {
            *emitted += 1;
            next.push((visit.key(), pane), time);
        }
        if X::EARLY {
            for (pane, time) in out.drain(..) {
                *emitted += 1;
                next.push((visit.key(), pane), time);
            }
        }
        visit.leave(hash);
    }
}
