//! Jobs that go on in other numbers of tasks: what each of them gets, and how often a checkpoint has what all tasks have.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, ErrorKind, JobHandle};

/// An environment with a directory for checkpoints, of which none is taken by itself.
fn environment(dir: &Path, cores: usize) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_secs(1 << 20);
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Waits until something is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Suspends a job; returns a copy of its checkpoint for another run, since a process runs one job in a directory.
fn suspended(job: JobHandle, dir: &Path) -> PathBuf {
    job.suspend().unwrap();
    let error = job.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Suspended, "{error}");
    copy_of(dir)
}

fn copy_of(dir: &Path) -> PathBuf {
    let copy = tempfile::tempdir_in(dir.parent().unwrap()).unwrap().keep();
    for file in CheckpointDir::open(dir).unwrap().list().unwrap() {
        std::fs::copy(&file.path, copy.join(file.path.file_name().unwrap())).unwrap();
    }
    copy
}

/// The bytes of the control state.
const LARGE: usize = 1 << 20;

#[test]
fn a_state_that_all_tasks_share_is_saved_once_and_all_go_on_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let over = Arc::new(AtomicBool::new(false));
    let start = |dir: &Path, cores| {
        let env = environment(dir, cores);
        let controls = env.iter(["a".repeat(LARGE / 2), "b".repeat(LARGE / 2)]);
        let stop = Arc::clone(&over);
        // Only the first ends before the others.
        let records = env.parallel_iter(move |task, _| {
            let stop = Arc::clone(&stop);
            let last = if task == 0 { 1 } else { u64::MAX };
            (0..last).map(move |_| task).take_while(move |_| !stop.load(Ordering::Relaxed))
        });
        let seen = Arc::clone(&seen);
        records
            .connect_after(controls, String::new(), |all, more: String| all.push_str(&more))
            .map(|(task, all)| (task, all.len(), all.starts_with('a') && all.ends_with('b')))
            .for_each(move |(task, bytes, whole)| {
                assert!(whole && bytes == LARGE, "{bytes} bytes");
                seen.lock().unwrap().insert(task);
            });
        env.start().unwrap()
    };
    let have_begun = |tasks: std::ops::Range<usize>| {
        wait_until("the records do not come", || {
            seen.lock().unwrap().iter().copied().eq(tasks.clone())
        });
        seen.lock().unwrap().clear();
    };
    let dir = folder.path().join("checkpoints");
    let job = start(&dir, 4);
    have_begun(0..4);
    let mut dir = suspended(job, &dir);
    for cores in [3, 4] {
        let file = CheckpointDir::open(&dir).unwrap().list().unwrap().pop().unwrap();
        assert!((LARGE..LARGE + LARGE / 2).contains(&(file.bytes as usize)), "{} B", file.bytes);
        let job = start(&dir, cores);
        have_begun(1..4);
        dir = suspended(job, &dir);
    }
    over.store(true, Ordering::Relaxed);
}

#[test]
fn records_that_wait_for_their_control_stream_are_dealt_out_in_order() {
    // How many each task has before the job is suspended, at least.
    const HELD: u64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let run = |dir: &Path, cores: usize, over: &Arc<AtomicBool>, read: &Arc<Mutex<BTreeMap<usize, u64>>>| {
        let env = environment(dir, cores);
        let (over, read) = (Arc::clone(over), Arc::clone(read));
        let numbers = env.parallel_iter(move |task, _| {
            let (over, read) = (Arc::clone(&over), Arc::clone(&read));
            (0..u64::MAX).map(move |n| (task, n)).take_while(move |(task, n)| {
                let mut read = read.lock().unwrap();
                if over.load(Ordering::Relaxed) {
                    return read[task] >= *n;
                }
                read.insert(*task, *n);
                drop(read);
                std::thread::sleep(Duration::from_millis(1));
                true
            })
        });
        let [controls, records] = numbers.split();
        let held = records.connect_after(controls, 0u64, |count, _| *count += 1);
        let held = held.map(|(record, _)| record).chunks(1 << 20).collect::<Vec<_>>();
        (env.start().unwrap(), held)
    };
    let (over, read) = (Arc::<AtomicBool>::default(), Arc::default());
    let dir = folder.path().join("checkpoints");
    let (job, _) = run(&dir, 4, &over, &read);
    wait_until("they are not read", || {
        let read = read.lock().unwrap();
        read.len() == 4 && read.values().all(|n| *n > HELD)
    });
    let dir = suspended(job, &dir);
    over.store(true, Ordering::Relaxed);
    for cores in [2, 8, 3, 4] {
        let (job, chunks) = run(&copy_of(&dir), cores, &over, &read);
        job.wait().unwrap();
        let mut of_tasks = BTreeMap::new();
        let chunks: Vec<Vec<(usize, u64)>> = chunks.take().unwrap();
        for (chunk, records) in chunks.iter().enumerate() {
            let mut next = BTreeMap::new();
            for (task, n) in records.iter().filter(|(_, n)| *n <= HELD) {
                let next = next.entry(task).or_insert(0);
                assert_eq!(n, next, "records of a task keep their order");
                *next += 1;
                assert_eq!(*of_tasks.entry(*task).or_insert(chunk), chunk, "and their task");
            }
        }
        assert_eq!(of_tasks.len(), 4);
        let used: BTreeSet<_> = of_tasks.values().collect();
        assert_eq!(used.len(), cores.min(4), "{cores} tasks have them: {of_tasks:?}");
    }
}
