//! Tests of windows by arrival against their definition: the values of each key in a list, and each window a
//! slice of it.

use crate::check::{Checked, cases, check, every};
use crate::config::{BatchMode, Config, Scheduler};
use crate::data::Schema;
use crate::operators::time::Watermarks;
use crate::operators::window::tests::beginnings;
use crate::operators::window::{
    CountPane, CountWindow, EventTimeWindow, GlobalWindow, LastWindow, Pane, Transaction,
    TransactionWindow,
};
use crate::plan::Scope;
use crate::time::Timestamp;
use crate::{Environment, ErrorKind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

mod early;

/// A key and a value.
type Reading = (u8, i64);

/// The shapes of windows, by their definition: the first value and the one after the last, of a number of values.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Count { size: u64, slide: u64, partial: bool },
    Last(u64),
    Global,
}

impl Shape {
    fn spans(self, len: u64) -> Vec<(u64, u64)> {
        match self {
            Self::Count { size, slide, partial } => (0..len)
                .map(|window| (window * slide, window * slide + size))
                .filter(|(first, end)| *end <= len || (partial && *first < len))
                .map(|(first, end)| (first, end.min(len)))
                .collect(),
            Self::Last(size) => (1..=len).map(|end| (end.saturating_sub(size), end)).collect(),
            Self::Global => vec![(0, len)],
        }
    }

    /// The result of each window and key.
    fn expected<T>(self, all: &[Reading], of: impl Fn(&[i64]) -> T) -> Vec<(u8, CountPane<T>)> {
        let mut keys: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        all.iter().for_each(|(key, value)| keys.entry(*key).or_default().push(*value));
        let panes = keys.iter().flat_map(|(key, values)| {
            let spans = self.spans(values.len() as u64).into_iter();
            let pane = |(first, end)| {
                let value = of(&values[first as usize..end as usize]);
                CountPane::on_time(first, end - first, value)
            };
            spans.map(move |span| (*key, pane(span))).collect::<Vec<_>>()
        });
        panes.collect()
    }
}

/// Evaluates the body with windows of the shape, whatever their type.
macro_rules! with_window {
    ($shape:expr, |$window:ident| $body:expr) => {
        match $shape {
            Shape::Count { size, slide, partial } => {
                let $window = CountWindow::sliding(size, slide);
                let $window = if partial { $window.keep_partial() } else { $window };
                $body
            }
            Shape::Last(size) => {
                let $window = LastWindow::new(size);
                $body
            }
            Shape::Global => {
                let $window = GlobalWindow::new();
                $body
            }
        }
    };
}

fn few<S, F, T>(job: F, expected: Vec<(u8, CountPane<T>)>)
where
    S: Checked<Record = (u8, CountPane<T>)>,
    F: Fn(&Environment) -> S + Sync,
    T: crate::Data + Debug,
{
    check(job).seeds(2).equals(expected);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let count = (1..12u64, 1..12u64, any::<bool>());
    prop_oneof![
        6 => count.prop_map(|(size, slide, partial)| Shape::Count { size, slide, partial }),
        2 => (1..9u64).prop_map(Shape::Last),
        1 => Just(Shape::Global),
    ]
}

fn some_readings() -> impl Strategy<Value = Vec<Reading>> {
    prop::collection::vec((0..4u8, -50..50i64), 0..90)
}

/// The same, starting at any time.
fn some_times() -> impl Strategy<Value = Vec<Reading>> {
    (beginnings(), some_readings()).prop_map(|(begin, mut all)| {
        all.iter_mut().for_each(|(_, at)| *at = at.saturating_add(begin));
        all
    })
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn combined_aggregates_are_those_of_the_windows_values(shape in shapes(), all in some_readings()) {
        let of = |env: &Environment| env.iter(all.clone()).group_by(|reading| reading.0);
        with_window!(shape, |window| {
            few(|env| of(env).window(window).count(), shape.expected(&all, |v| v.len() as u64));
            few(|env| of(env).window(window).sum(|r| r.1), shape.expected(&all, |v| v.iter().sum::<i64>()));
            few(|env| of(env).window(window).max(|r| r.1), shape.expected(&all, |v| *v.iter().max().unwrap()));
            few(|env| of(env).window(window).min(|r| r.1), shape.expected(&all, |v| *v.iter().min().unwrap()));
            few(
                |env| of(env).window(window).average(|r| r.1 as f64),
                shape.expected(&all, |v| v.iter().sum::<i64>() as f64 / v.len() as f64),
            );
            few(
                |env| of(env).map(|_, r| r.1).window(window).reduce(|a, b| a.max(b)),
                shape.expected(&all, |v| *v.iter().max().unwrap()),
            );
            // The values themselves: none is lost and none is repeated.
            few(
                |env| {
                    let lists = of(env).repartition().window(window);
                    let add = |all: &mut Vec<i64>, r: Reading| all.push(r.1);
                    lists.fold_assoc(Vec::new(), add, |all, more| all.extend(more)).map(|_, pane| {
                        let mut pane = pane;
                        pane.value.sort_unstable();
                        pane
                    })
                },
                shape.expected(&all, |v| {
                    let mut sorted = v.to_vec();
                    sorted.sort_unstable();
                    sorted
                }),
            );
        });
    }

    #[test]
    fn ordered_aggregates_are_those_of_the_windows_values(shape in shapes(), all in some_readings()) {
        let of = |env: &Environment| env.iter(all.clone()).group_by(|reading| reading.0);
        let digits = |number: i64, value: i64| number.wrapping_mul(101).wrapping_add(value);
        with_window!(shape, |window| {
            few(
                |env| of(env).map(|_, r| r.1).window(window).to_vec(),
                shape.expected(&all, <[i64]>::to_vec),
            );
            few(
                |env| of(env).window(window).fold(7, move |n, r| *n = digits(*n, r.1)),
                shape.expected(&all, |v| v.iter().fold(7, |n, v| digits(n, *v))),
            );
        });
    }

    /// Windows of a microsecond over the results observe their timestamps.
    #[test]
    fn a_result_has_the_greatest_timestamp_of_its_window(
        shape in shapes(),
        all in some_times(),
        combines in any::<bool>(),
    ) {
        let mut expected: BTreeMap<i64, u64> = BTreeMap::new();
        for (_, pane) in shape.expected(&all, |v| *v.iter().max().unwrap()) {
            *expected.entry(pane.value).or_default() += 1;
        }
        let panes = expected.into_iter().map(|(at, value)| {
            let (start, end) = (Timestamp::from_micros(at), Timestamp::from_micros(at.saturating_add(1)));
            Pane::on_time(start, end, value)
        });
        let panes: Vec<_> = panes.collect();
        let timed = |env: &Environment| {
            let never_late = Watermarks::bounded_disorder(Duration::MAX);
            let readings = env.iter(all.clone());
            readings.assign_timestamps(|r| Timestamp::from_micros(r.1), never_late).group_by(|r| r.0)
        };
        let moment = EventTimeWindow::tumbling(Duration::from_micros(1));
        with_window!(shape, |window| {
            if combines {
                let job = |env: &Environment| {
                    timed(env).window(window).count().unkey().window_all(moment).count()
                };
                check(job).seeds(2).equals(panes.clone());
                let job = |env: &Environment| {
                    timed(env).window(window).max(|r| r.0).unkey().window_all(moment).count()
                };
                check(job).seeds(2).equals(panes);
            } else {
                let job = |env: &Environment| {
                    timed(env).window(window).to_vec().unkey().window_all(moment).count()
                };
                check(job).seeds(2).equals(panes);
            }
        });
    }

    /// The remainder of a value decides its effect on its window.
    #[test]
    fn transactions_are_what_their_values_say(all in some_readings()) {
        let says = |value: i64| match value.rem_euclid(5) {
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
                    let value = std::mem::take(values);
                    expected.push((key, CountPane::on_time(*first, count, value)));
                }
                Transaction::Discard => values.clear(),
                _ => continue,
            }
            *first += count;
        }
        let window = || TransactionWindow::new(move |r: &Reading| says(r.1));
        let values = || TransactionWindow::new(move |value: &i64| says(*value));
        let of = |env: &Environment| env.iter(all.clone()).group_by(|reading| reading.0);
        let sums = expected.iter().map(|(key, pane)| {
            let CountPane { first, count, ref value, .. } = *pane;
            (*key, CountPane::on_time(first, count, value.iter().sum::<i64>()))
        });
        few(|env| of(env).window(window()).sum(|r| r.1), sums.collect());
        few(|env| of(env).map(|_, r| r.1).window(values()).to_vec(), expected);
    }

    #[test]
    fn windows_of_all_records_are_those_of_one_key(shape in shapes(), all in some_readings()) {
        let all: Vec<Reading> = all.into_iter().map(|(_, value)| (0, value)).collect();
        let values = |env: &Environment| env.iter(all.clone()).map(|r| r.1);
        let without = |panes: Vec<(u8, CountPane<i64>)>| panes.into_iter().map(|(_, pane)| pane);
        with_window!(shape, |window| {
            let sums = without(shape.expected(&all, |v| v.iter().sum::<i64>()));
            check(|env| values(env).window_all(window).sum(|v| *v)).seeds(2).equals(sums);
            let last = without(shape.expected(&all, |v| v[v.len() - 1]));
            let keep = |last: &mut i64, v: i64| *last = v;
            check(|env| values(env).window_all(window).fold(0, keep)).seeds(2).equals(last);
        });
    }
}

/// The results of a task are emitted in the order of the records that complete them.
#[test]
fn results_come_at_once_and_in_order() {
    let panes = (0..200u64).map(|k| CountPane::on_time(5 * k, 10, 50 * k + 45));
    let panes = panes.take_while(|pane| pane.first + pane.count <= 1000);
    check(|env| env.iter(0..1000u64).window_all(CountWindow::sliding(10, 5)).sum(|n| *n))
        .ordered()
        .equals(panes);
    // A job whose input has no end is refused.
    every(|env| {
        let sums = env.iter(0_u64..).window_all(CountWindow::tumbling(4)).sum(|n| *n).limit(3);
        let sums = sums.map(|pane| pane.value).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(sums.take()?, [6, 22, 38]);
        Ok(())
    });
}

/// Records that are borrowed from their batch are stored, inspected and counted like others.
#[test]
fn borrowed_values_go_into_windows() {
    let words = |env: &Environment| {
        env.iter(["to be or", "not to be to"])
            .flat_map_str(|line, out| out.push(line))
            .flat_each(crate::text::Words)
            .group_by_ref(|word| *word)
    };
    let to = |first, value: &str| ("to".to_owned(), CountPane::on_time(first, 2, value.to_owned()));
    let be = ("be".to_owned(), CountPane::on_time(0, 2, "bebe".to_owned()));
    check(|env| {
        let pairs = words(env).window(CountWindow::sliding(2, 1));
        pairs.fold(String::new(), |text, word| text.push_str(word))
    })
    .equals([to(0, "toto"), to(1, "toto"), be.clone()]);
    check(|env| {
        let second = TransactionWindow::new(|word: &str| match word {
            "be" => Transaction::Continue,
            _ => Transaction::Commit,
        });
        words(env).window(second).count()
    })
    .equals(["to", "to", "to", "or", "not"].into_iter().scan(0, |to, word| {
        let first = if word == "to" { *to } else { 0 };
        *to += u64::from(word == "to");
        Some((word.to_owned(), CountPane::on_time(first, 1, 1u64)))
    }));
}

#[test]
fn event_time_windows_of_all_records() {
    let second = Duration::from_secs(1);
    let pane = |at: i64, value: u64| {
        let (start, end) = (Timestamp::from_secs(at), Timestamp::from_secs(at + 2));
        Pane::on_time(start, end, value)
    };
    check(|env| {
        let readings = env.iter([0, 1, 1, 4]);
        readings
            .assign_timestamps(|n| Timestamp::from_secs(*n), Watermarks::monotonous())
            .window_all(EventTimeWindow::sliding(2 * second, second))
            .count()
    })
    .equals([pane(-1, 1), pane(0, 3), pane(1, 2), pane(3, 1), pane(4, 1)]);
}

/// With a simulated clock and one record per millisecond; every tenth starts a commit time.
#[test]
fn time_commits_by_the_clock_where_there_are_no_timestamps() {
    for seed in 0..20 {
        let scheduler = Scheduler::Deterministic { seed };
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let carts = TransactionWindow::new(|n: &u64| match n % 10 {
            0 => Transaction::CommitAfter(Duration::from_micros(2500)),
            _ => Transaction::Continue,
        });
        let ticks = env.generate(1000.0, |n| (n < 24).then_some(n));
        let lists = ticks.group_by(|_| 'k').window(carts).to_vec().unkey().to_channel();
        env.run().unwrap();
        let lists: Vec<_> = lists.map(|list| list.unwrap().1.value).collect();
        // Record 23 opens another window, which is never committed.
        let expected = [vec![0, 1, 2], (3..=12).collect(), (13..=22).collect()];
        assert_eq!(lists, expected, "seed {seed}");
    }
}

/// A later `CommitAfter` restarts the commit time, also to an earlier time.
#[test]
fn the_last_answer_counts() {
    for seed in 0..20 {
        let scheduler = Scheduler::Deterministic { seed };
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let millis = [100, 100, 2, 0, 50, 4, 0, 0, 0, 0, 0, 1, 0, 0];
        let carts = TransactionWindow::new(move |n: &u64| match millis[*n as usize] {
            0 => Transaction::Continue,
            n => Transaction::CommitAfter(Duration::from_millis(n) - Duration::from_micros(500)),
        });
        let ticks = env.generate(1000.0, |n| (n < 14).then_some(n));
        let lists = ticks.window_all(carts).to_vec().to_channel();
        env.run().unwrap();
        let lists: Vec<_> = lists.map(|list| list.unwrap().value).collect();
        let expected = [vec![0, 1, 2, 3], vec![4, 5, 6, 7, 8], vec![9, 10, 11]];
        assert_eq!(lists, expected, "seed {seed}");
    }
}

/// A window whose commit time is beyond the last timestamp is committed at the end of the input.
#[test]
fn transactions_at_the_end_of_time() {
    every(|env| {
        let last = env.iter(0..100).batch_mode(BatchMode::Single).forward();
        let last = last.assign_timestamps(|_| Timestamp::MAX, Watermarks::monotonous());
        let second = |_: &i32| Transaction::CommitAfter(Duration::from_secs(1));
        let counts = last.window_all(TransactionWindow::new(second)).count();
        let counts = counts.map(|pane| pane.value).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(counts.take()?, [100]);
        Ok(())
    });
}

#[test]
fn time_commits_by_timestamps_where_there_are_any() {
    let carts = || {
        TransactionWindow::new(|n: &(u8, u64)| match n.1 % 10 {
            0 => Transaction::CommitAfter(Duration::from_secs(3)),
            9 => Transaction::Discard,
            _ => Transaction::Continue,
        })
    };
    let timed = |env: &Environment| {
        let all = (0..100u64).map(|n| ((n % 3) as u8, n / 3));
        env.iter(all)
            .assign_timestamps(|(_, n)| Timestamp::from_secs(*n as i64), Watermarks::monotonous())
            .group_by(|n| n.0)
    };
    // Seconds 0 to 2 of each ten; those from 3 on are discarded with the 9, or never committed.
    let first_of = |key: u8| (0..if key == 0 { 34 } else { 33 }).step_by(10).map(move |n| (key, n));
    let expected = (0..3u8).flat_map(first_of).map(|(key, first)| {
        let seconds: Vec<u64> = (first..first + 3).collect();
        (key, CountPane::on_time(first, 3, seconds))
    });
    check(|env| timed(env).map(|_, n| n).window(carts()).fold(Vec::new(), |all, n| all.push(n.1)))
        .equals(expected);
    // The result's timestamp is the last one before the commit time.
    check(|env| {
        let moment = EventTimeWindow::tumbling(Duration::from_micros(1));
        timed(env).window(carts()).count().unkey().window_all(moment).count()
    })
    .equals((0..4).map(|n| {
        let end = Timestamp::from_secs(10 * n + 3);
        let start = end.saturating_sub(Duration::from_micros(1));
        Pane::on_time(start, end, 3u64)
    }));
}

#[test]
fn windows_of_nothing_are_refused() {
    fn message<S: Checked>(job: impl Fn(&Environment) -> S) -> String {
        let env = Environment::new();
        let _out = job(&env).collected();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        error.to_string()
    }
    let numbers = |env: &Environment| env.iter(0..9u64).group_by(|n| n % 3);
    let said = message(|env| numbers(env).window(CountWindow::tumbling(0)).count());
    assert!(said.starts_with("window (") && said.contains("a size of 0 records"), "{said}");
    let said = message(|env| env.iter(0..9u64).window_all(CountWindow::sliding(3, 0)).to_vec());
    assert!(said.starts_with("window_all (") && said.contains("a slide of 0 records"), "{said}");
    let said = message(|env| numbers(env).window(LastWindow::new(0)).sum(|n| *n));
    assert!(said.contains("a size of 0 records"), "{said}");
    let said = message(|env| {
        let endless = env.generate(1000.0, Some).group_by(|n| n % 3);
        endless.window(GlobalWindow::new()).count()
    });
    assert!(said.starts_with("window (") && said.contains("only at the end"), "{said}");
}

#[test]
fn windows_beyond_all_counts_are_windows_too() {
    check(|env| {
        let all = CountWindow::sliding(u64::MAX, u64::MAX - 1).keep_partial();
        env.iter(0..50u64).window_all(all).sum(|n| *n)
    })
    .equals([CountPane::on_time(0, 50, 49 * 25)]);
}

/// Keys, open slices, stored values and growing states all count against the budget.
#[test]
fn what_memory_does_not_hold_is_refused_by_name() {
    fn refused<S: Checked>(job: impl Fn(&Environment) -> S) {
        let env = Environment::with_config(Config { memory: 1 << 20, ..Config::default() });
        let _out = job(&env).collected();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
        assert!(error.operator().unwrap_or_default().starts_with("window"), "{error}");
    }
    let n = 300_000u64;
    let long = |n: u64| format!("a text that takes some room: {n}");
    refused(|env| env.iter(0..n).window_all(CountWindow::sliding(n, 1)).max(|n| *n));
    refused(|env| env.iter(0..n).window_all(CountWindow::sliding(n, 1)).to_vec());
    refused(|env| env.iter(0..n).map(long).window_all(GlobalWindow::new()).to_vec());
    refused(|env| {
        let open = TransactionWindow::new(|_: &String| Transaction::Continue);
        let append = |all: &mut String, text: String| all.push_str(&text);
        env.iter(0..n).map(long).window_all(open).fold(String::new(), append)
    });
}

#[test]
fn keys_that_memory_does_not_hold_go_to_disk() {
    fn on_disk<S: Checked>(job: impl Fn(&Environment) -> S) {
        let env = Environment::with_config(Config { memory: 1 << 18, ..Config::default() });
        let _out = job(&env).collected();
        let stats = env.start().unwrap().wait().unwrap();
        assert!(stats.operators.iter().any(|op| op.kind == "window" && op.spilled_bytes > 0));
    }
    let n = 10_000u64;
    on_disk(|env| env.iter(0..n).group_by(|n| *n).window(CountWindow::tumbling(2)).count());
    on_disk(|env| {
        let wait =
            TransactionWindow::new(|_: &u64| Transaction::CommitAfter(Duration::from_secs(900)));
        env.iter(0..n).group_by(|n| *n).window(wait).count()
    });
}

/// The same within a sufficient budget: windows release memory when they are closed.
#[test]
fn emitted_windows_free_their_memory() {
    let n = 300_000u64;
    let config = || Config { memory: 1 << 20, ..Config::default() };
    let counted = |job: &dyn Fn(&Environment) -> crate::Output<Option<u64>>| {
        let env = Environment::with_config(config());
        let count = job(&env);
        env.run().unwrap();
        count.take().unwrap().unwrap()
    };
    let text = |n: u64| format!("a text that takes some room: {n}");
    let last = LastWindow::new(3);
    assert_eq!(
        counted(&|env| env.iter(0..n).map(text).window_all(last).to_vec().count().collect_one()),
        n
    );
    let pairs = CountWindow::sliding(20, 10);
    let seldom = n / 10 - 1;
    let longest = |a: String, b: String| if a.len() < b.len() { b } else { a };
    let job = |env: &Environment| {
        env.iter(0..n).map(text).window_all(pairs).reduce(longest).count().collect_one()
    };
    assert_eq!(counted(&job), seldom);
    let commit = || {
        TransactionWindow::new(|text: &String| match text.ends_with('7') {
            true => Transaction::Commit,
            false => Transaction::Continue,
        })
    };
    assert_eq!(
        counted(&|env| env
            .iter(0..n)
            .map(text)
            .window_all(commit())
            .to_vec()
            .count()
            .collect_one()),
        n / 10
    );
}

#[test]
fn a_panic_names_the_windows() {
    check(|env| env.iter(0..9i32).window_all(CountWindow::tumbling(2)).sum(|n| 10 / (n - 5)))
        .fails_with("window_all (");
    check(|env| {
        let window =
            TransactionWindow::new(
                |n: &u32| if *n > 3 { panic!("four") } else { Transaction::Commit },
            );
        env.iter(0..9u32).group_by(|n| n % 2).window(window).count()
    })
    .fails_with("panicked: four");
}

#[test]
fn plans_show_what_windows_are() {
    let env = Environment::new();
    let numbers = env.iter(0..9u64).group_by(|n| n % 3).window(CountWindow::sliding(10, 5));
    numbers.count().name("tens").unkey().window_all(LastWindow::new(4)).to_vec().for_each(drop);
    let plan = env.plan();
    let windows: Vec<_> =
        plan.operators.iter().filter(|op| op.kind.starts_with("window")).collect();
    let shown: Vec<_> =
        windows.iter().map(|op| format!("{} {}: {}", op.kind, op.name, op.details)).collect();
    assert_eq!(
        shown,
        [
            "window tens: count, sliding, 10 records, every 5",
            "window_all window_all: to_vec, last, 4 records",
        ]
    );
    let scopes: Vec<_> = windows.iter().filter_map(|op| Some(&op.state.as_ref()?.scope)).collect();
    assert_eq!(scopes, [&Scope::Key(Schema::U64), &Scope::Key(Schema::Unit)]);
}
