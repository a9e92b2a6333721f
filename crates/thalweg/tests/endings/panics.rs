//! Panics where a program can have code: each is the job's error, ends no thread, and leaves other jobs alone.

use crate::{environment, in_time};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use thalweg::check::{every, every_on_one_host};
use thalweg::config::Scheduler;
use thalweg::data::{DecodeError, Schema};
use thalweg::operators::calls::Calls;
use thalweg::{Data, Environment, Error, ErrorKind, Result};

/// Panics when it is dropped, unless something else panics already: the language ends the process then.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the bomb went off");
    }
}

/// Panics with something that panics when it is dropped, and so on.
struct Payload(u32);

impl Drop for Payload {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Payload(self.0 - 1));
        }
    }
}

/// A record whose order is not defined for every value.
#[derive(Clone, Debug, Data, PartialEq, Eq)]
struct Picky(u64);

impl PartialOrd for Picky {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Picky {
    fn cmp(&self, other: &Self) -> Ordering {
        assert!(self.0 != 7 && other.0 != 7, "no sevens");
        self.0.cmp(&other.0)
    }
}

/// A collection that cannot be built.
#[derive(Debug)]
struct Unbuilt;

impl<T> FromIterator<T> for Unbuilt {
    fn from_iter<I: IntoIterator<Item = T>>(_: I) -> Self {
        panic!("cannot be built")
    }
}

/// A collection that cannot be dropped.
struct Undropped {
    _bomb: Bomb,
}

impl<T> FromIterator<T> for Undropped {
    fn from_iter<I: IntoIterator<Item = T>>(_: I) -> Self {
        Self { _bomb: Bomb }
    }
}

/// In every way to run jobs: the job fails with this panic, and both a neighbour that runs meanwhile and a
/// job that comes later are as if nothing had happened.
fn fails(said: &'static str, operator: &'static str, job: fn(&Environment)) {
    in_time(move || {
        every(|env| {
            let neighbour = env.sharing();
            let count = neighbour.range(0..20_000).shuffle().count().collect_one();
            let beside = neighbour.start()?;
            job(env);
            let error = env.run().expect_err("the job must fail");
            assert_eq!(error.kind(), ErrorKind::Panic, "{error}");
            assert!(error.message().contains(said), "{error}");
            let named = error.operator().unwrap_or_default();
            assert!(named.starts_with(operator), "{error}");
            beside.wait()?;
            assert_eq!(count.take()?.unwrap(), 20_000);
            let later = env.range(0..1000).shuffle().count().collect_one();
            env.run()?;
            assert_eq!(later.take()?.unwrap(), 1000);
            Ok(())
        });
    });
}

#[test]
fn of_a_key_while_a_collection_is_built() {
    fails("no sevens", "collect (", |env| {
        drop(env.range(0..10).map(Picky).collect::<BTreeSet<_>>());
    });
}

#[test]
fn of_a_collection() {
    fails("cannot be built", "collect (", |env| drop(env.range(0..10).collect::<Unbuilt>()));
}

#[test]
fn of_a_collection_that_nobody_wants() {
    fails("the bomb went off", "collect (", |env| drop(env.range(0..10).collect::<Undropped>()));
}

#[test]
fn with_values_whose_destructors_panic() {
    fails("a value that is not text", "for_each (", |env| {
        env.range(0..10).for_each(|n| {
            if n == 5 {
                panic_any(Payload(1))
            }
        });
    });
    fails("a value that is not text", "map (", |env| {
        let numbers = env.range(0..10).map(|n| if n == 5 { panic_any(Payload(20)) } else { n });
        drop(numbers.shuffle().count().collect_one());
    });
}

#[test]
fn of_what_closures_have_captured() {
    fails("the bomb went off", "", |env| {
        let bomb = Bomb;
        env.range(0..10).map(move |n| (&bomb, n).1).shuffle().for_each(drop);
    });
    // What makes the sources goes before anything runs.
    in_time(|| {
        every(|env| {
            let bomb = Bomb;
            let numbers = env.parallel_iter(move |n, _| {
                let _bomb = &bomb;
                0..n
            });
            let ran = Arc::new(AtomicBool::new(false));
            let running = Arc::clone(&ran);
            numbers.map(move |_| running.store(true, Relaxed)).for_each(drop);
            let error = env.start().err().expect("the bomb goes off");
            assert_eq!(error.message(), "panicked: the bomb went off");
            std::thread::sleep(Duration::from_millis(2));
            // No task is left that could.
            assert!(!ran.load(Relaxed) && Arc::into_inner(ran).is_some());
            Ok(())
        });
    });
}

#[test]
fn of_what_closures_of_loops_have_captured() {
    in_time(|| {
        every(|env| {
            let bomb = Bomb;
            let (outcome, left) = env
                .range(0..100)
                .iterate(3, 0, |numbers, _| numbers.shuffle())
                .fold(
                    move |count: &mut u64, _| {
                        let _bomb = &bomb;
                        *count += 1;
                    },
                    |count, other| *count += other,
                )
                .all_rounds(|all, count| *all += count);
            drop((outcome.collect::<Vec<_>>(), left.count().collect_one()));
            // Either it goes off before the job has ended, or afterwards, which no result depends on.
            if let Err(error) = env.run() {
                assert!(error.message().contains("the bomb went off"), "{error}");
            }
            let later = env.range(0..1000).shuffle().count().collect_one();
            env.run()?;
            assert_eq!(later.take()?.unwrap(), 1000);
            Ok(())
        });
    });
}

#[test]
fn of_what_a_refused_job_has_captured() {
    in_time(|| {
        every(|env| {
            let bomb = Bomb;
            drop(env.iter(0..10).map(move |n| (&bomb, n).1).collect::<Vec<_>>());
            // Refused: a stream without an end has no count.
            let (_sender, numbers) = env.channel::<u64>(1);
            drop(numbers.count().collect_one());
            assert!(env.start().is_err());
            env.range(0..9).for_each(drop);
            env.run()
        });
    });
}

#[test]
fn of_what_makes_iterators() {
    fails("no iterator", "parallel_iter (", |env| {
        env.parallel_iter(|task, _| if task == 0 { panic!("no iterator") } else { 0..9 })
            .for_each(drop);
    });
    // What has been made for other tasks goes as well.
    fails("none for the last", "parallel_iter (", |env| {
        let make = |task, tasks| {
            assert!(task + 1 < tasks, "none for the last");
            0..9
        };
        env.parallel_iter(make).for_each(drop);
    });
}

#[test]
fn of_records_of_a_job_that_is_cancelled() {
    in_time(|| {
        // On several hosts records are encoded, and dropped, on their way to the sink.
        every_on_one_host(|env| {
            // One record that cannot be dropped waits in the sink when the job is cancelled.
            let records = env.iter([Some(Bomb)].into_iter().chain(std::iter::repeat_with(|| None)));
            drop(records.map(Carried).collect::<Vec<_>>());
            let job = env.start()?;
            job.barrier()?;
            job.cancel();
            assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
            let later = env.range(0..1000).shuffle().count().collect_one();
            env.run()?;
            assert_eq!(later.take()?.unwrap(), 1000);
            Ok(())
        });
    });
}

/// A record that may hold a bomb.
struct Carried(Option<Bomb>);

impl Clone for Carried {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Data for Carried {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(None))
    }
    fn key_hash(&self) -> u64 {
        u64::from(self.0.is_some())
    }
    fn schema() -> Schema {
        Schema::U8
    }
}

#[test]
fn of_a_key_that_statistics_show() {
    /// Cannot be shown.
    #[derive(Clone, Data, PartialEq, Eq)]
    struct Shy(u64);

    impl fmt::Debug for Shy {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("not to be shown")
        }
    }

    fails("not to be shown", "", |env| {
        env.range(0..50_000)
            .map(|n| Shy(n % 2))
            .group_by(|key| key.clone())
            .count()
            .unkey()
            .for_each(drop);
    });
}

#[test]
fn on_threads_for_blocking_calls() {
    fails("cannot call", "map_blocking (", |env| {
        let called = env.range(0..10).map_blocking(Calls::in_flight(2), |n| {
            assert!(n != 5, "cannot call");
            n
        });
        drop(called.count().collect_one());
    });
    fails("a value that is not text", "map_blocking (", |env| {
        let called = env.range(0..10).map_blocking(Calls::in_flight(2), |n| match n {
            5 => panic_any(Payload(3)),
            n => n,
        });
        drop(called.count().collect_one());
    });
    // Unwanted results are dropped wherever they are.
    in_time(|| {
        every(|env| {
            let called = env
                .range(0..100)
                .map_blocking(Calls::in_flight(2), |n| Carried((n == 3).then_some(Bomb)));
            called.limit(1).for_each(std::mem::forget);
            // Whether the third is made before the first was taken is open.
            let _ = env.run();
            let later =
                env.range(0..1000).map_blocking(Calls::in_flight(2), |n| n).count().collect_one();
            env.run()?;
            assert_eq!(later.take()?.unwrap(), 1000);
            Ok(())
        });
    });
}

#[test]
fn while_statistics_are_asked_for() {
    in_time(|| {
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            let env = environment(|config| config.scheduler = scheduler);
            env.iter(0u64..).map(|n| 1 / (1_000_000 - n)).shuffle().for_each(drop);
            let job = env.start().unwrap();
            while !job.is_over() {
                let _ = job.stats();
            }
            let error: Error = job.wait().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Panic);
        }
    });
}
