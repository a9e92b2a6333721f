//! Jobs that hold more than memory has room for, interrupted and restored with what they have on disk.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::check::check;
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config, StateBackend};
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{Early, EventTimeWindow, Pane, SessionWindow, Timing};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, ErrorKind, Output, Stream};

const RECORDS: u64 = 60_000;
const KEYS: u64 = 9000;
/// Far less than the keys take.
const MEMORY: usize = 1 << 18;

/// A key that takes some room.
fn key(n: u64) -> String {
    format!("{:0150}", n % KEYS)
}

/// How a job is run.
#[derive(Clone, Default)]
struct Run {
    /// How many records were read.
    seen: Arc<AtomicU64>,
    /// How long each task pauses now and then, so that there are checkpoints before the end.
    pause: Duration,
}

impl Run {
    /// Called with each record.
    fn see(&self) {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if seen.is_multiple_of(256) {
            // Longer when much was read: by then there must be checkpoints, however slow the machine is.
            std::thread::sleep(if seen < RECORDS / 2 { self.pause } else { self.pause * 8 });
        }
    }
}

/// The numbers of all records, dealt out to the tasks.
fn numbers(env: &Environment, run: &Run) -> Stream<impl Chain<Item = u64> + use<>> {
    let run = run.clone();
    let dealt = |task: usize, tasks: usize| (task as u64..RECORDS).step_by(tasks);
    env.parallel_iter(dealt).inspect(move |_| run.see())
}

/// An environment whose checkpoints and spill files are in this folder.
fn environment(folder: &Path, cores: usize) -> Environment {
    let mut config = Config::default();
    let mut checkpoints = CheckpointConfig::new(folder.join("checkpoints"));
    checkpoints.interval = Duration::from_millis(20);
    config.checkpoints = Some(checkpoints);
    config.cores = NonZeroUsize::new(cores).unwrap();
    config.memory = MEMORY;
    config.spill_dir = folder.join("spill");
    Environment::with_config(config)
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join("checkpoints")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The files of spilled records, with their lengths.
fn spilled(folder: &Path) -> Vec<(PathBuf, u64)> {
    let names = names(folder).into_iter().filter(|name| name.starts_with("spilled-"));
    let paths = names.map(|name| folder.join("checkpoints").join(name));
    paths.filter_map(|path| Some((path.clone(), fs::metadata(path).ok()?.len()))).collect()
}

/// A copy of the checkpoints of a folder, in a folder of its own: a program may have one job with checkpoints in a directory.
fn copy(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("checkpoints")).unwrap();
    for name in names(folder) {
        let [from, to] = [folder, copy.path()].map(|folder| folder.join("checkpoints").join(&name));
        fs::copy(from, to).unwrap();
    }
    copy
}

/// The same of one checkpoint alone, by the engine.
fn savepoint(folder: &Path, number: u64) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let checkpoints = CheckpointDir::open(folder.join("checkpoints")).unwrap();
    checkpoints.copy(number, copy.path().join("checkpoints")).unwrap();
    copy
}

type Job<R> = fn(&Environment, &Run) -> Output<Vec<R>>;

/// The newest checkpoint, and whether it refers to files of spilled records.
fn newest(folder: &Path) -> (u64, bool) {
    let all = CheckpointDir::open(folder.join("checkpoints")).unwrap().list().unwrap();
    all.last().map_or((0, false), |file| {
        // It is removed with a later one.
        let own = fs::metadata(&file.path).map_or(file.bytes, |own| own.len());
        (file.number, file.bytes > own)
    })
}

/// Runs a job until it has some checkpoints that refer to files of spilled records, the newest included, and cancels it. Returns
/// the folder.
fn interrupted<R>(job: Job<R>, cores: usize) -> tempfile::TempDir {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let env = environment(folder.path(), cores);
        interrupt(folder.path(), &env, job, true);
        // All may have come back from disk before the job was cancelled.
        if newest(folder.path()).1 {
            return folder;
        }
    }
    panic!("no newest checkpoint has spilled records");
}

fn interrupt<R>(folder: &Path, env: &Environment, job: Job<R>, needs_files: bool) {
    let out = job(env, &Run { pause: Duration::from_millis(40), ..Run::default() });
    let running = env.start().unwrap();
    let began = Instant::now();
    let (mut with_files, mut last) = (0, 0);
    while with_files < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint has spilled records");
        assert!(!running.is_over(), "it ends before it has a checkpoint with spilled records");
        std::thread::sleep(Duration::from_millis(1));
        let (number, has_files) = newest(folder);
        if number > last && (has_files || !needs_files) {
            (with_files, last) = (with_files + 1, number);
        }
    }
    running.cancel();
    assert!(running.wait().is_err());
    drop(out);
}

/// Runs a job to its end; returns its result, and how many records it has read.
fn finish<R>(folder: &Path, job: Job<R>, cores: usize) -> thalweg::Result<(Vec<R>, u64)> {
    let run = Run::default();
    let env = environment(folder, cores);
    let out = job(&env, &run);
    env.run()?;
    Ok((out.take()?, run.seen.load(Ordering::Relaxed)))
}

/// Interrupts a job that spills, and goes on with as many tasks and with others.
fn restored<R: Ord + Debug>(job: Job<R>, expected: impl IntoIterator<Item = R>) {
    restored_in(job, expected, &[2, 3], &[1, 2, 3, 5]);
}

/// The same, with so many cores before and after.
fn restored_in<R: Ord + Debug>(
    job: Job<R>,
    expected: impl IntoIterator<Item = R>,
    before: &[usize],
    after: &[usize],
) {
    let mut expected: Vec<R> = expected.into_iter().collect();
    expected.sort();
    for &before in before {
        let folder = interrupted(job, before);
        let checkpoints = CheckpointDir::open(folder.path().join("checkpoints")).unwrap();
        let newest = checkpoints.list().unwrap().last().unwrap().number;
        checkpoints.verify(newest).unwrap();
        for &after in after {
            let again = match after {
                1 | 3 => savepoint(folder.path(), newest),
                _ => copy(folder.path()),
            };
            let (mut found, read) = finish(again.path(), job, after).unwrap();
            found.sort();
            assert!(
                found == expected,
                "{} of {}, {before} to {after}",
                found.len(),
                expected.len()
            );
            assert!(read < RECORDS, "it has begun anew");
            assert_eq!(spilled(again.path()).len(), 0, "files are left");
        }
        // It is those files that the job has gone on from.
        for (file, _) in spilled(folder.path()) {
            fs::remove_file(file).unwrap();
        }
        assert!(checkpoints.read(newest).is_err());
    }
}

/// How often each key comes.
fn of_keys() -> impl Iterator<Item = (String, u64)> {
    (0..KEYS).map(|n| (key(n), (n..RECORDS).step_by(KEYS as usize).count() as u64))
}

/// More keys than the tasks combine before they send them to their owners.
const MANY: u64 = RECORDS / 2;

fn counts(env: &Environment, run: &Run) -> Output<Vec<(u64, u64)>> {
    let counts = numbers(env, run).group_by(|n| format!("{:0150}", n % MANY)).count();
    counts.unkey().map(|(key, count)| (key.parse().unwrap(), count)).collect()
}

#[test]
fn counts_are_restored() {
    restored(counts, (0..MANY).map(|key| (key, RECORDS / MANY)));
}

/// Windows of this many records, of which each is in so many, on the numbers of records as time.
fn windows<const SIZE: u64, const OVERLAP: u64>(
    env: &Environment,
    run: &Run,
) -> Output<Vec<(u64, u64, u64)>> {
    let micros = |n: u64| Duration::from_micros(n);
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    // Tasks take parts of a range in any order.
    let (run, disorder) = (run.clone(), Watermarks::bounded_disorder(micros(RECORDS)));
    let timed = env.range(0..RECORDS).inspect(move |_| run.see()).assign_timestamps(at, disorder);
    let windows = EventTimeWindow::sliding(micros(SIZE), micros(SIZE / OVERLAP));
    let greatest = timed.group_by(|n| format!("{:0150}", n % MANY)).window(windows);
    let greatest = greatest.aggregate(|a| (a.count(), a.max(|n: &u64| *n)));
    let start = |pane: &Pane<(u64, u64)>| pane.start.as_micros().cast_unsigned();
    greatest.unkey().map(move |(_, pane)| (start(&pane), pane.value.0, pane.value.1)).collect()
}

/// The start, the number and the greatest of the records of each key in each window.
fn of_windows(size: u64, overlap: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let slide = (size / overlap).cast_signed();
    let first = 1 - overlap.cast_signed();
    let windows = (first..=(RECORDS.cast_signed() - 1) / slide).map(move |window| window * slide);
    windows.flat_map(move |start| {
        let within =
            start.max(0).cast_unsigned()..RECORDS.min((start + size.cast_signed()).cast_unsigned());
        let mut of_key = BTreeMap::<u64, (u64, u64)>::new();
        for n in within {
            let (count, greatest) = of_key.entry(n % MANY).or_default();
            (*count, *greatest) = (*count + 1, n);
        }
        of_key.into_values().map(move |(count, greatest)| (start.cast_unsigned(), count, greatest))
    })
}

#[test]
fn windows_are_restored() {
    restored(windows::<50_000, 1>, of_windows(50_000, 1));
}

#[test]
fn windows_that_overlap_are_restored() {
    restored(windows::<45_000, 3>, of_windows(45_000, 3));
}

/// The timestamp of a number, of which each fiftieth comes far too late.
fn late_at(n: u64) -> i64 {
    let late = if n % 50 == 49 { RECORDS / 3 } else { 0 };
    n.cast_signed() - late.cast_signed()
}

/// Windows as [`windows`], whose results late records change: the start, the key and the greatest count of each.
fn late_windows<const SIZE: u64, const OVERLAP: u64>(
    env: &Environment,
    run: &Run,
) -> Output<Vec<(i64, u64, u64)>> {
    let micros = |n: u64| Duration::from_micros(n);
    let run = run.clone();
    let timed = env
        .range(0..RECORDS)
        .inspect(move |_| run.see())
        .assign_timestamps(|n| Timestamp::from_micros(late_at(*n)), Watermarks::monotonous());
    let windows = EventTimeWindow::sliding(micros(SIZE), micros(SIZE / OVERLAP));
    // None is dropped, in whatever order tasks take parts of the range.
    let windows = windows.allowed_lateness(micros(2 * RECORDS));
    let counts = timed.group_by(|n| format!("{:0150}", n % KEYS)).window(windows).count();
    let counts = counts.unkey().map(|(key, pane)| {
        let key: u64 = key.parse().unwrap();
        ((pane.start.as_micros(), key), pane.value)
    });
    let last = counts.group_by(|(window, _)| *window).max(|(_, count)| *count);
    last.unkey().map(|((start, key), count)| (start, key, count)).collect()
}

/// The number of records of each key in each window, by the timestamps of the records.
fn of_late_windows(size: u64, overlap: u64) -> impl Iterator<Item = (i64, u64, u64)> {
    let (size, slide) = (size.cast_signed(), (size / overlap).cast_signed());
    let mut counts = BTreeMap::<(i64, u64), u64>::new();
    for n in 0..RECORDS {
        let last = late_at(n).div_euclid(slide) * slide;
        for start in (0..size / slide).map(|before| last - before * slide) {
            *counts.entry((start, n % KEYS)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((start, key), count)| (start, key, count))
}

#[test]
fn windows_with_late_results_are_restored() {
    restored_in(late_windows::<20_000, 1>, of_late_windows(20_000, 1), &[2], &[1, 3, 5]);
}

#[test]
fn windows_that_overlap_with_late_results_are_restored() {
    restored_in(late_windows::<30_000, 2>, of_late_windows(30_000, 2), &[2], &[1, 3, 5]);
}

/// Windows as [`windows`], of each third record, that have a result after every two records of a key: the start, the number of
/// the result, or 0 at the end, and the number of records.
fn early_windows<const SIZE: u64, const OVERLAP: u64>(
    env: &Environment,
    run: &Run,
) -> Output<Vec<(i64, u32, u64)>> {
    let micros = |n: u64| Duration::from_micros(n);
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    let (run, disorder) = (run.clone(), Watermarks::bounded_disorder(micros(RECORDS)));
    let numbers = env.range(0..RECORDS).inspect(move |_| run.see()).filter(|n| n.is_multiple_of(3));
    let timed = numbers.assign_timestamps(at, disorder);
    let windows = EventTimeWindow::sliding(micros(SIZE), micros(SIZE / OVERLAP));
    let windows = windows.early(Early::every(2));
    let counts = timed.group_by(|n| format!("{:0150}", n % KEYS)).window(windows).count();
    counts
        .unkey()
        .map(|(_, pane)| (pane.start.as_micros(), number(pane.timing), pane.value))
        .collect()
}

/// The number of an early result, or 0.
fn number(timing: Timing) -> u32 {
    match timing {
        Timing::Early(number) => number,
        _ => 0,
    }
}

/// The results of windows in which each key has so many records, with one after every two of them.
fn with_early_results(
    counts: impl Iterator<Item = (i64, u64, u64)>,
) -> impl Iterator<Item = (i64, u32, u64)> {
    counts.flat_map(|(start, _, count)| {
        let early = (1..).zip((2..=count).step_by(2)).map(move |(n, count)| (start, n, count));
        early.chain([(start, 0, count)])
    })
}

/// The number of records of each key in each window, where none is late.
fn of_early_windows(size: u64, overlap: u64) -> impl Iterator<Item = (i64, u32, u64)> {
    let (size, slide) = (size.cast_signed(), (size / overlap).cast_signed());
    let mut counts = BTreeMap::<(i64, u64), u64>::new();
    for n in (0..RECORDS).step_by(3) {
        let last = n.cast_signed().div_euclid(slide) * slide;
        for start in (0..size / slide).map(|before| last - before * slide) {
            *counts.entry((start, n % KEYS)).or_default() += 1;
        }
    }
    with_early_results(counts.into_iter().map(|((start, key), count)| (start, key, count)))
}

#[test]
fn windows_with_early_results_are_restored() {
    restored_in(early_windows::<50_000, 1>, of_early_windows(50_000, 1), &[2], &[1, 3, 5]);
}

#[test]
fn windows_that_overlap_with_early_results_are_restored() {
    restored_in(early_windows::<40_000, 2>, of_early_windows(40_000, 2), &[2], &[1, 3, 5]);
}

/// Numbers that follow one another, of which eight have a key, as timestamps that are at most as far apart as all are.
fn in_eights(
    env: &Environment,
    run: &Run,
) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    // Tasks take parts of a range in any order.
    let disorder = Watermarks::bounded_disorder(Duration::from_micros(RECORDS));
    let run = run.clone();
    let numbers = env.range(0..RECORDS).inspect(move |_| run.see());
    numbers.assign_timestamps(|n| Timestamp::from_micros(n.cast_signed()), disorder)
}

fn of_eights() -> impl Iterator<Item = (String, u64)> {
    (0..RECORDS / 8).map(|n| (format!("{n:0150}"), 8))
}

#[test]
fn sessions_are_restored() {
    let sessions = |env: &Environment, run: &Run| {
        let keyed = in_eights(env, run).group_by(|n| format!("{:0150}", n / 8));
        let counts = keyed.window(SessionWindow::new(Duration::from_secs(1))).count();
        counts.unkey().map(|(key, pane)| (key, pane.value)).collect()
    };
    restored(sessions, of_eights());
}

/// Counts the records of a key, and emits their number when all have come.
struct Counted;

impl Process<String, u64> for Counted {
    type State = u64;
    type Out = u64;
    type Side = Infallible;

    fn start(&self) -> u64 {
        0
    }

    fn on_record(
        &self,
        _: &String,
        count: &mut u64,
        n: u64,
        _: Timestamp,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        *count += 1;
        cx.set_timer(Timer::EventTime(Timestamp::from_micros((n | 7).cast_signed())));
    }

    fn on_timer(
        &self,
        _: &String,
        count: &mut u64,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        cx.emit(*count);
        cx.clear();
    }
}

#[test]
fn states_and_timers_of_keys_are_restored() {
    let counts = |env: &Environment, run: &Run| {
        let keyed = in_eights(env, run).group_by(|n| format!("{:0150}", n / 8));
        keyed.process(Counted).unkey().collect()
    };
    restored(counts, of_eights());
}

/// As [`finish`], on three cores with another state backend, and with so much memory.
fn finish_with<R>(
    folder: &Path,
    job: Job<R>,
    state_backend: StateBackend,
    memory: usize,
) -> thalweg::Result<Vec<R>> {
    let mut config = environment(folder, 3).config().clone();
    (config.state_backend, config.memory) = (state_backend, memory);
    let env = Environment::with_config(config);
    let out = job(&env, &Run::default());
    env.run()?;
    out.take()
}

#[test]
fn jobs_go_on_with_another_state_backend() {
    let numbered = |env: &Environment, run: &Run| {
        let keyed = in_eights(env, run).group_by(|n| format!("{:0150}", n / 8));
        keyed.process(Counted).unkey().collect()
    };
    let folder = interrupted(numbered, 2);
    let expected: Vec<_> = of_eights().collect();
    for (backend, memory) in [(StateBackend::Disk, MEMORY), (StateBackend::Memory, 64 << 20)] {
        let again = copy(folder.path());
        let mut found: Vec<(String, u64)> =
            finish_with(again.path(), numbered, backend, memory).unwrap();
        found.sort();
        assert!(found == expected, "{backend}: {} of {}", found.len(), expected.len());
    }
    let again = copy(folder.path());
    let error = finish_with(again.path(), numbered, StateBackend::Memory, MEMORY).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");

    // Records that wait on disk would be written there again.
    let folder = interrupted(counts, 2);
    let again = copy(folder.path());
    let mut found = finish_with(again.path(), counts, StateBackend::Disk, 1 << 20).unwrap();
    found.sort();
    assert!(found.into_iter().eq((0..MANY).map(|key| (key, RECORDS / MANY))));
    let again = copy(folder.path());
    let error = finish_with(again.path(), counts, StateBackend::Memory, 64 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    assert!(error.message().contains("state backend `memory`"), "{error}");
}

#[test]
fn windows_with_early_results_go_on_with_another_state_backend() {
    let early: Job<_> = early_windows::<50_000, 1>;
    let folder = interrupted(early, 2);
    let mut expected: Vec<_> = of_early_windows(50_000, 1).collect();
    expected.sort();
    for (backend, memory) in
        [(StateBackend::Disk, MEMORY), (StateBackend::MemoryThenDisk, 256 << 20)]
    {
        let again = copy(folder.path());
        let mut found = finish_with(again.path(), early, backend, memory).unwrap();
        found.sort();
        assert!(found == expected, "{backend}: {} of {}", found.len(), expected.len());
    }
    let again = copy(folder.path());
    let error = finish_with(again.path(), early, StateBackend::Memory, 256 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    assert!(error.message().contains("state backend `memory`"), "{error}");
}

/// What is in a checkpoint of a job with enough memory goes to disk in one that has little.
#[test]
fn windows_with_early_results_go_on_with_less_memory() {
    let early: Job<_> = early_windows::<50_000, 1>;
    let folder = tempfile::tempdir().unwrap();
    let mut config = environment(folder.path(), 2).config().clone();
    config.memory = 256 << 20;
    interrupt(folder.path(), &Environment::with_config(config), early, false);
    assert_eq!(spilled(folder.path()).len(), 0);
    let mut expected: Vec<_> = of_early_windows(50_000, 1).collect();
    expected.sort();
    let again = copy(folder.path());
    let (mut found, read) = finish(again.path(), early, 3).unwrap();
    found.sort();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    assert!(read < RECORDS, "it has begun anew");
}

#[test]
fn lists_that_are_moved_to_disk_are_restored() {
    let lists = |env: &Environment, run: &Run| {
        let keyed = numbers(env, run).map(|n| (n % 300, key(n))).group_by(|pair| pair.0);
        let lists = keyed.fold(Vec::new(), |list: &mut Vec<String>, pair| list.push(pair.1));
        lists.unkey().map(|(group, list)| (group, list.len() as u64)).collect()
    };
    restored(lists, (0..300).map(|group| (group, RECORDS / 300)));
}

#[test]
fn keyed_reductions_are_restored() {
    let greatest = |env: &Environment, run: &Run| {
        let keyed = numbers(env, run).group_by(|n| format!("{:0150}", n % MANY));
        keyed.reduce(|a, b| a.max(b)).unkey().map(|(_, n)| n).collect()
    };
    restored(greatest, RECORDS - MANY..RECORDS);
}

#[test]
fn states_of_keys_are_restored_and_their_records_come_in_order() {
    let numbered = |env: &Environment, run: &Run| {
        let keyed = numbers(env, run).group_by(|n| key(*n)).stateful_map(0u64, |_, seen, _| {
            *seen += 1;
            *seen
        });
        keyed.unkey().collect()
    };
    restored(
        numbered,
        of_keys().flat_map(|(key, count)| (1..=count).map(move |n| (key.clone(), n))),
    );
}

/// Numbers whose stream has no end by the plan.
fn endless(env: &Environment, run: &Run) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    let run = run.clone();
    env.generate(f64::INFINITY, |n| (n < RECORDS).then_some(n)).inspect(move |_| run.see())
}

/// The key of eight numbers that follow one another, and of eight others much later.
fn of_sixteen(n: u64) -> String {
    format!("{:0150}", n % (RECORDS / 2) / 8)
}

#[test]
fn states_of_keys_without_an_end_are_restored() {
    let numbered = |env: &Environment, run: &Run| {
        let keyed = endless(env, run).group_by(|n| of_sixteen(*n));
        let numbered = keyed.stateful_map(0u64, |_, seen, _| {
            *seen += 1;
            *seen
        });
        // Pairs end with the shorter stream.
        numbered.unkey().zip(env.iter(0..RECORDS)).map(|(pair, _)| pair).collect()
    };
    let keys = (0..RECORDS / 16).map(|key| of_sixteen(8 * key));
    restored(numbered, keys.flat_map(|key| (1..=16).map(move |n| (key.clone(), n))));
}

/// Pairs of a number with the first of its key.
fn met(env: &Environment, run: &Run) -> Output<Vec<(u64, u64)>> {
    let [left, right] = numbers(env, run).split();
    let left = left.map(|n| (of_sixteen(n), n)).keyed();
    let first = right.filter(|n| *n < RECORDS / 2 && n % 8 == 0);
    let right = first.map(|n| (of_sixteen(n), n)).keyed();
    left.join_with(right).symmetric().inner().unkey().map(|(_, pair)| pair).collect()
}

fn of_met() -> impl Iterator<Item = (u64, u64)> {
    (0..RECORDS).map(|n| (n, n % (RECORDS / 2) / 8 * 8))
}

#[test]
fn symmetric_joins_are_restored() {
    restored(met, of_met());
}

#[test]
fn symmetric_joins_go_on_with_another_state_backend() {
    let folder = interrupted(met, 2);
    for (backend, memory) in [(StateBackend::Disk, MEMORY), (StateBackend::Memory, 64 << 20)] {
        let again = copy(folder.path());
        let mut found = finish_with(again.path(), met, backend, memory).unwrap();
        found.sort_unstable();
        assert!(found.into_iter().eq(of_met()), "{backend}");
    }
    // All of it fits into tables before the checkpoint, and not afterwards.
    let roomy = tempfile::tempdir().unwrap();
    let mut config = environment(roomy.path(), 2).config().clone();
    config.memory = 64 << 20;
    interrupt(roomy.path(), &Environment::with_config(config), met, false);
    assert_eq!(spilled(roomy.path()).len(), 0);
    for after in [1, 3] {
        let (mut found, read) = finish(copy(roomy.path()).path(), met, after).unwrap();
        found.sort_unstable();
        assert!(found.into_iter().eq(of_met()), "2 to {after}");
        assert!(read < RECORDS, "it has begun anew");
    }
}

/// Whether its keys are on disk at a checkpoint is left open.
#[test]
fn unique_records_without_an_end_are_restored() {
    let unique = |env: &Environment, run: &Run| {
        let unique = endless(env, run).map(of_sixteen).unique();
        // A few more than the numbers, each of which comes twice, so that the numbers end first.
        unique.zip(env.iter(0..RECORDS / 16 + 100)).map(|(key, _)| key).collect()
    };
    let mut expected: Vec<_> = (0..RECORDS / 16).map(|key| of_sixteen(8 * key)).collect();
    expected.sort();
    for after in [1, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        interrupt(folder.path(), &environment(folder.path(), 2), unique, false);
        let (mut found, read) = finish(copy(folder.path()).path(), unique, after).unwrap();
        found.sort();
        assert!(found == expected, "{} of {}, 2 to {after}", found.len(), expected.len());
        assert!(read < RECORDS, "it has begun anew");
    }
}

#[test]
fn unique_records_are_restored() {
    let unique = |env: &Environment, run: &Run| numbers(env, run).map(key).unique().collect();
    restored(unique, (0..KEYS).map(key));
}

#[test]
fn sorts_are_restored() {
    let sorted = |env: &Environment, run: &Run| {
        let sorted = numbers(env, run).map(|n| key(n * 7919)).sorted();
        // The order is checked here: the results of jobs are sorted before they are compared.
        let pairs = sorted.scan(String::new(), |before, key| {
            assert!(*before <= key, "{before} before {key}");
            before.clone_from(&key);
            Some(key)
        });
        pairs.collect()
    };
    restored(sorted, (0..RECORDS).map(|n| key(n * 7919)));
}

/// The numbers of the checkpoints in a folder, and whether each can be read.
fn readable(folder: &Path) -> Vec<(u64, bool)> {
    let checkpoints = CheckpointDir::open(folder.join("checkpoints")).unwrap();
    let files = checkpoints.list().unwrap();
    files.iter().map(|file| (file.number, checkpoints.read(file.number).is_ok())).collect()
}

#[test]
fn files_that_are_torn_missing_or_altered_are_found() {
    let folder = interrupted(counts, 2);
    let [(before, true), (newest, true)] = readable(folder.path())[..] else { panic!("both") };
    // A file that has grown since the checkpoint before is torn.
    let torn = spilled(folder.path()).into_iter().find_map(|(file, length)| {
        let cut_to = |length: u64| {
            let again = copy(folder.path());
            let path = again.path().join("checkpoints").join(file.file_name().unwrap());
            fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
            again
        };
        // Behind what the newest needs may be what was copied for another.
        let (mut needed, mut enough) = (0, length);
        while needed < enough {
            let middle = needed.midpoint(enough);
            match readable(cut_to(middle).path())[1] {
                (_, true) => enough = middle,
                (_, false) => needed = middle + 1,
            }
        }
        let again = cut_to(needed.saturating_sub(1));
        (readable(again.path()) == [(before, true), (newest, false)]).then_some(again)
    });
    let torn = torn.expect("a file has grown between two checkpoints");
    let (mut found, read) = finish(torn.path(), counts, 3).unwrap();
    found.sort();
    assert!(found.into_iter().eq((0..MANY).map(|key| (key, RECORDS / MANY))));
    assert!(read < RECORDS, "it has begun anew, and not with the checkpoint before");
    // A file that both need is missing.
    let missing = copy(folder.path());
    for (file, _) in spilled(missing.path()) {
        fs::remove_file(file).unwrap();
    }
    let error = finish(missing.path(), counts, 2).unwrap_err().to_string();
    let expected = ["a file of spilled records of the checkpoint is not there", "begin anew with"];
    assert!(expected.iter().all(|what| error.contains(what)), "{error}");
    // Each is altered: that is found when they are read.
    let altered = copy(folder.path());
    for (file, _) in spilled(altered.path()) {
        let mut bytes = fs::read(&file).unwrap();
        bytes[40] ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(readable(altered.path()), [(before, true), (newest, true)]);
    let checkpoints = CheckpointDir::open(altered.path().join("checkpoints")).unwrap();
    assert!(checkpoints.verify(newest).is_err());
    let kept = altered.path().join("kept");
    assert!(checkpoints.copy(newest, &kept).is_err());
    assert_eq!(CheckpointDir::open(&kept).unwrap().list().unwrap(), []);
    let error = finish(altered.path(), counts, 2).unwrap_err().to_string();
    let expected = "the file of spilled records of the checkpoint was damaged after it was written";
    assert!(error.contains(expected), "{error}");
    // Without its checkpoints, no file is left.
    for file in checkpoints.list().unwrap() {
        checkpoints.remove(file.number).unwrap();
    }
    assert_eq!(spilled(altered.path()).len(), 0);
}

#[test]
fn joins_by_sorting_are_restored() {
    let joined = |env: &Environment, run: &Run| {
        let [left, right] = numbers(env, run).split();
        let left = left.map(|n| (key(n), n)).keyed();
        let right = right.filter(|n| *n < KEYS).map(|n| (key(n), n)).keyed();
        left.join_with(right).sort_merge().inner().unkey().map(|(_, (n, m))| (n, m)).collect()
    };
    restored(joined, (0..RECORDS).map(|n| (n, n % KEYS)));
}

#[test]
fn every_way_to_interrupt_a_job_that_spills_is_sound() {
    let dealt = |task: usize, tasks: usize| (task as u64..3000).step_by(tasks);
    let long = |n: u64| format!("{:0300}", n % 1000);
    check(|env| env.parallel_iter(dealt).group_by(move |n| long(*n)).count().unkey())
        .any_tasks()
        .memory(1 << 12)
        .must_restore()
        .seeds(5)
        .equals((0..1000).map(|n| (long(n), 3u64)));
    check(|env| env.parallel_iter(dealt).map(long).unique())
        .any_tasks()
        .memory(1 << 12)
        .must_restore()
        .seeds(5)
        .equals((0..1000).map(long));
    check(|env| env.parallel_iter(dealt).map(long).sorted())
        .any_tasks()
        .memory(1 << 12)
        .ordered()
        .must_restore()
        .seeds(5)
        .equals((0..1000).flat_map(|n| [long(n), long(n), long(n)]));
}

/// The number of records of each key in each window of 2000 microseconds, one of which begins every 1000.
fn of_two_thousand(at: impl Fn(u64) -> i64) -> BTreeMap<(i64, u64), u64> {
    let mut counts = BTreeMap::new();
    for n in 0..1500 {
        let last = at(n).div_euclid(1000) * 1000;
        for start in [last, last - 1000] {
            *counts.entry((start, n % 500)).or_default() += 1;
        }
    }
    counts
}

#[test]
fn every_way_to_interrupt_windows_with_several_results_that_spill_is_sound() {
    let micros = |n: u64| Duration::from_micros(n);
    let dealt = |task: usize, tasks: usize| (task as u64..1500).step_by(tasks);
    let long = |n: &u64| format!("{:01000}", n % 500);
    let windows = EventTimeWindow::sliding(micros(2000), micros(1000));
    check(|env| {
        let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
        let disorder = Watermarks::bounded_disorder(micros(1500));
        let timed = env.parallel_iter(dealt).assign_timestamps(at, disorder);
        let counts = timed.group_by(long).window(windows.early(Early::every(2))).count();
        counts.unkey().map(|(_, pane)| (pane.start.as_micros(), number(pane.timing), pane.value))
    })
    .any_tasks()
    .memory(1 << 12)
    .must_restore()
    .seeds(5)
    .equals({
        let counts = of_two_thousand(u64::cast_signed).into_iter();
        with_early_results(counts.map(|((start, key), count)| (start, key, count)))
    });
    // Of those that come far too late, each changes a result.
    let late_at = |n: u64| n.cast_signed() - if n % 10 == 9 { 1500 } else { 0 };
    check(|env| {
        let at = move |n: &u64| Timestamp::from_micros(late_at(*n));
        let timed = env.parallel_iter(dealt).assign_timestamps(at, Watermarks::monotonous());
        let windows = windows.allowed_lateness(micros(10_000));
        let counts = timed.group_by(long).window(windows).count().unkey().map(|(key, pane)| {
            let key: u64 = key.parse().unwrap();
            ((pane.start.as_micros(), key), pane.value)
        });
        counts.group_by(|(window, _)| *window).max(|(_, count)| *count).unkey()
    })
    .any_tasks()
    .memory(1 << 12)
    .must_restore()
    .seeds(5)
    .equals(of_two_thousand(late_at));
}

#[test]
fn every_way_to_interrupt_joins_and_pairs_that_spill_is_sound() {
    let numbers = |env: &Environment, end: u64| {
        env.parallel_iter(move |task, tasks| (task as u64..end).step_by(tasks))
    };
    let padded = |n: u64| (n, "x".repeat(300));
    let paired = (0..1500u64).map(|n| (n % 800 + 300, Some(n), n % 800 < 600));
    let alone = (0..300u64).map(|key| (key, None, true));
    check(|env| {
        let left = numbers(env, 1500).map(move |n| (n % 800 + 300, padded(n))).keyed();
        let joined = left.full_join(numbers(env, 900).map(padded).keyed()).unkey();
        joined.map(|(key, (left, right))| (key, left.map(|(n, _)| n), right.is_some()))
    })
    .any_tasks()
    .memory(1 << 14)
    .must_restore()
    .seeds(5)
    .equals(paired.chain(alone));
    check(|env| {
        let [records, control] = numbers(env, 900).split();
        let control = control.filter(|n| *n % 100 == 0);
        let records = records.map(padded).keyed();
        let paired = records.connect_after(control, 0, |all: &mut u64, n| *all += n);
        paired.map(|_, (_, all)| *all).unkey()
    })
    .any_tasks()
    .memory(1 << 14)
    .must_restore()
    .seeds(5)
    .equals((0..900u64).map(|n| (n, 3600u64)));
    check(|env| {
        let [one, other] = env.iter(0..1200u64).split();
        let pairs = one.map(padded).zip(other.filter(|n| *n % 4 == 0));
        pairs.map(|((n, _), m)| (n, m))
    })
    .memory(1 << 14)
    .must_restore()
    .seeds(5)
    .equals((0..300u64).map(|n| (n, 4 * n)));
}

/// Values whose keys take some room become less by one in each round, until they are a multiple of thirty.
#[test]
fn every_way_to_interrupt_a_solution_that_spills_is_sound() {
    let long = |n: u64| format!("{n:01000}");
    for memory in [1 << 14, 1 << 18] {
        check(|env| {
            let nodes = env.range(0..300u64).map(move |n| (long(n), n)).keyed();
            let (outcome, least) = nodes
                .delta_iterate(
                    5,
                    (),
                    |least: &mut u64, n| n < std::mem::replace(least, n.min(*least)),
                    move |changed, _| {
                        let above = changed.unkey().filter(|(_, n)| n % 30 != 0);
                        above.map(move |(key, n)| (key, n - 1)).keyed()
                    },
                )
                .all_rounds();
            outcome.for_each(drop);
            least.unkey()
        })
        .any_tasks()
        .memory(memory)
        .must_restore()
        .seeds(5)
        .equals((0..300u64).map(|n| (long(n), n - (n % 30).min(5))));
    }
}
