//! Aggregates by key, partially computed in each task before the exchange.

use super::partition::Combining;
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::operators::aggregates::{
    Aggregates, Average, Combine, Count, FoldAssoc, Max, Min, Number, PickBy, PickByKey, Reduce,
    Sum, Summand,
};
use crate::plan::Origin;
use crate::stream::Chain;
use std::cmp::Ordering;

/// A keyed stream of results.
type Results<C, G, P, A> = KeyedStream<<P as Combining<C, G>>::Chain<A>, FirstOf, Partitioned>;

/// How the values of a keyed stream look to a closure.
type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

/// The owned form of a value.
type Owned<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Portable>::Owned;

impl<C: Chain, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Aggregates the values of each key, and emits the results when the input ends.
    ///
    /// The closure selects the aggregates, from the methods of [`Aggregates`]; a tuple of up to eight is computed in
    /// one pass. An aggregate of your own is a type that implements [`Combine`]: `aggregate(|_| mine)`.
    ///
    /// Each task aggregates its own records first, as long as measurements show that this costs less than sending
    /// every record. Its table fits into the core's cache, unless keys repeat often enough for a larger one to pay.
    /// The task that owns a key combines the partial aggregates that it receives. Memory: one state per key, with
    /// what it owns on the heap, within the engine's budget; the rest goes to disk. The order in which values are
    /// aggregated is not defined, and neither is the order of the results.
    ///
    /// For an aggregate whose partial results cannot be combined see [`fold`](Self::fold).
    ///
    /// # Errors
    ///
    /// A stream that does not end is refused when the job starts, and so is an aggregate whose own
    /// [check](crate::operators::aggregates::Aggregate::check) fails.
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
    /// let totals = env
    ///     .iter(orders)
    ///     .group_by_ref(|order| &order.customer)
    ///     .aggregate(|a| (a.count(), a.sum(|order| order.amount)))
    ///     .collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(totals.take()?["ann"], (2, 7));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn aggregate<A, M>(self, make: M) -> Results<C, G, P, A>
    where
        M: FnOnce(Aggregates<G::Value>) -> A,
        A: Combine<G::Value>,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("aggregate"), make(Aggregates::new()))
    }

    pub(crate) fn combine_as<A>(self, origin: Origin, aggregate: A) -> Results<C, G, P, A>
    where
        A: Combine<G::Value>,
        P: Combining<C, G>,
    {
        let checked = aggregate.check();
        let stream = P::combine(self, origin, aggregate);
        if let Err(wrong) = checked {
            stream.refuse(Error::new(ErrorKind::Plan, wrong));
        }
        KeyedStream::new(stream, FirstOf)
    }

    /// Counts the values of each key. See [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let parity = env.iter(0..7).group_by(|n| n % 2).count();
    /// let out = parity.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(0, 4), (1, 3)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn count(self) -> Results<C, G, P, Count>
    where
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("count"), Count)
    }

    /// Sums what the closure returns for the values of each key. See [`aggregate`](Self::aggregate) for how.
    ///
    /// Sums of floats depend, in their last digits, on the order in which they are added, which is not
    /// defined.
    ///
    /// # Errors
    ///
    /// A sum that does not fit its type fails the job, with the operator and the key in the message: return a wider
    /// type from the closure. With numbers of both signs, an intermediate sum may be out of range although the final
    /// sum is not; whether that happens depends on the order in which they are added.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sums = env.iter(0..7u64).group_by(|n| n % 2).sum(|n| n * 10);
    /// let out = sums.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(0, 120), (1, 90)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sum<N, F>(self, of: F) -> Results<C, G, P, Sum<F, N>>
    where
        N: Summand,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("sum"), Sum::new(of))
    }

    /// The least of what the closure returns for the values of each key. See [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let least = env.iter([3, 1, 2]).group_by(|_| ()).min(|n| *n);
    /// let out = least.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Results<C, G, P, Min<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("min"), Min::new(of))
    }

    /// The greatest of what the closure returns for the values of each key. See [`aggregate`](Self::aggregate) for
    /// how, and [`min`](Self::min) for an example.
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Results<C, G, P, Max<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("max"), Max::new(of))
    }

    /// The arithmetic mean of what the closure returns for the values of each key. See [`aggregate`](Self::aggregate)
    /// for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let mean = env.iter([1, 2, 6]).group_by(|_| ()).average(|n| *n);
    /// let out = mean.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 3.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "avg")]
    #[doc(alias = "mean")]
    #[track_caller]
    pub fn average<N, F>(self, of: F) -> Results<C, G, P, Average<F, N>>
    where
        N: Number,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("average"), Average::new(of))
    }

    /// The value of each key for which the closure returns the least sort key; any of them if several tie.
    /// [`min`](Self::min) returns only what the closure extracts. See [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// // A customer, an amount, and a price in cents.
    /// let trades = env.iter([(1, 3, 750), (1, 1, 350), (2, 2, 900)]);
    /// let cheapest = trades.group_by(|trade| trade.0).min_by_key(|trade| trade.2);
    /// let out = cheapest.map(|_, trade| trade.1).collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 1), (2, 2)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min_by_key<B, F>(self, key: F) -> Results<C, G, P, PickByKey<F, B>>
    where
        G::Value: Portable,
        B: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> B + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        let pick: PickByKey<F, B> = Aggregates::<G::Value>::new().min_by_key(key);
        self.combine_as(Origin::here("min_by_key"), pick)
    }

    /// The value of each key for which the closure returns the greatest sort key. See
    /// [`min_by_key`](Self::min_by_key), its mirror image.
    #[track_caller]
    pub fn max_by_key<B, F>(self, key: F) -> Results<C, G, P, PickByKey<F, B>>
    where
        G::Value: Portable,
        B: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> B + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        let pick: PickByKey<F, B> = Aggregates::<G::Value>::new().max_by_key(key);
        self.combine_as(Origin::here("max_by_key"), pick)
    }

    /// The least value of each key in the order of the closure, which must be total; any of them if several tie. See
    /// [`min_by_key`](Self::min_by_key) for an order by a key.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let least = env.iter([1.5, 0.5, 2.5]).group_by(|_| ()).min_by(f64::total_cmp);
    /// let out = least.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 0.5)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min_by<F>(self, compare: F) -> Results<C, G, P, PickBy<F>>
    where
        G::Value: Portable,
        F: Fn(&Owned<C, G>, &Owned<C, G>) -> Ordering + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        let pick: PickBy<F> = Aggregates::<G::Value>::new().min_by(compare);
        self.combine_as(Origin::here("min_by"), pick)
    }

    /// The greatest value of each key in the order of the closure. See [`min_by`](Self::min_by), its mirror image.
    #[track_caller]
    pub fn max_by<F>(self, compare: F) -> Results<C, G, P, PickBy<F>>
    where
        G::Value: Portable,
        F: Fn(&Owned<C, G>, &Owned<C, G>) -> Ordering + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        let pick: PickBy<F> = Aggregates::<G::Value>::new().max_by(compare);
        self.combine_as(Origin::here("max_by"), pick)
    }

    /// Folds the values of each key into partial accumulators: `local` adds a value to an accumulator, `global`
    /// merges one accumulator into another. Both together must be associative and commutative. See
    /// [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let longest = env
    ///     .iter(["a", "abc", "ab"])
    ///     .group_by(|_| ())
    ///     .fold_assoc(0, |n, word| *n = word.len().max(*n), |n, m| *n = m.max(*n));
    /// let out = longest.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fold_assoc<S, F, M>(
        self,
        init: S,
        local: F,
        global: M,
    ) -> Results<C, G, P, FoldAssoc<S, F, M>>
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, Value<'a, C, G>) + Send + Sync + 'static,
        M: Fn(&mut S, S) + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("fold_assoc"), FoldAssoc { init, local, global })
    }

    /// Reduces the values of each key to one, two at a time. The closure must be associative and commutative; see
    /// [`aggregate`](Self::aggregate) for how. Where the result depends on the order of the values, use
    /// [`fold`](Self::fold).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let products = env.iter(1..6u64).group_by(|n| n % 2).reduce(|a, b| a * b);
    /// let out = products.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(0, 8), (1, 15)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce<V, F>(self, reduce: F) -> Results<C, G, P, Reduce<F>>
    where
        G: KeyBy<C::Item, Value = V>,
        V: Data,
        F: Fn(V, V) -> V + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("reduce"), Reduce { reduce })
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::config::{Config, Scheduler};
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;

    /// Watermarks arrive throughout, and results are known only at the end.
    #[test]
    fn no_watermark_makes_a_task_send_what_it_combines() {
        let scheduler = Scheduler::Deterministic { seed: 1 };
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let counts = env
            .iter(0..100_000_i64)
            .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous())
            .group_by(|n| n % 7)
            .count()
            .collect::<Vec<_>>();
        let stats = env.start().unwrap().wait().unwrap();
        let combine = stats.operators.iter().find(|op| op.kind == "combine").unwrap();
        assert_eq!(combine.records_out, Some(7));
        assert_eq!(counts.take().unwrap().iter().map(|(_, count)| count).sum::<u64>(), 100_000);
    }
}
