//! Jobs that go on from a checkpoint: the same records are late as without an interruption.

use super::super::{WatermarkGenerator, Watermarks};
use crate::checkpoint::{Checkpoints, Snapshot};
use crate::config::{BatchMode, Config, Scheduler};
use crate::data::{Data, Record};
use crate::io::Text;
use crate::io::connector::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
use crate::operators::window::EventTimeWindow;
use crate::stream::Boxed;
use crate::time::Timestamp;
use crate::{Environment, JobHandle, Output, Result, Stream};
use std::num::NonZeroUsize;
use std::time::Duration;

type Timed = Stream<Boxed<i64, Timestamp>>;

/// Begins a job that counts records in windows of ten seconds.
fn begin(
    timed: &dyn Fn(&Environment) -> Timed,
    cores: usize,
    restored: Option<Snapshot>,
) -> Result<(JobHandle, Output<Vec<u64>>)> {
    let env = Environment::with_config(Config {
        cores: NonZeroUsize::new(cores).unwrap(),
        scheduler: Scheduler::Deterministic { seed: 1 },
        turn: NonZeroUsize::MIN,
        batch: BatchMode::Fixed { size: 1 },
        ..Config::default()
    });
    let windows = timed(&env).window_all(EventTimeWindow::tumbling(Duration::from_secs(10)));
    let counts = windows.count().map(|pane| pane.value).collect::<Vec<_>>();
    Ok((env.start_with(Some(&Checkpoints::new(restored, None)))?, counts))
}

/// How many records are in windows, if each run is interrupted on so many cores after so many steps, and the last one, on `cores`, is
/// not. `None` if one of them had ended by then.
fn on_time(
    timed: &dyn Fn(&Environment) -> Timed,
    interrupted: &[(usize, usize)],
    cores: usize,
) -> Option<u64> {
    Some(goes_on(timed, interrupted, cores)?.unwrap())
}

/// As [`on_time`], where the last run may be refused.
fn goes_on(
    timed: &dyn Fn(&Environment) -> Timed,
    interrupted: &[(usize, usize)],
    cores: usize,
) -> Option<Result<u64>> {
    let mut restored = None;
    for &(cores, steps) in interrupted {
        let (job, _) = begin(timed, cores, restored.take()).unwrap();
        job.drive_for(steps);
        let taken = job.snapshot().unwrap();
        job.cancel();
        job.wait().err()?;
        restored = taken.map(|taken| taken.snapshot);
    }
    let last = begin(timed, cores, restored).map(|(job, counts)| {
        job.wait().unwrap();
        counts.take().unwrap().into_iter().sum()
    });
    Some(last)
}

/// So many records are on time, wherever the job is interrupted.
fn as_many_are_on_time(expected: u64, timed: &dyn Fn(&Environment) -> Timed) {
    assert_eq!(on_time(timed, &[], 1), Some(expected), "without an interruption");
    let all: Vec<_> = (0..400).map_while(|steps| on_time(timed, &[(1, steps)], 1)).collect();
    assert!(all.len() > 5, "it is interrupted at {} steps", all.len());
    assert!(all.iter().all(|count| *count == expected), "{all:?}");
}

/// So many records are on time, however many tasks there are in each run. The second one may be interrupted before it has read
/// anything.
fn as_many_are_on_time_in_several_tasks(expected: u64, timed: &dyn Fn(&Environment) -> Timed) {
    for [first, second, third] in [[2, 1, 3], [2, 3, 2], [3, 2, 1]] {
        assert_eq!(on_time(timed, &[], first), Some(expected), "on {first} cores");
        for again in [0, 4] {
            let run = |steps| on_time(timed, &[(first, steps), (second, again)], third);
            let all: Vec<_> = (0..400).step_by(3).map_while(run).collect();
            assert!(all.len() > 2, "it is interrupted at {} steps", all.len());
            let cores = [first, second, third];
            assert!(all.iter().all(|count| *count == expected), "{cores:?}, {again}: {all:?}");
        }
    }
}

/// So many records are on time after an interruption on `first` cores, on as many as `then`. Runs that are refused do not count.
fn chunks_are_on_time(
    expected: u64,
    (first, then): (usize, usize),
    timed: &dyn Fn(&Environment) -> Timed,
) {
    assert_eq!(on_time(timed, &[], first), Some(expected), "on {first} cores");
    let runs = (4..40).step_by(3).filter_map(|steps| goes_on(timed, &[(first, steps)], then));
    let all: Vec<_> = runs.filter_map(Result::ok).collect();
    assert!(all.len() > 2, "it goes on after {} interruptions", all.len());
    assert!(all.iter().all(|count| *count == expected), "{first} cores, then {then}: {all:?}");
}

/// Expects as much disorder as there has been.
#[derive(Clone, Default, Data)]
struct Learned {
    greatest: Option<Timestamp>,
    disorder: Duration,
}

impl<I: Record + ?Sized> WatermarkGenerator<I> for Learned {
    fn observe(&mut self, _: &I::Of<'_>, at: Timestamp) {
        let greatest = self.greatest.map_or(at, |greatest| greatest.max(at));
        self.greatest = Some(greatest);
        self.disorder = self.disorder.max(greatest.since(at));
    }

    fn watermark(&self) -> Option<Timestamp> {
        Some(self.greatest?.saturating_sub(self.disorder))
    }
}

/// Splits of records, each the seconds to wait for it and its second in event time.
struct Waiting(&'static [&'static [(u64, i64)]]);

struct WaitingReader {
    records: &'static [(u64, i64)],
    next: u64,
    has_waited: bool,
}

impl SplitSource for Waiting {
    type Item = i64;
    type Split = u32;
    type Position = u64;
    type Reader = WaitingReader;

    fn describe(&self) -> String {
        "some splits".to_owned()
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<u32>> {
        Ok((0..self.0.len() as u32).collect())
    }

    fn open(&self, split: &u32, from: Option<u64>, _: &SplitContext) -> Result<WaitingReader> {
        let records = self.0[*split as usize];
        Ok(WaitingReader { records, next: from.unwrap_or(0), has_waited: false })
    }
}

impl SplitReader for WaitingReader {
    type Item = i64;
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<i64>) -> Result<ReadStatus> {
        let Some((wait, second)) = self.records.get(self.next as usize) else {
            return Ok(ReadStatus::End);
        };
        if !self.has_waited {
            self.has_waited = true;
            return Ok(ReadStatus::PendingFor(Duration::from_secs(*wait)));
        }
        out.emit(*second);
        (self.next, self.has_waited) = (self.next + 1, false);
        Ok(ReadStatus::More)
    }

    fn position(&self) -> u64 {
        self.next
    }
}

/// The third record is late, and shows how far others may be behind from then on.
#[test]
fn what_a_generator_of_the_program_has_learned_is_not_forgotten() {
    let source =
        || Waiting(&[&[(1, 0), (1, 100), (1, 40), (1, 200), (1, 150), (1, 300), (1, 245)]]);
    let learned = || Watermarks::generated_by(Learned::default()).saved();
    let at = |second: &i64| Timestamp::from_secs(*second);
    as_many_are_on_time(6, &|env| env.read(source()).assign_timestamps(at, learned()).boxed());
    // Here the records are of no split.
    as_many_are_on_time(6, &|env| {
        env.read(source()).shuffle().assign_timestamps(at, learned()).boxed()
    });
}

/// The last record of the first split is behind what both splits had come to, which is known only if the greatest timestamp of
/// the first one is.
#[test]
fn each_split_has_the_watermark_that_it_had() {
    let source = || Waiting(&[&[(1, 100), (5, 60)], &[(1, 50), (2, 120)]]);
    let at = |second: &i64| Timestamp::from_secs(*second);
    let timed = |env: &Environment| {
        env.read(source()).assign_timestamps(at, Watermarks::monotonous()).boxed()
    };
    as_many_are_on_time(3, &timed);
    as_many_are_on_time_in_several_tasks(3, &timed);
}

/// A chunk of records of two parts of the source would have the timestamp of the part that is ahead.
#[test]
fn no_record_is_late_for_a_chunk_that_an_earlier_run_has_begun() {
    let latest = |chunk: &Vec<u64>| {
        Timestamp::from_secs(chunk.iter().copied().max().unwrap_or_default() as i64)
    };
    let monotonous = Watermarks::monotonous;
    // Tasks leave gaps, which are dealt out anew.
    let some = |chunk: Vec<u64>| {
        chunk.into_iter().filter(|n| n % 100 == 0).map(|n| n as i64).collect::<Vec<_>>()
    };
    chunks_are_on_time(1000, (2, 1), &|env| {
        let chunks = env.range(0..100_000).chunks(1000).forward();
        chunks.assign_timestamps(latest, monotonous()).flat_map(some).boxed()
    });
    // Tasks take other ranges of a file.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("numbers.txt");
    let lines: String = (0..2000).map(|n| format!("{n:04}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let of_lines = |env: &Environment| {
        let text = Text::new(&path).split_bytes(2500).block_bytes(100);
        let numbers = env.lines(text).map(|line| line.parse::<u64>().unwrap());
        let timed = numbers.chunks(7).forward().assign_timestamps(latest, monotonous());
        timed.flatten().map(|n| n as i64).boxed()
    };
    chunks_are_on_time(2000, (2, 1), &of_lines);
    chunks_are_on_time(2000, (2, 2), &of_lines);
    // The last iterator has ended, so that two tasks are enough.
    chunks_are_on_time(3003, (3, 2), &|env| {
        let numbers = env.parallel_iter(|task, _| {
            let begin = 10_000 * task as u64;
            begin..begin + if task == 2 { 3 } else { 1500 }
        });
        let timed = numbers.chunks(11).forward().assign_timestamps(latest, monotonous());
        timed.flatten().map(|n| n as i64).boxed()
    });
}

/// Another kind of generator begins anew, and so does one that was not saved.
#[test]
fn a_new_version_of_a_program_may_have_another_generator() {
    let source = || Waiting(&[&[(1, 0), (1, 100), (1, 200)]]);
    let at = |second: &i64| Timestamp::from_secs(*second);
    let learned = || Watermarks::generated_by(Learned::default());
    let kinds: [&dyn Fn(&Environment) -> Timed; 3] = [
        &|env| env.read(source()).assign_timestamps(at, Watermarks::monotonous()).boxed(),
        &|env| env.read(source()).assign_timestamps(at, learned().saved()).boxed(),
        &|env| env.read(source()).assign_timestamps(at, learned()).boxed(),
    ];
    for from in kinds {
        let (job, _) = begin(from, 1, None).unwrap();
        job.drive_for(3);
        let taken = job.snapshot().unwrap().expect("it goes on");
        job.cancel();
        let _ = job.wait();
        for to in kinds {
            let (job, counts) = begin(to, 1, Some(taken.snapshot.clone())).unwrap();
            job.wait().unwrap();
            assert_eq!(counts.take().unwrap(), [1, 1, 1]);
        }
    }
}
