//! Sorts the values of each key by event time.

use super::partition::Placed;
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Key, Ownable, Portable, Record, Wire};
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard, pump};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::plan::{Origin, Scope, TaskContext};
use crate::state::{HeapEstimate, Timers};
use crate::stream::{Chain, Stream};
use crate::support::saved_watermark::SavedWatermark;
use crate::time::{EventTime, Timestamp};
use slab::Slab;
use std::marker::PhantomData;
use std::sync::Arc;

/// An owned key and an owned value of a keyed stream.
type Pair<C, G> = PairOf<<C as Chain>::Item, G>;
type PairOf<I, G> =
    (<<G as KeyBy<I>>::Key as Portable>::Owned, <<G as KeyBy<I>>::Value as Ownable>::Value);
/// An owned value of a keyed stream.
type ValueOf<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Ownable>::Value;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire, Time: EventTime>,
    G: KeyBy<C::Item, Key: Key<Owned: Key + Data>, Value: Ownable<Value: Data>>,
    P: Placed,
{
    /// Emits the values of each key in the order of their timestamps, and those of the same timestamp in the order of
    /// what `tie` returns.
    ///
    /// For operators whose result depends on the order, such as [`stateful_map`](Self::stateful_map): where records
    /// are sent by several tasks, they arrive in an order that differs from run to run. Where values are equal in
    /// both, they keep the order of their arrival. To sort all records of a stream that ends, by anything, see
    /// [`Stream::sorted_by_key`]; for timers of your own, [`process`](Self::process).
    ///
    /// A record is emitted with its timestamp when the watermark has passed it, so it is delayed by as much as the
    /// watermark lags. All records of a task are emitted in this order, whatever their keys; those of one timestamp are
    /// sorted together, so `tie` is called several times for each of many. Each record goes to the
    /// task that owns its key, unless it is there already. It then takes a number of steps that is nearly constant
    /// (a timing wheel), however many others wait, and memory for as long as it waits.
    ///
    /// A record behind the watermark is late: it is dropped,
    /// [counted, and reported in a warning at the end](crate::metrics::Stats::late_dropped).
    ///
    /// # Errors
    ///
    /// The job fails if the memory budget has no room for the records that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // A sensor, a second, and what was measured.
    /// let readings = env.iter([(1, 3, 'c'), (1, 1, 'a'), (2, 1, 'x'), (1, 2, 'b')]);
    /// let out = readings
    ///     .assign_timestamps(
    ///         |reading| Timestamp::from_secs(reading.1),
    ///         Watermarks::bounded_disorder(Duration::from_secs(5)),
    ///     )
    ///     .group_by(|reading| reading.0)
    ///     .sorted_by_time(|reading| reading.2)
    ///     .stateful_map(String::new(), |_, text, (_, _, letter)| {
    ///         text.push(letter);
    ///         text.clone()
    ///     })
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// let of_first = out.take()?.into_iter().filter(|(sensor, _)| *sensor == 1);
    /// assert_eq!(of_first.map(|(_, text)| text).collect::<Vec<_>>(), ["a", "ab", "abc"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("RequiresTimeSortedInput", "temporal sort", "order_by"))]
    #[track_caller]
    pub fn sorted_by_time<R, F>(
        self,
        tie: F,
    ) -> KeyedStream<impl Chain<Item = Pair<C, G>, Time = C::Time>, FirstOf, Partitioned>
    where
        R: Ord,
        F: Fn(&ValueOf<C, G>) -> R + Send + Sync + 'static,
    {
        let origin = Origin::here("sorted_by_time");
        let (stream, keys) = P::partitioned(self, origin).into_parts();
        let tie = Arc::new(tie);
        let sorted: Stream<Sorting<_, _, F>> =
            stream.then(origin, |prev, op| Sorting { prev, op, keys, tie });
        let sorted = sorted.with_state::<Vec<ValueOf<C, G>>>(Scope::key::<G::Key>());
        KeyedStream::new(sorted, FirstOf)
    }
}

/// The chain that ends with sorted records. All records of a key must reach the same task.
pub struct Sorting<C, G, F> {
    prev: C,
    op: usize,
    keys: G,
    tie: Arc<F>,
}

impl<C, G, R, F> Chain for Sorting<C, G, F>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item, Key: Key<Owned: Data>, Value: Ownable<Value: Data>>,
    R: Ord,
    F: Fn(&ValueOf<C, G>) -> R + Send + Sync + 'static,
{
    type Item = Pair<C, G>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<SortingPush<C::Item, C::Time, G, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let (saved_watermark, watermark) = SavedWatermark::of_owner(cx, self.op)?;
        let saved =
            cx.state::<(PairOf<C::Item, G>, i64, u64)>(self.op, "waiting", Redistribution::ByKey);
        let mut waiting = Waiting::new(cx.fixed(self.op));
        saved.restore(|(record, at, hash): (PairOf<C::Item, G>, i64, u64)| {
            if waiting.is_full() && !waiting.reserve() {
                let what = "the records of the checkpoint that wait for the watermark do not fit into memory";
                return Err(waiting.reservation.refused(what.to_owned()));
            }
            waiting.add(at, hash, record);
            Ok(())
        })?;
        let push = SortingPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            tie: Arc::clone(&self.tie),
            waiting,
            saved,
            saved_watermark,
            held: None,
            watermark,
            emitted: 0,
            late: 0,
            failed: false,
            next,
            time: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Sorts records in a running task.
pub struct SortingPush<I, T, G, F, N>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Key<Owned: Data>, Value: Ownable<Value: Data>>,
{
    op: Op,
    keys: G,
    tie: Arc<F>,
    waiting: Waiting<PairOf<I, G>>,
    saved: StateHandle,
    saved_watermark: SavedWatermark,
    /// The event that is held back until everything before it has been emitted.
    held: Option<Event>,
    /// The last watermark that was passed on.
    watermark: Option<Timestamp>,
    emitted: u64,
    late: u64,
    failed: bool,
    next: N,
    time: PhantomData<fn(T)>,
}

/// Records that wait for the watermark.
struct Waiting<V> {
    /// The records, and the hashes of their keys.
    records: Slab<(u64, V)>,
    /// The places of the records, by time.
    times: Timers<usize>,
    /// The places of the records of one time that are emitted next, the first one at the end.
    due: Vec<usize>,
    due_at: i64,
    /// The first record after those.
    next: Option<(i64, usize)>,
    owned: HeapEstimate<V>,
    reservation: Reservation,
}

/// The records between one that is emitted and the one whose key is prefetched.
const AHEAD: usize = 8;

impl<V: Data> Waiting<V> {
    fn new(reservation: Reservation) -> Self {
        Self {
            records: Slab::new(),
            times: Timers::new(),
            due: Vec::new(),
            due_at: i64::MIN,
            next: None,
            owned: HeapEstimate::new(),
            reservation,
        }
    }

    /// Drops all records.
    fn clear(&mut self) {
        self.records = Slab::new();
        self.times = Timers::new();
        self.due = Vec::new();
        self.next = None;
        self.owned = HeapEstimate::new();
    }

    /// Whether the next record may need more memory.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.records.len() == self.records.capacity() || self.times.is_full()
    }

    fn bytes(&self) -> usize {
        // The slab marks for each place whether it is taken.
        self.records.capacity() * size_of::<Option<(u64, V)>>()
            + self.times.bytes()
            + self.due.capacity() * size_of::<usize>()
            + self.owned.bytes()
    }

    /// Reserves the memory for at least one more record.
    #[cold]
    #[inline(never)]
    fn reserve(&mut self) -> bool {
        let is_full = self.records.len() == self.records.capacity();
        let more = if is_full { self.records.capacity().max(64) } else { 0 };
        let grown = self.bytes()
            + more * size_of::<Option<(u64, V)>>()
            + self.times.bytes_if_grown().saturating_sub(self.times.bytes());
        let reserved = self.reservation.bytes() >= grown || self.reservation.try_resize(grown);
        if reserved {
            self.records.reserve_exact(more);
        }
        reserved
    }

    /// Calls `each` with all records that no watermark has passed: their times and hashes.
    fn each(&mut self, mut each: impl FnMut(i64, u64, &V)) {
        let records = &self.records;
        self.times.retain(|at, place| {
            if let Some((hash, record)) = records.get(*place) {
                each(at, *hash, record);
            }
            true
        });
    }

    #[inline(always)]
    fn add(&mut self, at: i64, hash: u64, record: V) {
        self.owned.comes(&record);
        let place = self.records.insert((hash, record));
        self.times.add(at, place);
    }

    /// Removes the record that comes first, if it is due by `until`, with its time.
    #[inline(always)]
    fn pop<R: Ord>(&mut self, until: i64, tie: impl Fn(&V) -> R) -> Option<(i64, V)> {
        if self.due.is_empty() && !self.collect_due(until, tie) {
            return None;
        }
        let place = self.due.pop()?;
        let (_, record) = self.records.try_remove(place)?;
        self.owned.leaves(&record);
        Some((self.due_at, record))
    }

    /// Collects the records of the first time that is due.
    #[inline(always)]
    fn collect_due<R: Ord>(&mut self, until: i64, tie: impl Fn(&V) -> R) -> bool {
        let Some((at, first)) = self.next.take().or_else(|| self.times.pop(until)) else {
            return false;
        };
        self.due_at = at;
        self.due.push(first);
        while let Some((other, place)) = self.times.pop(until) {
            if other > at {
                self.next = Some((other, place));
                break;
            }
            self.due.push(place);
        }
        if self.due.len() > 1 {
            let records = &self.records;
            // Stable; the last is emitted first.
            self.due.sort_by_key(|&place| records.get(place).map(|(_, it)| tie(it)));
            self.due.reverse();
        }
        true
    }

    /// The hash of the key of a record that is emitted soon.
    #[inline(always)]
    fn hash_ahead(&self) -> Option<u64> {
        let place = *self.times.ahead(AHEAD)?;
        self.records.get(place).map(|(hash, _)| *hash)
    }
}

impl<I, T, G, F, N> SortingPush<I, T, G, F, N>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Key<Owned: Data>, Value: Ownable<Value: Data>>,
{
    #[cold]
    #[inline(never)]
    fn run_out(&mut self) {
        if self.failed {
            return;
        }
        self.failed = true;
        let what = format!(
            "the {} records of one of its tasks that wait for the watermark are more than the memory budget of {} bytes \
             has room for, and they do not go to disk; watermarks that lag less need less, and so do sources that are \
             aligned in time",
            self.waiting.records.len(),
            self.waiting.reservation.pool().limit(),
        );
        self.op.fail(self.waiting.reservation.refused(what));
    }

    /// Reserves the memory in use, and releases what is no longer needed.
    fn account(&mut self) {
        let waiting = &mut self.waiting;
        if waiting.records.is_empty() && waiting.records.capacity() > KEPT {
            waiting.clear();
        }
        let (used, held) = (waiting.bytes(), waiting.reservation.bytes());
        if used <= held && held - used <= used || waiting.reservation.try_resize(used) {
            return;
        }
        self.run_out();
    }
}

/// The places for records that an empty operator keeps.
const KEPT: usize = 1024;

impl<I, T, G, R, F, N> Pipe for SortingPush<I, T, G, F, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I, Key: Key<Owned: Data>, Value: Ownable<Value: Data>>,
    R: Ord,
    F: Fn(&<G::Value as Ownable>::Value) -> R + Send + Sync + 'static,
    N: Push<PairOf<I, G>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        self.account();
        let Some(event) = self.held else { return self.next.resume() };
        let until = match event {
            // A record at the watermark may still arrive.
            Event::Watermark(at) => at.as_micros().checked_sub(1),
            event => event.completes().then_some(i64::MAX),
        };
        let Self { op, tie, waiting, emitted, next, .. } = self;
        if let Some(until) = until
            && !self.failed
        {
            let flow = pump(next, |next| {
                let pair = guard(op, || waiting.pop(until, |(_, value)| tie(value)));
                let Some((at, pair)) = pair else { return false };
                if let Some(hash) = waiting.hash_ahead() {
                    next.prefetch(hash);
                }
                *emitted += 1;
                next.push(pair, T::from(Timestamp::from_micros(at)));
                true
            });
            if flow != Flow::Ready {
                return flow;
            }
        }
        if self.failed || next.is_closed() {
            guard(op, || waiting.clear());
        }
        self.held = None;
        self.saved_watermark.save(event, true, self.watermark);
        let waiting = &mut self.waiting;
        self.saved.save(event, |out| {
            waiting.each(|at, hash, record| {
                out.add_by_key(hash, |bytes| {
                    record.encode(bytes);
                    at.encode(bytes);
                    hash.encode(bytes);
                });
            });
        });
        match event {
            Event::Watermark(at) => self.watermark = self.watermark.max(Some(at)),
            Event::Round(_) => {
                // Times begin anew, which the wheel does not allow.
                self.waiting.clear();
                self.watermark = None;
            }
            _ => {}
        }
        self.next.event(event);
        Flow::Busy
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.late(op, self.late, self.late);
        report.kept(op, self.waiting.records.len() as u64);
        self.next.report(report);
    }
}

impl<I, T, G, R, F, N> Push<I, T> for SortingPush<I, T, G, F, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I, Key: Key<Owned: Data>, Value: Ownable<Value: Data>>,
    R: Ord,
    F: Fn(&<G::Value as Ownable>::Value) -> R + Send + Sync + 'static,
    N: Push<PairOf<I, G>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let at: Timestamp = time.into();
        if self.watermark.is_some_and(|watermark| at < watermark) {
            self.late += 1;
            return;
        }
        if self.waiting.is_full() && !self.waiting.reserve() {
            return self.run_out();
        }
        let Self { op, keys, waiting, .. } = self;
        guard(op, || {
            let hash = keys.hash(&item);
            let (key, value) = keys.pair(item);
            waiting.add(at.as_micros(), hash, (key, G::Value::into_value(value)));
        });
    }
}

#[cfg(test)]
mod tests;
