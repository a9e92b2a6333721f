//! Says of each record when it happened.

use super::{WatermarkGenerator, Watermarks};
use crate::clock::{Clock, Nanos, nanos};
use crate::data::Record;
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::{Mark, Report};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Timestamp;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

impl<C: Chain<Time = ()>> Stream<C> {
    /// Says of each record when it happened, so that what follows can work by event time.
    ///
    /// The closure finds the timestamp in the record. [`Watermarks`] says how disordered they may be:
    /// each task is a partition of its own with its own watermark, and where streams meet, the least
    /// of their watermarks counts. So assign timestamps close to the source, before records are
    /// shuffled: after that, the records of one task are in the order of several.
    ///
    /// A watermark is sent when the task has no input for now, and else after a fifth of a
    /// millisecond or sixteen batches, whichever comes first. Keeps order and tasks; costs no
    /// allocation. Timestamps may lie anywhere, before 1970 too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let readings = env.iter([(0, 20), (4, 22), (11, 19)]);
    /// let counts = readings
    ///     .assign_timestamps(|(second, _)| Timestamp::from_secs(*second), Watermarks::monotonous())
    ///     .group_by(|_| "all")
    ///     .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
    ///     .count();
    /// let out = counts.unkey().map(|(_, window)| (window.start, window.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timestamp::from_secs(0), 2), (Timestamp::from_secs(10), 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn assign_timestamps<F, G>(
        self,
        find: F,
        watermarks: Watermarks<G>,
    ) -> Stream<Assign<C, F, G>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> Timestamp + Send + Sync + 'static,
        G: WatermarkGenerator,
    {
        let find = Arc::new(find);
        self.then(Origin::here("assign_timestamps"), |prev, op| Assign {
            prev,
            op,
            find,
            watermarks,
        })
    }
}

/// The chain that ends in records with timestamps.
pub struct Assign<C, F, G> {
    prev: C,
    op: usize,
    find: Arc<F>,
    watermarks: Watermarks<G>,
}

impl<C, F, G> Chain for Assign<C, F, G>
where
    C: Chain<Time = ()>,
    F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> Timestamp + Send + Sync + 'static,
    G: WatermarkGenerator,
{
    type Item = C::Item;
    type Time = Timestamp;
    type Task<N: Push<C::Item, Timestamp> + 'static> = C::Task<AssignPush<C::Item, F, G, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, Timestamp> + 'static,
    {
        let push = AssignPush {
            op: cx.op(self.op),
            find: Arc::clone(&self.find),
            generator: self.watermarks.generator.clone(),
            idle_after: self.watermarks.idle_after.map(nanos),
            clock: cx.clock.clone(),
            said: None,
            said_at: 0,
            batches: 0,
            fresh: 0,
            quiet_since: None,
            moved_at: cx.clock.now(),
            idle: false,
            over: false,
            settled: false,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// How long a watermark may wait in a busy task.
const PATIENCE: Nanos = 200_000;
/// How many batches it may wait, where the clock stands still.
const BATCHES: u32 = 16;
/// How many records may pass before what follows is asked whether it has anything left.
const MOST: usize = 4096;

/// Assigns timestamps in a running task, and says how far they have come.
pub struct AssignPush<I: ?Sized, F, G, N> {
    op: Op,
    find: Arc<F>,
    generator: G,
    idle_after: Option<Nanos>,
    clock: Clock,
    /// The last watermark that was sent.
    said: Option<Timestamp>,
    said_at: Nanos,
    /// Batches since then.
    batches: u32,
    /// Records since what follows had nothing left.
    fresh: usize,
    /// When the input ran out.
    quiet_since: Option<Nanos>,
    /// When the watermark was last moved, or the job began.
    moved_at: Nanos,
    /// Said to be idle.
    idle: bool,
    /// The input has ended.
    over: bool,
    /// Nothing was pushed since what follows had nothing left, so that an event may be sent.
    settled: bool,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, F, G: WatermarkGenerator, N: Pipe> AssignPush<I, F, G, N> {
    /// Sends the watermark if it has moved; answers whether it has.
    fn say(&mut self, now: Nanos) -> bool {
        (self.said_at, self.batches) = (now, 0);
        let watermark = self.generator.watermark().max(self.said);
        let Some(at) = watermark.filter(|_| watermark > self.said || self.idle) else {
            return false;
        };
        if watermark > self.said {
            self.moved_at = now;
        }
        (self.said, self.idle, self.settled) = (watermark, false, false);
        self.next.event(Event::Watermark(at));
        true
    }
}

impl<I, F, G, N> Pipe for AssignPush<I, F, G, N>
where
    I: Record + ?Sized,
    F: Send + Sync,
    G: WatermarkGenerator,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn resume(&mut self) -> Flow {
        let flow = self.next.resume();
        self.settled = flow == Flow::Ready;
        if !self.settled || std::mem::take(&mut self.fresh) == 0 {
            return flow;
        }
        self.quiet_since = None;
        self.batches += 1;
        let now = self.clock.now();
        let due =
            self.idle || self.batches >= BATCHES || now.saturating_sub(self.said_at) >= PATIENCE;
        if due && self.say(now) { Flow::Busy } else { Flow::Ready }
    }

    fn event(&mut self, event: Event) {
        self.over |= event == Event::End;
        self.next.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        let still = Duration::from_nanos(self.clock.now().saturating_sub(self.moved_at));
        let excused = self.idle || self.over;
        report.watermark(self.op.id(), Mark { at: self.said, still, excused });
        self.next.report(report);
    }

    /// What comes before may make many records of one: they pause for watermarks too.
    fn is_full(&mut self) -> bool {
        self.fresh >= MOST || self.next.is_full()
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = self.next.idle(now);
        // Where receivers are slow, this is no lack of input.
        if !self.settled {
            return again;
        }
        if self.say(now) {
            return Some(now);
        }
        let Some(idle_after) = self.idle_after.filter(|_| !self.idle) else { return again };
        let due = self.quiet_since.get_or_insert(now).saturating_add(idle_after);
        if now >= due {
            (self.idle, self.settled) = (true, false);
            self.next.event(Event::Idle);
            return Some(now);
        }
        Some(again.map_or(due, |again| again.min(due)))
    }
}

impl<I, F, G, N> Push<I, ()> for AssignPush<I, F, G, N>
where
    I: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> Timestamp + Send + Sync,
    G: WatermarkGenerator,
    N: Push<I, Timestamp>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, (): ()) {
        let at = guard(&self.op, || (self.find)(&item));
        self.generator.observe(at);
        self.fresh += 1;
        self.next.push(item, at);
    }
}
