//! Exact quantiles, computed from all values.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::{Data, Record};
use std::cmp::Ordering;

impl<V: Record + ?Sized> Aggregates<V> {
    /// Exact quantiles of what the closure returns for the values: for each share, the value that this share of the
    /// values does not exceed. `0.5` is the median, `0.99` the 99th percentile. For an estimate with a bounded error,
    /// in little memory, see [`approx_quantiles`](Self::approx_quantiles).
    ///
    /// Of `n` values in order, the quantile of share `q` is the value at index `q * (n - 1)`, counted from 0 and
    /// rounded down. It is always one of the values, so they need an order but no arithmetic. NaN counts as greater
    /// than all numbers. The result does not depend on the order in which values arrive.
    ///
    /// Memory: everything that the closure returns, 8 bytes for each `f64`, and up to twice that while the list
    /// grows. It counts against the memory budget. Sliding windows combine the values of their slices anew for each
    /// window. Time: a push for each value, and at the end a selection for each share, linear in the number of
    /// values.
    ///
    /// # Errors
    ///
    /// A job with a share outside 0 to 1 is refused when it starts.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let latencies = env.iter([30u32, 10, 20, 40]);
    /// let out = latencies.aggregate(|a| a.quantiles(|ms| *ms, [0.0, 0.5, 1.0])).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some([10, 20, 40]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "percentile")]
    #[doc(alias = "median")]
    pub fn quantiles<N, F, const SHARES: usize>(
        self,
        of: F,
        shares: [f64; SHARES],
    ) -> Quantiles<F, SHARES>
    where
        N: Data + Clone + PartialOrd,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        Quantiles { of, shares }
    }
}

/// Exact quantiles: [`Aggregates::quantiles`].
pub struct Quantiles<F, const N: usize> {
    of: F,
    shares: [f64; N],
}

/// The index of a share's quantile among `count` values in order, counted from 0.
pub(super) fn place(share: f64, count: u64) -> u64 {
    (share * count.saturating_sub(1) as f64) as u64
}

/// Whether all shares are from 0 to 1.
pub(super) fn check_shares(shares: &[f64]) -> Result<(), String> {
    match shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        Some(wrong) => Err(format!("quantiles are of shares from 0 to 1, not {wrong}")),
        None => Ok(()),
    }
}

/// The order of values in which those that do not compare, such as NaN, are the greatest.
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
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    fn finish(&self, mut state: Vec<N>) -> [N; SHARES] {
        self.shares.map(|share| {
            let place = place(share, state.len() as u64) as usize;
            // The list is not empty: a key or window has at least one value.
            state.select_nth_unstable_by(place, ascending).1.clone()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_shares(&self.shares)
    }

    fn name(&self) -> String {
        format!("quantiles {:?}", self.shares)
    }
}

impl<V, F, N, const SHARES: usize> AggregateRef<V> for Quantiles<F, SHARES>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data + Clone + PartialOrd,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Vec<N>, value: &V::Of<'_>) {
        state.push((self.of)(value));
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
