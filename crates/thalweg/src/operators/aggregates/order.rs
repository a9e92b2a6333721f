//! The order by which the better of two values is chosen, so that the result does not depend on the order of arrival.

use std::cmp::Ordering;

/// Whether `new` is better than `old`, that is, compares to it as `wanted`. A value that does not compare with
/// itself, such as NaN, is worse than all others, whichever came first.
#[inline(always)]
pub(in crate::operators) fn better<K: PartialOrd>(new: &K, old: &K, wanted: Ordering) -> bool {
    match new.partial_cmp(old) {
        Some(order) => order == wanted,
        None => old.partial_cmp(old).is_none() && new.partial_cmp(new).is_some(),
    }
}
