//! The operator of sessions that are merged from parts, in the task that owns the keys.

use super::super::pane::Pane;
use super::firing::{HINT, end_sessions, last_passed, report_sessions, result_of};
use super::held::Held;
use super::local::{Part, SessionPart};
use super::open::{Sessions, SessionsOf, Taken};
use crate::data::{Key, Record};
use crate::error::Result;
use crate::exchange::PartialEntry;
use crate::flow::{CHUNK, Event, Op, Push, arm};
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
            false => self.merges.merge(keys, item, i64::MIN, |_, _: T| {}),
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
    /// Adds a part to the sessions of its key. If the only one ends before `ended_before`, so that it has all its parts, it is
    /// removed, and its result emitted.
    #[inline(always)]
    fn merge<K: Key + ?Sized, T: EventTime>(
        &mut self,
        keys: &mut KeyedTimers<K, SessionsOf<A::State, ()>>,
        item: PartialEntry<'_, K, Part<A::State>>,
        ended_before: i64,
        give: impl FnOnce((K::Owned, Pane<A::Output>), T),
    ) {
        let watermark = keys.watermark().map_or(i64::MIN, Timestamp::as_micros);
        let PartialEntry { hash, key, arena, state: (first, until, part) } = item;
        let Self { op, aggregate, late, .. } = self;
        K::view(&key, arena, |key| {
            let Some(mut visit) = keys.visit(hash, key, Sessions::new) else { return };
            let armed = arm(op);
            let former = visit.state().end_only(ended_before);
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
            if let Some(open) = former {
                let (pane, at) = visit
                    .see(|_, _, weighed| result_of::<V, A, _, T>(op, aggregate, open, weighed));
                give((key.own(), pane), at);
            }
            visit.leave(hash);
        });
    }
}

impl<T, K, V, A, N> MergedKeys<T, K, V, A, N>
where
    T: EventTime,
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V>,
    N: Push<(K::Owned, Pane<A::Output>), T>,
{
    /// Adds parts that begin before a watermark to the sessions of their keys, in the order of their times, until the next
    /// operator is full or has enough for now; all of them, if no watermark is given. Returns whether there may be more, or
    /// the next operator has to process what was emitted.
    #[inline(never)]
    fn merge_before(&mut self, keys: &mut KeysOf<Self>, watermark: Option<Timestamp>) -> bool {
        let time = watermark.map_or(i64::MAX, Timestamp::as_micros);
        let before = self.emitted;
        let most = before + CHUNK as u64;
        while let Some((mut parts, start)) = self.held.next_before(time) {
            // Without a watermark, no session has ended.
            let mut ended_before = watermark.map_or(i64::MIN, |at| at.as_micros().min(start));
            let Self { merges, next, emitted, .. } = self;
            parts.drain_ahead(
                &mut (merges, &mut *keys),
                |(_, keys), hash| keys.prefetch(hash),
                |(merges, keys), part| {
                    merges.merge(keys, part, ended_before, |result, at| {
                        *emitted += 1;
                        next.push(result, at);
                        // The sessions of the other parts end by their times, when there is room.
                        if next.is_full() {
                            ended_before = i64::MIN;
                        }
                    });
                },
            );
            self.held.reuse(parts);
            if watermark.is_some() && (self.emitted >= most || self.next.is_full()) {
                return true;
            }
        }
        if watermark.is_none() {
            self.held.shrink();
        }
        self.emitted > before
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
        let has_more = match keys.held() {
            Some(Event::Watermark(at)) => self.merge_before(keys, Some(at)),
            Some(_) => self.merge_before(keys, None),
            None if self.held.bytes() > self.most => self.merge_before(keys, None),
            None => false,
        };
        keys.holds_beside(self.held.occupied());
        // There may be no room for a key: then nothing may be emitted any more.
        has_more || keys.has_failed()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::flow::{Flow, Pipe};
    use crate::operators::aggregates::Count;
    use crate::support::keyed_timers::keys_in_memory;

    /// The key, the first timestamp and the count of each result.
    type Results = Vec<(u32, i64, u64)>;

    /// What comes next: it is full when it has a result.
    #[derive(Default)]
    struct Last(Results);

    impl Pipe for Last {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            None
        }

        fn is_full(&mut self) -> bool {
            !self.0.is_empty()
        }
    }

    impl Push<(u32, Pane<u64>), Timestamp> for Last {
        fn push(&mut self, (key, pane): (u32, Pane<u64>), _: Timestamp) {
            self.0.push((key, pane.start.as_micros(), pane.value));
        }
    }

    type Merged = MergedKeys<Timestamp, u32, u64, Count, Last>;

    fn operator() -> (KeysOf<Merged>, Merged) {
        let (op, keys) = keys_in_memory();
        let merges = Merges { op, aggregate: Arc::new(Count), late: 0, types: PhantomData };
        let (held, next) = (Held::default(), Last::default());
        (keys, MergedKeys { merges, emitted: 0, held, most: MOST, next, types: PhantomData })
    }

    fn take(merged: &mut Merged, keys: &mut KeysOf<Merged>, key: u32, at: i64) {
        let (hash, state) = (key.key_hash(), (at, at + 10, 1));
        merged.take(keys, PartialEntry { hash, key, arena: &(), state }, Timestamp::MIN);
    }

    #[test]
    fn results_do_not_outrun_the_next_operator() {
        let (mut keys, mut merged) = operator();
        // Two sessions of each key, of which a watermark ends one.
        for at in [0, 100] {
            (0..100).for_each(|key| take(&mut merged, &mut keys, key, at));
        }
        let mut push = TimerPush::new(keys, merged);
        push.event(Event::Watermark(Timestamp::from_micros(105)));
        let mut all = Results::new();
        loop {
            let flow = push.resume();
            let some = std::mem::take(&mut push.policy_mut().next.0);
            assert!(some.len() <= 1, "{} at once", some.len());
            all.extend(some);
            if flow == Flow::Ready {
                break;
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..100).map(|key| (key, 0, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn the_former_session_of_a_key_has_its_result_when_the_next_begins() {
        let (mut keys, mut merged) = operator();
        for (key, at) in [(1, 0), (2, 0), (1, 100), (3, 90), (2, 8)] {
            take(&mut merged, &mut keys, key, at);
        }
        // Not before its watermark.
        assert!(!merged.merge_before(&mut keys, None));
        assert_eq!(merged.next.0, []);
        take(&mut merged, &mut keys, 2, 101);
        take(&mut merged, &mut keys, 3, 95);
        take(&mut merged, &mut keys, 3, 120);
        assert!(merged.merge_before(&mut keys, Some(Timestamp::from_micros(110))));
        // The third key's goes on, and no part of the first one's follows.
        assert_eq!(merged.next.0, [(2, 0, 2)]);
    }
}
