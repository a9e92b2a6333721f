//! What statistics say of the clocks of several hosts.

use super::stats::seconds;
use crate::data::Data;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How far the clock of a host is ahead of that of the host whose statistics these are, estimated from messages between them.
///
/// The clocks are those of the machines, as time of day, read when the processes started and advanced by a clock that never
/// jumps: on one machine the offset is about 0. The estimate is the one with the least uncertainty of the last eight exchanges,
/// in the manner of NTP. After some at the start, hosts exchange times about as often as heartbeats: four times in
/// [`lost_after`](crate::config::HostConfig::lost_after).
///
/// A large offset does not make latencies wrong, which are corrected by it. But times of day that the program reads itself on
/// two hosts differ by so much, and so do windows by processing time.
///
/// [`Display`](fmt::Display) shows it as in `clock offset to host 1: +1.204 ms ± 0.031 ms`.
///
/// ```
/// let json = r#"{"host": 1, "nanos": 1204000, "uncertainty": 0.000031}"#;
/// let offset: thalweg::metrics::ClockOffset = serde_json::from_str(json).unwrap();
/// assert_eq!(offset.to_string(), "clock offset to host 1: +1.204 ms ± 0.031 ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Data)]
#[non_exhaustive]
pub struct ClockOffset {
    /// The number of the other host.
    pub host: usize,
    /// Its clock minus that of the host that has estimated it, in nanoseconds; negative if it is behind.
    pub nanos: i64,
    /// The most by which that may be wrong: half of the round trip of the messages, and 15 ppm of the time since then for the
    /// drift of clocks. Clocks that are not synchronised by NTP or the like may drift more.
    #[serde(with = "seconds")]
    pub uncertainty: Duration,
}

impl ClockOffset {
    pub(crate) fn new(host: usize, nanos: i64, uncertainty: Duration) -> Self {
        Self { host, nanos, uncertainty }
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, nanos, uncertainty } = self;
        let offset = *nanos as f64 / 1e6;
        // Rounded up: it is a bound.
        let uncertainty = uncertainty.as_nanos().div_ceil(1000) as f64 / 1e3;
        write!(f, "clock offset to host {host}: {offset:+.3} ms ± {uncertainty:.3} ms")
    }
}

/// The batches of other hosts whose time in flight was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Data)]
pub(crate) struct AcrossHosts {
    pub(crate) batches: u64,
    /// The most by which one of these times may be wrong.
    pub(crate) uncertainty: Duration,
}

impl AcrossHosts {
    pub(crate) fn add(&mut self, other: Self) {
        self.batches += other.batches;
        self.uncertainty = self.uncertainty.max(other.uncertainty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_read_well_and_bounds_are_rounded_up() {
        let shown = |nanos, uncertainty| {
            ClockOffset::new(3, nanos, Duration::from_nanos(uncertainty)).to_string()
        };
        assert_eq!(shown(0, 0), "clock offset to host 3: +0.000 ms ± 0.000 ms");
        assert_eq!(shown(-1_500, 1), "clock offset to host 3: -0.002 ms ± 0.001 ms");
        let hour = "clock offset to host 3: +3600000.000 ms ± 0.031 ms";
        assert_eq!(shown(3_600_000_000_000, 30_001), hour);
        let _ = shown(i64::MIN, u64::MAX);
    }
}
