//! A histogram of durations with logarithmic buckets.

use crate::data::{Data, DecodeError, Schema};
use std::time::Duration;

/// The number of sub-bucket bits for each power of two: values are accurate to 1/16.
const SUB: u32 = 4;
const BUCKETS: usize = (64 - SUB as usize + 1) << SUB;

/// A histogram of durations, accurate to a sixteenth of each value.
///
/// Recording costs a few instructions and never allocates; quantiles are upper bounds.
///
/// ```
/// use std::time::Duration;
/// use thalweg::metrics::Histogram;
///
/// let mut spans = Histogram::default();
/// for millis in 1..=100 {
///     spans.record(Duration::from_millis(millis));
/// }
/// let half = spans.quantile(0.5).as_millis();
/// assert!((50..=54).contains(&half), "{half}");
/// assert_eq!(spans.count(), 100);
/// ```
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    max: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count).field("max", &self.max()).finish()
    }
}

/// Encoded as its counts that are not 0, each behind its bucket.
impl Data for Histogram {
    fn encode(&self, out: &mut Vec<u8>) {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let counts: Vec<(u32, u64)> = counts.map(|(at, count)| (at as u32, *count)).collect();
        (counts, self.max).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (counts, max) = <(Vec<(u32, u64)>, u64)>::decode(input)?;
        let mut histogram = Self { max, ..Self::default() };
        for (at, count) in counts {
            let Some(bucket) = histogram.counts.get_mut(at as usize) else {
                return Err(DecodeError::invalid("a bucket of a histogram"));
            };
            *bucket = count;
            histogram.count = histogram.count.saturating_add(count);
        }
        Ok(histogram)
    }

    fn key_hash(&self) -> u64 {
        (self.counts.to_vec(), self.max).key_hash()
    }

    fn schema() -> Schema {
        <(Vec<(u32, u64)>, u64)>::schema()
    }

    fn heap_size(&self) -> usize {
        size_of_val(&*self.counts)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, max: 0 }
    }
}

fn bucket(nanos: u64) -> usize {
    let bits = 64 - nanos.leading_zeros();
    let shift = bits.saturating_sub(SUB + 1);
    ((shift as usize) << SUB) + (nanos >> shift) as usize
}

/// The greatest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket >> SUB).saturating_sub(1) as u32;
    let sub = bucket as u64 - (u64::from(shift) << SUB);
    ((sub as u128 + 1) << shift).saturating_sub(1).min(u64::MAX as u128) as u64
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&*other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The number of durations counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The duration that this share of all, from 0 to 1, does not exceed; zero when the histogram is empty.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper(at).min(self.max));
            }
        }
        self.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_encoding() {
        let mut spans = Histogram::default();
        (1..500).for_each(|micros| spans.record(Duration::from_micros(micros * micros)));
        let mut bytes = Vec::new();
        spans.encode(&mut bytes);
        let read = Histogram::decode(&mut &*bytes).unwrap();
        assert_eq!((&read.counts, read.count, read.max), (&spans.counts, spans.count, spans.max));
        let mut wrong = Vec::new();
        (vec![(BUCKETS as u32, 1u64)], 1u64).encode(&mut wrong);
        assert!(Histogram::decode(&mut &*wrong).is_err());
    }

    #[test]
    fn buckets_are_in_order_and_contain_their_bounds() {
        let mut last = 0;
        for nanos in (0..5000).chain((5..64).flat_map(|b| [(1u64 << b) - 1, 1 << b, (1 << b) + 1]))
        {
            let at = bucket(nanos);
            assert!(at >= last || nanos < 5000, "{nanos}");
            assert!(upper(at) >= nanos, "{nanos}");
            assert!(upper(at) - nanos <= nanos / 16 + 1, "{nanos} {}", upper(at));
            last = at;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }
}
