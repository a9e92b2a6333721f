//! Programs that go on from checkpoints of their older versions, with states of other types.

use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::checkpoint::{CheckpointDir, PlanComparison, StateComparison, StateFate};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Data, Environment, ErrorKind, Result};

/// The numbers that a job reads.
const ALL: u64 = 300_000;

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

/// Suspends a job within its input: it must read [slowly].
fn suspended(dir: &Path, job: impl Fn(&Environment)) {
    let env = environment(2, Some(dir));
    job(&env);
    let job = env.start().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    job.suspend().unwrap();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Suspended);
}

/// A copy of the newest checkpoint: a process has one job in a directory.
fn copied(dir: &Path) -> tempfile::TempDir {
    let (checkpoints, copy) = (CheckpointDir::open(dir).unwrap(), tempfile::tempdir().unwrap());
    let newest = checkpoints.list().unwrap().pop().unwrap().number;
    checkpoints.copy(newest, copy.path()).unwrap();
    copy
}

/// Takes time, in the version of a program that is suspended.
fn slowly(n: u64) -> u64 {
    if n.is_multiple_of(64) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(300) {
            std::thread::yield_now();
        }
    }
    n
}

fn compared(dir: &Path, job: impl Fn(&Environment)) -> PlanComparison {
    let env = environment(3, None);
    job(&env);
    env.compare_with(dir).unwrap()
}

/// What becomes of a state.
fn fate(comparison: &PlanComparison, operator: &str) -> StateFate {
    let state = comparison.states.iter().find(|state| state.operator == operator);
    state.unwrap_or_else(|| panic!("{operator} has no state in {comparison}")).fate.clone()
}

fn changes(comparison: &PlanComparison, operator: &str) -> Vec<String> {
    match fate(comparison, operator) {
        StateFate::Migrated { changes, entries, .. } => {
            assert!(entries > 0, "{comparison}");
            changes
        }
        other => panic!("{other:?} in {comparison}"),
    }
}

/// The types of one version and of the next have the same names.
mod first {
    use super::*;

    #[derive(Data, Clone)]
    pub struct Totals {
        pub count: u32,
        pub unused: Option<String>,
        pub sum: u64,
    }

    #[derive(Data)]
    pub enum Phase {
        Begun { seen: u16 },
    }
}

mod second {
    use super::*;

    #[derive(Data, Clone, Debug, PartialEq)]
    pub struct Totals {
        pub sum: u128,
        #[data(alias = "count")]
        pub records: u64,
        /// Those that this version has seen.
        #[data(default)]
        pub later: u64,
    }

    #[derive(Data)]
    pub enum Phase {
        Waiting,
        Begun {
            seen: u64,
            #[data(default = true)]
            is_old: bool,
        },
    }
}

#[test]
fn keys_and_their_states_are_migrated_at_any_number_of_tasks() -> Result<()> {
    let old = |env: &Environment| {
        let start = first::Totals { count: 0, unused: Some("x".to_owned()), sum: 0 };
        let numbers = env.range(0..ALL).map(slowly).group_by(|n| (n % 7) as u16);
        let totals = numbers.fold(start, |totals, n| {
            totals.count += 1;
            totals.sum += n;
        });
        drop(totals.name("totals").unkey().collect::<Vec<_>>());
    };
    let new = |env: &Environment| {
        let start = second::Totals { sum: 0, records: 0, later: 0 };
        let numbers = env.range(0..ALL).map(|n| n).group_by(|n| n % 7);
        let totals = numbers.fold(start, |totals, n| {
            totals.records += 1;
            totals.later += 1;
            totals.sum += u128::from(n);
        });
        totals.name("totals").unkey().collect::<Vec<_>>()
    };
    for cores in [1, 2, 3] {
        let dir = tempfile::tempdir().unwrap();
        suspended(dir.path(), old);
        let comparison = compared(dir.path(), |env| drop(new(env)));
        assert!(comparison.goes_on(), "{comparison}");
        let expected = [
            "the value becomes a u64, from u16",
            "`Totals.records` becomes a u64, from u32",
            "`Totals.unused` is dropped",
            "`Totals.sum` becomes a u128, from u64",
            "`Totals.records` was called `count`",
            "`Totals.later` is added, with its default",
            "`Totals` has its fields in another order",
        ];
        assert_eq!(changes(&comparison, "totals"), expected);
        assert!(comparison.to_string().contains("migrated"), "{comparison}");

        let copy = copied(dir.path());
        let env = environment(cores, Some(copy.path()));
        let totals = new(&env);
        env.run()?;
        let mut totals = totals.take()?;
        totals.sort_unstable_by_key(|(key, _)| *key);
        assert_eq!(totals.len(), 7);
        let mut later = 0;
        for (key, totals) in totals {
            let own = (0..ALL).filter(|n| n % 7 == key);
            assert_eq!(totals.sum, own.clone().map(u128::from).sum());
            assert_eq!(totals.records, own.count() as u64);
            later += totals.later;
        }
        assert!((1..ALL).contains(&later), "{later} records after the checkpoint");
    }
    Ok(())
}

/// Counts, and sets a timer that fires when all is over.
struct Old;

impl Process<u64, u64> for Old {
    type State = first::Phase;
    type Out = (u64, bool);
    type Side = std::convert::Infallible;

    fn start(&self) -> first::Phase {
        first::Phase::Begun { seen: 0 }
    }

    fn on_record(
        &self,
        _: &u64,
        state: &mut first::Phase,
        _: u64,
        _: Timestamp,
        cx: &mut ProcessContext<'_, (u64, bool), Self::Side>,
    ) {
        let first::Phase::Begun { seen } = state;
        *seen = seen.saturating_add(1);
        cx.set_timer(Timer::EventTime(Timestamp::from_micros(1 << 50)));
    }

    fn on_timer(
        &self,
        _: &u64,
        _: &mut first::Phase,
        _: Timer,
        _: &mut ProcessContext<'_, (u64, bool), Self::Side>,
    ) {
    }
}

/// Counts on, and emits the count at the timer that the old version has set.
struct New;

impl Process<u64, u64> for New {
    type State = second::Phase;
    type Out = (u64, bool);
    type Side = std::convert::Infallible;

    fn start(&self) -> second::Phase {
        second::Phase::Begun { seen: 0, is_old: false }
    }

    fn on_record(
        &self,
        _: &u64,
        state: &mut second::Phase,
        _: u64,
        _: Timestamp,
        _: &mut ProcessContext<'_, (u64, bool), Self::Side>,
    ) {
        if let second::Phase::Begun { seen, .. } = state {
            *seen += 1;
        }
    }

    fn on_timer(
        &self,
        _: &u64,
        state: &mut second::Phase,
        _: Timer,
        cx: &mut ProcessContext<'_, (u64, bool), Self::Side>,
    ) {
        if let second::Phase::Begun { seen, is_old } = state {
            cx.emit((*seen, *is_old));
        }
        cx.clear();
    }
}

fn timed(
    env: &Environment,
    read: fn(u64) -> u64,
) -> thalweg::Stream<impl thalweg::Chain<Item = u64, Time = Timestamp>> {
    let at = |n: &u64| Timestamp::from_micros(*n as i64);
    env.range(0..ALL).map(read).assign_timestamps(at, Watermarks::monotonous())
}

#[test]
fn enums_are_migrated_and_timers_stay() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    suspended(dir.path(), |env| {
        let seen = timed(env, slowly).group_by(|n| n % 10).process(Old).name("phases");
        drop(seen.unkey().collect::<Vec<_>>());
    });
    let copy = copied(dir.path());
    let env = environment(3, Some(copy.path()));
    let seen = timed(&env, |n| n).group_by(|n| n % 10).process(New).name("phases");
    let seen = seen.unkey().collect::<Vec<_>>();
    env.run()?;
    let mut seen = seen.take()?;
    seen.sort_unstable();
    // A key has the timer if the old version has seen a record of it, and its count goes on.
    assert_eq!(seen, (0..10).map(|key| (key, (ALL / 10, true))).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn what_windows_have_is_migrated() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let windows =
        || EventTimeWindow::sliding(Duration::from_micros(90_000), Duration::from_micros(30_000));
    suspended(dir.path(), |env| {
        let counts = timed(env, slowly).group_by(|n| n % 3).window(windows());
        let counts = counts.fold_assoc(0_u32, |count, _| *count += 1, |all, part| *all += part);
        drop(counts.name("counts").unkey().collect::<Vec<_>>());
    });
    let new = |env: &Environment| {
        let counts = timed(env, |n| n).group_by(|n| n % 3).window(windows());
        let counts = counts.fold_assoc(0_u64, |count, _| *count += 1, |all, part| *all += part);
        counts.name("counts").unkey().collect::<Vec<_>>()
    };
    let comparison = compared(dir.path(), |env| drop(new(env)));
    let is_migrated = |state: &StateComparison| matches!(state.fate, StateFate::Migrated { .. });
    assert!(comparison.states.iter().any(is_migrated), "{comparison}");
    let copy = copied(dir.path());
    let env = environment(1, Some(copy.path()));
    let counts = new(&env);
    let read = env.start()?.wait()?.operators[0].records_out;
    assert!(read.is_some_and(|read| read < ALL), "it goes on within its input: {read:?}");
    let counts = counts.take()?;
    assert!(!counts.is_empty());
    for (key, pane) in counts {
        let (start, end) = (pane.start.as_micros().max(0), pane.end.as_micros().min(ALL as i64));
        let expected = (start..end).filter(|n| n % 3 == key as i64).count() as u64;
        assert_eq!(pane.value, expected, "{start}..{end}");
    }
    Ok(())
}

#[test]
fn what_has_no_place_is_refused_before_anything_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let old = |env: &Environment| {
        let count =
            env.range(0..ALL).map(slowly).group_by(|n| n % 7).fold(0_u64, |sum, n| *sum += n);
        count.name("sums").unkey().for_each(drop);
    };
    suspended(dir.path(), old);
    let new = |env: &Environment| {
        let count = env.range(0..ALL).group_by(|n| n % 7).fold(0_u32, |sum, n| *sum += n as u32);
        count.name("sums").unkey().for_each(drop);
    };
    let comparison = compared(dir.path(), new);
    assert!(!comparison.goes_on());
    let StateFate::Changed { why, .. } = fate(&comparison, "sums") else { panic!("{comparison}") };
    assert_eq!(why, "the value was `u64`, which is not always a `u32`");
    let copy = copied(dir.path());
    let env = environment(2, Some(copy.path()));
    new(&env);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    let text = error.to_string();
    assert!(text.starts_with("sums") && text.contains(&why), "{text}");

    // The version that has written it goes on.
    assert!(compared(dir.path(), old).goes_on());

    // A key may not become another one, which would be in another task.
    let other = compared(dir.path(), |env| {
        let count = env.range(0..ALL).group_by(|n| Some(n % 7)).fold(0_u64, |sum, n| *sum += n);
        count.name("sums").unkey().for_each(drop);
    });
    let StateFate::Changed { why, .. } = fate(&other, "sums") else { panic!("{other}") };
    assert!(why.contains("belongs to a key"), "{why}");
}

#[test]
fn entries_are_shown_without_the_program() {
    let dir = tempfile::tempdir().unwrap();
    suspended(dir.path(), |env| {
        let start = first::Totals { count: 0, unused: None, sum: 0 };
        let numbers = env.range(0..ALL).map(slowly).group_by(|n| format!("of {}", n % 3));
        let totals = numbers.fold(start, |totals, n| {
            totals.count += 1;
            totals.sum += n;
        });
        totals.name("totals").unkey().for_each(drop);
    });
    let checkpoints = CheckpointDir::open(dir.path()).unwrap();
    let newest = checkpoints.list().unwrap().pop().unwrap().number;
    let (mut found, mut all) = (Vec::new(), 0);
    checkpoints
        .entries(newest, |entry| {
            all += 1;
            if entry.operator == "totals" {
                assert!(entry.value.starts_with("{\"count\":"), "{entry:?}");
                assert!(entry.has_key(entry.key.as_deref().unwrap()));
                found.push(entry.key.unwrap());
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    found.sort_unstable();
    assert_eq!(found, ["\"of 0\"", "\"of 1\"", "\"of 2\""]);
    assert!(all > 3);
}
