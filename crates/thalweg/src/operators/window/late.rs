//! A side output of the records that arrive too late for their windows.

use super::event_time::{Earliness, EventTimeWindow};
use super::frames::Frames;
use super::windowed::Windowed;
use crate::data::{Portable, Record};
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Event, Forked, Op, Pipe, Push};
use crate::metrics::Report;
use crate::operators::keyed::{KeyedStream, Placed, Plain};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::support::saved_watermark::SavedWatermark;
use crate::time::{EventTime, Timestamp};

/// The windows of the punctual records, and the side output.
type Divided<C, G, P, W, E> = (
    Windowed<Punctual<C, G>, G, P, EventTimeWindow<W>, E>,
    Stream<Received<Late<C, G>, <C as Chain>::Time>>,
);

/// The records of the side output.
type Late<C, G> = <G as Plain<<C as Chain>::Item>>::Record;

impl<C, G, P, W, E> Windowed<C, G, P, EventTimeWindow<W>, E>
where
    C: Chain<Time: EventTime>,
    G: Plain<C::Item, Record: Portable>,
    P: Placed,
    W: Earliness,
{
    /// Sends records that arrive too late for all their windows to a side output, unchanged and with their
    /// timestamps, instead of counting and dropping them.
    ///
    /// A record is late if the watermark of its own partition had passed the end of the last window that it is
    /// in. (Without this call, such a record is still added if the windows wait for another partition.) So
    /// lateness does not depend on the speed of other partitions, and every record is either in the windows or
    /// in the side output, with its key, and never in both. Costs a comparison per record.
    ///
    /// If records are already in the tasks that own their keys, after [`repartition`](KeyedStream::repartition)
    /// for example, the watermark is that of the task, which is merged from all partitions. The records that are
    /// late there are those that the windows would count and drop.
    ///
    /// Call it directly after `window`. The side output must end in a sink, like any other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // A minute's worth of records, one of them twenty seconds late.
    /// let seconds = env.generate(f64::INFINITY, |n| (n < 60_000).then_some(n)).map(|n| {
    ///     let at = n as i64;
    ///     if at == 50_000 { at - 20_000 } else { at }
    /// });
    /// let (windows, late) = seconds
    ///     .assign_timestamps(|at| Timestamp::from_millis(*at), Watermarks::monotonous())
    ///     .group_by(|_| ())
    ///     .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
    ///     .late_output();
    /// let counts = windows.count().unkey().map(|(_, window)| window.value).to_channel();
    /// let late = late.to_channel();
    /// let job = env.start()?;
    /// assert_eq!(late.map(|late| late.unwrap()).collect::<Vec<_>>(), [((), 30_000)]);
    /// assert_eq!(counts.map(|count| count.unwrap()).sum::<u64>(), 59_999);
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn late_output(self) -> Divided<C, G, P, W, E> {
        let origin = Origin::here("late_output");
        let Self { keyed, window, ending } = self;
        let frames = window.any_frames();
        let (stream, keys) = keyed.into_parts();
        let (edge, late) = stream.begin_side_output::<Late<C, G>>(origin);
        let owned = P::IS_PARTITIONED;
        let punctual = stream.then(origin, |prev, op| Punctual { prev, op, frames, owned, edge });
        let keyed = KeyedStream::from_parts(punctual, keys);
        (Windowed { keyed, window, ending }, late)
    }
}

/// The chain that ends with punctual records; late records go to the side output.
pub struct Punctual<C: Chain, G: Plain<C::Item, Record: Portable>> {
    prev: C,
    op: usize,
    frames: Frames,
    /// Whether records are in the tasks that own their keys.
    owned: bool,
    edge: Edge<G::Record, C::Time>,
}

impl<C, G> Chain for Punctual<C, G>
where
    C: Chain<Time: EventTime>,
    G: Plain<C::Item, Record: Portable>,
{
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<PunctualPush<C::Item, C::Time, G, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        let op = cx.op(self.op);
        let late = self.edge.outlet(cx.task, op.clone(), RoundRobin::starting_at(cx.task));
        let frames = self.frames;
        let ends = Forked((next, late));
        let saved = if self.owned { SavedWatermark::of_owner } else { SavedWatermark::new };
        let (saved, passed) = saved(cx, self.op)?;
        self.prev.attach(cx, PunctualPush { op, frames, saved, passed, gone: 0, kept: 0, ends })
    }
}

/// Separates late records from punctual ones in a running task.
pub struct PunctualPush<I, T, G, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: Plain<I, Record: Portable>,
{
    op: Op,
    frames: Frames,
    /// The last watermark.
    passed: Option<Timestamp>,
    gone: u64,
    kept: u64,
    saved: SavedWatermark,
    /// The destinations of punctual records and of late ones.
    ends: Forked<(N, Outlet<G::Record, T, RoundRobin>)>,
}

impl<I, T, G, N> PunctualPush<I, T, G, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: Plain<I, Record: Portable>,
{
    /// Returns whether all windows of a record behind the watermark have ended.
    #[cold]
    fn is_late(&self, at: Timestamp, passed: Timestamp) -> bool {
        let (first, last) = self.frames.windows(self.frames.slice(at));
        first <= last && last <= self.frames.last_over(passed)
    }
}

impl<I, T, G, N> Push<I, T> for PunctualPush<I, T, G, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: Plain<I, Record: Portable>,
    N: Push<I, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let at = time.into();
        match self.passed {
            Some(passed) if at < passed && self.is_late(at, passed) => {
                self.gone += 1;
                self.ends.0.1.push(G::plain(item), time);
            }
            _ => {
                self.kept += 1;
                self.ends.0.0.push(item, time);
            }
        }
    }
}

impl<I, T, G, N> Pipe for PunctualPush<I, T, G, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: Plain<I, Record: Portable>,
    N: Push<I, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Watermark(at) => self.passed = self.passed.max(Some(at)),
            Event::Round(_) => self.passed = None,
            Event::Idle | Event::Partition(_) | Event::Barrier(_) | Event::End => {}
        }
        self.saved.save(event, true, self.passed);
        self.ends.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.kept);
        report.late(self.op.id(), self.gone, 0);
        self.ends.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_sinks, every};
    use crate::config::BatchMode;
    use crate::operators::time::Watermarks;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Every tenth record arrives far too late: it is in a window or in the side output.
    #[test]
    fn every_record_is_in_one_place() {
        let some_late = AtomicBool::new(false);
        every(|env| {
            let n = 6_000_i64;
            let at = |n: i64| if n % 10 == 9 { n - 2_000 } else { n };
            let (windows, late) = env
                .parallel_iter(move |task, tasks| (task as i64..n).step_by(tasks))
                .assign_timestamps(
                    move |n| Timestamp::from_micros(at(*n)),
                    Watermarks::monotonous(),
                )
                .group_by(|n| n % 3)
                .window(EventTimeWindow::sliding(
                    Duration::from_micros(100),
                    Duration::from_micros(100),
                ))
                .late_output();
            let all = windows.aggregate(|a| a.to_vec());
            let all = all.unkey().flat_map(|(_, pane)| pane.value).collect::<Vec<_>>();
            let late = late.collect::<Vec<_>>();
            let stats = env.start()?.wait()?;
            let (mut all, late) = (all.take()?, late.take()?);
            assert!(late.iter().all(|(key, n)| n % 10 == 9 && n % 3 == *key));
            let counted: u64 = stats.operators.iter().map(|op| op.late_records).sum();
            assert_eq!(counted, late.len() as u64, "the windows themselves drop none");
            some_late.fetch_or(counted > 0, Ordering::Relaxed);
            all.extend(late.into_iter().map(|(_, n)| n));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n));
            Ok(())
        });
        assert!(some_late.into_inner());
    }

    #[test]
    fn every_record_is_in_one_place_where_a_job_goes_on() {
        const END: u64 = 3000;
        check_sinks(|env| {
            let at = |n: &u64| {
                let late = if n % 10 == 9 { 1000 } else { 0 };
                Timestamp::from_micros(n.cast_signed() - late)
            };
            let numbers = env.range(0..END).assign_timestamps(at, Watermarks::monotonous());
            let window = EventTimeWindow::tumbling(Duration::from_micros(100));
            let (windows, late) = numbers.group_by(|n| n % 3).window(window).late_output();
            let all = windows.aggregate(|a| a.to_vec()).unkey().flat_map(|(_, pane)| pane.value);
            (all.collect::<Vec<_>>(), late.collect::<Vec<_>>())
        })
        .any_tasks()
        .must_restore()
        .satisfies(|(mut all, late)| {
            if let Some((key, n)) = late.iter().find(|(key, n)| n % 3 != *key) {
                return Err(format!("{n} is late with the key {key}"));
            }
            all.extend(late.into_iter().map(|(_, n)| n));
            all.sort_unstable();
            all.into_iter().eq(0..END).then_some(()).ok_or("other records".to_owned())
        });
    }

    /// In the tasks that own the keys, records that the windows would drop go to the side output, unchanged.
    #[test]
    fn late_records_are_found_in_the_tasks_of_the_keys() {
        let some_late = AtomicBool::new(false);
        every(|env| {
            let n = 6_000_i64;
            let at = |n: i64| if n % 10 == 9 { n - 2_000 } else { n };
            let readings = env
                .parallel_iter(move |task, tasks| (task as i64..n).step_by(tasks))
                .assign_timestamps(
                    move |n| Timestamp::from_micros(at(*n)),
                    Watermarks::monotonous(),
                );
            let window = EventTimeWindow::tumbling(Duration::from_micros(100));
            let (windows, late) =
                readings.group_by(|n| n % 3).repartition().window(window).late_output();
            let all = windows.aggregate(|a| a.to_vec());
            let all = all.unkey().flat_map(|(_, pane)| pane.value).collect::<Vec<_>>();
            let late = late.collect::<Vec<(i64, i64)>>();
            let stats = env.start()?.wait()?;
            let (mut all, late) = (all.take()?, late.take()?);
            assert!(late.iter().all(|(key, n)| n % 10 == 9 && n % 3 == *key));
            let counted: u64 = stats.operators.iter().map(|op| op.late_records).sum();
            assert_eq!(counted, late.len() as u64, "the windows themselves drop none");
            some_late.fetch_or(counted > 0, Ordering::Relaxed);
            all.extend(late.into_iter().map(|(_, n)| n));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n));
            Ok(())
        });
        assert!(some_late.into_inner());
    }

    /// With one partition, and a watermark every few records, it is known exactly which records are late.
    #[test]
    fn the_partition_alone_decides_what_is_late() {
        every(|env| {
            // Long enough for a watermark in between.
            let long = |at: i64| std::iter::repeat_n(at, 40);
            let all = long(250).chain([2]).chain(long(251)).chain([199, 200]);
            let (windows, late) = env
                .iter(all)
                .batch_mode(BatchMode::Single)
                .forward()
                .assign_timestamps(|at| Timestamp::from_micros(*at), Watermarks::monotonous())
                .group_by(|_| ())
                .window(EventTimeWindow::tumbling(Duration::from_micros(100)))
                .late_output();
            let counts = windows.count().unkey().map(|(_, pane)| (pane.start, pane.value));
            let (counts, late) = (counts.collect::<Vec<_>>(), late.collect::<Vec<_>>());
            env.run()?;
            assert_eq!(late.take()?, [((), 2), ((), 199)]);
            assert_eq!(counts.take()?, [(Timestamp::from_micros(200), 81)]);
            Ok(())
        });
    }
}
