//! Closures of a job that wait for jobs: refused where the wait might take for ever, and nowhere else.

use crate::in_time;
use std::sync::{Arc, Mutex, OnceLock};
use thalweg::check::{every, every_on_one_host};
use thalweg::config::Scheduler;
use thalweg::operators::calls::Calls;
use thalweg::{Boxed, Environment, ErrorKind, JobHandle, Result, Stream};

/// Whether a thread that waits may be needed for what it waits for.
fn shares_threads(env: &Environment) -> bool {
    !matches!(env.config().scheduler, Scheduler::ThreadPerTask)
}

fn count_in(env: &Environment, n: u64) -> Result<u64> {
    let count = env.iter([n; 3]).shuffle().count().collect_one();
    env.run()?;
    Ok(count.take()?.unwrap_or_default())
}

#[test]
fn on_the_same_threads_is_refused() {
    in_time(|| {
        every(|env| {
            let shared = env.sharing();
            let inner = env.iter(0..8u64).shuffle().map(move |n| {
                count_in(&shared.sharing(), n).map_err(|error| (error.kind(), error.to_string()))
            });
            let results = inner.map(|result| match result {
                Ok(count) => format!("counted {count}"),
                Err((ErrorKind::Plan, said)) => said,
                Err((kind, said)) => panic!("{kind:?}: {said}"),
            });
            let results = results.collect::<Vec<_>>();
            env.run()?;
            let said =
                if shares_threads(env) { "cannot wait for another job" } else { "counted 3" };
            for result in results.take()? {
                assert!(result.contains(said), "{result}");
            }
            Ok(())
        });
    });
}

#[test]
fn in_an_environment_with_threads_of_its_own_is_possible() {
    in_time(|| {
        every(|env| {
            let config = env.config().clone();
            let counts = env
                .iter(0..4u64)
                .shuffle()
                .map(move |n| count_in(&Environment::with_config(config.clone()), n).unwrap());
            let sum = counts.fold(0, |sum, n| *sum += n).collect::<Vec<_>>();
            env.run()?;
            assert_eq!(sum.take()?.iter().sum::<u64>(), 12);
            Ok(())
        });
    });
}

#[test]
fn a_job_that_is_only_started_is_waited_for_outside() {
    in_time(|| {
        // Jobs that only one host starts cannot span hosts.
        every_on_one_host(|env| {
            let shared = env.sharing();
            let started = Arc::new(Mutex::new(Vec::new()));
            let list = Arc::clone(&started);
            env.iter(0..4u64).for_each(move |n| {
                let inner = shared.sharing();
                let count = inner.iter(0..n).shuffle().count().collect_one();
                list.lock().unwrap().push((n, inner.start().unwrap(), count));
            });
            env.run()?;
            for (n, job, count) in started.lock().unwrap().drain(..) {
                job.wait()?;
                assert_eq!(count.take()?.unwrap(), n);
            }
            Ok(())
        });
    });
}

/// Runs a job whose closure is given the handle of that very job.
fn with_itself(env: &Environment, describe: impl Fn(Stream<Numbers>, Itself)) -> Result<()> {
    let itself = Itself::default();
    describe(env.iter(0..4u64).shuffle().boxed(), Arc::clone(&itself));
    let job = env.start()?;
    itself.set(job).ok().unwrap();
    while !itself.get().unwrap().is_over() {
        itself.get().unwrap().barrier()?;
    }
    Arc::into_inner(itself).unwrap().into_inner().unwrap().wait()?;
    Ok(())
}

type Numbers = Boxed<u64>;
type Itself = Arc<OnceLock<JobHandle>>;

fn wait_for(itself: &Itself) {
    while itself.get().is_none() {
        std::thread::yield_now();
    }
    let job = itself.get().unwrap();
    let error = job.barrier().unwrap_err();
    assert!(error.to_string().contains("cannot wait for that job"), "{error}");
    // In a turn, leaves out the tasks that run, and does not wait for them.
    let _ = job.stats();
}

#[test]
fn a_job_that_waits_for_itself_is_refused() {
    in_time(|| {
        // It looks again and again whether the job is over, and a simulated host runs while its program waits.
        every_on_one_host(|env| {
            with_itself(env, |numbers, itself| numbers.for_each(move |_| wait_for(&itself)))
        });
        // It looks again and again whether the job is over, and a simulated host runs while its program waits.
        every_on_one_host(|env| {
            with_itself(env, |numbers, itself| {
                let called = numbers.map_blocking(Calls::in_flight(2), move |_| wait_for(&itself));
                called.for_each(drop);
            })
        });
    });
}

#[test]
fn threads_for_blocking_calls_may_wait() {
    in_time(|| {
        // Simulated hosts have no threads for blocking calls.
        every_on_one_host(|env| {
            // Under the deterministic scheduler there are none.
            if matches!(env.config().scheduler, Scheduler::Deterministic { .. }) {
                return Ok(());
            }
            let shared = env.sharing();
            let counts = env.iter(0..8u64).map_blocking(Calls::in_flight(4), move |n| {
                count_in(&shared.sharing(), n).unwrap()
            });
            let counts = counts.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(counts.take()?, [3; 8]);
            Ok(())
        });
    });
}

#[test]
fn a_closure_that_reads_what_its_own_threads_write_is_refused() {
    in_time(|| {
        every(|env| {
            let other = env.sharing();
            let (sender, records) = other.channel::<u64>(1);
            let records = Mutex::new(records.to_channel());
            let sender = Mutex::new(Some(sender));
            let outcome = env.iter([()]).shuffle().map(move |()| {
                if shares_threads(&other) {
                    let read = records.lock().unwrap().recv().unwrap_err();
                    assert_eq!(read.kind(), ErrorKind::Plan, "{read}");
                    assert!(read.to_string().starts_with("to_channel ("), "{read}");
                    // One is there, and a second one has no room: the other job does not run.
                    let sender = sender.lock().unwrap().take().unwrap();
                    sender.send(1).unwrap();
                    let refused = sender.send(2).unwrap_err();
                    assert_eq!(refused.0, 2);
                    assert!(refused.to_string().contains("cannot wait"), "{refused}");
                }
                true
            });
            let outcome = outcome.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(outcome.take()?, [true]);
            Ok(())
        });
    });
}
