//! Jobs that go on in other numbers of tasks: what each of them gets, and how often a checkpoint has what all tasks have.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, ErrorKind, JobHandle, Result, Stream};

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
        // Records that are held beside it may be many.
        let checkpoint = CheckpointDir::open(&dir).unwrap();
        let number = checkpoint.list().unwrap().pop().unwrap().number;
        let state = checkpoint.read(number).unwrap();
        let state = state.iter().find(|state| state.state == "state").unwrap();
        assert_eq!(state.entries, 1);
        assert!((LARGE..LARGE + 16).contains(&(state.bytes as usize)), "{} B", state.bytes);
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
    let run = |dir: &Path,
               cores: usize,
               over: &Arc<AtomicBool>,
               read: &Arc<Mutex<BTreeMap<usize, u64>>>| {
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

/// Counts records in windows of the event time that is assigned to them here.
fn count_in_windows<C: Chain<Item = u64, Time = ()>>(numbers: Stream<C>) {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    let timed = numbers.assign_timestamps(at, Watermarks::monotonous());
    let window = EventTimeWindow::tumbling(Duration::from_micros(10));
    timed.window_all(window).count().for_each(drop);
}

#[test]
fn iterators_that_are_in_the_order_of_event_time_need_a_task_each() {
    for (is_forwarded, is_shuffled) in [(false, false), (true, false), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let (over, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = |dir: &Path, cores: usize| {
            let env = environment(dir, cores);
            let (over, read) = (Arc::clone(&over), Arc::clone(&read));
            let numbers = env.parallel_iter(move |_, _| {
                let (over, read) = (Arc::clone(&over), Arc::clone(&read));
                (0..u64::MAX).take_while(move |n| {
                    if over.load(Ordering::Relaxed) {
                        // More than any has given before.
                        return *n < 100_000;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    read.fetch_add(1, Ordering::Relaxed);
                    true
                })
            });
            match (is_forwarded, is_shuffled) {
                (true, _) => count_in_windows(numbers.forward().map(|n| n).forward()),
                (_, true) => count_in_windows(numbers.shuffle()),
                _ => count_in_windows(numbers),
            }
            env.start()
        };
        let dir = folder.path().join("checkpoints");
        let job = start(&dir, 3).unwrap();
        wait_until("they are not read", || read.load(Ordering::Relaxed) > 100);
        let dir = suspended(job, &dir);
        over.store(true, Ordering::Relaxed);
        let fewer = start(&copy_of(&dir), 2).and_then(JobHandle::wait);
        if is_shuffled {
            fewer.unwrap();
        } else {
            let said = fewer.unwrap_err().to_string();
            assert!(said.contains("3 iterators that had not ended need as many"), "{said}");
        }
        start(&dir, 3).unwrap().wait().unwrap();
    }
}

/// Why a loop's job does not go on, or its numbers and how many rounds there were.
fn after_rounds(
    dir: &Path,
    cores: usize,
    rounds: &Arc<AtomicU64>,
    over: &Arc<AtomicBool>,
) -> (JobHandle, impl FnOnce() -> Result<(Vec<u64>, u64)> + use<>) {
    let env = environment(dir, cores);
    let (rounds, over) = (Arc::clone(rounds), Arc::clone(over));
    let numbers = env.parallel_iter(|task, tasks| (task as u64..100).step_by(tasks));
    let (outcome, left) = numbers
        .iterate(u64::MAX, 0u64, |numbers, _| {
            let numbered = numbers.scan(0u64, |seen, n| {
                *seen += 1;
                (*seen <= 100).then_some(n)
            });
            let [one, other] = numbered.stateful_map(0u64, |sum, n| (*sum += n, n).1).split();
            one.zip_by_task(other).map(|(one, other)| {
                assert_eq!(one, other);
                one + 1
            })
        })
        .fold(|(): &mut (), _| (), |(), ()| ())
        .until(move |count, ()| {
            *count += 1;
            rounds.store(*count, Ordering::Relaxed);
            over.load(Ordering::Relaxed)
        });
    let outcome = outcome.map(|outcome| outcome.state).collect_one();
    let left = left.collect::<Vec<_>>();
    let result = move || Ok((left.take()?, outcome.take()?.unwrap_or_default()));
    (env.start().unwrap(), result)
}

#[test]
fn what_is_remembered_for_a_round_only_is_restored_in_any_number_of_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let (rounds, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let mut dir = folder.path().join("checkpoints");
    let mut before = 0;
    for cores in [3, 2, 1, 4] {
        let (job, _) = after_rounds(&dir, cores, &rounds, &over);
        wait_until("there are no rounds", || rounds.load(Ordering::Relaxed) > before + 3);
        dir = suspended(job, &dir);
        before = rounds.load(Ordering::Relaxed);
    }
    over.store(true, Ordering::Relaxed);
    let (job, result) = after_rounds(&dir, 2, &rounds, &over);
    job.wait().unwrap();
    let (mut numbers, rounds) = result().unwrap();
    numbers.sort_unstable();
    assert!(rounds > before, "{rounds} rounds after {before}");
    assert!(numbers.into_iter().eq(rounds..100 + rounds), "each number is in each round once");
}

/// Records from outside a loop, which come before its first round, are remembered for it.
#[test]
fn what_is_remembered_before_the_first_round_belongs_to_its_task() {
    let folder = tempfile::tempdir().unwrap();
    let over = Arc::<AtomicBool>::default();
    let (seen, given) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let start = |dir: &Path, cores: usize| {
        let env = environment(dir, cores);
        let (stop, seen) = (Arc::clone(&over), Arc::clone(&seen));
        let given = Arc::clone(&given);
        let wait = move |n: &u64| {
            if stop.load(Ordering::Relaxed) {
                return given.load(Ordering::Relaxed) >= *n;
            }
            std::thread::sleep(Duration::from_millis(1));
            given.fetch_max(*n, Ordering::Relaxed);
            true
        };
        let input = env.iter((0u64..).take_while(wait));
        let outside = env.parallel_iter(|task, tasks| (task as u64..60).step_by(tasks));
        let counts = input
            .iterate(2, 0u64, |numbers, _| {
                let all = numbers.map(|_| 0).shuffle().merge(outside.map(|_| 1));
                all.stateful_map(0u64, move |count, n| {
                    seen.fetch_add(n, Ordering::Relaxed);
                    *count += n;
                    n
                })
                .filter(|_| false)
            })
            .all_rounds();
        counts.0.for_each(drop);
        counts.1.for_each(drop);
        env.start()
    };
    let dir = folder.path().join("checkpoints");
    let job = start(&dir, 3).unwrap();
    wait_until("no record comes", || seen.load(Ordering::Relaxed) == 60);
    let dir = suspended(job, &dir);
    let error = start(&dir, 2).err().expect("it is refused").to_string();
    assert!(error.contains("there must be as many, and there are 2"), "{error}");
    let job = start(&dir, 3).unwrap();
    over.store(true, Ordering::Relaxed);
    job.wait().unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 60, "none of them comes again");
}
