//! Tests that operators keep the protocol of stages: no event overtakes the records before it.

use super::join::{AsOf, Interval};
use super::keyed::{FirstOf, Process, ProcessContext, Timer};
use super::time::Watermarks;
use super::window::{
    CountWindow, CustomWindow, EventTimeWindow, MakeWindows, SessionWindow, WindowContext,
};
use crate::check::every;
use crate::data::{Portable, Record};
use crate::flow::{Event, Flow, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::time::{Time, Timestamp};
use crate::{Boxed, Chain, Environment, KeyedStream, Result, Stream};
use std::convert::Infallible;
use std::time::Duration;

/// Panics if an event arrives before `resume` has returned `Flow::Ready` for the records pushed so far.
struct Strict<C>(C);

struct StrictPush<N> {
    ready: bool,
    next: N,
}

impl<C: Chain> Chain for Strict<C> {
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<StrictPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        self.0.attach(cx, StrictPush { ready: true, next })
    }
}

impl<N: Pipe> Pipe for StrictPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        assert!(self.ready, "{event:?} overtakes what may be left of the records before it");
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        let flow = self.next.resume();
        self.ready = flow == Flow::Ready;
        flow
    }
}

impl<I: Record + ?Sized, T: Time, N: Push<I, T>> Push<I, T> for StrictPush<N> {
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.ready = false;
        self.next.push(item, time);
    }
}

type Keyed<T> = KeyedStream<Boxed<(u64, u64), T>, FirstOf>;

fn keyed(env: &Environment) -> Keyed<()> {
    env.iter(0..100).map(|n| (n % 7, n)).boxed().keyed()
}

fn timed(env: &Environment) -> Keyed<Timestamp> {
    let at = |pair: &(u64, u64)| Timestamp::from_secs(pair.1 as i64);
    let timed = keyed(env).unkey().assign_timestamps(at, Watermarks::monotonous());
    timed.boxed().keyed()
}

/// Sets one timer for each record. The end of the input may fire it.
struct Reminded;

impl Process<u64, u64> for Reminded {
    type State = ();
    type Out = u64;
    type Side = Infallible;

    fn start(&self) {}

    fn on_record(
        &self,
        _: &u64,
        (): &mut (),
        _: u64,
        at: Timestamp,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        cx.set_timer(Timer::EventTime(at.saturating_add(Duration::from_secs(3))));
    }

    fn on_timer(
        &self,
        key: &u64,
        (): &mut (),
        _: Timer,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        cx.emit(*key);
    }
}

/// Windows of ten seconds.
struct Tens;

impl MakeWindows<u64> for Tens {
    type Bounds = u64;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, (): &mut (), n: &u64, _: Timestamp, cx: &mut WindowContext<'_, u64>) {
        cx.add_until(n / 10, Timestamp::from_secs((n / 10 * 10 + 10) as i64));
    }
}

/// Runs a job with every scheduler and configuration, and asserts the number of records of its result.
fn holds<C: Chain<Item: Portable>>(count: u64, stream: impl Fn(&Environment) -> Stream<C> + Sync) {
    every(|env| {
        let strict = stream(env).then(Origin::here("strict"), |prev, _| Strict(prev));
        let found = strict.count().collect_one();
        env.run()?;
        assert_eq!(found.take()?.unwrap(), count);
        Ok(())
    });
}

#[test]
fn windows_pass_no_event_before_their_results() {
    let second = Duration::from_secs(1);
    holds(70, |env| timed(env).window(EventTimeWindow::tumbling(10 * second)).count().unkey());
    holds(100, |env| timed(env).window(SessionWindow::new(3 * second)).count().unkey());
    holds(7, |env| timed(env).window(SessionWindow::new(7 * second)).count().unkey());
    holds(70, |env| timed(env).window(CustomWindow::new(Tens)).count().unkey());
    let fives = || CountWindow::tumbling(5).keep_partial();
    holds(21, move |env| keyed(env).window(fives()).count().unkey());
}

#[test]
fn timers_pass_no_event_before_what_they_emit() {
    holds(100, |env| timed(env).process(Reminded).unkey());
}

#[test]
fn joins_pass_no_event_before_their_results() {
    let near = || Interval::within(Duration::from_secs(1));
    let both = |_: &u64, left: &u64, right: Option<&u64>| (*left, right.copied());
    holds(100, move |env| timed(env).interval_left_join(timed(env), near(), both).unkey());
    holds(100, move |env| timed(env).as_of_left_join(timed(env), AsOf::next(), both).unkey());
    holds(7, |env| keyed(env).count().join(keyed(env).count()).unkey());
    holds(7, |env| keyed(env).count().full_join(keyed(env).count()).unkey());
    holds(7, |env| keyed(env).count().join_with(keyed(env).count()).sort_merge().inner().unkey());
}

#[test]
fn operators_that_emit_at_the_end_pass_no_event_before() {
    holds(100, |env| keyed(env).unkey().sorted());
    holds(10, |env| keyed(env).unkey().top(10));
    holds(1, |env| keyed(env).unkey().max(|n| *n));
    holds(15, |env| keyed(env).unkey().parallelism(1).chunks(7));
    holds(7, |env| keyed(env).sum(|n| *n).unkey());
    holds(100, |env| keyed(env).unkey().unique());
    holds(100, |env| {
        let [one, other] = keyed(env).unkey().split();
        let sum = |sum: &mut u64, (_, n): (u64, u64)| *sum += n;
        one.connect_after(other, 0, sum).map(|((_, n), sum)| n + sum)
    });
}
