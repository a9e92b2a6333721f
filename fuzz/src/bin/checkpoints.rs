//! Checkpoints that are damaged or hostile: what lists, reads, verifies and shows them, what compares a program with them and a
//! job that goes on from them refuse them with an error, or read them. Nothing panics, hangs, or takes memory far beyond the file
//! and what its packed entries can make, some 500 bytes for each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use thalweg::check::sealed_checkpoint;
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, SessionWindow};
use thalweg::time::Timestamp;
use thalweg::{Environment, Error, ErrorKind};

/// A record takes time where the job is to be suspended.
static IS_SLOW: AtomicBool = AtomicBool::new(true);
/// The records that the job has read.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// After so many records a job ends: a hostile source may go on at any place of what has no end.
const MOST: u64 = 2000;
/// So many inputs are restored: a process remembers each directory that one of its jobs has had.
const MOST_RESTORED: u64 = 200_000;
/// While a job runs, its panics are errors of the job.
static RUNS: AtomicBool = AtomicBool::new(false);

/// A job with states of several kinds.
fn describe(env: &Environment) {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    let numbers = env.range(0..400).try_map(|n| {
        if IS_SLOW.load(Relaxed) {
            std::thread::sleep(Duration::from_micros(200));
        }
        match SEEN.fetch_add(1, Relaxed) {
            MOST.. => Err(Error::new(ErrorKind::Input, "these are enough")),
            _ => Ok(n),
        }
    });
    let [timed, plain, words, pairs] =
        numbers.assign_timestamps(at, Watermarks::monotonous()).split();
    let [sliding, sessions] = timed.group_by(|n| n % 3).unkey().split();
    let slide = EventTimeWindow::sliding(Duration::from_micros(50), Duration::from_micros(20));
    sliding.group_by(|(key, _)| *key).window(slide).count().unkey().for_each(drop);
    let gap = SessionWindow::new(Duration::from_micros(500));
    sessions.group_by(|(key, _)| *key).window(gap).max(|(_, n)| *n).unkey().for_each(drop);
    let word = |n: u64| format!("word {}", n % 5);
    words.map(word).group_by(|word| word.clone()).count().unkey().for_each(drop);
    plain.unique().sorted().for_each(drop);
    let [left, right] = pairs.split();
    let right = right.group_by(|n| n % 4);
    left.group_by(|n| n % 4).join(right).unkey().for_each(drop);
}

fn environment(dir: Option<&Path>) -> Environment {
    let mut config = Config::default();
    config.cores = NonZero::<usize>::MIN;
    config.memory = 16 << 20;
    config.checkpoints = dir.map(|dir| {
        let mut checkpoints = CheckpointConfig::new(dir);
        checkpoints.interval = Duration::from_secs(3600);
        checkpoints
    });
    Environment::with_config(config)
}

/// A directory of its own.
fn directory(number: u64) -> PathBuf {
    let process = std::process::id();
    std::env::temp_dir().join(format!("thalweg-fuzz-checkpoints-{process}-{number}"))
}

/// The bytes of a checkpoint of the job.
static SAVED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // A panic is a finding only where no job of the engine has caught it.
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !RUNS.load(Relaxed) {
            abort(panic);
        }
    }));
    let dir = directory(u64::MAX);
    let env = environment(Some(&dir));
    describe(&env);
    let job = env.start().expect("a new directory");
    while SEEN.load(Relaxed) < 100 {
        std::thread::yield_now();
    }
    job.suspend().expect("it has checkpoints");
    job.wait().expect_err("it is suspended");
    IS_SLOW.store(false, Relaxed);
    let checkpoints = CheckpointDir::open(&dir).expect("it is there");
    let newest = checkpoints.list().expect("it can be read").pop().expect("the last one");
    checkpoints.verify(newest.number).expect("it is whole");
    let bytes = std::fs::read(newest.path).expect("it can be read");
    assert_eq!(sealed_checkpoint(&bytes), bytes);
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    bytes
});

/// What is before the head.
const HEADER: usize = 44;

/// Changes bytes: each change has its place in two bytes, its kind, and a byte or a number of bytes.
fn edited(mut bytes: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (bytes.len() + 1);
        let end = (at + usize::from(edit[3])).min(bytes.len());
        match edit[2] % 4 {
            0 if at < bytes.len() => bytes[at] = edit[3],
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            _ => bytes.insert(at, edit[3]),
        }
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let file = match how & 1 {
        0 => edited(SAVED.clone(), bytes),
        _ => [&SAVED[..HEADER], bytes].concat(),
    };
    let file = if how & 2 == 0 { sealed_checkpoint(&file) } else { file };

    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let dir = directory(number);
    std::fs::create_dir_all(&dir).expect("the folder for temporary files can be written to");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.join(name), bytes).expect("there is room for it");
    };
    write("checkpoint-0000000007.state", &file);
    write("spilled-a-0.records", bytes);
    let is_readable = read(&dir);
    if is_readable && number < MOST_RESTORED {
        SEEN.store(0, Relaxed);
        RUNS.store(true, Relaxed);
        let env = environment(Some(&dir));
        describe(&env);
        let _ = env.run();
        RUNS.store(false, Relaxed);
    }
    std::fs::remove_dir_all(&dir).expect("it can be removed");
});

/// Whether it can be read.
fn read(dir: &Path) -> bool {
    let checkpoints = CheckpointDir::open(dir).expect("it is there");
    assert_eq!(checkpoints.list().expect("it can be read").len(), 1);
    let read = checkpoints.read(7);
    let verified = checkpoints.verify(7);
    let shown = checkpoints.entries(7, |entry| {
        let line = entry.to_string();
        let mut json = serde_json::Deserializer::from_str(&line);
        json.disable_recursion_limit();
        let read = IgnoredAny::deserialize(&mut json).and_then(|_| json.end());
        read.unwrap_or_else(|error| panic!("{error}: {line}"));
        let key = entry.key.clone().unwrap_or_default();
        assert!(entry.key.is_none() || entry.has_key(&key));
        ControlFlow::Continue(())
    });
    let env = environment(None);
    describe(&env);
    let compared = env.compare_with(dir);
    let errors = [read.err(), shown.err(), verified.err(), compared.err()];
    for error in errors.iter().flatten() {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
    // What cannot be shown may be read all the same.
    errors[0].is_none()
}
