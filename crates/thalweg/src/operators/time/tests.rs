//! Tests of when watermarks are emitted, observed by an operator behind `assign_timestamps`.

mod restored;

use super::{WatermarkGenerator, Watermarks};
use crate::check::{every, every_host};
use crate::clock::{Clock, Nanos};
use crate::config::{Config, Scheduler};
use crate::data::Record;
use crate::flow::{Event, Pipe, Push};
use crate::operators::window::EventTimeWindow;
use crate::plan::{Origin, TaskContext};
use crate::stream::Boxed;
use crate::sync::{Mutex, lock};
use crate::time::{Time, Timestamp};
use crate::{Chain, Environment, ErrorKind, Result, Stream};
use std::sync::Arc;
use std::time::Duration;

/// Watermark and idle events, each with the time at which it arrived.
type Log = Arc<Mutex<Vec<(Nanos, Event)>>>;

/// Logs each watermark and idle event that passes.
struct Probe<C>(C, Log);

struct ProbePush<N> {
    log: Log,
    clock: Clock,
    next: N,
}

impl<C: Chain> Chain for Probe<C> {
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<ProbePush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        self.0.attach(cx, ProbePush { log: Arc::clone(&self.1), clock: cx.clock.clone(), next })
    }
}

impl<N: Pipe> Pipe for ProbePush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if matches!(event, Event::Watermark(_) | Event::Idle) {
            lock(&self.log).push((self.clock.now(), event));
        }
        self.next.event(event);
    }
}

impl<I: Record + ?Sized, T: Time, N: Push<I, T>> Push<I, T> for ProbePush<N> {
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.next.push(item, time);
    }
}

fn probed<C: Chain<Time = Timestamp>>(stream: Stream<C>, log: &Log) -> Stream<Probe<C>> {
    stream.then(Origin::here("probe"), |prev, _| Probe(prev, Arc::clone(log)))
}

/// One core, and a clock that jumps to the next event.
fn simulated() -> Environment {
    let mut config =
        Config { scheduler: Scheduler::Deterministic { seed: 1 }, ..Config::default() };
    config.cores = 1.try_into().unwrap();
    Environment::with_config(config)
}

/// The watermarks, in seconds, of a source with one record a second, each with the millisecond in which it was
/// emitted.
fn of_a_record_a_second<G: WatermarkGenerator<u64>>(
    watermarks: Watermarks<G>,
) -> Vec<(u64, Option<i64>)> {
    with_records_at(|n| n < 6, 6, watermarks)
}

/// The same, with records in some of the seconds before `end`.
fn with_records_at<G: WatermarkGenerator<u64>>(
    has_record: fn(u64) -> bool,
    end: u64,
    watermarks: Watermarks<G>,
) -> Vec<(u64, Option<i64>)> {
    let env = simulated();
    let log = Log::default();
    let seconds = env.generate(1.0, move |n| (n < end).then_some(n));
    let seconds = seconds.filter(move |n| has_record(*n));
    let timed = seconds.assign_timestamps(|n| Timestamp::from_secs(*n as i64), watermarks);
    probed(timed, &log).for_each(drop);
    env.run().unwrap();
    let log = lock(&log);
    let begin = log[0].0;
    let shown = log.iter().map(|(now, event)| {
        let at = match event {
            Event::Watermark(at) => Some(at.as_micros() / 1_000_000),
            _ => None,
        };
        ((now - begin) / 1_000_000, at)
    });
    shown.collect()
}

#[test]
fn watermarks_are_sent_at_most_once_in_an_interval() {
    let all = of_a_record_a_second(Watermarks::monotonous());
    let each: Vec<_> = (0..6).map(|n| (1000 * n as u64, Some(n))).collect();
    assert_eq!(all, each);
    let zero = of_a_record_a_second(Watermarks::monotonous().at_most_every(Duration::ZERO));
    assert_eq!(zero, each);
    // Two are emitted with a record, and two when the interval is over, without one.
    let some =
        of_a_record_a_second(Watermarks::monotonous().at_most_every(Duration::from_millis(1500)));
    assert_eq!(some, [(0, Some(0)), (1500, Some(1)), (3000, Some(3)), (4500, Some(4))]);
    let long = of_a_record_a_second(Watermarks::monotonous().at_most_every(Duration::MAX));
    assert_eq!(long, [(0, Some(0))]);
}

#[test]
fn held_back_watermarks_are_sent_before_a_partition_goes_idle() {
    let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(100));
    let events = of_a_record_a_second(watermarks.at_most_every(Duration::from_millis(2500)));
    let expected = [
        (0, Some(0)),
        (100, None),
        // The partition is active again; this watermark does not wait.
        (1000, Some(1)),
        (1100, None),
        (2000, Some(2)),
    ];
    assert_eq!(events[..5], expected);
    let busy = Watermarks::monotonous().idle_after(Duration::from_millis(1200));
    let events = of_a_record_a_second(busy.at_most_every(Duration::from_millis(2500)));
    assert_eq!(events, [(0, Some(0)), (2500, Some(2)), (5000, Some(5))]);
    // A partition that is quiet for long enough does not hold its watermark back until the interval is over.
    let quiet = Watermarks::monotonous().idle_after(Duration::from_millis(1200));
    let quiet = quiet.at_most_every(Duration::MAX);
    let events = with_records_at(|n| !(2..=8).contains(&n), 10, quiet);
    assert_eq!(events, [(0, Some(0)), (2200, Some(1)), (2200, None), (9000, Some(9))]);
}

#[test]
fn a_partition_that_is_active_again_before_its_first_watermark_holds_the_others_back() {
    let marks =
        Watermarks::punctuated(|n: &u64| (*n >= 2).then(|| Timestamp::from_secs(*n as i64)));
    let events = with_records_at(|_| true, 3, marks.idle_after(Duration::from_millis(100)));
    let none_yet = Some(Timestamp::MIN.as_micros() / 1_000_000);
    let expected = [(0, None), (900, none_yet), (1000, None), (1900, Some(2))];
    assert_eq!(events[..4], expected);
}

#[test]
fn marked_records_carry_watermarks() {
    let env = simulated();
    let log = Log::default();
    // Seconds, and the watermark that the record carries.
    let records = [(7, None), (2, None), (9, Some(10)), (3, Some(4)), (12, None), (21, Some(20))];
    let timed = env.generate(1.0, move |n| records.get(n as usize).copied()).assign_timestamps(
        |(second, _)| Timestamp::from_secs(*second),
        Watermarks::punctuated(|(_, mark): &(i64, Option<i64>)| mark.map(Timestamp::from_secs)),
    );
    let windows = probed(timed, &log)
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(Duration::from_secs(10)));
    let out = windows.count().unkey().map(|(_, window)| window.value).to_channel();
    let stats = env.start().unwrap().wait().unwrap();
    assert_eq!(out.map(|count| count.unwrap()).collect::<Vec<_>>(), [3, 1, 1]);
    assert_eq!(stats.operators.iter().map(|op| op.late_records).sum::<u64>(), 1);
    let marks: Vec<_> = lock(&log).iter().map(|(_, event)| *event).collect();
    let marked = |second| Event::Watermark(Timestamp::from_secs(second));
    assert_eq!(marks, [marked(10), marked(20)]);
}

#[test]
fn a_generator_that_panics_is_named() {
    let env = Environment::new();
    let marks = Watermarks::punctuated(|_: &i32| panic!("no mark"));
    env.iter([1]).assign_timestamps(|_| Timestamp::MIN, marks).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.to_string().starts_with("assign_timestamps ("), "{error}");
}

/// Tasks that wait for others may hold a watermark back; none may wait for it forever.
#[test]
fn tasks_that_wait_for_others_go_on() {
    every(|env| {
        let tasks = env.default_tasks() as u64;
        let through = env
            .parallel_iter(|task, _| (0..50_000i64).step_by(if task == 0 { 1 } else { 10 }))
            .assign_timestamps(
                |at| Timestamp::from_micros(*at),
                Watermarks::monotonous()
                    .aligned(Duration::from_micros(1000))
                    .at_most_every(Duration::from_millis(3)),
            )
            .group_by(|_| ())
            .window(EventTimeWindow::tumbling(Duration::from_millis(1)))
            .count()
            .unkey()
            .map(|(_, window)| window.value)
            .collect::<Vec<_>>();
        env.run()?;
        let through = through.take()?;
        assert_eq!((through.len(), through.iter().sum()), (50, 50_000 + (tasks - 1) * 5000));
        Ok(())
    });
}

/// Windows of windows, whose input pauses between the fifth record and the one after 25 s. Returns the sums and the number of
/// late records.
fn after_a_pause(seed: u64) -> (Vec<u64>, u64) {
    let mut config = Config { scheduler: Scheduler::Deterministic { seed }, ..Config::default() };
    config.cores = (2 + seed as usize % 3).try_into().unwrap();
    let env = Environment::with_config(config);
    let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(200));
    let ten = EventTimeWindow::tumbling(Duration::from_secs(10));
    let counts = env
        .generate(1.0, |n| (n < 40).then_some(n))
        .filter(|n| *n < 5 || *n >= 30)
        .assign_timestamps(|n| Timestamp::from_secs(*n as i64), watermarks)
        .group_by(|n| *n)
        .window(ten)
        .count();
    let sums = counts.unkey().map(|(_, pane)| pane.value).window_all(ten).sum(|n| *n);
    let sums = sums.map(|pane| pane.value).to_channel();
    let stats = env.start().unwrap().wait().unwrap();
    let late = stats.operators.iter().map(|op| op.late_records).sum();
    (sums.map(|sum| sum.unwrap()).collect(), late)
}

#[test]
fn windows_of_windows_wait_for_all_tasks_to_hear_that_a_pause_is_over() {
    for seed in 0..20 {
        assert_eq!(after_a_pause(seed), (vec![5, 10], 0), "seed {seed}");
    }
}

/// What a branch has not to say any more as it has ended, and what its other source does not say as it is silent, is not waited for.
#[test]
fn a_branch_that_has_ended_holds_no_event_time_back() {
    let mut config =
        Config { scheduler: Scheduler::Deterministic { seed: 1 }, ..Config::default() };
    config.cores = 2.try_into().unwrap();
    let env = Environment::with_config(config);
    let timed = |keep: fn(&u64) -> bool| {
        let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(200));
        let seconds = env.generate(1.0, |n| (n < 60).then_some(n)).filter(keep);
        seconds.assign_timestamps(|n| Timestamp::from_secs(*n as i64), watermarks)
    };
    let second = EventTimeWindow::tumbling(Duration::from_secs(1));
    let [first, rest] = timed(|_| true).split();
    let some = first.limit(3).merge(timed(|n| *n == 0));
    let some = some.group_by(|_| ()).window(second).count().unkey().map(|(_, pane)| pane.value);
    let counts = some.merge(rest).group_by(|_| ()).window(second).count().unkey();
    let clock = env.clock();
    let times = counts.map(move |(_, pane)| (pane.start, clock.now() / 1_000_000_000)).to_channel();
    env.run().unwrap();
    let times: Vec<_> = times.map(|time| time.unwrap()).collect();
    assert_eq!(times.len(), 60);
    let begun = times[0].1;
    let is_soon =
        |(at, now): &(Timestamp, Nanos)| *now <= begun + at.as_micros() as u64 / 1_000_000 + 2;
    assert!(times.iter().all(is_soon), "{times:?}");
}

/// Records of one source that is idle again and again, a few milliseconds each time.
fn with_pauses(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp>> {
    let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(1));
    env.generate(1000.0, |n| (n < 60).then_some(n))
        .filter(|n| n % 20 < 5)
        .assign_timestamps(|n| Timestamp::from_secs(*n as i64), watermarks)
}

/// However often the only source is idle, and whenever its tasks hear of it: no record is late.
#[test]
fn a_pause_of_the_only_source_makes_nothing_late() {
    let ten = EventTimeWindow::tumbling(Duration::from_secs(10));
    every_host(|env, number| {
        let counted = |records: Stream<Boxed<u64, Timestamp>>| {
            let counts = records.group_by(|n| *n).window(ten).count();
            counts.unkey().map(|(_, pane)| pane.value)
        };
        // In one of two runs, the records meet what has been counted of them, which has a longer way.
        let (all, each) = if number % 2 == 0 {
            (counted(with_pauses(env).boxed()).boxed(), 5)
        } else {
            let [straight, all] = with_pauses(env).split();
            let again = counted(all.boxed()).shuffle().group_by(|n| *n).window(ten).sum(|n| *n);
            let again = again.unkey().map(|(_, pane)| pane.value);
            (straight.map(|_| 1).shuffle().merge(again).boxed(), 10)
        };
        let sums = all.window_all(ten).sum(|n| *n);
        let sums = sums.map(|pane| (pane.start, pane.value)).to_channel();
        let reader = std::thread::spawn(move || sums.collect::<Result<Vec<_>>>());
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        let sums = reader.join().unwrap()?;
        let expected = [0, 20, 40].map(|start| (Timestamp::from_secs(start), each));
        assert_eq!((sums, late), (expected.to_vec(), 0), "run {number}");
        Ok(())
    });
}
