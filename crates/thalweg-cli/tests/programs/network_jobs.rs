//! The jobs of the tests on bad networks: readings of sensors at a steady rate, and jobs one after another. And one for long.

use clap::{Parser, Subcommand};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, SessionWindow};
use thalweg::time::Timestamp;
use thalweg::{Environment, Error, ErrorKind, Result, cli};

/// Counts and sums the readings of sensors.
///
/// Reading `n` is of sensor `n % 64`, and its value is `n`. A thousand readings are a millisecond apart, and then there
/// are none for ten seconds.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    job: Job,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Subcommand)]
enum Job {
    /// Writes the sessions of each sensor as files. Says on standard error when the job runs, and when all is read.
    Sessions {
        /// How many readings there are
        #[arg(long, default_value_t = 12_000)]
        readings: u64,
        /// Readings in a second
        #[arg(long, default_value_t = 4000.0)]
        rate: f64,
        /// The folder of the files, which all hosts share
        #[arg(long)]
        output: PathBuf,
    },
    /// Writes every reading as a line, as fast as it can
    Copy {
        /// How many readings there are
        #[arg(long)]
        readings: u64,
        /// The folder of the files, which is another one on each host
        #[arg(long)]
        output: PathBuf,
    },
    /// Sends numbers round and round in a loop, in more rounds than anybody waits for. Says on standard error when the job runs
    Loop {
        /// The folder of a file with the numbers
        #[arg(long)]
        output: PathBuf,
    },
    /// Runs jobs one after another, and says on standard error what the process has after each: its resident memory in
    /// KiB, its open files, its threads
    Repeat {
        /// For so many seconds, by the clock of the first host
        #[arg(long)]
        seconds: f64,
    },
    /// Runs one job, and says on standard error four times a second what the process has, as after each job of `repeat`, and
    /// how many files a folder has; at the end how many checkpoints were taken
    Soak {
        /// For so many seconds, by the clock of the first host
        #[arg(long)]
        seconds: f64,
        /// Readings in a second
        #[arg(long, default_value_t = 200_000.0)]
        rate: f64,
        /// The folder
        #[arg(long)]
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    cli::run(run)
}

fn run() -> Result<()> {
    let Args { job, engine } = Args::parse();
    let env = engine.environment()?;
    match job {
        Job::Sessions { readings, rate, output } => sessions(&env, readings, rate, output),
        Job::Copy { readings, output } => {
            env.range(0..readings).map(|n| format!("{n:063}")).write_lines_parallel(output);
            env.run()
        }
        Job::Loop { output } => rounds(&env, output),
        Job::Repeat { seconds } => repeat(&env, Duration::from_secs_f64(seconds)),
        Job::Soak { seconds, rate, folder } => {
            soak(&env, Duration::from_secs_f64(seconds), rate, &folder)
        }
    }
}

const SENSORS: u64 = 64;

fn time_of(reading: &u64) -> Timestamp {
    Timestamp::from_millis((reading + reading / 1000 * 10_000) as i64)
}

fn sessions(env: &Environment, readings: u64, rate: f64, output: PathBuf) -> Result<()> {
    let read = move |n| {
        if n == readings {
            eprintln!("all is read");
        }
        (n < readings).then_some(n)
    };
    env.generate(rate, read)
        .assign_timestamps(time_of, Watermarks::monotonous())
        .shuffle()
        .group_by(|n| n % SENSORS)
        .window(SessionWindow::new(Duration::from_secs(1)))
        .fold_assoc(
            (0u64, 0u64),
            |(count, sum), n| {
                *count += 1;
                *sum += n;
            },
            |(count, sum), other| {
                *count += other.0;
                *sum += other.1;
            },
        )
        .unkey()
        .map(|(sensor, session)| {
            let (count, sum) = session.value;
            format!("{sensor}\t{count}\t{sum}")
        })
        .write_lines_parallel(output);
    let job = env.start()?;
    eprintln!("running");
    job.wait().map(drop)
}

fn rounds(env: &Environment, output: PathBuf) -> Result<()> {
    let (rounds, left) = env
        .range(0..READINGS)
        .iterate(u64::MAX, 0, |numbers, _| numbers.shuffle().map(|n| n ^ 1))
        .fold(|sum: &mut u64, n| *sum ^= n, |sum, others| *sum ^= others)
        .all_rounds(|all, round| *all ^= round);
    rounds.for_each(drop);
    left.map(|n| n.to_string()).write_lines_parallel(output);
    let job = env.start()?;
    eprintln!("running");
    job.wait().map(drop)
}

/// Readings of a job, and words that they stand for.
const READINGS: u64 = 100_000;
const WORDS: u64 = 5000;

fn repeat(env: &Environment, span: Duration) -> Result<()> {
    let mut expected = BTreeMap::new();
    for n in 0..READINGS {
        *expected.entry(format!("word {}", n * n % WORDS)).or_default() += n;
    }
    let start = Instant::now();
    loop {
        let ended = env.iter(std::iter::once_with(move || start.elapsed() >= span)).collect_one();
        let words = env
            .range(0..READINGS)
            .map(|n| (format!("word {}", n * n % WORDS), n))
            .shuffle()
            .keyed()
            .sum(|n| *n)
            .unkey()
            .collect::<BTreeMap<_, _>>();
        let sorted = env.range(0..READINGS).map(|n| n ^ 0x5555).sorted().collect::<Vec<_>>();
        env.run()?;
        expect("words", words.take()? == expected)?;
        expect("order", sorted.take()?.is_sorted())?;

        let windows = env
            .iter(0..READINGS)
            .assign_timestamps(time_of, Watermarks::monotonous())
            .shuffle()
            .group_by(|n| n % SENSORS)
            .window(EventTimeWindow::sliding(Duration::from_secs(2), Duration::from_secs(1)))
            .count()
            .unkey()
            .map(|(_, window)| window.value)
            .fold(0, |sum: &mut u64, count| *sum += count)
            .collect_one();
        env.run()?;
        expect("windows", windows.take()? == Some(2 * READINGS))?;

        let (halved, odd) = env
            .range(1..READINGS)
            .iterate(100, 0, |numbers, _| numbers.shuffle().filter(|n| n % 2 == 0).map(|n| n / 2))
            .fold(|halved: &mut u64, _| *halved += 1, |halved, others| *halved += others)
            .all_rounds(|all, halved| *all += halved);
        let (halved, odd) = (halved.collect::<Vec<_>>(), odd.count().collect_one());
        env.run()?;
        let halves: u64 = (1..READINGS).map(|n| u64::from(n.trailing_zeros())).sum();
        expect("loop", halved.take()?.iter().all(|outcome| outcome.state == halves))?;
        expect("left", odd.take()? == Some(0))?;

        let used = used().map_err(unseen)?;
        eprintln!("used {} {} {}", used[0], used[1], used[2]);
        if ended.take()? == Some(true) {
            return Ok(());
        }
    }
}

/// How often it says what the process has.
const LOOK: Duration = Duration::from_millis(250);

/// Each reading is in two windows, of one of the sensors, which all hosts have some of.
fn soak(env: &Environment, span: Duration, rate: f64, folder: &Path) -> Result<()> {
    let start = Instant::now();
    let (read, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (reads, counts) = (Arc::clone(&read), Arc::clone(&counted));
    let next = move |n: u64| {
        (start.elapsed() < span).then(|| {
            reads.store(n + 1, Ordering::Relaxed);
            n
        })
    };
    env.generate(rate, next)
        .assign_timestamps(time_of, Watermarks::monotonous())
        .shuffle()
        .group_by(|n| n % SENSORS)
        .window(EventTimeWindow::sliding(Duration::from_secs(2), Duration::from_secs(1)))
        .count()
        .unkey()
        .map(|(_, window)| window.value)
        .for_each(move |count| _ = counts.fetch_add(count, Ordering::Relaxed));
    let job = env.start()?;
    while start.elapsed() < span && !job.is_over() {
        std::thread::sleep(LOOK);
        let (used, files) = (used().map_err(unseen)?, files(folder).map_err(unseen)?);
        eprintln!("used {} {} {} {files}", used[0], used[1], used[2]);
    }
    let stats = job.wait()?;
    let [read, counted] = [read, counted].map(|number| number.load(Ordering::Relaxed));
    expect("windows", counted == 2 * read)?;
    eprintln!("checkpoints {}", stats.checkpoints.map_or(0, |checkpoints| checkpoints.taken));
    Ok(())
}

/// How many files a folder has, with those of the folders in it. Some may go meanwhile.
fn files(folder: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let inner = entry.file_type().is_ok_and(|kind| kind.is_dir());
        count += if inner { files(&entry.path()).unwrap_or(0) } else { 1 };
    }
    Ok(count)
}

fn unseen(cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the process cannot be looked at").caused_by(cause)
}

fn expect(what: &str, right: bool) -> Result<()> {
    let wrong = || Error::new(ErrorKind::Internal, format!("another answer: {what}"));
    right.then_some(()).ok_or_else(wrong)
}

/// What this process has: resident memory in KiB, open files, threads.
fn used() -> std::io::Result<[usize; 3]> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let entries = |folder| std::fs::read_dir(folder).map(Iterator::count);
    Ok([resident.unwrap_or(0), entries("/proc/self/fd")?, entries("/proc/self/task")?])
}
