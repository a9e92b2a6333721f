//! Tests of the combiner.

use crate::check::check;
use crate::config::Config;
use crate::data::Data;
use crate::{Environment, ErrorKind, JobHandle};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A few keys, then others, few again, and many: with each, the table is direct-mapped or an ordinary one.
#[test]
fn keys_that_are_few_for_a_time_are_counted_once_each() {
    const PART: u64 = 150_000;
    let key = |n: u64| match n / PART {
        0 => n % 100,
        1 => n % 1000 * 3,
        2 => u64::MAX - n % 3,
        _ => n % 10_000,
    };
    let mut expected = BTreeMap::new();
    (0..4 * PART).for_each(|n| *expected.entry(key(n)).or_insert(0) += 1);
    // In one task, so that it sees the parts in this order; in runs, and record by record.
    check(move |env| env.iter((0..4 * PART).map(key)).group_by(|key| *key).count())
        .seeds(1)
        .must_restore()
        .equals(expected.clone());
    for cores in [1, 3] {
        let config = Config { cores: cores.try_into().unwrap(), ..Config::default() };
        let env = Environment::with_config(config);
        let keys = env.iter(0..2 * PART).flat_map(move |n| [key(2 * n), key(2 * n + 1)]);
        let counts = keys.group_by(|key| *key).count().collect::<BTreeMap<_, _>>();
        env.run().unwrap();
        assert!(counts.take().unwrap() == expected, "on {cores} cores");
    }
}

#[test]
fn folds_of_few_keys_start_from_their_own_value() {
    const STARTS: (i64, u32) = (1 << 40, 7);
    let last = |n: u64| (n % 300, n);
    let mut expected = BTreeMap::new();
    for (key, n) in (0..200_000).map(last) {
        let (sum, times) = expected.entry(key).or_insert(STARTS);
        (*sum, *times) = (*sum - n as i64, *times + 1);
    }
    check(move |env| {
        let pairs = env.iter((0..200_000).map(last)).group_by(|pair| pair.0 as i16);
        let sums = pairs.fold_assoc(
            STARTS,
            |state, (_, n)| *state = (state.0 - n as i64, state.1 + 1),
            |state, other| {
                *state = (state.0 + other.0 - STARTS.0, state.1 + other.1 - STARTS.1);
            },
        );
        sums.unkey().map(|(key, state)| (key as u64, state))
    })
    .seeds(1)
    .equals(expected);
}

/// Counts 180 000 records by key, in a job of 32 MiB that has no more of them and runs on.
fn count_and_run_on(key: fn(u64) -> u64) -> (Environment, JobHandle) {
    let env = Environment::with_config(Config { memory: 32 << 20, ..Config::default() });
    let through = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&through);
    let few = env.iter(0u64..).filter(move |n| {
        seen.fetch_or(*n > 1_000_000, Ordering::Relaxed);
        *n < 180_000
    });
    few.group_by(move |n| key(*n)).count().unkey().for_each(drop);
    let job = env.start().unwrap();
    while !through.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    (env, job)
}

#[test]
fn a_table_with_a_hot_key_that_has_no_slot_is_not_direct_mapped_for_long() {
    // The products of 0 and of the second number, which differ by 1, select the same slot.
    let (env, job) = count_and_run_on(|n| match n % 4 {
        0 => 0,
        1 => 0xf1de_83e1_9937_733d,
        _ => n % 100,
    });
    assert_eq!(env.memory().used(), 0);
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn direct_mapped_keys_reserve_memory_and_give_way() {
    let (env, job) = count_and_run_on(|n| n % 100);
    assert!(env.memory().used() >= 256 << 10, "{}", env.memory().used());
    let mut fixed = env.memory().reserve();
    assert!(fixed.try_resize(env.memory().limit()));
    while env.memory().used() > env.memory().limit() {
        std::thread::yield_now();
    }
    job.cancel();
    assert!(job.wait().is_err());
}

/// A count that notes how often one is made.
#[derive(Debug, Data)]
struct Noted(u64);

static MADE: AtomicUsize = AtomicUsize::new(0);

impl Clone for Noted {
    fn clone(&self) -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

#[test]
fn few_keys_stay_in_the_table_where_the_pool_has_no_room_for_slots() {
    let made = |room: usize| {
        let env = Environment::with_config(Config { memory: 4 << 20, ..Config::default() });
        let mut fixed = env.memory().reserve();
        assert!(fixed.try_resize(env.memory().limit() - room));
        let pairs = env.iter((0..300_000_u64).map(|n| n % 100)).group_by(|key| *key);
        let counts = pairs.fold_assoc(Noted(0), |n, _| n.0 += 1, |n, other| n.0 += other.0);
        let counts = counts.unkey().map(|(key, n)| (key, n.0)).collect::<BTreeMap<_, _>>();
        let before = MADE.load(Ordering::Relaxed);
        env.run().unwrap();
        assert!(counts.take().unwrap().into_iter().eq((0..100).map(|key| (key, 3000))));
        MADE.load(Ordering::Relaxed) - before
    };
    // The accumulators that fill the slots are made like those of keys.
    assert!(made(100 << 10) < 10_000);
    assert!(made(1 << 20) > 10_000);
}

#[test]
fn a_sum_that_overflows_names_its_key_among_few_keys() {
    let env = Environment::new();
    let numbers =
        env.iter((0..100_000_u64).map(|n| (n % 10, if n == 99_997 { u64::MAX } else { 1 })));
    let _sums = numbers.group_by(|pair| pair.0).sum(|pair| pair.1).collect::<Vec<_>>();
    let text = env.run().unwrap_err().to_string();
    assert!(text.starts_with("sum") && text.contains(", of key 7"), "{text}");
}

#[test]
fn a_combiner_without_records_gives_way_too() {
    let env = Environment::with_config(Config { memory: 32 << 20, ..Config::default() });
    let through = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&through);
    let (again, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (more, count) = (Arc::clone(&again), Arc::clone(&passed));
    // Each key four times, and then no more records for a while, of an input without an end.
    let few = env.iter(0u64..).filter(move |n| {
        seen.fetch_or(*n > 1_000_000, Ordering::Relaxed);
        let passes = *n < 1_000_000 || more.load(Ordering::Relaxed);
        count.fetch_add(usize::from(passes), Ordering::Relaxed);
        passes
    });
    few.group_by(|n| n / 4).count().unkey().for_each(drop);
    let job = env.start().unwrap();
    while !through.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // At a barrier, combiners send everything they hold.
    job.barrier().unwrap();
    let mut fixed = env.memory().reserve();
    assert!(fixed.try_resize(env.memory().limit()));
    job.barrier().unwrap();
    assert_eq!(env.memory().used(), env.memory().limit());
    // Then there are records and memory again, and a table that knows nothing of the one before grows.
    drop(fixed);
    again.store(true, Ordering::Relaxed);
    while passed.load(Ordering::Relaxed) < 1_200_000 && !job.is_over() {
        std::thread::yield_now();
    }
    job.barrier().unwrap();
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}
