//! Programs that are compared with a checkpoint, before or while the one that has written it is stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg::checkpoint::{CheckpointDir, PlanComparison, StateComparison, StateFate};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::io::Text;
use thalweg::{Environment, ErrorKind};

/// On so many cores, with a checkpoint each millisecond in this directory if there is one.
fn environment(cores: usize, dir: Option<&Path>) -> Environment {
    let mut config = Config::default();
    config.cores = cores.try_into().unwrap();
    config.checkpoints = dir.map(|dir| {
        let mut checkpoints = CheckpointConfig::new(dir);
        checkpoints.interval = Duration::from_millis(1);
        checkpoints
    });
    Environment::with_config(config)
}

/// Suspends a job once something is so.
fn suspended(cores: usize, dir: &Path, job: impl Fn(&Environment), so: impl Fn() -> bool) {
    let env = environment(cores, Some(dir));
    job(&env);
    let job = env.start().unwrap();
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never so");
        std::thread::sleep(Duration::from_millis(1));
    }
    job.suspend().unwrap();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Suspended);
}

fn compared(cores: usize, dir: &Path, job: impl Fn(&Environment)) -> PlanComparison {
    let env = environment(cores, None);
    job(&env);
    env.compare_with(dir).unwrap()
}

/// The fate of a state, which there must be.
fn fate<'a>(comparison: &'a PlanComparison, operator: &str) -> &'a StateComparison {
    let found = comparison.states.iter().find(|state| state.operator == operator);
    found.unwrap_or_else(|| panic!("{operator} has no state in {comparison}"))
}

/// Counts and adds up by key numbers without an end.
fn sums(env: &Environment) {
    let keyed = env.range(0..1 << 50).map(|n| n % 10).group_by(|n| *n).name("by digit");
    keyed.count().name("counts").unkey().for_each(drop);
}

#[test]
fn the_same_program_goes_on_where_the_source_was() {
    let dir = tempfile::tempdir().unwrap();
    suspended(2, dir.path(), sums, || true);
    for cores in [1, 2, 3] {
        let comparison = compared(cores, dir.path(), sums);
        assert!(comparison.goes_on(), "{comparison}");
        let source = fate(&comparison, "range-0");
        let position = source.position.as_deref().unwrap();
        assert!(position.starts_with("after ") && position.ends_with(" numbers"), "{position}");
        assert!(matches!(fate(&comparison, "counts").fate, StateFate::Reused { .. }));
        assert!(
            comparison.to_string().ends_with(&format!(
                "\nthe job would go on from checkpoint {}\n",
                comparison.number
            ))
        );
    }
}

#[test]
fn every_state_that_differs_is_named_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let job = |env: &Environment| {
        let [first, second, third] = env.range(0..1 << 50).split();
        first.max(|n| *n).name("extreme").for_each(drop);
        second.sum(|n| n % 2).name("old").for_each(drop);
        third.count().name("same").for_each(drop);
    };
    suspended(2, dir.path(), job, || true);
    let comparison = compared(1, dir.path(), |env| {
        let [first, second, third] = env.range(0..1 << 50).split();
        first.min(|n| *n).name("extreme").for_each(drop);
        second.sum(|n| n % 2).name("new").for_each(drop);
        third.count().name("same").for_each(drop);
    });
    let is_like = |name: &str| {
        let of_it = comparison.states.iter().filter(|state| state.operator == name);
        let fates: Vec<_> = of_it.map(|state| &state.fate).collect();
        assert!(!fates.is_empty(), "{name}: {comparison}");
        fates
    };
    assert!(is_like("extreme").iter().any(|fate| matches!(fate, StateFate::Changed { .. })));
    assert!(is_like("old").iter().all(|fate| **fate == StateFate::Dropped));
    assert!(is_like("new").iter().all(|fate| **fate == StateFate::Missing));
    assert!(is_like("same").iter().all(|fate| matches!(fate, StateFate::Reused { .. })));
    assert!(!comparison.goes_on() && comparison.refusals.is_empty());
    let said = comparison.to_string();
    assert!(said.contains("would be refused") && said.contains("in the program:"), "{said}");
}

#[test]
fn operators_that_go_on_under_other_numbers_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let job = |env: &Environment, ends: [u64; 2]| {
        ends.into_iter().for_each(|end| env.range(0..end).for_each(drop));
    };
    let ends = [1 << 50, 1 << 51];
    suspended(2, dir.path(), |env| job(env, ends), || true);
    assert!(compared(2, dir.path(), |env| job(env, ends)).moved.is_empty());
    let comparison = compared(2, dir.path(), |env| job(env, [ends[1], ends[0]]));
    let expected = [("range-0", "range-1"), ("range-1", "range-0")]
        .map(|(id, kept)| format!("`{id}` goes on as `{kept}`, found by its branch"));
    assert!(comparison.goes_on(), "{comparison}");
    assert_eq!(comparison.moved, expected);
    assert!(comparison.to_string().contains(&expected.join("\n")), "{comparison}");
}

#[test]
fn what_only_the_checkpoint_has_is_dropped_where_that_is_allowed() {
    let [dir, copy] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let job = |env: &Environment| {
        let [first, second] = env.range(0..1 << 50).split();
        first.count().name("kept").for_each(drop);
        second.sum(|n| n % 2).name("old").for_each(drop);
    };
    let next = |env: &Environment| env.range(0..1 << 50).count().name("kept").for_each(drop);
    suspended(2, dir.path(), job, || true);
    let refused = compared(2, dir.path(), next);
    assert!(!refused.goes_on(), "{refused}");
    assert!(refused.to_string().contains("\n`--allow-dropped-state` lets "), "{refused}");
    let allowing = |dir: Option<&Path>| {
        let mut config = environment(2, dir).config().clone();
        config.allow_dropped_state = true;
        let env = Environment::with_config(config);
        next(&env);
        env
    };
    let allowed = allowing(None).compare_with(dir.path()).unwrap();
    assert!(allowed.goes_on(), "{allowed}");
    assert_eq!(fate(&allowed, "old").fate, StateFate::Dropped);
    assert!(allowed.to_string().ends_with(", without what is dropped\n"), "{allowed}");
    // What is missing or changed is refused all the same.
    let env = allowing(None);
    env.range(0..9).max(|n| *n).name("new").for_each(drop);
    assert!(!env.compare_with(dir.path()).unwrap().goes_on());
    // A process has one job in a directory.
    CheckpointDir::open(dir.path()).unwrap().copy(allowed.number, copy.path()).unwrap();
    let going_on = allowing(Some(copy.path())).start().unwrap();
    going_on.suspend().unwrap();
    assert_eq!(going_on.wait().unwrap_err().kind(), ErrorKind::Suspended);
    // From then on there is nothing of it.
    let later = compared(2, copy.path(), next);
    assert!(later.goes_on() && later.number > allowed.number, "{later}");
    assert!(later.states.iter().all(|state| !state.operator.starts_with("old")), "{later}");
}

#[test]
fn what_else_would_be_refused_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input.txt");
    std::fs::write(&input, "a line\n".repeat(1000)).unwrap();
    let saved = dir.path().join("saved");
    let seen = Arc::new(AtomicBool::new(false));
    let whole = |env: &Environment| {
        let seen = Arc::clone(&seen);
        // It is not read to its end before the job is suspended.
        let lines = env.lines(Text::new(&input).block_bytes(100)).map(move |line| {
            seen.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            line.len() as u64
        });
        let scanned =
            lines.merge(env.range(0..1 << 50)).shuffle().scan(0, |sum: &mut u64, n: u64| {
                *sum = sum.wrapping_add(n);
                Some(*sum)
            });
        scanned.name("running sum").for_each(drop);
    };
    suspended(2, &saved, whole, || seen.load(Ordering::Relaxed));
    assert!(compared(2, &saved, whole).goes_on(), "{}", compared(2, &saved, whole));
    // Each task of `scan` has a state of its own.
    let fewer = compared(3, &saved, whole);
    assert!(!fewer.goes_on() && fewer.refusals.len() == 1, "{fewer}");
    assert!(fewer.refusals[0].starts_with("running sum"), "{fewer}");
    // A sink that could not go on with its file.
    let out = dir.path().join("lengths.txt");
    let writes = |env: &Environment| {
        env.range(0..1 << 50).map(|n| n.to_string()).write_lines(&out);
    };
    let saved_too = dir.path().join("saved-too");
    let has_checkpoints =
        || CheckpointDir::open(&saved_too).is_ok_and(|dir| dir.list().unwrap().len() > 1);
    suspended(2, &saved_too, writes, has_checkpoints);
    assert!(compared(1, &saved_too, writes).goes_on());
    let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let hidden: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with("-kept")).collect();
    assert_eq!(hidden.len(), 1, "{hidden:?}");
    std::fs::File::options().write(true).open(&hidden[0]).unwrap().set_len(1).unwrap();
    let shorter = compared(1, &saved_too, writes);
    assert!(shorter.refusals.iter().any(|why| why.contains("it has 1 bytes")), "{shorter}");
    std::fs::remove_file(&hidden[0]).unwrap();
    let gone = compared(1, &saved_too, writes);
    assert!(gone.refusals.iter().any(|why| why.contains("is gone")), "{gone}");
    std::fs::write(&input, "another line\n").unwrap();
    let written = compared(2, &saved, whole);
    assert!(
        !written.goes_on() && written.refusals.iter().any(|why| why.contains("input.txt")),
        "{written}"
    );
}

#[test]
fn a_job_that_runs_is_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let (saved, out) = (dir.path().join("saved"), dir.path().join("numbers.txt"));
    let parts = dir.path().join("parts");
    let job = |env: &Environment| {
        let [first, second] = env.range(0..3_000_000).map(|n| n.to_string()).split();
        first.write_lines(&out);
        second.write_lines_parallel(&parts);
    };
    let env = environment(2, Some(&saved));
    job(&env);
    let running = env.start().unwrap();
    let (began, mut seen) = (Instant::now(), 0);
    while !running.is_over() {
        assert!(began.elapsed() < Duration::from_secs(120), "the job does not end");
        if CheckpointDir::open(&saved).is_ok_and(|dir| !dir.list().unwrap().is_empty()) {
            let env = environment(1, None);
            job(&env);
            // The last checkpoint is removed when the job has ended.
            if let Ok(comparison) = env.compare_with(&saved) {
                assert!(comparison.goes_on(), "{comparison}");
                seen += 1;
            }
        }
    }
    running.wait().unwrap();
    assert!(seen > 0, "the job had no checkpoint while it ran");
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 3_000_000);
    let lines = std::fs::read_dir(&parts)
        .unwrap()
        .map(|part| std::fs::read_to_string(part.unwrap().path()).unwrap().lines().count());
    assert_eq!(lines.sum::<usize>(), 3_000_000);
}

#[test]
fn without_a_checkpoint_there_is_nothing_to_compare() {
    let dir = tempfile::tempdir().unwrap();
    let env = environment(1, None);
    sums(&env);
    let error = env.compare_with(dir.path()).unwrap_err();
    assert!(error.message().starts_with("there is no checkpoint"), "{error}");
    let env = environment(1, None);
    sums(&env);
    assert!(env.compare_with(dir.path().join("nowhere")).is_err());
    assert!(!dir.path().join("nowhere").exists(), "nothing is made");
}
