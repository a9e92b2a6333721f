//! The number of values that match a condition.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::Record;

impl<V: Record + ?Sized> Aggregates<V> {
    /// The number of values for which the closure returns `true`.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..10).aggregate(|a| (a.count(), a.count_if(|n| n % 3 == 0)));
    /// let out = out.collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some((10, 4)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn count_if<F>(self, which: F) -> CountIf<F>
    where
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> bool + Send + Sync + 'static,
    {
        CountIf { which }
    }
}

/// The number of values that match a condition: [`Aggregates::count_if`].
pub struct CountIf<F> {
    which: F,
}

impl<V, F> Aggregate<V> for CountIf<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> bool + Send + Sync + 'static,
{
    type State = u64;
    type Output = u64;

    #[inline(always)]
    fn start(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn update(&self, state: &mut u64, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    #[inline(always)]
    fn finish(&self, state: u64) -> u64 {
        state
    }

    fn empty(&self) -> Option<u64> {
        Some(0)
    }
}

impl<V, F> AggregateRef<V> for CountIf<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> bool + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut u64, value: &V::Of<'_>) {
        *state += u64::from((self.which)(value));
    }
}

impl<V, F> Combine<V> for CountIf<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> bool + Send + Sync + 'static,
{
    #[inline(always)]
    fn combine(&self, state: &mut u64, other: u64) {
        *state += other;
    }

    const INVERSE: Option<fn(&Self, &mut u64, &u64)> = Some(|_, state, other| *state -= other);
}
