//! Tests of early results of windows by arrival against their definition: value by value, and tick by tick.

use super::{Reading, Shape, some_readings};
use crate::check::{cases, check, every, every_on_one_host};
use crate::clock::Nanos;
use crate::config::{BatchMode, Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::{
    CountPane, CountWindow, Early, EventTimeWindow, GlobalWindow, Timing, Transaction,
    TransactionWindow,
};
use crate::sync::lock;
use crate::time::Timestamp;
use crate::{Data, Environment, ErrorKind, Output};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The shapes of windows that have early results.
fn shapes() -> impl Strategy<Value = Shape> {
    let count = (1..12u64, 1..12u64, any::<bool>());
    prop_oneof![
        6 => count.prop_map(|(size, slide, partial)| Shape::Count { size, slide, partial }),
        1 => Just(Shape::Global),
    ]
}

/// Evaluates the body with windows of the shape.
macro_rules! with_early {
    ($shape:expr, $early:expr, |$window:ident| $body:expr) => {
        match $shape {
            Shape::Count { size, slide, partial } => {
                let $window = CountWindow::sliding(size, slide).early($early);
                let $window = if partial { $window.keep_partial() } else { $window };
                $body
            }
            Shape::Last(_) => unreachable!("they have no early results"),
            Shape::Global => {
                let $window = GlobalWindow::new().early($early);
                $body
            }
        }
    };
}

impl Shape {
    /// The beginnings of the windows that are open after a number of values of a key.
    fn open(self, len: u64) -> Vec<u64> {
        match self {
            Self::Count { size, slide, .. } => {
                (0..len).step_by(slide as usize).filter(|first| first + size > len).collect()
            }
            Self::Last(_) => unreachable!("they have no early results"),
            Self::Global => vec![0],
        }
    }
}

/// The values of each key.
fn by_key(all: &[Reading]) -> BTreeMap<u8, Vec<i64>> {
    let mut keys: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
    all.iter().for_each(|(key, value)| keys.entry(*key).or_default().push(*value));
    keys
}

/// All results, with an early one after a number of values of a window that is not complete.
fn counted<T>(
    shape: Shape,
    all: &[Reading],
    every: u64,
    of: impl Fn(&[i64]) -> T + Copy,
) -> Vec<(u8, CountPane<T>)> {
    let mut expected = shape.expected(all, of);
    for (key, values) in by_key(all) {
        for len in 1..=values.len() as u64 {
            let due = |first: &u64| (len - first).is_multiple_of(every);
            expected.extend(shape.open(len).into_iter().filter(due).map(|first| {
                let count = len - first;
                let timing = Timing::Early((count / every) as u32);
                let value = of(&values[first as usize..len as usize]);
                (key, CountPane { first, count, timing, value })
            }));
        }
    }
    expected
}

fn sum(values: &[i64]) -> i64 {
    values.iter().sum()
}

proptest! {
    #![proptest_config(cases(6))]

    /// The first result covers the first n values of the window, the next twice as many; those of complete windows
    /// are the same as without early ones.
    #[test]
    fn every_n_records_there_is_a_result(shape in shapes(), all in some_readings(), n in 1..6u64) {
        let of = |env: &Environment| env.iter(all.clone()).group_by(|reading| reading.0);
        let values = |env: &Environment| of(env).map(|_, reading| reading.1);
        let digits = |number: i64, value: i64| number.wrapping_mul(101).wrapping_add(value);
        with_early!(shape, Early::every(n), |window| {
            // With an inverse and without one, and in order.
            check(|env| of(env).window(window).sum(|r| r.1))
                .seeds(2)
                .equals(counted(shape, &all, n, sum));
            check(|env| of(env).repartition().window(window).max(|r| r.1))
                .seeds(2)
                .equals(counted(shape, &all, n, |v| *v.iter().max().unwrap()));
            check(|env| values(env).window(window).to_vec())
                .seeds(2)
                .equals(counted(shape, &all, n, <[i64]>::to_vec));
            check(|env| of(env).window(window).fold(7, move |n, r| *n = digits(*n, r.1)))
                .seeds(2)
                .equals(counted(shape, &all, n, |v| v.iter().fold(7, |n, v| digits(n, *v))));
            // Several aggregates, and one whose state owns memory.
            check(|env| of(env).window(window).aggregate(|a| (a.count(), a.to_vec())).map(|_, mut pane| {
                pane.value.1.sort_unstable();
                pane
            }))
            .seeds(2)
            .equals(counted(shape, &all, n, |v| {
                let mut sorted: Vec<Reading> = Vec::new();
                sorted.extend(v.iter().map(|v| (0, *v)));
                sorted.sort_unstable();
                (v.len() as u64, sorted)
            }).into_iter().map(|(key, mut pane)| {
                pane.value.1.iter_mut().for_each(|reading| reading.0 = key);
                (key, pane)
            }));
        });
    }

    /// Over all records, and with any number of senders.
    #[test]
    fn windows_of_all_records_have_them_too(shape in shapes(), all in some_readings(), n in 1..6u64) {
        let all: Vec<Reading> = all.into_iter().map(|(_, value)| (0, value)).collect();
        let expected = |of: fn(&[i64]) -> i64| {
            counted(shape, &all, n, of).into_iter().map(|(_, pane)| pane).collect::<Vec<_>>()
        };
        with_early!(shape, Early::every(n), |window| {
            let values = |env: &Environment| env.iter(all.clone()).map(|r| r.1);
            check(|env| values(env).window_all(window).sum(|v| *v)).seeds(2).equals(expected(sum));
            let keep = |last: &mut i64, v: i64| *last = v;
            check(|env| values(env).window_all(window).fold(0, keep))
                .seeds(2)
                .equals(expected(|v| v[v.len() - 1]));
            let counts = expected(|v| v.len() as i64).into_iter().map(|pane| pane.timing);
            check(|env| values(env).shuffle().window_all(window).count().map(|pane| pane.timing))
                .seeds(2)
                .equals(counts);
        });
    }

    /// A result covers what its window holds when the value has been added, whatever becomes of it later.
    #[test]
    fn transactions_show_what_they_hold(all in some_readings(), n in 1..5u64) {
        let says = |value: i64| match value.rem_euclid(9) {
            0 => Transaction::Commit,
            1 => Transaction::Discard,
            _ => Transaction::Continue,
        };
        let mut open: BTreeMap<u8, (u64, Vec<i64>)> = BTreeMap::new();
        let mut expected = Vec::new();
        for &(key, value) in &all {
            let (first, values) = open.entry(key).or_default();
            values.push(value);
            let count = values.len() as u64;
            match says(value) {
                Transaction::Commit => {
                    expected.push((key, CountPane::on_time(*first, count, std::mem::take(values))));
                }
                Transaction::Discard => values.clear(),
                _ => {
                    if count.is_multiple_of(n) {
                        let timing = Timing::Early((count / n) as u32);
                        let value = values.clone();
                        expected.push((key, CountPane { first: *first, count, timing, value }));
                    }
                    continue;
                }
            }
            *first += count;
        }
        let of = |env: &Environment| env.iter(all.clone()).group_by(|reading| reading.0);
        let sums = expected.iter().map(|(key, pane)| {
            let CountPane { first, count, timing, ref value } = *pane;
            (*key, CountPane { first, count, timing, value: sum(value) })
        });
        let window = || TransactionWindow::new(move |r: &Reading| says(r.1)).early(Early::every(n));
        check(|env| of(env).window(window()).sum(|r| r.1)).seeds(2).equals(sums.collect::<Vec<_>>());
        let values = || TransactionWindow::new(move |value: &i64| says(*value)).early(Early::every(n));
        check(|env| of(env).map(|_, r| r.1).window(values()).to_vec()).seeds(2).equals(expected);
    }
}

/// A sum of a window and what is before it would not fit its type.
#[test]
fn a_result_is_computed_from_its_window_alone() {
    let shape = Shape::Count { size: 4, slide: 2, partial: true };
    let all: Vec<Reading> = (0..20).map(|n| (0, if n % 4 == 0 { i64::MAX } else { 0 })).collect();
    for n in [1, 3] {
        let window = CountWindow::sliding(4, 2).keep_partial().early(Early::every(n));
        check(|env| env.iter(all.clone()).group_by(|r| r.0).window(window).sum(|r| r.1))
            .equals(counted(shape, &all, n, sum));
    }
}

/// Nanoseconds between two records of the tests by the clock.
const PERIOD: Nanos = 100_000_000;

/// A result, with the time at which it was emitted if it is early.
type Seen<T> = (Option<Nanos>, u8, CountPane<T>);

/// An environment whose clock advances only from one event to the next.
fn simulated() -> Environment {
    let mut config =
        Config { scheduler: Scheduler::Deterministic { seed: 3 }, ..Config::default() };
    config.cores = 1.try_into().unwrap();
    Environment::with_config(config)
}

/// The results of a job over the readings, one for each period of the clock.
macro_rules! seen_by_the_clock {
    ($all:expr, |$readings:ident| $results:expr) => {{
        let env = simulated();
        let (all, clock) = ($all.clone(), env.clock());
        let $readings = env
            .generate(1e9 / PERIOD as f64, move |n| all.get(n as usize).copied())
            .group_by(|reading: &Reading| reading.0)
            .map(|_, reading| reading.1);
        let results = $results.unkey().map(move |(key, pane)| {
            let early = matches!(pane.timing, Timing::Early(_));
            (early.then(|| clock.now()), key, pane)
        });
        let results = results.to_channel();
        env.run().unwrap();
        let mut results: Vec<_> = results.map(|result| result.unwrap()).collect();
        results.sort();
        results
    }};
}

proptest! {
    #![proptest_config(cases(32))]

    /// At a tick, every open window with values has a result if values of its key have arrived since the tick before.
    #[test]
    fn results_come_when_the_clock_says(
        shape in shapes(),
        all in prop::collection::vec((0..3u8, -50..50i64), 0..40),
        // No tick falls on a record; with a short interval, nothing changes between most of them.
        interval in (30..900u64).prop_map(|millis| millis * 1_000_000 + 370_000),
    ) {
        let mut expected: Vec<Seen<Vec<i64>>> =
            shape.expected(&all, <[i64]>::to_vec).into_iter().map(|(key, pane)| (None, key, pane)).collect();
        let mut keys: BTreeMap<u8, (bool, Vec<i64>, BTreeMap<u64, u32>)> = BTreeMap::new();
        let mut next = interval;
        for number in 0..=all.len() {
            while next < number as Nanos * PERIOD {
                for (key, (changed, values, results)) in &mut keys {
                    let len = values.len() as u64;
                    for first in shape.open(len).into_iter().filter(|_| *changed) {
                        let result = results.entry(first).or_default();
                        *result += 1;
                        let (timing, value) = (Timing::Early(*result), values[first as usize..].to_vec());
                        expected.push((Some(next), *key, CountPane { first, count: len - first, timing, value }));
                    }
                    *changed = false;
                }
                next += interval;
            }
            if let Some((key, value)) = all.get(number) {
                let (changed, values, _) = keys.entry(*key).or_default();
                // A value between two windows changes none.
                *changed |= !shape.open(values.len() as u64 + 1).is_empty();
                values.push(*value);
            }
        }
        expected.sort();
        let sums = expected.iter().map(|(at, key, pane)| {
            let CountPane { first, count, timing, ref value } = *pane;
            (*at, *key, CountPane { first, count, timing, value: sum(value) })
        });
        let mut sums: Vec<Seen<i64>> = sums.collect();
        sums.sort();
        with_early!(shape, Early::interval(Duration::from_nanos(interval)), |window| {
            prop_assert_eq!(seen_by_the_clock!(all, |all| all.window(window).sum(|v| *v)), sums);
            prop_assert_eq!(seen_by_the_clock!(all, |all| all.window(window).to_vec()), expected);
        });
    }

    /// Commit times and ticks by the same clock.
    #[test]
    fn transactions_wait_for_time_and_show_what_they_hold(
        all in prop::collection::vec((0..2u8, 0..12i64), 0..50),
        interval in (30..900u64).prop_map(|millis| millis * 1_000_000 + 370_000),
    ) {
        let wait = |value: i64| value as Nanos * 40_000_000 + 70_000;
        let says = move |value: i64| match value {
            0 => Transaction::Commit,
            1 => Transaction::Discard,
            2..6 => Transaction::CommitAfter(Duration::from_nanos(wait(value))),
            _ => Transaction::Continue,
        };
        #[derive(Default)]
        struct Open {
            first: u64,
            values: Vec<i64>,
            commit: Option<Nanos>,
            changed: bool,
            results: u32,
        }
        impl Open {
            fn pane(&self, timing: Timing) -> CountPane<Vec<i64>> {
                let (first, count) = (self.first, self.values.len() as u64);
                CountPane { first, count, timing, value: self.values.clone() }
            }

            fn close(&mut self) {
                let first = self.first + self.values.len() as u64;
                *self = Self { first, ..Self::default() };
            }
        }
        let mut keys: BTreeMap<u8, Open> = BTreeMap::new();
        let mut expected: Vec<Seen<Vec<i64>>> = Vec::new();
        let mut next = interval;
        for number in 0..=all.len() {
            let now = number as Nanos * PERIOD;
            loop {
                let due = keys.iter_mut().filter_map(|(key, open)| Some((open.commit?, *key, open)));
                let due = due.min_by_key(|due| due.0).filter(|due| due.0 < now);
                if let Some((_, key, open)) = due.filter(|due| due.0 <= next) {
                    expected.push((None, key, open.pane(Timing::OnTime)));
                    open.close();
                } else if next < now {
                    for (key, open) in keys.iter_mut().filter(|(_, open)| open.changed) {
                        (open.changed, open.results) = (false, open.results + 1);
                        expected.push((Some(next), *key, open.pane(Timing::Early(open.results))));
                    }
                    next += interval;
                } else {
                    break;
                }
            }
            let Some((key, value)) = all.get(number) else { continue };
            let open = keys.entry(*key).or_default();
            open.values.push(*value);
            open.changed = true;
            match says(*value) {
                Transaction::Commit => {
                    expected.push((None, *key, open.pane(Timing::OnTime)));
                    open.close();
                }
                Transaction::Discard => open.close(),
                Transaction::CommitAfter(after) => {
                    open.commit = Some(now + after.as_nanos() as Nanos);
                }
                Transaction::Continue => {}
            }
        }
        let waiting = keys.iter().filter(|(_, open)| open.commit.is_some());
        expected.extend(waiting.map(|(key, open)| (None, *key, open.pane(Timing::OnTime))));
        expected.sort();
        let window = TransactionWindow::new(move |value: &i64| says(*value));
        let window = window.early(Early::interval(Duration::from_nanos(interval)));
        prop_assert_eq!(seen_by_the_clock!(all, |all| all.window(window).to_vec()), expected);
    }
}

/// Commit times by timestamps, and results after every second value.
#[test]
fn transactions_of_event_time_show_what_they_hold() {
    let carts = || {
        TransactionWindow::new(|n: &(u8, u64)| match n.1 % 10 {
            0 => Transaction::CommitAfter(Duration::from_secs(3)),
            9 => Transaction::Discard,
            _ => Transaction::Continue,
        })
    };
    let pane = |first: u64, count: u64, timing| CountPane { first, count, timing, value: count };
    // Seconds 0 to 2 of each ten are committed; those from 3 on are discarded with the 9.
    let of_ten = |ten: u64| {
        let committed = [pane(ten, 2, Timing::Early(1)), pane(ten, 3, Timing::OnTime)];
        let discarded =
            (1..=3).map(move |n: u32| pane(ten + 3, 2 * u64::from(n), Timing::Early(n)));
        committed.into_iter().chain(discarded)
    };
    let of_key = |key: u8| (0..3).flat_map(move |n| of_ten(10 * n)).map(move |pane| (key, pane));
    check(|env| {
        let all = (0..90u64).map(|n| ((n % 3) as u8, n / 3));
        env.iter(all)
            .assign_timestamps(|(_, n)| Timestamp::from_secs(*n as i64), Watermarks::monotonous())
            .group_by(|n| n.0)
            .window(carts().early(Early::every(2)))
            .count()
    })
    .equals((0..3u8).flat_map(of_key));
}

/// Checks the results of windows whose early results come by the clock, in any order: those of a window are numbered,
/// each covers more than the one before, and the last is the only one of its kind. Returns those of complete windows.
fn complete<K: Ord + Copy, T>(mut results: Vec<(K, CountPane<T>)>) -> Vec<(K, u64, u64)> {
    results.sort_by_key(|(key, pane)| (*key, pane.first, pane.timing));
    let mut complete = Vec::new();
    for of_window in results.chunk_by(|a, b| (a.0, a.1.first) == (b.0, b.1.first)) {
        let counts: Vec<u64> = of_window.iter().map(|(_, pane)| pane.count).collect();
        for (place, (key, pane)) in of_window.iter().enumerate() {
            match pane.timing {
                Timing::Early(number) => {
                    assert_eq!(number as usize, place + 1);
                    assert!(place == 0 || counts[place - 1] < pane.count, "{counts:?}");
                }
                Timing::OnTime => {
                    assert_eq!(place + 1, of_window.len());
                    assert!(place == 0 || counts[place - 1] <= pane.count, "{counts:?}");
                    complete.push((*key, pane.first, pane.count));
                }
                Timing::Late(_) => unreachable!("there are none"),
            }
        }
    }
    complete
}

/// Ticks all the time, with many keys and in every way a job can be run.
#[test]
fn complete_windows_are_not_changed_by_early_results() {
    let early = Early::interval(Duration::from_nanos(1));
    every(|env| {
        let (n, keys) = (1_800u64, 180);
        let numbers = || env.range(0..n).shuffle().group_by(move |n| n % keys);
        let fours = numbers().window(CountWindow::tumbling(4).early(early)).count();
        let sliding = numbers().window(CountWindow::sliding(4, 3).early(early)).sum(|_| 1u64);
        let lists = numbers().window(CountWindow::sliding(4, 3).early(early)).to_vec();
        let all = numbers().window(GlobalWindow::new().early(early)).count();
        let commit = TransactionWindow::new(|n: &u64| match *n >= 1_740 {
            true => Transaction::Commit,
            false => Transaction::Continue,
        });
        let carts = numbers().window(commit.early(early)).count();
        let fours = fours.collect::<Vec<_>>();
        let sliding = sliding.collect::<Vec<_>>();
        let lists = lists.collect::<Vec<_>>();
        let (all, carts) = (all.collect::<Vec<_>>(), carts.collect::<Vec<_>>());
        env.run()?;
        fn expected(keys: u64, of_key: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
            let of_key = |key| of_key.iter().map(move |(first, count)| (key, *first, *count));
            (0..keys).flat_map(of_key).collect()
        }
        assert_eq!(complete(fours.take()?), expected(keys, &[(0, 4), (4, 4)]));
        let three = expected(keys, &[(0, 4), (3, 4), (6, 4)]);
        assert_eq!(complete(sliding.take()?), three);
        let lists = lists.take()?;
        assert!(lists.iter().all(|(_, pane)| pane.value.len() as u64 == pane.count));
        assert_eq!(complete(lists), three);
        assert_eq!(complete(all.take()?), expected(keys, &[(0, 10)]));
        // The records are shuffled, so that any record of a key may be the one that commits.
        let committed = complete(carts.take()?);
        assert!(committed.iter().map(|cart| cart.0).eq(120..180));
        Ok(())
    });
}

/// Early results are never behind the watermark, however long after their records they are emitted.
#[test]
fn early_results_are_not_late() {
    for early in [Early::interval(Duration::from_nanos(1)), Early::every(3)] {
        every(|env| {
            let n = 400i64;
            let timed = || {
                env.iter(0..n)
                    .batch_mode(BatchMode::Single)
                    .forward()
                    .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous())
                    .group_by(|n| n % 20)
            };
            let tens = timed().window(CountWindow::tumbling(10).early(early)).count();
            let lists = timed().window(CountWindow::sliding(10, 5).early(early)).to_vec();
            let lists = lists.map(|_, pane| CountPane {
                first: pane.first,
                count: pane.count,
                timing: pane.timing,
                value: pane.value.len() as u64,
            });
            let all = timed().window(GlobalWindow::new().early(early)).count();
            let open = TransactionWindow::new(|_: &i64| Transaction::Continue);
            let open = timed().window(open.early(early)).count();
            let results = env.merge_all([
                tens.unkey().boxed(),
                lists.unkey().boxed(),
                all.unkey().boxed(),
                open.unkey().boxed(),
            ]);
            let (moments, late) = results
                .filter(|(_, pane)| matches!(pane.timing, Timing::Early(_)))
                .group_by(|_| ())
                .window(EventTimeWindow::tumbling(Duration::from_micros(1)))
                .late_output();
            let moments = moments.count().collect::<Vec<_>>();
            let late = late.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(late.take()?, []);
            assert!(early != Early::every(3) || !moments.take()?.is_empty());
            Ok(())
        });
    }
}

/// Each round begins with the first window and the first result.
#[test]
fn each_round_has_its_own_results() {
    fn rounds<T: Data + Ord + std::fmt::Debug + Clone + Sync>(
        env: &Environment,
        expected: Vec<T>,
        results: impl FnOnce(crate::Stream<crate::Boxed<u64>>) -> crate::Stream<crate::Boxed<T>>
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> crate::Result<()> {
        let outcome = env
            .iter(0..7u64)
            .replay(3, 0, move |values, _| results(values.map(|n| *n).boxed()))
            .fold(|all: &mut Vec<T>, pane| all.push(pane), |all, other| all.extend(other))
            .until(move |round, mut values| {
                values.sort();
                assert_eq!(values, expected);
                *round += 1;
                false
            });
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, 3);
        Ok(())
    }
    let pane = |first, count, timing, value| CountPane { first, count, timing, value };
    every(|env| {
        let (one, two, three) = (Timing::Early(1), Timing::Early(2), Timing::Early(3));
        let all = vec![
            pane(0, 2, one, 2),
            pane(0, 4, two, 4),
            pane(0, 6, three, 6),
            pane(0, 7, Timing::OnTime, 7),
        ];
        rounds(env, all, |values| {
            values.window_all(GlobalWindow::new().early(Early::every(2))).count().boxed()
        })
    });
    every(|env| {
        let one = Timing::Early(1);
        let fours = [(0, 2, one), (0, 4, Timing::OnTime), (3, 2, one), (3, 4, Timing::OnTime)];
        let fours = fours.map(|(first, count, timing)| pane(first, count, timing, count));
        rounds(env, fours.to_vec(), |values| {
            values.window_all(CountWindow::sliding(4, 3).early(Early::every(2))).count().boxed()
        })
    });
}

#[test]
fn results_that_never_come_are_refused() {
    let refused = |env: Environment, message: &str| {
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.to_string().contains(message), "{error}");
    };
    for (early, message) in [
        (Early::every(0), "every 0 records can never come"),
        (Early::interval(Duration::ZERO), "an interval of nothing"),
    ] {
        let env = Environment::new();
        env.iter(0..9).window_all(CountWindow::tumbling(3).early(early)).count().for_each(drop);
        refused(env, message);
        let env = Environment::new();
        env.iter(0..9).window_all(GlobalWindow::new().early(early)).to_vec().for_each(drop);
        refused(env, message);
        let env = Environment::new();
        let open = TransactionWindow::new(|_: &i32| Transaction::Continue).early(early);
        env.iter(0..9).window_all(open).count().for_each(drop);
        refused(env, message);
    }
    // Each record would change so many windows.
    let env = Environment::new();
    let many = CountWindow::sliding(1 << 21, 1).early(Early::every(9));
    env.iter(0..9).window_all(many).count().for_each(drop);
    refused(env, "would be in 2097152 windows");
}

/// A global window over an input without an end has only early results.
#[test]
fn the_input_of_a_global_window_need_not_end() {
    // The closure of the sink runs on the first host only.
    every_on_one_host(|env| {
        let window = GlobalWindow::new().early(Early::every(5));
        let counts = env.generate(f64::INFINITY, Some).window_all(window).count().limit(3);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        counts.for_each(move |pane| lock(&all).push((pane.timing, pane.value)));
        env.run()?;
        let expected = [1, 2, 3].map(|n| (Timing::Early(n), 5 * u64::from(n)));
        assert_eq!(*lock(&seen), expected);
        Ok(())
    });
}

/// Slices and counts of open windows count against the budget.
#[test]
fn windows_with_early_results_keep_within_the_budget() {
    let env = || Environment::with_config(Config { memory: 1 << 20, ..Config::default() });
    let refused = |env: &Environment| {
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
        assert!(error.operator().unwrap_or_default().starts_with("window"), "{error}");
    };
    let n = 300_000u64;
    for early in [Early::every(n / 2), Early::interval(Duration::from_secs(1 << 33))] {
        let sliding = CountWindow::sliding(n, 1).early(early);
        let job = env();
        job.iter(0..n).window_all(sliding).max(|n| *n).for_each(drop);
        refused(&job);
        let job = env();
        job.iter(0..n).window_all(sliding).to_vec().for_each(drop);
        refused(&job);
        // Many keys go to disk.
        let job = env();
        let numbers = job.iter(0..10_000u64).group_by(|n| *n);
        let counts = numbers.window(GlobalWindow::new().early(early)).count().unkey();
        let counts = counts.count().collect_one();
        let stats = job.start().unwrap().wait().unwrap();
        assert_eq!(counts.take().unwrap(), Some(10_000));
        assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
    }
    // Closed windows release their memory, and their timers.
    let n = 80_000u64;
    let given = Arc::new(AtomicU64::new(0));
    for early in [Early::every(3), Early::interval(Duration::from_micros(10))] {
        let (job, given) = (env(), Arc::clone(&given));
        let texts = job.iter(0..n).map(|n| (n % 100, format!("a text that takes some room: {n}")));
        let texts = texts.group_by(|text| text.0).map(|_, text| text.1);
        let lists = texts.window(CountWindow::sliding(20, 10).early(early)).to_vec();
        lists.unkey().for_each(move |(_, pane)| {
            given.fetch_add(u64::from(pane.timing == Timing::OnTime), Ordering::Relaxed);
        });
        job.run().unwrap();
    }
    assert_eq!(given.load(Ordering::Relaxed), 2 * 100 * (n / 100 / 10 - 1));
}

/// The plan says when early results come.
#[test]
fn plans_show_early_results() {
    let env = Environment::new();
    let tens: Output<Vec<_>> = env
        .iter(0..9u64)
        .window_all(CountWindow::tumbling(10).early(Early::every(3)))
        .count()
        .collect();
    let plan = env.plan();
    drop(tens);
    let window = plan.operators.iter().find(|op| op.kind.starts_with("window")).unwrap();
    assert_eq!(window.details.to_string(), "count, tumbling, 10 records, early every 3 records");
}
