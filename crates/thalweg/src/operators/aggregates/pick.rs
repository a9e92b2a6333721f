//! The least or greatest value, by a key or by a comparator.

use super::{Aggregate, AggregateRef, Aggregates, Combine, better};
use crate::data::{Data, Portable};
use std::cmp::Ordering;
use std::marker::PhantomData;

impl<V: Portable + ?Sized> Aggregates<V> {
    /// The value for which the closure returns the least key.
    ///
    /// If several values have that key, it is not defined which of them is the result: add what decides to the key. A
    /// key that is NaN is worse than all others. Memory: one value with its key. See [`min`](Self::min) for the least
    /// key alone, [`min_by`](Self::min_by) for an order without a key, and [`bottom_by_key`](Self::bottom_by_key) for
    /// several values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([(1, 7.5), (2, 3.5), (3, 9.0)]);
    /// let out = trades.aggregate(|a| a.min_by_key(|trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((2, 3.5)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn min_by_key<K, F>(self, key: F) -> PickByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        PickByKey::new(key, Ordering::Less)
    }

    /// The value for which the closure returns the greatest key. See [`min_by_key`](Self::min_by_key), its mirror
    /// image, and [`top_by_key`](Self::top_by_key) for several values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([(1, 7.5), (2, 3.5), (3, 9.0)]);
    /// let out = trades.aggregate(|a| a.max_by_key(|trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((3, 9.0)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn max_by_key<K, F>(self, key: F) -> PickByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        PickByKey::new(key, Ordering::Greater)
    }

    /// The first value, by the time that the closure returns. Many tasks process the values, so their order of
    /// arrival has no meaning.
    ///
    /// If several values have that time, it is not defined which of them is the result: add what decides to what the
    /// closure returns. The same as [`min_by_key`](Self::min_by_key), under the usual name for times.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let events = env.iter([(20, 'b'), (10, 'a'), (30, 'c')]);
    /// let out = events.aggregate(|a| a.first_by_key(|event| event.0)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((10, 'a')));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn first_by_key<K, F>(self, time: F) -> PickByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        self.min_by_key(time)
    }

    /// The last value, by the time that the closure returns. See [`first_by_key`](Self::first_by_key), its mirror
    /// image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let events = env.iter([(20, 'b'), (30, 'c'), (10, 'a')]);
    /// let out = events.aggregate(|a| a.last_by_key(|event| event.0)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((30, 'c')));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn last_by_key<K, F>(self, time: F) -> PickByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        self.max_by_key(time)
    }

    /// The least value in the order of the closure, which must be total; any of them if several tie.
    ///
    /// Memory: one value. See [`min_by_key`](Self::min_by_key) for an order by a key, which compares faster and
    /// copies fewer borrowed values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let numbers = env.iter([-3_i32, 2]);
    /// let out = numbers.aggregate(|a| a.min_by(|one, other| one.abs().cmp(&other.abs()))).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn min_by<F>(self, compare: F) -> PickBy<F>
    where
        F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
    {
        PickBy { compare, wanted: Ordering::Less }
    }

    /// The greatest value in the order of the closure. See [`min_by`](Self::min_by), its mirror image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).aggregate(|a| a.max_by(f64::total_cmp)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(2.5));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn max_by<F>(self, compare: F) -> PickBy<F>
    where
        F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
    {
        PickBy { compare, wanted: Ordering::Greater }
    }
}

/// The value whose key is least or greatest: [`Aggregates::min_by_key`], [`Aggregates::max_by_key`],
/// [`Aggregates::first_by_key`] and [`Aggregates::last_by_key`].
pub struct PickByKey<F, K> {
    key: F,
    wanted: Ordering,
    types: PhantomData<fn() -> K>,
}

impl<F, K: PartialOrd> PickByKey<F, K> {
    fn new(key: F, wanted: Ordering) -> Self {
        Self { key, wanted, types: PhantomData }
    }

    #[inline(always)]
    fn wants<W>(&self, state: &Option<(K, W)>, key: &K) -> bool {
        state.as_ref().is_none_or(|(old, _)| better(key, old, self.wanted))
    }
}

impl<V, F, K> Aggregate<V> for PickByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Option<(K, V::Owned)>;
    type Output = V::Owned;

    #[inline(always)]
    fn start(&self) -> Option<(K, V::Owned)> {
        None
    }

    #[inline(always)]
    fn update(&self, state: &mut Option<(K, V::Owned)>, value: V::Of<'_>) {
        let key = (self.key)(&value);
        if self.wants(state, &key) {
            *state = Some((key, V::to_owned(value)));
        }
    }

    fn finish(&self, state: Option<(K, V::Owned)>) -> V::Owned {
        state.expect("there was a value").1
    }

    fn name(&self) -> String {
        let which = if self.wanted == Ordering::Less { "min" } else { "max" };
        format!("{which}_by_key")
    }
}

#[diagnostic::do_not_recommend]
impl<V, F, K> AggregateRef<V> for PickByKey<F, K>
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    /// Clones only values that are better than all before them.
    #[inline(always)]
    fn update_ref(&self, state: &mut Option<(K, V::Owned)>, value: &V::Of<'_>) {
        let key = (self.key)(value);
        if self.wants(state, &key) {
            *state = Some((key, V::to_owned(value.clone())));
        }
    }
}

impl<V, F, K> Combine<V> for PickByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    #[inline(always)]
    fn combine(&self, state: &mut Option<(K, V::Owned)>, other: Option<(K, V::Owned)>) {
        if let Some((key, value)) = other
            && self.wants(state, &key)
        {
            *state = Some((key, value));
        }
    }
}

/// The value that is least or greatest by a comparator: [`Aggregates::min_by`] and [`Aggregates::max_by`].
pub struct PickBy<F> {
    compare: F,
    wanted: Ordering,
}

impl<F> PickBy<F> {
    #[inline(always)]
    fn keep<W>(&self, state: &mut Option<W>, new: W)
    where
        F: Fn(&W, &W) -> Ordering,
    {
        if state.as_ref().is_none_or(|old| (self.compare)(&new, old) == self.wanted) {
            *state = Some(new);
        }
    }
}

impl<V, F> Aggregate<V> for PickBy<F>
where
    V: Portable + ?Sized,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    type State = Option<V::Owned>;
    type Output = V::Owned;

    #[inline(always)]
    fn start(&self) -> Option<V::Owned> {
        None
    }

    #[inline(always)]
    fn update(&self, state: &mut Option<V::Owned>, value: V::Of<'_>) {
        self.keep(state, V::to_owned(value));
    }

    fn finish(&self, state: Option<V::Owned>) -> V::Owned {
        state.expect("there was a value")
    }

    fn name(&self) -> String {
        let which = if self.wanted == Ordering::Less { "min" } else { "max" };
        format!("{which}_by")
    }
}

#[diagnostic::do_not_recommend]
impl<V, F> AggregateRef<V> for PickBy<F>
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Option<V::Owned>, value: &V::Of<'_>) {
        self.keep(state, V::to_owned(value.clone()));
    }
}

impl<V, F> Combine<V> for PickBy<F>
where
    V: Portable + ?Sized,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    #[inline(always)]
    fn combine(&self, state: &mut Option<V::Owned>, other: Option<V::Owned>) {
        if let Some(value) = other {
            self.keep(state, value);
        }
    }
}
