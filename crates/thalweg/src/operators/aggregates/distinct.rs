//! How many values differ, counted exactly.

use super::{Aggregate, Combine};
use crate::data::{Data, Record, hash_bytes, mix};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;

/// How many different ones there are among what the closure makes of the values.
///
/// Memory: every different one, for each key, and in windows for each open slice. Where that is too much,
/// [`approx_count_distinct`](super::approx_count_distinct) takes a few kilobytes however many there are.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::count_distinct;
///
/// let env = Environment::new();
/// let out = env.iter([3, 1, 4, 1, 3]).group_by(|_| ()).aggregate(count_distinct(|n: i32| n));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 3)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn count_distinct<F, N>(of: F) -> CountDistinct<F, N> {
    CountDistinct { of, types: PhantomData }
}

/// How many values differ: [`count_distinct`].
pub struct CountDistinct<F, N> {
    of: F,
    types: PhantomData<fn() -> N>,
}

/// What was seen.
type Seen<N> = HashSet<ByKeyHash<N>, BuildHasherDefault<KeyHasher>>;

impl<V, F, N> Aggregate<V> for CountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
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
        state.insert(ByKeyHash((self.of)(value)));
    }

    #[inline(always)]
    fn finish(&self, state: Seen<N>) -> u64 {
        state.len() as u64
    }
}

impl<V, F, N> Combine<V> for CountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Eq,
{
    fn combine(&self, state: &mut Seen<N>, mut other: Seen<N>) {
        if other.len() > state.len() {
            std::mem::swap(state, &mut other);
        }
        state.extend(other);
    }
}

/// A value hashed as keys are, so that it need not have a hash of the standard library's kind as well.
#[derive(Clone, PartialEq, Eq, Data)]
pub struct ByKeyHash<N>(N);

impl<N: Data> Hash for ByKeyHash<N> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.key_hash());
    }
}

/// Hands a hash on.
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
