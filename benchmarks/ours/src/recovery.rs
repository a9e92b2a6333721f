//! What comes after a failure, and what checkpoints cost in latency.
//!
//! `recovery`: a job at a steady load is killed, and the time counts until it is started again, has its state back and has
//! caught up; with `--after nothing`, until a first start has caught up. `rescale`: a job is suspended, and the time counts
//! until it goes on with another number of tasks and the first record has met its state. `checkpoint-latency`: how long after
//! they were due records meet their counts, with a checkpoint each `--every-ms` or with none.
//!
//! All count keys, and each key comes once in so many records as there are keys: so every key's count is known. The answer is
//! which keys were counted as often as they came, whatever the load.
//!
//! The load is `--per-second`, or `--load-percent` of as many records a second as the job can do, which is found first.

use crate::checkpoint::Folder;
use crate::environment_of;
use crate::streams::answer;
use bench_protocol::histogram::Histogram;
use bench_protocol::{Answer, Request, Result, serve};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::connector::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
use thalweg::{Chain, ErrorKind, Output, Stream};
use thalweg_workloads::digest::Digest;
use thalweg_workloads::readings::RowReadings;

/// The splits of the source: record `n` is in split `n % SPLITS`.
const SPLITS: u64 = 2;
/// One record in this many is looked at: asking the clock for each would be what is measured.
const LOOKED_AT: u64 = 4096;
/// A record that was due no longer ago than this is one that has been waited for.
const CAUGHT_UP: Duration = Duration::from_millis(20);
/// How long the job runs, and takes checkpoints, before it is killed.
const BEFORE: Duration = Duration::from_secs(1);

/// The records, beside one of each key, with which it is found how many a second a job can do, and how often that is tried.
const TRIAL: u64 = 40_000_000;
const TRIALS: u64 = 2;

/// An interval of checkpoints longer than any round.
const NEVER: Duration = Duration::from_secs(3600);
/// The name of the stage that counts.
const COUNT: &str = "count";
/// What a worker prints, once, when it keeps up with its source.
const STEADY: &str = "steady";

pub(crate) fn serve_recovery(request: &Request) -> Result<()> {
    if let Some(folder) = request.get("worker") {
        return work(request, Path::new(folder));
    }
    let (every, tasks) = (every(request)?, request.cores()?);
    let per_second = per_second(request, |folder| saved(folder, every, tasks))?;
    let (load, distinct) = (Load::of(request, per_second)?, request.value("distinct")?);
    let mut round = 0;
    serve(request, |stopwatch| {
        round += 1;
        let folder = Folder::new(round);
        let worker = if request.get("after") == Some("nothing") {
            None
        } else {
            let mut worker = Worker::start(folder.path(), per_second, now())?;
            worker.expect(STEADY)?;
            std::thread::sleep(BEFORE);
            Some(worker)
        };
        let mut again = stopwatch.time(|| -> Result<Worker> {
            let origin = match worker {
                Some(mut worker) => worker.kill()?,
                None => now(),
            };
            let mut again = Worker::start(folder.path(), per_second, origin)?;
            again.expect(STEADY)?;
            Ok(again)
        })?;
        let digest = expected(distinct);
        again.expect(&shown(&digest)).map_err(|error| format!("another answer: {error}"))?;
        let extra = vec![("per_second", per_second as f64)];
        Ok(Answer { extra, ..answer(digest, load.records, load.records * 8) })
    })
}

pub(crate) fn serve_rescale(request: &Request) -> Result<()> {
    let (records, distinct): (u64, u64) = (request.value("records")?, request.value("distinct")?);
    let (from, to): (usize, usize) = (request.value("from")?, request.value("to")?);
    let mut round = 0;
    serve(request, |stopwatch| {
        round += 1;
        let folder = Folder::new(round);
        let (seen, first) = channel();
        let half = records / 2;
        let at_half = move |n| {
            if n > half {
                _ = seen.send(())
            }
        };
        let (kept, copy) = (folder.path().join("kept"), folder.path().join("copy"));
        let env = environment_of(request, saved(&kept, NEVER, from))?;
        _ = counted(env.range(0..records), distinct, records, at_half);
        let job = env.start()?;
        first.recv()?;
        job.suspend()?;
        match job.wait() {
            Err(error) if error.kind() == ErrorKind::Suspended => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("it ended before it was suspended: more records are needed".into()),
        }

        // A process has one job with a directory.
        let kept = CheckpointDir::open(kept)?;
        let newest = kept.list()?.pop().ok_or("nothing was saved")?;
        kept.copy(newest.number, &copy)?;
        let (seen, first) = channel();
        let env = environment_of(request, saved(&copy, NEVER, to))?;
        let any = move |_| _ = seen.send(());
        let rows = counted(env.range(0..records), distinct, records, any);
        let job = stopwatch.time(|| -> Result<_> {
            let job = env.start()?;
            first.recv()?;
            Ok(job)
        })?;
        job.wait()?;
        let digest = digest(rows.take()?);
        if digest != expected(distinct) {
            return Err("some records count twice, or not at all".into());
        }
        Ok(answer(digest, records, records * 8))
    })
}

pub(crate) fn serve_latency(request: &Request) -> Result<()> {
    let (distinct, tasks) = (request.value("distinct")?, request.cores()?);
    let every = request.get("every-ms").map(|_| every(request)).transpose()?;
    // That of a job without checkpoints, also where there are some: the load is to be the same.
    let per_second = per_second(request, |_| unsaved(tasks))?;
    let mut round = 0;
    serve(request, |stopwatch| {
        round += 1;
        let folder = Folder::new(round);
        let config = match every {
            Some(every) => saved(folder.path(), every, tasks),
            None => unsaved(tasks),
        };
        let env = environment_of(request, config)?;
        let load = Load { origin: now(), ..Load::of(request, per_second)? };
        // Records that are due at once are late, and so are those that come soon after them.
        let first = load.at_once + per_second;
        let latencies = Arc::new(Mutex::new(Histogram::default()));
        let all = Arc::clone(&latencies);
        let rows = counted(env.read(Due { load }), distinct, load.records, move |n| {
            if n >= first {
                let late = load.late(n);
                all.lock().unwrap_or_else(PoisonError::into_inner).record(late);
            }
        });
        stopwatch.time(|| env.run())?;
        let digest = digest(rows.take()?);
        if digest != expected(distinct) {
            return Err("some records count twice, or not at all".into());
        }
        let mut extra = latencies.lock().unwrap_or_else(PoisonError::into_inner).percentiles();
        extra.push(("per_second", per_second as f64));
        Ok(Answer { extra, ..answer(digest, load.records, load.records * 8) })
    })
}

/// The job, in a process that is going to be killed.
fn work(request: &Request, folder: &Path) -> Result<()> {
    let load = Load::of(request, request.value("per-second")?)?;
    let (distinct, tasks) = (request.value("distinct")?, request.cores()?);
    let env = environment_of(request, saved(folder, every(request)?, tasks))?;
    let steady = AtomicBool::new(false);
    let records = load.records;
    let source = env.read(Due { load });
    let rows = counted(source, distinct, records, move |n| {
        let is_waited_for = n >= load.at_once && load.late(n) < CAUGHT_UP;
        if is_waited_for && !steady.swap(true, Ordering::Relaxed) {
            say(STEADY);
        }
    });
    env.run()?;
    say(&shown(&digest(rows.take()?)));
    Ok(())
}

fn every(request: &Request) -> Result<Duration> {
    Ok(Duration::from_millis(request.value("every-ms")?))
}

/// The records a second of the load, for a job with these settings.
fn per_second(request: &Request, config: impl Fn(&Path) -> Config) -> Result<u64> {
    if request.get("per-second").is_some() {
        return request.value("per-second");
    }
    let percent: u64 = request.value_or("load-percent", 25)?;
    let distinct: u64 = request.value("distinct")?;
    let records = TRIAL + distinct;
    let mut most = 0;
    for trial in 0..TRIALS {
        // A process has one job with a directory, and rounds have theirs.
        let folder = Folder::new(u64::MAX - trial);
        let env = environment_of(request, config(folder.path()))?;
        let load = Load { records, at_once: records, per_second: 1, origin: now() };
        _ = counted(env.read(Due { load }), distinct, records, |_| {});
        let began = Instant::now();
        env.run()?;
        most = most.max((records as f64 / began.elapsed().as_secs_f64()) as u64);
    }
    Ok(most * percent / 100)
}

fn saved(folder: &Path, interval: Duration, tasks: usize) -> Config {
    let mut config = unsaved(tasks);
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = interval;
    config.checkpoints = Some(checkpoints);
    config
}

fn unsaved(tasks: usize) -> Config {
    let mut config = Config::default();
    config.tasks.set(COUNT, tasks);
    config
}

/// Each key when its last record has come, with a one if it was counted as often as it came. `look` is called with some of the
/// records, where their counts are.
fn counted(
    numbers: Stream<impl Chain<Item = u64, Time = ()>>,
    distinct: u64,
    records: u64,
    look: impl Fn(u64) + Send + Sync + 'static,
) -> Output<Vec<(u64, u64)>> {
    let counts = numbers.group_by(move |n| n.wrapping_mul(618_033) % distinct).stateful_flat_map(
        0_u64,
        move |_, count, n| {
            *count += 1;
            if n.is_multiple_of(LOOKED_AT) {
                look(n);
            }
            (n + distinct >= records).then(|| u64::from(*count == n / distinct + 1))
        },
    );
    counts.name(COUNT).collect()
}

fn digest(rows: Vec<(u64, u64)>) -> Digest {
    let mut digest = Digest::default();
    for (key, value) in rows {
        digest.add(&RowReadings { start: 0, key, value });
    }
    digest
}

/// All keys were counted as often as they came.
fn expected(distinct: u64) -> Digest {
    digest((0..distinct).map(|key| (key, 1)).collect())
}

fn shown(digest: &Digest) -> String {
    format!("{digest:?}")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Where the other end is gone, the line is not needed.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// This program again, with `--worker`.
struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    origin: Duration,
}

impl Worker {
    fn start(folder: &Path, per_second: u64, origin: Duration) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--worker")
            .arg(folder)
            .args(["--per-second", &per_second.to_string()])
            .args(["--origin-ns", &origin.as_nanos().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("standard output was piped")?;
        Ok(Self { child, lines: BufReader::new(out).lines(), origin })
    }

    fn expect(&mut self, line: &str) -> Result<()> {
        match self.lines.next().transpose()? {
            Some(said) if said == line => Ok(()),
            said => Err(format!("the worker was to print {line:?}, not {said:?}").into()),
        }
    }

    /// Returns the moment from which on its records are due.
    fn kill(&mut self) -> std::io::Result<Duration> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(self.origin)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Records at a rate, from a moment on, whether or not the job keeps up, or runs.
#[derive(Clone, Copy)]
struct Load {
    records: u64,
    /// The records that are due at the beginning, so that all keys have a count before the others come.
    at_once: u64,
    per_second: u64,
    /// Since the Unix epoch.
    origin: Duration,
}

impl Load {
    /// So many records a second for `--seconds`, and as long as it takes until each key has come once more.
    fn of(request: &Request, per_second: u64) -> Result<Self> {
        let (distinct, seconds): (u64, u64) =
            (request.value("distinct")?, request.value("seconds")?);
        let records = 2 * distinct + per_second * seconds;
        let at_once = if request.get("after") == Some("nothing") { 0 } else { distinct };
        let origin = Duration::from_nanos(request.value_or("origin-ns", 0)?);
        Ok(Self { records, at_once, per_second, origin })
    }

    /// How many records are due.
    fn due(&self) -> u64 {
        let elapsed = now().saturating_sub(self.origin);
        let due = (elapsed.as_secs_f64() * self.per_second as f64) as u64;
        (self.at_once + due).min(self.records)
    }

    /// How long ago record `n` was due.
    fn late(&self, n: u64) -> Duration {
        let after = n.saturating_sub(self.at_once) as f64 / self.per_second as f64;
        now().saturating_sub(self.origin + Duration::from_secs_f64(after))
    }
}

struct Due {
    load: Load,
}

impl SplitSource for Due {
    type Item = u64;
    type Split = u64;
    type Position = u64;
    type Reader = DueReader;

    fn describe(&self) -> String {
        format!("{} records, {} a second", self.load.records, self.load.per_second)
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> thalweg::Result<Vec<u64>> {
        Ok((0..SPLITS).collect())
    }

    fn open(&self, split: &u64, from: Option<u64>, _: &SplitContext) -> thalweg::Result<DueReader> {
        Ok(DueReader { load: self.load, next: from.unwrap_or(*split) })
    }
}

struct DueReader {
    load: Load,
    next: u64,
}

impl SplitReader for DueReader {
    type Item = u64;
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<u64>) -> thalweg::Result<ReadStatus> {
        if self.next >= self.load.records {
            return Ok(ReadStatus::End);
        }
        let due = self.load.due();
        if self.next >= due {
            return Ok(ReadStatus::PendingFor(Duration::from_millis(1)));
        }
        let end = due.min(self.next + 1024 * SPLITS);
        while self.next < end {
            out.emit(self.next);
            self.next += SPLITS;
        }
        Ok(ReadStatus::More)
    }

    fn position(&self) -> u64 {
        self.next
    }
}
