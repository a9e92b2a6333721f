//! A histogram of durations with a bounded relative error.

use std::time::Duration;

/// Buckets of one power of two: the relative error of a quantile is below one in 64.
const STEPS: usize = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Counts durations in buckets whose width grows with the duration, after HdrHistogram: constant
/// memory (30 KB), a few nanoseconds a record, quantiles within 1.6%.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; STEPS * (64 - STEP_BITS as usize + 1)], max: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(duration.as_nanos() as u64);
    }

    /// Counts one duration given in nanoseconds.
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds what another histogram has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration in seconds that the share `q` of all durations does not exceed, rounded up to
    /// its bucket's end. Zero when nothing was counted.
    pub fn quantile(&self, q: f64) -> f64 {
        let rank = (self.count() as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_end(index).min(self.max) as f64 / 1e9;
            }
        }
        self.max as f64 / 1e9
    }

    /// The longest duration in seconds.
    pub fn max(&self) -> f64 {
        self.max as f64 / 1e9
    }

    /// The percentiles that the latency bench reports, in seconds, by the names it uses.
    pub fn percentiles(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("p50", self.quantile(0.50)),
            ("p99", self.quantile(0.99)),
            ("p999", self.quantile(0.999)),
            ("p9999", self.quantile(0.9999)),
            ("max", self.max()),
        ]
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let exponent = 63 - nanos.leading_zeros();
    let shift = exponent - STEP_BITS;
    STEPS * (shift as usize + 1) + ((nanos >> shift) as usize - STEPS)
}

/// The largest value that falls into a bucket.
fn bucket_end(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let shift = (index / STEPS - 1) as u32;
    let low = ((index % STEPS + STEPS) as u64) << shift;
    low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_in_order() {
        let large =
            (8..64).flat_map(|shift| [0, 1, 2, 3].map(|quarter| (4 + quarter) << (shift - 2)));
        let mut last = 0;
        for value in (0..256).chain(large) {
            let index = bucket(value);
            assert!(index < Histogram::default().counts.len());
            assert!(bucket_end(index) >= value, "{value}");
            assert!(index == 0 || bucket_end(index - 1) < value, "{value}");
            assert!(index >= last, "{value}");
            last = index;
        }
        assert!(bucket(u64::MAX) < Histogram::default().counts.len());
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (q, expected) in [(0.5, 500e-6), (0.99, 990e-6), (1.0, 1000e-6)] {
            let found = histogram.quantile(q);
            assert!((expected..expected * 1.016).contains(&found), "{q}: {found}");
        }
    }
}
