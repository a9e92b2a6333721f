//! Tests of windows against their definition: all records are sorted, and each window is found by search.

use super::{EventTimeWindow, Pane, Timing};
use crate::check::{cases, check, every};
use crate::config::{BatchMode, Config, Scheduler};
use crate::fault::{Fault, is_planted};
use crate::operators::time::Watermarks;
use crate::time::Timestamp;
use crate::{Chain, Environment, ErrorKind, KeyedStream, Stream};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A key, a timestamp in microseconds, a value.
pub(super) type Reading = (u8, i64, i32);

/// Windows of these sizes in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) size: i64,
    pub(super) slide: i64,
    pub(super) offset: i64,
}

pub(super) fn micros(span: i64) -> Duration {
    Duration::from_micros(span.unsigned_abs())
}

impl Shape {
    pub(super) fn window(self) -> EventTimeWindow {
        EventTimeWindow::sliding(micros(self.size), micros(self.slide)).offset(micros(self.offset))
    }

    /// The result of each window and key, by the definition.
    pub(super) fn expected<T>(
        self,
        all: &[Reading],
        of: impl Fn(&[i32]) -> T,
    ) -> Vec<(u8, Pane<T>)> {
        let [size, slide, offset] = [self.size, self.slide, self.offset].map(i128::from);
        // Where the first window starts that ends behind a time.
        let first_start =
            |at: i128| (at - size - offset).div_euclid(slide) * slide + slide + offset;
        // The times of each key, with the places of its records in the input.
        let mut keys: BTreeMap<u8, Vec<(i128, usize)>> = BTreeMap::new();
        for (place, &(key, at, _)) in all.iter().enumerate() {
            keys.entry(key).or_default().push((i128::from(at), place));
        }
        let mut panes = Vec::new();
        for (key, mut times) in keys {
            times.sort_unstable();
            let values: Vec<i32> = times.iter().map(|(_, place)| all[*place].2).collect();
            let came_in_order = times.is_sorted_by_key(|(_, place)| *place);
            let (mut from, mut start) = (0, first_start(times[0].0));
            loop {
                from += times[from..].partition_point(|(at, _)| *at < start);
                let Some((next, _)) = times.get(from) else { break };
                if *next >= start + size {
                    start = first_start(*next);
                    continue;
                }
                let to = from + times[from..].partition_point(|(at, _)| *at < start + size);
                let value = if came_in_order {
                    of(&values[from..to])
                } else {
                    let mut places: Vec<_> = times[from..to].iter().map(|(_, at)| *at).collect();
                    places.sort_unstable();
                    of(&places.into_iter().map(|place| all[place].2).collect::<Vec<_>>())
                };
                let (first, end) = (within_time(start), within_time(start + size));
                panes.push((key, Pane::on_time(first, end, value)));
                start += slide;
            }
        }
        panes
    }
}

/// The timestamp, clamped to the first and the last.
pub(super) fn within_time(micros: i128) -> Timestamp {
    let (first, last) = (i128::from(i64::MIN), i128::from(i64::MAX));
    Timestamp::from_micros(micros.clamp(first, last) as i64)
}

/// The greatest distance of a timestamp behind the greatest before it. It is no greater among the records of one of several
/// tasks, of whose number nothing is known where a job goes on that was interrupted.
pub(super) fn disorder(all: &[Reading]) -> Duration {
    let mut greatest = Timestamp::MIN;
    let mut worst = Duration::ZERO;
    for (_, at, _) in all {
        let at = Timestamp::from_micros(*at);
        greatest = greatest.max(at);
        worst = worst.max(greatest.since(at));
    }
    worst
}

/// The readings, distributed over all tasks, with timestamps.
pub(super) fn readings(
    env: &Environment,
    all: &[Reading],
) -> Stream<impl crate::Chain<Item = Reading, Time = Timestamp> + use<>> {
    let watermarks = Watermarks::bounded_disorder(disorder(all));
    let all = all.to_vec();
    env.parallel_iter(move |task, tasks| {
        let mine: Vec<Reading> = all.iter().copied().skip(task).step_by(tasks).collect();
        mine.into_iter()
    })
    .assign_timestamps(|(_, at, _)| Timestamp::from_micros(*at), watermarks)
}

/// Windows small enough for an exhaustive search.
pub(super) fn small_shapes() -> impl Strategy<Value = Shape> {
    (1..60i64, 1..30i64, 0..40i64).prop_map(|(size, slide, offset)| Shape { size, slide, offset })
}

pub(super) fn shapes() -> impl Strategy<Value = Shape> {
    // A record is in a bounded number of windows, or there would be too many results.
    let huge = (i64::MAX - 60..=i64::MAX, 1..30i64).prop_map(|(size, part)| (size, size / part));
    let apart = (1..60i64, 1..=i64::MAX);
    let fine = (1..60i64, 1..3i64);
    let sizes = prop_oneof![2 => fine, 1 => huge, 1 => apart];
    let rare = (sizes, prop_oneof![0..3i64, 0..=i64::MAX])
        .prop_map(|((size, slide), offset)| Shape { size, slide, offset });
    prop_oneof![2 => small_shapes(), 1 => rare]
}

/// The first timestamp of some records: about 1970, or near the first or the last timestamp.
pub(in crate::operators) fn beginnings() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(-40),
        1 => i64::MIN..i64::MIN + 40,
        1 => i64::MAX - 100..=i64::MAX,
        1 => any::<i64>(),
    ]
}

pub(super) fn some_readings() -> impl Strategy<Value = Vec<Reading>> {
    // Times that mostly advance, with jumps back and far ahead, also from the first timestamp to the last.
    let step = prop_oneof![80 => 0..4i64, 20 => -20..0i64, 10 => 0..200i64, 1 => any::<i64>()];
    let steps = prop::collection::vec((0..4u8, step, -50..50i32), 0..120);
    (beginnings(), steps).prop_map(|(mut at, steps)| {
        let each = |(key, step, value)| {
            at = at.saturating_add(step);
            (key, at, value)
        };
        steps.into_iter().map(each).collect()
    })
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn every_window_has_its_records(shape in shapes(), all in some_readings()) {
        let of = |env: &Environment| readings(env, &all).group_by(|reading| reading.0);
        check(|env| of(env).window(shape.window()).count())
            .seeds(2)
            .equals(shape.expected(&all, |values| values.len() as u64));
        check(|env| of(env).window(shape.window()).sum(|reading| i64::from(reading.2)))
            .seeds(2)
            .equals(shape.expected(&all, |values| values.iter().map(|&v| i64::from(v)).sum::<i64>()));
        check(|env| of(env).window(shape.window()).max(|reading| reading.2))
            .seeds(2)
            .equals(shape.expected(&all, |values| *values.iter().max().unwrap()));
        // Without an inverse, and so that a record which counts twice shows.
        check(|env| {
            let lists = of(env).window(shape.window()).fold_assoc(
                Vec::new(),
                |all: &mut Vec<i32>, reading: Reading| all.push(reading.2),
                |all, mut others| all.append(&mut others),
            );
            lists.unkey().map(|(key, mut pane)| {
                pane.value.sort_unstable();
                (key, pane)
            })
        })
        .seeds(2)
        .equals(shape.expected(&all, |values| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values
        }));
        // Records themselves are sent to the tasks that own their keys.
        check(|env| of(env).repartition().window(shape.window()).min(|reading| reading.2))
            .seeds(2)
            .equals(shape.expected(&all, |values| *values.iter().min().unwrap()));
        check(|env| of(env).repartition().window(shape.window()).count())
            .seeds(2)
            .equals(shape.expected(&all, |values| values.len() as u64));
    }
}

/// Each is emitted when the next record comes. Where they overlap, earlier slices are sums by then.
#[test]
fn windows_of_records_that_come_one_by_one() {
    let shapes = [(40, 5), (30, 30), (7, 20), (50, 17), (31, 1), (33, 10), (1, 1)];
    // Fewer where each of them reaches the disk.
    let (records, shapes) = match is_planted(Fault::HasNoRoom) {
        true => (100, &shapes[..5]),
        false => (240, &shapes[..]),
    };
    let reading = |n: i32| ((n / 7 % 3) as u8, 3 * i64::from(n), n);
    let all: Vec<Reading> = (0..records).map(reading).collect();
    for &(size, slide) in shapes {
        let shape = Shape { size, slide, offset: 3 };
        let of = |env: &Environment| {
            let readings = env.iter(all.clone()).batch_mode(BatchMode::Single).forward();
            let at = |reading: &Reading| Timestamp::from_micros(reading.1);
            let timed = readings.assign_timestamps(at, Watermarks::monotonous());
            timed.group_by(|reading| reading.0).repartition().window(shape.window())
        };
        check(|env| {
            of(env).fold_assoc(
                Vec::new(),
                |all: &mut Vec<i32>, reading: Reading| all.push(reading.2),
                |all, mut others| all.append(&mut others),
            )
        })
        .seeds(2)
        .equals(shape.expected(&all, <[i32]>::to_vec));
        check(|env| of(env).sum(|reading| i64::from(reading.2)))
            .seeds(2)
            .equals(shape.expected(&all, |all| all.iter().map(|n| i64::from(*n)).sum::<i64>()));
    }
}

/// Tests of windows, where there is no memory for them every now and then.
#[test]
fn windows_on_disk_are_the_same() {
    let tests = [
        "windows_of_records_that_come_one_by_one",
        "late_records_are_counted",
        "late_records_change_results",
        "lateness_has_an_end",
        "windows_at_the_ends_of_time",
        "a_record_at_the_end_of_time_is_in_so_many_windows",
        "windows_at_the_end_of_time_begin_anew_in_each_round",
    ];
    pass_without_room(module_path!(), &tests);
}

/// As many cases of a property as usual, or fewer where each of them reaches the disk.
pub(super) fn fewer_on_disk(usual: u32) -> ProptestConfig {
    cases(if is_planted(Fault::HasNoRoom) { usual.div_ceil(8) } else { usual })
}

/// Runs tests of a module in a process in which there is no memory for windows every now and then.
pub(super) fn pass_without_room(module: &str, tests: &[&str]) {
    let module = module.split_once("::").unwrap().1;
    let names = tests.iter().map(|test| format!("{module}::{test}"));
    let ran = Command::new(std::env::current_exe().unwrap())
        .env("THALWEG_FAULT", "HasNoRoom")
        .arg("--exact")
        .args(names)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains(&format!("{} passed", tests.len())), "{said}");
}

/// One window after the other, on the results of the first.
#[test]
fn windows_of_windows() {
    let all: Vec<Reading> = (0..4000).map(|n| ((n % 5) as u8, i64::from(n), 1)).collect();
    let tens = Shape { size: 10, slide: 10, offset: 0 };
    let hundreds = Shape { size: 100, slide: 50, offset: 0 };
    check(|env| {
        let tens = readings(env, &all).group_by(|reading| reading.0).window(tens.window()).count();
        let all = tens.unkey().group_by(|_| 0u8);
        all.window(hundreds.window()).sum(|(_, pane)| pane.value)
    })
    .must_restore()
    .equals(
        hundreds
            .expected(&all, |values| values.len() as u64)
            .into_iter()
            .fold(BTreeMap::<Timestamp, (u8, Pane<u64>)>::new(), |mut sums, (_, pane)| {
                let sum = Pane { value: 0, ..pane.clone() };
                sums.entry(pane.start).or_insert((0, sum)).1.value += pane.value;
                sums
            })
            .into_values(),
    );
}

/// Every record is either in a window or counted as late.
#[test]
fn late_records_are_counted() {
    let some_late = AtomicU64::new(0);
    every(|env| {
        let n = 5_000_u64;
        // Every tenth record arrives far too late.
        let at = |n: &u64| if n % 10 == 9 { *n as i64 - 2_000 } else { *n as i64 };
        let counts = env
            .iter(0..n)
            .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous())
            .group_by(|n| n % 3)
            .window(EventTimeWindow::tumbling(micros(100)))
            .count()
            .unkey()
            .map(|(_, pane)| pane.value)
            .sum(|n| *n)
            .collect::<Vec<u64>>();
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!(counts.take()?[0] + late, n);
        some_late.fetch_add(late, Ordering::Relaxed);
        Ok(())
    });
    assert!(some_late.into_inner() > 0);
}

/// The results of each window and key, in the order in which they were emitted, for a stream whose watermark
/// follows every record.
fn results_with_lateness(
    env: &Environment,
    all: &[Reading],
    shape: Shape,
) -> crate::Output<Vec<(u8, Pane<Vec<i32>>)>> {
    let window = shape.window().allowed_lateness(Duration::MAX);
    env.iter(all.to_vec())
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
        .collect()
}

proptest! {
    #![proptest_config(fewer_on_disk(24))]

    /// The last result of a window covers all of its records, late ones included, and the earlier results
    /// cover some of them.
    #[test]
    fn late_records_change_results(shape in shapes(), all in some_readings()) {
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
            let results = results_with_lateness(env, &all, shape);
            let stats = env.start()?.wait()?;
            let mut last: BTreeMap<_, (u32, Vec<i32>)> = BTreeMap::new();
            for (key, pane) in results.take()? {
                let number = match pane.timing {
                    Timing::Early(_) => unreachable!("no early results were requested"),
                    Timing::OnTime => 0,
                    Timing::Late(number) => number,
                };
                let values = sorted(&pane.value);
                if let Some((before, held)) = last.get(&at(key, &pane)) {
                    assert_eq!(number, before + 1, "results are numbered");
                    assert!(held.len() < values.len(), "a late result has more records");
                }
                last.insert(at(key, &pane), (number, values));
            }
            let last: BTreeMap<_, _> =
                last.into_iter().map(|(at, (_, values))| (at, values)).collect();
            assert_eq!(last, expected);
            assert!(stats.operators.iter().all(|op| op.late_records == 0));
            Ok(())
        });
    }
}

/// Runs a test with one task per stage, so that the results of a key arrive in order, and with several schedulers.
pub(super) fn check_each(test: impl Fn(&Environment) -> crate::Result<()>) {
    for scheduler in [Scheduler::WorkStealing, Scheduler::Deterministic { seed: 5 }] {
        for cores in [1, 2] {
            let config =
                Config { scheduler, cores: cores.try_into().unwrap(), ..Config::default() };
            test(&Environment::with_config(config)).unwrap();
        }
    }
}

#[test]
fn lateness_has_an_end() {
    every(|env| {
        let n = 1_000_u64;
        // Every tenth record is late by five hundred, every hundredth by five thousand.
        let at = |n: &u64| match n % 100 {
            99 => *n as i64 - 5_000,
            m if m % 10 == 9 => *n as i64 - 500,
            _ => *n as i64,
        };
        let window = EventTimeWindow::sliding(micros(100), micros(50));
        let kept = env
            .iter(0..n)
            .batch_mode(BatchMode::Single)
            .forward()
            .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous())
            .group_by(|n| n % 3)
            .window(window.allowed_lateness(micros(600)))
            .aggregate(|a| a.to_vec())
            .unkey()
            .flat_map(|(_, pane)| pane.value)
            .unique()
            .collect::<BTreeSet<_>>();
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert!(kept.take()?.into_iter().eq((0..n).filter(|n| n % 100 != 99)));
        assert_eq!(late, n / 100);
        Ok(())
    });
}

/// A window of 3600 slides, with keys that appear and disappear.
#[test]
fn many_slides_to_a_window() {
    let all: Vec<Reading> =
        (0..1500).map(|n| ((n / 100 % 7) as u8, 7 * i64::from(n), n % 50)).collect();
    let shape = Shape { size: 3600, slide: 1, offset: 0 };
    let expected = shape.expected(&all, |values| *values.iter().max().unwrap());
    let env = Environment::new();
    let of = |env: &Environment| readings(env, &all).group_by(|reading| reading.0);
    let max = of(&env).window(shape.window()).max(|reading| reading.2).collect::<Vec<_>>();
    let sum = of(&env).window(shape.window()).sum(|reading| reading.2).collect::<Vec<_>>();
    env.run().unwrap();
    let (mut max, mut sum) = (max.take().unwrap(), sum.take().unwrap());
    max.sort();
    sum.sort();
    assert_eq!(max, expected);
    assert_eq!(sum, shape.expected(&all, |values| values.iter().sum::<i32>()));
}

#[test]
fn more_keys_than_memory_go_to_disk() {
    let keys = 300_000;
    let counts = |lateness: Duration| {
        let env = Environment::with_config(Config { memory: 200_000, ..Config::default() });
        let windows = EventTimeWindow::tumbling(Duration::from_secs(10)).allowed_lateness(lateness);
        let numbers = env
            .range(0..keys)
            .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
            .group_by(|n| *n);
        let counts = numbers.window(windows).count().unkey().map(|(_, pane)| pane.value);
        let sum = counts.sum(|count| *count).collect::<Vec<u64>>();
        env.start().unwrap().wait().map(|stats| (sum.take().unwrap(), stats))
    };
    for lateness in [Duration::ZERO, micros(1)] {
        let (sum, stats) = counts(lateness).unwrap();
        assert_eq!(sum, [keys]);
        assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
    }
}

/// Some memory for one task of each stage.
pub(super) fn in_one_task(memory: usize) -> Environment {
    let mut config = Config { memory, ..Config::default() };
    (config.cores, config.keyed_tasks_per_core) = (NonZeroUsize::MIN, NonZeroUsize::MIN);
    Environment::with_config(config)
}

/// Late records of keys whose slices are on disk, where there is little memory.
#[test]
fn late_records_change_windows_on_disk() {
    const KEYS: i64 = 3000;
    for (size, slide, windows) in [(10, 10, 1), (20, 10, 2)] {
        for (memory, spills) in [(1 << 17, true), (64 << 20, false)] {
            let env = in_one_task(memory);
            // The watermark passes the windows of the first records before the late ones come.
            let first = (0..KEYS).map(|n| (n, 5));
            let passing = (0..KEYS).map(|n| (n, 100));
            let late = (0..KEYS).step_by(7).map(|n| (n, 6));
            let all: Vec<_> = first.chain(passing).chain(late).collect();
            let window = EventTimeWindow::sliding(micros(size), micros(slide));
            let counts = env
                .iter(all)
                .forward()
                .assign_timestamps(|(_, at)| Timestamp::from_micros(*at), Watermarks::monotonous())
                .group_by(|(n, _)| format!("{n:0100}"))
                .window(window.allowed_lateness(micros(1000)))
                .count();
            let counts = counts.unkey().map(|(key, pane)| {
                (key.parse::<i64>().unwrap(), pane.start.as_micros(), pane.timing, pane.value)
            });
            let counts = counts.collect::<Vec<_>>();
            let stats = env.start().unwrap().wait().unwrap();
            let spilled: u64 = stats.operators.iter().map(|op| op.spilled_bytes).sum();
            assert_eq!(spilled > 0, spills, "{spilled} bytes");

            let mut expected = Vec::new();
            for (key, window) in (0..KEYS).flat_map(|key| (0..windows).map(move |n| (key, n))) {
                let [early, later] = [0, 100].map(|start| start - window * slide);
                expected.push((key, early, Timing::OnTime, 1));
                expected.push((key, later, Timing::OnTime, 1));
                if key % 7 == 0 {
                    expected.push((key, early, Timing::Late(1), 2));
                }
            }
            expected.sort();
            let mut counts = counts.take().unwrap();
            counts.sort();
            assert!(counts == expected, "{} of {}", counts.len(), expected.len());
        }
    }
}

/// More of them overlap than may go to disk.
#[test]
fn windows_that_overlap_too_often_stay_in_memory() {
    let env = in_one_task(200_000);
    let windows = EventTimeWindow::sliding(micros(1025), micros(1));
    let numbers = env
        .range(0..300_000)
        .assign_timestamps(|_| Timestamp::from_micros(0), Watermarks::monotonous())
        .group_by(|n| *n);
    numbers.window(windows).count().unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.operator().unwrap_or_default().starts_with("window ("), "{error}");
    assert!(error.message().contains("more than 1024 overlap"), "{error}");
}

#[test]
fn sizes_of_nothing_are_refused() {
    for window in [
        EventTimeWindow::tumbling(Duration::ZERO),
        EventTimeWindow::sliding(Duration::from_secs(1), Duration::from_nanos(999)),
    ] {
        let env = Environment::new();
        let readings = readings(&env, &[]).group_by(|reading| reading.0);
        readings.window(window).count().unkey().for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.to_string().contains("is less than a microsecond"), "{error}");
    }
}

#[test]
fn windows_at_the_ends_of_time() {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    let all: Vec<Reading> = ends.into_iter().map(|at| (0, at, 1)).collect();
    let seconds = |env: &Environment| {
        let all = all.clone();
        let late = Watermarks::bounded_disorder(Duration::MAX);
        env.iter(all).assign_timestamps(|(_, at, _)| Timestamp::from_micros(*at), late)
    };
    check(|env| {
        let windows = seconds(env).group_by(|reading| reading.0);
        windows.window(EventTimeWindow::tumbling(Duration::from_secs(1))).count()
    })
    .seeds(4)
    .satisfies(|panes: Vec<(u8, Pane<u64>)>| {
        let sum: u64 = panes.iter().map(|(_, pane)| pane.value).sum();
        if sum == 6 && panes.len() == 4 { Ok(()) } else { Err(format!("{panes:?}")) }
    });
}

/// Updates of so many windows for each record would block a task forever.
#[test]
fn too_many_windows_with_several_results_are_refused() {
    let window = EventTimeWindow::sliding(Duration::MAX, micros(1));
    for (window, fault) in [(window.allowed_lateness(micros(1)), true), (window, false)] {
        let env = Environment::new();
        readings(&env, &[]).window_all(window).count().for_each(drop);
        let error = env.run().err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error.contains("would be in 9223372036854775807 windows"), fault, "{error}");
    }
    let env = Environment::new();
    let early = window.early(super::Early::every(1));
    readings(&env, &[]).window_all(early).count().for_each(drop);
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);
}

/// A record at the first or the last timestamp is in as many windows as any other, and each has one result.
#[test]
fn a_record_at_the_end_of_time_is_in_so_many_windows() {
    let shapes = [(2, 1, 0), (5, 1, 1), (5, 2, 0), (5, 2, 1), (7, 3, 1), (10, 10, 0), (1, 3, 1)];
    for (size, slide, offset) in shapes.into_iter().chain([(i64::MAX, i64::MAX / 3, 0)]) {
        let shape = Shape { size, slide, offset };
        let ends = [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX];
        let all: Vec<Reading> = ends.iter().map(|at| (0, *at, 7)).collect();
        let of = |env: &Environment| readings(env, &all).group_by(|reading| reading.0);
        let sums = shape.expected(&all, |values| values.iter().sum::<i32>());
        let panes = sums.len() as u64;
        // With an inverse and without one.
        check(|env| of(env).window(shape.window()).sum(|r| r.2)).seeds(0).equals(sums);
        check(|env| of(env).window(shape.window()).max(|r| r.2))
            .seeds(0)
            .equals(shape.expected(&all, |_| 7));
        // The timestamps of results are valid, and not late.
        check(|env| {
            let windows = of(env).window(shape.window()).count().unkey();
            windows.window_all(EventTimeWindow::tumbling(micros(1))).count().map(|pane| pane.value)
        })
        .seeds(0)
        .satisfies(|counts: Vec<u64>| {
            let sum: u64 = counts.iter().sum();
            if sum == panes { Ok(()) } else { Err(format!("{sum} of {panes}")) }
        });
    }
}

/// Records in the last windows of a round are not in those of the next.
#[test]
fn windows_at_the_end_of_time_begin_anew_in_each_round() {
    let windows = EventTimeWindow::sliding(micros(4), micros(1));
    for windows in [windows, windows.allowed_lateness(micros(4))] {
        every(|env| {
            let outcome = env
                .iter([7u64])
                .assign_timestamps(|_| Timestamp::MAX, Watermarks::monotonous())
                .replay(3, 0, move |values, round| {
                    let values = values.with(round).map(|(n, round)| n - round);
                    values
                        .group_by(|_| ())
                        .window(windows)
                        .max(|n| *n)
                        .unkey()
                        .map(|(_, pane)| pane.value)
                })
                .fold(|all: &mut Vec<u64>, n| all.push(n), |all, other| all.extend(other))
                .until(|round, values| {
                    assert_eq!(values, vec![7 - *round; 4]);
                    *round += 1;
                    false
                });
            let out = outcome.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(out.take()?.pop().unwrap().state, 3);
            Ok(())
        });
    }
}

/// Checks at compile time that windows result in keyed streams.
#[allow(dead_code)]
fn panes_are_keyed<C: Chain<Item = (u8, Pane<u64>)>, P>(
    panes: KeyedStream<C, crate::operators::keyed::FirstOf, P>,
) -> Stream<impl Chain<Item = C::Item, Time = C::Time>> {
    panes.unkey()
}

#[test]
fn slices_without_records_give_way_too() {
    let env = Environment::with_config(Config { memory: 64 << 20, ..Config::default() });
    let (sender, stream) = env.channel(1 << 16);
    let timed = stream.assign_timestamps(
        |&(_, at): &(u64, i64)| Timestamp::from_micros(at),
        Watermarks::monotonous(),
    );
    let (given, results) = (Arc::new(AtomicU64::new(0)), 100_000);
    let counter = Arc::clone(&given);
    let windows = timed.group_by(|(key, _)| *key).window(EventTimeWindow::tumbling(micros(10)));
    windows.count().unkey().for_each(move |_| _ = counter.fetch_add(1, Ordering::Relaxed));
    let job = env.start().unwrap();
    // Each key four times in one window, then the watermark passes its end.
    (0..4 * results).for_each(|n| sender.send((n / 4, 5)).unwrap());
    sender.send((0, 100)).unwrap();
    while given.load(Ordering::Relaxed) < results {
        std::thread::yield_now();
    }
    // Sends the slice that is still open.
    job.barrier().unwrap();
    let mut fixed = env.memory().reserve();
    while fixed.try_resize(fixed.bytes() + (64 << 10)) {}
    job.barrier().unwrap();
    assert!(env.memory().used() <= env.memory().limit(), "{}", env.memory().used());
    drop((fixed, sender));
    job.wait().unwrap();
}
