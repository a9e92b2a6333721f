//! Jobs on several hosts in one process, which share nothing but encoded messages.

use std::time::Duration;
use thalweg::check::check;

use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;

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
            .map(|(key, pane)| (key, pane.value))
    })
    .agrees();
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
    check(|env| env.iter(0u64..).shuffle().limit(3)).satisfies(|records| match records.len() {
        3 => Ok(()),
        n => Err(format!("{n} records")),
    });
}

#[test]
fn a_failure_on_one_host_is_the_outcome_on_all() {
    check(|env| env.iter(0..9i32).shuffle().map(|n| 10 / (n - 5)))
        .fails_with("attempt to divide by zero");
}
