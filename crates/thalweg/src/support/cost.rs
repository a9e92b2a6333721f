//! Measures what processing a record costs, one batch at a time.

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// A cost that one task measures and others read.
#[derive(Clone, Default)]
pub(crate) struct Cost(Arc<AtomicU64>);

impl Cost {
    pub(crate) fn set(&self, per_record: f64) {
        self.0.store(per_record.to_bits(), Ordering::Relaxed);
    }

    /// Nanoseconds per record, once known.
    pub(crate) fn get(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }
}

/// Times what happens between two calls of an operator's `resume`: the work on one batch.
///
/// The least of the last [`WINDOW`] measurements counts, since a disturbance (an interrupt, the end of a turn) can
/// only add to a measurement.
#[derive(Default)]
pub(crate) struct Meter {
    began: Option<(Nanos, u64)>,
    recent: [f64; WINDOW],
    next: usize,
}

const WINDOW: usize = 8;
/// Batches of fewer records than this are too small to time.
const ENOUGH: u64 = 128;

impl Meter {
    /// Starts timing a batch; `records` have been counted so far.
    pub(crate) fn start(&mut self, now: Nanos, records: u64) {
        self.began = Some((now, records));
    }

    /// Stops timing the batch, if it was started.
    pub(crate) fn stop(&mut self, now: Nanos, records: u64) {
        if let Some((began, before)) = self.began.take()
            && let Some(records) = records.checked_sub(before)
        {
            self.add(now.saturating_sub(began), records);
        }
    }

    /// Adds a measurement: `records` took this long.
    pub(crate) fn add(&mut self, took: Nanos, records: u64) {
        if records >= ENOUGH && took > 0 {
            self.recent[self.next % WINDOW] = took as f64 / records as f64;
            self.next += 1;
        }
    }

    /// Nanoseconds per record, once something was measured.
    pub(crate) fn per_record(&self) -> Option<f64> {
        let measured = &self.recent[..self.next.min(WINDOW)];
        measured.iter().copied().reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_last_measurements_counts() {
        let mut meter = Meter::default();
        assert_eq!(meter.per_record(), None);
        meter.start(0, 0);
        meter.stop(1000, 1000);
        assert_eq!(meter.per_record(), Some(1.0));
        for _ in 0..WINDOW {
            meter.add(3000, 1000);
        }
        assert_eq!(meter.per_record(), Some(3.0));
        meter.add(1, ENOUGH - 1);
        assert_eq!(meter.per_record(), Some(3.0));
    }
}
