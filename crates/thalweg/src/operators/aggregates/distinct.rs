//! The exact number of distinct values.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::{Data, Record, hash_bytes, mix};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;

impl<V: Record + ?Sized> Aggregates<V> {
    /// The exact number of distinct results of the closure over the values.
    ///
    /// Memory: every distinct result, for each key, and in windows for each open slice. Where that is too much,
    /// [`approx_count_distinct`](Self::approx_count_distinct) needs a few kilobytes, however many there are.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 4, 1, 3]).aggregate(|a| a.count_distinct(|n| *n)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(3));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn count_distinct<N, F>(self, of: F) -> CountDistinct<F, N>
    where
        N: Data + Eq,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        CountDistinct { of, types: PhantomData }
    }
}

/// The exact number of distinct values: [`Aggregates::count_distinct`].
pub struct CountDistinct<F, N> {
    of: F,
    types: PhantomData<fn() -> N>,
}

/// The distinct values seen.
type Seen<N> = HashSet<ByKeyHash<N>, BuildHasherDefault<KeyHasher>>;

impl<V, F, N> Aggregate<V> for CountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Eq,
{
    type State = Seen<N>;
    type Output = u64;

    #[inline(always)]
    fn start(&self) -> Seen<N> {
        Seen::default()
    }

    #[inline(always)]
    fn update(&self, state: &mut Seen<N>, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    #[inline(always)]
    fn finish(&self, state: Seen<N>) -> u64 {
        state.len() as u64
    }

    fn empty(&self) -> Option<u64> {
        Some(0)
    }
}

impl<V, F, N> AggregateRef<V> for CountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Eq,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Seen<N>, value: &V::Of<'_>) {
        state.insert(ByKeyHash((self.of)(value)));
    }
}

impl<V, F, N> Combine<V> for CountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Eq,
{
    fn combine(&self, state: &mut Seen<N>, mut other: Seen<N>) {
        if other.len() > state.len() {
            std::mem::swap(state, &mut other);
        }
        state.extend(other);
    }
}

/// A value that is hashed as keys are, so that its type need not implement `Hash`.
#[derive(Clone, PartialEq, Eq, Data)]
pub struct ByKeyHash<N>(N);

impl<N: Data> Hash for ByKeyHash<N> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.key_hash());
    }
}

/// A hasher that returns the hash it is given.
#[derive(Clone, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    #[inline(always)]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0, hash_bytes(bytes));
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}
