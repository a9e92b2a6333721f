//! Jobs on several hosts in one process, which share nothing but encoded messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg::check::{check, every_host};
use thalweg::config::BatchMode;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind, Result};

#[test]
fn records_cross_hosts() {
    check(|env| env.iter(0..1000u64).shuffle().map(|n| n * 2)).equals((0..1000u64).map(|n| n * 2));
    let words = |env: &Environment| {
        let text = env.iter((0..300).map(|n| format!("w{} w{} w{}", n % 7, n % 3, n % 50)));
        let words =
            text.shuffle().flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words.group_by(|word| word.clone()).count()
    };
    check(words).agrees();
}

/// A frame has several batches of such records.
#[test]
fn records_that_own_memory_cross_hosts() {
    let texts = || (0..500u32).map(|n| "x".repeat(n as usize % 90) + &n.to_string());
    check(|env| env.iter(texts()).shuffle()).equals(texts());
    let mut sorted: Vec<_> = texts().collect();
    sorted.sort_unstable();
    check(|env| env.iter(texts()).shuffle().sorted_by_key(|text| text.clone()))
        .ordered()
        .equals(sorted);
    check(|env| {
        let lengths = env.iter(0..100usize).group_by(|length| *length);
        let texts = env.iter(texts()).shuffle().group_by(|text| text.len());
        texts.join(lengths).map(|_, (text, _)| text).unkey().map(|(_, text)| text)
    })
    .equals(texts());
}

#[test]
fn batches_of_any_size_cross_hosts() {
    // More than a batch may have.
    let size = 200_000;
    check(|env| {
        let nothing = env.range(0..300_000).map(|_| ()).batch_mode(BatchMode::Fixed { size });
        nothing.shuffle().count()
    })
    .equals([300_000u64]);
}

#[test]
fn aggregates_span_hosts() {
    check(|env| env.range(0..10_000).sum(|n| *n)).equals([49_995_000u64]);
    check(|env| env.iter(0..1000u64).shuffle().sorted_by_key(|n| u64::MAX - n))
        .ordered()
        .equals((0..1000u64).rev());
    check(|env| env.iter(0..1000u64).shuffle().reduce(|a, b| a.max(b))).equals([999u64]);
}

#[test]
fn watermarks_cross_hosts() {
    check(|env| {
        let timed = env
            .iter(0..500i64)
            .assign_timestamps(|n| Timestamp::from_millis(*n), Watermarks::monotonous());
        timed
            .shuffle()
            .group_by(|n| n % 5)
            .window(EventTimeWindow::tumbling(Duration::from_millis(100)))
            .count()
            .unkey()
            .map(|(key, pane)| (key, pane.start.as_micros() / 1000, pane.value))
    })
    .equals((0..25).map(|n| (n % 5, n / 5 * 100, 20u64)));
    // The source does not end, so that only watermarks complete windows.
    check(|env| {
        let timed = env
            .iter(0..)
            .assign_timestamps(|n: &i64| Timestamp::from_millis(*n), Watermarks::monotonous());
        let windows = timed.shuffle().group_by(|n| n % 5);
        let counts = windows.window(EventTimeWindow::tumbling(Duration::from_millis(10))).count();
        counts.unkey().map(|(_, pane)| pane.value).limit(20)
    })
    .equals([2u64; 20]);
}

#[test]
fn joins_cross_hosts() {
    check(|env| {
        let left = env.iter((0..200u32).map(|n| (n % 20, n)));
        let right = env.iter((0..30u32).map(|n| (n, n * n)));
        left.group_by(|pair| pair.0)
            .join(right.group_by(|pair| pair.0))
            .map(|_, (l, r)| (l.1, r.1))
            .unkey()
            .map(|(_, pair)| pair)
    })
    .equals((0..200u32).map(|n| (n, (n % 20) * (n % 20))));
}

#[test]
fn a_consumer_that_has_enough_closes_senders_of_other_hosts() {
    check(|env| env.iter(0u64..).shuffle().limit(3)).satisfies(|records| {
        // None comes twice, and senders do not get far ahead of a closed receiver.
        let distinct = BTreeSet::from_iter(&records);
        let near = records.iter().all(|n| *n < 1_000_000);
        let right = records.len() == 3 && distinct.len() == 3 && near;
        if right { Ok(()) } else { Err(format!("{records:?}")) }
    });
}

#[test]
fn a_failure_on_one_host_is_the_outcome_on_all() {
    check(|env| env.iter(0..9i32).shuffle().map(|n| 10 / (n - 5)))
        .fails_with("attempt to divide by zero");
    let named = Mutex::new(BTreeMap::<usize, BTreeSet<Option<usize>>>::new());
    every_host(|env, run| {
        env.range(0..9).shuffle().map(|n| 10 / (n - 5)).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic, "{error}");
        named.lock().unwrap().entry(run).or_default().insert(error.host());
        Ok(())
    });
    // All hosts of a run name the same one; where there is one host only, it is not named.
    let named = named.into_inner().unwrap();
    assert!(named.values().all(|hosts| hosts.len() == 1), "{named:?}");
    assert!(named.values().filter(|hosts| !hosts.contains(&None)).count() > 3, "{named:?}");
}

#[test]
fn jobs_that_threads_run_side_by_side_are_told_apart() {
    every_host(|env, _| {
        let shared: Vec<_> = (0..4).map(|_| env.sharing()).collect();
        let count = |env: &Environment, n: u64| {
            let count = env.range(0..n).shuffle().count().collect_one();
            env.start().map(|job| (job, count))
        };
        // Of each host, the threads come in an order of their own.
        let started = std::thread::scope(|scope| {
            let start = |(n, env)| scope.spawn(move || (count(env, n), count(env, n + 10)));
            let threads: Vec<_> = (0..).zip(&shared).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for (n, (one, other)) in (0..).zip(started) {
            for (n, job) in [(n, one), (n + 10, other)] {
                let (job, count) = job?;
                job.wait()?;
                assert_eq!(count.take()?, Some(n));
            }
        }
        Ok(())
    });
}

#[test]
fn jobs_that_hosts_may_tell_apart_otherwise_are_refused() {
    let (alone, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    every_host(|env, _| {
        let run = |env: &Environment| {
            env.range(0..9).shuffle().for_each(drop);
            env.start()?.wait().map(drop)
        };
        run(env)?;
        let first = env.sharing();
        run(&first)?;
        let elsewhere = |job: &(dyn Fn() -> Result<()> + Sync)| {
            std::thread::scope(|scope| scope.spawn(job).join().unwrap())
        };
        let started = elsewhere(&|| run(env));
        let made = elsewhere(&|| run(&env.sharing()));
        for (job, why) in [(started, "let one thread start"), (made, "let one thread call")] {
            match job {
                Ok(()) => _ = alone.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
                    assert!(error.to_string().contains(why), "{error}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        run(&first)
    });
    assert!(alone.into_inner() > 20 && refused.into_inner() >= 20);
}

#[test]
fn a_job_that_a_closure_cannot_start_says_why() {
    check(|env| {
        let others: Vec<_> = (0..20).map(|_| env.sharing()).collect();
        let numbers = env.parallel_iter(|task, _| std::iter::once(task));
        numbers.map(move |task| {
            let env = &others[task];
            let fails = move |_, _| -> std::ops::Range<u64> { panic!("no numbers of task {task}") };
            env.parallel_iter(fails).shuffle().for_each(drop);
            let error = env.start().map(drop).unwrap_err();
            error.to_string().contains(&format!("no numbers of task {task}"))
        })
    })
    .satisfies(|right| match right.contains(&false) {
        false => Ok(()),
        true => Err("another error".to_owned()),
    });
}
