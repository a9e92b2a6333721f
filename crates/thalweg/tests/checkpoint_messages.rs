//! What jobs with checkpoints say, and which checkpoints they refuse.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::io::Csv;
use thalweg::operators::calls::Calls;
use thalweg::{Environment, ErrorKind, JobHandle};

/// The operator about which nothing can be logged.
const PANICS: &str = "rows that panic";

/// Keeps what is logged, each with its level.
struct Kept(Mutex<Vec<(log::Level, String)>>);

impl log::Log for Kept {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "thalweg::checkpoints"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let said = record.args().to_string();
            assert!(!said.starts_with(PANICS), "the logger panics");
            self.0.lock().unwrap().push((record.level(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Installs the logger, once.
fn listen() -> &'static Kept {
    static KEPT: OnceLock<&'static Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let kept: &'static Kept = Box::leak(Box::new(Kept(Mutex::default())));
        log::set_logger(kept).unwrap();
        log::set_max_level(log::LevelFilter::Info);
        kept
    })
}

/// What was logged so far at this level, and mentions this.
fn said(level: log::Level, what: &str) -> Vec<String> {
    let kept = listen().0.lock().unwrap();
    let wanted = kept.iter().filter(|(at, said)| *at == level && said.contains(what));
    wanted.map(|(_, said)| said.clone()).collect()
}

/// Waits until something is so.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never so");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An environment with a checkpoint each millisecond, in this directory.
fn environment(dir: &Path) -> Environment {
    listen();
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_millis(1);
    let mut config = Config::default();
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Cancels a job when it has checkpoints.
fn interrupt(job: JobHandle, dir: &Path) {
    wait_until(|| CheckpointDir::open(dir).unwrap().list().unwrap().len() > 1);
    job.cancel();
    job.wait().expect_err("it is cancelled");
}

/// A copy of what an interrupted job has left: as one process has one job in a directory, and another one begins again.
fn next_process(dir: &Path, name: &str) -> std::path::PathBuf {
    let copy = dir.with_file_name(name);
    std::fs::create_dir(&copy).unwrap();
    for file in CheckpointDir::open(dir).unwrap().list().unwrap() {
        std::fs::copy(&file.path, copy.join(file.path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_barrier_that_does_not_pass_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let numbers = env.iter(0..9u64).shuffle().map(move |n| {
        let _ = wait.lock().unwrap().recv();
        n
    });
    numbers.name("slow map").group_by(|n| n % 3).count().unkey().for_each(drop);
    let job = env.start().unwrap();
    wait_until(|| !said(log::Level::Warn, "slow map").is_empty());
    drop(go_on);
    job.wait().unwrap();
    let warned = said(log::Level::Warn, "has not passed for 5.00 s");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("shuffle ("), "{}", warned[0]);
}

/// The program's logger is called on the thread that takes checkpoints.
#[test]
fn a_panic_of_the_thread_that_takes_checkpoints_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    // The source cannot say where it is in a line of many rows.
    let text: String = (0..100_000).map(|n| format!("{n}\r")).collect();
    std::fs::write(&rows, text).unwrap();
    let env = environment(&folder.path().join("checkpoints"));
    let rows = Csv::new(rows).without_header().one_line_rows(true);
    let slowly = |row: (u64,)| {
        std::thread::sleep(Duration::from_micros(20));
        row.0
    };
    env.csv::<(u64,)>(rows).name(PANICS).map(slowly).for_each(drop);
    let error = env.run().expect_err("without that thread it would have no checkpoints");
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.to_string().contains("the logger panics"), "{error}");
}

/// Whether a job may end that collects its rows.
static MAY_END: AtomicBool = AtomicBool::new(false);

/// Rows whose job ends when it may.
struct Rows(Vec<u64>);

impl FromIterator<u64> for Rows {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        wait_until(|| MAY_END.load(Ordering::Relaxed));
        Self(rows.into_iter().collect())
    }
}

/// Drains and suspends a job whose source cannot say where it is, and which must end well with all that it has read. Returns what
/// was warned of.
fn drained_and_suspended(name: &str) -> Vec<String> {
    MAY_END.store(false, Ordering::Relaxed);
    listen();
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    let text: String = (0..100_000).map(|n| format!("{n}\r")).collect();
    std::fs::write(&rows, text).unwrap();
    let mut checkpoints = CheckpointConfig::new(folder.path().join("checkpoints"));
    // None is taken by itself.
    checkpoints.interval = Duration::from_secs(1 << 20);
    let mut config = Config::default();
    config.cores = 2.try_into().unwrap();
    config.checkpoints = Some(checkpoints);
    let env = Environment::with_config(config);
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (gone, read) = (Mutex::new(gone), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&read);
    let rows = Csv::new(rows).without_header().one_line_rows(true);
    // The source is within a line until it may go on.
    let held = move |row: (u64,)| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = gone.lock().unwrap().recv();
        }
        row.0
    };
    let out = env.csv::<(u64,)>(rows).name(name).map(held).collect::<Rows>();
    let job = env.start().unwrap();
    wait_until(|| read.load(Ordering::Relaxed) > 0);
    job.drain();
    job.suspend().unwrap();
    // Most often long enough for the barrier to be requested. If it is not, the source just ends.
    std::thread::sleep(Duration::from_millis(300));
    drop(go);
    // Returns when no further checkpoint is taken.
    let _ = job.savepoint(folder.path().join("none"));
    MAY_END.store(true, Ordering::Relaxed);
    job.wait().unwrap();
    let read = read.load(Ordering::Relaxed);
    assert!(read > 0 && read < 100_000, "it is drained within its input: {read}");
    assert_eq!(out.take().unwrap().0, (0..read).collect::<Vec<_>>());
    said(log::Level::Warn, name)
}

#[test]
fn a_drained_job_that_is_suspended_ends_well_where_no_checkpoint_can_be_taken() {
    let warned = (0..20).find_map(|run| {
        let warned = drained_and_suspended(&format!("drained rows {run}"));
        (!warned.is_empty()).then_some(warned)
    });
    let warned = warned.expect("a barrier comes before the end");
    assert_eq!(warned.len(), 1, "{warned:?}");
    let said = &warned[0];
    assert!(said.contains("end with a carriage return alone"), "{said}");
    assert!(said.ends_with("; the job is drained, and goes on to its end"), "{said}");
}

#[test]
fn a_job_says_from_which_checkpoint_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let start = |dir: &Path| {
        let env = environment(dir);
        env.range(0..u64::MAX).for_each(drop);
        env.start().unwrap()
    };
    let dir = folder.path().join("first");
    interrupt(start(&dir), &dir);
    let newest = CheckpointDir::open(&dir).unwrap().list().unwrap().pop().unwrap().number;
    let again = next_process(&dir, "second");
    start(&again).cancel();
    let begins = format!("the job goes on from checkpoint {newest} of {}, ", again.display());
    let told = said(log::Level::Info, &begins);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("s old, ") && told[0].ends_with(" B"), "{}", told[0]);
    assert!(said(log::Level::Info, &format!(" of {}, ", dir.display())).is_empty());
    assert!(said(log::Level::Warn, &begins).is_empty());
}

/// Why a job is refused the checkpoints of another one.
fn refusal(job: impl Fn(&Environment), other: impl Fn(&Environment)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let env = environment(&dir);
    job(&env);
    interrupt(env.start().unwrap(), &dir);
    let env = environment(&next_process(&dir, "second"));
    other(&env);
    match env.start() {
        Ok(job) => {
            job.cancel();
            panic!("it is not refused");
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn other_aggregates_of_the_same_name_are_refused() {
    macro_rules! refused {
        (|$all:ident| $job:expr, $other:expr, $names:expr) => {{
            let of = |env: &Environment| env.range(0..u64::MAX);
            let keyed = |env: &Environment| env.range(0..u64::MAX).group_by(|n| n % 7);
            let job = |env: &Environment| {
                let $all = keyed(env);
                $job.name("it").unkey().for_each(drop);
            };
            let other = |env: &Environment| {
                let $all = keyed(env);
                $other.name("it").unkey().for_each(drop);
            };
            let by_key = refusal(job, other);
            let job = |env: &Environment| {
                let $all = of(env);
                $job.name("it").for_each(drop);
            };
            let other = |env: &Environment| {
                let $all = of(env);
                $other.name("it").for_each(drop);
            };
            let [before, now]: [&str; 2] = $names;
            let parts = by_key.split_once("and this program as").expect("both are shown");
            assert!(parts.0.contains(before) && parts.1.contains(now), "{by_key}");
            // The part of each task is an operator of its own, which is named after the aggregate.
            let of_all = refusal(job, other);
            assert!(of_all.contains(now), "{of_all}");
        }};
    }
    refused!(|all| all.max(|n| *n), all.min(|n| *n), ["max", "min"]);
    refused!(|all| all.max_by_key(|n| *n), all.min_by_key(|n| *n), ["max_by_key", "min_by_key"]);
    refused!(
        |all| all.aggregate(|a| (a.count(), a.max(|n| *n))),
        all.aggregate(|a| (a.count(), a.min(|n| *n))),
        ["(count, max)", "(count, min)"]
    );
    refused!(
        |all| all.aggregate(|a| a.top_of(3, |n| *n)),
        all.aggregate(|a| a.bottom_of(3, |n| *n)),
        ["top_of 3", "bottom_of 3"]
    );
    refused!(
        |all| all.aggregate(|a| a.variance(|n| *n as f64)),
        all.aggregate(|a| a.stddev(|n| *n as f64)),
        ["variance", "stddev"]
    );
    refused!(
        |all| all.reduce(u64::max),
        all.fold_assoc(None::<u64>, |_, _| {}, |_, _| {}),
        ["reduce", "fold"]
    );
}

#[test]
fn an_iterator_that_gives_fewer_items_than_before_fails_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let slow = (0..u64::MAX).inspect(|_| std::thread::sleep(Duration::from_micros(10)));
    let env = environment(&dir);
    env.iter(slow).name("numbers").for_each(drop);
    interrupt(env.start().unwrap(), &dir);
    let env = environment(&next_process(&dir, "second"));
    env.iter(0..3u64).name("numbers").for_each(drop);
    let error = env.run().unwrap_err().to_string();
    assert!(error.starts_with("numbers (") && error.contains("before its item"), "{error}");
}

#[test]
fn a_directory_in_the_place_of_a_file_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, path) = (folder.path().join("first"), folder.path().join("numbers.txt"));
    let describe = |env: &Environment| {
        env.range(0..u64::MAX).map(|n| n.to_string()).filter(|n| n.len() > 19).write_lines(&path);
    };
    let env = environment(&dir);
    describe(&env);
    interrupt(env.start().unwrap(), &dir);
    std::fs::create_dir(&path).unwrap();
    let env = environment(&next_process(&dir, "second"));
    describe(&env);
    let error = env.start().err().expect("it is refused").to_string();
    assert!(error.contains("a directory has this name"), "{error}");
}

#[test]
fn checkpoints_that_cannot_be_removed_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    // A directory that has the name of a checkpoint.
    std::fs::create_dir(folder.path().join("blocked")).unwrap();
    let (rename, renamed) = std::sync::mpsc::channel();
    env.iter((0..100).inspect(move |_| renamed.recv().unwrap())).for_each(drop);
    let job = env.start().unwrap();
    let blocked = folder.path().join("checkpoint-0000000000.state");
    std::fs::rename(folder.path().join("blocked"), &blocked).unwrap();
    (0..100).for_each(|_| rename.send(()).unwrap());
    job.wait().unwrap();
    let warned = said(log::Level::Warn, &blocked.display().to_string());
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("thalweg checkpoint rm --all"), "{}", warned[0]);
}

#[test]
fn files_of_an_interrupted_job_are_removed_only_by_jobs_with_its_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, path) = (folder.path().join("saved"), folder.path().join("numbers.txt"));
    let describe = |env: &Environment, to: u64| {
        env.range(0..to).filter(|n| n % 1000 == 0).map(|n| n.to_string()).write_lines(&path);
    };
    let hidden = || {
        let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".numbers.txt.")).collect::<Vec<_>>()
    };
    let env = environment(&dir);
    describe(&env, u64::MAX);
    interrupt(env.start().unwrap(), &dir);
    let kept = hidden();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let others = [Environment::new(), environment(&folder.path().join("other"))];
    for env in others {
        describe(&env, 9000);
        env.run().unwrap();
        assert_eq!(hidden(), kept, "another job needs it");
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("saved");
    let env = environment(&dir);
    env.range(0..u64::MAX).for_each(drop);
    let job = env.start().unwrap();
    let warned = || said(log::Level::Warn, &dir.display().to_string());
    for times in 1..3 {
        let moved = folder.path().join(format!("moved {times}"));
        std::fs::rename(&dir, moved).unwrap();
        wait_until(|| warned().len() >= times);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(warned().len(), times, "{:?}", warned());
        assert!(warned()[0].contains("write the checkpoint"), "{}", warned()[0]);
        std::fs::create_dir(&dir).unwrap();
        wait_until(|| said(log::Level::Info, "are taken again").len() == times);
    }
    job.cancel();
    job.wait().expect_err("it is cancelled");
}

#[test]
fn the_lock_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lock")).unwrap();
    let env = environment(folder.path());
    env.range(0..9).for_each(drop);
    let error = env.start().err().expect("it cannot be locked").to_string();
    assert!(error.contains(&folder.path().join("lock").display().to_string()), "{error}");
}

#[test]
fn what_is_refused_says_what_to_do() {
    let counts = |env: &Environment| {
        env.range(0..u64::MAX).group_by(|n| n % 9).count().unkey().for_each(drop)
    };
    let sums = |env: &Environment| {
        env.range(0..u64::MAX).group_by(|n| n % 9).sum(|n| n % 5).unkey().for_each(drop)
    };
    let none = |env: &Environment| env.range(0..u64::MAX).for_each(drop);
    for said in [refusal(counts, sums), refusal(counts, none), refusal(none, sums)] {
        assert!(said.contains("begin anew with `thalweg checkpoint rm --all /"), "{said}");
        assert!(said.contains("run the program of that checkpoint"), "{said}");
        assert!(!said.contains("no the"), "{said}");
    }
}

#[test]
fn a_plan_says_what_keeps_a_job_from_having_checkpoints() {
    let without = |describe: fn(&Environment)| {
        let env = Environment::new();
        describe(&env);
        let plan = env.plan();
        plan.without_checkpoints().iter().map(|op| op.kind.clone()).collect::<Vec<_>>()
    };
    let saved = without(|env| {
        let [numbers, others] = env.range(0..9).split();
        let counts = numbers.group_by(|n| n % 2).count();
        counts.join(others.group_by(|n| n % 3)).unkey().for_each(drop);
    });
    assert_eq!(saved, [""; 0]);
    let given = without(|env| env.channel::<u64>(9).1.chunks(3).for_each(drop));
    assert_eq!(given, ["channel"]);
    let volatile = without(|env| env.range(0..9).map_volatile(|n| n).for_each(drop));
    assert_eq!(volatile, ["map_volatile"]);
    assert_eq!(without(|env| drop(env.range(0..9).cache())), ["cache"]);
}

#[test]
fn a_job_says_what_is_done_again_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let calls = || Calls::in_flight(3);
    let called = env.range(0..9).map_async(calls(), async |n| n).name("polled");
    let blocked = called.map_blocking(calls(), |n| n).name("blocked");
    let tried = blocked.try_map_async(calls(), async |n| Ok::<_, String>(n)).name("tried");
    let (done, failed) = tried.try_map_blocking_with_side_output(calls(), Ok::<_, String>);
    let numbers = done.name("tried too").to_channel();
    failed.for_each(|_| panic!("none fails"));
    let job = env.start().unwrap();
    assert_eq!(numbers.map(Result::unwrap).sum::<u64>(), 36);
    job.wait().unwrap();
    let made = said(log::Level::Warn, "calls are made at least once, not exactly once");
    for name in ["polled", "blocked", "tried", "tried too"] {
        let named = format!("{name} (");
        assert_eq!(made.iter().filter(|said| said.starts_with(&named)).count(), 1, "{made:?}");
    }
    let received = said(log::Level::Warn, "the program receives records at least once");
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(received[0].starts_with("to_channel ("), "{received:?}");
}

#[test]
fn a_channel_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let (_numbers, stream) = env.channel::<u64>(9);
    stream.for_each(drop);
    let said = env.start().err().expect("it is refused").to_string();
    assert!(said.starts_with("channel ("), "{said}");
    assert!(
        said.contains("a job with checkpoints cannot have it: its records come from"),
        "{said}"
    );
    assert!(said.contains("use a source that can, such as `iter`, `generate`"), "{said}");
}
