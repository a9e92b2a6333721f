//! Panics of closures that run in an operator of another kind than the method that took them: a combiner, an exchange, a
//! slice of a window. The message names the method, and its line.

use crate::in_time;
use std::borrow::Borrow;
use std::time::Duration;
use thalweg::check::every;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{CountWindow, EventTimeWindow};
use thalweg::time::Timestamp;
use thalweg::{Boxed, Environment, ErrorKind, Stream};

type Job = fn(&Environment);

/// Panics at one number.
fn strict(n: impl Borrow<u64>) -> u64 {
    assert!(*n.borrow() != 77, "no 77");
    *n.borrow()
}

fn numbers(env: &Environment) -> Stream<Boxed<u64>> {
    env.range(0..100).boxed()
}

fn timed(env: &Environment) -> Stream<Boxed<u64, Timestamp>> {
    let at = |n: &u64| Timestamp::from_millis(*n as i64);
    numbers(env).assign_timestamps(at, Watermarks::monotonous()).boxed()
}

fn second() -> EventTimeWindow {
    EventTimeWindow::tumbling(Duration::from_secs(1))
}

/// The methods, each in a job on a line of its own.
#[rustfmt::skip]
const JOBS: &[(&str, u32, Job)] = &[
    ("sum", line!(), |env| numbers(env).group_by(|n| n % 3).sum(|n| strict(n)).unkey().for_each(drop)),
    ("min", line!(), |env| numbers(env).group_by(|n| n % 3).min(|n| strict(n)).unkey().for_each(drop)),
    ("fold_assoc", line!(), |env| numbers(env).group_by(|n| n % 3).fold_assoc(0, |all, n| *all += strict(n), |all, part| *all += part).unkey().for_each(drop)),
    ("fold", line!(), |env| numbers(env).group_by(|n| n % 3).fold(0, |all, n| *all += strict(n)).unkey().for_each(drop)),
    ("reduce", line!(), |env| numbers(env).reduce(|a, b| strict(a).max(strict(b))).for_each(drop)),
    ("max_by", line!(), |env| numbers(env).max_by(|a, b| strict(a).cmp(&strict(b))).for_each(drop)),
    ("sorted_by_key", line!(), |env| numbers(env).sorted_by_key(|n| strict(n)).for_each(drop)),
    ("top_by", line!(), |env| numbers(env).top_by(3, |a, b| strict(a).cmp(&strict(b))).for_each(drop)),
    ("scan", line!(), |env| numbers(env).scan(0, |_, n| Some(strict(n))).for_each(drop)),
    ("stateful_map", line!(), |env| numbers(env).group_by(|n| n % 3).stateful_map(0, |_, _, n| strict(n)).unkey().for_each(drop)),
    ("partition_by", line!(), |env| numbers(env).partition_by(|n, _| strict(n) as usize).for_each(drop)),
    ("map_memo_by", line!(), |env| numbers(env).map_memo_by(4, |n| strict(n), |n| n).for_each(drop)),
    ("window", line!(), |env| timed(env).group_by(|n| n % 3).window(second()).sum(|n| strict(n)).unkey().for_each(drop)),
    ("window_all", line!(), |env| timed(env).window_all(second()).max(|n| strict(n)).for_each(drop)),
    ("window", line!(), |env| numbers(env).group_by(|n| n % 3).window(CountWindow::tumbling(3)).fold(0, |all, n| *all += strict(n)).unkey().for_each(drop)),
];

#[test]
fn messages_name_the_method_that_took_the_closure() {
    for &(method, line, job) in JOBS {
        in_time(move || {
            every(|env| {
                job(env);
                let error = env.run().expect_err(method);
                assert_eq!((error.kind(), error.message()), (ErrorKind::Panic, "panicked: no 77"));
                let expected = format!("{method} (crates/thalweg/tests/endings/named.rs:{line})");
                assert_eq!(error.operator(), Some(&*expected));
                Ok(())
            });
        });
    }
}
