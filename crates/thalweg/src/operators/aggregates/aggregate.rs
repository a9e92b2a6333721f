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

    /// The result of no values at all, if there is one, as 0 is for a count: what a
    /// [`Stream`](crate::Stream) without records gives. A key or a window has at least one value.
    fn empty(&self) -> Option<Self::Output> {
        None
    }

    /// What is wrong with the aggregate, if anything is: a job with one that answers an error is
    /// refused at its start, with this message.
    ///
    /// # Errors
    ///
    /// What is wrong, as a sentence without an end.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An [`Aggregate`] that takes in values by reference, so that others can take in the same: all members of a
/// tuple but the last must be one. Those that keep values, as `to_vec` does, clone what they keep.
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps values of `{V}`, and others of the tuple need them too",
    label = "needs values that can be cloned",
    note = "add `#[derive(Clone)]` to the type of the values, or put this aggregate last"
)]
pub trait AggregateRef<V: Record + ?Sized>: Aggregate<V> {
    /// Takes a value in.
    fn update_ref(&self, state: &mut Self::State, value: &V::Of<'_>);
}

/// An [`Aggregate`] of which parts can be computed apart and put together in any order: the
/// operation must be associative and commutative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no aggregate of values of `{V}` of which parts can be put together",
    label = "the closure must give an aggregate",
    note = "those that there are, are methods of its parameter: `aggregate(|a| a.count())`; a tuple of up to \
            eight is one too: `aggregate(|a| (a.count(), a.sum(|order| order.amount)))`",
    note = "with closures of your own, use `a.fold_assoc(…)` or `a.reduce(…)`"
)]
pub trait Combine<V: Record + ?Sized>: Aggregate<V> {
    /// Puts another part into this one.
    fn combine(&self, state: &mut Self::State, other: Self::State);

    /// Takes a part out again that was put in, so that what remains is exactly what it would be
    /// without it, if there is a way. Windows that slide use it; without it, they keep what they need to
    /// put the rest together again.
    #[allow(clippy::type_complexity, reason = "who implements it writes this type")]
    const INVERSE: Option<fn(&Self, &mut Self::State, &Self::State)> = None;
}
