//! Detection of stalls: windows that receive records and emit no results, and operators that wait for the program.
//! Computed from the statistics of a job at two times.

use super::show;
use super::stats::{Awaits, OperatorStats, Stats};
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// An operator that has received records between two times, while its windows stayed open without a result, or that
/// has waited for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Its index among the operators.
    operator: usize,
    /// Whether event time has not advanced; otherwise the windows are just long.
    time_stalled: bool,
    /// The text of the warning.
    pub(crate) warning: String,
}

/// The operators that stalled between two times, which are `apart`.
pub(crate) fn stalls(before: &Stats, now: &Stats, apart: Duration) -> Vec<Stall> {
    let pairs = before.operators.iter().zip(&now.operators).enumerate();
    let time_stalled = now
        .operators
        .iter()
        .filter_map(|op| op.watermark.as_ref())
        .any(|mark| mark.held_by.is_some() && mark.still >= apart);
    // A source without records is normal if other sources have some.
    let anything = before.operators.iter().zip(&now.operators).any(|(a, b)| has_moved(a, b));
    let stall = |(operator, (before, after))| match stall(before, after, now) {
        Some(warning) => Some(Stall { operator, time_stalled, warning }),
        None => {
            let warning = awaits(before, after, anything, apart)?;
            Some(Stall { operator, time_stalled: false, warning })
        }
    };
    pairs.filter_map(stall).collect()
}

fn has_moved(before: &OperatorStats, after: &OperatorStats) -> bool {
    (before.records_in, before.records_out) != (after.records_in, after.records_out)
}

/// The warning about an operator that waits for the program at both times.
fn awaits(
    before: &OperatorStats,
    after: &OperatorStats,
    anything_moved: bool,
    apart: Duration,
) -> Option<String> {
    let (label, apart) = (after.label(), show::span(apart));
    match (before.awaits?, after.awaits?) {
        (Awaits::Reader, Awaits::Reader) if !has_moved(before, after) => Some(format!(
            "{label}: nothing has been read from what it returned for {apart}, and the job waits for that: read \
             while the job runs, which `start` is for rather than `run`, or in another thread, or drop it"
        )),
        (Awaits::Senders(_), Awaits::Senders(senders)) if !anything_moved => Some(format!(
            "{label}: nothing has been sent for {apart}, and the job goes on until the last sender is \
             dropped, of which there {}: a thread that runs the job while it holds one waits for itself",
            if senders == 1 { "is 1".to_owned() } else { format!("are {senders}") }
        )),
        _ => None,
    }
}

/// The warning about a task of these operators whose turn has lasted for longer than `patience`.
pub(crate) fn blocked(operators: &str, patience: Duration) -> String {
    let patience = show::span(patience);
    format!(
        "{operators}: a task has been in one turn for more than {patience}: an iterator or a closure blocks, or computes \
         for that long, and meanwhile the task neither reads nor sends, and cannot be cancelled; send what has to be \
         waited for through a `channel`, or call it by `map_blocking`"
    )
}

/// The stalls that were reported. Stalls of event time are reported again, all others once.
#[derive(Default)]
pub(crate) struct ReportedStalls {
    operators: BTreeSet<usize>,
}

impl ReportedStalls {
    /// Returns the stalls to report now.
    pub(crate) fn new_stalls(&mut self, mut found: Vec<Stall>) -> Vec<Stall> {
        found.retain(|stall| self.operators.insert(stall.operator) || stall.time_stalled);
        found
    }
}

fn stall(before: &OperatorStats, after: &OperatorStats, now: &Stats) -> Option<String> {
    let end = Timestamp::from_micros(after.open_until?);
    if after.records_out != before.records_out || after.records_in <= before.records_in {
        return None;
    }
    let label = after.label();
    let mut warning = format!(
        "{label}: records arrive and no window has ended; the first that is open ends at {end}"
    );
    for op in &now.operators {
        let Some(mark) = &op.watermark else { continue };
        let why = mark.holding(Duration::ZERO).unwrap_or_else(|| "its input has ended".to_owned());
        warning += &format!("; {}: {why}", op.label());
    }
    Some(warning)
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
                split: None,
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
    fn a_stalled_window_names_the_source_that_holds_it() {
        let open = Some(10_000_000);
        let stalls = |before: &Stats, after: &Stats| -> Vec<String> {
            let found = stalls(before, after, Duration::from_secs(10));
            found.into_iter().map(|stall| stall.warning).collect()
        };
        let warnings = stalls(&look(10, 4, open), &look(20, 4, open));
        assert_eq!(
            warnings,
            [
                "window (main.rs:2): records arrive and no window has ended; the first that is open ends at \
             1970-01-01T00:00:10Z; assign_timestamps (main.rs:1): the watermark stands at \
             1970-01-01T00:00:05Z: partition 3 has had nothing that moves it for 11.00 s, and is 4.00 s \
             behind the one that has come furthest"
            ]
        );
        assert!(stalls(&look(10, 4, open), &look(20, 5, open)).is_empty(), "there is a result");
        assert!(stalls(&look(10, 4, open), &look(10, 4, open)).is_empty(), "nothing arrives");
        assert!(stalls(&look(10, 4, None), &look(20, 4, None)).is_empty(), "nothing is open");
    }

    #[test]
    fn stalled_time_is_reported_again_and_long_windows_once() {
        let open = Some(10_000_000);
        let found =
            |apart| stalls(&look(10, 4, open), &look(20, 4, open), Duration::from_secs(apart));
        let mut reported = ReportedStalls::default();
        assert_eq!([1, 2].map(|_| reported.new_stalls(found(10)).len()), [1, 1]);
        // The watermark advanced eleven seconds ago, between two times that are twelve seconds apart.
        let mut reported = ReportedStalls::default();
        assert_eq!([1, 2].map(|_| reported.new_stalls(found(12)).len()), [1, 0]);
        assert_eq!(reported.new_stalls(found(10)).len(), 1);
    }

    #[test]
    fn waiting_for_the_program_is_reported_once() {
        let look = |moved: u64, awaits| {
            let waiting = OperatorStats {
                name: "to_channel".to_owned(),
                place: "main.rs:3".to_owned(),
                awaits,
                ..OperatorStats::default()
            };
            let other = OperatorStats { records_in: Some(moved), ..OperatorStats::default() };
            Stats { operators: vec![waiting, other], ..Stats::default() }
        };
        let found = |before: (u64, _), after: (u64, _)| {
            stalls(&look(before.0, before.1), &look(after.0, after.1), Duration::from_secs(10))
        };
        let reader = Some(Awaits::Reader);
        let warnings = found((1, reader), (2, reader));
        assert!(
            warnings[0].warning.starts_with("to_channel (main.rs:3): nothing has been read from "),
            "{warnings:?}"
        );
        assert!(warnings[0].warning.contains(" for 10.00 s, "), "{warnings:?}");
        let mut reported = ReportedStalls::default();
        assert_eq!(
            [1, 2].map(|_| reported.new_stalls(found((1, reader), (1, reader))).len()),
            [1, 0]
        );
        assert!(found((1, None), (1, reader)).is_empty(), "it has just begun to wait");

        let senders = Some(Awaits::Senders(2));
        let warnings = found((1, senders), (1, senders));
        assert!(warnings[0].warning.contains("nothing has been sent for 10.00 s"), "{warnings:?}");
        assert!(warnings[0].warning.contains("there are 2"), "{warnings:?}");
        assert!(found((1, senders), (2, senders)).is_empty(), "the job has other records");
    }
}
