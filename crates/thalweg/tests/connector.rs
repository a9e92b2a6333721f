//! A source and a sink of another crate, by the public interface alone: a log in memory with partitions, to which writers append
//! while jobs read it, and a table that takes batches of rows.

#[path = "connector/aligned.rs"]
mod aligned;
#[path = "connector/at_once.rs"]
mod at_once;
#[path = "connector/drained.rs"]
mod drained;
#[path = "connector/ended.rs"]
mod ended;
#[path = "connector/enough.rs"]
mod enough;
#[path = "connector/idle.rs"]
mod idle;
#[path = "connector/opening.rs"]
mod opening;
#[path = "connector/panics.rs"]
mod panics;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::check::check;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::connector::{
    Emit, Prepared, ReadStatus, Sink, SinkContext, SinkWaker, SinkWriter, SplitContext,
    SplitReader, SplitSource, SplitWaker,
};
use thalweg::io::RollingFiles;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Data, Environment, Error, ErrorKind, Place, Result};

/// A partition of a topic.
#[derive(Clone, Data, PartialEq, Eq, PartialOrd, Ord)]
struct Partition {
    topic: String,
    number: u32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

#[derive(Default)]
struct Appended {
    records: Vec<Vec<u8>>,
    closed: bool,
    readers: Vec<SplitWaker>,
}

/// A log whose partitions other threads append to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Arc<Mutex<Appended>>>>>);

impl Log {
    fn with_partitions(count: usize) -> Self {
        let log = Self::default();
        (0..count).for_each(|_| log.add_partition());
        log
    }

    fn add_partition(&self) {
        self.0.lock().unwrap().push(Arc::default());
    }

    fn partition(&self, number: usize) -> Arc<Mutex<Appended>> {
        Arc::clone(&self.0.lock().unwrap()[number])
    }

    fn append(&self, partition: usize, record: impl Into<Vec<u8>>) {
        let partition = self.partition(partition);
        let mut appended = partition.lock().unwrap();
        appended.records.push(record.into());
        appended.readers.iter().for_each(SplitWaker::wake);
    }

    /// Nothing more is appended to a partition.
    fn close(&self, partition: usize) {
        let partition = self.partition(partition);
        let mut appended = partition.lock().unwrap();
        appended.closed = true;
        appended.readers.iter().for_each(SplitWaker::wake);
    }

    fn close_all(&self) {
        let count = self.0.lock().unwrap().len();
        (0..count).for_each(|partition| self.close(partition));
    }
}

/// What is read of a log.
struct Topic {
    log: Log,
    bounded: bool,
    look_again: Option<Duration>,
    /// Whether partitions that are not new are read from their end.
    latest: bool,
    committed: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Partitions that a job may go on without, and those that it was asked about.
    dispensable: bool,
    gone: Arc<Mutex<Vec<String>>>,
}

impl Topic {
    fn of(log: &Log) -> Self {
        Self {
            log: log.clone(),
            bounded: true,
            look_again: None,
            latest: false,
            committed: Arc::default(),
            dispensable: false,
            gone: Arc::default(),
        }
    }
}

/// Reads a partition. What it emits is borrowed.
struct Cursor {
    partition: Arc<Mutex<Appended>>,
    name: String,
    next: usize,
    fetched: Vec<Vec<u8>>,
}

impl SplitSource for Topic {
    type Item = [u8];
    type Split = Partition;
    type Position = u64;
    type Reader = Cursor;

    fn describe(&self) -> String {
        "log of numbers".to_owned()
    }

    fn is_bounded(&self) -> bool {
        self.bounded
    }

    fn splits(&self) -> Result<Vec<Partition>> {
        let count = self.log.0.lock().unwrap().len();
        let named = |number| Partition { topic: "numbers".to_owned(), number: number as u32 };
        Ok((0..count).map(named).collect())
    }

    fn look_again_after(&self) -> Option<Duration> {
        self.look_again
    }

    fn open(&self, split: &Partition, from: Option<u64>, cx: &SplitContext) -> Result<Cursor> {
        let partition = self.log.partition(split.number as usize);
        let mut appended = partition.lock().unwrap();
        appended.readers.push(cx.waker());
        let begin = if self.latest && !cx.is_new() { appended.records.len() } else { 0 };
        drop(appended);
        let next = from.map_or(begin, |from| from as usize);
        Ok(Cursor { partition, name: split.to_string(), next, fetched: Vec::new() })
    }

    fn goes_on_without(&self, gone: &[Partition]) -> Result<bool> {
        self.gone.lock().unwrap().extend(gone.iter().map(Partition::to_string));
        Ok(self.dispensable)
    }

    fn committed(&self, positions: &[(Partition, u64)]) -> Result<()> {
        let mut committed = self.committed.lock().unwrap();
        committed.extend(positions.iter().map(|(split, at)| (split.to_string(), *at)));
        Ok(())
    }
}

impl SplitReader for Cursor {
    type Item = [u8];
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<[u8]>) -> Result<ReadStatus> {
        let appended = self.partition.lock().unwrap();
        let begin = self.next.min(appended.records.len());
        let end = appended.records.len().min(begin + 7);
        self.fetched.clear();
        self.fetched.extend_from_slice(&appended.records[begin..end]);
        let closed = appended.closed;
        drop(appended);
        if self.fetched.is_empty() {
            return Ok(if closed { ReadStatus::End } else { ReadStatus::Pending });
        }
        for record in &self.fetched {
            if record == b"poison" {
                let place = Place::Split(self.name.clone(), Some(self.next.to_string()));
                return Err(Error::new(ErrorKind::Input, "a poisoned record").at(place));
            }
            self.next += 1;
            out.emit(record);
        }
        Ok(ReadStatus::More)
    }

    fn position(&self) -> u64 {
        self.next as u64
    }
}

fn number(record: &[u8]) -> u64 {
    std::str::from_utf8(record).unwrap().parse().unwrap()
}

/// A log of so many partitions with the numbers below `count`, which is complete.
fn numbers(partitions: usize, count: u64) -> Log {
    let log = Log::with_partitions(partitions);
    for n in 0..count {
        log.append(n as usize * n as usize % partitions, n.to_string());
    }
    log.close_all();
    log
}

#[test]
fn splits_are_read_once_by_any_number_of_tasks_and_go_on_from_checkpoints() {
    for partitions in [1, 3, 7] {
        let log = numbers(partitions, 2000);
        check(|env| env.read(Topic::of(&log)).map(number))
            .any_tasks()
            .must_restore()
            .equals(0..2000u64);
        check(|env| env.read(Topic::of(&log)).map(number).group_by(|n| n % 10).count())
            .any_tasks()
            .must_restore()
            .equals((0..10u64).map(|key| (key, 200u64)));
    }
    check(|env| env.read(Topic::of(&Log::default())).map(number)).equals([0u64; 0]);
}

#[test]
fn every_split_has_a_watermark_of_its_own() {
    // Each partition is in order, and they are far apart in time.
    let log = Log::with_partitions(5);
    for partition in 0..5u64 {
        for n in 0..400 {
            log.append(partition as usize, (partition * 10_000 + n * 10).to_string());
        }
    }
    log.close_all();
    let counts = |env: &Environment| {
        env.read(Topic::of(&log))
            .map(number)
            .assign_timestamps(|at| Timestamp::from_micros(*at as i64), Watermarks::monotonous())
            .group_by(|_| 0u8)
            .window(EventTimeWindow::tumbling(Duration::from_micros(1000)))
            .count()
            .unkey()
            .map(|(_, window)| (window.start.as_micros(), window.value))
    };
    let expected = (0..5i64).flat_map(|p| (0..4).map(move |w| (p * 10_000 + w * 1000, 100u64)));
    check(counts).any_tasks().must_restore().equals(expected);
}

#[test]
fn a_silent_split_holds_event_time_back_until_it_is_idle() -> Result<()> {
    let log = Log::with_partitions(2);
    let source = Topic { bounded: false, ..Topic::of(&log) };
    let env = Environment::with_config(on(1));
    let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(50));
    let mut windows = env
        .read(source)
        .map(number)
        .assign_timestamps(|at| Timestamp::from_micros(*at as i64), watermarks)
        .group_by(|_| 0u8)
        .window(EventTimeWindow::tumbling(Duration::from_micros(10)))
        .count()
        .unkey()
        .map(|(_, window)| (window.start.as_micros(), window.value))
        .to_channel();
    let job = env.start()?;
    // Only the first partition has records, and goes on having them.
    let over = Arc::new(AtomicBool::new(false));
    let (ends, writes) = (Arc::clone(&over), log.clone());
    let writer = std::thread::spawn(move || {
        let mut at = 0;
        while !ends.load(Ordering::Relaxed) {
            writes.append(0, at.to_string());
            at += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(windows.recv()?, Some((0, 10)), "although the other partition has nothing");
    over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    log.close_all();
    while windows.recv()?.is_some() {}
    job.wait().map(drop)
}

#[test]
fn partitions_that_are_added_are_found_and_read_from_their_beginning() -> Result<()> {
    for cores in [1, 2, 4] {
        let log = numbers(1, 10);
        let second = Duration::from_millis(20);
        let source =
            Topic { bounded: false, look_again: Some(second), latest: true, ..Topic::of(&log) };
        let env = Environment::with_config(on(cores));
        let mut seen = env.read(source).map(number).to_channel();
        let job = env.start()?;
        for partition in 1..4 {
            // Half of what is in a partition is there before it can be found.
            let later = Log::with_partitions(1);
            later.append(0, (partition * 100).to_string());
            let added = later.partition(0);
            log.0.lock().unwrap().push(added);
            assert_eq!(seen.recv()?, Some(partition * 100));
            log.append(partition as usize, (partition * 100 + 1).to_string());
            assert_eq!(seen.recv()?, Some(partition * 100 + 1), "it is woken");
        }
        job.drain();
        while seen.recv()?.is_some() {}
        job.wait()?;
    }
    Ok(())
}

#[test]
fn errors_name_the_operator_and_the_place() {
    let log = numbers(3, 30);
    log.append(2, "poison");
    for cores in [1, 3] {
        let env = Environment::with_config(on(cores));
        env.read(Topic::of(&log)).for_each(|_| ());
        let error = env.run().unwrap_err();
        let at = log.partition(2).lock().unwrap().records.len() - 1;
        let place = Place::Split("numbers/2".to_owned(), Some(at.to_string()));
        assert_eq!(error.place(), Some(&place));
        let message = error.to_string();
        assert!(
            message.starts_with("read (") && message.contains("a poisoned record"),
            "{message}"
        );
    }

    struct Unlisted;
    impl SplitSource for Unlisted {
        type Item = [u8];
        type Split = Partition;
        type Position = u64;
        type Reader = Cursor;
        fn describe(&self) -> String {
            "nothing".to_owned()
        }
        fn is_bounded(&self) -> bool {
            true
        }
        fn splits(&self) -> Result<Vec<Partition>> {
            Err(Error::new(ErrorKind::Io, "the broker cannot be reached"))
        }
        fn open(&self, _: &Partition, _: Option<u64>, _: &SplitContext) -> Result<Cursor> {
            unreachable!("there are no splits")
        }
    }
    check(|env| env.read(Unlisted).map(number)).fails_with("the broker cannot be reached");
}

/// A table of rows, which takes a batch as a whole. A batch has a number for ever, and is taken once.
#[derive(Clone, Default)]
struct Table {
    taken: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>,
    /// The batches that were written and not committed.
    staged: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>,
    next: Arc<AtomicUsize>,
    /// Commits that were made again.
    again: Arc<AtomicUsize>,
    slow: bool,
    /// The next commit but so many fails, counted from 1.
    commits_until_failure: Arc<AtomicUsize>,
    fails_to_flush: Arc<AtomicBool>,
}

impl Table {
    fn rows(&self) -> Vec<u64> {
        let taken = self.taken.lock().unwrap();
        let mut rows: Vec<_> = taken.values().flatten().copied().collect();
        rows.sort_unstable();
        rows
    }
}

struct Rows {
    table: Table,
    rows: Vec<u64>,
    waker: SinkWaker,
    /// Whether it waits for a moment, on a thread.
    full: Arc<AtomicBool>,
}

impl Sink for Table {
    type Item = u64;
    type Commit = u64;
    type Writer = Rows;

    fn describe(&self) -> String {
        "table".to_owned()
    }

    fn open(&self, cx: &SinkContext) -> Result<Rows> {
        assert!(cx.task() < cx.tasks());
        if cx.is_restored() && cx.task() == 0 {
            // All that the checkpoint has is committed, so what is left is of no use.
            self.staged.lock().unwrap().clear();
        }
        let (table, full) = (self.clone(), Arc::default());
        Ok(Rows { table, rows: Vec::new(), waker: cx.waker(), full })
    }

    fn commit(&self, batch: &u64) -> Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        let counted = &self.commits_until_failure;
        if counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) == Ok(1) {
            return Err(Error::new(ErrorKind::Io, "the table is locked"));
        }
        let mut taken = self.taken.lock().unwrap();
        if taken.contains_key(batch) {
            self.again.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let rows = self.staged.lock().unwrap().remove(batch).expect("it was flushed");
        taken.insert(*batch, rows);
        Ok(())
    }
}

impl SinkWriter for Rows {
    type Item = u64;
    type Commit = u64;

    fn write(&mut self, row: u64) -> Result<()> {
        self.rows.push(row);
        if self.table.slow && self.rows.len().is_multiple_of(100) {
            self.full.store(true, Ordering::Release);
            let (full, waker) = (Arc::clone(&self.full), self.waker.clone());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1));
                full.store(false, Ordering::Release);
                waker.wake();
            });
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    fn prepare(&mut self) -> Result<Option<Prepared<u64>>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let batch = self.table.next.fetch_add(1, Ordering::Relaxed) as u64;
        let (table, rows) = (self.table.clone(), std::mem::take(&mut self.rows));
        Ok(Some(Prepared::new(batch).after(move || {
            if table.fails_to_flush.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Io, "the disk is full"));
            }
            table.staged.lock().unwrap().insert(batch, rows);
            Ok(())
        })))
    }
}

#[test]
fn without_checkpoints_all_is_committed_at_the_end_or_nothing() {
    for cores in [1, 3] {
        let config = || on(cores);
        let (table, env) = (Table::default(), Environment::with_config(config()));
        env.range(0..10_000).write(table.clone());
        env.run().unwrap();
        assert_eq!(table.rows(), (0..10_000).collect::<Vec<_>>());

        let (table, env) = (Table::default(), Environment::with_config(config()));
        env.range(0..10_000).inspect(|n| assert!(*n != 7000)).write(table.clone());
        env.run().unwrap_err();
        assert_eq!(table.rows(), [0; 0]);

        let (table, env) = (Table::default(), Environment::with_config(config()));
        table.fails_to_flush.store(true, Ordering::Relaxed);
        env.range(0..10_000).write(table.clone());
        let error = env.run().unwrap_err().to_string();
        assert!(error.starts_with("write (") && error.contains("the disk is full"), "{error}");
        assert_eq!(table.rows(), [0; 0]);

        let (table, env) = (Table::default(), Environment::with_config(config()));
        table.commits_until_failure.store(1, Ordering::Relaxed);
        env.range(0..10_000).write(table.clone());
        let error = env.run().unwrap_err().to_string();
        assert!(
            error.contains("the table is locked") && error.contains("not published"),
            "{error}"
        );
    }
}

#[test]
fn a_writer_that_is_full_stops_what_comes_before_it() {
    let table = Table { slow: true, ..Table::default() };
    let env = Environment::with_config(on(2));
    env.range(0..200_000).limit(20_000).write(table.clone());
    // In one stage with a source that knows nothing of wakers.
    env.iter(0..2000).write(table.clone());
    env.parallel_iter(|task, _| (0..1000).map(move |n| n + task as u64)).write(table.clone());
    env.run().unwrap();
    assert_eq!(table.rows().len(), 24_000);
}

#[test]
fn a_commit_that_fails_at_the_end_is_made_again_and_no_other() {
    for cores in [2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let (log, table) = (numbers(6, 3000), Table::default());
        let job = |env: &Environment| env.read(Topic::of(&log)).map(number).write(table.clone());
        let mut failures = 0;
        let env = with_checkpoints(&first, cores);
        job(&env);
        // Two tasks have records, so there are two commits, most often at the end.
        table.commits_until_failure.store(2, Ordering::Relaxed);
        failures += usize::from(env.run().is_err());
        std::fs::rename(&first, &second).unwrap();
        let env = with_checkpoints(&second, 5 - cores);
        job(&env);
        env.run().unwrap();
        assert_eq!((failures, table.rows()), (1, (0..3000).collect()));
    }
}

/// A source that is never done, and whose reader always says that it should be called again.
struct Restless;

struct RestlessReader(SplitWaker);

impl SplitSource for Restless {
    type Item = u64;
    type Split = u32;
    type Position = u64;
    type Reader = RestlessReader;

    fn describe(&self) -> String {
        "nothing".to_owned()
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn splits(&self) -> Result<Vec<u32>> {
        Ok(vec![3, 3, 4])
    }

    fn open(&self, _: &u32, _: Option<u64>, cx: &SplitContext) -> Result<RestlessReader> {
        Ok(RestlessReader(cx.waker()))
    }
}

impl SplitReader for RestlessReader {
    type Item = u64;
    type Position = u64;

    fn read(&mut self, _: &mut impl Emit<u64>) -> Result<ReadStatus> {
        self.0.wake();
        Ok(ReadStatus::Pending)
    }

    fn position(&self) -> u64 {
        0
    }
}

#[test]
fn a_reader_that_wakes_itself_keeps_no_job_from_its_end() {
    for cores in [1, 2] {
        let env = Environment::with_config(on(cores));
        env.read(Restless).for_each(drop);
        let job = env.start().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        job.cancel();
        job.wait().unwrap_err();
    }
}

#[test]
fn a_bounded_source_that_looks_for_new_splits_is_refused() {
    let look_again = Some(Duration::from_millis(1));
    let env = Environment::new();
    env.read(Topic { look_again, ..Topic::of(&numbers(1, 1)) }).for_each(|_| ());
    let error = env.run().unwrap_err().to_string();
    assert!(error.contains("it would never end"), "{error}");
}

/// An environment with checkpoints in this directory, every few milliseconds.
fn with_checkpoints(dir: &Path, cores: usize) -> Environment {
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_millis(5);
    let mut config = on(cores);
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

fn on(cores: usize) -> Config {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    config
}

#[test]
fn each_record_is_committed_once_however_often_the_job_is_interrupted() -> Result<()> {
    for (round, cores) in [1, 3, 2, 4].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::with_partitions(3);
        let table = Table::default();
        let mut written = 0;
        // Runs of the job at other numbers of cores, each of which ends in a failure, somewhere.
        for run in 0..6 {
            // A directory is used once in a process, so each run has its own name for it.
            let dir = folder.path().join(format!("checkpoints-{run}"));
            if run > 0 {
                let before = folder.path().join(format!("checkpoints-{}", run - 1));
                std::fs::rename(before, &dir).unwrap();
            }
            let env = with_checkpoints(&dir, 1 + (cores + run) % 4);
            let topic = Topic { bounded: false, ..Topic::of(&log) };
            let committed = Arc::clone(&topic.committed);
            env.read(topic).map(number).write(table.clone());
            let job = env.start()?;
            let until = written + 1000 + 300 * round as u64;
            while written < until {
                log.append(written as usize % 3, written.to_string());
                written += 1;
                if written % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            if run == 5 {
                log.close_all();
                job.wait()?;
                break;
            }
            // Some checkpoints have committed something, and there is more.
            while table.rows().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            job.cancel();
            job.wait().unwrap_err();
            let read: u64 = committed.lock().unwrap().values().sum();
            assert!(read <= written);
        }
        assert_eq!(table.rows(), (0..written).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn positions_are_told_to_others_once_a_checkpoint_has_them() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::with_partitions(2);
    let source = Topic { bounded: false, ..Topic::of(&log) };
    let committed = Arc::clone(&source.committed);
    let dir = folder.path().join("checkpoints");
    let env = with_checkpoints(&dir, 2);
    env.read(source).map(number).for_each(|_| ());
    let job = env.start()?;
    (0..10).for_each(|n| log.append(n % 2, n.to_string()));
    let all = BTreeMap::from([("numbers/0".to_owned(), 5), ("numbers/1".to_owned(), 5)]);
    while *committed.lock().unwrap() != all {
        std::thread::sleep(Duration::from_millis(1));
    }
    log.close_all();
    job.wait().map(drop)
}

#[test]
fn a_split_that_is_gone_is_refused_by_name_or_left_out() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let names = ["first", "second", "third", "fourth"];
    let [first, second, third, fourth] = names.map(|name| folder.path().join(name));
    let log = Log::with_partitions(3);
    (0..30).for_each(|n| log.append(n % 3, n.to_string()));
    let source = Topic { bounded: false, ..Topic::of(&log) };
    let committed = Arc::clone(&source.committed);
    let env = with_checkpoints(&first, 2);
    env.read(source).map(number).for_each(|_| ());
    let job = env.start()?;
    while committed.lock().unwrap().len() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    job.cancel();
    job.wait().unwrap_err();
    std::fs::rename(&first, &second).unwrap();
    log.0.lock().unwrap().pop();
    let env = with_checkpoints(&second, 2);
    env.read(Topic { bounded: false, ..Topic::of(&log) }).map(number).for_each(|_| ());
    let error = env.run().unwrap_err();
    assert_eq!(error.place(), Some(&Place::Split("numbers/2".to_owned(), None)));
    assert!(error.to_string().contains("is not among those that log of numbers has"), "{error}");
    let names: BTreeSet<_> =
        std::fs::read_dir(&second).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.is_empty(), "the checkpoint stays");
    // Asked about once; from then on it counts as read to its end.
    for (from, to, asked) in [(&second, &third, 1), (&third, &fourth, 0)] {
        std::fs::rename(from, to).unwrap();
        let second = Some(Duration::from_millis(1));
        let look_again = second.filter(|_| asked == 1);
        let source = Topic { bounded: false, dispensable: true, look_again, ..Topic::of(&log) };
        let (gone, committed) = (Arc::clone(&source.gone), Arc::clone(&source.committed));
        let env = with_checkpoints(to, 3);
        env.read(source).map(number).for_each(|_| ());
        let job = env.start()?;
        while committed.lock().unwrap().len() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if asked == 1 {
            // It comes back, and still counts as read.
            let partition = Appended { records: vec![b"0".to_vec()], ..Appended::default() };
            log.0.lock().unwrap().push(Arc::new(Mutex::new(partition)));
            std::thread::sleep(Duration::from_millis(50));
            log.0.lock().unwrap().pop();
        }
        job.cancel();
        job.wait().unwrap_err();
        assert_eq!(*gone.lock().unwrap(), vec!["numbers/2"; asked]);
        assert!(!committed.lock().unwrap().contains_key("numbers/2"));
    }
    Ok(())
}

/// The visible files of a directory, in order, each with its lines.
fn files(dir: &Path) -> Vec<(String, Vec<String>)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let visible = names.filter(|name| !name.starts_with('.'));
    let read = |name: String| {
        let text = std::fs::read_to_string(dir.join(&name)).unwrap();
        (name, text.lines().map(str::to_owned).collect())
    };
    let mut files: Vec<_> = visible.map(read).collect();
    files.sort();
    files
}

#[test]
fn rolling_files_appear_with_each_checkpoint_of_a_stream_without_an_end() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("rows");
    let log = Log::with_partitions(2);
    let env = with_checkpoints(&folder.path().join("checkpoints"), 2);
    let source = Topic { bounded: false, ..Topic::of(&log) };
    env.read(source).map(number).map(|n| (n, n * n)).write(RollingFiles::new(&dir).csv());
    let job = env.start()?;
    for round in 0..3 {
        (0..10).for_each(|n| log.append(n % 2, (round * 10 + n).to_string()));
        let lines = || files(&dir).iter().map(|(_, lines)| lines.len()).sum::<usize>();
        while lines() < (round + 1) * 10 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // Whoever takes the files may remove them.
    for (name, _) in files(&dir) {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    log.append(0, "77");
    log.close_all();
    job.wait()?;
    let [(name, lines)] = &*files(&dir) else { panic!("one file was expected") };
    assert!(name.starts_with("part-0000") && name.ends_with(".csv"), "{name}");
    assert_eq!(*lines, ["77,5929"]);
    let left = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(left, 1, "no hidden file is left");
    Ok(())
}

#[test]
fn rolling_files_of_several_tasks_hold_each_record_once_when_a_job_goes_on() -> Result<()> {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, rows] =
            ["first", "second", "rows"].map(|name| folder.path().join(name));
        let log = Log::with_partitions(4);
        (0..800).for_each(|n| log.append(n % 4, n.to_string()));
        let job = |env: &Environment| {
            let [some, others] =
                env.read(Topic { bounded: false, ..Topic::of(&log) }).map(number).split();
            let files = |bytes| RollingFiles::new(&rows).file_bytes(bytes);
            some.write(files(u64::MAX).lines());
            others.write(files(100).lines());
        };
        let env = with_checkpoints(&first, 4);
        job(&env);
        let running = env.start()?;
        while round % 2 == 0 && files(&rows).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round % 7));
        running.cancel();
        let error = running.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        std::fs::rename(&first, &second).unwrap();
        log.close_all();
        let env = with_checkpoints(&second, 1 + round as usize % 5);
        job(&env);
        env.run()?;
        let mut found: Vec<u64> = Vec::new();
        for (_, lines) in files(&rows) {
            found.extend(lines.iter().map(|line| line.parse::<u64>().unwrap()));
        }
        found.sort_unstable();
        let twice: Vec<_> = (0..800).flat_map(|n| [n, n]).collect();
        assert!(found == twice, "round {round}: {} of 1600 records", found.len());
    }
    Ok(())
}

#[test]
fn rolling_files_are_as_large_as_was_set_and_each_has_a_header() -> Result<()> {
    #[derive(serde::Serialize)]
    struct Square {
        n: u64,
        square: u64,
    }
    let folder = tempfile::tempdir().unwrap();
    let env = Environment::with_config(on(2));
    let rows = |env: &Environment| env.range(0..1000).map(|n| Square { n, square: n * n });
    let small = || RollingFiles::new(folder.path().join("rows")).file_bytes(1000);
    rows(&env).write(small().csv());
    rows(&env).write(small().json_lines());
    env.run()?;
    let written = files(&folder.path().join("rows"));
    let (csv, json): (Vec<_>, Vec<_>) =
        written.iter().partition(|(name, _)| name.ends_with(".csv"));
    assert!(csv.len() > 5 && json.len() > 10, "{} and {} files", csv.len(), json.len());
    let mut rows = 0;
    for (name, lines) in csv {
        assert_eq!(lines[0], "n,square", "{name}");
        let bytes = lines.iter().map(|line| line.len() + 1).sum::<usize>();
        assert!(bytes < 1000 + 30, "{name} has {bytes} bytes");
        rows += lines.len() - 1;
    }
    assert_eq!(rows, 1000);
    assert_eq!(json.iter().map(|(_, lines)| lines.len()).sum::<usize>(), 1000);

    // A job that fails leaves nothing.
    let failed = folder.path().join("failed");
    let failing = env.range(0..1000).inspect(|n| assert!(*n < 900));
    failing.write(RollingFiles::new(&failed).file_bytes(100).lines());
    env.run().unwrap_err();
    assert_eq!(files(&failed).len(), 0);
    Ok(())
}
