//! Aggregates: results computed from many values. The values are all records of a stream
//! ([`Stream::aggregate`](crate::Stream::aggregate)), those of a key
//! ([`KeyedStream::aggregate`](crate::KeyedStream::aggregate)), or those of a window
//! ([`Windowed::aggregate`](super::window::Windowed::aggregate)).
//!
//! They are methods of [`Aggregates`], which the closure of `aggregate` receives. The most common ones are also
//! methods of streams and windows, with the same names and the same results.
//!
//! | what | aggregate | sliding windows subtract |
//! |---|---|---|
//! | number of values | [`count`](Aggregates::count), [`count_if`](Aggregates::count_if) | yes |
//! | number of distinct values | [`count_distinct`](Aggregates::count_distinct), [`approx_count_distinct`](Aggregates::approx_count_distinct) | no |
//! | total | [`sum`](Aggregates::sum) | of integers and durations |
//! | mean and spread | [`average`](Aggregates::average), [`variance`](Aggregates::variance), [`stddev`](Aggregates::stddev) | no |
//! | quantiles, exact | [`quantiles`](Aggregates::quantiles) | no |
//! | quantiles, approximate | [`approx_quantiles`](Aggregates::approx_quantiles) | yes |
//! | least, greatest of what a closure extracts | [`min`](Aggregates::min), [`max`](Aggregates::max), [`bottom_of`](Aggregates::bottom_of), [`top_of`](Aggregates::top_of) | no |
//! | values with the least or greatest key | [`min_by_key`](Aggregates::min_by_key), [`max_by_key`](Aggregates::max_by_key), [`bottom_by_key`](Aggregates::bottom_by_key), [`top_by_key`](Aggregates::top_by_key) | no |
//! | values that compare as least or greatest | [`min_by`](Aggregates::min_by), [`max_by`](Aggregates::max_by), [`bottom_by`](Aggregates::bottom_by), [`top_by`](Aggregates::top_by), [`bottom`](Aggregates::bottom), [`top`](Aggregates::top) | no |
//! | values by time | [`first_by_key`](Aggregates::first_by_key), [`last_by_key`](Aggregates::last_by_key), [`nth_by_key`](Aggregates::nth_by_key) | no |
//! | all values | [`to_vec`](Aggregates::to_vec) | no |
//! | defined by closures | [`fold_assoc`](Aggregates::fold_assoc), [`reduce`](Aggregates::reduce) | no |
//!
//! A tuple of up to eight aggregates is an aggregate too: it computes all of them in one pass, and its result is the
//! tuple of their results. Sliding windows subtract it if they can subtract all of its members. Closures receive
//! values by reference, so no value is cloned for them. An aggregate that keeps values clones those it keeps, unless
//! it is the last of the tuple.
//!
//! For an aggregate of your own, implement [`Combine`], and [`AggregateRef`] to use it in tuples.
//!
//! ```
//! use thalweg::{Data, Environment};
//!
//! #[derive(Data)]
//! struct Trade {
//!     share: u32,
//!     price: f64,
//! }
//!
//! let env = Environment::new();
//! let trades = [(1, 10.0), (2, 3.0), (1, 14.0)].map(|(share, price)| Trade { share, price });
//! let of_each = env
//!     .iter(trades)
//!     .group_by(|trade| trade.share)
//!     .aggregate(|a| (a.count(), a.average(|trade| trade.price), a.max(|trade| trade.price)));
//! let out = of_each.collect::<std::collections::BTreeMap<_, _>>();
//! env.run()?;
//! assert_eq!(out.take()?, [(1, (2, 12.0, 14.0)), (2, (1, 3.0, 3.0))].into());
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! Nothing here uses keys, windows or tasks; the operators that aggregate are built on this module.

mod aggregate;
mod approx_distinct;
mod approx_quantiles;
mod basic;
mod count_if;
mod distinct;
mod exact_quantiles;
mod order;
mod pick;
mod spread;
mod sum;
mod to_vec;
mod top;
mod tuple;

pub use aggregate::{Aggregate, AggregateRef, Combine};
pub(in crate::operators) use aggregate::{details, short_type_name};
pub use approx_distinct::{ApproxCountDistinct, Sketch};
pub use approx_quantiles::ApproxQuantiles;
pub use basic::{Average, Count, Fold, FoldAssoc, Max, Min, Reduce};
pub use count_if::CountIf;
pub use distinct::{ByKeyHash, CountDistinct, KeyHasher};
pub use exact_quantiles::Quantiles;
pub(super) use order::better;
pub use pick::{PickBy, PickByKey};
pub use spread::Spread;
pub use sum::{Number, Sum, Summand};
pub use to_vec::ToVec;
pub use top::{NthByKey, TopBy, TopByKey, TopOf};

use crate::data::{Data, Record};
use std::fmt;
use std::marker::PhantomData;

#[cfg(test)]
mod tests;

/// The aggregates of values of `V`, from which the closure of `aggregate` chooses.
///
/// Its parameter is the type of the values, so that closures need not name it. An aggregate that is made apart from
/// its stream begins with `Aggregates::<Trade>::new()`.
pub struct Aggregates<V: ?Sized> {
    values: PhantomData<fn(&V)>,
}

impl<V: ?Sized> Clone for Aggregates<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Aggregates<V> {}

impl<V: ?Sized> Default for Aggregates<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: ?Sized> fmt::Debug for Aggregates<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aggregates")
    }
}

impl<V: ?Sized> Aggregates<V> {
    /// The aggregates of values of `V`.
    pub const fn new() -> Self {
        Self { values: PhantomData }
    }
}

impl<V: Record + ?Sized> Aggregates<V> {
    /// The number of values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([7, 7, 9]).aggregate(|a| a.count()).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn count(self) -> Count {
        Count
    }

    /// The sum of what the closure returns for the values: integers, floats or durations.
    ///
    /// A sum that does not fit its type fails the job; see [`KeyedStream::sum`](crate::KeyedStream::sum). Sums of
    /// floats depend, in their last digits, on the order in which they are added, which is not defined.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([7_i32, 7, -9]).aggregate(|a| a.sum(|n| u64::from(n.unsigned_abs())));
    /// let out = out.collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(23));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn sum<N, F>(self, of: F) -> Sum<F, N>
    where
        N: Summand,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        Sum::new(of)
    }

    /// The least of what the closure returns for the values. NaN is the result only where there is nothing else. See
    /// [`min_by_key`](Self::min_by_key) for the whole value, and [`bottom_of`](Self::bottom_of) for several.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([(1, 'b'), (2, 'a')]).aggregate(|a| a.min(|r| r.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some('a'));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn min<N, F>(self, of: F) -> Min<F, N>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        Min::new(of)
    }

    /// The greatest of what the closure returns for the values. NaN is the result only where there is nothing else.
    /// See [`max_by_key`](Self::max_by_key) for the whole value, and [`top_of`](Self::top_of) for several.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([(1, 'b'), (2, 'a')]).aggregate(|a| a.max(|r| r.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some('b'));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn max<N, F>(self, of: F) -> Max<F, N>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        Max::new(of)
    }

    /// The arithmetic mean of what the closure returns for the values: integers or floats. The result is a float.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([1, 2, 6]).aggregate(|a| a.average(|n| *n)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "avg")]
    #[doc(alias = "mean")]
    pub fn average<N, F>(self, of: F) -> Average<F, N>
    where
        N: Number,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        Average::new(of)
    }

    /// A fold in two steps: `local` adds values to partial results, which begin with `init`, and `global` merges
    /// partial results. Both together must be associative and commutative, and `init` must change nothing when it is
    /// merged.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let words = env.iter(["a", "abc", "ab"]);
    /// let out = words.aggregate(|a| {
    ///     a.fold_assoc(0, |longest, word| *longest = word.len().max(*longest), |longest, other| {
    ///         *longest = other.max(*longest);
    ///     })
    /// });
    /// let out = out.collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn fold_assoc<S, F, M>(self, init: S, local: F, global: M) -> FoldAssoc<S, F, M>
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, V::Of<'a>) + Send + Sync + 'static,
        M: Fn(&mut S, S) + Send + Sync + 'static,
    {
        FoldAssoc { init, local, global }
    }
}

impl<V: Data> Aggregates<V> {
    /// Reduces the values to one, two at a time. The closure must be associative and commutative.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(1..6u64).aggregate(|a| a.reduce(|a, b| a * b)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(120));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn reduce<F>(self, reduce: F) -> Reduce<F>
    where
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        Reduce { reduce }
    }
}
