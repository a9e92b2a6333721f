//! Tests of the last checkpoint of a job, without which it publishes nothing.

use super::*;
use crate::check::on_cluster;
use crate::checkpoint::{Faulty, INJECTED, Snapshot, Storage, Taken};
use crate::config::Config;
use crate::connector::{Prepared, Sink, SinkContext, SinkWriter};
use crate::runtime::Cluster;
use crate::stream::Environment;
use crate::sync::{AtomicU64, Ordering};
use std::collections::BTreeMap;

const RECORDS: u64 = 50_000;

/// Takes batches, each with a number of its own, so that what is prepared twice is there twice.
#[derive(Clone, Default)]
struct Table {
    taken: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>,
    next: Arc<AtomicU64>,
}

struct Batch {
    rows: Vec<u64>,
    next: Arc<AtomicU64>,
}

impl Table {
    fn batches(&self) -> usize {
        lock(&self.taken).len()
    }

    fn rows(&self) -> Vec<u64> {
        let mut rows: Vec<_> = lock(&self.taken).values().flatten().copied().collect();
        rows.sort_unstable();
        rows
    }
}

impl Sink for Table {
    type Item = u64;
    type Commit = (u64, Vec<u64>);
    type Writer = Batch;

    fn describe(&self) -> String {
        "table".to_owned()
    }

    fn open(&self, _: &SinkContext) -> Result<Batch> {
        Ok(Batch { rows: Vec::new(), next: Arc::clone(&self.next) })
    }

    fn commit(&self, (number, rows): &(u64, Vec<u64>)) -> Result<()> {
        lock(&self.taken).insert(*number, rows.clone());
        Ok(())
    }
}

impl SinkWriter for Batch {
    type Item = u64;
    type Commit = (u64, Vec<u64>);

    fn write(&mut self, row: u64) -> Result<()> {
        self.rows.push(row);
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<(u64, Vec<u64>)>>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Prepared::new((number, std::mem::take(&mut self.rows)))))
    }
}

/// How a run ends whose last checkpoint is not stored at once.
#[derive(Clone, Copy, Debug)]
struct Unstored {
    /// The host whose storage fails.
    host: usize,
    /// How many attempts fail.
    failures: u64,
    /// How many checkpoints are taken before.
    checkpoints: usize,
    is_drained: bool,
}

/// What a job writes, and where its checkpoints are.
struct Outputs {
    dir: tempfile::TempDir,
    table: Table,
    hosts: usize,
}

impl Outputs {
    fn path(&self) -> PathBuf {
        self.dir.path().join("numbers.txt")
    }

    fn checkpoints(&self) -> PathBuf {
        self.dir.path().join("saved")
    }

    /// The numbers in the file, in order.
    fn lines(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        let mut lines: Vec<_> = text.lines().map(|line| line.parse().unwrap()).collect();
        lines.sort_unstable();
        lines
    }

    /// Runs the job; returns how it has ended on each host.
    fn run(&self, unstored: Option<Unstored>) -> Vec<Result<()>> {
        let faulty = |host: usize| {
            let folder = make(&self.checkpoints(), self.dir.path()).unwrap();
            // All requests fail that may.
            Arc::new(Faulty::around(folder, host as u64, 256, 0))
        };
        let folders: Vec<_> = (0..self.hosts).map(faulty).collect();
        let run = |env: &Environment| {
            let folder = Arc::clone(&folders[env.host().0]) as Arc<dyn Folder>;
            let checkpoints = env.checkpoints_of(&folder).unwrap();
            let numbers = env.generate(1e7, |n| (n < RECORDS).then_some(n)).shuffle();
            let [rows, lines] = numbers.split();
            rows.write(self.table.clone());
            lines.map(|n| n.to_string()).write_lines(self.path());
            let job = env.start_with(Some(&checkpoints.checkpoints)).unwrap();
            match unstored {
                Some(unstored) if env.is_first_host() => {
                    for _ in 0..unstored.checkpoints {
                        job.drive_for(2);
                        assert!(job.take_checkpoint(&checkpoints).unwrap());
                    }
                    job.drive_for(4);
                    if unstored.is_drained {
                        job.drain();
                    }
                    // The next request is made when all tasks have ended, and is the first of each attempt.
                    folders[unstored.host].may_fail(unstored.failures);
                }
                Some(_) => assert!(!job.take_checkpoint(&checkpoints).unwrap()),
                None => {}
            }
            Ok(job.wait().map(drop))
        };
        let cluster = Cluster::looking_after(8, 1, 1, self.hosts);
        let ended = on_cluster(&cluster, &Config::default(), &vec![1; self.hosts], &run);
        assert!(folders.iter().all(|folder| folder.failures_left() == 0), "{unstored:?}");
        ended.into_iter().map(|host| host.unwrap()).collect()
    }
}

#[test]
fn nothing_is_published_without_the_last_checkpoint_and_the_next_run_repeats_nothing() {
    for (hosts, host) in [(1, 0), (2, 0), (2, 1)] {
        for (checkpoints, is_drained) in [(1, true), (1, false), (0, true), (0, false)] {
            let unstored = Unstored { host, failures: 3, checkpoints, is_drained };
            let dir = tempfile::tempdir().unwrap();
            let outputs = Outputs { dir, table: Table::default(), hosts };
            for ended in outputs.run(Some(unstored)) {
                let error = ended.expect_err(&format!("{hosts} hosts, {unstored:?}"));
                let said = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Io, "{said}");
                let onward = match checkpoints {
                    0 => "stored: it begins anew when",
                    _ => "stored: it goes on from checkpoint ",
                };
                let dir = outputs.checkpoints().display().to_string();
                for part in ["its last checkpoint could not be ", onward, INJECTED, &*dir] {
                    assert!(said.contains(part), "{said}");
                }
                assert_eq!(said.contains("(on host 1)"), host == 1, "{said}");
            }
            assert!(!outputs.path().exists(), "{hosts} hosts, {unstored:?}");
            // Those of each task that its checkpoints have.
            let batches = outputs.table.batches();
            assert!(batches <= hosts * checkpoints, "{batches} batches: {unstored:?}");
            outputs.run(None).into_iter().for_each(|ended| ended.unwrap());
            let all: Vec<_> = (0..RECORDS).collect();
            assert!(outputs.table.rows() == all, "{hosts} hosts, {unstored:?}");
            assert!(outputs.lines() == all, "{hosts} hosts, {unstored:?}");
        }
    }
}

#[test]
fn a_last_checkpoint_that_is_stored_in_the_end_is_as_good_as_one_at_once() {
    for (hosts, host) in [(1, 0), (2, 0), (2, 1)] {
        for failures in [1, 2] {
            let unstored = Unstored { host, failures, checkpoints: 1, is_drained: false };
            let dir = tempfile::tempdir().unwrap();
            let outputs = Outputs { dir, table: Table::default(), hosts };
            outputs.run(Some(unstored)).into_iter().for_each(|ended| ended.unwrap());
            let all: Vec<_> = (0..RECORDS).collect();
            assert!(outputs.table.rows() == all, "{hosts} hosts, {unstored:?}");
            assert!(outputs.lines() == all, "{hosts} hosts, {unstored:?}");
        }
    }
}

#[test]
fn a_job_that_cannot_be_saved_at_its_end_ends_well() {
    let dir = tempfile::tempdir().unwrap();
    let env = Environment::new();
    let checkpoints = env.checkpoints_in(dir.path()).unwrap();
    let refused = || Err(Error::new(ErrorKind::Plan, "no checkpoint: records are on disk"));
    // Whatever has become of what other hosts have saved.
    let full = Error::new(ErrorKind::Io, "the disk is full");
    let writer = &checkpoints.writer;
    writer.store_last(refused(), Ok(Vec::new()), &|| true).unwrap();
    writer.store_last(refused(), Err(full), &|| true).unwrap();
    assert!(writer.store_last_part(refused(), &|| true).unwrap().is_none());
}

#[test]
fn a_job_at_its_end_says_that_another_run_has_begun_also_where_that_shows_once_alone() {
    let dir = tempfile::tempdir().unwrap();
    let faulty = Faulty::around(make(dir.path(), dir.path()).unwrap(), 1, 256, 0);
    let faulty = Arc::new(faulty);
    let folder = Arc::clone(&faulty) as Arc<dyn Folder>;
    let checkpoints = Environment::new().checkpoints_of(&folder).unwrap();
    drop(Store::open_run(&folder).unwrap());
    let writer = &checkpoints.writer;
    let superseded = writer.store.superseded().expect("another run has begun");
    let taken = Taken { snapshot: Snapshot::default(), syncs: Vec::new(), commits: Vec::new() };
    let error = writer.store_last(Ok(taken), Ok(Vec::new()), &|| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.to_string(), superseded.to_string());
    // From now on the storage is away.
    faulty.may_fail(1);
    let error = writer.not_stored(error);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.to_string(), superseded.to_string());
    assert_eq!(faulty.failures_left(), 1, "it is not looked for again");
}
