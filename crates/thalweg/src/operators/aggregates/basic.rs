//! The aggregates that are also methods of streams.

use super::{Aggregate, AggregateRef, Combine, Number, better};
use crate::data::{Data, Record};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// The number of values.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl<V: Record + ?Sized> Aggregate<V> for Count {
    type State = u64;
    type Output = u64;

    #[inline(always)]
    fn start(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn update(&self, state: &mut u64, _: V::Of<'_>) {
        *state += 1;
    }

    #[inline(always)]
    fn finish(&self, state: u64) -> u64 {
        state
    }

    fn empty(&self) -> Option<u64> {
        Some(0)
    }
}

impl<V: Record + ?Sized> AggregateRef<V> for Count {
    #[inline(always)]
    fn update_ref(&self, state: &mut u64, _: &V::Of<'_>) {
        *state += 1;
    }
}

impl<V: Record + ?Sized> Combine<V> for Count {
    #[inline(always)]
    fn combine(&self, state: &mut u64, other: u64) {
        *state += other;
    }

    const INVERSE: Option<fn(&Self, &mut u64, &u64)> = Some(|_, state, other| *state -= other);
}

/// Defines an aggregate that keeps the least or the greatest of what a closure returns for the values.
macro_rules! extreme {
    ($(#[$doc:meta])* $name:ident, $wanted:expr) => {
        $(#[$doc])*
        pub struct $name<F, N> {
            of: F,
            number: PhantomData<fn() -> N>,
        }

        impl<F, N> $name<F, N> {
            pub(in crate::operators) fn new(of: F) -> Self {
                Self { of, number: PhantomData }
            }
        }

        impl<V, F, N> Aggregate<V> for $name<F, N>
        where
            V: Record + ?Sized,
            F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
            N: Data + PartialOrd,
        {
            type State = Option<N>;
            type Output = N;

            #[inline(always)]
            fn start(&self) -> Option<N> {
                None
            }

            #[inline(always)]
            fn update(&self, state: &mut Option<N>, value: V::Of<'_>) {
                AggregateRef::<V>::update_ref(self, state, &value);
            }

            fn finish(&self, state: Option<N>) -> N {
                state.expect("a key is there because a value came with it")
            }
        }

        impl<V, F, N> AggregateRef<V> for $name<F, N>
        where
            V: Record + ?Sized,
            F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
            N: Data + PartialOrd,
        {
            #[inline(always)]
            fn update_ref(&self, state: &mut Option<N>, value: &V::Of<'_>) {
                let new = (self.of)(value);
                if state.as_ref().is_none_or(|old| better(&new, old, $wanted)) {
                    *state = Some(new);
                }
            }
        }

        impl<V, F, N> Combine<V> for $name<F, N>
        where
            V: Record + ?Sized,
            F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
            N: Data + PartialOrd,
        {
            #[inline(always)]
            fn combine(&self, state: &mut Option<N>, other: Option<N>) {
                if let Some(new) = other
                    && state.as_ref().is_none_or(|old| better(&new, old, $wanted))
                {
                    *state = Some(new);
                }
            }
        }
    };
}

extreme!(
    /// The least of what a closure returns for the values. NaN is greater than all numbers.
    Min,
    Ordering::Less
);
extreme!(
    /// The greatest of what a closure returns for the values. NaN is less than all numbers.
    Max,
    Ordering::Greater
);

/// The arithmetic mean of what a closure returns for the values.
pub struct Average<F, N> {
    of: F,
    number: PhantomData<fn() -> N>,
}

impl<F, N> Average<F, N> {
    pub(in crate::operators) fn new(of: F) -> Self {
        Self { of, number: PhantomData }
    }
}

impl<V, F, N> Aggregate<V> for Average<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Number,
{
    type State = (f64, u64);
    type Output = f64;

    #[inline(always)]
    fn start(&self) -> (f64, u64) {
        (0.0, 0)
    }

    #[inline(always)]
    fn update(&self, state: &mut (f64, u64), value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    #[inline(always)]
    fn finish(&self, (sum, count): (f64, u64)) -> f64 {
        sum / count as f64
    }
}

impl<V, F, N> AggregateRef<V> for Average<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Number,
{
    #[inline(always)]
    fn update_ref(&self, (sum, count): &mut (f64, u64), value: &V::Of<'_>) {
        *sum += (self.of)(value).to_f64();
        *count += 1;
    }
}

impl<V, F, N> Combine<V> for Average<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Number,
{
    #[inline(always)]
    fn combine(&self, state: &mut (f64, u64), other: (f64, u64)) {
        state.0 += other.0;
        state.1 += other.1;
    }
}

/// A fold of the values, one after the other.
pub struct Fold<A, F> {
    pub(in crate::operators) init: A,
    pub(in crate::operators) fold: F,
}

impl<V, A, F> Aggregate<V> for Fold<A, F>
where
    V: Record + ?Sized,
    A: Data + Clone + Sync,
    F: for<'a> Fn(&mut A, V::Of<'a>) + Send + Sync + 'static,
{
    type State = A;
    type Output = A;

    #[inline(always)]
    fn start(&self) -> A {
        self.init.clone()
    }

    #[inline(always)]
    fn update(&self, state: &mut A, value: V::Of<'_>) {
        (self.fold)(state, value);
    }

    #[inline(always)]
    fn finish(&self, state: A) -> A {
        state
    }
}

#[diagnostic::do_not_recommend]
impl<V, A, F> AggregateRef<V> for Fold<A, F>
where
    V: Record + ?Sized,
    for<'a> V::Of<'a>: Clone,
    A: Data + Clone + Sync,
    F: for<'a> Fn(&mut A, V::Of<'a>) + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut A, value: &V::Of<'_>) {
        (self.fold)(state, value.clone());
    }
}

/// A fold of the values into partial results, which a second closure merges.
pub struct FoldAssoc<A, F, M> {
    pub(in crate::operators) init: A,
    pub(in crate::operators) local: F,
    pub(in crate::operators) global: M,
}

impl<V, A, F, M> Aggregate<V> for FoldAssoc<A, F, M>
where
    V: Record + ?Sized,
    A: Data + Clone + Sync,
    F: for<'a> Fn(&mut A, V::Of<'a>) + Send + Sync + 'static,
    M: Fn(&mut A, A) + Send + Sync + 'static,
{
    type State = A;
    type Output = A;

    #[inline(always)]
    fn start(&self) -> A {
        self.init.clone()
    }

    #[inline(always)]
    fn update(&self, state: &mut A, value: V::Of<'_>) {
        (self.local)(state, value);
    }

    #[inline(always)]
    fn finish(&self, state: A) -> A {
        state
    }

    fn empty(&self) -> Option<A> {
        Some(self.init.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<V, A, F, M> AggregateRef<V> for FoldAssoc<A, F, M>
where
    V: Record + ?Sized,
    for<'a> V::Of<'a>: Clone,
    A: Data + Clone + Sync,
    F: for<'a> Fn(&mut A, V::Of<'a>) + Send + Sync + 'static,
    M: Fn(&mut A, A) + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut A, value: &V::Of<'_>) {
        (self.local)(state, value.clone());
    }
}

impl<V, A, F, M> Combine<V> for FoldAssoc<A, F, M>
where
    V: Record + ?Sized,
    A: Data + Clone + Sync,
    F: for<'a> Fn(&mut A, V::Of<'a>) + Send + Sync + 'static,
    M: Fn(&mut A, A) + Send + Sync + 'static,
{
    #[inline(always)]
    fn combine(&self, state: &mut A, other: A) {
        (self.global)(state, other);
    }
}

/// A reduction of the values to one, two at a time.
pub struct Reduce<F> {
    pub(in crate::operators) reduce: F,
}

impl<V, F> Aggregate<V> for Reduce<F>
where
    V: Data,
    F: Fn(V, V) -> V + Send + Sync + 'static,
{
    type State = Option<V>;
    type Output = V;

    #[inline(always)]
    fn start(&self) -> Option<V> {
        None
    }

    #[inline(always)]
    fn update(&self, state: &mut Option<V>, value: V) {
        *state = Some(match state.take() {
            Some(before) => (self.reduce)(before, value),
            None => value,
        });
    }

    fn finish(&self, state: Option<V>) -> V {
        state.expect("a key is there because a value came with it")
    }
}

impl<V, F> AggregateRef<V> for Reduce<F>
where
    V: Data + Clone,
    F: Fn(V, V) -> V + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Option<V>, value: &V) {
        Aggregate::<V>::update(self, state, value.clone());
    }
}

impl<V, F> Combine<V> for Reduce<F>
where
    V: Data,
    F: Fn(V, V) -> V + Send + Sync + 'static,
{
    #[inline(always)]
    fn combine(&self, state: &mut Option<V>, other: Option<V>) {
        if let Some(value) = other {
            Aggregate::<V>::update(self, state, value);
        }
    }
}
