//! The greatest few, the least few, and the one at a place between them.

use super::better;
use super::{Aggregate, Combine};
use crate::data::{Data, Record};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// The `count` greatest of what the closure makes of the values, the greatest first; all of them, where
/// there are fewer.
///
/// Equal ones all count. Floats that are no numbers come after all others. Memory: `count` a key; time: a
/// comparison a value, and a search and a move of up to `count` for one that is kept, so that it is meant
/// for tens or hundreds. See [`top_by`] for whole values.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::top;
///
/// let env = Environment::new();
/// let out = env.iter([3, 1, 4, 1, 5]).group_by(|_| ()).aggregate(top(2, |n: i32| n));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), vec![5, 4])]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn top<F, N>(count: usize, of: F) -> Top<F, N> {
    Top { of, ranking: Ranking { count, wanted: Ordering::Greater }, number: PhantomData }
}

/// The `count` least of what the closure makes of the values, the least first. See [`top`], its mirror
/// image.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::bottom;
///
/// let env = Environment::new();
/// let out = env.iter([3, 1, 4, 1, 5]).group_by(|_| ()).aggregate(bottom(3, |n: i32| n));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), vec![1, 1, 3])]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn bottom<F, N>(count: usize, of: F) -> Top<F, N> {
    Top { of, ranking: Ranking { count, wanted: Ordering::Less }, number: PhantomData }
}

/// The `count` values with the greatest of the keys that the closure makes of them, the greatest first.
///
/// Of values with the same key, it is not defined which are kept, nor in which order: put what decides into
/// the key. See [`top`] for the cost, and for keys alone.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::top_by;
///
/// let env = Environment::new();
/// let out = env.iter([('a', 3), ('b', 1), ('c', 4)]).group_by(|_| ()).aggregate(top_by(2, |r: &(char, i32)| r.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), vec![('c', 4), ('a', 3)])]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn top_by<F, K>(count: usize, key: F) -> TopBy<F, K> {
    TopBy { key, ranking: Ranking { count, wanted: Ordering::Greater }, types: PhantomData }
}

/// The `count` values with the least of the keys that the closure makes of them, the least first. See
/// [`top_by`], its mirror image.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::bottom_by;
///
/// let env = Environment::new();
/// let out = env.iter([('a', 3), ('b', 1), ('c', 4)]).group_by(|_| ()).aggregate(bottom_by(2, |r: &(char, i32)| r.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), vec![('b', 1), ('a', 3)])]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn bottom_by<F, K>(count: usize, key: F) -> TopBy<F, K> {
    TopBy { key, ranking: Ranking { count, wanted: Ordering::Less }, types: PhantomData }
}

/// The value that has `n` before it, by the time that the closure says; `None` where there are no more
/// than `n`.
///
/// Of values at the same time, it is not defined which comes first. Memory: `n + 1` values a key.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::nth_by;
///
/// let env = Environment::new();
/// let out = env.iter([(30, 'c'), (10, 'a'), (20, 'b')]).group_by(|_| ()).aggregate(nth_by(1, |r: &(i32, char)| r.0));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), Some((20, 'b')))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn nth_by<F, K>(n: usize, time: F) -> Nth<F, K> {
    Nth { n, first: bottom_by(n.saturating_add(1), time) }
}

/// How many are kept, and which.
#[derive(Clone, Copy)]
struct Ranking {
    count: usize,
    wanted: Ordering,
}

impl Ranking {
    /// Puts one among the best, which are in order; answers whether it was one.
    #[inline]
    fn keep<T, K: PartialOrd>(self, best: &mut Vec<T>, new: T, key: impl Fn(&T) -> &K) -> bool {
        if !self.wants(best, key(&new), &key) {
            return false;
        }
        // After those that are as good: it has to be better to go before.
        let at = best.partition_point(|there| !better(key(&new), key(there), self.wanted));
        best.truncate(self.count - 1);
        best.insert(at, new);
        true
    }

    #[inline(always)]
    fn wants<T, K: PartialOrd>(self, best: &[T], new: &K, key: impl Fn(&T) -> &K) -> bool {
        best.len() < self.count
            || best.last().is_some_and(|worst| better(new, key(worst), self.wanted))
    }

    /// Puts the best of others among these.
    fn merge<T, K: PartialOrd>(self, best: &mut Vec<T>, others: Vec<T>, key: impl Fn(&T) -> &K) {
        for other in others {
            // Those behind it are no better.
            if !self.keep(best, other, &key) {
                return;
            }
        }
    }
}

/// The greatest or least few of what a closure makes of the values: [`top`] and [`bottom`].
pub struct Top<F, N> {
    of: F,
    ranking: Ranking,
    number: PhantomData<fn() -> N>,
}

impl<V, F, N> Aggregate<V> for Top<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
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
        self.ranking.keep(state, (self.of)(value), |number| number);
    }

    #[inline(always)]
    fn finish(&self, state: Vec<N>) -> Vec<N> {
        state
    }
}

impl<V, F, N> Combine<V> for Top<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<N>, other: Vec<N>) {
        self.ranking.merge(state, other, |number| number);
    }
}

/// The values with the greatest or least few keys: [`top_by`] and [`bottom_by`].
pub struct TopBy<F, K> {
    key: F,
    ranking: Ranking,
    types: PhantomData<fn() -> K>,
}

impl<V, F, K> Aggregate<V> for TopBy<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Vec<(K, V)>;
    type Output = Vec<V>;

    #[inline(always)]
    fn start(&self) -> Vec<(K, V)> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<(K, V)>, value: V) {
        self.ranking.keep(state, ((self.key)(&value), value), |(key, _)| key);
    }

    /// Clones those values alone that are kept.
    #[inline(always)]
    fn update_shared(&self, state: &mut Vec<(K, V)>, value: &V)
    where
        V: Clone,
    {
        let key = (self.key)(value);
        if self.ranking.wants(state, &key, |(key, _)| key) {
            self.ranking.keep(state, (key, value.clone()), |(key, _)| key);
        }
    }

    fn finish(&self, state: Vec<(K, V)>) -> Vec<V> {
        state.into_iter().map(|(_, value)| value).collect()
    }
}

impl<V, F, K> Combine<V> for TopBy<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<(K, V)>, other: Vec<(K, V)>) {
        self.ranking.merge(state, other, |(key, _)| key);
    }
}

/// The value at a place in time: [`nth_by`].
pub struct Nth<F, K> {
    n: usize,
    first: TopBy<F, K>,
}

impl<V, F, K> Aggregate<V> for Nth<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Vec<(K, V)>;
    type Output = Option<V>;

    #[inline(always)]
    fn start(&self) -> Vec<(K, V)> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<(K, V)>, value: V) {
        self.first.update(state, value);
    }

    #[inline(always)]
    fn update_shared(&self, state: &mut Vec<(K, V)>, value: &V)
    where
        V: Clone,
    {
        self.first.update_shared(state, value);
    }

    fn finish(&self, state: Vec<(K, V)>) -> Option<V> {
        state.into_iter().nth(self.n).map(|(_, value)| value)
    }
}

impl<V, F, K> Combine<V> for Nth<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    fn combine(&self, state: &mut Vec<(K, V)>, other: Vec<(K, V)>) {
        self.first.combine(state, other);
    }
}
