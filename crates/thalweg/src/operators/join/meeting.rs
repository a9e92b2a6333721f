//! The operator of joins by time, in the task that owns the keys of two streams: passes each record to the
//! policy of the join, and emits its results.
//!
//! A record may have any number of results. Where the next operator becomes full in the middle of them, the
//! record waits with a cursor, and the rest of the same batch waits behind it; so at most one batch is held.
//!
//! The operator passes on the watermark that it received. So no result may be below it: see [`Meet::take`] and
//! [`Meet::wake`].

use super::joinable::{Joinable, JoinableWith};
use super::tagged::{Either, both};
use super::timeline::Cursor;
use crate::data::{Data, Key, Portable};
use crate::error::Result;
use crate::exchange::Hashed;
use crate::flow::{CHUNK, Op, Push};
use crate::metrics::Report;
use crate::operators::keyed::{FirstOf, KeyedStream, Partitioned};
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::state::HeapEstimate;
use crate::stream::Chain;
use crate::support::keyed_timers::{
    EventClock, Firing, KeyedTimers, KeysOf, Takes, TimedState, TimerPolicy, TimerPush,
};
use crate::time::{EventTime, Timestamp};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// The policy of a join by time: what becomes of the records of two streams that have a key in common. Times
/// are microseconds.
pub trait Meet<K, A, B>: Clone + Send + 'static {
    /// The state of a key.
    type State: TimedState<Clocks = EventClock, Owned = ()>;
    /// The result, beside the key.
    type Out: 'static;

    /// What the memory is needed for, in the plural; part of an error message.
    const KEEPS: &'static str;

    /// The state before the first record of a key.
    fn start(&self) -> Self::State;

    /// Whether a record that arrives behind the watermark is dropped. It is counted in any case.
    fn drops_late(&self, value: &Either<A, B>) -> bool;

    /// Handles a record and emits results, none of which may be before the watermark. When `give` breaks,
    /// returns the record, to be called with it and the cursor again.
    fn take(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Self::State,
        record: (Either<A, B>, i64),
        cursor: &mut Cursor,
        give: impl FnMut(Self::Out, i64) -> ControlFlow<()>,
    ) -> Option<Either<A, B>>;

    /// Called when no record at `until` or before can come any more, before the watermark that shows this is
    /// passed on. So results must not be before the previous watermark. When `give` breaks, the state must
    /// still be due.
    fn wake(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Self::State,
        until: i64,
        give: impl FnMut(Self::Out, i64) -> ControlFlow<()>,
    );
}

/// Brings the records of two streams to the tasks that own their keys, and joins them there.
pub(super) fn join_partitioned<L, R, X>(
    left: L,
    right: R,
    origin: Origin,
    details: Details,
    meet: X,
) -> KeyedStream<
    impl Chain<Item = (L::Key, X::Out), Time = L::Time> + use<L, R, X>,
    FirstOf,
    Partitioned,
>
where
    L: Joinable<Time: EventTime>,
    R: JoinableWith<L>,
    X: Meet<L::Key, L::Value, R::Value>,
{
    let (stream, _) = both(left, right, origin).into_parts();
    let stream = stream.then_described(origin, details, |prev, op| Joined {
        prev,
        op,
        meet,
        sides: PhantomData,
    });
    let stream = stream.with_state::<(Vec<L::Value>, Vec<R::Value>)>(Scope::key::<L::Key>());
    KeyedStream::from_parts(stream, FirstOf)
}

/// What a policy sees of its task: the operator, the key and the watermark.
pub struct Meeting<'a, K> {
    pub(super) op: &'a Op,
    pub(super) key: &'a K,
    /// The watermark that was passed on.
    pub(super) watermark: i64,
}

/// The chain that ends in a join. All records of a key must come to one task.
pub struct Joined<C, A, B, X> {
    prev: C,
    op: usize,
    meet: X,
    sides: PhantomData<fn(A, B)>,
}

impl<C, K, A, B, X> Chain for Joined<C, A, B, X>
where
    C: Chain<Item = Hashed<(K, Either<A, B>)>, Time: EventTime>,
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    X: Meet<K, A, B>,
{
    type Item = (K, X::Out);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<JoiningKeys<K, A, B, C::Time, X, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = JoiningKeys {
            op: cx.op(self.op),
            meet: self.meet.clone(),
            waiting: VecDeque::new(),
            cursor: Cursor::default(),
            emitted: 0,
            late: 0,
            dropped: 0,
            next,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, X::KEEPS, "shorter intervals need less")?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// Results that are emitted at a time for a record that has waited, or for a key whose timer fires.
const MOST: u64 = CHUNK as u64;

/// Emits a result, and breaks where the next operator has no more room.
#[inline(always)]
fn give<K: Clone + 'static, O: 'static, T: EventTime, N: Push<(K, O), T>>(
    key: &K,
    out: O,
    at: i64,
    emitted: &mut u64,
    next: &mut N,
) -> ControlFlow<()> {
    *emitted += 1;
    next.push((key.clone(), out), T::from(Timestamp::from_micros(at)));
    stop_if(next.is_full())
}

fn stop_if(so: bool) -> ControlFlow<()> {
    if so { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A record of either stream, with its key's hash.
type Arrival<K, A, B> = (u64, K, Either<A, B>, i64);

/// The timer policy of a join in a running task.
pub struct JoiningKeys<K, A, B, T, X, N> {
    op: Op,
    meet: X,
    /// Records that arrived when the next operator was full: at most those of a batch.
    waiting: VecDeque<Arrival<K, A, B>>,
    /// The progress of the first of them.
    cursor: Cursor,
    emitted: u64,
    late: u64,
    /// Late records that were dropped.
    dropped: u64,
    next: N,
    types: PhantomData<fn(T)>,
}

/// The watermark that was passed on, in microseconds.
fn micros(watermark: Option<Timestamp>) -> i64 {
    watermark.map_or(i64::MIN, Timestamp::as_micros)
}

impl<K, A, B, T, X, N> JoiningKeys<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    /// Handles a record, with at most `most` results, and returns it if it has more of them.
    #[inline(always)]
    fn meet(
        &mut self,
        keys: &mut KeyedTimers<K, X::State>,
        record: Arrival<K, A, B>,
        most: u64,
    ) -> Option<Arrival<K, A, B>> {
        let (hash, key, value, at) = record;
        let Self { op, meet, cursor, emitted, next, .. } = self;
        let cx = Meeting { op, key: &key, watermark: micros(keys.watermark()) };
        let mut visit = keys.visit(hash, &key, || meet.start())?;
        let before = *emitted;
        let rest = meet.take(&cx, visit.state(), (value, at), cursor, |out, at| {
            give(&key, out, at, emitted, next)?;
            stop_if(*emitted - before == most)
        });
        visit.leave(hash);
        rest.map(|value| (hash, key, value, at))
    }
}

impl<K, A, B, T, X, N> TimerPolicy for JoiningKeys<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    type Key = K;
    type State = X::State;
    type Next = N;

    fn next(&mut self) -> &mut N {
        &mut self.next
    }

    // A record at the watermark may still come.
    fn passed(watermark: Timestamp) -> Option<i64> {
        watermark.as_micros().checked_sub(1)
    }

    fn wake(&mut self, key: &K, state: &mut X::State, firing: Firing, _: &mut HeapEstimate<()>) {
        let Self { op, meet, emitted, next, .. } = self;
        let cx = Meeting { op, key, watermark: micros(firing.watermark) };
        let before = *emitted;
        meet.wake(&cx, state, firing.until, |out, at| {
            give(key, out, at, emitted, next)?;
            stop_if(*emitted - before == MOST)
        });
    }

    /// Continues with the records that wait, for a bounded number of results.
    fn catch_up(&mut self, keys: &mut KeysOf<Self>) -> bool {
        for done in 0..CHUNK {
            if self.waiting.is_empty() {
                return done > 0;
            }
            if self.next.is_full() {
                return true;
            }
            let Some(record) = self.waiting.pop_front() else { return true };
            if let Some(rest) = self.meet(keys, record, MOST) {
                self.waiting.push_front(rest);
                return true;
            }
            self.cursor = Cursor::default();
        }
        true
    }

    fn give_up(&mut self) {
        self.waiting.clear();
        self.cursor = Cursor::default();
    }

    fn is_full(&mut self) -> bool {
        !self.waiting.is_empty() || self.next.is_full()
    }

    fn report(&mut self, _: &KeysOf<Self>, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        report.late(self.op.id(), self.late, self.dropped);
    }
}

impl<K, A, B, T, X, N> Takes<Hashed<(K, Either<A, B>)>, T> for JoiningKeys<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    #[inline(always)]
    fn take(
        &mut self,
        keys: &mut KeysOf<Self>,
        (hash, (key, value)): (u64, (K, Either<A, B>)),
        time: T,
    ) {
        let at = Into::<Timestamp>::into(time).as_micros();
        if at < micros(keys.watermark()) {
            self.late += 1;
            if self.meet.drops_late(&value) {
                self.dropped += 1;
                return;
            }
        }
        let record = (hash, key, value, at);
        if !self.waiting.is_empty() {
            self.waiting.push_back(record);
        } else if let Some(rest) = self.meet(keys, record, u64::MAX) {
            self.waiting.push_back(rest);
        } else {
            self.cursor = Cursor::default();
        }
    }
}
