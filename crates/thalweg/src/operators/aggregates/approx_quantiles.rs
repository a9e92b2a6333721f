//! Approximate quantiles, within a bound on their relative error.
//!
//! The bins of a DDSketch (Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
//! relative-error guarantees", 2019): each bin counts the values between two consecutive powers of a number slightly
//! greater than one, so that its middle is close to all of them. Bins are never collapsed. So the bound holds for
//! every value, the result does not depend on how the values were divided among tasks, and partial results can be
//! subtracted. Randomised sketches (KLL) and those that depend on the order of the values (t-digest) have none of
//! these properties: the result of a job would differ from run to run.
//!
//! Why no library is used: of a million log-normal numbers, `sketches-ddsketch` 0.4 adds each in a half to a quarter
//! of the time (22 to 66 ns against 59 to 125) and is half as large or less. But from 2048 bins on it collapses the
//! lowest, silently: with a sigma of 5, its 0.1 % quantile was off by a factor of nine instead of 1 %. Its result
//! then depends on how the values were divided, and it cannot subtract, which sliding windows need. The t-digest of
//! `datasketches` 0.6 takes 110 to 160 ns, was off by up to 0.2 % with a sigma of 1 and 13 % with one of 12, and
//! cannot subtract either.

use super::exact_quantiles::{check_shares, place};
use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::Record;

impl<V: Record + ?Sized> Aggregates<V> {
    /// Approximate quantiles of the numbers that the closure returns for the values: for each share, about the number
    /// that this share of the numbers does not exceed. `0.5` is the median, `0.99` the 99th percentile. For exact
    /// ones, which keep all numbers, see [`quantiles`](Self::quantiles).
    ///
    /// Of `n` numbers in order, the quantile of share `q` is the number at index `q * (n - 1)`, counted from 0 and
    /// rounded down. The result is off by at most 1 % of it; [`relative_error`](ApproxQuantiles::relative_error)
    /// changes that. The result does not depend on the order of the values, and sliding windows can subtract it.
    /// Infinities are exact. Numbers closer to zero than the least normal float, about 2e-308, count as zero, and NaN
    /// counts as greater than all numbers.
    ///
    /// Memory: 16 bytes for each bin that has numbers in it: some 115 bins where the greatest number is ten times the
    /// least, 690 where it is a million times. Time: a logarithm and a search among the bins for each value.
    ///
    /// # Errors
    ///
    /// A job with a share outside 0 to 1 is refused when it starts.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let latencies = env.iter(1..=1000u32);
    /// let out = latencies.aggregate(|a| a.approx_quantiles(|n| f64::from(*n), [0.5, 0.99]));
    /// let out = out.collect_one();
    /// env.run()?;
    /// let [median, p99] = out.take()?.unwrap_or_default();
    /// assert!((495.0..=505.0).contains(&median));
    /// assert!((980.0..=1000.0).contains(&p99));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "percentile")]
    #[doc(alias = "median")]
    pub fn approx_quantiles<F, const N: usize>(
        self,
        of: F,
        shares: [f64; N],
    ) -> ApproxQuantiles<F, N>
    where
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
    {
        ApproxQuantiles { of, shares, bins: Bins::new(0.01) }
    }
}

/// Approximate quantiles: [`Aggregates::approx_quantiles`].
pub struct ApproxQuantiles<F, const N: usize> {
    of: F,
    shares: [f64; N],
    bins: Bins,
}

/// The relative errors that are accepted. A smaller one would have more bins than can be numbered.
const ERRORS: std::ops::RangeInclusive<f64> = 1e-6..=0.5;

impl<F, const N: usize> ApproxQuantiles<F, N> {
    /// Bounds the error to this share of the result; the default is `0.01`. The number of bins is inversely
    /// proportional to it. A job with a bound below a millionth or above a half is refused when it starts.
    pub fn relative_error(self, error: f64) -> Self {
        Self { bins: Bins::new(error), ..self }
    }
}

/// Maps numbers to bins and back.
#[derive(Clone, Copy)]
struct Bins {
    error: f64,
    /// The logarithm of the ratio of a bin's bounds.
    width: f64,
    /// The logarithm of the ratio of a bin's middle to its upper bound.
    middle: f64,
    /// The bin of the least normal float, relative to the bin of 1.
    lowest: f64,
}

const INFINITE: i32 = i32::MAX - 1;
const NO_NUMBER: i32 = i32::MAX;

impl Bins {
    fn new(error: f64) -> Self {
        let width = (2.0 * error / (1.0 - error)).ln_1p();
        let lowest = (f64::MIN_POSITIVE.ln() / width).ceil();
        Self { error, width, middle: (-error).ln_1p(), lowest }
    }

    /// The bin of a number. Bins are in the order of the numbers; 0 is the bin of zero.
    #[inline]
    fn of(&self, number: f64) -> i32 {
        let size = number.abs();
        let bin = if size < f64::MIN_POSITIVE {
            return 0;
        } else if size.is_nan() {
            return NO_NUMBER;
        } else if size == f64::INFINITY {
            INFINITE
        } else {
            ((size.ln() / self.width).ceil() - self.lowest) as i32 + 1
        };
        if number > 0.0 { bin } else { -bin }
    }

    /// The middle of a bin.
    fn middle(&self, bin: i32) -> f64 {
        let size = match bin.abs() {
            0 => return 0.0,
            NO_NUMBER => return f64::NAN,
            INFINITE => f64::INFINITY,
            bin => {
                let upper = (f64::from(bin) - 1.0 + self.lowest) * self.width;
                (upper + self.middle).exp().clamp(f64::MIN_POSITIVE, f64::MAX)
            }
        };
        if bin > 0 { size } else { -size }
    }
}

/// The bins that have numbers in them, in ascending order, each with its count.
type Counts = Vec<(i32, u64)>;

impl<V, F, const N: usize> Aggregate<V> for ApproxQuantiles<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    type State = Counts;
    type Output = [f64; N];

    #[inline(always)]
    fn start(&self) -> Counts {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Counts, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    fn finish(&self, state: Counts) -> [f64; N] {
        let all: u64 = state.iter().map(|(_, count)| count).sum();
        self.shares.map(|share| {
            let place = place(share, all);
            let mut before = 0;
            let bin = state.iter().find(|(_, count)| {
                before += count;
                before > place
            });
            bin.map_or(f64::NAN, |(bin, _)| self.bins.middle(*bin))
        })
    }

    fn check(&self) -> Result<(), String> {
        check_shares(&self.shares)?;
        let error = self.bins.error;
        if !ERRORS.contains(&error) {
            let (least, most) = (ERRORS.start(), ERRORS.end());
            return Err(format!(
                "quantiles have a relative error from {least} to {most}, not {error}"
            ));
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("approx_quantiles {:?} within {}", self.shares, self.bins.error)
    }
}

impl<V, F, const N: usize> AggregateRef<V> for ApproxQuantiles<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    #[inline]
    fn update_ref(&self, state: &mut Counts, value: &V::Of<'_>) {
        let bin = self.bins.of((self.of)(value));
        match state.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => state[at].1 += 1,
            Err(at) => state.insert(at, (bin, 1)),
        }
    }
}

impl<V, F, const N: usize> Combine<V> for ApproxQuantiles<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    fn combine(&self, state: &mut Counts, other: Counts) {
        if state.is_empty() {
            *state = other;
            return;
        }
        let mut both = Vec::with_capacity(state.len().max(other.len()));
        let mut mine = state.drain(..).peekable();
        for (bin, count) in other {
            while let Some(earlier) = mine.next_if(|(there, _)| *there < bin) {
                both.push(earlier);
            }
            let there = mine.next_if(|(there, _)| *there == bin).map_or(0, |(_, count)| count);
            both.push((bin, there + count));
        }
        both.extend(mine);
        *state = both;
    }

    const INVERSE: Option<fn(&Self, &mut Counts, &Counts)> = Some(|_, state, other| {
        let mut gone = other.iter().peekable();
        state.retain_mut(|(bin, count)| {
            while gone.next_if(|(other, _)| other < bin).is_some() {}
            if let Some((_, less)) = gone.next_if(|(other, _)| other == bin) {
                *count = count.saturating_sub(*less);
            }
            *count > 0
        });
    });
}
