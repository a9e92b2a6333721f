//! Stalls and their causes: windows that receive records and emit no results, and operators that wait for the
//! program. Decided from the statistics of a job at two moments.

use super::show;
use super::stats::{Awaits, OperatorStats, Stats};
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// An operator that has taken records in between two looks, and has held windows open without a result, or
/// that has waited for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Its place among the operators.
    operator: usize,
    /// Whether event time has stood still all the while; else windows are just that long.
    held: bool,
    /// What is to be said of it.
    pub(crate) said: String,
}

/// The operators that stood still between two looks, which were so far apart.
pub(crate) fn stalls(before: &Stats, now: &Stats, apart: Duration) -> Vec<Stall> {
    let pairs = before.operators.iter().zip(&now.operators).enumerate();
    let held = now
        .operators
        .iter()
        .filter_map(|op| op.watermark.as_ref())
        .any(|mark| mark.held_by.is_some() && mark.still >= apart);
    // A source without records is nothing special where other sources have some.
    let anything = before.operators.iter().zip(&now.operators).any(|(a, b)| has_moved(a, b));
    let stall = |(operator, (before, after))| match stall(before, after, now) {
        Some(said) => Some(Stall { operator, held, said }),
        None => {
            let said = awaits(before, after, anything, apart)?;
            Some(Stall { operator, held: false, said })
        }
    };
    pairs.filter_map(stall).collect()
}

fn has_moved(before: &OperatorStats, after: &OperatorStats) -> bool {
    (before.records_in, before.records_out) != (after.records_in, after.records_out)
}

/// The warning about an operator that waits for the program at both moments.
fn awaits(
    before: &OperatorStats,
    after: &OperatorStats,
    anything_moved: bool,
    apart: Duration,
) -> Option<String> {
    let (label, apart) = (after.label(), show::span(apart));
    match (before.awaits?, after.awaits?) {
        (Awaits::Reader, Awaits::Reader) if !has_moved(before, after) => Some(format!(
            "{label}: nobody has read what it returned for {apart}, and the job waits for that: read \
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

/// The report about a task of these operators that has been in one turn for longer than this.
pub(crate) fn blocked(operators: &str, patience: Duration) -> String {
    let patience = show::span(patience);
    format!(
        "{operators}: a task has been in one turn for more than {patience}: an iterator or a closure blocks, or computes \
         for that long, and meanwhile the task neither reads nor sends, and cannot be cancelled; send what has to be \
         waited for through a `channel`, or call it by `map_blocking`"
    )
}

/// Which stalls have been reported: those of event time are reported again, all others once.
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
    let label = after.label();
    let mut said = format!(
        "{label}: records arrive and no window has ended; the first that is open ends at {end}"
    );
    for op in &now.operators {
        let Some(mark) = &op.watermark else { continue };
        let why = mark.holding(Duration::ZERO).unwrap_or_else(|| "its input has ended".to_owned());
        said += &format!("; {}: {why}", op.label());
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

    #[test]
    fn who_waits_for_the_program_says_so_once() {
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
        let said = found((1, reader), (2, reader));
        assert!(said[0].said.starts_with("to_channel (main.rs:3): nobody has read "), "{said:?}");
        assert!(said[0].said.contains(" for 10.00 s, "), "{said:?}");
        let mut told = Told::default();
        assert_eq!([1, 2].map(|_| told.worth(found((1, reader), (1, reader))).len()), [1, 0]);
        assert!(found((1, None), (1, reader)).is_empty(), "it has just begun to wait");

        let senders = Some(Awaits::Senders(2));
        let said = found((1, senders), (1, senders));
        assert!(said[0].said.contains("nothing has been sent for 10.00 s"), "{said:?}");
        assert!(said[0].said.contains("there are 2"), "{said:?}");
        assert!(found((1, senders), (2, senders)).is_empty(), "the job has other records");
    }
}
