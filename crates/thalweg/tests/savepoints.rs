//! Savepoints: checkpoints that a program requests, and that stay.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::io::{Output, Text};
use thalweg::{Environment, ErrorKind, JobControl, JobHandle, Result};

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

/// Files of a directory, each with so many numbers from one on.
fn write_numbers(dir: &Path, files: &[(&str, u64)]) {
    std::fs::create_dir_all(dir).unwrap();
    for (name, most) in files {
        let lines: String = (1..=*most).map(|n| format!("{n}\n")).collect();
        std::fs::write(dir.join(name), lines).unwrap();
    }
}

/// Waits until the number is at least so great.
fn wait_for(number: &AtomicU64, least: u64) {
    let began = Instant::now();
    while number.load(Ordering::Relaxed) < least {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never reached");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes a savepoint, and ends the job.
fn keep(running: JobHandle, kept: &Path) -> Result<()> {
    running.savepoint(kept)?.expect("it runs");
    running.cancel();
    assert_eq!(running.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}

/// Of a job that goes on from a copy of a savepoint.
fn going_on(cores: usize, kept: &Path, copy: &Path) -> Result<Environment> {
    let kept = CheckpointDir::open(kept)?;
    kept.copy(kept.list()?[0].number, copy)?;
    Ok(environment(cores, copy))
}

/// Sums up the numbers of files. Counts those that it has read, and the sums.
fn sum_of_files(
    env: &Environment,
    dir: &Path,
    read: &'static AtomicU64,
    sums: &'static AtomicU64,
) -> Output<Vec<u64>> {
    let text = Text::new(dir).block_bytes(100).split_bytes(2000);
    let numbers = env.lines(text).map(move |line| {
        std::thread::sleep(Duration::from_micros(100));
        read.fetch_add(1, Ordering::Relaxed);
        line.parse::<u64>().unwrap()
    });
    let sum = numbers.fold(0, |sum: &mut u64, n| *sum += n);
    let sum = sum.inspect(move |_| _ = sums.fetch_add(1, Ordering::Relaxed));
    let out = sum.collect::<Vec<_>>();
    // The job goes on when all files are read.
    env.range(0..ALL).map(slowly).for_each(drop);
    out
}

#[test]
fn files_that_are_new_when_all_were_read_are_not_read() -> Result<()> {
    static READ: AtomicU64 = AtomicU64::new(0);
    static SUMS: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let (dir, kept) = (folder.path().join("in"), folder.path().join("kept"));
    write_numbers(&dir, &[("a.txt", 10), ("b.txt", 20), ("empty.txt", 0)]);
    let env = environment(2, &folder.path().join("saved"));
    let _out = sum_of_files(&env, &dir, &READ, &SUMS);
    let running = env.start()?;
    wait_for(&SUMS, 1);
    keep(running, &kept)?;
    // What was read is not needed any more, whatever has become of it.
    std::fs::remove_file(dir.join("a.txt")).unwrap();
    write_numbers(&dir, &[("b.txt", 500), ("c.txt", 30)]);
    for cores in [1, 3] {
        let env = going_on(cores, &kept, &folder.path().join(format!("again-{cores}")))?;
        let out = sum_of_files(&env, &dir, &READ, &SUMS);
        env.run()?;
        assert_eq!(out.take()?, [55 + 210]);
        assert_eq!(READ.load(Ordering::Relaxed), 30);
        // Nor if none is left, nor the directory.
        let _ = std::fs::remove_dir_all(&dir);
    }
    Ok(())
}

#[test]
fn a_job_goes_on_with_the_files_that_it_began_with() -> Result<()> {
    static READ: AtomicU64 = AtomicU64::new(0);
    static SUMS: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let (dir, kept) = (folder.path().join("in"), folder.path().join("kept"));
    write_numbers(&dir, &[("a.txt", 1000), ("b.txt", 1000), ("c.txt", 1000)]);
    let env = environment(1, &folder.path().join("saved"));
    let _out = sum_of_files(&env, &dir, &READ, &SUMS);
    let running = env.start()?;
    wait_for(&READ, 1500);
    keep(running, &kept)?;
    std::fs::remove_file(dir.join("a.txt")).unwrap();
    write_numbers(&dir, &[("d.txt", 1000)]);
    let again = |name: &str| {
        let env = going_on(2, &kept, &folder.path().join(name))?;
        let out = sum_of_files(&env, &dir, &READ, &SUMS);
        env.run()?;
        out.take()
    };
    assert_eq!(again("all")?, [3 * 500_500]);
    // One that is still to be read, and was never begun.
    std::fs::remove_file(dir.join("c.txt")).unwrap();
    let error = again("without").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let said = error.to_string();
    assert!(said.contains("lines (") && said.contains("c.txt"), "{said}");
    assert!(said.contains("not among the inputs any more"), "{said}");
    assert!(
        said.contains(&format!("rm --all {}", folder.path().join("without").display())),
        "{said}"
    );
    Ok(())
}
