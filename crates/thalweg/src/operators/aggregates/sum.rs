//! Sums of numbers; a sum that does not fit its type is an error.

use super::{Aggregate, AggregateRef, Combine};
use crate::data::{Data, Record};
use crate::flow::refuse;
use std::marker::PhantomData;
use std::time::Duration;

/// Types that can be summed: the integers, the floats, and `Duration`. The sum of no values is the default.
///
/// For a type of your own, implement its sum:
///
/// ```
/// use thalweg::{Data, Environment, operators::Summand};
///
/// #[derive(Clone, Copy, Debug, Default, Data, PartialEq)]
/// struct Cents(u32);
///
/// impl Summand for Cents {
///     fn checked_sum(self, other: Self) -> Option<Self> {
///         self.0.checked_add(other.0).map(Self)
///     }
/// }
///
/// let env = Environment::new();
/// let out = env.iter([3, 4]).group_by(|_| ()).sum(|n| Cents(*n)).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), Cents(7))]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` cannot be summed up",
    label = "needs a closure that gives numbers",
    note = "the closure sees a reference: `sum(|n| *n)` copies the number",
    note = "make a number of each value in the closure of `sum`; \
            values of other types are added with `reduce` or `fold_assoc`"
)]
pub trait Summand: Data + Copy + Default {
    /// The sum, or `None` where it does not fit the type.
    fn checked_sum(self, other: Self) -> Option<Self>;

    /// The inverse of the sum, if there is an exact one: subtracts a part from a sum, so that the result is exactly
    /// what it would be without the part, or `None` where that does not fit the type. Sliding windows use it.
    const CHECKED_DIFFERENCE: Option<fn(Self, Self) -> Option<Self>> = None;
}

macro_rules! exact {
    ($($number:ty)*) => {$(
        impl Summand for $number {
            #[inline(always)]
            fn checked_sum(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            const CHECKED_DIFFERENCE: Option<fn(Self, Self) -> Option<Self>> =
                Some(<$number>::checked_sub);
        }
    )*};
}

exact!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize Duration);

macro_rules! inexact {
    ($($number:ty)*) => {$(
        impl Summand for $number {
            #[inline(always)]
            fn checked_sum(self, other: Self) -> Option<Self> {
                Some(self + other)
            }
        }
    )*};
}

inexact!(f32 f64);

/// Numbers that can be averaged: the integers and floats of the language.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` have no mean",
    label = "needs a closure that gives numbers",
    note = "make a number of each value in the closure of `average`"
)]
pub trait Number: Summand + sealed::Sealed {
    /// The nearest float.
    fn to_f64(self) -> f64;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}

        impl Number for $number {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

/// The sum of what a closure returns for the values. A sum that does not fit its type fails the job.
pub struct Sum<F, N> {
    of: F,
    number: PhantomData<fn() -> N>,
}

impl<F, N> Sum<F, N> {
    pub(in crate::operators) fn new(of: F) -> Self {
        Self { of, number: PhantomData }
    }
}

#[inline(always)]
fn fitting<N>(sum: Option<N>) -> N {
    match sum {
        Some(sum) => sum,
        None => refuse(
            "the sum does not fit the type of its numbers: make a wider type of each, in the closure of `sum`",
        ),
    }
}

impl<V, F, N> Aggregate<V> for Sum<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Summand,
{
    type State = N;
    type Output = N;

    #[inline(always)]
    fn start(&self) -> N {
        N::default()
    }

    #[inline(always)]
    fn update(&self, state: &mut N, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    #[inline(always)]
    fn finish(&self, state: N) -> N {
        state
    }

    fn empty(&self) -> Option<N> {
        Some(N::default())
    }
}

impl<V, F, N> AggregateRef<V> for Sum<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Summand,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut N, value: &V::Of<'_>) {
        *state = fitting(state.checked_sum((self.of)(value)));
    }
}

impl<V, F, N> Combine<V> for Sum<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Summand,
{
    #[inline(always)]
    fn combine(&self, state: &mut N, other: N) {
        *state = fitting(state.checked_sum(other));
    }

    const INVERSE: Option<fn(&Self, &mut N, &N)> = match N::CHECKED_DIFFERENCE {
        Some(_) => Some(|_, state, other| {
            if let Some(difference) = N::CHECKED_DIFFERENCE {
                *state = fitting(difference(*state, *other));
            }
        }),
        None => None,
    };
}

#[cfg(test)]
mod tests;
