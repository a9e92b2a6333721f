//! Which of two is wanted, so that it does not matter in which order they are asked for.

use std::cmp::Ordering;

/// Whether `new` is to be had rather than `old`: `new` stands to it as wanted. What compares with
/// nothing, as a float that is no number, gives way to all else, whichever came first.
#[inline(always)]
pub(in crate::operators) fn better<K: PartialOrd>(new: &K, old: &K, wanted: Ordering) -> bool {
    match new.partial_cmp(old) {
        Some(order) => order == wanted,
        None => old.partial_cmp(old).is_none() && new.partial_cmp(new).is_some(),
    }
}
