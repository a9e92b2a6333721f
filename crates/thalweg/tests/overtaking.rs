//! A job with a slow operator and full lanes: its checkpoints do not wait for the records in the lanes.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{BatchMode, CheckpointConfig, Config};
use thalweg::io::Output;
use thalweg::{Environment, Result};

const ALL: u64 = 20_000;
/// The records of a batch.
const BATCH: u64 = 8;
/// The number of sources, and the bytes that each may have in flight: 512 records.
const CORES: usize = 4;
const CREDIT: usize = 4096;

/// Takes a checkpoint whenever the one before it is complete.
fn environment(dir: &Path, cores: usize) -> Environment {
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_millis(1);
    checkpoints.alignment_timeout = Some(Duration::ZERO);
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    config.batch = BatchMode::Fixed { size: BATCH as usize };
    config.credit = CREDIT;
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// The number of records that sources have sent, that have come to the slow operator, and that it may process.
#[derive(Clone, Default)]
struct Counts {
    sent: Arc<AtomicU64>,
    arrived: Arc<AtomicU64>,
    allowed: Arc<AtomicU64>,
}

/// All sources send to one task, which processes as many records as are allowed.
fn job(env: &Environment, counts: &Counts) -> Output<Vec<(u64, u64)>> {
    let Counts { sent, arrived, allowed } = counts.clone();
    let numbers = env.range(0..ALL).inspect(move |_| {
        sent.fetch_add(1, Ordering::SeqCst);
    });
    let slow = numbers.parallelism(1).map(move |n| {
        let mine = arrived.fetch_add(1, Ordering::SeqCst);
        while mine >= allowed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        n
    });
    slow.group_by(|n| n % 10).count().unkey().collect::<Vec<_>>()
}

/// Waits for a condition, at most this long; returns whether it holds.
fn is_soon(at_most: Duration, is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > at_most {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The number of the newest checkpoint.
fn newest(dir: &Path) -> u64 {
    let all = CheckpointDir::open(dir).unwrap().list().unwrap();
    all.last().map_or(0, |file| file.number)
}

/// A copy of the checkpoints of an interrupted job, since a process can have only one job in a directory.
fn next_process(dir: &Path, name: &str) -> PathBuf {
    let copy = dir.with_file_name(name);
    std::fs::create_dir(&copy).unwrap();
    for file in CheckpointDir::open(dir).unwrap().list().unwrap() {
        std::fs::copy(&file.path, copy.join(file.path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_checkpoint_does_not_wait_for_what_a_slow_operator_has_in_front_of_it() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (dir, counts) = (folder.path().join("first"), Counts::default());
    let env = environment(&dir, CORES);
    let _counted = job(&env, &counts);
    let running = env.start()?;
    let in_front = (CORES * CREDIT / 8) as u64;
    let is_full = || counts.sent.load(Ordering::SeqCst) > in_front;
    assert!(is_soon(Duration::from_secs(60), is_full), "the lanes are not full");
    // An earlier barrier, with few records in front of it, may have left the task only now.
    for number in 0..2 {
        let (before, mut processed) = (newest(&dir), 0);
        // Even with a slow disk, no more batches are processed than fill the lanes again.
        while !is_soon(Duration::from_millis(200), || newest(&dir) > before) {
            processed += BATCH;
            assert!(processed < in_front / 3, "checkpoint {number} waits");
            let allowed = counts.allowed.fetch_add(BATCH, Ordering::SeqCst) + BATCH;
            let is_done = || counts.arrived.load(Ordering::SeqCst) > allowed;
            assert!(is_soon(Duration::from_secs(60), is_done), "it does not go on");
        }
    }
    let saved = CheckpointDir::open(&dir)?.read(newest(&dir))?;
    let in_flight = saved.iter().filter(|state| state.state == "overtaken");
    assert!(in_flight.map(|state| state.entries).sum::<u64>() > 0, "{saved:?}");
    running.cancel();
    counts.allowed.store(u64::MAX, Ordering::SeqCst);
    running.wait().expect_err("it is cancelled");
    for cores in [CORES, 1, 2] {
        let env = environment(&next_process(&dir, &format!("on-{cores}")), cores);
        let counted = job(&env, &counts);
        env.run()?;
        let mut counted = counted.take()?;
        counted.sort_unstable();
        assert_eq!(
            counted,
            (0..10).map(|key| (key, ALL / 10)).collect::<Vec<_>>(),
            "{cores} cores"
        );
    }
    Ok(())
}
