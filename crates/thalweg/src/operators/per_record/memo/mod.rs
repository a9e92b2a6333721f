//! Memoised maps: keep computed results, up to a bound.

mod cache;

use crate::data::{ByValue, Key, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::operators::keyed::{ByRef, Distinct, FirstOf, KeyBy, Whole};
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use cache::Cache;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Like [`map`](Self::map), without computing the results of equal records again: each task keeps the
    /// results of up to `capacity` records.
    ///
    /// For closures that cost much more than a lookup and records that recur: parsing, compressing, matching
    /// against many patterns. The closure must return equal results for equal records, and is called at least
    /// once for each. To memoise by a part of the record, see [`map_memo_by_ref`](Self::map_memo_by_ref), by a
    /// computed key, [`map_memo_by`](Self::map_memo_by). To avoid that several tasks keep the same result,
    /// group by the record and [`repartition`](crate::KeyedStream::repartition) first.
    ///
    /// When the cache is full, a result that was not used lately is evicted, by the second-chance algorithm,
    /// which approximates least recently used without moving entries. Records that occur once are evicted
    /// before records that recur.
    ///
    /// A hit costs a lookup and a clone of the result (an `Arc` makes that cheap), and allocates nothing. A new
    /// record is copied. Memory: the records and results of the cache, in each task. Their slots count towards
    /// the job's memory budget, but what they own on the heap does not; where the budget is short, fewer
    /// results are kept. The statistics count the hits
    /// ([`OperatorStats::remembered`](crate::metrics::OperatorStats::remembered)). The cache is not declared
    /// state, and is lost with its task. Keeps order and tasks.
    ///
    /// # Errors
    ///
    /// A capacity of 0 is refused at the job's start.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use thalweg::Environment;
    ///
    /// let calls = Arc::new(AtomicU64::new(0));
    /// let counter = Arc::clone(&calls);
    /// let env = Environment::new();
    /// let hosts = env.iter(["a.org/1", "b.org/1", "a.org/1", "a.org/1"]).map(str::to_owned);
    /// let lengths = hosts.map_memo(1000, move |url| {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    ///     url.split('/').map(str::len).collect::<Vec<_>>()
    /// });
    /// let out = lengths.count().collect_one();
    /// env.run()?;
    /// assert_eq!((out.take()?, calls.load(Ordering::Relaxed)), (Some(4), 2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_memo<O, F>(
        self,
        capacity: usize,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        C::Item: Distinct,
        O: Clone + Send + 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        memoised(self, Origin::here("map_memo"), capacity, Whole, f)
    }

    /// Like [`map_memo`](Self::map_memo), where a key that the first closure computes determines the result:
    /// records with equal keys get the result of one of them.
    ///
    /// The key is computed for each record. For a key that is a part of the record, prefer
    /// [`map_memo_by_ref`](Self::map_memo_by_ref).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let seconds = env.iter([61_000, 61_500, 3_599_000, 61_001u64]);
    /// let minutes = seconds.map_memo_by(100, |millis| millis / 1000, |millis| {
    ///     format!("{:02}:{:02}", millis / 60_000, millis / 1000 % 60)
    /// });
    /// let out = minutes.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["01:01", "01:01", "59:59", "01:01"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_memo_by<V, K, O, G, F>(
        self,
        capacity: usize,
        key: G,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        C: Chain<Item = V>,
        V: ByValue,
        K: Key,
        O: Clone + Send + 'static,
        G: Fn(&V) -> K + Send + Sync + 'static,
        F: Fn(V) -> O + Send + Sync + 'static,
    {
        let origin = Origin::here("map_memo_by");
        let pair = move |value: V| (key(&value), value);
        let keyed = self.map_as(Origin { kind: "memo key", ..origin }, pair);
        memoised(keyed, origin, capacity, FirstOf, f)
    }

    /// Like [`map_memo`](Self::map_memo), where a part of the record, which the first closure borrows,
    /// determines the result: records with equal keys get the result of one of them.
    ///
    /// The key is looked up by reference, and copied only when it is new.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let hits = env.iter([("de", 1), ("at", 2), ("de", 3)]).map(|(c, n)| (c.to_owned(), n));
    /// let country = |(code, _): (String, u32)| code.to_uppercase();
    /// let out = hits.map_memo_by_ref(100, |hit| hit.0.as_str(), country).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["DE", "AT", "DE"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_memo_by_ref<K, O, G, F>(
        self,
        capacity: usize,
        key: G,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        K: Key + ?Sized,
        O: Clone + Send + 'static,
        G: for<'a, 'k> Fn(&'k <C::Item as Record>::Of<'a>) -> &'k K + Send + Sync + 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        memoised(self, Origin::here("map_memo_by_ref"), capacity, ByRef::new(key), f)
    }
}

fn memoised<C, G, O, F>(
    stream: Stream<C>,
    origin: Origin,
    capacity: usize,
    keys: G,
    f: F,
) -> Stream<Memoised<C, G, F, O>>
where
    C: Chain,
    G: KeyBy<C::Item>,
    O: Clone + Send + 'static,
    F: for<'a> Fn(<G::Value as Record>::Of<'a>) -> O + Send + Sync + 'static,
{
    let details = Details::of("capacity", capacity);
    let memoised = stream.then_described(origin, details, |prev, op| Memoised {
        prev,
        op,
        capacity,
        keys,
        f: Arc::new(f),
        output: PhantomData,
    });
    if capacity == 0 {
        let what = "a capacity of 0 remembers nothing: this is `map`";
        memoised.refuse(Error::new(ErrorKind::Plan, what));
    }
    memoised
}

/// The chain that ends in a memoised map.
struct Memoised<C, G, F, O> {
    prev: C,
    op: usize,
    capacity: usize,
    keys: G,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, G, O, F> Chain for Memoised<C, G, F, O>
where
    C: Chain,
    G: KeyBy<C::Item>,
    O: Clone + Send + 'static,
    F: for<'a> Fn(<G::Value as Record>::Of<'a>) -> O + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<MemoPush<C::Item, G, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let push = MemoPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            f: Arc::clone(&self.f),
            cache: Cache::new(self.capacity, cx.modest(self.op)),
            remembered: 0,
            next,
        };
        self.prev.attach(cx, push)
    }
}

/// A memoised map in a running task.
struct MemoPush<I: Record + ?Sized, G: KeyBy<I>, F, O, N> {
    op: Op,
    keys: G,
    f: Arc<F>,
    cache: Cache<G::Key, O>,
    remembered: u64,
    next: N,
}

impl<I, G, F, O, N> Pipe for MemoPush<I, G, F, O, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    F: Send + Sync,
    O: Send,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.keys(self.op.id(), self.cache.len() as u64);
        report.remembered(self.op.id(), self.remembered);
        self.next.report(report);
    }
}

impl<I, T, G, F, O, N> Push<I, T> for MemoPush<I, G, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    F: for<'a> Fn(<G::Value as Record>::Of<'a>) -> O + Send + Sync,
    O: Clone + Send + 'static,
    N: Push<O, T>,
{
    #[inline]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { op, keys, f, cache, remembered, next } = self;
        // Hashing, `Eq` and `Clone` of the user's types may panic, too.
        let output = guard(op, || {
            let hash = keys.hash(&item);
            let key = keys.key(&item);
            if let Some(known) = cache.find(hash, key.probe()) {
                *remembered += 1;
                return known.clone();
            }
            let stored = Cache::<G::Key, O>::store(key, key.probe());
            let output = f(keys.value(item));
            cache.insert(hash, stored, output.clone());
            output
        });
        next.push(output, time);
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{check, every_on_one_host};
    use crate::config::Config;
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;
    use crate::{Environment, ErrorKind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn results_are_those_of_a_map() {
        let numbers = || (0..5000u64).map(|n| n * n % 997);
        for capacity in [1, 10, 100_000] {
            check(move |env| env.iter(numbers()).map_memo(capacity, |n| n + 1))
                .ordered()
                .equals(numbers().map(|n| n + 1));
        }
        check(move |env| {
            let timed = env.iter(numbers()).assign_timestamps(
                |n| Timestamp::from_micros(*n as i64),
                Watermarks::bounded_disorder(std::time::Duration::from_secs(1)),
            );
            timed.shuffle().map_memo_by(50, |n| n / 2, |n| n / 2 * 3)
        })
        .equals(numbers().map(|n| n / 2 * 3));
    }

    #[test]
    fn borrowed_texts_are_looked_up_where_they_lie() {
        let words = [
            "a",
            "a word that is longer than a slot",
            "b",
            "a",
            "a word that is longer than a slot",
        ];
        check(move |env| {
            let words = env.iter(words).flat_map_str(|word, out| out.push(word));
            words.map_memo(2, |word: &str| word.len() as u64)
        })
        .equals(words.map(|word| word.len() as u64));
        check(move |env| {
            let rows = env.iter(words).map(|word| (word.to_owned(), 1u8));
            rows.map_memo_by_ref(2, |row| row.0.as_str(), |row| row.0.len() as u64)
        })
        .equals(words.map(|word| word.len() as u64));
    }

    #[test]
    fn a_remembered_result_is_not_computed_again() {
        // The calls of the closure are counted.
        every_on_one_host(|env| {
            let calls = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&calls);
            let out = env.iter(0..1000u64).map(|n| n % 10).map_memo(10, move |n| {
                counter.fetch_add(1, Ordering::SeqCst);
                n
            });
            let out = out.count().collect_one();
            let stats = env.start()?.wait()?;
            assert_eq!((out.take()?.unwrap(), calls.load(Ordering::SeqCst)), (1000, 10));
            let memo = stats.operators.iter().find(|op| op.kind == "map_memo").unwrap();
            assert_eq!((memo.remembered, memo.keys), (990, 10));
            assert!(stats.to_string().contains("990 remembered"), "{stats}");
            Ok(())
        });
    }

    #[test]
    fn without_memory_it_is_a_map() {
        let config = Config { memory: 100, ..Config::default() };
        let env = Environment::with_config(config);
        let out = env.iter(0..1000u64).map(|n| n % 10).map_memo(10, |n| n).reduce(|a, b| a + b);
        let out = out.collect::<Vec<_>>();
        env.run().unwrap();
        assert_eq!(out.take().unwrap(), [4500]);
    }

    #[test]
    fn nothing_to_remember_is_refused_and_panics_are_the_operators() {
        let env = Environment::new();
        env.iter(0..9u64).map_memo(0, |n| n).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.to_string().ends_with("a capacity of 0 remembers nothing: this is `map`"));
        check(|env| env.iter(0..9i32).map_memo(4, |n| 10 / (n - 5)))
            .fails_with("panicked: attempt to divide by zero");
    }
}
