//! Windows of processing time: by the time of arrival on the engine's clock.
//!
//! Records are timestamped by the clock as they leave their task, and the rest are windows of event time, with
//! the clock as the watermark. The clock is read when a batch has been processed, and a task without input is
//! woken when a window ends. `timed` is for streams that have event-time timestamps.

mod timed;

use super::early::Early;
use super::event_time::{AtEnd, Earliness, EventTimeWindow};
use super::frames::Frames;
use super::pane::Pane;
use super::windowed::{Described, Window, Windowing};
use crate::clock::{Clock, Nanos};
use crate::data::{Data, Portable, Record};
use crate::error::Result;
use crate::flow::{Event, Flow, Pipe, Push};
use crate::operators::aggregates::Combine;
use crate::operators::keyed::{KeyBy, KeyedStream};
use crate::plan::{Details, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::{Time, Timestamp};
use std::time::Duration;

/// Windows of equal length at equal distances in processing time, for streams with timestamps and without.
///
/// Like [`EventTimeWindow`], by the time of arrival: a record is in the windows that contain the time at which
/// it was passed to this operator, by the engine's clock. No record is late, and a window emits its result as
/// soon as it has ended, whether or not records arrive. Bounds are calendar time, counted from
/// 1970-01-01T00:00:00Z; the clock of the deterministic scheduler begins there.
///
/// Results depend on when the job ran, and on how fast. If records have timestamps of their own, windows of
/// event time give the same results each time.
///
/// In a stream with timestamps, a result's timestamp is the greatest of its records, and the bounds in its
/// [`Pane`] are of the clock. A watermark is held back until the windows that were open when it arrived have
/// ended, a window's size at most, so that no result with a punctual record is late. In such a stream every
/// record is sent to the task that owns its key, and assigned to windows by its arrival there. Without
/// timestamps, each task aggregates its own records first.
///
/// ```
/// use std::time::Duration;
/// use thalweg::config::{Config, Scheduler};
/// use thalweg::Environment;
/// use thalweg::operators::window::ProcessingTimeWindow;
///
/// // A clock that advances by itself, as fast as possible.
/// let mut config = Config::default();
/// config.scheduler = Scheduler::Deterministic { seed: 1 };
/// let env = Environment::with_config(config);
/// let ticks = env.generate(10.0, |n| (n < 25).then_some(n));
/// let counts = ticks.window_all(ProcessingTimeWindow::tumbling(Duration::from_secs(1))).count();
/// let counts = counts.map(|window| window.value).to_channel();
/// env.run()?;
/// assert_eq!(counts.map(|count| count.unwrap()).collect::<Vec<_>>(), [10, 10, 5]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProcessingTimeWindow<E = AtEnd>(EventTimeWindow<E>);

impl ProcessingTimeWindow {
    /// Windows that follow one another without overlap.
    ///
    /// A size of less than a microsecond is refused at the job's start.
    pub fn tumbling(size: Duration) -> Self {
        Self(EventTimeWindow::tumbling(size).by_clock())
    }

    /// Windows of `size`, one of which begins every `slide`. With a slide greater than the size, the records
    /// between two windows are in no window.
    ///
    /// A size or slide of less than a microsecond is refused at the job's start.
    pub fn sliding(size: Duration, slide: Duration) -> Self {
        Self(EventTimeWindow::sliding(size, slide).by_clock())
    }

    /// Emits results also before windows end, like [`EventTimeWindow::early`](super::EventTimeWindow::early).
    pub fn early(self, early: Early) -> ProcessingTimeWindow<Early> {
        ProcessingTimeWindow(self.0.early(early))
    }
}

impl<E> ProcessingTimeWindow<E> {
    /// Shifts the beginnings of windows by `by`.
    pub fn offset(self, by: Duration) -> Self {
        Self(self.0.offset(by))
    }
}

impl<T: Time, E: Earliness> Window<T> for ProcessingTimeWindow<E> {
    type Pane<V: Data> = Pane<V>;

    fn details(&self) -> Details {
        Window::<Timestamp>::details(&self.0).with("processing_time", true)
    }

    fn fault(&self) -> Option<String> {
        Window::<Timestamp>::fault(&self.0)
    }
}

impl<C, G, P, A, E> Windowing<C, G, P, A> for ProcessingTimeWindow<E>
where
    C: Chain<Time: ByClock<C, G, P, A, E>>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
    E: Earliness,
{
    type Chain = <C::Time as ByClock<C, G, P, A, E>>::Chain;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        C::Time::windows(self.0, keyed, plan, aggregate)
    }
}

/// The time of a stream that is cut into windows by the clock. The implementation decides how.
pub trait ByClock<C, G, P, A, E>: Time
where
    C: Chain,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
{
    /// The chain that ends with the windows.
    #[doc(hidden)]
    type Chain: Chain<Item = (<G::Key as Portable>::Owned, Pane<A::Output>), Time = C::Time>;

    /// Adds the operator.
    #[doc(hidden)]
    fn windows(
        window: EventTimeWindow<E>,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain>;
}

impl<C, G, P, A, E> ByClock<C, G, P, A, E> for ()
where
    C: Chain<Time = ()>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
    E: Earliness,
    EventTimeWindow<E>:
        Windowing<Clocked<C>, G, P, A> + Window<Timestamp, Pane<A::Output> = Pane<A::Output>>,
{
    type Chain = Unclocked<<EventTimeWindow<E> as Windowing<Clocked<C>, G, P, A>>::Chain>;

    fn windows(
        window: EventTimeWindow<E>,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        let frames = window.any_frames();
        let (stream, keys) = keyed.into_parts();
        let Stream { env, chain, stage } = stream;
        let clocked = Stream { env, chain: Clocked { prev: chain, frames }, stage };
        let Stream { env, chain, stage } =
            window.windows(KeyedStream::from_parts(clocked, keys), plan, aggregate);
        Stream { env, chain: Unclocked(chain), stage }
    }
}

/// The chain whose records have their time of arrival as timestamp.
pub struct Clocked<C> {
    prev: C,
    frames: Frames,
}

impl<C: Chain<Time = ()>> Chain for Clocked<C> {
    type Item = C::Item;
    type Time = Timestamp;
    type Task<N: Push<C::Item, Timestamp> + 'static> = C::Task<ClockedPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, Timestamp> + 'static,
    {
        self.prev.attach(cx, ClockedPush::new(cx, self.frames, next))
    }
}

/// Assigns the time of arrival to records in a running task.
pub struct ClockedPush<N> {
    clock: Clock,
    frames: Frames,
    /// The time before this batch, a lower bound of the arrival of its records.
    now: Timestamp,
    /// The end of the current slice.
    edge: Timestamp,
    /// Whether nothing was pushed since the successor was ready, so that an event may be emitted.
    settled: bool,
    next: N,
}

impl<N: Pipe> ClockedPush<N> {
    fn new(cx: &TaskContext<'_>, frames: Frames, next: N) -> Self {
        let clock = cx.clock.clone();
        let now = clock.wall();
        // What came due while a job was interrupted is emitted at once.
        let edge = if cx.is_restored() { now } else { frames.span(frames.slice(now)).1 };
        Self { clock, frames, now, edge, settled: false, next }
    }

    /// Reads the clock. If a slice has ended, emits a watermark and returns true.
    fn look(&mut self) -> bool {
        self.now = self.now.max(self.clock.wall());
        if self.now < self.edge {
            return false;
        }
        self.edge = self.frames.span(self.frames.slice(self.now)).1;
        self.settled = false;
        self.next.event(Event::Watermark(self.now));
        true
    }
}

impl<N: Pipe> Pipe for ClockedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn resume(&mut self) -> Flow {
        let flow = self.next.resume();
        self.settled = flow == Flow::Ready;
        if self.settled && self.look() { Flow::Busy } else { flow }
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = self.next.idle(now);
        if !self.settled {
            return again;
        }
        if self.look() {
            return Some(now);
        }
        let left = self.edge.since(self.now);
        let due = now.saturating_add(crate::clock::nanos(left));
        Some(again.map_or(due, |again| again.min(due)))
    }
}

impl<I: Record + ?Sized, N: Push<I, Timestamp>> Push<I, ()> for ClockedPush<N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, (): ()) {
        self.next.push(item, self.now);
    }
}

/// The chain whose records have no timestamps any more.
pub struct Unclocked<C>(C);

impl<C: Chain<Time = Timestamp>> Chain for Unclocked<C> {
    type Item = C::Item;
    type Time = ();
    type Task<N: Push<C::Item, ()> + 'static> = C::Task<UnclockedPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, ()> + 'static,
    {
        self.0.attach(cx, UnclockedPush(next))
    }
}

/// Removes timestamps in a running task.
pub struct UnclockedPush<N>(N);

impl<N: Pipe> Pipe for UnclockedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }

    fn event(&mut self, event: Event) {
        match event {
            // They are of the clock's time, which later operators do not use.
            Event::Watermark(_) | Event::Idle => {}
            other => self.0.event(other),
        }
    }
}

impl<I: Record + ?Sized, N: Push<I, ()>> Push<I, Timestamp> for UnclockedPush<N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: Timestamp) {
        self.0.push(item, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::every;
    use crate::config::{Config, Scheduler};
    use crate::operators::time::Watermarks;
    use crate::operators::window::Timing;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    /// One core, and a clock that jumps to the next event.
    fn simulated() -> Environment {
        let mut config =
            Config { scheduler: Scheduler::Deterministic { seed: 3 }, ..Config::default() };
        config.cores = 1.try_into().unwrap();
        Environment::with_config(config)
    }

    #[test]
    fn windows_end_by_the_clock_without_a_record() {
        let env = simulated();
        // A record at 0 s and one at 25 s; the result of the first must not wait for the second.
        let seen = env.generate(1.0 / 25.0, |n| (n < 2).then_some(n));
        let windows = seen
            .group_by(|_| 'k')
            .window(ProcessingTimeWindow::sliding(Duration::from_secs(10), Duration::from_secs(5)));
        let clock = env.clock();
        let results = windows
            .count()
            .unkey()
            .map(move |(_, pane)| (pane.start, pane.value, clock.wall()))
            .to_channel();
        env.run().unwrap();
        let results: Vec<_> = results.map(|result| result.unwrap()).collect();
        let expected =
            [(at(-5), 1, at(5)), (at(0), 1, at(10)), (at(20), 1, at(30)), (at(25), 1, at(30))];
        assert_eq!(results[..2], expected[..2]);
        // The input has ended before the last two windows have.
        assert_eq!(
            results[2..].iter().map(|r| (r.0, r.1)).collect::<Vec<_>>(),
            [(at(20), 1), (at(25), 1)]
        );
    }

    #[test]
    fn every_record_is_in_a_window() {
        every(|env| {
            let n = 10_000;
            let window = ProcessingTimeWindow::tumbling(Duration::from_micros(500));
            let counts = env.range(0..n).shuffle().group_by(|n| n % 5).window(window).count();
            let sums = counts.unkey().map(|(key, pane)| (key, pane.value)).keyed().sum(|n| *n);
            let sums = sums.collect::<std::collections::BTreeMap<_, _>>();
            env.run()?;
            assert_eq!(sums.take()?, (0..5).map(|key| (key, n / 5)).collect());
            Ok(())
        });
    }

    /// Records whose timestamps go back by 10 s after every ten records, with a simulated clock.
    #[test]
    fn results_carry_the_greatest_timestamp_and_none_is_late() {
        let env = simulated();
        let seen = env.generate(1.0, |n| (n < 25).then_some(n as i64));
        // The records of ten seconds of the clock have timestamps in one second, from 90 s back to 70 s.
        let happened = |n: &i64| Timestamp::from_millis(90_000 - n / 10 * 10_000 - n % 10);
        let (windows, late) = seen
            .assign_timestamps(happened, Watermarks::bounded_disorder(Duration::from_secs(30)))
            .group_by(|_| 'k')
            .window(ProcessingTimeWindow::tumbling(Duration::from_secs(10)))
            .count()
            .unkey()
            .map(|(_, pane)| (pane.start, pane.end, pane.value))
            .group_by(|_| ())
            .window(EventTimeWindow::tumbling(Duration::from_micros(1)))
            .late_output();
        let results = windows.aggregate(|a| a.to_vec()).unkey();
        let (results, late) = (results.to_channel(), late.to_channel());
        env.run().unwrap();
        assert_eq!(late.count(), 0);
        let results: Vec<_> =
            results.map(|result| result.unwrap().1).map(|pane| (pane.start, pane.value)).collect();
        let result = |time, start, count| (at(time), vec![(at(start), at(start + 10), count)]);
        assert_eq!(results, [result(70, 20, 5), result(80, 10, 10), result(90, 0, 10)]);
    }

    /// Punctual records never lead to late results, whatever the clock does.
    #[test]
    fn watermarks_wait_for_the_windows_they_came_in() {
        every(|env| {
            let n = 5_000_i64;
            let window = ProcessingTimeWindow::sliding(
                Duration::from_micros(300),
                Duration::from_micros(200),
            );
            let (windows, late) = env
                .parallel_iter(move |task, tasks| (task as i64..n).step_by(tasks))
                .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous())
                .group_by(|n| n % 5)
                .window(window)
                .max(|n| *n)
                .unkey()
                .map(|(key, pane)| (key, pane.value))
                .group_by(|_| ())
                .window(EventTimeWindow::tumbling(Duration::from_micros(1)))
                .late_output();
            let results = windows.aggregate(|a| a.to_vec()).unkey();
            let results = results.collect::<Vec<_>>();
            let late = late.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(late.take()?, []);
            let results = results.take()?;
            // Each carries the timestamp of its greatest record, which is that record itself.
            for (_, pane) in &results {
                let greatest = pane.start.as_micros();
                assert!(pane.value.iter().all(|(_, n)| *n == greatest), "{pane:?}");
            }
            // Each record is in at least one window, also the last of a key.
            let given: Vec<i64> =
                results.iter().flat_map(|(_, pane)| &pane.value).map(|(_, n)| *n).collect();
            assert!((n - 5..n).all(|last| given.contains(&last)), "{given:?}");
            Ok(())
        });
    }

    /// Early results by the number of records, with timestamps and without; they carry the greatest timestamp so far.
    #[test]
    fn windows_have_early_results() {
        let expected: Vec<(Timing, u64)> = vec![
            (Timing::Early(1), 4),
            (Timing::Early(2), 8),
            (Timing::OnTime, 10),
            (Timing::Early(1), 4),
            (Timing::OnTime, 5),
        ];
        let window = ProcessingTimeWindow::tumbling(Duration::from_secs(10)).early(Early::every(4));
        let env = simulated();
        let untimed = env.generate(1.0, |n| (n < 15).then_some(n as i64));
        let results = untimed.window_all(window).count().map(|pane| (pane.timing, pane.value));
        let results = results.to_channel();
        env.run().unwrap();
        assert_eq!(results.map(|result| result.unwrap()).collect::<Vec<_>>(), expected);

        let env = simulated();
        let timed = env
            .generate(1.0, |n| (n < 15).then_some(n as i64))
            .assign_timestamps(|n| Timestamp::from_secs(100 + n), Watermarks::monotonous());
        let windows = timed.window_all(window).count();
        let seconds = EventTimeWindow::tumbling(Duration::from_secs(1));
        let (seconds, late) =
            windows.group_by(|pane| (pane.timing, pane.value)).window(seconds).late_output();
        let results = seconds.count().unkey().map(|(result, pane)| (pane.start, result));
        let (results, late) = (results.to_channel(), late.to_channel());
        env.run().unwrap();
        assert_eq!(late.count(), 0);
        let mut results: Vec<_> = results.map(|result| result.unwrap()).collect();
        results.sort();
        let times = [103, 107, 109, 113, 114].map(at);
        assert_eq!(results, times.into_iter().zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn sizes_of_nothing_are_refused() {
        let env = Environment::new();
        let window = ProcessingTimeWindow::tumbling(Duration::ZERO);
        env.iter(0..9).window_all(window).count().for_each(drop);
        assert_eq!(env.run().unwrap_err().kind(), crate::ErrorKind::Plan);
    }
}
