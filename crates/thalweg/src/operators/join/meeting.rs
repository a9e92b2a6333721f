//! The task that owns the keys of two streams: hands each record to what joins them, and gives out what
//! that makes of it.
//!
//! A record may have any number of results. Where the next operator becomes full in the middle of them, the
//! record waits with a cursor, and those of the same batch wait behind it; so no more is held than a batch.
//!
//! The watermark that comes out is the one that came in. For that no result may be below it: see
//! [`Meet::take`] and [`Meet::wake`].

use super::joinable::{Joinable, JoinableWith};
use super::tagged::{Side, both};
use super::timeline::Cursor;
use crate::data::{Data, Key, Portable};
use crate::error::Result;
use crate::exchange::Hashed;
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push};
use crate::metrics::Report;
use crate::operators::keyed::{FirstOf, KeyedStream, Lasting, Partitioned, Watched};
use crate::plan::{Origin, TaskContext};
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// What becomes of the records of two streams that have a key in common. Times are microseconds.
pub trait Meet<K, A, B>: Clone + Send + 'static {
    /// What is kept of a key.
    type State: Lasting + Send + 'static;
    /// What is made.
    type Out: 'static;

    /// What memory is needed for, as in "its task keeps …".
    const KEEPS: &'static str;

    /// Before the first record of a key.
    fn start(&self) -> Self::State;

    /// Whether nothing is to be done with a record that comes behind the watermark. It is counted in any case.
    fn drops_late(&self, value: &Side<A, B>) -> bool;

    /// Takes a record in and gives results, none of which may be before the watermark. When told to stop, it
    /// answers the record, to be called with it and with the cursor again.
    fn take(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Self::State,
        record: (Side<A, B>, i64),
        cursor: &mut Cursor,
        give: impl FnMut(Self::Out, i64) -> ControlFlow<()>,
    ) -> Option<Side<A, B>>;

    /// No record at this time or before it is to come any more; the watermark that says so has not been
    /// passed on. So results must not be before the one before it. When told to stop, it must still be due.
    fn wake(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Self::State,
        until: i64,
        give: impl FnMut(Self::Out, i64) -> ControlFlow<()>,
    );
}

/// Brings the records of two streams to the tasks that own their keys, where they meet. `how` is what is to be
/// known of it beside its name.
pub(super) fn together<L, R, X>(
    left: L,
    right: R,
    origin: Origin,
    how: &dyn fmt::Display,
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
    let stream = stream.then_described(origin, how.to_string(), |prev, op| Joined {
        prev,
        op,
        meet,
        sides: PhantomData,
    });
    let kept = <(Vec<L::Value>, Vec<R::Value>)>::schema();
    KeyedStream::from_parts(stream.with_state(true, kept), FirstOf)
}

/// Where a key meets.
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
    C: Chain<Item = Hashed<(K, Side<A, B>)>, Time: EventTime>,
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    X: Meet<K, A, B>,
{
    type Item = (K, X::Out);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<JoinedPush<K, A, B, C::Time, X, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let op = cx.op(self.op);
        let push = JoinedPush {
            keys: Watched::new(op.clone(), cx.fixed(self.op), X::KEEPS),
            op,
            meet: self.meet.clone(),
            waiting: VecDeque::new(),
            cursor: Cursor::default(),
            watermark: i64::MIN,
            held: None,
            emitted: 0,
            late: 0,
            dropped: 0,
            next,
            time: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Results that are given at a time of a record that has waited, or of a key that is woken.
const MOST: u64 = CHUNK as u64;

/// Hands a result on, and says to stop where there is room for no other.
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
type Arrival<K, A, B> = (u64, K, Side<A, B>, i64);

/// A join in a running task.
pub struct JoinedPush<K, A, B, T, X, N>
where
    K: Key,
    X: Meet<K, A, B>,
{
    op: Op,
    meet: X,
    keys: Watched<K, X::State>,
    /// Records that came when the next operator was full: at most those of a batch.
    waiting: VecDeque<Arrival<K, A, B>>,
    /// How far the first of them has come.
    cursor: Cursor,
    /// The watermark that was passed on.
    watermark: i64,
    /// An event that waits until the results before it are given out.
    held: Option<Event>,
    emitted: u64,
    late: u64,
    /// Late records that were dropped.
    dropped: u64,
    next: N,
    time: PhantomData<fn(T)>,
}

impl<K, A, B, T, X, N> JoinedPush<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    /// Takes a record in, up to so many results, and answers it when it has more of them.
    #[inline(always)]
    fn take(&mut self, record: Arrival<K, A, B>, most: u64) -> Option<Arrival<K, A, B>> {
        let (hash, key, value, at) = record;
        let Self { op, meet, keys, cursor, emitted, next, .. } = self;
        let cx = Meeting { op, key: &key, watermark: self.watermark };
        let mut visit = keys.visit(hash, &key, || meet.start())?;
        let before = *emitted;
        let rest = meet.take(&cx, visit.state(), (value, at), cursor, |out, at| {
            give(&key, out, at, emitted, next)?;
            stop_if(*emitted - before == most)
        });
        visit.leave(hash);
        rest.map(|value| (hash, key, value, at))
    }

    /// Goes on with the records that wait, a bounded number of results; answers whether some are left.
    fn take_waiting(&mut self) -> bool {
        for _ in 0..CHUNK {
            if self.next.is_full() {
                return true;
            }
            let Some(record) = self.waiting.pop_front() else { return false };
            if let Some(rest) = self.take(record, MOST) {
                self.waiting.push_front(rest);
                return true;
            }
            self.cursor = Cursor::default();
        }
        true
    }

    /// Wakes some of the keys that are due; answers whether there may be more, or what follows has something
    /// to do with what they gave.
    fn wake_some(&mut self, until: i64) -> bool {
        let Self { op, meet, keys, watermark, emitted, next, .. } = self;
        for done in 0..CHUNK {
            if next.is_full() {
                return true;
            }
            let before = *emitted;
            let woken = keys.wake(until, |key, state| {
                let cx = Meeting { op, key, watermark: *watermark };
                meet.wake(&cx, state, until, |out, at| {
                    give(key, out, at, emitted, next)?;
                    stop_if(*emitted - before == MOST)
                });
            });
            if woken.is_none() {
                return done > 0;
            }
        }
        true
    }
}

impl<K, A, B, T, X, N> Push<Hashed<(K, Side<A, B>)>, T> for JoinedPush<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    #[inline(always)]
    fn push(&mut self, (hash, (key, value)): (u64, (K, Side<A, B>)), time: T) {
        let at = Into::<Timestamp>::into(time).as_micros();
        if at < self.watermark {
            self.late += 1;
            if self.meet.drops_late(&value) {
                self.dropped += 1;
                return;
            }
        }
        let record = (hash, key, value, at);
        if !self.waiting.is_empty() {
            self.waiting.push_back(record);
        } else if let Some(rest) = self.take(record, u64::MAX) {
            self.waiting.push_back(rest);
        } else {
            self.cursor = Cursor::default();
        }
    }
}

impl<K, A, B, T, X, N> Pipe for JoinedPush<K, A, B, T, X, N>
where
    K: Data + Key + Portable<Owned = K> + Clone,
    A: Data,
    B: Data,
    T: EventTime,
    X: Meet<K, A, B>,
    N: Push<(K, X::Out), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        self.keys.account();
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            // Nobody wants the rest, which may be endless; or it must not look like results, as the job has
            // failed and is stopped.
            let goes_on = !self.next.is_closed() && !self.keys.has_failed();
            if !goes_on {
                self.waiting.clear();
                self.cursor = Cursor::default();
            }
            if goes_on && !self.waiting.is_empty() {
                self.take_waiting();
                return Flow::Busy;
            }
            let until = match self.held {
                None => return Flow::Ready,
                // A record at the watermark may still come.
                Some(Event::Watermark(at)) => at.as_micros().checked_sub(1),
                Some(Event::Round(_) | Event::End) => Some(i64::MAX),
                Some(Event::Idle | Event::Partition(_) | Event::Barrier(_)) => None,
            };
            if goes_on && until.is_some_and(|until| self.wake_some(until)) {
                return Flow::Busy;
            }
            self.keys.forget_spent();
            let Some(event) = self.held.take() else { return Flow::Ready };
            match event {
                Event::Watermark(at) => self.watermark = self.watermark.max(at.as_micros()),
                Event::Round(_) => {
                    self.keys.clear();
                    self.watermark = i64::MIN;
                }
                Event::Idle | Event::Partition(_) | Event::Barrier(_) | Event::End => {}
            }
            self.next.event(event);
        }
    }

    fn is_full(&mut self) -> bool {
        !self.waiting.is_empty() || self.next.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.keys.live() as u64);
        report.late(op, self.late, self.dropped);
        self.next.report(report);
    }
}
