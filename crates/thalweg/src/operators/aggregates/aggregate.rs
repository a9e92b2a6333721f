//! The traits of aggregates.

use crate::data::{Data, Record};
use crate::plan::{Details, Origin};

/// A result computed from many values, one value at a time.
///
/// Implement its sibling [`Combine`] too if partial results can be computed separately and combined: then only
/// partial results are sent between tasks.
pub trait Aggregate<V: Record + ?Sized>: Send + Sync + 'static {
    /// The accumulator.
    type State: Data;
    /// The result.
    type Output: Data;

    /// The accumulator before the first value.
    fn start(&self) -> Self::State;

    /// Adds a value to the accumulator.
    fn update(&self, state: &mut Self::State, value: V::Of<'_>);

    /// The result.
    fn finish(&self, state: Self::State) -> Self::Output;

    /// The result for no values at all, if there is one, such as 0 for a count. It is the result of a
    /// [`Stream`](crate::Stream) without records. A key or a window has at least one value.
    fn empty(&self) -> Option<Self::Output> {
        None
    }

    /// Checks the parameters of the aggregate. A job with an aggregate whose check fails is refused when it starts,
    /// with this message.
    ///
    /// # Errors
    ///
    /// What is wrong, as a sentence without its final full stop.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Names the aggregate in plans, and in checkpoints: a job does not go on with what an aggregate of another name has saved.
    /// Parameters that change what states mean belong to it. By default the name of the type, as in `count_if` for
    /// `CountIf`.
    fn name(&self) -> String {
        in_snake_case(short_type_name::<Self>())
    }
}

/// The name of a type without its path and its parameters.
pub(in crate::operators) fn short_type_name<T: ?Sized>() -> &'static str {
    let name = std::any::type_name::<T>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

fn in_snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// The aggregate as a property of its operator, unless the operator is named after it.
pub(in crate::operators) fn details<V: Record + ?Sized>(
    origin: Origin,
    aggregate: &impl Aggregate<V>,
) -> Details {
    let name = aggregate.name();
    match name == origin.kind {
        true => Details::none(),
        false => Details::of("aggregate", name),
    }
}

/// An [`Aggregate`] that receives values by reference, so that several can share them. All members of a tuple but the
/// last must implement it. Aggregates that keep values, such as `to_vec`, clone those they keep.
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps values of `{V}`, and others of the tuple need them too",
    label = "needs values that can be cloned",
    note = "add `#[derive(Clone)]` to the type of the values, or put this aggregate last"
)]
pub trait AggregateRef<V: Record + ?Sized>: Aggregate<V> {
    /// Adds a value to the accumulator.
    fn update_ref(&self, state: &mut Self::State, value: &V::Of<'_>);
}

/// An [`Aggregate`] whose partial results can be computed separately and combined in any order: the operation must be
/// associative and commutative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no aggregate of values of `{V}` of which parts can be put together",
    label = "the closure must give an aggregate",
    note = "those that there are, are methods of its parameter: `aggregate(|a| a.count())`; a tuple of up to \
            eight is one too: `aggregate(|a| (a.count(), a.sum(|order| order.amount)))`",
    note = "with closures of your own, use `a.fold_assoc(…)` or `a.reduce(…)`"
)]
pub trait Combine<V: Record + ?Sized>: Aggregate<V> {
    /// Combines another accumulator into this one.
    fn combine(&self, state: &mut Self::State, other: Self::State);

    /// The inverse of [`combine`](Self::combine), if there is an exact one: removes an accumulator that was combined
    /// into this one, so that the result is exactly what it would be without it. Sliding windows use it. Without it
    /// they keep the accumulators that are needed to combine the rest again.
    #[allow(clippy::type_complexity, reason = "an implementation writes this type")]
    const INVERSE: Option<fn(&Self, &mut Self::State, &Self::State)> = None;
}
