//! Aggregates of which each task computes a part before anything is sent.

use super::partition::Combining;
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Record};
use crate::error::{Error, ErrorKind};
use crate::operators::aggregates::Combine;
use crate::operators::aggregates::{Average, Count, FoldAssoc, Max, Min, Reduce};
use crate::operators::aggregates::{Sum, Summand};
use crate::plan::Origin;
use crate::stream::Chain;

/// A keyed stream of results.
type Results<C, G, P, A> = KeyedStream<<P as Combining<C, G>>::Chain<A>, FirstOf, Partitioned>;

/// How the values of a keyed stream look to a closure.
type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C: Chain, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Aggregates the values of each key by any [`Combine`], and gives its result when the input
    /// ends.
    ///
    /// Each task aggregates its own records first, in a table that fits its core's cache, as long
    /// as measurements say that this costs less than sending every record; what is sent is
    /// aggregated by the task that owns the key. Memory: a state a key, with what it
    /// owns on the heap, within the engine's budget; beyond it on disk. The order in which values are taken in is not defined, and
    /// neither is the order of the results.
    ///
    /// Those that there are, and several at once, are in [`aggregates`](crate::operators::aggregates).
    /// For what does not combine see [`fold`](Self::fold).
    ///
    /// # Errors
    ///
    /// On a stream that does not end, the job is refused at its start; so it is with an aggregate that
    /// its own [check](crate::operators::aggregates::Aggregate::check) refuses.
    #[track_caller]
    pub fn aggregate<A>(self, aggregate: A) -> Results<C, G, P, A>
    where
        A: Combine<G::Value>,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("aggregate"), aggregate)
    }

    fn combine_as<A>(self, origin: Origin, aggregate: A) -> Results<C, G, P, A>
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

    /// Adds up what the closure makes of the values of each key. See
    /// [`aggregate`](Self::aggregate) for how.
    ///
    /// Sums of floats depend, in their last digits, on the order in which they are added, which is not
    /// defined.
    ///
    /// # Errors
    ///
    /// A sum that its type does not hold fails the job, with the operator and the key in the message: make
    /// a wider type of each value in the closure. Where there are numbers of both signs, a sum that is too
    /// large on the way may come back; whether it becomes so depends on the order in which they are added.
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
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("sum"), Sum::new(of))
    }

    /// The least of what the closure makes of the values of each key. See
    /// [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let least = env.iter([3, 1, 2]).group_by(|_| ()).min(|n| n);
    /// let out = least.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Results<C, G, P, Min<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("min"), Min::new(of))
    }

    /// The greatest of what the closure makes of the values of each key. See
    /// [`aggregate`](Self::aggregate) for how, and [`min`](Self::min) for an example.
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Results<C, G, P, Max<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("max"), Max::new(of))
    }

    /// The arithmetic mean of what the closure makes of the values of each key. See
    /// [`aggregate`](Self::aggregate) for how.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let mean = env.iter([1, 2, 6]).group_by(|_| ()).average(|n| f64::from(n));
    /// let out = mean.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 3.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn average<F>(self, of: F) -> Results<C, G, P, Average<F>>
    where
        F: for<'a> Fn(Value<'a, C, G>) -> f64 + Send + Sync + 'static,
        P: Combining<C, G>,
    {
        self.combine_as(Origin::here("average"), Average::new(of))
    }

    /// Folds the values of each key in parts: `local` takes a value into a part, `global` puts a
    /// part into another. Both together must be associative and commutative; see
    /// [`aggregate`](Self::aggregate) for how it is done.
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

    /// Makes one value of any two of a key until one is left. The closure must be associative and
    /// commutative; see [`aggregate`](Self::aggregate) for how it is done. What depends on the order of the
    /// values is a [`fold`](Self::fold).
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

    /// Watermarks come all the time, and results are known only at the end.
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
