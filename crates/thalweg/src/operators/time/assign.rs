//! Assigns timestamps to records and emits watermarks.

use super::drift::Drift;
use super::saved::{Restored, Saved, SavedGenerator, SavedGenerators, SplitsBefore};
use super::splits::Splits;
use super::watermarks::watermark_of;
use super::{WatermarkGenerator, Watermarks};
use crate::clock::{Clock, Nanos, nanos};
use crate::data::Record;
use crate::error::Result;
use crate::flow::{Depth, Epoch, Event, Flow, Op, PartitionEvent, Partitions, Pipe, Push, guard};
use crate::metrics::{Mark, Report};
use crate::plan::{Origin, TaskContext, TieKind};
use crate::stream::{Chain, Stream};
use crate::support::saved_watermark::Entry as Progress;
use crate::time::{Timestamp, Untimed};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

impl<C: Chain> Stream<C> {
    /// Assigns an event-time timestamp to each record, as operators on event time require.
    ///
    /// The closure returns the timestamp of a record. [`Watermarks`] defines how disordered timestamps may be
    /// within a partition of the source. Each partition has a watermark of its own; where partitions and streams
    /// meet, the least of their watermarks counts. A file is a partition, and so is each split of a connector and
    /// each task of any other source. Therefore assign timestamps close to the source, before records are shuffled: after a shuffle,
    /// the records of a task are a mixture of several orders.
    ///
    /// Files may follow one another in time, as rotated logs do, or cover the same span: if each file is in
    /// order, no record is late, on any number of cores. The beginning of every file is read first, since there
    /// is no watermark as long as one of the files has none; after that, the file with the least watermark is
    /// read next.
    ///
    /// A watermark is emitted when the task has no input at the moment, and otherwise after 0.2 ms or sixteen
    /// batches, whichever comes first, or less often if [`at_most_every`](Watermarks::at_most_every) is set.
    /// Preserves the order of records and the number of tasks, and allocates nothing. Any timestamp is valid,
    /// also before 1970.
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
    ///     .group_by(|_| ())
    ///     .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
    ///     .count();
    /// let out = counts.unkey().map(|(_, window)| (window.start, window.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timestamp::from_secs(0), 2), (Timestamp::from_secs(10), 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("assignTimestampsAndWatermarks", "add_timestamps"))]
    #[track_caller]
    pub fn assign_timestamps<F, G>(
        self,
        find: F,
        watermarks: Watermarks<G>,
    ) -> Stream<Assign<C, F, G>>
    where
        C::Time: Untimed,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> Timestamp + Send + Sync + 'static,
        G: WatermarkGenerator<C::Item>,
    {
        let find = Arc::new(find);
        let drift = watermarks.drift.map(|most| (most, OnceLock::new()));
        let drifts = drift.is_some();
        let (origin, details) = (Origin::here("assign_timestamps"), watermarks.details());
        let timed = self.then_described(origin, details, |prev, op| Assign {
            prev,
            op,
            find,
            watermarks,
            drift,
            splits_before: OnceLock::new(),
        });
        timed.builder().time_origins.assigned(timed.stage);
        let timed = timed.tied(TieKind::Generators);
        if drifts { timed.tied(TieKind::Drift) } else { timed }
    }
}

/// The chain that ends with records that have timestamps.
pub struct Assign<C, F, G> {
    prev: C,
    op: usize,
    find: Arc<F>,
    watermarks: Watermarks<G>,
    /// How far tasks may be apart, and their progress once the first of them is made.
    drift: Option<(Duration, OnceLock<Arc<Drift>>)>,
    /// The generators of splits that tasks go on with, once the first of them is made.
    splits_before: OnceLock<Option<Arc<SplitsBefore<G>>>>,
}

impl<C, F, G> Chain for Assign<C, F, G>
where
    C: Chain<Time: Untimed>,
    F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> Timestamp + Send + Sync + 'static,
    G: WatermarkGenerator<C::Item>,
{
    type Item = C::Item;
    type Time = Timestamp;
    type Task<N: Push<C::Item, Timestamp> + 'static> = C::Task<AssignPush<C::Item, F, G, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, Timestamp> + 'static,
    {
        let drift = match &self.drift {
            Some((most, drift)) => Some(Drift::of_task(drift, *most, cx, self.op)?),
            None => None,
        };
        cx.partitions.expect_watermarks();
        // For the generators of splits that no task has read since the checkpoint. Hosts send nothing on its channel.
        cx.tie(TieKind::Generators, self.op)?;
        let Watermarks { generator, saves, .. } = &self.watermarks;
        let (saved, mut restored) = SavedGenerators::open(saves, cx, self.op, generator)?;
        cx.partitions.restore(restored.files());
        let push = AssignPush {
            task: cx.task,
            saved,
            splits_before: SplitsBefore::of_task(&self.splits_before, restored.splits::<C::Item>()),
            restored: Some(Box::new(restored)),
            before: None,
            drift,
            partitions: Arc::clone(cx.partitions),
            partition: None,
            splits: Splits::new(),
            op: cx.op(self.op),
            find: Arc::clone(&self.find),
            generator: generator.clone(),
            first: generator.clone(),
            interval: self.watermarks.interval.map_or(0, nanos),
            idle_after: self.watermarks.idle_after.map(nanos),
            clock: cx.clock.clone(),
            said: None,
            said_at: 0,
            due: 0,
            held: false,
            batches: 0,
            fresh: 0,
            quiet_since: None,
            paused_since: None,
            moved_at: cx.clock.now(),
            idle: false,
            over: false,
            settled: false,
            epoch: Epoch::default(),
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// How long, in nanoseconds, a watermark may wait in a busy task.
const PATIENCE: Nanos = 200_000;
/// How many batches a watermark may wait if the clock does not advance.
const BATCHES: u32 = 16;
/// How many records may be pushed before the operator pauses, so that its successor can resume.
const MOST: usize = 4096;

/// Assigns timestamps in a running task, and emits watermarks.
pub struct AssignPush<I: ?Sized, F, G, N> {
    task: usize,
    saved: SavedGenerators<G>,
    /// What tasks have saved in the checkpoint that the job began with, until this one begins.
    restored: Option<Box<Restored<G>>>,
    /// The watermark of that checkpoint. It is sent before all else.
    before: Option<Timestamp>,
    /// The generators of splits in that checkpoint, if it has some.
    splits_before: Option<Arc<SplitsBefore<G>>>,
    drift: Option<Arc<Drift>>,
    partitions: Arc<Partitions>,
    /// The partition of the current records, if the source reports pieces of partitions.
    partition: Option<usize>,
    /// The splits that this task alone reads, if the source reports those.
    splits: Splits<G>,
    op: Op,
    find: Arc<F>,
    generator: G,
    /// The initial generator, cloned for each piece of a partition and for each round of a loop.
    first: G,
    /// The minimum time between two watermarks.
    interval: Nanos,
    idle_after: Option<Nanos>,
    clock: Clock,
    /// The last watermark that was sent.
    said: Option<Timestamp>,
    /// When the operator last checked whether the watermark has advanced.
    said_at: Nanos,
    /// When the next watermark may be sent.
    due: Nanos,
    /// Whether a watermark waits for `due`.
    held: bool,
    /// Batches since the last check.
    batches: u32,
    /// Records since the successor was last ready.
    fresh: usize,
    /// When the input ran out.
    quiet_since: Option<Nanos>,
    /// Since when splits could not be read, because a receiver or another task was waited for.
    paused_since: Option<Nanos>,
    /// When the watermark last advanced, or the start of the job.
    moved_at: Nanos,
    /// Whether `Event::Idle` has been emitted since the last watermark.
    idle: bool,
    /// Whether the input has ended.
    over: bool,
    /// Whether nothing was pushed since the successor was ready, so that an event may be emitted.
    settled: bool,
    /// The last barrier that has arrived.
    epoch: Epoch,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, F, G: WatermarkGenerator<I>, N: Pipe> AssignPush<I, F, G, N> {
    /// Takes what the task goes on with. Called when the source is open.
    fn begin(&mut self) {
        let Some(restored) = self.restored.take() else { return };
        let (before, generator) = restored.of_task::<I>(self.partitions.keeps_tasks());
        self.before = before;
        if let Some(generator) = generator {
            self.generator = generator;
        }
    }

    /// What the task has to remember at an event.
    fn to_save(&self, event: Event) -> Saved<G> {
        let own = if self.partition.is_none() { self.own_watermark() } else { None };
        let ended = event == Event::End;
        let at = own.max(self.said).max(self.before);
        let progress = Progress { holds: !self.idle && !ended, ended, at };
        let (mut generators, mut files) = (Vec::new(), Vec::new());
        // What tasks of this host may still enter: one that has ended enters nothing.
        if let Event::Barrier(epoch) = event {
            let before = self.splits_before.iter().flat_map(|before| before.at_barrier(epoch));
            generators.extend(before);
            files = self.partitions.at_barrier(epoch);
        }
        let current = |split, generator: G| SavedGenerator { split, is_current: true, generator };
        if !ended && self.splits.is_empty() && self.partition.is_none() {
            generators.push(current(None, self.generator.clone()));
        }
        for (split, generator) in self.splits.generators(&self.generator).filter(|_| !ended) {
            if let Some(name) = self.partitions.split_name(split) {
                generators.push(current(Some(name), generator));
            }
        }
        Saved { progress, generators, files }
    }

    /// Publishes the progress of this task to the other tasks.
    fn tell(&self) {
        if let Some(drift) = &self.drift {
            let at = self.own_watermark().max(self.said).unwrap_or(Timestamp::MIN);
            drift.move_to(self.task, (!self.idle && !self.over).then_some(at));
        }
    }

    /// The watermark of what this task reads.
    fn own_watermark(&self) -> Option<Timestamp> {
        let current = watermark_of(&self.generator);
        if self.splits.is_empty() { current } else { self.splits.watermark(current) }
    }

    /// What is known of the partitions has changed.
    fn partition(&mut self, event: PartitionEvent) {
        match event {
            PartitionEvent::Piece(partition) => return self.enter(Some(partition)),
            PartitionEvent::PieceEnd => return self.enter(None),
            PartitionEvent::Splits(count) => self.splits.announce(count),
            PartitionEvent::Split(split) => {
                let before = match &self.splits_before {
                    Some(before) if !self.splits.has(split) => {
                        self.partitions.split_name(split).and_then(|name| before.enter(&name))
                    }
                    _ => None,
                };
                let first = before.as_ref().unwrap_or(&self.first);
                let is_new = self.splits.enter(split, &mut self.generator, first);
                // It holds event time back from now on, though it may take long to open.
                if is_new && std::mem::take(&mut self.idle) {
                    (self.quiet_since, self.settled) = (None, false);
                    self.next.event(Event::Watermark(self.said.unwrap_or(Timestamp::MIN)));
                }
            }
            PartitionEvent::Quiet(split) => self.splits.quiet(split, self.clock.now()),
            PartitionEvent::Behind(split) => self.splits.behind(split),
            PartitionEvent::SplitEnd(split) => {
                if let Some(before) = &self.splits_before
                    && let Some(name) = self.partitions.split_name(split)
                {
                    before.end(&name);
                }
                self.splits.end(split, &mut self.generator, &self.first);
            }
            PartitionEvent::NoSplit => {
                if !self.idle {
                    (self.idle, self.settled) = (true, false);
                    self.next.event(Event::Idle);
                }
            }
        }
        self.tell();
    }

    /// The records that follow belong to another partition.
    fn enter(&mut self, partition: Option<usize>) {
        let left = std::mem::replace(&mut self.generator, self.first.clone());
        if let Some(before) = self.partition {
            self.partitions.end(before, self.task, watermark_of(&left));
        }
        self.partition = partition;
        // The other tasks may be waiting for this one, or may no longer have to wait for it.
        self.tell();
    }

    /// Whether this task must wait until the tasks behind it have advanced.
    ///
    /// It does not wait while a barrier is pending. Receivers hold back what other tasks send until the barrier
    /// has arrived from this task too, and the tasks that this one waits for could then not advance.
    ///
    /// In the body of a loop that does not count: what the loop brings in comes between two rounds, so that a barrier would be
    /// pending for the whole of a round. Only streams from outside bring barriers within a round, which are torn.
    ///
    /// Nor does it wait while the job is drained: the source may not get to its end before.
    fn must_wait(&self) -> bool {
        let Some(drift) = &self.drift else { return false };
        let signals = self.op.signals();
        (self.epoch == signals.epoch() || self.op.depth() > Depth::default())
            && !signals.draining()
            && drift.must_wait(self.task)
    }

    /// Splits do not become idle in a time in which the task does not read them.
    fn note_pause(&mut self, flow: Flow) {
        if self.idle_after.is_none() || self.splits.is_empty() {
            return;
        }
        match flow {
            Flow::Busy => {}
            Flow::Ready => {
                if let Some(since) = self.paused_since.take() {
                    self.splits.pass(self.clock.now().saturating_sub(since));
                }
            }
            Flow::Blocked | Flow::Waiting | Flow::Paused => {
                self.paused_since.get_or_insert(self.clock.now());
            }
        }
    }

    /// Emits the watermark if it has advanced, or if this task has to report that it is no longer idle. Returns
    /// whether it was emitted.
    fn say(&mut self, now: Nanos, returned: bool) -> bool {
        (self.said_at, self.batches) = (now, 0);
        // Where all splits are left out, what they have come to is still said.
        let mut own = self.own_watermark();
        if let Some(idle_after) = self.idle_after {
            self.splits.leave_out(now.saturating_sub(idle_after));
            own = own.max(self.own_watermark());
        }
        let watermark = match self.partition {
            Some(partition) => self.partitions.advance(partition, self.task, own),
            None => own,
        };
        let watermark = watermark.max(self.said);
        if watermark <= self.said && !returned {
            self.held = false;
            return false;
        }
        self.held = now < self.due && !returned;
        if self.held {
            return false;
        }
        self.due = now.saturating_add(self.interval);
        if watermark > self.said {
            self.moved_at = now;
        }
        (self.said, self.idle, self.settled) = (watermark, false, false);
        // One that has none yet holds the others back, whatever is to come.
        self.next.event(Event::Watermark(watermark.unwrap_or(Timestamp::MIN)));
        true
    }
}

impl<I, F, G, N> Pipe for AssignPush<I, F, G, N>
where
    I: Record + ?Sized,
    F: Send + Sync,
    G: WatermarkGenerator<I>,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn resume(&mut self) -> Flow {
        self.begin();
        let flow = self.next.resume();
        self.settled = flow == Flow::Ready;
        self.note_pause(flow);
        if !self.settled {
            return flow;
        }
        if let Some(at) = self.before.take() {
            (self.said, self.settled) = (Some(at), false);
            self.tell();
            self.next.event(Event::Watermark(at));
            return Flow::Busy;
        }
        if std::mem::take(&mut self.fresh) > 0 {
            self.quiet_since = None;
            self.splits.has_records();
            self.batches += 1;
            let now = self.clock.now();
            let waited = now.saturating_sub(self.said_at);
            let due = self.idle || self.batches >= BATCHES || waited >= PATIENCE;
            let said = due && self.say(now, self.idle);
            self.tell();
            if said {
                return Flow::Busy;
            }
        }
        if self.must_wait() {
            // The other tasks' progress may depend on the watermark while this task waits for them.
            if self.say(self.clock.now(), false) {
                return Flow::Busy;
            }
            self.settled = false;
            self.note_pause(Flow::Paused);
            // A watermark that is held back is emitted while this task waits; `idle` returns the time.
            return Flow::Paused;
        }
        Flow::Ready
    }

    fn event(&mut self, event: Event) {
        self.begin();
        match event {
            Event::Partition(event) => return self.partition(event),
            Event::End => {
                self.enter(None);
                self.over = true;
                self.tell();
            }
            Event::Round(_) => {
                (self.generator, self.said, self.held) = (self.first.clone(), None, false);
                self.idle = false;
            }
            Event::Barrier(epoch) => self.epoch = epoch,
            Event::Watermark(_) | Event::Idle => {}
        }
        if self.saved.is_due(event) {
            self.saved.save(event, self.to_save(event));
        }
        self.next.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        let still = Duration::from_nanos(self.clock.now().saturating_sub(self.moved_at));
        let excused = self.idle || self.over || self.held;
        let held_by = self.splits.holding(watermark_of(&self.generator));
        let split = held_by.and_then(|split| self.partitions.split_name(split));
        report.watermark(self.op.id(), Mark { at: self.said, still, excused, split });
        self.next.report(report);
    }

    /// Preceding operators may make many records of one, so they pause for watermarks too.
    fn is_full(&mut self) -> bool {
        self.fresh >= MOST || self.next.is_full()
    }

    /// A split that is read in turn waits by itself; the task waits once all that it reads do.
    fn may_read(&mut self, split: usize) -> bool {
        let Some(drift) = &self.drift else { return true };
        let at = self.splits.watermark_of(split, watermark_of(&self.generator));
        // What an idle task reads may be late as long as the task is: it holds the others back when it has read a batch.
        let waits = !self.idle && at.is_some_and(|at| drift.must_hold(self.task, at));
        if waits {
            self.splits.is_not_quiet(split);
        }
        !waits
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = self.next.idle(now);
        let sooner = |due: Nanos| Some(again.map_or(due, |again| again.min(due)));
        // A task whose receivers are slow does not lack input.
        if !self.settled {
            return if self.held { sooner(self.due) } else { again };
        }
        let said = self.say(now, false);
        // Splits that are left out from now on hold back no other one.
        self.tell();
        if said {
            return Some(now);
        }
        let quiet_since = *self.quiet_since.get_or_insert(now);
        let idle_after = self.idle_after.filter(|_| !self.idle);
        let after = |since: Option<Nanos>| Some(since?.saturating_add(idle_after?));
        // A split holds event time back that is not open yet, or may have records that have not come. Others may be left out.
        let idle_at = after(self.splits.all_quiet_since(quiet_since));
        let next = after(self.splits.next_quiet_since()).into_iter().chain(idle_at).min();
        if self.held {
            // A quiet partition emits what it holds before it is idle, or it would hold the others back as long.
            if idle_at.is_some_and(|idle_at| now >= idle_at) {
                self.due = now;
                return Some(now);
            }
            return sooner(next.map_or(self.due, |next| next.min(self.due)));
        }
        if idle_at.is_some_and(|idle_at| now >= idle_at) {
            (self.idle, self.settled) = (true, false);
            if let Some(partition) = self.partition {
                self.partitions.idle(partition, self.task);
            }
            self.tell();
            self.next.event(Event::Idle);
            return Some(now);
        }
        next.map_or(again, sooner)
    }
}

impl<I, T, F, G, N> Push<I, T> for AssignPush<I, F, G, N>
where
    T: Untimed,
    I: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> Timestamp + Send + Sync,
    G: WatermarkGenerator<I>,
    N: Push<I, Timestamp>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        let at = guard(&self.op, || {
            let at = (self.find)(&item);
            self.generator.observe(&item, at);
            at
        });
        self.fresh += 1;
        self.next.push(item, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::{every, every_on_one_host};
    use crate::config::{Config, Scheduler};
    use crate::operators::window::{EventTimeWindow, SessionWindow};
    use crate::sync::{AtomicI64, Ordering};

    /// Measures the greatest distance in event time between the records that two tasks emit at the same time.
    #[test]
    fn partitions_are_kept_together() {
        // Tasks look at the progress of others in memory.
        every_on_one_host(|env| {
            let n = 300_000;
            let most = 20_000;
            let tasks = env.config().cores.get();
            let at: Arc<Vec<AtomicI64>> = Arc::new((0..tasks).map(|_| AtomicI64::new(0)).collect());
            let apart = Arc::new(AtomicI64::new(0));
            let (mine, worst) = (Arc::clone(&at), Arc::clone(&apart));
            let through = env
                // The first task is slow: it has ten records where each other task has one.
                .parallel_iter(move |task, _| {
                    let step = if task == 0 { 1 } else { 10 };
                    (0..n).step_by(step).map(move |at| (task, at))
                })
                .assign_timestamps(
                    |(_, at)| Timestamp::from_micros(*at),
                    Watermarks::monotonous().aligned(Duration::from_micros(most)),
                )
                .inspect(move |(task, now)| {
                    mine[*task].store(*now, Ordering::SeqCst);
                    let least = mine.iter().map(|at| at.load(Ordering::SeqCst)).min();
                    worst.fetch_max(now - least.unwrap_or_default(), Ordering::SeqCst);
                })
                .count()
                .collect_one();
            env.run()?;
            let (n, tasks) = (n as u64, tasks as u64);
            assert_eq!(through.take()?, Some(n + (tasks - 1) * n / 10));
            // Up to `MOST` records pass between two checks, far fewer than there are.
            let allowed = most as i64 + 10 * 2 * MOST as i64;
            assert!(apart.load(Ordering::SeqCst) <= allowed, "{apart:?}");
            Ok(())
        });
    }

    /// Tasks that are ahead wait while receivers of the barrier hold up the task that they wait for.
    #[test]
    fn barriers_pass_partitions_that_are_kept_together() {
        // The barriers of all runs behind which there were records.
        let amid = AtomicI64::new(0);
        every(|env| {
            // With an end: much would be in flight in front of each barrier.
            env.parallel_iter(|task, _| (0..60_000i64).step_by(if task == 0 { 1 } else { 100 }))
                .assign_timestamps(
                    |at| Timestamp::from_micros(*at),
                    Watermarks::monotonous().aligned(Duration::from_micros(1000)),
                )
                .shuffle()
                .for_each(drop);
            let job = env.start()?;
            for _ in 0..3 {
                job.barrier()?;
                amid.fetch_add(i64::from(!job.is_over()), Ordering::Relaxed);
            }
            job.drain();
            job.wait()?;
            Ok(())
        });
        assert!(amid.into_inner() > 0);
    }

    /// All records are of one task, which waits for the other as long as the job runs.
    #[test]
    fn a_barrier_passes_a_partition_that_waits() {
        every(|env| {
            env.iter(0i64..)
                .repartition_by(|_, _| 0)
                .assign_timestamps(
                    |at| Timestamp::from_micros(*at),
                    Watermarks::monotonous().aligned(Duration::from_micros(1000)),
                )
                .for_each(drop);
            let job = env.start()?;
            (0..8).try_for_each(|_| job.barrier())?;
            job.drain();
            job.wait()?;
            Ok(())
        });
    }

    /// Runs two partitions, the second of which is quiet for a minute after its first record. Returns the number of
    /// records in windows and the number of late ones.
    fn with_a_quiet_partition(idle_after: Option<Duration>) -> (u64, u64) {
        let mut config =
            Config { scheduler: Scheduler::Deterministic { seed: 1 }, ..Config::default() };
        config.cores = 1.try_into().unwrap();
        let env = Environment::with_config(config);
        let timed = |rate: f64, last: u64| {
            let mut watermarks = Watermarks::monotonous();
            watermarks.idle_after = idle_after;
            env.generate(rate, move |n| (n <= last).then_some(n))
                .assign_timestamps(|n| Timestamp::from_millis(10 * *n as i64), watermarks)
        };
        let both = timed(100.0, 500).merge(timed(1.0 / 60.0, 1));
        let windows =
            both.group_by(|_| ()).window(EventTimeWindow::tumbling(Duration::from_secs(1)));
        let counts = windows.count().unkey().map(|((), pane)| pane.value).to_channel();
        let stats = env.start().unwrap().wait().unwrap();
        let late = stats.operators.iter().map(|op| op.late_records).sum();
        (counts.map(|count| count.unwrap()).sum(), late)
    }

    /// The record of a task that is idle from then on is in its window, which the other task's watermark ends.
    #[test]
    fn what_came_before_a_task_is_idle_is_not_late() {
        let run = |seed, is_session| {
            let mut config =
                Config { scheduler: Scheduler::Deterministic { seed }, ..Config::default() };
            config.cores = 2.try_into().unwrap();
            let env = Environment::with_config(config);
            let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(200));
            let timed = env
                .generate(100.0, |n| (n < 300).then_some(n))
                .repartition_by(|n, _| usize::from(*n == 0))
                .assign_timestamps(|n| Timestamp::from_millis(10 * *n as i64), watermarks)
                .group_by(|_| ());
            let second = Duration::from_secs(1);
            let counts = match is_session {
                false => {
                    let counts = timed.window(EventTimeWindow::tumbling(second)).count();
                    counts.unkey().map(|((), pane)| pane.value).to_channel()
                }
                true => {
                    let counts = timed.window(SessionWindow::new(second)).count();
                    counts.unkey().map(|((), pane)| pane.value).to_channel()
                }
            };
            let stats = env.start().unwrap().wait().unwrap();
            let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
            (counts.map(|count| count.unwrap()).collect::<Vec<_>>(), late)
        };
        for seed in 0..4 {
            assert_eq!(run(seed, false), (vec![100; 3], 0));
            assert_eq!(run(seed, true), (vec![300], 0));
        }
    }

    #[test]
    fn a_quiet_partition_is_waited_for_unless_it_is_idle() {
        assert_eq!(with_a_quiet_partition(None), (503, 0));
        assert_eq!(with_a_quiet_partition(Some(Duration::from_secs(90))), (503, 0));
        assert_eq!(with_a_quiet_partition(Some(Duration::from_millis(500))), (502, 1));
    }
}
