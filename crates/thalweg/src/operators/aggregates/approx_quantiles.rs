//! Approximate quantiles, within a bound on their relative error.
//!
//! The bins of a DDSketch (Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
//! relative-error guarantees", 2019): a bin holds how many values lie between two powers of a number a
//! little greater than one, so that its middle is near to all of them. Bins are never collapsed, which
//! keeps the bound for every value, makes the result the same however the values were divided, and lets
//! parts be taken out again. Sketches that draw lots (KLL) or depend on the order of the values (t-digest)
//! have none of that: a job would give another result each time it is run.
//!
//! Why no library: `sketches-ddsketch` 0.4 is half as large and takes a value in twice as fast where values span
//! three decades (24 against 54 ns), and ten times where they span twenty; but from some 2048 bins on it collapses the
//! lowest, silently: of log-normal numbers with a sigma of 5 its 0.1 % quantile was off by a factor of nine instead
//! of 1 %. It cannot subtract, which sliding windows need, and its result then depends on how values were divided.
//! The t-digest of `datasketches` 0.6 took 140 to 230 ns, was off by 0.2 % to 13 %, and cannot subtract either.

use super::exact_quantiles::{check_shares, place};
use super::{Aggregate, Combine};
use crate::data::Record;

/// Approximate quantiles: about the values of which given shares are not greater, among the numbers that the closure makes of the
/// values: `0.5` is the median, `0.99` the 99th percentile. For exact ones, which keep all numbers, see
/// [`quantiles`](super::quantiles).
///
/// Of `n` numbers in order, share `q` is that at place `q * (n - 1)`, counted from 0 and rounded down. What
/// is given is off by at most 1 % of it; [`relative_error`](ApproxQuantiles::relative_error) changes that. It
/// does not depend on the order of the values, and windows that slide subtract it. Infinities stand for
/// themselves. Numbers nearer to zero than the least normal float, some 2e-308, are taken for zero, and what
/// is no number counts as greater than all numbers.
///
/// Memory: 16 bytes for each bin that has numbers in it: some 115 bins where the greatest is ten times the
/// least, 690 where it is a million times. Time: a logarithm and a search among the bins.
///
/// # Errors
///
/// A job with a share that is not from 0 to 1 is refused at its start.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::approx_quantiles;
///
/// let env = Environment::new();
/// let latencies = env.iter(1..=1000u32);
/// let p = approx_quantiles(|n: u32| f64::from(n), [0.5, 0.99]);
/// let out = latencies.group_by(|_| ()).aggregate(p).collect::<Vec<_>>();
/// env.run()?;
/// let (_, [median, p99]) = out.take()?[0];
/// assert!((495.0..=505.0).contains(&median));
/// assert!((980.0..=1000.0).contains(&p99));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[doc(alias = "percentile")]
#[doc(alias = "median")]
pub fn approx_quantiles<F, const N: usize>(of: F, shares: [f64; N]) -> ApproxQuantiles<F, N> {
    ApproxQuantiles { of, shares, bins: Bins::new(0.01) }
}

/// Approximate quantiles: [`approx_quantiles`].
pub struct ApproxQuantiles<F, const N: usize> {
    of: F,
    shares: [f64; N],
    bins: Bins,
}

/// The relative errors that can be asked for. A smaller one would have more bins than have numbers.
const ERRORS: std::ops::RangeInclusive<f64> = 1e-6..=0.5;

impl<F, const N: usize> ApproxQuantiles<F, N> {
    /// Bounds the error to this share of the result: `0.01` if nothing is said. The number of bins is
    /// inverse to it. A job that asks for less than a millionth or more than a half is refused at its
    /// start.
    pub fn relative_error(self, error: f64) -> Self {
        Self { bins: Bins::new(error), ..self }
    }
}

/// Which numbers are in a bin.
#[derive(Clone, Copy)]
struct Bins {
    error: f64,
    /// The logarithm of the ratio of a bin's bounds.
    width: f64,
    /// The logarithm of the ratio of a bin's middle to its upper bound.
    middle: f64,
    /// The bin that the least normal float is in, if that of 1 is 0.
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

    /// The bin of a number. Bins are in the order of the numbers; 0 is that of zero.
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

/// The bins that have numbers in them, in order, with how many.
type Counts = Vec<(i32, u64)>;

impl<V, F, const N: usize> Aggregate<V> for ApproxQuantiles<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> f64 + Send + Sync + 'static,
{
    type State = Counts;
    type Output = [f64; N];

    #[inline(always)]
    fn start(&self) -> Counts {
        Vec::new()
    }

    #[inline]
    fn update(&self, state: &mut Counts, value: V::Of<'_>) {
        let bin = self.bins.of((self.of)(value));
        match state.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => state[at].1 += 1,
            Err(at) => state.insert(at, (bin, 1)),
        }
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
                "quantiles have a relative error from {least} to {most}, and {error} is asked for"
            ));
        }
        Ok(())
    }
}

impl<V, F, const N: usize> Combine<V> for ApproxQuantiles<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> f64 + Send + Sync + 'static,
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
