//! Jobs that are suspended, and go on when they are run again.

use super::{
    NEVER, check_output, environment, failures, further, micros, newest, saved, start_with,
    write_input,
};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config, HostConfig};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind, JobHandle, Result};

/// Longer than anything here takes, so that a hang fails.
const LONG: Duration = Duration::from_secs(120);

/// Runs a job, which is suspended after so many milliseconds if a variable says so; twice, which is the same as once.
pub(super) fn run(env: &Environment) -> Result<()> {
    let job = env.start()?;
    if let Ok(millis) = std::env::var("TEST_SUSPEND") {
        let millis = Duration::from_millis(millis.parse().expect("a number"));
        let control = job.control();
        std::thread::spawn(move || {
            std::thread::sleep(millis);
            for _ in 0..2 {
                control.suspend().expect("the job has checkpoints");
            }
        });
    }
    job.wait().map(drop)
}

/// The records of each source of the job whose sinks are closures.
const RECORDS: u64 = 12_000;

/// Calls closures, and counts ticks in windows. The ticks have no end that a plan knows of.
pub(super) fn calls(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let path = folder.join(format!("calls-{}", host.as_ref().map_or(0, |host| host.id)));
    let env = environment(folder, config, host)?;
    let out = OpenOptions::new().create(true).append(true).open(path).expect("it can be opened");
    let out = Arc::new(out);
    let note = |what: &'static str| {
        let out = Arc::clone(&out);
        // In one piece, as several tasks write to the file.
        move |n: u64| (&*out).write_all(format!("{what} {n}\n").as_bytes()).expect("it is written")
    };
    let slowly = |n| {
        std::thread::sleep(micros(50));
        n
    };
    env.range(0..RECORDS).map(slowly).shuffle().for_each_parallel(note("number"));
    let tick = |n| (n < RECORDS).then_some(n);
    let [called, counted] = env.generate(20_000.0, tick).split();
    called.shuffle().for_each_parallel(note("tick"));
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    let timed = counted.assign_timestamps(at, Watermarks::monotonous());
    let windows =
        timed.group_by(|n| n % 3).window(EventTimeWindow::tumbling(micros(300))).count().unkey();
    windows
        .map(|(key, pane)| format!("{key} {} {}", pane.start.as_micros(), pane.value))
        .write_lines(folder.join("windows.txt"));
    run(&env)
}

/// Checks that closures were called once for each record, although a checkpoint promises at least once, and the windows.
fn check_calls(folder: &Path) {
    let all: String = (0..3)
        .filter_map(|host| fs::read_to_string(folder.join(format!("calls-{host}"))).ok())
        .collect();
    let mut calls: Vec<_> = all.lines().collect();
    calls.sort_unstable();
    let each = |what: &'static str| (0..RECORDS).map(move |n| format!("{what} {n}"));
    let mut expected: Vec<_> = each("number").chain(each("tick")).collect();
    expected.sort_unstable();
    let differs = calls.iter().zip(&expected).find(|(call, expected)| *call != expected);
    assert!(
        differs.is_none() && calls.len() == expected.len(),
        "{} calls: {differs:?}",
        calls.len()
    );
    let text = fs::read_to_string(folder.join("windows.txt")).unwrap();
    let mut windows: Vec<_> = text.lines().collect();
    windows.sort_unstable();
    let window = |start: u64| (0..3).map(move |key| format!("{key} {start} 100"));
    let mut expected: Vec<_> = (0..RECORDS).step_by(300).flat_map(window).collect();
    expected.sort_unstable();
    assert_eq!(windows, expected);
}

/// What the tests of one job differ in: the hosts of a run, and which of them suspend it.
type Runs = [(usize, &'static [usize])];

/// Suspends a job until it has ended, later in each run, on other numbers of cores and hosts. No other checkpoints are taken.
fn suspend_until_it_ends(job: &str, runs: &Runs, more: u64) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    let (mut suspended, mut last) = (0, 0);
    for run in 0.. {
        let (hosts, by) = runs[run % runs.len()];
        // At once in the first run.
        let millis = (more * run as u64).to_string();
        let variables = |host: usize| {
            let mut variables = vec![("TEST_JOB", job), ("TEST_INTERVAL", NEVER)];
            if by.contains(&host) {
                variables.push(("TEST_SUSPEND", &millis));
            }
            variables
        };
        let said = failures(start_with(folder, 1 + run % 3, hosts, variables));
        if said.is_empty() {
            break;
        }
        suspended += 1;
        let number = newest(folder);
        assert_eq!(further(last, number), 1);
        last = number;
        let line = format!(
            "it says: Suspended: the job was suspended: it goes on from checkpoint {number} of {} when it is \
             started again\n",
            saved(folder).display()
        );
        assert!(said.len() == hosts && said.iter().all(|said| said.ends_with(&line)), "{said:?}");
        assert!(!folder.join("windows.txt").exists(), "a job that is suspended publishes nothing");
    }
    assert!(suspended >= 2, "it was suspended {suspended} times, which tests little");
    assert_eq!(newest(folder), 0, "a job that has ended well leaves no checkpoints");
    match job {
        "calls" => check_calls(folder),
        _ => check_output(folder),
    }
}

#[test]
fn a_job_that_is_suspended_goes_on_and_every_record_counts_once() {
    suspend_until_it_ends("", &[(1, &[0])], 150);
}

#[test]
fn a_job_that_is_suspended_reads_nothing_behind_its_last_checkpoint() {
    suspend_until_it_ends("calls", &[(1, &[0])], 100);
}

#[test]
fn any_host_suspends_the_job_on_all_of_them() {
    suspend_until_it_ends("", &[(2, &[1]), (2, &[0]), (3, &[0, 1, 2]), (1, &[0]), (2, &[1])], 100);
    suspend_until_it_ends("calls", &[(2, &[0]), (3, &[1, 2]), (2, &[1])], 100);
}

/// A job that waits for a word at its first record; the word is given when the sender is dropped.
struct Waiting {
    job: JobHandle,
    go: mpsc::Sender<()>,
    has_begun: Arc<AtomicBool>,
}

fn waiting(checkpoints: Option<CheckpointConfig>) -> Result<Waiting> {
    let mut config = Config::default();
    config.checkpoints = checkpoints;
    let env = Environment::with_config(config);
    let (go, gone) = mpsc::channel::<()>();
    let (gone, has_begun) = (Mutex::new(gone), Arc::new(AtomicBool::new(false)));
    let begun = Arc::clone(&has_begun);
    let wait = move |n: u64| {
        begun.store(true, Ordering::Relaxed);
        let _ = gone.lock().expect("it does not panic").recv_timeout(LONG);
        n
    };
    env.generate(1e4, Some).parallelism(1).map(wait).for_each(drop);
    Ok(Waiting { job: env.start()?, go, has_begun })
}

fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A job whose last barrier cannot pass, for now.
fn held() -> (Waiting, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let waiting = waiting(Some(CheckpointConfig::new(folder.path()))).unwrap();
    until("the job does not begin", || waiting.has_begun.load(Ordering::Relaxed));
    waiting.job.suspend().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.job.is_over(), "a job is not suspended before its barrier has passed");
    (waiting, folder)
}

/// The kind of the error of a job, which must end soon.
fn kind_of(job: JobHandle) -> Option<ErrorKind> {
    until("the job does not end", || job.is_over());
    job.wait().err().map(|error| error.kind())
}

#[test]
fn a_job_that_is_being_suspended_can_still_be_cancelled_or_drained() {
    let (Waiting { job, go, .. }, _folder) = held();
    job.cancel();
    drop(go);
    assert_eq!(kind_of(job), Some(ErrorKind::Cancelled));
    let (Waiting { job, go, .. }, _folder) = held();
    job.drain();
    drop(go);
    assert_eq!(kind_of(job), None);
    let (Waiting { job, go, .. }, _folder) = held();
    drop(go);
    assert_eq!(kind_of(job), Some(ErrorKind::Suspended));
}

#[test]
fn a_job_without_checkpoints_is_not_suspended() {
    let Waiting { job, go, .. } = waiting(None).unwrap();
    drop(go);
    for refused in [job.suspend(), job.control().suspend()] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("set `checkpoints` of its `Config`"), "{error}");
    }
    job.barrier().unwrap();
    assert!(!job.is_over());
    job.drain();
    let control = job.control();
    job.wait().unwrap();
    control.suspend().unwrap();
}

#[test]
fn a_job_that_is_nearly_over_just_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.checkpoints = Some(CheckpointConfig::new(folder.path()));
    let env = Environment::with_config(config);
    let out = env.range(0..10).sum(|n| *n).collect_one();
    let job = env.start().unwrap();
    until("the job does not end", || job.is_over());
    job.suspend().unwrap();
    job.wait().unwrap();
    assert_eq!(out.take().unwrap(), Some(45));
}

/// Runs a job until it has so many checkpoints, and suspends it when another one cannot be written; returns its message.
fn without_a_last(interval: Duration, checkpoints: u64) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = CheckpointConfig::new(folder.path().join("checkpoints"));
    config.interval = interval;
    let Waiting { job, go, .. } = waiting(Some(config)).unwrap();
    drop(go);
    until("there is no checkpoint", || newest(folder.path()) >= checkpoints);
    // No checkpoint takes the place of another file.
    let name = format!("checkpoints/checkpoint-{:010}.state", checkpoints + 1);
    File::create_new(folder.path().join(name)).expect("the next checkpoint is not written yet");
    job.suspend().unwrap();
    until("the job does not end", || job.is_over());
    let error = job.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    (error.to_string(), folder)
}

#[test]
fn a_last_checkpoint_that_cannot_be_taken_is_told_with_the_one_that_there_is() {
    let begins = "the job was suspended, but no last checkpoint could be taken: it ";
    let (said, folder) = without_a_last(Duration::from_secs(3), 1);
    let onward = format!(
        "{begins}goes on from checkpoint 1 of {}, ",
        folder.path().join("checkpoints").display()
    );
    let rest = said.strip_prefix(&onward).expect(&said);
    let (age, cause) = rest.split_once(" old when it is started again: ").expect(&said);
    assert!(age.ends_with('s') && cause.contains("cannot write the checkpoint"), "{said}");
    let (said, _folder) = without_a_last(LONG, 0);
    let expected = format!("{begins}begins anew when it is started again: ");
    assert!(said.starts_with(&expected), "{said}");
}
