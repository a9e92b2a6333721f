//! How far numbers lie apart.

use super::{Aggregate, Combine};
use crate::data::Record;

/// The variance of the numbers that the closure makes of the values, as estimated from a sample: the sum of
/// the squares of their distances from their mean, divided by one less than there are.
///
/// Where the values are all that there are rather than a sample, say
/// [`of_population`](Spread::of_population). Of a single value the variance of a sample is not defined, and
/// the result is no number.
///
/// The sum of squares itself is never formed, so that numbers far from zero and near to each other lose
/// nothing (Welford, 1962); parts are put together as by Chan, Golub and LeVeque (1979). The last digits
/// depend on how values were divided, which is not defined.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::variance;
///
/// let env = Environment::new();
/// let out = env.iter([2.0, 4.0, 6.0]).group_by(|_| ()).aggregate(variance(|n: f64| n));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 4.0)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn variance<F>(of: F) -> Spread<F> {
    Spread { of, population: false, root: false }
}

/// The standard deviation of the numbers that the closure makes of the values, as estimated from a sample:
/// the root of their [`variance`], which see.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::stddev;
///
/// let env = Environment::new();
/// let out = env.iter([2.0, 4.0, 6.0]).group_by(|_| ()).aggregate(stddev(|n: f64| n));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 2.0)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn stddev<F>(of: F) -> Spread<F> {
    Spread { of, population: false, root: true }
}

/// How far numbers lie apart: [`variance`] and [`stddev`].
pub struct Spread<F> {
    of: F,
    population: bool,
    root: bool,
}

impl<F> Spread<F> {
    /// Takes the values for all that there are: divides by their number.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::aggregates::variance;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([2.0, 4.0]).group_by(|_| ()).aggregate(variance(|n: f64| n).of_population());
    /// let out = out.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [((), 1.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn of_population(self) -> Self {
        Self { population: true, ..self }
    }
}

/// How many numbers there were, their mean, and the sum of the squares of their distances from it.
type Moments = (u64, f64, f64);

impl<V, F> Aggregate<V> for Spread<F>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    type State = Moments;
    type Output = f64;

    #[inline(always)]
    fn start(&self) -> Moments {
        (0, 0.0, 0.0)
    }

    #[inline(always)]
    fn update(&self, (count, mean, squares): &mut Moments, value: V::Of<'_>) {
        let number = (self.of)(value);
        *count += 1;
        let distance = number - *mean;
        *mean += distance / *count as f64;
        *squares += distance * (number - *mean);
    }

    fn finish(&self, (count, _, squares): Moments) -> f64 {
        // Of a single value of a sample, 0 / 0.
        let divisor = if self.population { count } else { count.saturating_sub(1) };
        let variance = squares / divisor as f64;
        if self.root { variance.sqrt() } else { variance }
    }
}

impl<V, F> Combine<V> for Spread<F>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> f64 + Send + Sync + 'static,
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
