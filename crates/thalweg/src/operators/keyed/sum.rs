//! Sums that numbers can be taken out of again.

use crate::data::{Data, Record};
use crate::operators::keyed::{Aggregate, Combine};
use std::marker::PhantomData;
use std::time::Duration;

/// What sums over windows are made of: the integers, the floats, and `Duration`.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` cannot be summed up over windows",
    label = "needs a closure that gives numbers",
    note = "make a number of each value in the closure of `sum`; \
            values of other types are added with `reduce_assoc` or `fold_assoc`"
)]
pub trait Summand: Data + Copy + Default {
    /// Adds another one. Overflow behaves as that of `+`.
    fn add(&mut self, other: Self);

    /// Takes away what was added, where that gives exactly what there was before.
    const SUBTRACT: Option<fn(&mut Self, &Self)>;
}

macro_rules! exact {
    ($($number:ty),*) => {$(
        impl Summand for $number {
            #[inline(always)]
            fn add(&mut self, other: Self) {
                *self += other;
            }

            // Without checks: where `+` did not overflow on the way here, this cannot either.
            const SUBTRACT: Option<fn(&mut Self, &Self)> =
                Some(|sum, other| *sum = sum.wrapping_sub(*other));
        }
    )*};
}

exact!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

macro_rules! inexact {
    ($($number:ty),*) => {$(
        impl Summand for $number {
            #[inline(always)]
            fn add(&mut self, other: Self) {
                *self += other;
            }

            const SUBTRACT: Option<fn(&mut Self, &Self)> = None;
        }
    )*};
}

inexact!(f32, f64);

impl Summand for Duration {
    #[inline(always)]
    fn add(&mut self, other: Self) {
        *self += other;
    }

    const SUBTRACT: Option<fn(&mut Self, &Self)> =
        Some(|sum, other| *sum = sum.saturating_sub(*other));
}

/// The sum of what a closure makes of the values of a window.
pub struct Total<F, N> {
    of: F,
    number: PhantomData<fn() -> N>,
}

impl<F, N> Total<F, N> {
    pub(in crate::operators) fn new(of: F) -> Self {
        Self { of, number: PhantomData }
    }
}

impl<V, F, N> Aggregate<V> for Total<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
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
        state.add((self.of)(value));
    }

    #[inline(always)]
    fn finish(&self, state: N) -> N {
        state
    }
}

impl<V, F, N> Combine<V> for Total<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
    N: Summand,
{
    #[inline(always)]
    fn combine(&self, state: &mut N, other: N) {
        state.add(other);
    }

    const INVERSE: Option<fn(&Self, &mut N, &N)> = match N::SUBTRACT {
        Some(_) => Some(|_, state, other| {
            if let Some(subtract) = N::SUBTRACT {
                subtract(state, other);
            }
        }),
        None => None,
    };
}
