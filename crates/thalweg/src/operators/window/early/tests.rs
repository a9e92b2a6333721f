//! Tests of early results against their definition: the records of a window so far, record by record or tick by tick.

use super::super::tests::{
    Reading, Shape, check_each, disorder, fewer_on_disk, in_one_task, micros, pass_without_room,
    readings, shapes, small_shapes, some_readings,
};
use super::super::{Early, EventTimeWindow, Pane, Timing};
use super::Ticks;
use crate::check::{check, every};
use crate::clock::Nanos;
use crate::config::{BatchMode, Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::time::Timestamp;
use crate::{Chain, Environment, ErrorKind, Stream};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The readings in one task, so that they arrive in order at the tasks that own their keys.
fn in_order(
    env: &Environment,
    all: &[Reading],
) -> Stream<impl Chain<Item = Reading, Time = Timestamp> + use<>> {
    let watermarks = Watermarks::bounded_disorder(disorder(all));
    let at = |reading: &Reading| Timestamp::from_micros(reading.1);
    env.iter(all.to_vec()).forward().assign_timestamps(at, watermarks)
}

/// All results, with an early one after a number of records, by the definition.
fn counted<T>(
    shape: Shape,
    all: &[Reading],
    every: usize,
    of: impl Fn(&[i32]) -> T + Copy,
) -> Vec<(u8, Pane<T>)> {
    let windows = shape.expected(all, <[i32]>::to_vec);
    let of_window = |(key, pane): (u8, Pane<Vec<i32>>)| {
        let value = of(&pane.value);
        let (start, end) = (pane.start, pane.end);
        let results = pane.value.len() / every;
        let early: Vec<_> = (1..=results)
            .map(|number| {
                let timing = Timing::Early(number as u32);
                (key, Pane { start, end, timing, value: of(&pane.value[..number * every]) })
            })
            .collect();
        early.into_iter().chain([(key, Pane::on_time(start, end, value))])
    };
    windows.into_iter().flat_map(of_window).collect()
}

fn sum(values: &[i32]) -> i64 {
    values.iter().map(|&value| i64::from(value)).sum()
}

proptest! {
    #![proptest_config(fewer_on_disk(8))]

    /// The first result covers the first n records of the key in the window, the next twice as many.
    #[test]
    fn every_n_records_there_is_a_result(shape in shapes(), all in some_readings(), n in 1..6usize) {
        let early = Early::every(n as u64);
        let of = |env: &Environment| in_order(env, &all).group_by(|reading| reading.0);
        // With an inverse and without one; with partial aggregates of one record, and with records themselves.
        check(|env| of(env).window(shape.window().early(early)).sum(|reading| i64::from(reading.2)))
            .seeds(2)
            .equals(counted(shape, &all, n, sum));
        check(|env| {
            of(env).repartition().window(shape.window().early(early)).max(|reading| reading.2)
        })
        .seeds(2)
        .equals(counted(shape, &all, n, |values| *values.iter().max().unwrap()));
    }

    /// With any number of senders, early results cover an exact number of records, and do not change those at the end.
    #[test]
    fn results_hold_so_many_records(shape in shapes(), all in some_readings(), n in 1..6usize) {
        let early = Early::every(n as u64);
        check(|env| {
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            keyed.window(shape.window().early(early)).count()
        })
        .seeds(2)
        .equals(counted(shape, &all, n, |values| values.len() as u64));
    }

    /// Results by the clock, and late ones, with any tasks and times: each covers more than the one before,
    /// they are numbered, and the last covers all records.
    #[test]
    fn results_follow_one_another(shape in shapes(), all in some_readings(), n in 0..4u64) {
        let early =
            if n == 0 { Early::interval(Duration::from_nanos(1)) } else { Early::every(n) };
        let sorted = |values: &[i32]| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values
        };
        // This is the longest lateness there is.
        prop_assume!(disorder(&all) <= micros(i64::MAX));
        // Windows that begin before the first timestamp differ only in their ends.
        let at = |key: u8, pane: &Pane<Vec<i32>>| (key, pane.start, pane.end);
        let expected: BTreeMap<_, _> = shape
            .expected(&all, sorted)
            .into_iter()
            .map(|(key, pane)| (at(key, &pane), pane.value))
            .collect();
        check_each(|env| {
            let window = shape.window().allowed_lateness(Duration::MAX).early(early);
            let results = env
                .iter(all.to_vec())
                .batch_mode(BatchMode::Single)
                .forward()
                .assign_timestamps(|(_, at, _)| Timestamp::from_micros(*at), Watermarks::monotonous())
                .group_by(|reading| reading.0)
                .window(window)
                .fold_assoc(
                    Vec::new(),
                    |all: &mut Vec<i32>, reading: Reading| all.push(reading.2),
                    |all, mut others| all.append(&mut others),
                )
                .collect::<Vec<_>>();
            env.run()?;
            let mut last: BTreeMap<_, (Timing, Vec<i32>)> = BTreeMap::new();
            for (key, pane) in results.take()? {
                let values = sorted(&pane.value);
                if n > 0 && let Timing::Early(number) = pane.timing {
                    assert_eq!(values.len() as u64, u64::from(number) * n);
                }
                let before = last.insert(at(key, &pane), (pane.timing, values.clone()));
                let (timing, held) = before.unwrap_or((Timing::Early(0), Vec::new()));
                let more = values.len() > held.len();
                let follows = match (timing, pane.timing) {
                    (Timing::Early(before), Timing::Early(number)) => number == before + 1 && more,
                    // There may have been no record since the last early result.
                    (Timing::Early(_), Timing::OnTime) => values.len() >= held.len(),
                    // The key's first record in the window may be a late one.
                    (Timing::OnTime | Timing::Early(0), Timing::Late(1)) => more,
                    (Timing::Late(before), Timing::Late(number)) => number == before + 1 && more,
                    _ => false,
                };
                assert!(follows, "{timing:?} {held:?}, then {:?} {values:?}", pane.timing);
                assert!(is_part(&held, &values), "{held:?} is not in {values:?}");
            }
            assert!(last.values().all(|(timing, _)| !matches!(timing, Timing::Early(_))));
            let last: BTreeMap<_, _> = last.into_iter().map(|(at, (_, all))| (at, all)).collect();
            assert_eq!(last, expected);
            Ok(())
        });
    }
}

/// Whether all of the sorted values in `some` are among those in `all`.
fn is_part(some: &[i32], all: &[i32]) -> bool {
    let mut all = all.iter();
    some.iter().all(|value| all.any(|other| other == value))
}

/// Nanoseconds between two records of the tests by the clock.
const PERIOD: Nanos = 100_000_000;

/// A result, with the time at which it was emitted if it is early.
type Seen = (Option<Nanos>, u8, Pane<i64>);

/// Results by the clock, by the definition: record by record and tick by tick. If tasks aggregate first,
/// records are visible only half an interval later, or when the watermark has passed their slice.
fn by_the_clock(
    shape: Shape,
    all: &[(u8, i64)],
    interval: Nanos,
    aggregates_first: bool,
) -> Vec<Seen> {
    let end = all.len() as Nanos * PERIOD;
    let half = interval / 2;
    let mut times: Vec<(Nanos, Option<usize>)> =
        (0..all.len()).map(|number| (number as Nanos * PERIOD, Some(number))).collect();
    times.extend((1..).map(|k| (k * half, None)).take_while(|(at, _)| *at < end));
    times.sort_unstable();
    let within = |at: i64, start: i64| start <= at && at < start + shape.size;
    let starts = || (-70..2000i64).filter(|start| start.rem_euclid(shape.slide) == 0);
    let pane = |start: i64, timing, value| {
        let (start, end) =
            (Timestamp::from_micros(start), Timestamp::from_micros(start + shape.size));
        Pane { start, end, timing, value }
    };
    let value = |known: &[(u8, i64)], key: u8, start: i64| -> Option<i64> {
        let mut values = known.iter().filter(|(k, at)| *k == key && within(*at, start)).peekable();
        values.peek()?;
        Some(values.map(|(_, at)| at).sum())
    };
    let (mut results, mut known, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    let mut had: BTreeMap<(u8, i64), (u32, usize)> = BTreeMap::new();
    let mut watermark = i64::MIN;
    let mut halves = 0;
    for (now, record) in times {
        if let Some(record) = record {
            waiting.push(all[record]);
            watermark = all[record].1;
            let passed = |at: &i64| !aggregates_first || at + shape.size <= watermark;
            known.extend(waiting.extract_if(.., |(_, at)| passed(at)));
            continue;
        }
        halves += 1;
        if halves % 2 == 1 {
            known.append(&mut waiting);
            continue;
        }
        for start in starts().filter(|start| start + shape.size > watermark) {
            for key in 0..3 {
                let count = known.iter().filter(|(k, at)| *k == key && within(*at, start)).count();
                let Some(value) = value(&known, key, start) else { continue };
                let had = had.entry((key, start)).or_default();
                if had.1 < count {
                    *had = (had.0 + 1, count);
                    results.push((Some(now), key, pane(start, Timing::Early(had.0), value)));
                }
            }
        }
    }
    for (start, key) in starts().flat_map(|start| (0..3).map(move |key| (start, key))) {
        if let Some(value) = value(all, key, start) {
            results.push((None, key, pane(start, Timing::OnTime, value)));
        }
    }
    results
}

/// The results of a job whose clock advances only from one event to the next.
fn seen_by_the_clock(
    window: EventTimeWindow<Early>,
    all: &[(u8, i64)],
    aggregates_first: bool,
) -> Vec<Seen> {
    let mut config =
        Config { scheduler: Scheduler::Deterministic { seed: 3 }, ..Config::default() };
    config.cores = 1.try_into().unwrap();
    let env = Environment::with_config(config);
    let (all, clock) = (all.to_vec(), env.clock());
    let records = env
        .generate(1e9 / PERIOD as f64, move |n| all.get(n as usize).copied())
        .assign_timestamps(|record| Timestamp::from_micros(record.1), Watermarks::monotonous())
        .group_by(|record| record.0);
    let at = move |(key, pane): (u8, Pane<i64>)| {
        let early = matches!(pane.timing, Timing::Early(_));
        (early.then(|| clock.now()), key, pane)
    };
    let results = if aggregates_first {
        records.window(window).sum(|record| record.1).unkey().map(at).to_channel()
    } else {
        records.repartition().window(window).sum(|record| record.1).unkey().map(at).to_channel()
    };
    env.run().unwrap();
    results.map(|result| result.unwrap()).collect()
}

proptest! {
    #![proptest_config(fewer_on_disk(48))]

    #[test]
    fn results_come_when_the_clock_says(
        shape in small_shapes(),
        tumbling in any::<bool>(),
        steps in prop::collection::vec((0..3u8, 0..20i64), 0..40),
        // No tick falls on a record.
        interval in (130..900u64).prop_map(|millis| millis * 1_000_000 + 370_000),
    ) {
        let mut shape = Shape { offset: 0, ..shape };
        if tumbling {
            shape.slide = shape.size;
        }
        let mut at = 0;
        let each = |(key, step)| {
            at += step;
            (key, at)
        };
        let all: Vec<(u8, i64)> = steps.into_iter().map(each).collect();
        let window = shape.window().early(Early::interval(Duration::from_nanos(interval)));
        let sorted = |mut seen: Vec<Seen>| {
            seen.sort();
            seen
        };
        prop_assert_eq!(
            sorted(seen_by_the_clock(window, &all, false)),
            sorted(by_the_clock(shape, &all, interval, false))
        );
        if tumbling {
            // A slice that is closed is in no open window.
            prop_assert_eq!(
                sorted(seen_by_the_clock(window, &all, true)),
                sorted(by_the_clock(shape, &all, interval, true))
            );
        }
    }
}

/// A window over results contains early ones and those at the end together, and no early one is late.
#[test]
fn early_results_are_in_the_window_of_the_last() {
    let all: Vec<Reading> = (0..2000).map(|n| ((n % 5) as u8, i64::from(n), n)).collect();
    let tens = EventTimeWindow::tumbling(micros(100)).early(Early::every(7));
    every(|env| {
        let results =
            readings(env, &all).group_by(|reading| reading.0).window(tens).count().unkey();
        let (windows, late) = results
            .group_by(|result| result.0)
            .window(EventTimeWindow::tumbling(micros(100)))
            .late_output();
        let of = |(_, pane): &(u8, Pane<u64>)| (pane.start.as_micros(), pane.value);
        let lists = windows.aggregate(|a| a.to_vec());
        let lists = lists.unkey().map(move |(_, pane)| {
            let all: BTreeSet<_> = pane.value.iter().map(of).collect();
            (pane.start.as_micros(), all)
        });
        let (lists, late) = (lists.collect::<Vec<_>>(), late.collect::<Vec<_>>());
        env.run()?;
        assert_eq!(late.take()?, []);
        for (start, results) in lists.take()? {
            assert_eq!(results, [(start, 7), (start, 14), (start, 20)].into());
        }
        Ok(())
    });
}

#[test]
fn windows_of_two_streams_have_early_results() {
    let timed = |env: &Environment, all: Vec<(i64, u32)>| {
        env.iter(all)
            .assign_timestamps(|pair| Timestamp::from_secs(pair.0), Watermarks::monotonous())
            .group_by(|_| ())
    };
    let window = EventTimeWindow::tumbling(Duration::from_secs(100)).early(Early::every(4));
    check(|env| {
        let (left, right) = (timed(env, vec![(1, 10), (2, 20)]), timed(env, vec![(3, 1), (4, 2)]));
        left.window_join(right, window, |(), a, b| a.1 + b.1)
            .unkey()
            .map(|((), pane)| (pane.timing, pane.value))
    })
    .equals(
        [Timing::Early(1), Timing::OnTime]
            .into_iter()
            .flat_map(|timing| [11, 12, 21, 22].map(|sum| (timing, sum))),
    );
}

#[test]
fn results_that_never_come_are_refused() {
    for (early, message) in [
        (Early::every(0), "every 0 records can never come"),
        (Early::interval(Duration::ZERO), "an interval of nothing"),
    ] {
        let env = Environment::new();
        let window = EventTimeWindow::tumbling(Duration::from_secs(1)).early(early);
        readings(&env, &[]).window_all(window).count().for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn early_results_count_against_the_memory_budget() {
    let env = Environment::with_config(Config { memory: 400_000, ..Config::default() });
    // Each key is in two thousand windows, but in one slice. They are too many to go to disk.
    let window = EventTimeWindow::sliding(Duration::from_secs(2), Duration::from_millis(1));
    let keys = env
        .range(0..1000)
        .assign_timestamps(|_| Timestamp::from_secs(0), Watermarks::monotonous())
        .group_by(|n| *n)
        .window(window.early(Early::every(2)));
    keys.count().unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.operator().unwrap_or_default().starts_with("window ("), "{error}");
}

/// Tests of early results, where there is no memory for windows every now and then.
#[test]
fn early_results_on_disk_are_the_same() {
    let tests = [
        "every_n_records_there_is_a_result",
        "results_hold_so_many_records",
        "results_follow_one_another",
        "results_come_when_the_clock_says",
        "windows_of_two_streams_have_early_results",
    ];
    pass_without_room(module_path!(), &tests);
}

/// More keys than there is memory for.
const KEYS: u64 = 800;

/// The results of windows with so little memory that keys go to disk between any two of their five records: the start of the
/// window, the key, the timing and the number of records.
fn results_on_disk(size: i64, slide: i64, early: Early) -> Vec<(i64, u64, Timing, u64)> {
    let env = in_one_task(1 << 17);
    let window = EventTimeWindow::sliding(micros(size), micros(slide)).early(early);
    let counts = env
        .iter((0..5 * KEYS).collect::<Vec<_>>())
        .forward()
        .assign_timestamps(|_| Timestamp::from_micros(60), Watermarks::monotonous())
        .group_by(|n| format!("{:0100}", n % KEYS))
        .repartition()
        .window(window)
        .count();
    let counts = counts.unkey().map(|(key, pane)| {
        (pane.start.as_micros(), key.parse::<u64>().unwrap(), pane.timing, pane.value)
    });
    let counts = counts.collect::<Vec<_>>();
    let stats = env.start().unwrap().wait().unwrap();
    assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
    let mut results = counts.take().unwrap();
    // Those of a key and window in the order in which they came.
    results.sort_by_key(|(start, key, ..)| (*start, *key));
    results
}

#[test]
fn early_results_come_from_disk() {
    for (size, slide, starts) in [(100, 100, vec![0_i64]), (100, 50, vec![0, 50])] {
        let results = results_on_disk(size, slide, Early::every(2));
        let of_window = [(Timing::Early(1), 2_u64), (Timing::Early(2), 4), (Timing::OnTime, 5)];
        let keys = starts.iter().flat_map(|start| (0..KEYS).map(move |key| (*start, key)));
        let expected = keys
            .flat_map(|(start, key)| of_window.map(|(timing, count)| (start, key, timing, count)));
        assert!(results.into_iter().eq(expected), "{size}, {slide}");
        // Each has more records than the one before, and the last has all.
        let results = results_on_disk(size, slide, Early::interval(Duration::from_nanos(1)));
        let mut windows = 0;
        for of_window in results.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (last, early) = of_window.split_last().unwrap();
            assert_eq!((last.2, last.3), (Timing::OnTime, 5));
            for (number, result) in (1..).zip(early) {
                assert_eq!(result.2, Timing::Early(number));
            }
            assert!(early.is_sorted_by(|a, b| a.3 < b.3), "{of_window:?}");
            windows += 1;
        }
        assert_eq!(windows, KEYS as usize * starts.len());
    }
}

#[test]
fn ticks_come_at_multiples_and_half_an_interval_before() {
    let mut ticks = Ticks::new(Duration::from_nanos(10), false);
    let mut before = Ticks::new(Duration::from_nanos(10), true);
    let mut next = |now| {
        ticks.restart(now);
        before.restart(now);
        (before.next(), ticks.next())
    };
    assert_eq!(next(0), (5, 10));
    assert_eq!(next(4), (5, 10));
    assert_eq!(next(5), (15, 10));
    assert_eq!(next(10), (15, 20));
    assert_eq!(next(37), (45, 40));
    assert_eq!(next(Nanos::MAX), (Nanos::MAX, Nanos::MAX));
    ticks.restart(3);
    let come = [9, 10, 19, 47, 49, 50].map(|now| ticks.has_come(now));
    assert_eq!(come, [false, true, false, true, false, true]);
}
