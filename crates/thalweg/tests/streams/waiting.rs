//! What statistics say of sources that have nothing to read: whether records are there, and are fetched, or there are none.

use std::time::Duration;
use thalweg::config::Config;
use thalweg::connector::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
use thalweg::metrics::{SourceWaits, Stats};
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};

/// The pause before each record.
const PAUSE: Duration = Duration::from_millis(20);
const RECORDS: u64 = 10;

/// Splits with ten records, each of which comes after a pause.
struct Slow {
    /// Whether all records of a split were there before, as its readers know.
    splits: Vec<(&'static str, Option<bool>)>,
    /// Whether its splits end.
    ends: bool,
}

struct Reader {
    next: u64,
    is_due: bool,
    are_there: Option<bool>,
    ends: bool,
}

impl SplitSource for Slow {
    type Item = u64;
    type Split = String;
    type Position = u64;
    type Reader = Reader;

    fn describe(&self) -> String {
        "slow records".to_owned()
    }

    fn is_bounded(&self) -> bool {
        self.ends
    }

    fn splits(&self) -> Result<Vec<String>> {
        Ok(self.splits.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    fn open(&self, split: &String, from: Option<u64>, _: &SplitContext) -> Result<Reader> {
        let are_there = self.splits.iter().find(|(name, _)| name == split).unwrap().1;
        Ok(Reader { next: from.unwrap_or(0), is_due: false, are_there, ends: self.ends })
    }
}

impl SplitReader for Reader {
    type Item = u64;
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<u64>) -> Result<ReadStatus> {
        if self.next == RECORDS {
            return Ok(if self.ends { ReadStatus::End } else { ReadStatus::Pending });
        }
        self.is_due = !self.is_due;
        if self.is_due {
            return Ok(ReadStatus::PendingFor(PAUSE));
        }
        out.emit(self.next);
        self.next += 1;
        Ok(ReadStatus::More)
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn backlog(&self) -> Option<u64> {
        let there = self.are_there?;
        Some(if there { RECORDS - self.next } else { 0 })
    }
}

/// An environment with one task for a source.
fn environment() -> Environment {
    let mut config = Config::default();
    config.cores = 1.try_into().unwrap();
    Environment::with_config(config)
}

/// The statistics of a job that reads these splits in one task.
fn stats(splits: &[(&'static str, Option<bool>)], in_time: bool) -> Stats {
    let env = environment();
    let read = env.read(Slow { splits: splits.to_vec(), ends: true });
    let sum = if in_time {
        read.assign_timestamps(|n| Timestamp::from_secs(*n as i64), Watermarks::monotonous())
            .sum(|n| *n)
            .collect_one()
    } else {
        read.sum(|n| *n).collect_one()
    };
    let stats = env.start().unwrap().wait().unwrap();
    assert_eq!(sum.take().unwrap(), Some(45 * splits.len() as u64));
    stats
}

fn waits(stats: &Stats) -> &SourceWaits {
    stats.operators[0].waits.as_ref().expect("the readers know")
}

#[test]
fn a_slow_fetch_is_told_from_a_source_without_new_records() {
    for in_time in [false, true] {
        let of = stats(&[("orders/0", Some(true))], in_time);
        let fetch = waits(&of);
        // The pauses of ten records: of each, what is left once the task has got the processor.
        assert!(fetch.fetching.max > PAUSE, "{fetch:?}");
        assert_eq!(fetch.nothing_new.max, Duration::ZERO);
        assert_eq!((&*fetch.splits[0].split, fetch.splits[0].most_behind), ("orders/0", 10));
        assert_eq!((fetch.splits.len(), fetch.backlog), (1, 0));
        let of = stats(&[("orders/0", Some(false))], in_time);
        let none = waits(&of);
        assert!(none.nothing_new.max > PAUSE, "{none:?}");
        assert_eq!((none.fetching.max, none.splits.len()), (Duration::ZERO, 0));
    }
}

#[test]
fn the_splits_that_are_waited_for_are_named() {
    let splits = [("orders/0", Some(false)), ("orders/1", Some(true)), ("orders/2", None)];
    let of = stats(&splits, false);
    let some = waits(&of);
    assert!(some.fetching.max > Duration::ZERO, "{some:?}");
    assert_eq!(some.splits.iter().map(|split| &*split.split).collect::<Vec<_>>(), ["orders/1"]);
    // Of a source whose readers do not know, nothing is said.
    assert_eq!(stats(&[("orders/0", None)], false).operators[0].waits, None);
}

#[test]
fn a_running_job_and_one_that_was_drained_count_the_last_wait() {
    let env = environment();
    let source = Slow { splits: vec![("orders/0", Some(true))], ends: false };
    env.read(source).for_each(|_| ());
    let job = env.start().unwrap();
    let now = loop {
        let now = job.stats();
        if now.operators[0].records_out == Some(RECORDS) && waits(&now).nothing_new.max >= PAUSE {
            break now;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let before = waits(&now).clone();
    std::thread::sleep(PAUSE);
    job.drain();
    let end = job.wait().unwrap();
    assert!(waits(&end).nothing_new.max >= before.nothing_new.max + PAUSE, "{before:?} {end}");
    assert_eq!(waits(&end).fetching, before.fetching);
}
