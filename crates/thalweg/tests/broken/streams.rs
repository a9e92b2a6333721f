//! Windows, joins, loops and calls that cannot be, or fail; streams that are not of one job.

use super::Broken;
use std::time::Duration;
use thalweg::Result;
use thalweg::operators::calls::Calls;
use thalweg::prelude::*;

pub(super) const ALL: &[Broken] = &[
    Broken::new("stream-without-a-sink", stream_without_a_sink),
    Broken::new("side-output-without-a-sink", side_output_without_a_sink),
    Broken::new("window-of-no-time", window_of_no_time),
    Broken::new("global-window-without-end", global_window_without_end),
    Broken::new("panic-in-a-window", panic_in_a_window),
    Broken::new("join-with-a-right-side-without-end", join_with_a_right_side_without_end),
    Broken::new("symmetric-join-in-a-loop", symmetric_join_in_a_loop),
    Broken::new("loop-without-end", loop_without_end),
    Broken::new("loop-of-no-rounds", loop_of_no_rounds),
    Broken::new("loop-without-a-tail", loop_without_a_tail),
    Broken::new("panic-in-a-loop", panic_in_a_loop),
    Broken::new("no-calls-in-flight", no_calls_in_flight),
    Broken::new("call-that-fails", call_that_fails),
    Broken::new("panic-in-a-call", panic_in_a_call),
    Broken::new("join-with-another-environment", join_with_another_environment),
    Broken::new("join-from-another-environment", join_from_another_environment),
    Broken::new("merge-with-another-environment", merge_with_another_environment),
    Broken::new("merge-from-another-environment", merge_from_another_environment),
];

/// Numbers at a rate, for ever.
fn ticks(env: &Environment) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.generate(1000.0, Some)
}

fn timed(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let at = |n: &u64| Timestamp::from_secs(*n as i64);
    env.iter(0..10u64).assign_timestamps(at, Watermarks::monotonous())
}

fn stream_without_a_sink() -> Result<()> {
    let env = Environment::from_args()?;
    let _doubled = env.range(0..10).map(|n| n * 2);
    env.run()
}

fn side_output_without_a_sink() -> Result<()> {
    let env = Environment::from_args()?;
    let (numbers, _wrong) = env.iter(["1", "x"]).side_output(|text, wrong| {
        let number = text.parse::<u32>();
        number.map_err(|_| wrong.push(text.to_owned())).ok()
    });
    numbers.for_each(drop);
    env.run()
}

fn window_of_no_time() -> Result<()> {
    let env = Environment::from_args()?;
    let windows = EventTimeWindow::tumbling(Duration::ZERO);
    timed(&env).group_by(|n| n % 3).window(windows).count().unkey().for_each(|_| ());
    env.run()
}

fn global_window_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    let windows = ticks(&env).group_by(|n| n % 3).window(GlobalWindow::new());
    windows.count().unkey().for_each(|_| ());
    env.run()
}

fn panic_in_a_window() -> Result<()> {
    let env = Environment::from_args()?;
    let windows = EventTimeWindow::tumbling(Duration::from_secs(5));
    let windows = timed(&env).group_by(|n| n % 3).window(windows);
    let divided = |sum: &mut u64, n: u64| *sum += 10 / (7 - n.min(7));
    windows.fold_assoc(0, divided, |sum, part| *sum += part).unkey().for_each(|_| ());
    env.run()
}

fn join_with_a_right_side_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    let orders = env.range(0..10).group_by(|n| n % 3);
    orders.join(ticks(&env).group_by(|n| n % 3)).unkey().for_each(|_| ());
    env.run()
}

fn symmetric_join_in_a_loop() -> Result<()> {
    let env = Environment::from_args()?;
    let names = env.range(0..3).group_by(|n| *n);
    let joined = env.range(0..10).replay(3, 0, |numbers, _| {
        let numbers = numbers.map(|n| *n).group_by(|n| n % 3);
        numbers.join_with(names).symmetric().inner().unkey()
    });
    let counted = joined.fold(|count: &mut u64, _| *count += 1, |count, part| *count += part);
    counted.all_rounds(|all, count| *all += count).for_each(|_| ());
    env.run()
}

fn loop_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    let replayed = ticks(&env).replay(3, 0, |numbers, _| numbers.map(|n| *n));
    let summed = replayed.fold(|sum: &mut u64, n| *sum += n, |sum, part| *sum += part);
    summed.all_rounds(|all, sum| *all += sum).for_each(|_| ());
    env.run()
}

fn loop_of_no_rounds() -> Result<()> {
    let env = Environment::from_args()?;
    let replayed = env.range(0..10).replay(0, 0, |numbers, _| numbers.map(|n| *n));
    let summed = replayed.fold(|sum: &mut u64, n| *sum += n, |sum, part| *sum += part);
    summed.all_rounds(|all, sum| *all += sum).for_each(|_| ());
    env.run()
}

fn loop_without_a_tail() -> Result<()> {
    let env = Environment::from_args()?;
    let _replayed = env.range(0..10).replay(3, 0, |numbers, _| {
        let (_outcome, doubled) =
            numbers.map(|n| *n).iterate(2, (), |numbers, _| numbers.map(|n| n * 2)).all_rounds();
        doubled
    });
    env.run()
}

fn panic_in_a_loop() -> Result<()> {
    let env = Environment::from_args()?;
    let replayed =
        env.range(0..10).replay(3, 0, |numbers, _| numbers.map(|n| 10 / (5 - n.min(&5))));
    let summed = replayed.fold(|sum: &mut u64, n| *sum += n, |sum, part| *sum += part);
    summed.all_rounds(|all, sum| *all += sum).for_each(|_| ());
    env.run()
}

fn no_calls_in_flight() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..10).map_async(Calls::in_flight(0), async |n| n).for_each(|_| ());
    env.run()
}

fn call_that_fails() -> Result<()> {
    let env = Environment::from_args()?;
    let calls = Calls::in_flight(2);
    let halves = env.range(0..10).try_map_async(calls, async |n| match n {
        7 => Err(std::io::Error::other("the service answers 503")),
        n => Ok(n / 2),
    });
    halves.for_each(|_| ());
    env.run()
}

fn panic_in_a_call() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..10).map_async(Calls::in_flight(2), async |n| 10 / (5 - n.min(5))).for_each(|_| ());
    env.run()
}

fn join_with_another_environment() -> Result<()> {
    let (env, other) = (Environment::from_args()?, Environment::new());
    let joined = env.range(0..9).group_by(|n| *n).join(other.range(0..9).group_by(|n| *n));
    joined.unkey().for_each(|_| ());
    env.run()
}

fn join_from_another_environment() -> Result<()> {
    let (env, other) = (Environment::from_args()?, Environment::new());
    let joined = other.range(0..9).group_by(|n| *n).join(env.range(0..9).group_by(|n| *n));
    joined.unkey().for_each(|_| ());
    env.run()
}

fn merge_with_another_environment() -> Result<()> {
    let (env, other) = (Environment::from_args()?, Environment::new());
    env.range(0..9).merge(other.range(0..9)).for_each(|_| ());
    env.run()
}

fn merge_from_another_environment() -> Result<()> {
    let (env, other) = (Environment::from_args()?, Environment::new());
    other.range(0..9).merge(env.range(0..9)).for_each(|_| ());
    env.run()
}
