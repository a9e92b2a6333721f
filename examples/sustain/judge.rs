//! Whether a rate was sustained, from the mean latency of each window's results. Pure.
//!
//! A rate is sustained when every window has a result and latency has no upward slope. The slope is
//! Theil's and Sen's: the median of the slopes between all pairs of windows, which a few that were held up by
//! something else do not move. It is upward when Kendall's test for a trend (Mann 1945) says that windows
//! without any would rise as steadily in one of a hundred runs, and when it is more than a millisecond a
//! second besides: a program that is a thousandth too slow.

use serde::Serialize;

/// How unlikely a rise must be without a trend, as a number of standard deviations: one in a hundred.
const SURE: f64 = 2.326;
/// A slope that matters, in seconds of latency a second.
const STEEP: f64 = 0.001;

/// The least number of windows in which a rise can be distinguished from chance.
pub const LEAST_WINDOWS: usize = 6;

/// What is to be said of a rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// How much latency grows, in milliseconds a second; `None` where too few windows have results.
    pub slope: Option<f64>,
    /// How many standard deviations the trend is from none.
    pub trend: f64,
    /// Windows without a result.
    pub missing: usize,
    /// What follows from that.
    pub verdict: Verdict,
}

/// Whether a rate was sustained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was.
    Sustainable,
    /// Windows have no results.
    Missing,
    /// Latency rises.
    Rising,
}

impl Judgement {
    /// Whether the rate was sustained.
    pub fn is_sustainable(&self) -> bool {
        self.verdict == Verdict::Sustainable
    }
}

/// Judges the mean latencies of windows that are `step` seconds apart, in milliseconds, one after the
/// other; `None` where a window has no result.
///
/// ```
/// use thalweg_sustain::judge::{Verdict, judge};
///
/// let steady: Vec<_> = (0..30).map(|n| Some(2.0 + f64::from(n * 7 % 5))).collect();
/// assert_eq!(judge(&steady, 10.0).verdict, Verdict::Sustainable);
///
/// let queueing: Vec<_> = (0..30).map(|n| Some(2.0 + 50.0 * f64::from(n))).collect();
/// let judgement = judge(&queueing, 10.0);
/// assert_eq!((judgement.slope, judgement.verdict), (Some(5.0), Verdict::Rising));
/// ```
pub fn judge(latencies: &[Option<f64>], step: f64) -> Judgement {
    let seen: Vec<(f64, f64)> = (0u32..)
        .zip(latencies)
        .filter_map(|(place, latency)| Some((f64::from(place) * step, (*latency)?)))
        .collect();
    let missing = latencies.len() - seen.len();
    let slope = slope(&seen);
    let trend = trend(&seen);
    let verdict = if missing > 0 || seen.len() < LEAST_WINDOWS {
        Verdict::Missing
    } else if trend > SURE && slope.is_some_and(|slope| slope > STEEP * 1e3) {
        Verdict::Rising
    } else {
        Verdict::Sustainable
    };
    Judgement { slope, trend, missing, verdict }
}

fn pairs(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let pairs =
        points.iter().enumerate().flat_map(|(n, a)| points[n + 1..].iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| (b.0 - a.0, b.1 - a.1))
}

/// The median of the slopes of all pairs.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes: Vec<f64> = pairs(points).map(|(x, y)| y / x).collect();
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    if slopes.len() % 2 == 1 {
        return Some(slopes[middle]);
    }
    (middle > 0).then(|| (slopes[middle - 1] + slopes[middle]) / 2.0)
}

/// Kendall's statistic as a number of standard deviations, with the corrections for continuity and for
/// equal latencies.
fn trend(points: &[(f64, f64)]) -> f64 {
    let score: i64 = pairs(points)
        .map(|(_, y)| {
            if y > 0.0 {
                1
            } else if y < 0.0 {
                -1
            } else {
                0
            }
        })
        .sum();
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let mut sorted: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    sorted.sort_by(f64::total_cmp);
    let equal: f64 = sorted.chunk_by(|a, b| a == b).map(|run| spread(run.len() as f64)).sum();
    let deviation = (spread(points.len() as f64) - equal).sqrt();
    let score = score as f64;
    if deviation > 0.0 { (score.abs() - 1.0).max(0.0).copysign(score) / deviation } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between 0 and 1 that look like chance.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn windows(latency: impl FnMut(usize) -> f64) -> Vec<Option<f64>> {
        (0..30).map(latency).map(Some).collect()
    }

    #[test]
    fn noise_is_no_slope() {
        let wrong = (0..1000).filter(|seed| {
            let mut noise = noise(*seed);
            let latencies = windows(|_| 5.0 + 200.0 * noise() * noise());
            !judge(&latencies, 1.0).is_sustainable()
        });
        let wrong = wrong.count();
        assert!(wrong <= 20, "about one in a hundred may look like a slope, and not {wrong}");
    }

    #[test]
    fn a_program_that_is_a_little_too_slow_is_found_out() {
        // One percent too slow, in windows of a second: 10 ms more in each, with half as much noise.
        for seed in 0..100 {
            let mut noise = noise(seed);
            let judgement = judge(&windows(|n| 3.0 + 10.0 * n as f64 + 5.0 * noise()), 1.0);
            assert_eq!(judgement.verdict, Verdict::Rising, "{judgement:?}");
            let slope = judgement.slope.unwrap();
            assert!((9.0..11.0).contains(&slope), "{slope}");
        }
    }

    #[test]
    fn windows_that_were_held_up_are_no_slope() {
        let mut noise = noise(3);
        let held_up = |n| if (22..27).contains(&n) { 4000.0 } else { 0.0 };
        let latencies = windows(|n| 5.0 + noise() + held_up(n));
        assert!(judge(&latencies, 10.0).is_sustainable());
    }

    #[test]
    fn a_steady_rise_that_does_not_matter_is_sustained() {
        // Half a millisecond in each window of a second.
        let judgement = judge(&windows(|n| 1.0 + 0.5 * n as f64), 1.0);
        assert!(judgement.trend > 5.0 && judgement.is_sustainable(), "{judgement:?}");
        assert_eq!(judgement.slope, Some(0.5));
    }

    #[test]
    fn falling_latency_is_sustained() {
        let judgement = judge(&windows(|n| 900.0 - 20.0 * n as f64), 1.0);
        assert!(judgement.trend < -5.0 && judgement.is_sustainable(), "{judgement:?}");
    }

    #[test]
    fn no_window_may_be_missing() {
        for missing in [0, 13, 29] {
            let mut latencies = windows(|_| 5.0);
            latencies[missing] = None;
            let judgement = judge(&latencies, 1.0);
            assert_eq!((judgement.missing, judgement.verdict), (1, Verdict::Missing));
        }
        let judgement = judge(&[None; 30], 1.0);
        let expected =
            Judgement { slope: None, trend: 0.0, missing: 30, verdict: Verdict::Missing };
        assert_eq!(judgement, expected);
    }

    #[test]
    fn slope_and_trend_by_hand() {
        // Slopes of the pairs: 1, 2, 1, 3, 1, -1; their median is 1.
        let points = [(0.0, 0.0), (1.0, 1.0), (2.0, 4.0), (3.0, 3.0)];
        assert_eq!(slope(&points), Some(1.0));
        // Five pairs rise and one falls: (4 - 1) / sqrt(4 * 3 * 13 / 18).
        assert!((trend(&points) - 3.0 / (156.0f64 / 18.0).sqrt()).abs() < 1e-12);
        // All the same: no trend, and no division by nothing.
        assert_eq!(trend(&[(0.0, 2.0), (1.0, 2.0), (2.0, 2.0)]), 0.0);
        assert_eq!(slope(&[(0.0, 2.0)]), None);
    }

    #[test]
    fn the_least_number_of_windows_can_show_a_rise() {
        let rising: Vec<_> = (0..LEAST_WINDOWS).map(|n| Some(10.0 * n as f64)).collect();
        assert_eq!(judge(&rising, 1.0).verdict, Verdict::Rising);
        assert_eq!(judge(&rising[1..], 1.0).verdict, Verdict::Missing);
    }
}
