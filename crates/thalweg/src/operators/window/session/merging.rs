//! The operator of sessions that are merged from parts, in the task that owns the keys.

use super::super::pane::Pane;
use super::firing::{HINT, end_sessions, last_passed, report_sessions};
use super::held::Held;
use super::local::{Part, SessionPart};
use super::open::{Sessions, SessionsOf, Taken};
use crate::data::{Key, Record};
use crate::error::Result;
use crate::exchange::{PartialBatch, PartialEntry};
use crate::flow::{Event, Op, Push, arm};
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
            merges: Merges {
                op: cx.op(self.op),
                aggregate: Arc::clone(&self.aggregate),
                late: 0,
                types: PhantomData,
            },
            emitted: 0,
            held: Held::default(),
            most: MOST.min(cx.memory.limit() / SHARE / cx.tasks.max(1)),
            next,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the open sessions", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// The bytes of parts that a task holds at most, and the part of the memory budget that all tasks do.
const MOST: usize = 4 << 20;
const SHARE: usize = 16;

/// Sessions that are merged from parts, in a running task.
pub struct MergedKeys<T, K: Key + ?Sized, V: Record + ?Sized, A: Combine<V>, N> {
    merges: Merges<V, A>,
    emitted: u64,
    held: Held<K, A::State>,
    /// The bytes of parts that may be held.
    most: usize,
    next: N,
    types: PhantomData<fn(T)>,
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
        // Whether a part that begins before the watermark is late, is decided when it comes.
        match item.state.0 >= watermark {
            true => self.held.push(item),
            false => self.merges.merge(keys, item),
        }
    }
}

/// What is done with a part.
struct Merges<V: ?Sized, A> {
    op: Op,
    aggregate: Arc<A>,
    late: u64,
    types: PhantomData<fn(&V)>,
}

impl<V: Record + ?Sized, A: Combine<V>> Merges<V, A> {
    /// Adds a part to the sessions of its key.
    #[inline(always)]
    fn merge<K: Key + ?Sized>(
        &mut self,
        keys: &mut KeyedTimers<K, SessionsOf<A::State, ()>>,
        item: PartialEntry<'_, K, Part<A::State>>,
    ) {
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
    /// Adds the parts that begin before a time to the sessions of their keys; all of them, if none is given.
    #[inline(never)]
    fn merge_before<K: Key + ?Sized>(
        &mut self,
        keys: &mut KeyedTimers<K, SessionsOf<A::State, ()>>,
        held: &mut Held<K, A::State>,
        time: Option<Timestamp>,
    ) {
        let mut cx = (self, keys);
        let merge = |parts: &mut PartialBatch<K, Part<A::State>>| {
            parts.drain_ahead(
                &mut cx,
                |(_, keys), hash| keys.prefetch(hash),
                |(merges, keys), part| merges.merge(keys, part),
            );
        };
        match time {
            Some(time) => held.take_before(time.as_micros(), merge),
            None => held.take_all(merge),
        }
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

    const HOLDS: bool = true;

    fn next(&mut self) -> &mut N {
        &mut self.next
    }

    fn catch_up(&mut self, keys: &mut KeysOf<Self>) -> bool {
        let Self { merges, held, most, .. } = self;
        match keys.held() {
            Some(Event::Watermark(at)) => merges.merge_before(keys, held, Some(at)),
            Some(_) => merges.merge_before(keys, held, None),
            None if held.bytes() > *most => merges.merge_before(keys, held, None),
            None => {}
        }
        keys.holds_beside(held.occupied());
        // There may be no room for a key: then nothing may be emitted any more.
        keys.has_failed()
    }

    fn give_up(&mut self) {
        if self.held.bytes() > 0 {
            self.held = Held::default();
        }
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
        let Self { merges: Merges { op, aggregate, .. }, emitted, next, .. } = self;
        end_sessions::<V, A, (), T>(op, aggregate, sessions, firing.at, weighed, |pane, at| {
            *emitted += 1;
            next.push((key.own(), pane), at);
        });
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report) {
        let Merges { op, late, .. } = &self.merges;
        report_sessions(op, keys, self.held.first_end(), self.emitted, report);
        report.late(op.id(), *late, *late);
    }
}
