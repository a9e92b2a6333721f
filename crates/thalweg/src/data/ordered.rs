//! The bound for records that are compared by their own order.

/// A type with a total order of its own: every `Ord` type is one, and no other.
///
/// It stands in the bounds of [`sorted`](crate::Stream::sorted) and similar methods in place of `Ord`, so that the
/// compiler can suggest what to do about a type without a total order, such as `f64`.
///
/// ```
/// use thalweg::data::Ordered;
///
/// fn greatest<T: Ordered>(values: Vec<T>) -> Option<T> {
///     values.into_iter().max()
/// }
/// assert_eq!(greatest(vec![1, 3, 2]), Some(3));
/// ```
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` have no order",
    label = "this operator compares records, and they do not say how",
    note = "for a type of your own, derive `PartialEq`, `Eq`, `PartialOrd` and `Ord`",
    note = "for floats, say how: `sorted_by(f64::total_cmp)`, and so `top_by`, `max_by` and `min_by`"
)]
pub trait Ordered: Ord {}

#[diagnostic::do_not_recommend]
impl<T: Ord> Ordered for T {}
