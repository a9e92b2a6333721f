//! Savepoints: checkpoints that a program requests, and that stay.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, ErrorKind, JobControl, Result};

const ALL: u64 = 400_000;

/// With checkpoints in a directory, none of which is taken by itself.
fn environment(cores: usize, dir: &Path) -> Environment {
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_secs(3600);
    let mut config = Config::default();
    config.cores = cores.try_into().unwrap();
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Takes time, as long as the job is not to end.
fn slowly(n: u64) -> u64 {
    if n.is_multiple_of(64) {
        std::thread::sleep(Duration::from_micros(100));
    }
    n
}

#[test]
fn a_job_goes_on_from_each_of_its_savepoints() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let job = |env: &Environment, read: fn(u64) -> u64| {
        let counts = env.range(0..ALL).map(read).group_by(|n| n % 10).count();
        counts.unkey().collect::<Vec<_>>()
    };
    let env = environment(2, &path("saved"));
    let _counts = job(&env, slowly);
    let running = env.start()?;
    let first = running.savepoint(path("first"))?.expect("it runs");
    assert_eq!(first, CheckpointDir::open(path("first"))?.list()?[0]);
    let second = running.savepoint(path("second"))?.expect("it runs");
    assert!(second.number > first.number);
    // A directory that has one already.
    let error = running.savepoint(path("first")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(!running.is_over());
    let control = running.control();
    running.cancel();
    assert_eq!(running.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(control.savepoint(path("third"))?, None);
    assert!(!path("third").exists());
    for (cores, savepoint) in [(1, first), (3, second)] {
        let copy = path(&format!("again-{cores}"));
        let of = savepoint.path.parent().unwrap();
        CheckpointDir::open(of)?.copy(savepoint.number, &copy)?;
        let env = environment(cores, &copy);
        let counts = job(&env, |n| n);
        let read = env.start()?.wait()?.operators[0].records_out;
        assert!(read.is_some_and(|read| read < ALL), "it goes on within its input: {read:?}");
        let mut counts = counts.take()?;
        counts.sort_unstable();
        assert_eq!(counts, (0..10).map(|key| (key, ALL / 10)).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn requests_of_many_threads_are_answered() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(2, &folder.path().join("saved"));
    env.range(0..1 << 40).map(slowly).group_by(|n| n % 10).count().unkey().for_each(drop);
    let running = env.start()?;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let request = |number: usize| {
            let (control, dir) = (running.control(), folder.path().join(number.to_string()));
            scope.spawn(move || control.savepoint(dir))
        };
        let requests: Vec<_> = (0..16).map(request).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    for (number, answer) in answers.into_iter().enumerate() {
        let file = answer?.expect("it runs");
        assert!(file.path.starts_with(folder.path().join(number.to_string())));
        CheckpointDir::open(file.path.parent().unwrap())?.verify(file.number)?;
    }
    // One that is requested while the job ends is taken, or is not: it never waits for ever.
    let (control, dir) = (running.control(), folder.path().join("late"));
    let late = std::thread::spawn(move || control.savepoint(dir));
    running.suspend()?;
    assert_eq!(running.wait().unwrap_err().kind(), ErrorKind::Suspended);
    drop(late.join().unwrap()?);
    Ok(())
}

#[test]
fn a_closure_of_the_job_cannot_wait_for_a_savepoint() -> Result<()> {
    static CONTROL: OnceLock<JobControl> = OnceLock::new();
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let env = environment(2, &folder.path().join("saved"));
    let kept = folder.path().join("kept");
    env.range(0..1 << 40).map(slowly).for_each(move |_| {
        if let Some(control) = CONTROL.get() {
            let kind = control.savepoint(&kept).unwrap_err().kind();
            REFUSED.fetch_add(u64::from(kind == ErrorKind::Plan), Ordering::Relaxed);
        }
    });
    let running = env.start()?;
    let _ = CONTROL.set(running.control());
    let began = Instant::now();
    while REFUSED.load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never refused");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.cancel();
    assert_eq!(running.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}
