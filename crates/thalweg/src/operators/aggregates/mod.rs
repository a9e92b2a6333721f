//! What can be computed of many values: of those of a key by
//! [`KeyedStream::aggregate`](crate::KeyedStream::aggregate), and of those of a window by
//! [`Windowed::aggregate`](super::window::Windowed::aggregate).
//!
//! | what | aggregate | subtracted by windows that slide |
//! |---|---|---|
//! | how many | [`count`], [`count_if`] | yes |
//! | how many that differ | [`count_distinct`], [`approx_count_distinct`] | no |
//! | total | [`sum`] | of integers and durations |
//! | middle and spread | [`average`], [`variance`], [`stddev`] | no |
//! | quantiles, exact | [`quantiles`] | no |
//! | quantiles, approximate | [`approx_quantiles`] | yes |
//! | least, greatest | [`min`], [`max`], [`bottom`], [`top`] | no |
//! | values with the least or greatest key | [`min_by`], [`max_by`], [`bottom_by`], [`top_by`] | no |
//! | values by time | [`first_by`], [`last_by`], [`nth_by`] | no |
//! | all values | [`to_vec`] | no |
//! | what closures say | [`fold_assoc`], [`reduce`] | no |
//!
//! A tuple of up to eight is an aggregate too, which computes all of them in one pass and gives a tuple of
//! their results; it is subtracted if all of them are. Each gets the value by itself: a borrowed one and
//! one that is `Copy` are handed round at no cost, any other is cloned for all but the last, except by
//! [`count`] and by those that take a key of it, which clone only what they keep. Where a clone is dear,
//! first [`map`](crate::KeyedStream::map) values to what is needed of them, or group by reference a stream
//! of borrowed ones.
//!
//! Whoever needs another implements [`Combine`].
//!
//! The closures' parameters need their types, since a value by itself does not know what stream it will be
//! used on.
//!
//! ```
//! use thalweg::Environment;
//! use thalweg::operators::aggregates::{average, count, max};
//!
//! #[derive(Clone, Copy, thalweg::Data)]
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
//!     .aggregate((count(), average(|trade: Trade| trade.price), max(|trade: Trade| trade.price)));
//! let out = of_each.collect::<std::collections::BTreeMap<_, _>>();
//! env.run()?;
//! assert_eq!(out.take()?, [(1, (2, 12.0, 14.0)), (2, (1, 3.0, 3.0))].into());
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! Nothing here knows of keys, windows or tasks: those that aggregate build on it, and it uses none of them.

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
mod together;
mod top;

pub use aggregate::{Aggregate, Combine};
pub use approx_distinct::{ApproxCountDistinct, approx_count_distinct};
pub use approx_quantiles::{ApproxQuantiles, approx_quantiles};
pub use basic::{Average, Count, Fold, FoldAssoc, Max, Min, Reduce};
pub use count_if::{CountIf, count_if};
pub use distinct::{CountDistinct, count_distinct};
pub use exact_quantiles::{Quantiles, quantiles};
pub(super) use order::better;
pub use pick::{Pick, first_by, last_by, max_by, min_by};
pub use spread::{Spread, stddev, variance};
pub use sum::{Sum, Summand};
pub use to_vec::{ToVec, to_vec};
pub use top::{Nth, Top, TopBy, bottom, bottom_by, nth_by, top, top_by};

#[cfg(all(test, not(loom)))]
mod tests;

/// How many values there are.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::count;
///
/// let env = Environment::new();
/// let out = env.iter([7, 7, 9]).group_by(|_| ()).aggregate(count());
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 3)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn count() -> Count {
    Count
}

/// The sum of what the closure makes of the values: of integers, floats or durations.
///
/// A sum that its type does not hold fails the job; see [`KeyedStream::sum`](crate::KeyedStream::sum). Sums of floats depend, in their last digits, on the order in
/// which they are added, which is not defined.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::sum;
///
/// let env = Environment::new();
/// let out = env.iter([7, 7, 9]).group_by(|_| ()).aggregate(sum(|n: i32| u64::from(n.unsigned_abs())));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 23)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn sum<F, N>(of: F) -> Sum<F, N> {
    Sum::new(of)
}

/// The least of what the closure makes of the values. A float that is no number is the result only where
/// there is no other. See [`min_by`] for the whole value, and [`bottom`] for the least few.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::min;
///
/// let env = Environment::new();
/// let out = env.iter([(1, 'b'), (2, 'a')]).group_by(|_| ()).aggregate(min(|r: (i32, char)| r.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 'a')]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn min<F, N>(of: F) -> Min<F, N> {
    Min::new(of)
}

/// The greatest of what the closure makes of the values. A float that is no number is the result only
/// where there is no other. See [`max_by`] for the whole value, and [`top`] for the greatest few.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::max;
///
/// let env = Environment::new();
/// let out = env.iter([(1, 'b'), (2, 'a')]).group_by(|_| ()).aggregate(max(|r: (i32, char)| r.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 'b')]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn max<F, N>(of: F) -> Max<F, N> {
    Max::new(of)
}

/// The arithmetic mean of what the closure makes of the values.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::average;
///
/// let env = Environment::new();
/// let out = env.iter([1, 2, 6]).group_by(|_| ()).aggregate(average(|n: i32| f64::from(n)));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 3.0)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn average<F>(of: F) -> Average<F> {
    Average::new(of)
}

/// What `local` makes of values in parts, beginning with `init`, and `global` of parts. Both together must
/// be associative and commutative, and `init` must change nothing when it is put to a part.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::fold_assoc;
///
/// let env = Environment::new();
/// let out = env.iter(["a", "abc", "ab"]).group_by(|_| ()).aggregate(fold_assoc(
///     0,
///     |longest: &mut usize, word: &str| *longest = word.len().max(*longest),
///     |longest: &mut usize, other: usize| *longest = other.max(*longest),
/// ));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 3)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn fold_assoc<S, F, M>(init: S, local: F, global: M) -> FoldAssoc<S, F, M> {
    FoldAssoc { init, local, global }
}

/// What the closure makes of any two values, until one is left. It must be associative and commutative.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::reduce;
///
/// let env = Environment::new();
/// let out = env.iter(1..6u64).group_by(|_| ()).aggregate(reduce(|a: u64, b: u64| a * b));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 120)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn reduce<F>(reduce: F) -> Reduce<F> {
    Reduce { reduce }
}
