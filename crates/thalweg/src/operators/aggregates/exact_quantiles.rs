//! Exact quantiles, of all values.

use super::{Aggregate, Combine};
use crate::data::{Data, Record};
use std::cmp::Ordering;

/// The values of which given shares are not greater, among what the closure makes of the values: `0.5` is the
/// median, `0.99` the 99th percentile. For an estimate within a bound, in little memory, see
/// [`approx_quantiles`](super::approx_quantiles).
///
/// Of `n` values in order, share `q` is that at place `q * (n - 1)`, counted from 0 and rounded down: always one of
/// the values, so that they need an order and no arithmetic. A float that is no number counts as greater than all
/// numbers. The result does not depend on the order in which values come.
///
/// Memory: all that the closure returns, 8 bytes for each `f64`, and up to twice that while the list grows. It counts
/// against the memory budget. Windows that slide put the values of their slices together anew for each window.
/// Time: a push for each value, and at the end a selection for each share, linear in the number of values.
///
/// # Errors
///
/// A job with a share that is not from 0 to 1 is refused at its start.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::quantiles;
///
/// let env = Environment::new();
/// let latencies = env.iter([30u32, 10, 20, 40]);
/// let out = latencies.group_by(|_| ()).aggregate(quantiles(|ms: &u32| *ms, [0.0, 0.5, 1.0]));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), [10, 20, 40])]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[doc(alias = "percentile")]
#[doc(alias = "median")]
pub fn quantiles<F, const N: usize>(of: F, shares: [f64; N]) -> Quantiles<F, N> {
    Quantiles { of, shares }
}

/// Exact quantiles: [`quantiles`].
pub struct Quantiles<F, const N: usize> {
    of: F,
    shares: [f64; N],
}

/// The place of a share's quantile among `count` values in order, counted from 0.
pub(super) fn place(share: f64, count: u64) -> u64 {
    (share * count.saturating_sub(1) as f64) as u64
}

/// Whether all shares are from 0 to 1.
pub(super) fn check_shares(shares: &[f64]) -> Result<(), String> {
    match shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        Some(wrong) => {
            Err(format!("quantiles are of shares from 0 to 1, and one of {wrong} is asked for"))
        }
        None => Ok(()),
    }
}

/// The order of values, where those that compare with nothing, as NaN, are the greatest.
fn ascending<N: PartialOrd>(one: &N, other: &N) -> Ordering {
    let unordered = |value: &N| value.partial_cmp(value).is_none();
    one.partial_cmp(other).unwrap_or_else(|| unordered(one).cmp(&unordered(other)))
}

impl<V, F, N, const SHARES: usize> Aggregate<V> for Quantiles<F, SHARES>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Clone + PartialOrd,
{
    type State = Vec<N>;
    type Output = [N; SHARES];

    #[inline(always)]
    fn start(&self) -> Vec<N> {
        Vec::new()
    }

    #[inline(always)]
    fn update(&self, state: &mut Vec<N>, value: V::Of<'_>) {
        state.push((self.of)(&value));
    }

    #[inline(always)]
    fn update_shared(&self, state: &mut Vec<N>, value: &V::Of<'_>) {
        state.push((self.of)(value));
    }

    fn finish(&self, mut state: Vec<N>) -> [N; SHARES] {
        self.shares.map(|share| {
            let place = place(share, state.len() as u64) as usize;
            // A key or window is there because a value came.
            state.select_nth_unstable_by(place, ascending).1.clone()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_shares(&self.shares)
    }
}

impl<V, F, N, const SHARES: usize> Combine<V> for Quantiles<F, SHARES>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Clone + PartialOrd,
{
    fn combine(&self, state: &mut Vec<N>, mut other: Vec<N>) {
        if other.len() > state.len() {
            std::mem::swap(state, &mut other);
        }
        state.append(&mut other);
    }
}
