//! Jobs with checkpoints whose process is killed, or that are suspended: this program starts itself, and kills what it has
//! started.
//!
//! Checkpoints are in a directory of each test, or under a prefix of an object store if `THALWEG_TEST_OBJECTS` names a bucket, as
//! in `s3://checkpoints`: so `cargo xtask test --step objects` runs those of the tests that do not look into files.
#![cfg(target_os = "linux")]

#[path = "killed/ended.rs"]
mod ended;
#[path = "killed/hosts.rs"]
mod hosts;
#[path = "killed/objects.rs"]
mod objects;
#[path = "killed/printed.rs"]
mod printed;
#[path = "killed/spilled.rs"]
mod spilled;
#[path = "killed/suspended.rs"]
mod suspended;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use thalweg::check::free_port;
use thalweg::config::{CheckpointConfig, Config, HostConfig, Secret};
use thalweg::data::Data as _;
use thalweg::io::{RollingFiles, Text};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};

/// Not a test: the program that tests start and kill. It works in the folder that the variable names.
#[test]
fn program_of_a_test() {
    let Ok(folder) = std::env::var("TEST_FOLDER") else { return };
    let number = |name: &str| -> usize {
        std::env::var(name).expect("the test sets it").parse().expect("a number")
    };
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(number("TEST_CORES")).expect("some cores");
    let hosts = number("TEST_HOSTS");
    let host = (hosts > 1).then(|| {
        let first = std::env::var("TEST_FIRST").expect("the test sets it");
        let secret = Secret::new("the secret of a test");
        let mut host = HostConfig::new(number("TEST_HOST"), hosts, first, secret);
        // Others wait so long for one that is killed before it has connected.
        host.connect_timeout = Duration::from_secs(5);
        host
    });
    let job = match std::env::var("TEST_JOB").as_deref() {
        Ok("calls") => suspended::calls,
        Ok("loop") => job_with_a_loop,
        Ok("ended") => ended::job,
        Ok("refused") => hosts::refused,
        Ok("late") => hosts::late,
        Ok("print") => printed::job,
        Ok("other") => job_of_another_program,
        Ok("spilled") => spilled::job,
        _ => job,
    };
    if let Err(error) = job(Path::new(&folder), config, host) {
        eprintln!("it says: {:?}: {error}", error.kind());
        std::process::exit(1);
    }
}

/// The interval of checkpoints, in milliseconds, in jobs that have none but their last.
const NEVER: &str = "100000000";

/// A window, and how often there is one, in microseconds.
const WINDOW: (u64, u64) = (5000, 2000);

/// The numbers of the loop, its rounds, and the rows of the table that it joins them with.
const LOOPED: u64 = 300;
const ROUNDS: u64 = 1000;
const ROWS: u64 = 40;

fn next_in_loop(n: u64, row: u64) -> u64 {
    n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(row)
}

/// The nodes of a ring, of which each is to learn the least.
const RING: u64 = 600;

/// The variable of a run that is to be killed before it has come far: jobs sleep where they else only compute, so that they do not
/// end before a busy machine has looked.
const SLOWLY: (&str, &str) = ("TEST_SLOWLY", "1");

/// The first runs of a job are slow, so many.
const SLOW_RUNS: usize = 3;

/// The variables of a run, these among them.
fn variables_of_run(
    run: usize,
    variables: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'static str)> {
    let slowly = (run < SLOW_RUNS).then_some(SLOWLY);
    variables.iter().copied().chain(slowly).collect()
}

/// Sleeps so long if this run is a slow one; returns whether it is.
fn sleep_if_slow(time: Duration) -> bool {
    static IS_SLOW: LazyLock<bool> = LazyLock::new(|| std::env::var_os(SLOWLY.0).is_some());
    if *IS_SLOW {
        std::thread::sleep(time);
    }
    *IS_SLOW
}

/// Changes numbers in many rounds, by a table from outside the loop and a state that is made of all of them. Beside it, a loop that
/// sees the same numbers in each round, and one that improves a solution.
fn job_with_a_loop(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let env = environment(folder, config, host)?;
    let rows = env.range(0..ROWS).map(|key| (key, key * key + 1)).keyed();
    let (outcome, left) = env
        .range(0..LOOPED)
        .iterate(ROUNDS, 1u64, |numbers, state| {
            let joined = numbers.group_by(|n| n % ROWS).join(rows).unkey();
            joined.with(state).map(|((_, (n, row)), state)| next_in_loop(n, row ^ state))
        })
        .fold(
            |sum: &mut u64, n| *sum = sum.wrapping_add(*n),
            |sum, part| *sum = sum.wrapping_add(part),
        )
        .all_rounds(|state, sum| {
            sleep_if_slow(Duration::from_millis(10));
            *state = sum;
        });
    let lines = left.merge(outcome.map(|outcome| outcome.state ^ outcome.rounds));
    lines.map(|n| n.to_string()).write_lines(folder.join("counts.txt"));
    let replayed = env
        .range(0..LOOPED)
        .replay(ROUNDS, 1u64, |numbers, state| {
            numbers.with(state).map(|(n, state)| next_in_loop(*n, *state))
        })
        .fold(
            |sum: &mut u64, n| *sum = sum.wrapping_add(n),
            |sum, part| *sum = sum.wrapping_add(part),
        )
        .all_rounds(|state, sum| *state = sum);
    replayed.map(|outcome| outcome.state.to_string()).write_lines(folder.join("sum.txt"));
    let less = |least: &mut u64, n: u64| n < std::mem::replace(least, n.min(*least));
    let nodes = env.range(0..RING).map(|node| (node, node + 7)).keyed();
    let (outcome, solution) = nodes
        .delta_iterate(u64::MAX, (), less, |changed, _| {
            let changed = changed.unkey();
            changed.map(|(node, least)| ((node + 1) % RING, least)).keyed()
        })
        .all_rounds();
    let rounds = outcome.map(|outcome| (RING, outcome.rounds));
    let lines = solution.unkey().merge(rounds).map(|(node, least)| format!("{node} {least}"));
    lines.write_lines(folder.join("ring.txt"));
    env.run()
}

/// Checks that each round of the loop took place once.
fn check_loop(folder: &Path) {
    let (mut numbers, mut state) = ((0..LOOPED).collect::<Vec<_>>(), 1);
    for _ in 0..ROUNDS {
        for n in &mut numbers {
            let key = *n % ROWS;
            *n = next_in_loop(*n, (key * key + 1) ^ state);
        }
        state = numbers.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n));
    }
    numbers.push(state ^ ROUNDS);
    numbers.sort_unstable();
    let text = fs::read_to_string(folder.join("counts.txt")).unwrap();
    let mut found: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    found.sort_unstable();
    assert!(found == numbers, "{} numbers of {}", found.len(), numbers.len());
    let sum = (0..ROUNDS).fold(1, |state, _| {
        (0..LOOPED).fold(0, |sum: u64, n| sum.wrapping_add(next_in_loop(n, state)))
    });
    assert_eq!(fs::read_to_string(folder.join("sum.txt")).unwrap(), format!("{sum}\n"));
    let text = fs::read_to_string(folder.join("ring.txt")).unwrap();
    let mut found: Vec<_> = text.lines().map(str::to_owned).collect();
    let mut expected: Vec<_> = (0..RING).map(|node| format!("{node} 7")).collect();
    expected.push(format!("{RING} {RING}"));
    found.sort();
    expected.sort();
    assert!(found == expected, "{} rows of {}", found.len(), expected.len());
    assert_eq!(newest(folder), 0, "a job that has ended well leaves no checkpoints");
}

/// Counts the lines of each key, numbers them, joins them, sums them up in windows, and copies them to files.
fn job(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let env = environment(folder, config, host)?;
    let pair = |line: &str| {
        compute_or_sleep(4000);
        let (key, value) = line.split_once(' ').expect("two words");
        (key.to_owned(), value.parse::<u64>().expect("a number"))
    };
    // A barrier waits for the block that is being read.
    let files = || Text::new(folder.join("in")).block_bytes(2000).split_bytes(50_000);
    let [counted, summed, copied, joined, rolled] = env.lines(files()).map(pair).split();
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
    let rolling = RollingFiles::new(folder.join("rolling")).file_bytes(20_000);
    rolled.map(|(key, value)| format!("{key} {value}")).write(rolling.lines());
    let at = |pair: &(String, u64)| Timestamp::from_micros(pair.1.cast_signed());
    let timed = env.lines(files()).map(pair).assign_timestamps(at, Watermarks::monotonous());
    let window = EventTimeWindow::sliding(micros(WINDOW.0), micros(WINDOW.1));
    let windows = timed.group_by(|pair| pair.0.clone()).window(window).sum(|pair| pair.1);
    windows
        .unkey()
        .map(|(key, pane)| format!("{key} {} {}", pane.start.as_micros(), pane.value))
        .write_lines(folder.join("windows.txt"));
    let collected = env.range(0..LINES).filter(|n| n % 100 == 0).collect::<Vec<_>>();
    suspended::run(&env)?;
    let mut collected = collected.take()?;
    collected.sort_unstable();
    assert!(collected.into_iter().eq((0..LINES).step_by(100)), "what was collected is another");
    Ok(())
}

/// So that a job takes long enough to be killed often.
fn compute_or_sleep(steps: u64) {
    if !sleep_if_slow(Duration::from_micros(200)) {
        let steps = 0..steps * objects::slowness();
        std::hint::black_box(steps.fold(0, |sum: u64, n| sum ^ n.wrapping_mul(sum | 3)));
    }
}

/// Writes the same files by other operators.
fn job_of_another_program(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let env = environment(folder, config, host)?;
    let lines = || env.lines(Text::new(folder.join("in"))).map(str::to_owned);
    lines().write_lines(folder.join("windows.txt"));
    lines().write_lines_parallel(folder.join("elsewhere"));
    lines().write_lines_parallel(folder.join("numbered"));
    lines().write(RollingFiles::new(folder.join("rolling")).json_lines());
    env.run()
}

/// An environment with checkpoints in this folder.
fn environment(folder: &Path, mut config: Config, host: Option<HostConfig>) -> Result<Environment> {
    let saved = match (&host, std::env::var("TEST_APART")) {
        (Some(host), Ok(_)) => folder.join(format!("checkpoints-{}", host.id)),
        _ => saved(folder),
    };
    let mut checkpoints = CheckpointConfig::new(saved);
    let interval = std::env::var("TEST_INTERVAL").map(|millis| millis.parse().expect("a number"));
    checkpoints.interval = Duration::from_millis(interval.unwrap_or(5));
    config.checkpoints = Some(checkpoints);
    match host {
        Some(host) => Environment::on_hosts(config, host),
        None => Ok(Environment::with_config(config)),
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Starts the program with this many cores on each of so many hosts.
fn start(folder: &Path, cores: usize, hosts: usize) -> Vec<Child> {
    start_with(folder, cores, hosts, |_| Vec::new())
}

/// As [`start`], with these variables of each host.
fn start_with<'a>(
    folder: &Path,
    cores: usize,
    hosts: usize,
    variables: impl Fn(usize) -> Vec<(&'a str, &'a str)>,
) -> Vec<Child> {
    start_to(folder, cores, hosts, variables, Stdio::null)
}

/// As [`start_with`], with this standard output of each host.
fn start_to<'a>(
    folder: &Path,
    cores: usize,
    hosts: usize,
    variables: impl Fn(usize) -> Vec<(&'a str, &'a str)>,
    output: impl Fn() -> Stdio,
) -> Vec<Child> {
    let first = format!("127.0.0.1:{}", free_port());
    let host = |host: usize| {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "program_of_a_test", "--nocapture"])
            .env("TEST_FOLDER", folder)
            .env("TEST_CORES", cores.to_string())
            .env("TEST_HOSTS", hosts.to_string())
            .env("TEST_HOST", host.to_string())
            .env("TEST_FIRST", &first)
            .envs(variables(host))
            .stdout(output())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    (0..hosts).map(host).collect()
}

/// Waits until all hosts have ended; returns what those have said that have failed.
fn failures(hosts: Vec<Child>) -> Vec<String> {
    let ended = hosts.into_iter().map(|host| host.wait_with_output().expect("it is our child"));
    let failed = ended.filter(|output| !output.status.success());
    failed.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).collect()
}

/// Where the checkpoints of a test's job are.
fn saved(folder: &Path) -> PathBuf {
    match objects::bucket() {
        Some(bucket) => bucket.join(folder.file_name().expect("it has a name")),
        None => folder.join("checkpoints"),
    }
}

/// The names there.
fn names(folder: &Path) -> Vec<String> {
    if objects::bucket().is_some() {
        return objects::names(&saved(folder));
    }
    let Ok(entries) = fs::read_dir(saved(folder)) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The number of the newest checkpoint of the program's job.
fn newest(folder: &Path) -> u64 {
    let number =
        |name: &str| name.strip_prefix("checkpoint-")?.strip_suffix(".state")?.parse().ok();
    names(folder).iter().filter_map(|name| number(name)).max().unwrap_or(0)
}

/// How many checkpoints a run has taken whose first came behind this number: none if it has ended, and removed them. In a bucket,
/// each run has numbers of its own.
fn further(before: u64, newest: u64) -> u64 {
    const OF_A_RUN: u64 = 1_000_000_000;
    match newest / OF_A_RUN == before / OF_A_RUN {
        true => newest.saturating_sub(before),
        false => newest % OF_A_RUN,
    }
}

/// When the program is killed.
#[derive(Clone, Copy)]
enum When {
    /// When there are so many more checkpoints.
    Checkpoints(u64),
    /// As well, and there are files of spilled records.
    Spilled(u64),
    After(Duration),
}

/// Starts the program, and kills one of its hosts; returns whether its job has ended well.
fn interrupt(folder: &Path, cores: usize, hosts: usize, when: When) -> bool {
    interrupt_with(folder, cores, hosts, when, &[])
}

/// As [`interrupt`], with these variables.
fn interrupt_with(
    folder: &Path,
    cores: usize,
    hosts: usize,
    when: When,
    variables: &[(&str, &str)],
) -> bool {
    let mut program = start_with(folder, cores, hosts, |_| variables.to_vec());
    let before = newest(folder);
    let began = Instant::now();
    loop {
        let has_ended = |host: &mut Child| host.try_wait().expect("it is our child").is_some();
        if program.iter_mut().any(has_ended) {
            assert_eq!(failures(program), [""; 0], "on {hosts} hosts of {cores} cores");
            return true;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "there are no more checkpoints");
        let is_time = match when {
            When::Checkpoints(more) => further(before, newest(folder)) >= more,
            When::Spilled(more) => {
                further(before, newest(folder)) >= more && spilled::files(folder) > 0
            }
            When::After(time) => began.elapsed() >= time,
        };
        if is_time {
            break;
        }
        std::thread::sleep(Duration::from_micros(300) * objects::slowness().pow(3) as u32);
    }
    // Another one each time.
    let victim = began.elapsed().subsec_micros() as usize % hosts;
    program[victim].kill().expect("it is our child");
    for said in failures(program) {
        // Also where it was killed before it had connected.
        let expected = ["is lost", "--connect-timeout"].iter().any(|what| said.contains(what));
        assert!(said.is_empty() || expected, "{said}");
    }
    // Killed when its job had ended and its checkpoints were removed.
    newest(folder) == 0 && folder.join("counts.txt").exists()
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
    let mut rolled = Vec::new();
    for file in fs::read_dir(folder.join("rolling")).unwrap() {
        let file = file.unwrap().path();
        assert!(file.extension().is_some_and(|ending| ending == "txt"), "left: {}", file.display());
        for line in fs::read_to_string(&file).unwrap().lines() {
            let (key, n) = line.split_once(' ').unwrap();
            rolled.push((key.to_owned(), n.parse().unwrap()));
        }
    }
    rolled.sort();
    assert!(rolled == copies, "{} records of {} in rolling files", rolled.len(), copies.len());
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

/// Kills the program at checkpoints until its job has ended, with another number of cores and hosts each time.
fn kill_at_checkpoints(hosts: impl Fn(usize) -> usize) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    let (mut kills, mut checkpoints) = (0, 0);
    for run in 0.. {
        // Later each time, so that it ends.
        let when = When::Checkpoints(1 + 2 * run as u64 / objects::slowness());
        let variables = variables_of_run(run, &[]);
        if interrupt_with(folder, 1 + run % 3, hosts(run), when, &variables) {
            break;
        }
        assert!(newest(folder) > checkpoints, "each run goes on where the one before was");
        checkpoints = newest(folder);
        kills += 1;
    }
    check_output(folder);
    assert!(kills >= SLOW_RUNS, "it was killed {kills} times, which tests little");
}

/// Kills the program at moments of its own, until its job has ended.
///
/// The first moments are before `first` milliseconds, and each run has `more` than the one before.
fn kill_at_any_moment((first, more): (u64, u64), hosts: impl Fn(usize) -> usize) {
    let seeds: u64 =
        std::env::var("THALWEG_KILL_SEEDS").map_or(1, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_input(folder);
        let more = more * objects::slowness();
        for run in 0.. {
            // Most are killed before they have come far, and many when they have nearly ended.
            // Later each time, so that it ends on a busy machine too.
            let drawn = (seed * 1000 + run as u64).key_hash() % (first + more * run as u64);
            let when = When::After(Duration::from_millis(drawn));
            if interrupt(folder, 1 + run % 3, hosts(run), when) {
                break;
            }
        }
        check_output(folder);
    }
}

#[test]
fn a_job_that_is_killed_goes_on_and_every_record_counts_once() {
    kill_at_checkpoints(|_| 1);
}

#[test]
fn a_loop_goes_on_with_the_round_that_its_job_was_killed_in() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (mut kills, mut checkpoints) = (0, 0);
    for run in 0.. {
        let when = When::Checkpoints(1 + 2 * run as u64 / objects::slowness());
        let variables = variables_of_run(run, &[("TEST_JOB", "loop")]);
        if interrupt_with(folder, [2, 1, 4][run % 3], 1, when, &variables) {
            break;
        }
        assert!(newest(folder) > checkpoints, "each run goes on where the one before was");
        checkpoints = newest(folder);
        kills += 1;
    }
    check_loop(folder);
    assert!(kills >= SLOW_RUNS, "it was killed {kills} times, which tests little");
}

#[test]
fn a_loop_goes_on_when_one_of_its_hosts_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut checkpoints = 0;
    for run in 0.. {
        let when = match run < SLOW_RUNS {
            true => When::Checkpoints(2),
            false => When::After(Duration::MAX),
        };
        let variables = variables_of_run(run, &[("TEST_JOB", "loop")]);
        if interrupt_with(folder, 1 + run % 2, [2, 3, 2][run % 3], when, &variables) {
            assert!(run >= SLOW_RUNS, "it was killed {run} times, which tests little");
            break;
        }
        assert!(newest(folder) > checkpoints, "each run goes on where the one before was");
        checkpoints = newest(folder);
    }
    check_loop(folder);
}

#[test]
fn a_job_goes_on_when_one_of_its_hosts_was_killed() {
    kill_at_checkpoints(|run| [2, 3, 1][run % 3]);
}

/// The variable `THALWEG_KILL_SEEDS` makes it repeat itself with other moments.
#[test]
fn a_job_may_be_killed_at_any_moment() {
    kill_at_any_moment((300, 60), |_| 1);
}

/// As above.
#[test]
fn hosts_of_a_job_may_be_killed_at_any_moment() {
    // They have to find each other first.
    kill_at_any_moment((800, 200), |run| [3, 2, 2, 1][run % 4]);
}

#[test]
fn hosts_must_share_the_directory_of_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path());
    let failed = failures(start_with(folder.path(), 1, 2, |_| vec![("TEST_APART", "1")]));
    assert_eq!(failed.len(), 2, "{failed:?}");
    for said in failed {
        assert!(
            said.contains("checkpoints-1: ") && said.contains("all hosts must share it"),
            "{said}"
        );
    }
}

/// Appends to the files that a job was writing when it was killed; returns their lengths then.
fn append_to_hidden(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut hidden = Vec::new();
    for dir in [folder.to_owned(), folder.join("numbered")] {
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.to_str().unwrap().ends_with(".thalweg-kept")) {
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"what comes after the checkpoint\n").unwrap();
            hidden.push((path, file.metadata().unwrap().len()));
        }
    }
    assert!(hidden.len() >= 4, "{hidden:?}");
    hidden
}

/// Whether a directory has files that are not hidden.
fn has_named_files(dir: &Path) -> bool {
    let mut names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.any(|name| !name.as_encoded_bytes().starts_with(b"."))
}

/// One that does not share the directory would begin anew.
#[test]
fn hosts_must_begin_with_one_checkpoint() {
    let interrupted = (0..10).find_map(|_| {
        let folder = tempfile::tempdir().unwrap();
        write_input(folder.path());
        let when = When::Checkpoints(2);
        assert!(!interrupt_with(folder.path(), 1, 2, when, &[SLOWLY]));
        // On a busy machine it may be nearly over, and have begun to give its files their names.
        (!has_named_files(&folder.path().join("numbered"))).then_some(folder)
    });
    let folder = interrupted.expect("it is interrupted in time");
    let folder = folder.path();
    fs::rename(folder.join("checkpoints"), folder.join("checkpoints-0")).unwrap();
    // As if more had been written after the checkpoint: nothing is cut before all hosts agree to go on from there.
    let hidden = append_to_hidden(folder);
    let failed = failures(start_with(folder, 1, 2, |_| vec![("TEST_APART", "1")]));
    assert_eq!(failed.len(), 2, "{failed:?}");
    for said in failed {
        assert!(
            said.contains("checkpoints-1: ") && said.contains("all hosts must share it"),
            "{said}"
        );
    }
    for (path, bytes) in hidden {
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes, "{}", path.display());
    }
    fs::remove_dir_all(folder.join("checkpoints-1")).unwrap();
    fs::rename(folder.join("checkpoints-0"), folder.join("checkpoints")).unwrap();
    assert!(interrupt(folder, 1, 2, When::After(Duration::MAX)), "nothing was harmed");
    check_output(folder);
}

#[test]
fn a_program_that_is_refused_leaves_the_files_of_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    assert!(!interrupt_with(folder, 2, 1, When::Checkpoints(4), &[SLOWLY]));
    let failed = failures(start_with(folder, 2, 1, |_| vec![("TEST_JOB", "other")]));
    assert!(
        failed.len() == 1 && failed[0].contains("run the program of that checkpoint"),
        "{failed:?}"
    );
    assert!(interrupt(folder, 2, 1, When::After(Duration::MAX)), "it goes on");
    check_output(folder);
}

#[test]
fn a_job_that_has_ended_well_may_be_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    for cores in 1..3 {
        assert!(interrupt(folder, cores, 1, When::After(Duration::MAX)));
        check_output(folder);
        // One must be empty; what is in the other stays, and would be found beside the new files.
        for name in ["numbered", "rolling"] {
            fs::remove_dir_all(folder.join(name)).unwrap();
        }
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
    assert!(!interrupt_with(folder, 2, 1, When::Checkpoints(2), &[SLOWLY]));
    let path = folder.join("in/0.txt");
    let text = fs::read_to_string(&path).unwrap();
    // The same lines in another order.
    let mut lines: Vec<_> = text.lines().collect();
    lines.reverse();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let failed = failures(start(folder, 2, 1));
    let said = failed.first().expect("it fails");
    assert!(said.contains("lines (") && said.contains("0.txt"), "{said}");
    assert!(said.contains("was written since"), "{said}");
}
