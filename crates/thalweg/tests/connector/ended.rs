//! A part of a job that has ended with a commit, beside another part that goes on.

use super::{Log, Table, Topic, number, with_checkpoints};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg::{Environment, JobHandle, Result};

/// How far a log was read, by the checkpoints that count.
type Positions = Arc<Mutex<BTreeMap<String, u64>>>;

/// Waits until something is so, as long as the job goes on.
fn wait_until(job: &JobHandle, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(!job.is_over(), "the job has ended");
        assert!(began.elapsed() < Duration::from_secs(60), "it is never so");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A part that writes one row at its end, and a part that reads a log.
struct TwoParts {
    table: Table,
    log: Log,
}

impl TwoParts {
    fn new() -> Self {
        Self { table: Table::default(), log: Log::with_partitions(1) }
    }

    fn describe(&self, env: &Environment) -> Positions {
        env.range(0..1000).sum(|n| *n).write(self.table.clone());
        let topic = Topic { bounded: false, ..Topic::of(&self.log) };
        let committed = Arc::clone(&topic.committed);
        env.read(topic).map(number).for_each(drop);
        committed
    }

    /// Runs the job until the row is committed and two later checkpoints count, and cancels it.
    fn run_beyond_the_commit(&self, dir: &Path, cores: usize) -> Result<()> {
        let env = with_checkpoints(dir, cores);
        let committed = self.describe(&env);
        let job = env.start()?;
        wait_until(&job, || !self.table.rows().is_empty());
        for _ in 0..2 {
            self.log.append(0, "7");
            let appended = self.log.partition(0).lock().unwrap().records.len() as u64;
            wait_until(&job, || committed.lock().unwrap().get("numbers/0") == Some(&appended));
        }
        job.cancel();
        job.wait().unwrap_err();
        Ok(())
    }

    fn run_to_its_end(&self, dir: &Path, cores: usize) -> Result<()> {
        self.log.close_all();
        let env = with_checkpoints(dir, cores);
        self.describe(&env);
        env.run()
    }

    /// Checks that the row was committed, and no second time.
    fn check(&self) {
        assert_eq!(self.table.rows(), [499_500]);
        assert_eq!(self.table.again.load(Ordering::Relaxed), 0);
    }
}

/// A first run, one that goes on from it beyond the commit, and one that goes on from that to the end: the row is
/// committed once.
fn check(first: impl Fn(&TwoParts, &Path, usize) -> Result<()>) -> Result<()> {
    for cores in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let dirs = ["first", "second", "third"].map(|name| folder.path().join(name));
        let job = TwoParts::new();
        first(&job, &dirs[0], cores)?;
        fs::rename(&dirs[0], &dirs[1]).unwrap();
        job.run_beyond_the_commit(&dirs[1], 4 - cores)?;
        job.check();
        fs::rename(&dirs[1], &dirs[2]).unwrap();
        job.run_to_its_end(&dirs[2], cores)?;
        job.check();
    }
    Ok(())
}

#[test]
fn what_a_part_has_committed_at_its_end_is_not_committed_by_later_runs() -> Result<()> {
    check(TwoParts::run_beyond_the_commit)
}

#[test]
fn what_a_part_could_not_commit_at_its_end_is_committed_by_the_next_run_alone() -> Result<()> {
    check(|job, dir, cores| {
        // The checkpoint counts, and the run ends before its commit.
        job.table.commits_until_failure.store(1, Ordering::Relaxed);
        let env = with_checkpoints(dir, cores);
        job.describe(&env);
        let error = env.run().unwrap_err().to_string();
        assert!(error.contains("the table is locked"), "{error}");
        assert_eq!(job.table.rows(), [0; 0]);
        Ok(())
    })
}
