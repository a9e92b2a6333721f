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

    /// Takes a value in that other aggregates take in too, as a tuple of them does: a clone of it, unless
    /// implemented otherwise. Implement it where less will do.
    #[inline(always)]
    fn update_shared(&self, state: &mut Self::State, value: &V::Of<'_>)
    where
        for<'a> V::Of<'a>: Clone,
    {
        self.update(state, value.clone());
    }

    /// The result.
    fn finish(&self, state: Self::State) -> Self::Output;

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

/// An [`Aggregate`] of which parts can be computed apart and put together in any order: the
/// operation must be associative and commutative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no aggregate of values of `{V}` of which parts can be put together",
    label = "needs an aggregate",
    note = "those that there are, as `count()` and `max(…)`, are in `thalweg::operators::aggregates`; a \
            tuple of up to eight is one too",
    note = "with closures of your own, use `fold_assoc` or `reduce`"
)]
pub trait Combine<V: Record + ?Sized>: Aggregate<V> {
    /// Puts another part into this one.
    fn combine(&self, state: &mut Self::State, other: Self::State);

    /// Takes a part out again that was put in, so that what remains is exactly what it would be
    /// without it, if there is a way. Windows that slide use it; without it, they keep what they need to
    /// put the rest together again.
    const INVERSE: Option<fn(&Self, &mut Self::State, &Self::State)> = None;
}
