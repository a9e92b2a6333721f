//! Splits without records do not hold event time back once they are idle; those whose records have not come do.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::config::{Config, Scheduler};
use thalweg::connector::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, JobControl, Result};

const SECOND: Duration = Duration::from_secs(1);
/// How many records each of the two splits has.
const RECORDS: u64 = 60;

/// What is known of the records that come late.
#[derive(Clone, Copy, Debug)]
enum Known {
    Backlog,
    /// That there may be some.
    Away,
    /// The reader says that there are none.
    Nothing,
}

/// Two splits with a record of each second. Those of one come each second, and those of the other at once: the first two as they are
/// due, and all others behind the last of the other split.
struct Delayed(Known);

/// Emits seconds from one on, each when it is due.
struct Reader {
    next: u64,
    /// The second in which a record is due.
    due: fn(u64) -> u64,
    /// That have passed.
    seconds: u64,
    known: Known,
    ends: bool,
}

impl SplitSource for Delayed {
    type Item = u64;
    type Split = String;
    type Position = u64;
    type Reader = Reader;

    fn describe(&self) -> String {
        "delayed numbers".to_owned()
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<String>> {
        Ok(["delayed", "punctual"].map(str::to_owned).to_vec())
    }

    fn open(&self, split: &String, _: Option<u64>, _: &SplitContext) -> Result<Reader> {
        let is_delayed = split == "delayed";
        let due: fn(u64) -> u64 = match is_delayed {
            true => |next| if next > 1 { RECORDS + 5 } else { next },
            false => |next| next,
        };
        let known = if is_delayed { self.0 } else { Known::Nothing };
        Ok(Reader { next: 0, due, seconds: 0, known, ends: true })
    }
}

impl SplitReader for Reader {
    type Item = u64;
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<u64>) -> Result<ReadStatus> {
        if self.ends && self.next == RECORDS {
            return Ok(ReadStatus::End);
        }
        if self.next == RECORDS || self.seconds < (self.due)(self.next) {
            self.seconds += 1;
            return Ok(ReadStatus::PendingFor(SECOND));
        }
        out.emit(self.next);
        self.next += 1;
        Ok(ReadStatus::More)
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn backlog(&self) -> Option<u64> {
        match self.known {
            Known::Backlog => Some(RECORDS - self.next),
            Known::Away => None,
            Known::Nothing => Some(0),
        }
    }

    fn is_caught_up(&self) -> bool {
        match self.known {
            Known::Away => self.next == RECORDS,
            Known::Backlog | Known::Nothing => self.backlog() == Some(0),
        }
    }
}

fn simulated(cores: usize) -> Environment {
    let mut config = Config::default();
    config.scheduler = Scheduler::Deterministic { seed: 1 };
    config.cores = cores.try_into().unwrap();
    Environment::with_config(config)
}

/// The records in windows, and those that are too late for them. A watermark is sent at most once in that time.
fn counted(known: Known, cores: usize, interval: Duration) -> (u64, u64) {
    let env = simulated(cores);
    let watermarks = Watermarks::monotonous().idle_after(5 * SECOND).at_most_every(interval);
    let counts = env
        .read(Delayed(known))
        .assign_timestamps(|second| Timestamp::from_secs(*second as i64), watermarks)
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(SECOND))
        .count();
    let counts = counts.unkey().map(|((), window)| window.value).to_channel();
    let stats = env.start().unwrap().wait().unwrap();
    let late = stats.operators.iter().map(|op| op.late_records).sum();
    (counts.map(|count| count.unwrap()).sum(), late)
}

#[test]
fn a_split_whose_records_have_not_come_is_not_idle() {
    // With a task for both splits, and one for each.
    for cores in [1, 2] {
        for known in [Known::Backlog, Known::Away] {
            let counted = counted(known, cores, Duration::ZERO);
            assert_eq!(counted, (2 * RECORDS, 0), "{known:?}, {cores} tasks");
        }
        // Also if the last watermark before is held back for longer than that.
        for interval in [Duration::ZERO, 8 * SECOND] {
            let (counts, late) = counted(Known::Nothing, cores, interval);
            assert!(late > RECORDS / 2 && counts + late == 2 * RECORDS, "{counts}, {late}");
        }
    }
}

/// A split with a record each second, and one that is found after ten and has its records, from then on, five seconds later.
#[derive(Default)]
struct Added(AtomicU64);

impl SplitSource for Added {
    type Item = u64;
    type Split = String;
    type Position = u64;
    type Reader = Reader;

    fn describe(&self) -> String {
        "numbers of splits that are added".to_owned()
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn look_again_after(&self) -> Option<Duration> {
        Some(SECOND)
    }

    fn splits(&self) -> Result<Vec<String>> {
        let all = if self.0.fetch_add(1, Ordering::Relaxed) < 10 { 1 } else { 2 };
        Ok(["first", "added"][..all].iter().map(|name| (*name).to_owned()).collect())
    }

    fn open(&self, split: &String, _: Option<u64>, _: &SplitContext) -> Result<Reader> {
        Ok(match split.as_str() {
            "added" => Reader { next: 10, due: |_| 5, seconds: 0, known: Known::Away, ends: false },
            _ => {
                Reader { next: 0, due: |next| next, seconds: 0, known: Known::Nothing, ends: false }
            }
        })
    }
}

#[test]
fn a_split_that_is_added_to_an_idle_task_holds_event_time_back() {
    static CONTROL: OnceLock<JobControl> = OnceLock::new();
    let env = simulated(2);
    let watermarks = Watermarks::monotonous().idle_after(8 * SECOND);
    let counts = env
        .read(Added::default())
        .inspect(|second| {
            if *second == RECORDS - 1 {
                CONTROL.wait().drain();
            }
        })
        .assign_timestamps(|second| Timestamp::from_secs(*second as i64), watermarks)
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(SECOND))
        .count();
    let counts = counts.unkey().map(|((), window)| window.value).to_channel();
    let job = env.start().unwrap();
    assert!(CONTROL.set(job.control()).is_ok());
    let stats = job.wait().unwrap();
    assert_eq!(stats.operators.iter().map(|op| op.late_records).sum::<u64>(), 0, "{stats}");
    assert!(counts.map(|count| count.unwrap()).sum::<u64>() > RECORDS);
}
