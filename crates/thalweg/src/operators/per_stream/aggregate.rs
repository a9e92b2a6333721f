//! Aggregates of all records of a stream.

use super::absorb::{AGGREGATE, Absorb, AtBarrier};
use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, guard};
use crate::operators::aggregates::{
    Aggregate, Aggregates, Average, Combine, Count, Max, Min, Number, PickBy, PickByKey, Sum,
    Summand, details,
};
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};
use crate::support::owned_heap::OwnedHeap;
use std::cmp::Ordering;
use std::sync::Arc;

/// The result of an aggregate.
type Output<C, A> = <A as Aggregate<<C as Chain>::Item>>::Output;

/// The owned form of a chain's records.
type Owned<C> = <<C as Chain>::Item as Portable>::Owned;

impl<C: Chain> Stream<C> {
    /// Aggregates all records, and emits the result, as one record, when the input ends.
    ///
    /// The closure chooses the aggregate, from the methods of [`Aggregates`]; a tuple of up to eight is
    /// computed in one pass. An aggregate of your own is a type that implements [`Combine`]:
    /// `aggregate(|_| mine)`. For a result per key, use [`group_by`](Self::group_by) first; for a result per
    /// window, [`window_all`](Self::window_all).
    ///
    /// Each task aggregates its own records, and one task combines the partial aggregates: almost nothing
    /// crosses the exchange. The order of the records is unspecified; where the result depends on it, use a
    /// [`fold`](Self::fold). For an empty stream the result is the aggregate of no values where there is one,
    /// such as 0 for a count, and otherwise an empty stream. Memory: one state per task, with what it owns on the heap.
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start, as it is if the aggregate's own
    /// [check](Aggregate::check) refuses it. The job stops when the memory budget does not hold the states.
    ///
    /// ```
    /// use thalweg::{Data, Environment};
    ///
    /// #[derive(Data)]
    /// struct Order { customer: String, amount: u64 }
    ///
    /// let env = Environment::new();
    /// let orders = [("ann", 3), ("bob", 5), ("ann", 4)];
    /// let orders = orders.map(|(c, amount)| Order { customer: c.to_owned(), amount });
    /// let out = env
    ///     .iter(orders)
    ///     .aggregate(|a| (a.count(), a.sum(|order| order.amount), a.max(|order| order.amount)))
    ///     .collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((3, 12, 5)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn aggregate<A, M>(
        self,
        make: M,
    ) -> Stream<impl Chain<Item = Output<C, A>, Time = C::Time> + use<C, A, M>>
    where
        M: FnOnce(Aggregates<C::Item>) -> A,
        A: Combine<C::Item>,
    {
        self.aggregate_as(Origin::here("aggregate"), make(Aggregates::new()))
    }

    /// Counts the records: one record, 0 for an empty stream.
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let count = env.iter(0..1000).filter(|n| n % 3 == 0).count().collect_one();
    /// env.run()?;
    /// assert_eq!(count.take()?, Some(334));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn count(self) -> Stream<impl Chain<Item = u64, Time = C::Time> + use<C>> {
        self.aggregate_as(Origin::here("count"), Count)
    }

    /// The sum of the closure's values, as one record; 0 for an empty stream.
    ///
    /// Summed up in each task, then in one. The order in which floats are added is unspecified, so the last
    /// digits may differ from run to run.
    ///
    /// # Errors
    ///
    /// A sum that overflows its type stops the job: convert to a wider type in the closure. With numbers of
    /// both signs, an intermediate sum may overflow, and stop the job, even if the total would not; whether it
    /// does depends on the order of addition. If the stream does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(["one", "three"]).sum(|word| word.len()).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(8));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sum<N, F>(self, of: F) -> Stream<impl Chain<Item = N, Time = C::Time> + use<C, N, F>>
    where
        N: Summand,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> N + Send + Sync + 'static,
    {
        self.aggregate_as(Origin::here("sum"), Sum::new(of))
    }

    /// The arithmetic mean of the closure's values, as one record. An empty stream has an empty result.
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([1, 2, 6]).average(|n| *n).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "avg")]
    #[doc(alias = "mean")]
    #[track_caller]
    pub fn average<N, F>(
        self,
        of: F,
    ) -> Stream<impl Chain<Item = f64, Time = C::Time> + use<C, N, F>>
    where
        N: Number,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> N + Send + Sync + 'static,
    {
        self.aggregate_as(Origin::here("average"), Average::new(of))
    }

    /// The least of the closure's values, as one record. An empty stream has an empty result.
    ///
    /// NaN is the result only where there is no other value. For the whole record see
    /// [`min_by_key`](Self::min_by_key) and [`min_by`](Self::min_by).
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1)]).min(|trade| trade.1).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(1));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Stream<impl Chain<Item = N, Time = C::Time> + use<C, N, F>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> N + Send + Sync + 'static,
    {
        self.aggregate_as(Origin::here("min"), Min::new(of))
    }

    /// The greatest of the closure's values, as one record. See [`min`](Self::min), its counterpart, and
    /// [`top`](Self::top) for the `n` greatest records.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1)]).max(|trade| trade.1).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Stream<impl Chain<Item = N, Time = C::Time> + use<C, N, F>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> N + Send + Sync + 'static,
    {
        self.aggregate_as(Origin::here("max"), Max::new(of))
    }

    /// The record whose key, computed by the closure, is the least; of several such, any. An empty stream has
    /// an empty result. See [`min`](Self::min) for the key alone, [`min_by`](Self::min_by) for an order that no
    /// key has.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1)]).min_by_key(|trade| trade.1).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(('b', 1)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min_by_key<K, F>(
        self,
        key: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time> + use<C, K, F>>
    where
        C::Item: Portable,
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> K + Send + Sync + 'static,
    {
        let pick: PickByKey<F, K> = Aggregates::<C::Item>::new().min_by_key(key);
        self.aggregate_as(Origin::here("min_by_key"), pick)
    }

    /// The record whose key, computed by the closure, is the greatest; of several such, any. See
    /// [`min_by_key`](Self::min_by_key), its counterpart, and [`top_by_key`](Self::top_by_key) for several
    /// records.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1)]).max_by_key(|trade| trade.1).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(('a', 3)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max_by_key<K, F>(
        self,
        key: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time> + use<C, K, F>>
    where
        C::Item: Portable,
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> K + Send + Sync + 'static,
    {
        let pick: PickByKey<F, K> = Aggregates::<C::Item>::new().max_by_key(key);
        self.aggregate_as(Origin::here("max_by_key"), pick)
    }

    /// The least record by the order of the closure, which must be total; of several such, any. An empty stream
    /// has an empty result.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([-3_i32, 2]).min_by(|a, b| a.abs().cmp(&b.abs())).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min_by<F>(
        self,
        compare: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time> + use<C, F>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        let pick: PickBy<F> = Aggregates::<C::Item>::new().min_by(compare);
        self.aggregate_as(Origin::here("min_by"), pick)
    }

    /// The greatest record by the order of the closure. See [`min_by`](Self::min_by), its counterpart, and
    /// [`top_by`](Self::top_by) for several records.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).max_by(f64::total_cmp).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(2.5));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max_by<F>(
        self,
        compare: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time> + use<C, F>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        let pick: PickBy<F> = Aggregates::<C::Item>::new().max_by(compare);
        self.aggregate_as(Origin::here("max_by"), pick)
    }

    fn aggregate_as<A>(
        self,
        origin: Origin,
        aggregate: A,
    ) -> Stream<impl Chain<Item = Output<C, A>, Time = C::Time> + use<C, A>>
    where
        A: Combine<C::Item>,
    {
        const WHY: &str =
            "its result would never be known; `window_all(…)` has results before the end";
        let wrong = aggregate.check().err();
        let details = details(origin, &aggregate);
        let [locally, globally] = ["local", "global"].map(|phase| Details::of("phase", phase));
        let local = Arc::new(aggregate);
        let global = Arc::clone(&local);
        let stream = self
            .absorb(origin, locally.with_all(details.clone()), WHY, move |cx, op| {
                Local::<A, A::State>::new((cx, op), &local)
            })
            .with_state::<A::State>(Scope::Task)
            .gather(origin)
            .absorb(origin, globally.with_all(details), WHY, move |cx, op| {
                Global::<C::Item, A>::new((cx, op), &global)
            })
            .with_state::<A::State>(Scope::Task);
        if let Some(wrong) = wrong {
            stream.refuse(Error::new(ErrorKind::Plan, wrong));
        }
        stream
    }
}

/// The partial aggregate of a task.
struct Local<A, S> {
    aggregate: Arc<A>,
    /// `None` before the first record, and once it has been emitted.
    state: Option<S>,
    heap: OwnedHeap<S>,
}

impl<A, S: Data> Local<A, S> {
    fn new((cx, op): (&TaskContext<'_>, usize), aggregate: &Arc<A>) -> Self {
        let heap = OwnedHeap::new(cx, op, AGGREGATE);
        Self { aggregate: Arc::clone(aggregate), state: None, heap }
    }
}

impl<I, A> Absorb<I> for Local<A, A::State>
where
    I: Record + ?Sized,
    A: Aggregate<I>,
{
    type Out = A::State;
    type Saved = A::State;
    const IS_FOLD: bool = true;

    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>) -> Result<()> {
        let Self { aggregate, state, heap } = self;
        heap.changed();
        aggregate.update(state.get_or_insert_with(|| aggregate.start()), item);
        Ok(())
    }

    #[inline(always)]
    fn take_run<'a>(&mut self, op: &Op, items: impl Iterator<Item = I::Of<'a>>) -> Result<()> {
        // Moved to a local for the run, so that it need not be stored after every record.
        let (mut any, mut times) = (self.state.is_some(), 0);
        let mut state = match self.state.take() {
            Some(state) => state,
            None => guard(op, || self.aggregate.start()),
        };
        items.for_each(|item| {
            any = true;
            times += 1;
            guard(op, || self.aggregate.update(&mut state, item));
        });
        self.heap.changed_times(times);
        self.state = any.then_some(state);
        Ok(())
    }

    fn give(&mut self) -> Result<Option<A::State>> {
        self.heap.release();
        Ok(self.state.take())
    }

    fn give_way(&mut self) -> Result<()> {
        self.heap.fit(self.state.as_ref())
    }

    /// Nothing to reset: `give` has taken the state.
    fn restart(&mut self) {}

    fn at_barrier(&self) -> AtBarrier {
        AtBarrier::Given
    }
}

/// The combined aggregate of all tasks.
struct Global<I: Record + ?Sized, A: Aggregate<I>> {
    aggregate: Arc<A>,
    state: Option<A::State>,
    given: bool,
    heap: OwnedHeap<A::State>,
}

impl<I: Record + ?Sized, A: Aggregate<I>> Global<I, A> {
    fn new((cx, op): (&TaskContext<'_>, usize), aggregate: &Arc<A>) -> Self {
        let heap = OwnedHeap::new(cx, op, AGGREGATE);
        Self { aggregate: Arc::clone(aggregate), state: None, given: false, heap }
    }
}

impl<I, A> Absorb<A::State> for Global<I, A>
where
    I: Record + ?Sized,
    A: Combine<I>,
{
    type Out = A::Output;
    type Saved = A::State;

    fn take(&mut self, part: A::State) -> Result<()> {
        self.heap.changed();
        match &mut self.state {
            Some(state) => self.aggregate.combine(state, part),
            None => self.state = Some(part),
        }
        Ok(())
    }

    fn give(&mut self) -> Result<Option<A::Output>> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        self.heap.release();
        Ok(match self.state.take() {
            Some(state) => Some(self.aggregate.finish(state)),
            None => self.aggregate.empty(),
        })
    }

    fn give_way(&mut self) -> Result<()> {
        self.heap.fit(self.state.as_ref())
    }

    fn restart(&mut self) {
        self.given = false;
    }

    fn at_barrier(&self) -> AtBarrier {
        AtBarrier::Saved
    }

    fn save(&self, out: &mut Saving) {
        if let Some(state) = &self.state {
            out.add(state);
        }
    }

    fn restore(&mut self, state: &StateHandle) -> Result<()> {
        self.heap.changed();
        state.restore(|restored| {
            self.state = Some(restored);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ErrorKind;
    use crate::check::every;

    #[test]
    fn aggregates_agree_with_iterators() {
        every(|env| {
            let numbers = || env.range(0..1001).map(|n| (n * 7919) % 1009);
            let count = numbers().count().collect_one();
            let sum = numbers().sum(|n| *n).collect_one();
            let mean = env.range(0..1001).average(|n| *n).collect_one();
            let least = numbers().min(|n| *n + 5).collect_one();
            let greatest = numbers().max(|n| *n).collect_one();
            let by_key = numbers().max_by_key(|n| n % 101).collect_one();
            let by = numbers().min_by(|a, b| (a % 101, b).cmp(&(b % 101, a))).collect_one();
            let several = numbers().aggregate(|a| (a.count(), a.min_by_key(|n| *n), a.to_vec()));
            let several = several.collect_one();
            env.run()?;
            let all: Vec<u64> = (0..1001).map(|n| (n * 7919) % 1009).collect();
            assert_eq!((count.take()?, sum.take()?), (Some(1001), Some(all.iter().sum())));
            assert_eq!(mean.take()?, Some(500.0));
            assert_eq!(least.take()?, all.iter().min().map(|n| n + 5));
            assert_eq!(greatest.take()?, all.iter().max().copied());
            assert_eq!(by_key.take()?.map(|n| n % 101), Some(100));
            let least_key = |a: &&u64, b: &&u64| (*a % 101, *b).cmp(&(*b % 101, *a));
            assert_eq!(by.take()?, all.iter().min_by(least_key).copied());
            let (many, first, mut list) = several.take()?.unwrap();
            list.sort_unstable();
            let mut sorted = all;
            sorted.sort_unstable();
            assert_eq!((many, first, list), (1001, sorted[0], sorted));
            Ok(())
        });
    }

    #[test]
    fn an_empty_stream_gives_the_result_of_no_values_if_there_is_one() {
        every(|env| {
            let none = || env.iter([0_i8; 0]).shuffle();
            let count = none().count().collect_one();
            let sum = none().sum(|n| *n).collect_one();
            let mean = none().average(|n| *n).collect_one();
            let least = none().min(|n| *n).collect_one();
            let both = none().aggregate(|a| (a.count(), a.sum(|n| *n))).collect_one();
            let mixed = none().aggregate(|a| (a.count(), a.max(|n| *n))).collect_one();
            env.run()?;
            assert_eq!((count.take()?, sum.take()?), (Some(0), Some(0)));
            assert_eq!((mean.take()?, least.take()?), (None, None));
            assert_eq!((both.take()?, mixed.take()?), (Some((0, 0)), None));
            Ok(())
        });
    }

    #[test]
    fn borrowed_records_are_compared_where_they_lie() {
        every(|env| {
            let words = ["one", "three", "two"];
            let words = || env.iter(words).flat_map_str(|word, out| out.push(word));
            let longest = words().max_by_key(|word| word.len()).collect_one();
            let last = words().max_by(|a, b| a.cmp(b)).collect_one();
            let letters = words().sum(|word| word.len()).collect_one();
            env.run()?;
            assert_eq!(longest.take()?.as_deref(), Some("three"));
            assert_eq!((last.take()?.as_deref(), letters.take()?), (Some("two"), Some(11)));
            Ok(())
        });
    }

    #[test]
    fn a_sum_that_does_not_fit_stops_the_job() {
        every(|env| {
            let out = env.iter([100_u8; 6]).shuffle().sum(|n| *n).collect_one();
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.operator().unwrap_or_default().starts_with("sum ("), "{error}");
            assert!(out.take().is_err());
            Ok(())
        });
    }
}
