//! What is computed of the records of a key.

use crate::data::{Data, Record};

/// Something computed of many values, one value at a time.
///
/// The sibling [`Combine`] is for those of which parts can be computed apart; where it can be
/// implemented it should be, since then only partial results travel between tasks.
pub trait Aggregate<V: Record + ?Sized>: Send + Sync + 'static {
    /// What is remembered between values.
    type State: Data;
    /// What comes out at the end.
    type Output: Data;

    /// The state before the first value.
    fn start(&self) -> Self::State;

    /// Takes a value in.
    fn update(&self, state: &mut Self::State, value: V::Of<'_>);

    /// The result.
    fn finish(&self, state: Self::State) -> Self::Output;
}

/// An [`Aggregate`] of which parts can be computed apart and put together in any order: the
/// operation must be associative and commutative.
pub trait Combine<V: Record + ?Sized>: Aggregate<V> {
    /// Puts another part into this one.
    fn combine(&self, state: &mut Self::State, other: Self::State);

    /// Takes a part out again that was put in, so that what remains is exactly what it would be
    /// without it, if there is a way. Windows that slide use it; without it, they keep what they need to
    /// put the rest together again.
    const INVERSE: Option<fn(&Self, &mut Self::State, &Self::State)> = None;
}
