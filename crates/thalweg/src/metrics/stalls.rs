//! Windows that get records and give no results: who holds them back. Decided from two looks at a job.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

use super::stats::{OperatorStats, Stats};
use crate::time::Timestamp;
use std::time::Duration;

/// What is to be said of operators that have taken records in between two looks, and have held windows
/// open without a result.
pub(crate) fn stalls(before: &Stats, now: &Stats) -> Vec<String> {
    let pairs = before.operators.iter().zip(&now.operators);
    pairs.filter_map(|(before, after)| stall(before, after, now)).collect()
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
}
