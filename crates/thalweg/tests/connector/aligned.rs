//! Splits that are kept close to each other in event time, also those that one task reads.

use super::{Log, Topic, number, on};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::check::check;
use thalweg::operators::time::{Disorder, Watermarks};
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};

/// How far apart the splits may be, in microseconds.
const MOST: i64 = 200;

fn aligned() -> Watermarks<Disorder> {
    Watermarks::monotonous().aligned(Duration::from_micros(MOST as u64))
}

fn at(number: &u64) -> Timestamp {
    Timestamp::from_micros(*number as i64)
}

/// The partition of a record, and its time.
fn of_partition(record: &[u8]) -> (u64, i64) {
    let number = number(record);
    (number / 1_000_000, (number % 1_000_000) as i64)
}

#[test]
fn no_split_is_further_ahead_of_the_last_than_is_allowed() -> Result<()> {
    let (partitions, records, step) = (5, 2000, 10);
    for cores in [1, 2, 3] {
        let log = Log::with_partitions(partitions);
        for partition in 0..partitions {
            for n in 0..records {
                log.append(partition, (partition * 1_000_000 + n * step).to_string());
            }
        }
        log.close_all();
        let last = ((records - 1) * step) as i64;
        let reached: Vec<AtomicI64> = (0..partitions).map(|_| AtomicI64::new(0)).collect();
        let apart = Arc::new(AtomicI64::new(0));
        let worst = Arc::clone(&apart);
        let env = Environment::with_config(on(cores));
        let count = env
            .read(Topic::of(&log))
            .map(of_partition)
            .assign_timestamps(|(_, at)| Timestamp::from_micros(*at), aligned())
            .inspect(move |(partition, now)| {
                let ended = *now == last;
                let reached_now = if ended { i64::MAX } else { *now };
                reached[*partition as usize].store(reached_now, Ordering::SeqCst);
                let least = reached.iter().map(|at| at.load(Ordering::SeqCst)).min().unwrap();
                worst.fetch_max(now - least, Ordering::SeqCst);
            })
            .count()
            .collect_one();
        env.run()?;
        assert_eq!(count.take()?, Some((partitions * records) as u64));
        // A reader emits seven records between two looks.
        let allowed = MOST + 8 * step as i64;
        let apart = apart.load(Ordering::SeqCst);
        assert!(apart <= allowed, "{apart} with {cores} tasks");
    }
    Ok(())
}

#[test]
fn splits_that_wait_for_others_lose_nothing_on_any_number_of_tasks_and_hosts() {
    // The splits cover spans that overlap, meet, or are far apart, and one has nothing.
    let begins = [0, 0, 500, 3000, 100_000, 3000];
    let log = Log::with_partitions(begins.len() + 1);
    let mut expected = BTreeMap::new();
    for (partition, begin) in begins.into_iter().enumerate() {
        for n in 0..300 {
            let at = begin + n * (1 + partition as u64);
            log.append(partition, at.to_string());
            *expected.entry((at / 1000 * 1000) as i64).or_insert(0u64) += 1;
        }
    }
    log.close_all();
    let counts = |env: &Environment| {
        env.read(Topic::of(&log))
            .map(number)
            .assign_timestamps(at, aligned())
            .group_by(|_| 0u8)
            .window(EventTimeWindow::tumbling(Duration::from_micros(1000)))
            .count()
            .unkey()
            .map(|(_, window)| (window.start.as_micros(), window.value))
    };
    check(counts).any_tasks().must_restore().equals(expected);
}

#[test]
fn a_split_waits_for_a_silent_one_until_that_is_idle() -> Result<()> {
    for cores in [1, 2] {
        let log = Log::with_partitions(3);
        let source = Topic { bounded: false, ..Topic::of(&log) };
        let env = Environment::with_config(on(cores));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        env.read(source)
            .map(number)
            .assign_timestamps(at, aligned().idle_after(Duration::from_millis(50)))
            .for_each(move |at| sees.lock().unwrap().push(at));
        // The first is far ahead of the second, and the third has nothing.
        (0..100).for_each(|n| log.append(0, (n * 100).to_string()));
        (0..10).for_each(|n| log.append(1, n.to_string()));
        let job = env.start()?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The second goes on slowly. It is never silent for long, so that the first waits for it.
            scope.spawn(|| {
                for n in 10u64.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    log.append(1, n.to_string());
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            while !seen.lock().unwrap().iter().any(|at| at % 100 == 1 && *at > 100) {
                std::thread::sleep(Duration::from_millis(1));
            }
            over.store(true, Ordering::Relaxed);
        });
        let early = seen.lock().unwrap().clone();
        let slow = early.iter().filter(|at| *at % 100 != 0).max().copied().unwrap_or(0);
        let ahead = early.iter().filter(|at| *at % 100 == 0).max().copied().unwrap_or(0);
        assert!(ahead <= slow + MOST as u64 + 8 * 100, "{ahead} beside {slow}");
        // Now the second has nothing more, and the first is read on.
        while !seen.lock().unwrap().contains(&9900) {
            std::thread::sleep(Duration::from_millis(1));
        }
        log.close_all();
        job.wait()?;
    }
    Ok(())
}
