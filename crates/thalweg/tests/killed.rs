//! Jobs with checkpoints whose process is killed: this program starts itself, and kills what it has started.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::data::Data as _;
use thalweg::io::Text;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};

/// Not a test: the program that tests start and kill. It works in the folder that the variable names.
#[test]
fn program_of_a_test() {
    let Ok(folder) = std::env::var("TEST_FOLDER") else { return };
    let cores = std::env::var("TEST_CORES").expect("the test sets it").parse().expect("a number");
    if let Err(error) = job(Path::new(&folder), cores) {
        eprintln!("it says: {error}");
        std::process::exit(1);
    }
}

/// A window, and how often there is one, in microseconds.
const WINDOW: (u64, u64) = (5000, 2000);

/// Counts the lines of each key, numbers them, joins them, sums them up in windows, and copies them to files.
fn job(folder: &Path, cores: usize) -> Result<()> {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).expect("some cores");
    let mut checkpoints = CheckpointConfig::new(folder.join("checkpoints"));
    checkpoints.interval = Duration::from_millis(5);
    config.checkpoints = Some(checkpoints);
    let env = Environment::with_config(config);
    let pair = |line: &str| {
        // So that it takes long enough to be killed often.
        std::hint::black_box((0..4000u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum | 3)));
        let (key, value) = line.split_once(' ').expect("two words");
        (key.to_owned(), value.parse::<u64>().expect("a number"))
    };
    // A barrier waits for the block that is being read.
    let files = || Text::new(folder.join("in")).block_bytes(2000).split_bytes(50_000);
    let [counted, summed, copied, joined] = env.lines(files()).map(pair).split();
    let counts = counted.group_by(|pair| pair.0.clone()).count().unkey();
    counts.map(|(key, count)| format!("{key} {count}")).write_lines(folder.join("counts.txt"));
    let sum = summed.map(|pair| pair.1).fold(0u64, |sum, n| *sum += n);
    sum.map(|sum| sum.to_string()).write_lines(folder.join("sum.txt"));
    let numbered = copied.group_by(|pair| pair.0.clone()).stateful_map(0u64, |_, seen, pair| {
        *seen += 1;
        (*seen, pair.1)
    });
    numbered
        .unkey()
        .map(|(key, (number, value))| format!("{key} {number} {value}"))
        .write_lines_parallel(folder.join("numbered"));
    let tens = env.range(0..KEYS).map(|key| (format!("key-{key}"), key * 10)).keyed();
    let joined = joined.group_by(|pair| pair.0.clone()).join(tens).unkey();
    joined
        .map(|(key, (pair, ten))| format!("{key} {} {ten}", pair.1))
        .write_lines(folder.join("joined.txt"));
    let at = |pair: &(String, u64)| Timestamp::from_micros(pair.1.cast_signed());
    let timed = env.lines(files()).map(pair).assign_timestamps(at, Watermarks::monotonous());
    let window = EventTimeWindow::sliding(micros(WINDOW.0), micros(WINDOW.1));
    let windows = timed.group_by(|pair| pair.0.clone()).window(window).sum(|pair| pair.1);
    windows
        .unkey()
        .map(|(key, pane)| format!("{key} {} {}", pane.start.as_micros(), pane.value))
        .write_lines(folder.join("windows.txt"));
    env.run()
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn start(folder: &Path, cores: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "program_of_a_test", "--nocapture"])
        .env("TEST_FOLDER", folder)
        .env("TEST_CORES", cores.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// The number of the newest checkpoint of the program's job.
fn newest(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder.join("checkpoints")) else { return 0 };
    let number =
        |name: &str| name.strip_prefix("checkpoint-")?.strip_suffix(".state")?.parse().ok();
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| number(name.to_str()?)).max().unwrap_or(0)
}

/// When the program is killed.
#[derive(Clone, Copy)]
enum When {
    /// When there are so many more checkpoints.
    Checkpoints(u64),
    After(Duration),
}

/// Starts the program, and kills it; returns how it ended, if its job has ended well.
fn interrupt(folder: &Path, cores: usize, when: When) -> Option<ExitStatus> {
    let mut program = start(folder, cores);
    let before = newest(folder);
    let began = Instant::now();
    loop {
        if let Some(status) = program.try_wait().expect("it is our child") {
            let output = program.wait_with_output().expect("it is our child");
            assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return Some(status);
        }
        assert!(began.elapsed() < Duration::from_secs(120), "there are no more checkpoints");
        let is_time = match when {
            When::Checkpoints(more) => newest(folder) >= before + more,
            When::After(time) => began.elapsed() >= time,
        };
        if is_time {
            break;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    program.kill().expect("it is our child");
    let status = program.wait().expect("it is our child");
    // Killed when its job had ended and its checkpoints were removed.
    let has_ended = newest(folder) == 0 && folder.join("counts.txt").exists();
    has_ended.then_some(status)
}

const LINES: u64 = 60_000;
const KEYS: u64 = 1000;

/// Keys and values.
fn input() -> impl Iterator<Item = (u64, u64)> {
    (0..LINES).map(|n| (n * 7919 % KEYS, n))
}

fn write_input(folder: &Path) {
    fs::create_dir(folder.join("in")).unwrap();
    for file in 0..3 {
        let mut out = fs::File::create(folder.join(format!("in/{file}.txt"))).unwrap();
        let lines = input().filter(|(_, n)| n % 3 == file);
        let text: String = lines.map(|(key, n)| format!("key-{key} {n}\n")).collect();
        out.write_all(text.as_bytes()).unwrap();
    }
}

/// Checks that each record counts once in all that the job has written.
fn check_output(folder: &Path) {
    let mut counts = BTreeMap::<String, u64>::new();
    let mut copies = Vec::new();
    for (key, n) in input() {
        *counts.entry(format!("key-{key}")).or_default() += 1;
        copies.push((format!("key-{key}"), n));
    }
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut found: Vec<_> = read("counts.txt").lines().map(str::to_owned).collect();
    found.sort();
    let expected: Vec<_> = counts.iter().map(|(key, count)| format!("{key} {count}")).collect();
    let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(found == expected, "{} rows of {}: {differs:?}", found.len(), expected.len());
    assert_eq!(read("sum.txt"), format!("{}\n", LINES * (LINES - 1) / 2));
    let mut numbers = BTreeMap::<String, Vec<u64>>::new();
    let mut found = Vec::new();
    for part in fs::read_dir(folder.join("numbered")).unwrap() {
        let part = part.unwrap().path();
        let name = part.file_name().unwrap().to_str().unwrap();
        assert!(!name.starts_with('.'), "a hidden file is left: {name}");
        for line in fs::read_to_string(&part).unwrap().lines() {
            let words: Vec<_> = line.split(' ').collect();
            numbers.entry(words[0].to_owned()).or_default().push(words[1].parse().unwrap());
            found.push((words[0].to_owned(), words[2].parse().unwrap()));
        }
    }
    found.sort();
    copies.sort();
    assert!(found == copies, "{} records of {}", found.len(), copies.len());
    for (key, mut numbers) in numbers {
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=counts[&key]), "{key}: {numbers:?}");
    }
    let mut joined: Vec<_> = read("joined.txt").lines().map(str::to_owned).collect();
    let mut expected: Vec<_> =
        input().map(|(key, n)| format!("key-{key} {n} {}", key * 10)).collect();
    joined.sort();
    expected.sort();
    assert!(joined == expected, "{} rows of {}", joined.len(), expected.len());
    let mut sums = BTreeMap::<(u64, i64), u64>::new();
    for (key, n) in input() {
        let (size, slide) = (WINDOW.0.cast_signed(), WINDOW.1.cast_signed());
        let mut start = n.cast_signed().div_euclid(slide) * slide;
        while start + size > n.cast_signed() {
            *sums.entry((key, start)).or_default() += n;
            start -= slide;
        }
    }
    let mut windows: Vec<_> = read("windows.txt").lines().map(str::to_owned).collect();
    let mut expected: Vec<_> =
        sums.iter().map(|((key, start), sum)| format!("key-{key} {start} {sum}")).collect();
    windows.sort();
    expected.sort();
    assert!(windows == expected, "{} windows of {}", windows.len(), expected.len());
    assert_eq!(newest(folder), 0, "a job that has ended well leaves no checkpoints");
}

#[test]
fn a_job_that_is_killed_goes_on_and_every_record_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    let (mut kills, mut checkpoints) = (0, 0);
    // With another number of cores each time.
    for run in 0.. {
        // Later each time, so that it ends.
        if interrupt(folder, 1 + run % 3, When::Checkpoints(1 + 2 * run as u64)).is_some() {
            break;
        }
        assert!(newest(folder) > checkpoints, "each run goes on where the one before was");
        checkpoints = newest(folder);
        kills += 1;
    }
    check_output(folder);
    assert!(kills >= 2, "it was killed {kills} times, which tests little");
}

/// The variable `THALWEG_KILL_SEEDS` makes it repeat itself with other moments.
#[test]
fn a_job_may_be_killed_at_any_moment() {
    let seeds: u64 =
        std::env::var("THALWEG_KILL_SEEDS").map_or(1, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_input(folder);
        for run in 0.. {
            // Most are killed before they have come far, and many when they have nearly ended.
            // Later each time, so that it ends on a busy machine too.
            let drawn = (seed * 1000 + run as u64).key_hash() % (300 + 60 * run as u64);
            let when = When::After(Duration::from_millis(drawn));
            if interrupt(folder, 1 + run % 3, when).is_some() {
                break;
            }
        }
        check_output(folder);
    }
}

#[test]
fn a_job_that_has_ended_well_may_be_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    for cores in 1..3 {
        let ended = interrupt(folder, cores, When::After(Duration::MAX));
        assert!(ended.is_some());
        check_output(folder);
        fs::remove_dir_all(folder.join("numbered")).unwrap();
    }
}

#[test]
fn a_directory_is_that_of_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let mut config = Config::default();
        config.checkpoints = Some(CheckpointConfig::new(folder.path()));
        let env = Environment::with_config(config);
        env.range(0..9).for_each(drop);
        env.run()
    };
    run().unwrap();
    let error = run().unwrap_err().to_string();
    assert!(error.contains("a directory of its own"), "{error}");
}

#[test]
fn a_file_that_was_written_since_is_not_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    assert!(interrupt(folder, 2, When::Checkpoints(2)).is_none());
    let path = folder.join("in/0.txt");
    let text = fs::read_to_string(&path).unwrap();
    // The same lines in another order.
    let mut lines: Vec<_> = text.lines().collect();
    lines.reverse();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let output = start(folder, 2).wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("lines (") && said.contains("0.txt"), "{said}");
    assert!(said.contains("was written since"), "{said}");
}
