//! Windows that get records and give no results: who holds them back. Decided from two looks at a job.

use super::stats::{OperatorStats, Stats};
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// An operator that has taken records in between two looks, and has held windows open without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Its place among the operators.
    operator: usize,
    /// Whether event time has stood still all the while; else windows are just that long.
    held: bool,
    /// What is to be said of it.
    pub(crate) said: String,
}

/// The operators that held windows open between two looks, which were so far apart.
pub(crate) fn stalls(before: &Stats, now: &Stats, apart: Duration) -> Vec<Stall> {
    let pairs = before.operators.iter().zip(&now.operators).enumerate();
    let held = now
        .operators
        .iter()
        .filter_map(|op| op.watermark.as_ref())
        .any(|mark| mark.held_by.is_some() && mark.still >= apart);
    let stall = |(operator, (before, after))| {
        let said = stall(before, after, now)?;
        Some(Stall { operator, held, said })
    };
    pairs.filter_map(stall).collect()
}

/// What is worth saying: of time that stands still again and again, of windows that are long once.
#[derive(Default)]
pub(crate) struct Told {
    operators: BTreeSet<usize>,
}

impl Told {
    /// Keeps what is to be said now.
    pub(crate) fn worth(&mut self, mut found: Vec<Stall>) -> Vec<Stall> {
        found.retain(|stall| self.operators.insert(stall.operator) || stall.held);
        found
    }
}

fn stall(before: &OperatorStats, after: &OperatorStats, now: &Stats) -> Option<String> {
    let end = Timestamp::from_micros(after.open_until?);
    if after.records_out != before.records_out || after.records_in <= before.records_in {
        return None;
    }
    let (name, place) = (&after.name, &after.place);
    let mut said = format!(
        "{name} ({place}): records arrive and no window has ended; the first that is open ends at {end}"
    );
    for op in &now.operators {
        let Some(mark) = &op.watermark else { continue };
        let why = mark.holding(Duration::ZERO).unwrap_or_else(|| "its input has ended".to_owned());
        said += &format!("; {} ({}): {why}", op.name, op.place);
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::WatermarkStats;

    fn look(records_in: u64, records_out: u64, open: Option<i64>) -> Stats {
        let assign = OperatorStats {
            name: "assign_timestamps".to_owned(),
            place: "main.rs:1".to_owned(),
            watermark: Some(WatermarkStats {
                least: Some(5_000_000),
                greatest: Some(9_000_000),
                held_by: Some(3),
                still: Duration::from_secs(11),
            }),
            ..OperatorStats::default()
        };
        let window = OperatorStats {
            name: "window".to_owned(),
            place: "main.rs:2".to_owned(),
            records_in: Some(records_in),
            records_out: Some(records_out),
            open_until: open,
            ..OperatorStats::default()
        };
        Stats { operators: vec![assign, window], ..Stats::default() }
    }

    #[test]
    fn a_window_that_waits_says_for_whom() {
        let open = Some(10_000_000);
        let stalls = |before: &Stats, after: &Stats| -> Vec<String> {
            let found = stalls(before, after, Duration::from_secs(10));
            found.into_iter().map(|stall| stall.said).collect()
        };
        let said = stalls(&look(10, 4, open), &look(20, 4, open));
        assert_eq!(
            said,
            [
                "window (main.rs:2): records arrive and no window has ended; the first that is open ends at \
             1970-01-01T00:00:10Z; assign_timestamps (main.rs:1): the watermark stands at \
             1970-01-01T00:00:05Z: partition 3 has had nothing that moves it for 11.00 s, and is 4.00 s \
             behind the one that has come furthest"
            ]
        );
        assert!(stalls(&look(10, 4, open), &look(20, 5, open)).is_empty(), "there was a result");
        assert!(stalls(&look(10, 4, open), &look(10, 4, open)).is_empty(), "nothing arrives");
        assert!(stalls(&look(10, 4, None), &look(20, 4, None)).is_empty(), "nothing is open");
    }

    #[test]
    fn time_that_stands_still_is_spoken_of_again_and_long_windows_once() {
        let open = Some(10_000_000);
        let found =
            |apart| stalls(&look(10, 4, open), &look(20, 4, open), Duration::from_secs(apart));
        let mut told = Told::default();
        assert_eq!([1, 2].map(|_| told.worth(found(10)).len()), [1, 1]);
        // The watermark moved eleven seconds ago, in between two looks that were twelve apart.
        let mut told = Told::default();
        assert_eq!([1, 2].map(|_| told.worth(found(12)).len()), [1, 0]);
        assert_eq!(told.worth(found(10)).len(), 1);
    }
}
