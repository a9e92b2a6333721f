//! Results do not depend on the numbers of tasks of stages, on one host and on several: each run draws others, with odd
//! ones, more than there are cores, and none on some hosts.

use std::time::Duration;
use thalweg::check::check;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};

/// Enough orders for every kind of number to be drawn for most stages.
const SEEDS: u64 = 12;

fn numbers(env: &Environment) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.range(0..600)
}

#[test]
fn records_and_their_keys_reach_any_tasks() {
    check(|env| numbers(env).shuffle().map(|n| n * 2))
        .any_tasks()
        .equals((0..600u64).map(|n| n * 2));
    let tens = || (0..10u64).map(|key| (key, 60));
    check(|env| numbers(env).group_by(|n| n % 10).count()).any_tasks().seeds(SEEDS).equals(tens());
    check(|env| numbers(env).repartition_by(|n, tasks| *n as usize % tasks).count())
        .any_tasks()
        .equals([600u64]);
    check(|env| {
        let sums = numbers(env).group_by(|n| n % 10).repartition().map(|_, n| n);
        // Keys that were split between two tasks would have two counts.
        sums.stateful_map(0, |_, seen: &mut u64, _| {
            *seen += 1;
            *seen
        })
        .fold(0, |most: &mut u64, seen| *most = seen.max(*most))
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals(tens());
}

#[test]
fn streams_meet_in_any_tasks() {
    let joined = || (0..600u64).map(|n| (n % 10, (n, n % 10 + 1)));
    let side = |env: &Environment| env.iter((0..10u64).map(|n| (n, n + 1))).keyed();
    check(|env| numbers(env).group_by(|n| n % 10).join(side(env)))
        .any_tasks()
        .seeds(SEEDS)
        .equals(joined());
    // Both are where their keys are already.
    check(|env| numbers(env).group_by(|n| n % 10).repartition().join(side(env).repartition()))
        .any_tasks()
        .seeds(SEEDS)
        .equals(joined());
    check(|env| {
        let left = numbers(env).group_by(|n| n % 10).repartition();
        left.merge(numbers(env).group_by(|n| n % 10).repartition()).count()
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals((0..10u64).map(|key| (key, 120)));
    check(|env| {
        let [a, b] = numbers(env).split();
        let (c, side) = a.side_output(|n, side| {
            side.push(n);
            Some(n)
        });
        b.merge(c).merge(side.shuffle()).count()
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals([1800u64]);
    check(|env| {
        let [a, b] = numbers(env).shuffle().split();
        a.forward().zip_by_task(b).filter(|(a, b)| a == b).count()
    })
    .any_tasks()
    .equals([600u64]);
}

#[test]
fn what_needs_one_task_keeps_it() {
    check(|env| numbers(env).shuffle().sorted()).any_tasks().ordered().equals(0..600u64);
    check(|env| {
        let one = numbers(env).shuffle().parallelism(1);
        one.scan(0, |sum, n| {
            *sum += n;
            Some(*sum)
        })
        .max(|n| *n)
    })
    .any_tasks()
    .equals([599 * 600 / 2u64]);
    check(|env| numbers(env).shuffle().zip(numbers(env)).count()).any_tasks().equals([600u64]);
}

#[test]
fn time_passes_in_any_tasks() {
    check(|env| {
        let timed = env
            .iter(0..500i64)
            .assign_timestamps(|n| Timestamp::from_millis(*n), Watermarks::monotonous());
        let windows = EventTimeWindow::tumbling(Duration::from_millis(100));
        let counts = timed.group_by(|n| n % 5).window(windows).count().unkey();
        counts.map(|(key, pane)| (key, pane.start.as_micros() / 100_000, pane.value))
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals((0..25).map(|n| (n % 5, n / 5, 20u64)));
    // Tasks that wait for each other.
    check(|env| {
        let watermarks = Watermarks::monotonous().aligned(Duration::from_millis(50));
        numbers(env).assign_timestamps(|n| Timestamp::from_millis(*n as i64), watermarks).count()
    })
    .any_tasks()
    .equals([600u64]);
}

#[test]
fn loops_have_rounds_in_any_tasks() {
    // Merged within the body: a task of it sees a part of the heads only.
    let after = |n: u64| (0..7).fold(n, |n, _| if n < 50 { n + 10 } else { n + 1 });
    check(|env| {
        let looped = env.range(0..100).iterate(7, (), |numbers, _| {
            let ([small], rest) = numbers.route().to(|n| *n < 50).split();
            small.map(|n| n + 10).merge(rest.map(|n| n + 1))
        });
        let (outcome, left) = looped.all_rounds();
        outcome.for_each(drop);
        left
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals((0..100).map(after));
    check(|env| {
        let looped = env.range(0..100).iterate(5, (), |numbers, _| {
            numbers.shuffle().map(|n| n + 1).group_by(|n| *n).repartition().unkey().map(|(_, n)| n)
        });
        let (outcome, left) = looped.all_rounds();
        outcome.for_each(drop);
        left
    })
    .any_tasks()
    .seeds(SEEDS)
    .equals(5..105u64);
}
