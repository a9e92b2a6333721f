//! Many spans of time, and what is said of them.

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest span, in nanoseconds: an hour. Longer ones count as this.
const LONGEST: u64 = 3_600_000_000_000;

/// Spans, to a thousandth of each or less exactly.
#[derive(Clone, Debug)]
pub(crate) struct Spans(Histogram<u32>);

/// What is said of spans, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p98: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// A percentile that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Percentile {
    #[value(name = "50")]
    P50,
    #[value(name = "90")]
    P90,
    #[value(name = "95")]
    P95,
    #[value(name = "98")]
    P98,
    #[value(name = "99")]
    P99,
    #[value(name = "99.9")]
    P999,
}

impl Percentile {
    pub(crate) fn name(self) -> &'static str {
        Summary::SHOWN[self as usize]
    }
}

impl Default for Spans {
    fn default() -> Self {
        Self::exact_to(3)
    }
}

impl Spans {
    /// With so many digits, of which there are at most five.
    pub(crate) fn exact_to(digits: u8) -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, digits).expect("the bounds are right"))
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// What is said of them; `None` if there are none.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let spans = &self.0;
        let at = |quantile| spans.value_at_quantile(quantile) as f64 / 1e6;
        (!spans.is_empty()).then(|| Summary {
            count: spans.len(),
            mean: spans.mean() / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            p999: at(0.999),
            max: spans.max() as f64 / 1e6,
        })
    }
}

impl Summary {
    /// Names of the numbers that are shown, and the numbers.
    pub(crate) const SHOWN: [&'static str; 8] =
        ["p50", "p90", "p95", "p98", "p99", "p99.9", "max", "mean"];

    /// Percentiles, and their spans.
    pub(crate) fn percentiles(&self) -> [(f64, f64); 6] {
        let Self { p50, p90, p95, p98, p99, p999, .. } = *self;
        [(50.0, p50), (90.0, p90), (95.0, p95), (98.0, p98), (99.0, p99), (99.9, p999)]
    }

    /// One of them.
    pub(crate) fn at(&self, percentile: Percentile) -> f64 {
        self.percentiles()[percentile as usize].1
    }

    pub(crate) fn shown(&self) -> [f64; 8] {
        [self.p50, self.p90, self.p95, self.p98, self.p99, self.p999, self.max, self.mean]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_spans() {
        let mut spans = Spans::default();
        assert_eq!(spans.summary(), None);
        (1..=1_000).for_each(|n| spans.add(n * 10_000));
        let all = spans.summary().unwrap();
        let expected = [5.0, 9.0, 9.5, 9.8, 9.9, 9.99, 10.0, 5.005];
        for (name, (found, expected)) in
            Summary::SHOWN.iter().zip(all.shown().into_iter().zip(expected))
        {
            assert!((found - expected).abs() < 0.01 * expected, "{name}: {found} {expected}");
        }
        assert_eq!(all.count, 1_000);
        let named = Percentile::value_variants().iter().map(|at| (at.name(), all.at(*at)));
        let shown = Summary::SHOWN.into_iter().zip(all.shown());
        assert!(named.eq(shown.take(6)));
        spans.add(u64::MAX);
        assert!(spans.summary().unwrap().max >= 3.6e6);
    }
}
