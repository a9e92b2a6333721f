//! Variance and standard deviation.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::Record;

impl<V: Record + ?Sized> Aggregates<V> {
    /// The sample variance of the numbers that the closure returns for the values: the sum of the squared distances
    /// from their mean, divided by one less than their number.
    ///
    /// Where the values are a whole population rather than a sample, use [`of_population`](Spread::of_population).
    /// The sample variance of a single value is not defined, and the result is NaN.
    ///
    /// The sum of squares itself is never computed, so numbers that are far from zero and close together lose no
    /// precision (Welford, 1962); partial results are combined as by Chan, Golub and LeVeque (1979). The last digits
    /// depend on how the values were divided among tasks, which is not defined.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([2.0, 4.0, 6.0]).aggregate(|a| a.variance(|n| *n)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(4.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn variance<F>(self, of: F) -> Spread<F>
    where
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
    {
        Spread { of, population: false, root: false }
    }

    /// The sample standard deviation of the numbers that the closure returns for the values: the square root of their
    /// [`variance`](Self::variance).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([2.0, 4.0, 6.0]).aggregate(|a| a.stddev(|n| *n)).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(2.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn stddev<F>(self, of: F) -> Spread<F>
    where
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
    {
        Spread { of, population: false, root: true }
    }
}

/// The variance or standard deviation: [`Aggregates::variance`] and [`Aggregates::stddev`].
pub struct Spread<F> {
    of: F,
    population: bool,
    root: bool,
}

impl<F> Spread<F> {
    /// Treats the values as the whole population: divides by their number.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([2.0, 4.0]).aggregate(|a| a.variance(|n| *n).of_population()).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(1.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn of_population(self) -> Self {
        Self { population: true, ..self }
    }
}

/// The number of numbers, their mean, and the sum of the squared distances from it.
type Moments = (u64, f64, f64);

impl<V, F> Aggregate<V> for Spread<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    type State = Moments;
    type Output = f64;

    #[inline(always)]
    fn start(&self) -> Moments {
        (0, 0.0, 0.0)
    }

    #[inline(always)]
    fn update(&self, state: &mut Moments, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    fn finish(&self, (count, _, squares): Moments) -> f64 {
        // For a sample of a single value, 0 / 0.
        let divisor = if self.population { count } else { count.saturating_sub(1) };
        let variance = squares / divisor as f64;
        if self.root { variance.sqrt() } else { variance }
    }

    fn name(&self) -> String {
        let which = if self.root { "stddev" } else { "variance" };
        let of = if self.population { " of population" } else { "" };
        format!("{which}{of}")
    }
}

impl<V, F> AggregateRef<V> for Spread<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    #[inline(always)]
    fn update_ref(&self, (count, mean, squares): &mut Moments, value: &V::Of<'_>) {
        let number = (self.of)(value);
        *count += 1;
        let distance = number - *mean;
        *mean += distance / *count as f64;
        *squares += distance * (number - *mean);
    }
}

impl<V, F> Combine<V> for Spread<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    fn combine(&self, state: &mut Moments, other: Moments) {
        let (count, more) = (state.0 as f64, other.0 as f64);
        if other.0 == 0 {
            return;
        }
        if state.0 == 0 {
            *state = other;
            return;
        }
        let distance = other.1 - state.1;
        let share = more / (count + more);
        state.0 += other.0;
        state.1 += distance * share;
        state.2 += other.2 + distance * distance * count * share;
    }
}
