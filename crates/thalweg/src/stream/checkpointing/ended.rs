//! Tests of a host whose tasks end long before the job: what it has stored by then is in the last checkpoint.

use super::*;
use crate::check::on_cluster;
use crate::checkpoint::{Faulty, PlanComparison, Snapshot, Storage, Taken};
use crate::config::Config;
use crate::connector::{Prepared, Sink, SinkContext, SinkWriter};
use crate::plan::Plan;
use crate::runtime::Cluster;
use crate::stream::application::{Application, Attendance};
use crate::stream::{Environment, JobHandle};
use crate::sync::AtomicU64;

/// Notes each row as often as it is committed. Commits fail while it is locked.
#[derive(Clone, Default)]
struct Table {
    committed: Arc<Mutex<Vec<u64>>>,
    is_locked: Arc<AtomicBool>,
}

#[derive(Default)]
struct Batch(Vec<u64>);

impl Table {
    /// In order.
    fn rows(&self) -> Vec<u64> {
        let mut rows = lock(&self.committed).clone();
        rows.sort_unstable();
        rows
    }
}

impl Sink for Table {
    type Item = u64;
    type Commit = Vec<u64>;
    type Writer = Batch;

    fn describe(&self) -> String {
        "table".to_owned()
    }

    fn open(&self, _: &SinkContext) -> Result<Batch> {
        Ok(Batch::default())
    }

    fn commit(&self, rows: &Vec<u64>) -> Result<()> {
        if self.is_locked.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "the table is locked"));
        }
        lock(&self.committed).extend(rows);
        Ok(())
    }
}

impl SinkWriter for Batch {
    type Item = u64;
    type Commit = Vec<u64>;

    fn write(&mut self, row: u64) -> Result<()> {
        self.0.push(row);
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Vec<u64>>>> {
        let rows = std::mem::take(&mut self.0);
        Ok((!rows.is_empty()).then(|| Prepared::new(rows)))
    }
}

/// What a job of two hosts writes: some rows of each host, and others of the first one, which go on until they are over.
#[derive(Clone, Default)]
struct Outputs {
    rows: Table,
    others: Table,
    are_over: Arc<AtomicBool>,
    /// How many of the others there are.
    made: Arc<AtomicU64>,
}

impl Outputs {
    fn describe(&self, env: &Environment, rows: u64) {
        let own = move |task: usize, _: usize| (0..rows).map(move |n| 100 * task as u64 + n);
        env.parallel_iter(own).write(self.rows.clone());
        let (are_over, made) = (Arc::clone(&self.are_over), Arc::clone(&self.made));
        let others = move |n| {
            let is_one = !are_over.load(Ordering::Relaxed);
            made.fetch_add(u64::from(is_one), Ordering::Relaxed);
            is_one.then_some(n)
        };
        env.generate(1e7, others).write(self.others.clone());
    }
}

/// The rows of both hosts.
fn both(rows: u64) -> Vec<u64> {
    (0..rows).chain(100..100 + rows).collect()
}

/// The first of two hosts, in a run of the job.
struct First<'a> {
    job: &'a JobHandle,
    checkpoints: &'a Checkpointing,
}

impl First<'_> {
    /// Goes on until something is so.
    fn drive_until(&self, is_so: impl Fn() -> bool) {
        let all = (0..10_000).find(|_| {
            self.job.drive_for(2);
            is_so()
        });
        assert!(all.is_some(), "it is never so");
    }

    fn take(&self) {
        assert!(self.job.take_checkpoint(self.checkpoints).unwrap());
    }
}

/// Runs the job on two hosts, with a folder for each. Returns how it has ended on each.
fn run(
    folders: &[Arc<dyn Folder>; 2],
    (outputs, rows, seed): (&Outputs, u64, u64),
    other: impl Fn() + Sync,
    first: impl Fn(&First<'_>) + Sync,
) -> Vec<Result<()>> {
    let program = |env: &Environment| {
        let checkpoints = env.checkpoints_of(&folders[env.host().0]).unwrap();
        outputs.describe(env, rows);
        let job = env.start_with(Some(&checkpoints.checkpoints)).unwrap();
        if env.is_first_host() {
            first(&First { job: &job, checkpoints: &checkpoints });
        } else {
            other();
            assert!(!job.take_checkpoint(&checkpoints).unwrap());
        }
        Ok(job.wait().map(drop))
    };
    let cluster = Cluster::looking_after(8, seed, 1, 2);
    let ended = on_cluster(&cluster, &Config::default(), &[1, 1], &program);
    ended.into_iter().map(|host| host.unwrap()).collect()
}

fn parts(folder: &dyn Folder) -> usize {
    folder.names().unwrap().iter().filter(|name| name.starts_with("part-")).count()
}

/// The storage is away when a host ends, and there again when the next checkpoint is taken.
#[test]
fn what_a_host_could_not_store_at_its_end_is_stored_with_a_later_checkpoint() {
    for (seed, rows) in (0..4).flat_map(|seed| [(seed, 0), (seed, 10)]) {
        let dir = tempfile::tempdir().unwrap();
        let make = || make(dir.path(), dir.path()).unwrap();
        // All requests fail that may.
        let faulty = Arc::new(Faulty::around(make(), 1, 256, 0));
        let others = Arc::clone(&faulty) as Arc<dyn Folder>;
        let folders: [Arc<dyn Folder>; 2] = [Arc::new(Faulty::around(make(), 0, 256, 0)), others];
        let (outputs, is_away) = (Outputs::default(), AtomicBool::new(false));
        // Its tasks run when all programs wait.
        let other = || {
            faulty.may_fail(3);
            is_away.store(true, Ordering::Relaxed);
        };
        let first = |first: &First<'_>| {
            first.drive_until(|| is_away.load(Ordering::Relaxed) && faulty.failures_left() == 0);
            first.take();
            // The other host has stored its end before it takes part in this one.
            first.take();
            outputs.are_over.store(true, Ordering::Relaxed);
        };
        let ended = run(&folders, (&outputs, rows, seed), other, first);
        ended.into_iter().for_each(|ended| ended.unwrap());
        assert_eq!(outputs.rows.rows(), both(rows), "seed {seed}");
    }
}

/// What a run writes that goes on from the last checkpoint of another one, which has failed among its commits.
fn next_run(folders: &[Arc<dyn Folder>; 2], rows: u64, seed: u64) -> Outputs {
    let outputs = Outputs::default();
    outputs.are_over.store(true, Ordering::Relaxed);
    let ended = run(folders, (&outputs, rows, seed), || (), |_| ());
    ended.into_iter().for_each(|ended| ended.unwrap());
    outputs
}

#[test]
fn what_a_host_has_committed_since_it_ended_is_not_in_the_last_checkpoint() {
    // The last one may be stored while what the other host has stored at its end is being replaced.
    for (seed, is_replaced) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let dir = tempfile::tempdir().unwrap();
        let make = || make(dir.path(), dir.path()).unwrap();
        let folders: [Arc<dyn Folder>; 2] =
            [0, 1].map(|host| Arc::new(Faulty::around(make(), host, 0, 0)) as Arc<dyn Folder>);
        let outputs = Outputs::default();
        let first = |first: &First<'_>| {
            first.drive_until(|| parts(&*folders[1]) == 1);
            first.take();
            if is_replaced {
                first.take();
                first.job.drive_for(100);
                assert_eq!(parts(&*folders[1]), 3, "of two checkpoints, and of its end");
            }
            outputs.others.is_locked.store(true, Ordering::Relaxed);
            // There is something left to commit.
            let made = outputs.made.load(Ordering::Relaxed);
            first.drive_until(|| outputs.made.load(Ordering::Relaxed) > made);
            outputs.are_over.store(true, Ordering::Relaxed);
        };
        for ended in run(&folders, (&outputs, 10, seed), || (), first) {
            let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("the table is locked"), "seed {seed}: {error}");
        }
        assert_eq!(outputs.rows.rows(), both(10), "seed {seed}");
        let next = next_run(&folders, 10, seed);
        if is_replaced {
            assert_eq!(next.rows.rows(), [0; 0], "seed {seed}: they are committed");
        }
        // Both hosts have committed what was left.
        let left: BTreeSet<_> = next.others.rows().into_iter().collect();
        assert!(!left.is_empty(), "seed {seed}: it goes on from the last checkpoint");
        let all: Vec<_> = outputs.others.rows().into_iter().chain(left).collect();
        assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Keeps what is warned of.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Application for Heard {
    fn starting(&self, _: &Plan, _: &Config, _: &Hosts) -> Result<()> {
        Ok(())
    }

    fn compares_with(&self) -> Option<&Path> {
        None
    }

    fn compared(&self, _: &PlanComparison, _: &Path) -> Error {
        unreachable!("no plan is compared")
    }

    fn warn(&self, what: &str) {
        lock(&self.0).push(what.to_owned());
    }

    fn tell(&self, _: &str) {}

    fn started(&self, _: &Arc<RunningJob>) -> Result<Box<dyn Attendance>> {
        unreachable!("no job runs")
    }
}

#[test]
fn a_host_that_cannot_store_its_end_says_so_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(dir.path(), dir.path()).unwrap();
    let heard = Arc::new(Heard::default());
    let application = Arc::clone(&heard) as Arc<dyn Application>;
    let warnings = Warnings::of(Some(&application));
    let (config, hosts) = (CheckpointConfig::new(dir.path()), Hosts::one(1));
    let opened = Checkpointing::open_again(&config, (&folder, dir.path()), &hosts, &warnings);
    let taken = Taken { snapshot: Snapshot::default(), syncs: Vec::new(), commits: Vec::new() };
    // It is no other host, and has no names for parts.
    let error = opened.unwrap().writer.store_last_part(Ok(taken), &|| true).unwrap_err();
    let heard = lock(&heard.0);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with(&error.to_string()), "{heard:?}");
    assert!(heard[0].contains("is written again when the next checkpoint counts"), "{heard:?}");
}
