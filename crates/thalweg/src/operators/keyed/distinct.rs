//! Record types that can be compared as a whole, and the key that is the whole record.

use super::KeyBy;
use crate::data::{Data, Key, Wire};
use std::borrow::Borrow;
use std::fmt::Debug;

/// Record types that can be compared as a whole: every [`Data`] type that is `Eq + Clone + Debug`, and `str` and
/// `[u8]`.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` cannot be told apart as a whole",
    label = "records are compared, copied and sent to other tasks, and this type lacks some of that",
    note = "for a type of your own, add `#[derive(thalweg::Data, PartialEq, Eq, Clone, Debug)]`",
    note = "floats are not compared, as NaN is not equal to itself: `map` them with `to_bits` first"
)]
pub trait Distinct: Key<Owned: Borrow<Self>> + Wire {
    /// The record, by reference.
    fn whole<'k>(item: &'k Self::Of<'_>) -> &'k Self;
}

#[diagnostic::do_not_recommend]
impl<T: Data + Eq + Clone + Debug> Distinct for T {
    #[inline(always)]
    fn whole(item: &T) -> &T {
        item
    }
}

#[diagnostic::do_not_recommend]
impl Distinct for str {
    #[inline(always)]
    fn whole<'k>(item: &'k &str) -> &'k str {
        item
    }
}

#[diagnostic::do_not_recommend]
impl Distinct for [u8] {
    #[inline(always)]
    fn whole<'k>(item: &'k &[u8]) -> &'k [u8] {
        item
    }
}

/// The key is the whole record.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl<I: Distinct + ?Sized> KeyBy<I> for Whole {
    type Key = I;
    type Value = I;

    #[inline(always)]
    fn key<'k>(&self, item: &'k I::Of<'_>) -> &'k I {
        I::whole(item)
    }

    #[inline(always)]
    fn value<'a>(&self, item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}
