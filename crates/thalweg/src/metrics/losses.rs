//! Warnings about late records that a job has dropped.

use super::show;
use super::stats::{OperatorStats, Stats};

/// A warning for each operator that has dropped late records: its name, how many they were, and what to do.
pub(crate) fn losses(stats: &Stats) -> Vec<String> {
    stats.operators.iter().filter(|op| op.late_dropped > 0).map(loss).collect()
}

fn loss(op: &OperatorStats) -> String {
    let (label, records) = (op.label(), show::count(op.late_dropped));
    let were = if op.late_dropped == 1 { "record was" } else { "records were" };
    format!(
        "{label}: {records} late {were} dropped; assign timestamps before records are shuffled, allow for \
         more disorder there, or, for windows, for lateness (`allowed_lateness`), or take late records from a \
         stream of their own (`late_output`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_that_drops_is_named() {
        let op = |name: &str, late_records, late_dropped| OperatorStats {
            name: name.to_owned(),
            place: "main.rs:3".to_owned(),
            late_records,
            late_dropped,
            ..OperatorStats::default()
        };
        let operators = vec![op("late_output", 5, 0), op("window", 1, 1), op("join", 4000, 3000)];
        let stats = Stats { operators, ..Stats::default() };
        assert_eq!(stats.late_dropped(), 3001);
        let warnings = losses(&stats);
        assert_eq!(warnings.len(), 2);
        assert!(
            warnings[0]
                .starts_with("window (main.rs:3): 1 late record was dropped; assign timestamps")
        );
        assert!(
            warnings[1].starts_with("join (main.rs:3): 3,000 late records were dropped; "),
            "{warnings:?}"
        );
    }
}
