//! Which rate is tried next. Pure: knows neither programs nor clocks.
//!
//! The rate doubles until one is not sustained, or halves until one is; then the range between the
//! greatest sustained and the least unsustained rate is cut in two, at the middle of their ratio, until it
//! is narrow enough.

use std::ops::RangeInclusive;

/// A search for the greatest rate that is sustained, on the way.
///
/// ```
/// use thalweg_sustain::search::Search;
///
/// let mut search = Search::new(1e6, 1e3..=1e9, 0.05);
/// while let Some(rate) = search.next() {
///     search.tell(rate, rate < 3_300_000.0);
/// }
/// let found = search.found().unwrap();
/// assert!((3_300_000.0 / 1.05..3_300_000.0).contains(&found));
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    range: RangeInclusive<f64>,
    precision: f64,
    /// The next rate.
    rate: Option<f64>,
    /// The greatest rate that was sustained.
    low: Option<f64>,
    /// The least that was not.
    high: Option<f64>,
}

/// How many rates are still to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// So many at most.
    AtMost(u32),
    /// At least so many: it is not known yet where the limit is.
    AtLeast(u32),
}

impl Search {
    /// A search that begins with the rate `from`, never leaves the range, and ends when what is sustained
    /// and what is not are no further apart than by the share `precision`.
    pub fn new(from: f64, range: RangeInclusive<f64>, precision: f64) -> Self {
        let rate = Some(from.clamp(*range.start(), *range.end()));
        Self { range, precision, rate, low: None, high: None }
    }

    /// The rate to be tried next, in events a second; `None` when the search is over.
    pub fn next(&self) -> Option<f64> {
        self.rate
    }

    /// The greatest rate that was sustained.
    pub fn found(&self) -> Option<f64> {
        self.low
    }

    /// Whether there was a rate that was not sustained.
    pub fn is_bounded(&self) -> bool {
        self.high.is_some()
    }

    /// Says whether a rate was sustained.
    pub fn tell(&mut self, rate: f64, sustained: bool) {
        if sustained {
            self.low = Some(rate);
        } else {
            self.high = Some(rate);
        }
        self.rate = match (self.low, self.high) {
            (Some(low), None) => {
                (low < *self.range.end()).then(|| (2.0 * low).min(*self.range.end()))
            }
            (None, Some(high)) => {
                (high > *self.range.start()).then(|| (high / 2.0).max(*self.range.start()))
            }
            (Some(low), Some(high)) => self.between(low, high),
            (None, None) => None,
        };
    }

    /// Between a sustained and an unsustained rate, as a round number where there is one.
    fn between(&self, low: f64, high: f64) -> Option<f64> {
        if high <= low * (1.0 + self.precision) {
            return None;
        }
        let middle = (low * high).sqrt();
        let unit = 10f64.powf(middle.log10().floor() - 2.0);
        let round = (middle / unit).round() * unit;
        Some(if low < round && round < high { round } else { middle })
    }

    /// How many rates are still to be tried.
    pub fn left(&self) -> Left {
        let cuts = |ratio: f64| {
            let halves = (ratio.ln() / self.precision.ln_1p()).log2().ceil();
            halves.max(0.0) as u32
        };
        match (self.low, self.high) {
            // One more, since the middle is rounded.
            (Some(low), Some(high)) => Left::AtMost(cuts(high / low) + 1),
            _ => Left::AtLeast(1 + cuts(2.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in a system that sustains rates up to `limit`; all rates that were tried, and what was
    /// found.
    fn search(limit: f64, from: f64, precision: f64) -> (Vec<f64>, Option<f64>) {
        let mut search = Search::new(from, 1e3..=1e9, precision);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            tried.push(rate);
            assert!(tried.len() < 60, "it does not end: {tried:?}");
            if let Left::AtMost(most) = search.left() {
                assert!(most > 0, "there is one more, {rate}");
            }
            search.tell(rate, rate <= limit);
        }
        (tried, search.found())
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for limit in [1_001.0, 77_777.0, 999_999.0, 1e6, 1.01e6, 123_456_789.0] {
            for precision in [0.2, 0.05, 0.01] {
                let (tried, found) = search(limit, 1e6, precision);
                let found = found.unwrap();
                assert!(found <= limit && limit < found * (1.0 + precision) * 1.000_001);
                let mut once = tried.clone();
                once.sort_by(f64::total_cmp);
                once.dedup();
                assert_eq!(once.len(), tried.len(), "a rate was tried twice: {tried:?}");
            }
        }
    }

    #[test]
    fn rates_double_then_close_in() {
        let (tried, found) = search(3.3e6, 1e6, 0.05);
        assert_eq!(tried[..4], [1e6, 2e6, 4e6, 2_830_000.0]);
        assert_eq!(tried.len(), 3 + 4, "four cuts narrow a factor of 2 down to 5%");
        assert!(found.is_some());
        let (tried, _) = search(3e5, 1e6, 0.05);
        assert_eq!(tried[..4], [1e6, 5e5, 2.5e5, 354_000.0]);
    }

    #[test]
    fn the_range_is_not_left() {
        let (tried, found) = search(f64::INFINITY, 3e8, 0.05);
        assert_eq!((tried, found), (vec![3e8, 6e8, 1e9], Some(1e9)));
        let (tried, found) = search(0.0, 3e3, 0.05);
        assert_eq!((tried, found), (vec![3e3, 1.5e3, 1e3], None));
        let (tried, _) = search(f64::INFINITY, 7e9, 0.05);
        assert_eq!(tried, [1e9]);
    }

    #[test]
    fn what_is_left_is_known_once_there_are_two_bounds() {
        let mut search = Search::new(1e6, 1e3..=1e9, 0.05);
        assert_eq!(search.left(), Left::AtLeast(5));
        search.tell(1e6, true);
        assert_eq!(search.left(), Left::AtLeast(5));
        search.tell(2e6, false);
        assert_eq!(search.left(), Left::AtMost(5));
        search.tell(1.41e6, true);
        assert_eq!(search.left(), Left::AtMost(4));
    }
}
