//! Jobs with loops that are suspended.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, ErrorKind, JobHandle};

/// An environment with a directory for checkpoints, of which none is taken by itself.
fn with_checkpoints(folder: &Path) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(3).unwrap();
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = Duration::from_secs(1 << 20);
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Waits until something is so.
fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The error of a job, which must end soon.
fn end(job: JobHandle) -> Option<thalweg::Error> {
    until("the job does not end", || job.is_over());
    job.wait().err()
}

/// The directory of the next run: a process has one job in a directory.
fn next_process(dir: &Path, run: usize) -> PathBuf {
    let copy = dir.with_file_name(format!("run-{run}"));
    std::fs::create_dir(&copy).unwrap();
    for file in CheckpointDir::open(dir).unwrap().list().unwrap() {
        std::fs::copy(&file.path, copy.join(file.path.file_name().unwrap())).unwrap();
    }
    copy
}

const ROUNDS: u64 = 4000;

/// Counts each call of a closure in a body.
fn counted(env: &Environment, calls: &Arc<AtomicU64>) -> thalweg::Output<Vec<u64>> {
    let calls = Arc::clone(calls);
    let (outcome, left) = env
        .range(0..10)
        .iterate(ROUNDS, (), move |numbers, _| {
            numbers.shuffle().map(move |n| {
                calls.fetch_add(1, Ordering::Relaxed);
                n + 1
            })
        })
        .all_rounds();
    outcome.for_each(drop);
    left.collect()
}

/// As [`counted`], with the same number of rounds in all, but in a loop within a loop.
fn counted_within(env: &Environment, calls: &Arc<AtomicU64>) -> thalweg::Output<Vec<u64>> {
    let calls = Arc::clone(calls);
    let (outcome, left) = env
        .range(0..10)
        .iterate(ROUNDS / 4, (), move |numbers, _| {
            let (inner, left) = numbers
                .iterate(4, (), move |numbers, _| {
                    numbers.shuffle().map(move |n| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        n + 1
                    })
                })
                .all_rounds();
            inner.for_each(drop);
            left
        })
        .all_rounds();
    outcome.for_each(drop);
    left.collect()
}

#[test]
fn no_round_of_a_suspended_loop_is_repeated() {
    suspended_and_run_again(counted);
}

/// Nor is a round of the loop within it, which is not suspended between two of its own rounds.
#[test]
fn no_round_of_a_suspended_loop_with_a_loop_is_repeated() {
    suspended_and_run_again(counted_within);
}

/// Suspends a job several times, and checks that each call is made once.
fn suspended_and_run_again(job: fn(&Environment, &Arc<AtomicU64>) -> thalweg::Output<Vec<u64>>) {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = folder.path().join("run-0");
    let (calls, mut suspensions) = (Arc::new(AtomicU64::new(0)), 0);
    for run in 1.. {
        let env = with_checkpoints(&dir);
        let left = job(&env, &calls);
        let before = calls.load(Ordering::Relaxed);
        let running = env.start().unwrap();
        if run < 8 {
            until("no round runs", || calls.load(Ordering::Relaxed) > before || running.is_over());
            running.suspend().unwrap();
        }
        match end(running) {
            Some(error) => {
                assert_eq!(error.kind(), ErrorKind::Suspended, "{error}");
                suspensions += 1;
                dir = next_process(&dir, run);
            }
            None => {
                let mut left = left.take().unwrap();
                left.sort_unstable();
                assert_eq!(left, (ROUNDS..ROUNDS + 10).collect::<Vec<_>>());
                break;
            }
        }
    }
    assert!(suspensions > 0);
    assert_eq!(calls.load(Ordering::Relaxed), 10 * ROUNDS);
}

#[test]
fn a_loop_that_cannot_be_suspended_is_cancelled_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let seen = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&seen);
    // The table of the join arrives for ever, so the first round cannot end.
    let table = env.range(0..1 << 50).map(|n| (n % 7, n)).keyed();
    let (outcome, left) = env
        .range(0..10)
        .iterate(5, (), move |numbers, _| {
            let given = numbers.inspect(move |_| _ = counting.fetch_add(1, Ordering::Relaxed));
            given.group_by(|n| n % 7).semi_join(table).unkey().map(|(_, n)| n)
        })
        .all_rounds();
    outcome.for_each(drop);
    left.for_each(drop);
    let job = env.start().unwrap();
    until("the first round does not begin", || seen.load(Ordering::Relaxed) > 0);
    std::thread::sleep(Duration::from_millis(50));
    job.suspend().unwrap();
    let error = end(job).expect("it has no result");
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    let said = error.to_string();
    assert!(said.contains("begins anew") && said.contains("from outside the loop"), "{said}");
}

#[test]
fn a_suspended_loop_can_still_be_drained() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let calls = Arc::new(AtomicU64::new(0));
    let left = counted(&env, &calls);
    let job = env.start().unwrap();
    until("no round runs", || calls.load(Ordering::Relaxed) > 10);
    job.suspend().unwrap();
    job.drain();
    // Whichever comes first.
    match end(job) {
        None => assert_eq!(left.take().unwrap().len(), 10),
        Some(error) => assert_eq!(error.kind(), ErrorKind::Suspended, "{error}"),
    }
}
