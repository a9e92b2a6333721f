//! The one value that is least, greatest, first or last by a key.

use super::better;
use super::{Aggregate, Combine};
use crate::data::Data;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// The value with the least of the keys that the closure makes of them.
///
/// Of several with that key, it is not defined which: put what decides into the key. A key that is a float
/// and no number gives way to all others. Memory: one value with its key. See [`min`](super::min) for the
/// least key alone, and [`bottom_by`](super::bottom_by) for several values.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::min_by;
///
/// let env = Environment::new();
/// let out = env.iter([(1, 7.5), (2, 3.5), (3, 9.0)]).group_by(|_| ()).aggregate(min_by(|trade: &(i32, f64)| trade.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), (2, 3.5))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn min_by<F, K>(key: F) -> Pick<F, K> {
    Pick { key, wanted: Ordering::Less, types: PhantomData }
}

/// The value with the greatest of the keys that the closure makes of them. See [`min_by`], its mirror
/// image, and [`top_by`](super::top_by) for several values.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::max_by;
///
/// let env = Environment::new();
/// let out = env.iter([(1, 7.5), (2, 3.5), (3, 9.0)]).group_by(|_| ()).aggregate(max_by(|trade: &(i32, f64)| trade.1));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), (3, 9.0))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn max_by<F, K>(key: F) -> Pick<F, K> {
    Pick { key, wanted: Ordering::Greater, types: PhantomData }
}

/// The first value, by the time that the closure says: values are taken in by many tasks, so that the
/// order of their arrival says nothing.
///
/// Of several at that time, it is not defined which: put what decides into what the closure gives. It is
/// [`min_by`], by the name under which one looks for it.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::first_by;
///
/// let env = Environment::new();
/// let out = env.iter([(20, 'b'), (10, 'a'), (30, 'c')]).group_by(|_| ()).aggregate(first_by(|r: &(i32, char)| r.0));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), (10, 'a'))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn first_by<F, K>(time: F) -> Pick<F, K> {
    min_by(time)
}

/// The last value, by the time that the closure says. See [`first_by`], its mirror image.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::last_by;
///
/// let env = Environment::new();
/// let out = env.iter([(20, 'b'), (30, 'c'), (10, 'a')]).group_by(|_| ()).aggregate(last_by(|r: &(i32, char)| r.0));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), (30, 'c'))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn last_by<F, K>(time: F) -> Pick<F, K> {
    max_by(time)
}

/// The value whose key is least or greatest: [`min_by`], [`max_by`], [`first_by`] and [`last_by`].
pub struct Pick<F, K> {
    key: F,
    wanted: Ordering,
    types: PhantomData<fn() -> K>,
}

impl<V, F, K> Aggregate<V> for Pick<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    type State = Option<(K, V)>;
    type Output = V;

    #[inline(always)]
    fn start(&self) -> Option<(K, V)> {
        None
    }

    #[inline(always)]
    fn update(&self, state: &mut Option<(K, V)>, value: V) {
        let key = (self.key)(&value);
        if state.as_ref().is_none_or(|(old, _)| better(&key, old, self.wanted)) {
            *state = Some((key, value));
        }
    }

    /// Clones those values alone that are better than all before them.
    #[inline(always)]
    fn update_shared(&self, state: &mut Option<(K, V)>, value: &V)
    where
        V: Clone,
    {
        let key = (self.key)(value);
        if state.as_ref().is_none_or(|(old, _)| better(&key, old, self.wanted)) {
            *state = Some((key, value.clone()));
        }
    }

    fn finish(&self, state: Option<(K, V)>) -> V {
        state.expect("a key is there because a value came with it").1
    }
}

impl<V, F, K> Combine<V> for Pick<F, K>
where
    V: Data,
    F: Fn(&V) -> K + Send + Sync + 'static,
    K: Data + PartialOrd,
{
    #[inline(always)]
    fn combine(&self, state: &mut Option<(K, V)>, other: Option<(K, V)>) {
        if let Some((key, value)) = other
            && state.as_ref().is_none_or(|(old, _)| better(&key, old, self.wanted))
        {
            *state = Some((key, value));
        }
    }
}
