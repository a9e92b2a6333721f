//! Tests of custom windows: each compares a handler with another way to compute the same windows.

use super::super::tests::{Reading, beginnings, micros, readings, some_readings};
use super::super::{EventTimeWindow, Pane, SessionWindow};
use super::{CustomPane, CustomWindow, MakeWindows, WindowContext};
use crate::check::{cases, check, every};
use crate::config::{BatchMode, Config};
use crate::operators::time::Watermarks;
use crate::time::{Time, Timestamp};
use crate::{Environment, ErrorKind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

mod early;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Windows that begin at these times, each of which lasts for `lengths` intervals between them.
struct Calendar {
    begins: Vec<i64>,
    lengths: usize,
}

impl Calendar {
    /// The windows that a time is in, with their ends.
    fn windows(&self, time: i64) -> impl Iterator<Item = (usize, i64)> {
        let next = self.begins.partition_point(|begins| *begins <= time);
        let windows = next.saturating_sub(self.lengths)..next;
        windows.filter_map(|window| Some((window, *self.begins.get(window + self.lengths)?)))
    }
}

impl<V: ?Sized> MakeWindows<V> for Calendar {
    type Bounds = usize;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, _: &mut (), _: &V, time: Timestamp, cx: &mut WindowContext<'_, usize>) {
        for (window, end) in self.windows(time.as_micros()) {
            cx.add_until(window, at(end));
        }
    }
}

/// The same with timers that the handler sets.
struct ByTimers(Calendar);

impl<V: ?Sized> MakeWindows<V> for ByTimers {
    type Bounds = (i64, i64);
    /// The greatest end that was emitted.
    type State = Option<i64>;

    fn start(&self) -> Option<i64> {
        None
    }

    fn on_value(
        &self,
        past: &mut Option<i64>,
        _: &V,
        time: Timestamp,
        cx: &mut WindowContext<'_, (i64, i64)>,
    ) {
        for (window, end) in self.0.windows(time.as_micros()) {
            assert!(past.is_none_or(|past| past < end) || cx.watermark() < Some(at(end)));
            cx.add((end, self.0.begins[window]));
            cx.set_timer(at(end));
        }
    }

    fn on_timer(
        &self,
        past: &mut Option<i64>,
        time: Timestamp,
        cx: &mut WindowContext<'_, (i64, i64)>,
    ) {
        *past = Some(time.as_micros());
        let ends =
            |begins: &usize| self.0.begins.get(begins + self.0.lengths) == Some(&time.as_micros());
        for window in (0..self.0.begins.len()).filter(ends) {
            cx.fire((time.as_micros(), self.0.begins[window]));
        }
    }

    fn on_end(&self, _: &mut Option<i64>, cx: &mut WindowContext<'_, (i64, i64)>) {
        assert!(cx.is_ended());
        cx.fire_all();
    }
}

fn calendars() -> impl Strategy<Value = (Vec<i64>, usize)> {
    let days = prop::collection::vec(1..60i64, 4..30);
    (beginnings(), days, 1..4usize).prop_map(|(mut begins, days, lengths)| {
        begins = begins.saturating_sub(20);
        let each = |days| {
            begins = begins.saturating_add(days);
            begins
        };
        (days.into_iter().map(each).collect(), lengths)
    })
}

/// The windows of a calendar, for values of any type.
fn of_calendar<V>((begins, lengths): &(Vec<i64>, usize)) -> CustomWindow<V, Calendar> {
    CustomWindow::new(Calendar { begins: begins.clone(), lengths: *lengths })
}

/// The result of each key and window.
fn by_calendar<T>(
    (begins, lengths): &(Vec<i64>, usize),
    all: &[Reading],
    of: impl Fn(&[i32]) -> T,
) -> Vec<(u8, CustomPane<usize, T>)> {
    let mut windows: BTreeMap<(u8, usize), Vec<i32>> = BTreeMap::new();
    for (window, span) in begins.windows(lengths + 1).enumerate() {
        for (key, at, value) in all {
            if (span[0]..span[*lengths]).contains(at) {
                windows.entry((*key, window)).or_default().push(*value);
            }
        }
    }
    let pane = |((key, bounds), values): ((u8, usize), Vec<i32>)| {
        (key, CustomPane::on_time(bounds, of(&values)))
    };
    windows.into_iter().map(pane).collect()
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn every_window_of_a_calendar_has_its_records(calendar in calendars(), all in some_readings()) {
        let of = |env: &Environment| readings(env, &all).group_by(|reading| reading.0);
        let counts = by_calendar(&calendar, &all, |values| values.len() as u64);
        check(|env| of(env).window(of_calendar(&calendar)).count()).seeds(2).equals(counts.clone());
        check(|env| of(env).window(of_calendar(&calendar)).max(|reading| reading.2))
            .seeds(2)
            .equals(by_calendar(&calendar, &all, |values| *values.iter().max().unwrap()));
        check(|env| {
            let lists = of(env).repartition().map(|_, reading| reading.2).window(of_calendar(&calendar)).to_vec();
            lists.map(|_, mut pane| {
                pane.value.sort_unstable();
                pane
            })
        })
        .seeds(2)
        .equals(by_calendar(&calendar, &all, |values| {
            let mut sorted = values.to_vec();
            sorted.sort_unstable();
            sorted
        }));
        // With timers that the handler sets, and a start and an end as bounds.
        let (begins, lengths) = &calendar;
        let spans = counts.iter().map(|(key, pane)| {
            let bounds = (begins[pane.bounds + lengths], begins[pane.bounds]);
            (*key, CustomPane::on_time(bounds, pane.value))
        });
        check(|env| {
            let (begins, lengths) = calendar.clone();
            of(env).window(CustomWindow::new(ByTimers(Calendar { begins, lengths }))).count()
        })
        .seeds(2)
        .equals(spans.collect::<Vec<_>>());
        // Results have the last timestamp of their windows, and are emitted before the watermark after it.
        let mut moments: BTreeMap<i64, u64> = BTreeMap::new();
        for (_, pane) in &counts {
            *moments.entry(begins[pane.bounds + lengths]).or_default() += 1;
        }
        let moments = moments.into_iter().map(|(end, count)| Pane::on_time(at(end - 1), at(end), count));
        check(|env| {
            let counts = of(env).window(of_calendar(&calendar)).count().unkey();
            counts.window_all(EventTimeWindow::tumbling(micros(1))).count()
        })
        .seeds(2)
        .equals(moments.collect::<Vec<_>>());
    }

    #[test]
    fn sessions_are_windows_that_merge(gap in prop_oneof![8 => 0..40i64, 1 => 0..=i64::MAX], all in some_readings()) {
        let custom = check(|env| {
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            let sessions = keyed.window(CustomWindow::new(Visits { gap })).sum(|reading| i64::from(reading.2));
            sessions.map(|_, pane| (pane.bounds.0, pane.bounds.1.saturating_add(1), pane.value))
        });
        let sessions = check(|env| {
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            let sessions = keyed.window(SessionWindow::new(micros(gap))).sum(|reading| i64::from(reading.2));
            sessions.map(|_, pane| (pane.start.as_micros(), pane.end.as_micros(), pane.value))
        });
        custom.seeds(2).equals(sessions.seeds(0).agrees());
    }

    #[test]
    fn windows_of_readings_above_a_limit(values in prop::collection::vec((0..3u8, 0..20i32), 0..80)) {
        let mut expected = Vec::new();
        for key in 0..3u8 {
            let of_key: Vec<i32> = values.iter().filter(|v| v.0 == key).map(|v| v.1).collect();
            let runs = of_key.split(|value| *value <= 10).filter(|run| !run.is_empty());
            expected.extend(runs.enumerate().map(|(number, run)| {
                (key, CustomPane::on_time(number as u32, run.to_vec()))
            }));
        }
        let keyed = |env: &Environment| env.iter(values.clone()).group_by(|value| value.0);
        check(|env| keyed(env).map(|_, value| value.1).window(CustomWindow::new(Above(10))).to_vec())
            .seeds(2)
            .equals(expected.clone());
        // With timestamps too, and with an aggregate that combines.
        let sums = expected.iter().map(|(key, pane)| {
            (*key, CustomPane::on_time(pane.bounds, pane.value.iter().sum::<i32>()))
        });
        check(|env| {
            let values = env.iter(values.clone());
            let timed = values.assign_timestamps(|value| at(i64::from(value.1)), Watermarks::monotonous());
            let windows = timed.group_by(|value| value.0).map(|_, value| value.1);
            windows.window(CustomWindow::new(Above(10))).sum(|value| *value)
        })
        .seeds(2)
        .equals(sums.collect::<Vec<_>>());
    }
}

/// Sessions: each value has a span of its own, and spans that touch are merged.
struct Visits {
    gap: i64,
}

impl<V: ?Sized> MakeWindows<V> for Visits {
    /// The first and the last timestamp of the window.
    type Bounds = (i64, i64);
    /// The open windows.
    type State = Vec<(i64, i64)>;

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn on_value(
        &self,
        open: &mut Self::State,
        _: &V,
        time: Timestamp,
        cx: &mut WindowContext<'_, (i64, i64)>,
    ) {
        // Removes the windows that have ended; the key is dropped when all have.
        open.retain(|span| cx.watermark() <= Some(at(span.1)));
        cx.forget();
        let time = time.as_micros();
        let mut all = (time, time.saturating_add(self.gap));
        let (joined, apart): (Vec<(i64, i64)>, Vec<_>) =
            open.iter().copied().partition(|span: &(i64, i64)| time <= span.1 && span.0 <= all.1);
        for span in &joined {
            all = (all.0.min(span.0), all.1.max(span.1));
        }
        joined.iter().for_each(|span| cx.merge(*span, all));
        cx.add_until(all, at(all.1.saturating_add(1)));
        *open = apart;
        open.push(all);
    }
}

/// A watermark never reaches the last timestamp.
#[test]
fn windows_that_end_with_time_are_never_over_before() {
    every(|env| {
        let last = env.iter(vec![i64::MAX; 300]).batch_mode(BatchMode::Single).forward();
        let last = last.assign_timestamps(|time| at(*time), Watermarks::monotonous());
        let visits = last.window_all(CustomWindow::new(Visits { gap: 10 })).count();
        let counts = visits.map(|pane| pane.value).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(counts.take()?, [300]);
        Ok(())
    });
}

/// Windows of readings above a limit, with or without timestamps.
struct Above(i32);

impl<T: Time> MakeWindows<i32, T> for Above {
    /// The number of windows before this one.
    type Bounds = u32;
    type State = (u32, bool);

    fn start(&self) -> (u32, bool) {
        (0, false)
    }

    fn on_value(
        &self,
        (number, is_open): &mut (u32, bool),
        value: &i32,
        _: T,
        cx: &mut WindowContext<'_, u32>,
    ) {
        if *value > self.0 {
            cx.add(*number);
        } else if *is_open {
            cx.fire(*number);
            *number += 1;
        }
        *is_open = *value > self.0;
    }
}

#[test]
fn late_records_are_counted() {
    let some_late = AtomicBool::new(false);
    every(|env| {
        let n = 6_000_u64;
        // Every tenth record arrives far too late.
        let time = |n: &u64| if n % 10 == 9 { *n as i64 - 2_000 } else { *n as i64 };
        let begins = (-10_000..30_000).step_by(100).collect();
        let counts = env
            .iter(0..n)
            .assign_timestamps(move |n| at(time(n)), Watermarks::monotonous())
            .group_by(|n| n % 500)
            .window(CustomWindow::new(Calendar { begins, lengths: 1 }))
            .count();
        let sum = counts.unkey().map(|(_, pane)| pane.value).sum(|n| *n).collect::<Vec<u64>>();
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!(sum.take()?[0] + late, n);
        some_late.fetch_or(late > 0, Ordering::Relaxed);
        Ok(())
    });
    assert!(some_late.into_inner());
}

/// Executes the values, each of which is the text of a request.
struct Scripted;

impl<T: Time> MakeWindows<str, T> for Scripted {
    type Bounds = char;
    /// The number of values so far.
    type State = u32;

    fn start(&self) -> u32 {
        0
    }

    fn on_value(&self, count: &mut u32, text: &str, _: T, cx: &mut WindowContext<'_, char>) {
        *count += 1;
        let mut letters = text.chars();
        let (what, first, second) = (letters.next(), letters.next(), letters.next());
        match (what, first, second) {
            (Some('+'), Some(window), None) => cx.add(window),
            (Some('+'), Some(one), Some(other)) => {
                cx.add(one);
                cx.add(other);
            }
            (Some('!'), Some(window), _) => cx.fire(window),
            (Some('-'), Some(window), _) => cx.discard(window),
            (Some('='), Some(from), Some(into)) => cx.merge(from, into),
            (Some('#'), ..) => cx.add(char::from_digit(*count, 10).unwrap_or('?')),
            (Some('?'), ..) => {
                cx.discard_all();
                cx.forget();
            }
            (Some('x'), ..) => panic!("as the script says"),
            _ => cx.fire_all(),
        }
    }

    fn on_end(&self, _: &mut u32, cx: &mut WindowContext<'_, char>) {
        cx.discard('z');
        cx.fire_all();
    }
}

fn words(env: &Environment, text: &str) -> crate::Stream<impl crate::Chain<Item = str> + use<>> {
    env.iter([text.to_owned()]).flat_map_str(|text, out| out.extend(text.split(' ')))
}

fn scripted(
    env: &Environment,
    orders: &str,
) -> crate::Stream<impl crate::Chain<Item = String> + use<>> {
    let words = words(env, orders);
    let windows = words.window_all(CustomWindow::new(Scripted));
    windows.to_vec().map(|pane| format!("{}:{}", pane.bounds, pane.value.join(",")))
}

#[test]
fn requests_of_a_handler_are_executed_in_order() {
    let gives = |orders: &'static str, expected: &[&str]| {
        check(|env| scripted(env, orders)).seeds(2).equals(expected.iter().copied());
    };
    gives("+a +b +a !a +a", &["a:+a,+a", "a:+a", "b:+b"]);
    gives("+ab !b -a -c !c", &["b:+ab"]);
    gives("+a =ab +b !b =bc", &["b:+a,+b"]);
    gives("+a +b ~ +c", &["a:+a", "b:+b", "c:+c"]);
    gives("+z +y =yy", &["y:+y"]);
    gives("# # ? #", &["1:#"]);
    gives("# # ~ #", &["1:#", "2:#", "4:#"]);
}

#[test]
fn windows_become_one_where_the_aggregate_combines() {
    check(|env| {
        let words = words(env, "+a +b +b =ab +c =cb !b +b");
        let windows = words.window_all(CustomWindow::new(Scripted)).count();
        windows.map(|pane| (pane.bounds, pane.value))
    })
    .equals([('b', 4), ('b', 1)]);
    check(|env| scripted(env, "+a +b =ab"))
        .seeds(2)
        .fails_with("what is computed of them cannot be put together");
    let env = Environment::new();
    scripted(&env, "+a +b =ab").for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap_or_default().starts_with("window_all ("), "{error}");
}

#[test]
fn a_handler_that_panics_is_named() {
    check(|env| scripted(env, "+a x +b")).seeds(1).fails_with("panicked: as the script says");
}

fn a_window_a_key(env: &Environment, records: u64) -> crate::Output<Option<u64>> {
    let begins = (0..=records as i64 + 100).step_by(100).collect();
    let numbers =
        env.iter(0..records).assign_timestamps(|n| at(*n as i64), Watermarks::monotonous());
    let windows =
        numbers.group_by(|n| *n).window(CustomWindow::new(Calendar { begins, lengths: 1 }));
    windows.count().unkey().count().collect_one()
}

#[test]
fn keys_without_windows_are_forgotten() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 48 << 20, ..Config::default() });
    let count = a_window_a_key(&env, 400_000);
    env.run()?;
    assert_eq!(count.take()?, Some(400_000));
    Ok(())
}

#[test]
fn more_windows_than_memory_holds_go_to_disk() -> crate::Result<()> {
    let one = NonZeroUsize::MIN;
    let config = Config { memory: 100_000, cores: one, ..Config::default() };
    let config = Config { keyed_tasks_per_core: one, ..config };
    let env = Environment::with_config(config);
    let count = a_window_a_key(&env, 10_000);
    let stats = env.start()?.wait()?;
    assert_eq!(count.take()?, Some(10_000));
    assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
    Ok(())
}

#[test]
fn the_plan_names_the_handler() {
    let env = Environment::new();
    let numbers = env.iter(0..5i32).window_all(CustomWindow::new(Above(3))).count();
    numbers.for_each(drop);
    assert!(env.plan().to_string().contains("count, Above"), "{}", env.plan());
}

/// One window for each key, without an end.
struct Endless;

impl<V: ?Sized, T: Time> MakeWindows<V, T> for Endless {
    type Bounds = ();
    type State = ();

    fn start(&self) {}

    fn on_value(&self, (): &mut (), _: &V, _: T, cx: &mut WindowContext<'_, ()>) {
        cx.add(());
    }
}

#[test]
fn windows_of_many_keys_are_all_emitted_at_the_end() {
    let config = Config { cores: std::num::NonZero::<usize>::MIN, ..Config::default() };
    let env = Environment::with_config(config);
    let counts = env.iter(0..60_000_u32).group_by(|n| *n).window(CustomWindow::new(Endless));
    let out = counts.count().unkey().map(|(_, pane)| pane.value).collect::<Vec<_>>();
    env.run().unwrap();
    assert_eq!(out.take().unwrap(), [1; 60_000]);
}
