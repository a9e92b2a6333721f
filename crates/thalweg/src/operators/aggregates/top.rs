//! The `n` greatest or least values, and the value at a given position in time.

use super::{Aggregate, AggregateRef, Aggregates, Combine, better};
use crate::data::{Data, Ordered, Portable, Record};
use std::cmp::Ordering;
use std::marker::PhantomData;

impl<V: Record + ?Sized> Aggregates<V> {
    /// The `n` greatest of what the closure returns for the values, the greatest first; all of them, where there are
    /// fewer.
    ///
    /// Equal ones all count. NaN comes after all others. Memory: `n` per key. Time: a comparison per value, and for a
    /// value that is kept a search and a move of up to `n`; it is meant for an `n` of tens or hundreds. See
    /// [`top_by_key`](Self::top_by_key) for whole values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([('a', 3), ('b', 1), ('c', 4)]);
    /// let out = trades.aggregate(|a| a.top_of(2, |trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![4, 3]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn top_of<N, F>(self, n: usize, of: F) -> TopOf<F, N>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        TopOf { of, n, wanted: Ordering::Greater, number: PhantomData }
    }

    /// The `n` least of what the closure returns for the values, the least first. See [`top_of`](Self::top_of), its
    /// mirror image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([('a', 3), ('b', 1), ('c', 4)]);
    /// let out = trades.aggregate(|a| a.bottom_of(2, |trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![1, 3]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn bottom_of<N, F>(self, n: usize, of: F) -> TopOf<F, N>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        TopOf { of, n, wanted: Ordering::Less, number: PhantomData }
    }
}

impl<V: Portable + ?Sized> Aggregates<V> {
    /// The `n` greatest values, the greatest first. See [`top_of`](Self::top_of) for the cost.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 4, 1, 5]).aggregate(|a| a.top(2)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![5, 4]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn top(self, n: usize) -> TopBy<impl Fn(&V::Owned, &V::Owned) -> Ordering + use<V>>
    where
        V: Portable<Owned: Ordered>,
    {
        self.top_by(n, V::Owned::cmp)
    }

    /// The `n` least values, the least first. See [`top`](Self::top), its mirror image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 4, 1, 5]).aggregate(|a| a.bottom(3)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![1, 1, 3]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn bottom(self, n: usize) -> TopBy<impl Fn(&V::Owned, &V::Owned) -> Ordering + use<V>>
    where
        V: Portable<Owned: Ordered>,
    {
        self.bottom_by(n, V::Owned::cmp)
    }

    /// The `n` greatest values in the order of the closure, which must be total, the greatest first. See
    /// [`top_of`](Self::top_of) for the cost.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).aggregate(|a| a.top_by(2, f64::total_cmp)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![2.5, 1.5]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn top_by<F>(self, n: usize, compare: F) -> TopBy<F>
    where
        F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
    {
        TopBy { compare, n, wanted: Ordering::Greater }
    }

    /// The `n` least values in the order of the closure, the least first. See [`top_by`](Self::top_by), its mirror
    /// image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).aggregate(|a| a.bottom_by(2, f64::total_cmp)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![0.5, 1.5]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn bottom_by<F>(self, n: usize, compare: F) -> TopBy<F>
    where
        F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
    {
        TopBy { compare, n, wanted: Ordering::Less }
    }

    /// The `n` values for which the closure returns the greatest keys, the greatest first.
    ///
    /// Of values with the same key, it is not defined which are kept, nor in which order: add what decides to the
    /// key. See [`top_of`](Self::top_of) for the cost, and for keys alone.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([('a', 3), ('b', 1), ('c', 4)]);
    /// let out = trades.aggregate(|a| a.top_by_key(2, |trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![('c', 4), ('a', 3)]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn top_by_key<K, F>(self, n: usize, key: F) -> TopByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        TopByKey { key, n, wanted: Ordering::Greater, types: PhantomData }
    }

    /// The `n` values for which the closure returns the least keys, the least first. See
    /// [`top_by_key`](Self::top_by_key), its mirror image.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([('a', 3), ('b', 1), ('c', 4)]);
    /// let out = trades.aggregate(|a| a.bottom_by_key(2, |trade| trade.1)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(vec![('b', 1), ('a', 3)]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn bottom_by_key<K, F>(self, n: usize, key: F) -> TopByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        TopByKey { key, n, wanted: Ordering::Less, types: PhantomData }
    }

    /// The value that has `n` values before it, by the time that the closure returns; `None` if there are no more
    /// than `n` values.
    ///
    /// Of values at the same time, it is not defined which comes first. Memory: `n + 1` values per key.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let events = env.iter([(30, 'c'), (10, 'a'), (20, 'b')]);
    /// let out = events.aggregate(|a| a.nth_by_key(1, |event| event.0)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(Some((20, 'b'))));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn nth_by_key<K, F>(self, n: usize, time: F) -> NthByKey<F, K>
    where
        K: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    {
        NthByKey { n, first: self.bottom_by_key(n.saturating_add(1), time) }
    }
}

/// Whether a value is among the best `n`, which are in order.
#[inline(always)]
fn wants<T>(n: usize, best: &[T], is_better: impl FnOnce(&T) -> bool) -> bool {
    best.len() < n || best.last().is_some_and(is_better)
}

/// Inserts a value into the best `n`, which are in order; returns whether it was among them.
#[inline]
fn keep<T>(n: usize, best: &mut Vec<T>, new: T, is_better: impl Fn(&T, &T) -> bool) -> bool {
    if !wants(n, best, |worst| is_better(&new, worst)) {
        return false;
    }
    // After equal ones: a value must be better to be placed before another.
    let at = best.partition_point(|there| !is_better(&new, there));
    best.truncate(n - 1);
    best.insert(at, new);
    true
}

/// Merges the best of `others` into these.
fn merge<T>(n: usize, best: &mut Vec<T>, others: Vec<T>, is_better: impl Fn(&T, &T) -> bool) {
    for other in others {
        // Those after it are no better.
        if !keep(n, best, other, &is_better) {
            return;
        }
    }
}

/// As in `top_by_key 7`.
fn named(wanted: Ordering, by: &str, n: usize) -> String {
    let which = if wanted == Ordering::Less { "bottom" } else { "top" };
    format!("{which}_{by} {n}")
}

/// The `n` greatest or least results of a closure: [`Aggregates::top_of`] and [`Aggregates::bottom_of`].
pub struct TopOf<F, N> {
    of: F,
    n: usize,
    wanted: Ordering,
    number: PhantomData<fn() -> N>,
}

impl<V, F, N> Aggregate<V> for TopOf<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + PartialOrd,
{
    type State = Vec<N>;
    type Output = Vec<N>;

    #[inline(always)]
    fn start(&self) -> Vec<N> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<N>, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    #[inline(always)]
    fn finish(&self, state: Vec<N>) -> Vec<N> {
        state
    }

    fn empty(&self) -> Option<Vec<N>> {
        Some(Vec::new())
    }

    fn name(&self) -> String {
        named(self.wanted, "of", self.n)
    }
}

impl<V, F, N> AggregateRef<V> for TopOf<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + PartialOrd,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<N>, value: &V::Of<'_>) {
        keep(self.n, state, (self.of)(value), |new, old| better(new, old, self.wanted));
    }
}

impl<V, F, N> Combine<V> for TopOf<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<N>, other: Vec<N>) {
        merge(self.n, state, other, |new, old| better(new, old, self.wanted));
    }
}

/// The `n` greatest or least values: [`Aggregates::top`], [`Aggregates::bottom`], [`Aggregates::top_by`] and
/// [`Aggregates::bottom_by`].
pub struct TopBy<F> {
    compare: F,
    n: usize,
    wanted: Ordering,
}

impl<V, F> Aggregate<V> for TopBy<F>
where
    V: Portable + ?Sized,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    type State = Vec<V::Owned>;
    type Output = Vec<V::Owned>;

    #[inline(always)]
    fn start(&self) -> Vec<V::Owned> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<V::Owned>, value: V::Of<'_>) {
        keep(self.n, state, V::to_owned(value), |new, old| (self.compare)(new, old) == self.wanted);
    }

    #[inline(always)]
    fn finish(&self, state: Vec<V::Owned>) -> Vec<V::Owned> {
        state
    }

    fn empty(&self) -> Option<Vec<V::Owned>> {
        Some(Vec::new())
    }

    fn name(&self) -> String {
        named(self.wanted, "by", self.n)
    }
}

#[diagnostic::do_not_recommend]
impl<V, F> AggregateRef<V> for TopBy<F>
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<V::Owned>, value: &V::Of<'_>) {
        Aggregate::<V>::update(self, state, value.clone());
    }
}

impl<V, F> Combine<V> for TopBy<F>
where
    V: Portable + ?Sized,
    F: Fn(&V::Owned, &V::Owned) -> Ordering + Send + Sync + 'static,
{
    fn combine(&self, state: &mut Vec<V::Owned>, other: Vec<V::Owned>) {
        merge(self.n, state, other, |new, old| (self.compare)(new, old) == self.wanted);
    }
}

/// The values with the `n` greatest or least keys: [`Aggregates::top_by_key`] and [`Aggregates::bottom_by_key`].
pub struct TopByKey<F, K> {
    key: F,
    n: usize,
    wanted: Ordering,
    types: PhantomData<fn() -> K>,
}

impl<F, K: PartialOrd> TopByKey<F, K> {
    #[inline(always)]
    fn keep<W>(&self, state: &mut Vec<(K, W)>, key: K, value: W) {
        keep(self.n, state, (key, value), |new, old| better(&new.0, &old.0, self.wanted));
    }

    #[inline(always)]
    fn wants<W>(&self, state: &[(K, W)], key: &K) -> bool {
        wants(self.n, state, |worst| better(key, &worst.0, self.wanted))
    }
}

impl<V, F, K> Aggregate<V> for TopByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Vec<(K, V::Owned)>;
    type Output = Vec<V::Owned>;

    #[inline(always)]
    fn start(&self) -> Vec<(K, V::Owned)> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<(K, V::Owned)>, value: V::Of<'_>) {
        let key = (self.key)(&value);
        if self.wants(state, &key) {
            self.keep(state, key, V::to_owned(value));
        }
    }

    fn finish(&self, state: Vec<(K, V::Owned)>) -> Vec<V::Owned> {
        state.into_iter().map(|(_, value)| value).collect()
    }

    fn empty(&self) -> Option<Vec<V::Owned>> {
        Some(Vec::new())
    }

    fn name(&self) -> String {
        named(self.wanted, "by_key", self.n)
    }
}

#[diagnostic::do_not_recommend]
impl<V, F, K> AggregateRef<V> for TopByKey<F, K>
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    /// Clones only values that are kept.
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<(K, V::Owned)>, value: &V::Of<'_>) {
        let key = (self.key)(value);
        if self.wants(state, &key) {
            self.keep(state, key, V::to_owned(value.clone()));
        }
    }
}

impl<V, F, K> Combine<V> for TopByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<(K, V::Owned)>, other: Vec<(K, V::Owned)>) {
        merge(self.n, state, other, |new, old| better(&new.0, &old.0, self.wanted));
    }
}

/// The value at a given position in time: [`Aggregates::nth_by_key`].
pub struct NthByKey<F, K> {
    n: usize,
    first: TopByKey<F, K>,
}

impl<V, F, K> Aggregate<V> for NthByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Vec<(K, V::Owned)>;
    type Output = Option<V::Owned>;

    #[inline(always)]
    fn start(&self) -> Vec<(K, V::Owned)> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<(K, V::Owned)>, value: V::Of<'_>) {
        Aggregate::<V>::update(&self.first, state, value);
    }

    fn finish(&self, state: Vec<(K, V::Owned)>) -> Option<V::Owned> {
        state.into_iter().nth(self.n).map(|(_, value)| value)
    }

    fn empty(&self) -> Option<Option<V::Owned>> {
        Some(None)
    }

    fn name(&self) -> String {
        format!("nth_by_key {}", self.n)
    }
}

#[diagnostic::do_not_recommend]
impl<V, F, K> AggregateRef<V> for NthByKey<F, K>
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<(K, V::Owned)>, value: &V::Of<'_>) {
        AggregateRef::<V>::update_ref(&self.first, state, value);
    }
}

impl<V, F, K> Combine<V> for NthByKey<F, K>
where
    V: Portable + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<(K, V::Owned)>, other: Vec<(K, V::Owned)>) {
        Combine::<V>::combine(&self.first, state, other);
    }
}
