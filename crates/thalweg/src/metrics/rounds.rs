//! Statistics of the rounds of loops.

use super::stats::seconds;
use super::{Histogram, Latency, show};
use crate::clock::Nanos;
use crate::data::Data;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The most entries kept: beyond that, neighbouring rounds are merged into one entry.
const KEPT: usize = 128;
/// The number of lines in the printed table.
const LINES: usize = 10;

/// Statistics of the rounds of a loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Data)]
#[non_exhaustive]
pub struct LoopStats {
    /// Rounds that have ended; of all runs, if the loop is nested in another.
    pub rounds: u64,
    /// Rounds of the current or last run.
    pub of_run: u64,
    /// The greatest number of rounds that a run may have.
    pub most: u64,
    /// How long a round took.
    pub round: Latency,
    /// The rounds in order, in at most 128 entries: if there are more, each entry stands for several neighbours.
    pub parts: Vec<Rounds>,
}

/// Consecutive rounds of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Data)]
#[non_exhaustive]
pub struct Rounds {
    /// The number of rounds.
    pub count: u64,
    /// Their total duration.
    #[serde(with = "seconds")]
    pub took: Duration,
    /// Records that the body emitted.
    pub records_out: u64,
    /// Records fed back to the next round.
    pub fed_back: u64,
}

impl Rounds {
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            took: self.took + other.took,
            records_out: self.records_out + other.records_out,
            fed_back: self.fed_back + other.fed_back,
        }
    }
}

/// Records the rounds of a loop.
#[derive(Default)]
pub(crate) struct RoundLog {
    spans: Histogram,
    parts: Vec<Rounds>,
    /// The number of rounds in each entry but the last.
    each: u64,
    rounds: u64,
    of_run: u64,
    /// When the current round began.
    since: Nanos,
}

impl RoundLog {
    /// Begins a run of rounds.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.since = now;
        self.of_run = 0;
    }

    /// Ends a round, in which the body emitted `records_out` records and `fed_back` were fed back.
    pub(crate) fn end_round(&mut self, now: Nanos, records_out: u64, fed_back: u64) {
        let took = Duration::from_nanos(now.saturating_sub(self.since));
        self.since = now;
        self.spans.record(took);
        self.rounds += 1;
        self.of_run += 1;
        let round = Rounds { count: 1, took, records_out, fed_back };
        if let Some(last) = self.parts.last_mut().filter(|last| last.count < self.each) {
            *last = last.and(round);
            return;
        }
        if self.parts.len() == KEPT {
            self.each = 2 * self.each.max(1);
            self.parts = merge_neighbours(&self.parts, 2).collect();
        }
        self.parts.push(round);
    }

    pub(crate) fn stats(&self, most: u64) -> LoopStats {
        let Self { spans, parts, rounds, of_run, .. } = self;
        let round = Latency::from(spans);
        LoopStats { rounds: *rounds, of_run: *of_run, most, round, parts: parts.clone() }
    }
}

/// Merges every `many` neighbouring entries into one.
fn merge_neighbours(parts: &[Rounds], many: usize) -> impl Iterator<Item = Rounds> + '_ {
    parts.chunks(many).map(|some| some.iter().copied().fold(Rounds::default(), Rounds::and))
}

/// The table that `--stats` prints of a loop.
impl fmt::Display for LoopStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { p50, p99, max, .. } = self.round;
        let [p50, p99, max] = [p50, p99, max].map(show::span);
        let rounds = show::count(self.rounds);
        writeln!(f, "{rounds} rounds, p50 {p50}, p99 {p99}, longest {max}")?;
        writeln!(f, "  {:>17}  {:>10}  {:>14}  {:>14}", "rounds", "each took", "out", "fed back")?;
        let mut first = 1;
        for part in merge_neighbours(&self.parts, self.parts.len().div_ceil(LINES).max(1)) {
            let last = first + part.count - 1;
            let which =
                if first == last { first.to_string() } else { format!("{first} to {last}") };
            let each = show::span(part.took.div_f64(part.count.max(1) as f64));
            let [out, fed] = [part.records_out, part.fed_back].map(show::count);
            writeln!(f, "  {which:>17}  {each:>10}  {out:>14}  {fed:>14}")?;
            first = last + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rounds_are_merged_into_few_entries() {
        let mut log = RoundLog::default();
        log.begin(1000);
        for round in 1..=1000 {
            log.end_round(1000 + 10 * round, 3, round);
        }
        let stats = log.stats(2000);
        assert_eq!((stats.rounds, stats.of_run, stats.most), (1000, 1000, 2000));
        assert!(stats.parts.len() <= KEPT && stats.parts.len() > KEPT / 3, "{}", stats.parts.len());
        let all = merge_neighbours(&stats.parts, usize::MAX).next().unwrap_or_default();
        let expected = Rounds {
            count: 1000,
            took: Duration::from_micros(10),
            records_out: 3000,
            fed_back: 500_500,
        };
        assert_eq!(all, expected);
        let each = stats.parts[0].count;
        let (last, others) = stats.parts.split_last().unwrap();
        assert!(others.iter().all(|part| part.count == each) && last.count <= each);
        assert_eq!(stats.to_string().lines().count(), 2 + LINES);
    }

    #[test]
    fn few_rounds_have_an_entry_each() {
        let mut log = RoundLog::default();
        log.begin(0);
        log.end_round(2_000_000, 5, 1);
        log.end_round(3_000_000, 1, 0);
        let table = log.stats(2).to_string();
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["1", "2.0", "ms", "5", "1"]);
        assert_eq!(lines[3], ["2", "1.0", "ms", "1", "0"]);
    }

    #[test]
    fn a_nested_loop_counts_each_run() {
        let mut log = RoundLog::default();
        log.begin(0);
        log.end_round(5, 0, 0);
        log.begin(100);
        log.end_round(107, 0, 0);
        let stats = log.stats(9);
        assert_eq!((stats.rounds, stats.of_run), (2, 1));
        assert_eq!(stats.parts[1].took, Duration::from_nanos(7));
    }
}
