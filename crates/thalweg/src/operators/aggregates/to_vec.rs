//! All values, in a list.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::Portable;

impl<V: Portable + ?Sized> Aggregates<V> {
    /// All values, in no defined order, as they are aggregated in parts; borrowed ones are copied. For their order of
    /// arrival, windows that see values in order have a [`to_vec`](crate::operators::window::Windowed::to_vec) of
    /// their own, and a keyed stream [`fold`](crate::KeyedStream::fold).
    ///
    /// Memory: all values, which makes it the most costly of the aggregates: prefer one that computes what is needed
    /// of them.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 2]).aggregate(|a| a.to_vec()).collect_one();
    /// env.run()?;
    /// let mut all = out.take()?.unwrap_or_default();
    /// all.sort();
    /// assert_eq!(all, [1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn to_vec(self) -> ToVec {
        ToVec
    }
}

/// All values, in a list: [`Aggregates::to_vec`].
#[derive(Clone, Copy, Debug)]
pub struct ToVec;

impl<V: Portable + ?Sized> Aggregate<V> for ToVec {
    type State = Vec<V::Owned>;
    type Output = Vec<V::Owned>;

    #[inline(always)]
    fn start(&self) -> Vec<V::Owned> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<V::Owned>, value: V::Of<'_>) {
        state.push(V::to_owned(value));
    }

    #[inline(always)]
    fn finish(&self, state: Vec<V::Owned>) -> Vec<V::Owned> {
        state
    }

    fn empty(&self) -> Option<Vec<V::Owned>> {
        Some(Vec::new())
    }
}

#[diagnostic::do_not_recommend]
impl<V> AggregateRef<V> for ToVec
where
    V: Portable + ?Sized,
    for<'a> V::Of<'a>: Clone,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<V::Owned>, value: &V::Of<'_>) {
        state.push(V::to_owned(value.clone()));
    }
}

impl<V: Portable + ?Sized> Combine<V> for ToVec {
    fn combine(&self, state: &mut Vec<V::Owned>, mut other: Vec<V::Owned>) {
        if other.len() > state.len() {
            std::mem::swap(state, &mut other);
        }
        state.append(&mut other);
    }
}
