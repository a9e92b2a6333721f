//! Tests of early results of custom windows, against other windows and against their definition.

use super::{Above, Visits, by_calendar, calendars, of_calendar, readings, some_readings};
use crate::check::{cases, check, every};
use crate::clock::Nanos;
use crate::config::{BatchMode, Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::tests::{disorder, micros};
use crate::operators::window::{
    CustomPane, CustomWindow, Early, EventTimeWindow, MakeWindows, SessionWindow, Timing,
    WindowContext,
};
use crate::time::{Time, Timestamp};
use crate::{Environment, ErrorKind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// Adds early results after every `n` values to those of windows, which are lists of values.
fn counted<B: Clone, T>(
    windows: Vec<(u8, CustomPane<B, Vec<i32>>)>,
    n: usize,
    of: impl Fn(&[i32]) -> T,
) -> Vec<(u8, CustomPane<B, T>)> {
    let mut expected = Vec::new();
    for (key, CustomPane { bounds, value, .. }) in windows {
        for number in 1..=value.len() / n {
            let timing = Timing::Early(number as u32);
            let value = of(&value[..number * n]);
            expected.push((key, CustomPane { bounds: bounds.clone(), timing, value }));
        }
        expected.push((key, CustomPane::on_time(bounds, of(&value))));
    }
    expected
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn every_n_records_there_is_a_result(
        calendar in calendars(),
        all in some_readings(),
        n in 1..6usize,
    ) {
        let early = Early::every(n as u64);
        let lists = by_calendar(&calendar, &all, <[i32]>::to_vec);
        // With any number of senders.
        check(|env| {
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            keyed.window(of_calendar(&calendar).early(early)).count()
        })
        .seeds(2)
        .equals(counted(lists.clone(), n, |values| values.len() as u64));
        // In order.
        check(|env| {
            env.iter(all.clone())
                .forward()
                .assign_timestamps(
                    |reading| Timestamp::from_micros(reading.1),
                    Watermarks::bounded_disorder(disorder(&all)),
                )
                .group_by(|reading| reading.0)
                .map(|_, reading| reading.2)
                .window(of_calendar(&calendar).early(early))
                .to_vec()
        })
        .seeds(2)
        .equals(counted(lists, n, <[i32]>::to_vec));
    }

    /// Windows that merge are numbered like sessions, and count what was in no result of either.
    #[test]
    fn windows_that_merge_have_the_results_of_sessions(
        gap in prop_oneof![8 => 0..40i64, 1 => 0..=i64::MAX],
        all in some_readings(),
        n in 1..6u64,
    ) {
        let of = |env: &Environment| {
            env.iter(all.clone())
                .forward()
                .assign_timestamps(
                    |reading| Timestamp::from_micros(reading.1),
                    Watermarks::bounded_disorder(disorder(&all)),
                )
                .group_by(|reading| reading.0)
        };
        let custom = check(|env| {
            let visits = CustomWindow::new(Visits { gap }).early(Early::every(n));
            let visits = of(env).window(visits).sum(|reading| i64::from(reading.2));
            visits.map(|_, pane| (pane.bounds.0, pane.bounds.1.saturating_add(1), pane.timing, pane.value))
        });
        let sessions = check(|env| {
            let sessions = SessionWindow::new(micros(gap)).early(Early::every(n));
            let sessions = of(env).window(sessions).sum(|reading| i64::from(reading.2));
            sessions.map(|_, pane| (pane.start.as_micros(), pane.end.as_micros(), pane.timing, pane.value))
        });
        custom.seeds(2).equals(sessions.seeds(0).agrees());
    }

    /// With timestamps and without.
    #[test]
    fn windows_that_a_handler_fires_have_early_results(
        values in prop::collection::vec((0..3u8, 0..20i32), 0..80),
        n in 1..5usize,
    ) {
        let mut windows = Vec::new();
        for key in 0..3u8 {
            let of_key: Vec<i32> = values.iter().filter(|v| v.0 == key).map(|v| v.1).collect();
            let runs = of_key.split(|value| *value <= 6).filter(|run| !run.is_empty());
            windows.extend(runs.enumerate().map(|(number, run)| {
                (key, CustomPane::on_time(number as u32, run.to_vec()))
            }));
        }
        let window = || CustomWindow::new(Above(6)).early(Early::every(n as u64));
        let keyed = |env: &Environment| env.iter(values.clone()).group_by(|value| value.0);
        check(|env| keyed(env).map(|_, value| value.1).window(window()).to_vec())
            .seeds(2)
            .equals(counted(windows.clone(), n, <[i32]>::to_vec));
        check(|env| {
            let values = env.iter(values.clone());
            let late = Watermarks::bounded_disorder(Duration::MAX);
            let timed = values.assign_timestamps(|value| Timestamp::from_micros(i64::from(value.1)), late);
            timed.group_by(|value| value.0).map(|_, value| value.1).window(window()).sum(|value| *value)
        })
        .seeds(2)
        .equals(counted(windows, n, |values| values.iter().sum::<i32>()));
    }
}

/// Windows of the same name, which is the value without its last digit. A 9 at the end fires, an 8 discards, and a 7
/// merges the window into the one before.
struct Named;

impl<T: Time> MakeWindows<i64, T> for Named {
    type Bounds = i64;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, (): &mut (), value: &i64, _: T, cx: &mut WindowContext<'_, i64>) {
        let name = value / 10;
        cx.add(name);
        match value % 10 {
            9 => cx.fire(name),
            8 => cx.discard(name),
            7 => cx.merge(name, name - 1),
            _ => {}
        }
    }
}

/// The windows of a key, by the definition: the values, the number of those that were in no result, and the number of
/// the last result.
type Model = BTreeMap<i64, (i64, u64, u32)>;

/// Adds a value; returns the result of the window that it fires.
fn take(windows: &mut Model, value: i64) -> Option<(i64, i64)> {
    let name = value / 10;
    let (sum, fresh, _) = windows.entry(name).or_default();
    (*sum, *fresh) = (*sum + value, *fresh + 1);
    match value % 10 {
        9 => return windows.remove(&name).map(|(sum, ..)| (name, sum)),
        8 => drop(windows.remove(&name)),
        7 => {
            let (sum, fresh, results) = windows.remove(&name)?;
            let into = windows.entry(name - 1).or_default();
            *into = (into.0 + sum, into.1 + fresh, into.2.max(results));
        }
        _ => {}
    }
    None
}

/// The early results of the windows with so many values that were in none.
fn early(windows: &mut Model, enough: u64) -> Vec<CustomPane<i64, i64>> {
    let due = windows.iter_mut().filter(|(_, (_, fresh, _))| *fresh >= enough);
    let pane = |(bounds, (sum, fresh, results)): (&i64, &mut (i64, u64, u32))| {
        (*fresh, *results) = (0, *results + 1);
        CustomPane { bounds: *bounds, timing: Timing::Early(*results), value: *sum }
    };
    due.map(pane).collect()
}

/// Nanoseconds between two records of the test by the clock.
const PERIOD: Nanos = 100_000_000;

proptest! {
    #![proptest_config(cases(32))]

    /// A call that adds and fires, discards or merges has early results of the windows that are left.
    #[test]
    fn results_are_of_what_a_call_has_left(
        all in prop::collection::vec((0..2u8, 100..150i64), 0..90),
        n in 1..5u64,
    ) {
        let (mut keys, mut expected): ([Model; 2], Vec<_>) = Default::default();
        for (key, value) in &all {
            let windows = &mut keys[usize::from(*key)];
            let fired = take(windows, *value);
            expected.extend(fired.map(|(name, sum)| (*key, CustomPane::on_time(name, sum))));
            expected.extend(early(windows, n).into_iter().map(|pane| (*key, pane)));
        }
        for (key, windows) in (0..).zip(keys) {
            let left = windows.into_iter().map(|(name, (sum, ..))| CustomPane::on_time(name, sum));
            expected.extend(left.map(|pane| (key, pane)));
        }
        check(|env| {
            let values = env.iter(all.clone()).group_by(|value| value.0).map(|_, value| value.1);
            values.window(CustomWindow::new(Named).early(Early::every(n))).sum(|value| *value)
        })
        .seeds(2)
        .equals(expected);
    }

    #[test]
    fn results_come_when_the_clock_says(
        all in prop::collection::vec((0..2u8, 100..150i64), 0..50),
        // No tick falls on a record.
        interval in (30..900u64).prop_map(|millis| millis * 1_000_000 + 370_000),
        timed in any::<bool>(),
    ) {
        let (mut keys, mut expected): ([Model; 2], Vec<_>) = Default::default();
        let mut next = interval;
        for number in 0..=all.len() {
            while next < number as Nanos * PERIOD {
                for (key, windows) in (0u8..).zip(&mut keys) {
                    expected.extend(early(windows, 1).into_iter().map(|pane| (Some(next), key, pane)));
                }
                next += interval;
            }
            if let Some((key, value)) = all.get(number) {
                let fired = take(&mut keys[usize::from(*key)], *value);
                expected.extend(fired.map(|(name, sum)| (None, *key, CustomPane::on_time(name, sum))));
            }
        }
        for (key, windows) in (0..).zip(keys) {
            let left = windows.into_iter().map(|(name, (sum, ..))| CustomPane::on_time(name, sum));
            expected.extend(left.map(|pane| (None, key, pane)));
        }
        expected.sort();

        let mut config =
            Config { scheduler: Scheduler::Deterministic { seed: 3 }, ..Config::default() };
        config.cores = 1.try_into().unwrap();
        let env = Environment::with_config(config);
        let clock = env.clock();
        let window = || CustomWindow::new(Named).early(Early::interval(Duration::from_nanos(interval)));
        let at = move |(key, pane): (u8, CustomPane<i64, i64>)| {
            let early = matches!(pane.timing, Timing::Early(_));
            (early.then(|| clock.now()), key, pane)
        };
        let values = env.generate(1e9 / PERIOD as f64, move |n| all.get(n as usize).copied());
        let results = if timed {
            values
                .assign_timestamps(|value| Timestamp::from_secs(value.1), Watermarks::monotonous())
                .group_by(|value: &(u8, i64)| value.0)
                .map(|_, value| value.1)
                .window(window())
                .sum(|value| *value)
                .unkey()
                .map(at)
                .to_channel()
        } else {
            values
                .group_by(|value: &(u8, i64)| value.0)
                .map(|_, value| value.1)
                .window(window())
                .sum(|value| *value)
                .unkey()
                .map(at)
                .to_channel()
        };
        env.run().unwrap();
        let mut results: Vec<_> = results.map(|result| result.unwrap()).collect();
        results.sort();
        prop_assert_eq!(results, expected);
    }
}

/// Ticks all the time, with many keys and in every way a job can be run: the last result of a window is the same as
/// without early ones, and none is behind the watermark.
#[test]
fn windows_that_fire_are_not_changed_by_early_results() {
    let early = Early::interval(Duration::from_nanos(1));
    every(|env| {
        let n = 2_000i64;
        let all = env
            .parallel_iter(move |task, tasks| (task as i64..n).step_by(tasks))
            .batch_mode(BatchMode::Single)
            .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous());
        let calendar = ((0..=10).map(|day| day * 200).collect(), 1);
        let window = of_calendar(&calendar).early(early);
        let [results, again] = all.group_by(|n| n % 100).window(window).count().unkey().split();
        let (moments, late) = again
            .group_by(|_| ())
            .window(EventTimeWindow::tumbling(Duration::from_micros(1)))
            .late_output();
        moments.count().unkey().for_each(drop);
        let (results, late) = (results.collect::<Vec<_>>(), late.collect::<Vec<_>>());
        env.run()?;
        assert_eq!(late.take()?, []);
        let mut results = results.take()?;
        results.sort_by_key(|(key, pane)| (*key, pane.bounds, pane.timing));
        let mut last = Vec::new();
        for of_window in results.chunk_by(|a, b| (a.0, a.1.bounds) == (b.0, b.1.bounds)) {
            let (early, on_time) = of_window.split_at(of_window.len() - 1);
            for (number, pair) in (1..).zip(of_window.windows(2)) {
                assert_eq!(pair[0].1.timing, Timing::Early(number));
                assert!(pair[0].1.value <= pair[1].1.value);
            }
            assert!(early.iter().is_sorted_by(|a, b| a.1.value < b.1.value));
            let (key, pane) = &on_time[0];
            assert_eq!(pane.timing, Timing::OnTime);
            last.push((*key, pane.bounds, pane.value));
        }
        let expected = (0..100).flat_map(|key| (0..10).map(move |day| (key, day, 2)));
        assert!(last.into_iter().eq(expected));
        Ok(())
    });
}

#[test]
fn results_that_never_come_are_refused() {
    let env = Environment::new();
    let window = CustomWindow::new(Named).early(Early::every(0));
    env.iter(0..9i64).window_all(window).count().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("every 0 records can never come"), "{error}");
}

/// Windows with early results release their memory when they are closed.
#[test]
fn windows_with_early_results_keep_within_the_budget() {
    let config = Config { memory: 1 << 20, ..Config::default() };
    for early in [Early::every(2), Early::interval(Duration::from_micros(10))] {
        let env = Environment::with_config(config.clone());
        let all = (0..200_000i64).flat_map(|n| [10 * (n % 1000), 10 * (n % 1000) + 9]);
        let values = env.iter(all).group_by(|value| value / 10 % 16);
        let counts = values.window(CustomWindow::new(Named).early(early)).to_vec().unkey();
        counts.for_each(drop);
        env.run().unwrap();
    }
    let env = Environment::with_config(config);
    let values = env.iter((0..10_000i64).map(|n| n * 10)).group_by(|value| *value);
    let window = CustomWindow::new(Named).early(Early::every(2));
    values.window(window).count().unkey().for_each(drop);
    let stats = env.start().unwrap().wait().unwrap();
    assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
}
