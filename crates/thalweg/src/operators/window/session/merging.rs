//! The operator of sessions that are merged from parts, in the task that owns the keys.

use super::super::pane::Pane;
use super::firing::{HINT, end_sessions, last_passed, report_sessions};
use super::local::{Part, SessionPart};
use super::open::{Sessions, SessionsOf, Taken};
use crate::data::{Key, Record};
use crate::error::Result;
use crate::exchange::PartialEntry;
use crate::flow::{Op, Push, arm};
use crate::metrics::Report;
use crate::operators::aggregates::Combine;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;
use crate::stream::Chain;
use crate::support::keyed_timers::{Firing, KeyedTimers, KeysOf, Takes, TimerPolicy, TimerPush};
use crate::time::{EventTime, Timestamp};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends with the results of sessions, which it merges from the parts of all tasks.
pub struct Merging<C, K: ?Sized, V: ?Sized, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) aggregate: Arc<A>,
    pub(super) types: PhantomData<fn(&K, &V)>,
}

impl<C, K, V, A> Chain for Merging<C, K, V, A>
where
    C: Chain<Item = SessionPart<K, A::State>, Time: EventTime>,
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V>,
{
    type Item = (K::Owned, Pane<A::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<MergedKeys<C::Time, K, V, A, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = MergedKeys {
            op: cx.op(self.op),
            aggregate: Arc::clone(&self.aggregate),
            emitted: 0,
            late: 0,
            next,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the open sessions", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// Sessions that are merged from parts, in a running task.
pub struct MergedKeys<T, K: ?Sized, V: ?Sized, A, N> {
    op: Op,
    aggregate: Arc<A>,
    emitted: u64,
    late: u64,
    next: N,
    types: PhantomData<fn(T, &K, &V)>,
}

impl<T, K, V, A, N> Takes<SessionPart<K, A::State>, T> for MergedKeys<T, K, V, A, N>
where
    T: EventTime,
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V>,
    N: Push<(K::Owned, Pane<A::Output>), T>,
{
    #[inline(always)]
    fn take(&mut self, keys: &mut KeysOf<Self>, item: PartialEntry<'_, K, Part<A::State>>, _: T) {
        let watermark = keys.watermark().map_or(i64::MIN, Timestamp::as_micros);
        let PartialEntry { hash, key, arena, state: (first, until, part) } = item;
        let Self { op, aggregate, late, .. } = self;
        K::view(&key, arena, |key| {
            let Some(mut visit) = keys.visit(hash, key, Sessions::new) else { return };
            let armed = arm(op);
            let taken = visit.guard(|sessions| {
                let part = Cell::new(Some((part, ())));
                sessions.take(
                    (first, until),
                    |until| until < watermark,
                    || part.take().unwrap_or_else(|| (aggregate.start(), ())),
                    |(state, ()), _| {
                        if let Some((part, ())) = part.take() {
                            aggregate.combine(state, part);
                        }
                    },
                    |(state, ()), (other, ())| aggregate.combine(state, other),
                )
            });
            armed.disarm();
            // Parts of several records are never late.
            *late += u64::from(taken == Taken::Late);
            visit.leave(hash);
        });
    }
}

impl<T, K, V, A, N> TimerPolicy for MergedKeys<T, K, V, A, N>
where
    T: EventTime,
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V>,
    N: Push<(K::Owned, Pane<A::Output>), T>,
{
    type Key = K;
    type State = SessionsOf<A::State, ()>;
    type Next = N;

    fn next(&mut self) -> &mut N {
        &mut self.next
    }

    fn passed(watermark: Timestamp) -> Option<i64> {
        last_passed(watermark)
    }

    fn wake(
        &mut self,
        key: &K,
        sessions: &mut Self::State,
        firing: Firing,
        weighed: &mut HeapEstimate<A::State>,
    ) {
        let Self { op, aggregate, emitted, next, .. } = self;
        end_sessions::<V, A, (), T>(op, aggregate, sessions, firing.at, weighed, |pane, at| {
            *emitted += 1;
            next.push((key.own(), pane), at);
        });
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report) {
        report_sessions(&self.op, keys, self.emitted, report);
        report.late(self.op.id(), self.late, self.late);
    }
}
