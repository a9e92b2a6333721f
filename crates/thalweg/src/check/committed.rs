//! Jobs whose sinks commit, in series of runs that are interrupted: what is committed in the end is what a run commits that is not
//! interrupted, and each record once.

use super::interrupted::Restarted;
use super::{Answer, ENDED, Job, LITTLE_CREDIT, Records};
use crate::config::Config;
use crate::connector::{Prepared, Sink, SinkContext, SinkWriter};
use crate::io::RollingFiles;
use crate::stream::{Chain, Environment, Stream};
use crate::sync::{Mutex, lock};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A system outside of the job. What writers have prepared is there when it is flushed, and is shown once it is committed.
#[derive(Clone, Default)]
struct Ledger {
    entries: Arc<Mutex<Entries>>,
    /// Whether it shows a batch again that is committed again: a fault.
    repeats: bool,
}

#[derive(Default)]
struct Entries {
    /// The number of the last batch.
    last: u64,
    /// By number, the rows of a batch, and whether it is committed.
    batches: BTreeMap<u64, (Vec<u64>, bool)>,
    shown: Vec<u64>,
}

impl Ledger {
    /// What is shown, in order.
    fn rows(&self) -> Vec<u64> {
        let mut rows = lock(&self.entries).shown.clone();
        rows.sort_unstable();
        rows
    }
}

impl Sink for Ledger {
    type Item = u64;
    type Commit = u64;
    type Writer = Batch;

    fn describe(&self) -> String {
        "ledger".to_owned()
    }

    /// Throws away what is not committed: the checkpoint does not have it.
    fn open(&self, _: &SinkContext) -> Result<Batch> {
        lock(&self.entries).batches.retain(|_, (_, is_committed)| *is_committed);
        Ok(Batch { entries: Arc::clone(&self.entries), rows: Vec::new() })
    }

    fn commit(&self, number: &u64) -> Result<()> {
        let mut entries = lock(&self.entries);
        let Entries { batches, shown, .. } = &mut *entries;
        let Some((rows, is_committed)) = batches.get_mut(number) else {
            return Err(Error::new(ErrorKind::Io, format!("there is no batch {number}")));
        };
        if !*is_committed || self.repeats {
            shown.extend_from_slice(rows);
        }
        *is_committed = true;
        Ok(())
    }
}

/// The rows of a task that are not prepared yet.
struct Batch {
    entries: Arc<Mutex<Entries>>,
    rows: Vec<u64>,
}

impl SinkWriter for Batch {
    type Item = u64;
    type Commit = u64;

    fn write(&mut self, row: u64) -> Result<()> {
        self.rows.push(row);
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<u64>>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let mut entries = lock(&self.entries);
        entries.last += 1;
        let number = entries.last;
        drop(entries);
        let (entries, rows) = (Arc::clone(&self.entries), std::mem::take(&mut self.rows));
        Ok(Some(Prepared::new(number).after(move || {
            lock(&entries).batches.insert(number, (rows, false));
            Ok(())
        })))
    }
}

const KEYS: u64 = 7;
const RECORDS: u64 = 400;
/// Of series of runs.
const SEEDS: u64 = 24;

/// Numbers the records of each key, so that each number of a key comes once if its state and its sink agree.
fn numbered(env: &Environment) -> Stream<impl Chain<Item = u64> + use<>> {
    let by_key = env.range(0..RECORDS).shuffle().group_by(|n| n % KEYS);
    let numbered = by_key.stateful_map(0, |_, seen: &mut u64, _| {
        *seen += 1;
        *seen
    });
    numbered.unkey().map(|(key, number)| 1000 * key + number)
}

/// What it emits, in order.
fn expected() -> Vec<u64> {
    let of_key = |key: u64| (1..=(RECORDS - key).div_ceil(KEYS)).map(move |n| 1000 * key + n);
    (0..KEYS).flat_map(of_key).collect()
}

/// A job without records for the program.
fn no_records() -> Records {
    Box::new(|| Ok(Box::new(()) as Answer))
}

/// Runs the job again and again until it has ended well. Returns what the runs are, and whether there was more than one.
fn run(seed: u64, job: &Job<'_>) -> (String, bool) {
    let usual = |_| Config { credit: LITTLE_CREDIT, ..Config::default() };
    let series = Restarted::drawn_from(seed, usual);
    let ended = series.run(job, &mut |_| Ok(()));
    let shown = series.show();
    let why_not = ended.unwrap_or_else(|what| panic!("{shown}\n  {what}"));
    assert!(why_not.as_deref().is_none_or(|why| why == ENDED), "{shown}: {why_not:?}");
    (shown, why_not.is_none())
}

/// Writes to two ledgers: all that is numbered, and a part that ends long before.
/// Fails unless all of it is there once; returns whether there was more than one run.
fn is_committed_once(seed: u64, all: &Ledger, early: &Ledger) -> Result<bool, String> {
    let job = |env: &Environment| {
        numbered(env).write(all.clone());
        env.range(0..20).write(early.clone());
        no_records()
    };
    let (shown, goes_on) = run(seed, &job);
    let found = [all.rows(), early.rows()];
    let is_equal = found == [expected(), (0..20).collect()];
    is_equal.then_some(goes_on).ok_or_else(|| format!("{shown}\n  {found:?}"))
}

#[test]
fn what_runs_commit_that_are_interrupted_is_committed_once() {
    let goes_on = |seed: &u64| {
        let [all, early] = [Ledger::default(), Ledger::default()];
        let judged = is_committed_once(*seed, &all, &early);
        judged.unwrap_or_else(|what| panic!("seed {seed}: {what}"))
    };
    let going_on = (0..SEEDS).filter(goes_on).count();
    assert!(going_on >= SEEDS as usize / 6, "{going_on}");
}

#[test]
fn a_sink_that_shows_again_what_is_committed_again_is_found() {
    let is_found = |seed: u64| {
        let ledger = || Ledger { repeats: true, ..Ledger::default() };
        is_committed_once(seed, &ledger(), &ledger()).is_err()
    };
    assert!((0..SEEDS).any(is_found));
}

/// The lines of the files that are not hidden, in order.
fn lines(dir: &Path) -> Vec<u64> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_shown = |file: &Path| !file.file_name().unwrap().to_str().unwrap().starts_with('.');
    let texts = files.filter(|file| is_shown(file)).map(|file| fs::read_to_string(file).unwrap());
    let mut lines: Vec<u64> = Vec::new();
    texts.for_each(|text| lines.extend(text.lines().map(|line| line.parse::<u64>().unwrap())));
    lines.sort_unstable();
    lines
}

#[test]
fn rolling_files_of_runs_that_are_interrupted_have_each_record_once() {
    let mut going_on = 0;
    for seed in 0..SEEDS {
        let dir = tempfile::tempdir().unwrap();
        let job = |env: &Environment| {
            numbered(env).write(RollingFiles::new(dir.path()).file_bytes(100).lines());
            no_records()
        };
        let (shown, goes_on) = run(seed, &job);
        going_on += usize::from(goes_on);
        assert!(lines(dir.path()) == expected(), "seed {seed}: {shown}\n  {:?}", lines(dir.path()));
    }
    assert!(going_on >= SEEDS as usize / 6, "{going_on}");
}
