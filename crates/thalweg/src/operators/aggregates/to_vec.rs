//! All values.

use super::{Aggregate, Combine};
use crate::data::Portable;

/// All values, in no defined order; borrowed ones are copied.
///
/// Memory: all of them, which makes it the most costly of the aggregates: prefer one that says what is
/// wanted of them.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::to_vec;
///
/// let env = Environment::new();
/// let out = env.iter([3, 1, 2]).group_by(|_| ()).aggregate(to_vec()).collect::<Vec<_>>();
/// env.run()?;
/// let ((), mut all) = out.take()?.remove(0);
/// all.sort();
/// assert_eq!(all, [1, 2, 3]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn to_vec() -> ToVec {
    ToVec
}

/// All values: [`to_vec`].
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
}

impl<V: Portable + ?Sized> Combine<V> for ToVec {
    fn combine(&self, state: &mut Vec<V::Owned>, mut other: Vec<V::Owned>) {
        if other.len() > state.len() {
            std::mem::swap(state, &mut other);
        }
        state.append(&mut other);
    }
}
