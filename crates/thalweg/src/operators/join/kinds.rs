//! The kinds of join: which records of two streams make a result, and what it looks like.

use std::marker::PhantomData;

/// A kind of join of a left stream with values of `L` and a right one with values of `R`.
///
/// A program meets it only in the bounds of [`JoinWith`](super::JoinWith).
pub trait Kind<L, R>: 'static {
    /// The result, beside the key.
    type Out: 'static;

    /// The name in plans.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Whether every pair of a left and a right record makes a result.
    #[doc(hidden)]
    const PAIRS: bool = false;
    /// Whether a left record with any partner makes one result.
    #[doc(hidden)]
    const LEFT_MET: bool = false;
    /// Whether a left record without a partner makes a result.
    #[doc(hidden)]
    const LEFT_ALONE: bool = false;
    /// Whether a right record without a partner makes a result.
    #[doc(hidden)]
    const RIGHT_ALONE: bool = false;

    /// The result for these records; `None` where the kind makes none.
    #[doc(hidden)]
    fn row(left: Option<&L>, right: Option<&R>) -> Option<Self::Out>;
}

/// Pairs.
pub enum Inner {}
/// Pairs, and left records without a partner.
pub enum Left {}
/// Pairs, and right records without a partner.
pub enum Right {}
/// Pairs, and the records without a partner on either side.
pub enum Full {}
/// Left records with a partner.
pub enum Semi {}
/// Left records without a partner.
pub enum Anti {}

impl<L: Clone + 'static, R: Clone + 'static> Kind<L, R> for Inner {
    type Out = (L, R);
    const NAME: &'static str = "inner";
    const PAIRS: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, right: Option<&R>) -> Option<(L, R)> {
        Some((left?.clone(), right?.clone()))
    }
}

impl<L: Clone + 'static, R: Clone + 'static> Kind<L, R> for Left {
    type Out = (L, Option<R>);
    const NAME: &'static str = "left";
    const PAIRS: bool = true;
    const LEFT_ALONE: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, right: Option<&R>) -> Option<Self::Out> {
        Some((left?.clone(), right.cloned()))
    }
}

impl<L: Clone + 'static, R: Clone + 'static> Kind<L, R> for Right {
    type Out = (Option<L>, R);
    const NAME: &'static str = "right";
    const PAIRS: bool = true;
    const RIGHT_ALONE: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, right: Option<&R>) -> Option<Self::Out> {
        Some((left.cloned(), right?.clone()))
    }
}

impl<L: Clone + 'static, R: Clone + 'static> Kind<L, R> for Full {
    type Out = (Option<L>, Option<R>);
    const NAME: &'static str = "full outer";
    const PAIRS: bool = true;
    const LEFT_ALONE: bool = true;
    const RIGHT_ALONE: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, right: Option<&R>) -> Option<Self::Out> {
        Some((left.cloned(), right.cloned()))
    }
}

impl<L: Clone + 'static, R: 'static> Kind<L, R> for Semi {
    type Out = L;
    const NAME: &'static str = "semi";
    const LEFT_MET: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, _: Option<&R>) -> Option<L> {
        left.cloned()
    }
}

impl<L: Clone + 'static, R: 'static> Kind<L, R> for Anti {
    type Out = L;
    const NAME: &'static str = "anti";
    const LEFT_ALONE: bool = true;

    #[inline(always)]
    fn row(left: Option<&L>, _: Option<&R>) -> Option<L> {
        left.cloned()
    }
}

/// A kind as a hash join sees it: one side, the build side, is kept, and the records of the other, the probe
/// side, are looked up in it.
pub trait Shape<B, P>: 'static {
    /// The result, beside the key.
    type Out: 'static;

    /// Whether every pair makes a result.
    const PAIRS: bool;
    /// Whether a kept record with any partner makes a result.
    const KEPT_MET: bool;
    /// Whether a kept record without a partner makes a result.
    const KEPT_ALONE: bool;
    /// Whether a record that is looked up makes a result if it has any partner.
    const PROBE_MET: bool;
    /// Whether a record that is looked up makes a result if it has no partner.
    const PROBE_ALONE: bool;

    /// The result for these records.
    fn row(kept: Option<&B>, probe: Option<&P>) -> Option<Self::Out>;
}

/// The right side is the build side.
pub struct KeepRight<X>(PhantomData<X>);
/// The left side is the build side.
pub struct KeepLeft<X>(PhantomData<X>);

impl<L: 'static, R: 'static, X: Kind<L, R>> Shape<R, L> for KeepRight<X> {
    type Out = X::Out;
    const PAIRS: bool = X::PAIRS;
    const KEPT_MET: bool = false;
    const KEPT_ALONE: bool = X::RIGHT_ALONE;
    const PROBE_MET: bool = X::LEFT_MET;
    const PROBE_ALONE: bool = X::LEFT_ALONE;

    #[inline(always)]
    fn row(kept: Option<&R>, probe: Option<&L>) -> Option<X::Out> {
        X::row(probe, kept)
    }
}

impl<L: 'static, R: 'static, X: Kind<L, R>> Shape<L, R> for KeepLeft<X> {
    type Out = X::Out;
    const PAIRS: bool = X::PAIRS;
    const KEPT_MET: bool = X::LEFT_MET;
    const KEPT_ALONE: bool = X::LEFT_ALONE;
    const PROBE_MET: bool = false;
    const PROBE_ALONE: bool = X::RIGHT_ALONE;

    #[inline(always)]
    fn row(kept: Option<&L>, probe: Option<&R>) -> Option<X::Out> {
        X::row(kept, probe)
    }
}
