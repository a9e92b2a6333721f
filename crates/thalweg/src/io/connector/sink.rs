//! Sinks that commit in two phases.
//!
//! What a writer has prepared waits in its task's [`Pending`] until it may be committed. Three threads come to it: the task's
//! own, which adds to it at barriers and at the end; the one that takes checkpoints, which flushes it before a checkpoint
//! counts, and commits it afterwards; and the one that ends the job, which flushes and commits what is left. An epoch whose
//! checkpoint could not be taken is committed with the next one, so every checkpoint has all that waits. So have those after
//! the end of the task, until all of it is committed; later ones have nothing of it, since a system outside forgets old commits, and
//! would take one that comes again for a new one.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{
    Depth, Epoch, Event, Flow, Op, Pipe, Publish, Push, Signals, Waker, WeakWaker, catch, guard,
};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::time::Time;
use std::fmt;
use std::sync::{Arc, Weak};

/// A sink that commits in two phases. See the [module](super).
pub trait Sink: Send + Sync + 'static {
    /// What it takes: an owned value, or `str`, `[u8]` and other kinds that are borrowed.
    type Item: Record + ?Sized;
    /// What is needed to commit that which a writer has prepared, in this run of the job or another one.
    type Commit: Data + Clone + Send + 'static;
    /// Writes the records of a task.
    type Writer: SinkWriter<Item = Self::Item, Commit = Self::Commit>;

    /// What is written, for plans and messages: `kafka topic totals`. On several hosts, and in every run that goes on from a
    /// checkpoint, it must be the same.
    fn describe(&self) -> String;

    /// Makes the writer of a task, before the job runs. May block.
    ///
    /// All that the checkpoint has is committed by then, for all tasks. What a run before it has written and not prepared for
    /// that checkpoint will be written again: this is the place to throw it away. No task of this run, on any host, has written
    /// anything.
    ///
    /// # Errors
    ///
    /// The job does not start: for example a sink that would never commit in a job that does not end and has no
    /// [checkpoints](SinkContext::has_checkpoints).
    fn open(&self, cx: &SinkContext) -> Result<Self::Writer>;

    /// Makes visible what a writer has prepared. It may have been committed before, wholly or in part; then nothing may
    /// change that is visible already. May block. Commits of a task come in the order in which they were prepared; those of
    /// different tasks may come at the same time. When a job goes on, each host commits all that the checkpoint has, perhaps at the
    /// same time as another one.
    ///
    /// # Errors
    ///
    /// They end the job, and the run that goes on from its last checkpoint commits again. What may be over in a moment is
    /// best tried again here.
    fn commit(&self, commit: &Self::Commit) -> Result<()>;
}

/// Writes the records of one task. See the [module](super).
pub trait SinkWriter: Send + 'static {
    /// As of the [sink](Sink::Item).
    type Item: Record + ?Sized;
    /// As of the [sink](Sink::Commit).
    type Commit;

    /// Takes a record. Does not block.
    ///
    /// # Errors
    ///
    /// They end the job.
    fn write(&mut self, item: <Self::Item as Record>::Of<'_>) -> Result<()>;

    /// Whether records should stop for now: the writer has as much as it can hold, and calls [`SinkWaker::wake`] when that has
    /// changed. Some hundred records may follow all the same. Barriers wait, too, so that a writer is full that cannot prepare
    /// yet. Called often.
    fn is_full(&mut self) -> bool {
        false
    }

    /// Whether as much was written since the last barrier as should be prepared at once. Records stop until the next one, and a
    /// checkpoint is taken as soon as can be, so that a sink that keeps records until they are committed makes sources
    /// wait that are faster. Unlike where it [is full](Self::is_full), what is in front of a barrier on its way is written all the
    /// same. Called as often, in jobs with checkpoints.
    fn has_enough(&mut self) -> bool {
        false
    }

    /// There are no records for now: what is held back for larger batches should be sent. Does not block.
    ///
    /// # Errors
    ///
    /// They end the job.
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    /// Prepares all that was written since the last time, or since the writer was made; `None` if that is nothing. Records that
    /// follow are not part of it. Called at the barriers of checkpoints, and at the end. Does not block: what has to be waited
    /// for is done by [`Prepared::after`].
    ///
    /// # Errors
    ///
    /// They end the job.
    fn prepare(&mut self) -> Result<Option<Prepared<Self::Commit>>>;
}

/// What a writer has prepared.
pub struct Prepared<C> {
    commit: C,
    flush: Option<Flush>,
}

type Flush = Box<dyn FnOnce() -> Result<()> + Send>;

impl<C> Prepared<C> {
    /// It is complete, and durable: this value is all that is needed to commit it.
    pub fn new(commit: C) -> Self {
        Self { commit, flush: None }
    }

    /// It is complete and durable once this has returned. It is called on a thread that may block, before the checkpoint
    /// counts. Its errors end the job.
    pub fn after(self, flush: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        Self { flush: Some(Box::new(flush)), ..self }
    }
}

impl<C: fmt::Debug> fmt::Debug for Prepared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("commit", &self.commit).finish_non_exhaustive()
    }
}

/// What is known when a writer is made.
#[derive(Debug)]
pub struct SinkContext {
    operator: Arc<str>,
    task: usize,
    tasks: usize,
    id: Option<u64>,
    is_restored: bool,
    waker: SinkWaker,
    /// An empty one, of the writer's task.
    memory: Reservation,
    signals: Arc<Signals>,
}

impl SinkContext {
    /// As [`Signals::when_made`].
    pub(crate) fn when_made(&self, then: impl FnOnce() + Send + 'static) {
        self.signals.when_made(then);
    }

    /// The operator that writes, as errors name it: `write (src/main.rs:9)`. For what a connector logs; the engine adds it to errors
    /// itself.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// The number of the writer's task, from 0.
    pub fn task(&self) -> usize {
        self.task
    }

    /// How many tasks have a writer, on all hosts. It may differ from run to run.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Whether the job has checkpoints, with each of which something may be committed. Without them, the job commits when it has
    /// ended well.
    pub fn has_checkpoints(&self) -> bool {
        self.id.is_some()
    }

    /// A number that this sink has in every run of the job with the same directory of checkpoints, and no other sink has: by it,
    /// a sink tells what an earlier run has left. `None` in a job without checkpoints.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// Whether the job goes on from a checkpoint.
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// An empty reservation from the job's memory, for what a writer keeps; its [`pool`](Reservation::pool) says how much there is
    /// in all. Where it is refused, the writer [has enough](SinkWriter::has_enough), or fails with [`Reservation::refused`].
    pub fn reserve(&self) -> Reservation {
        self.memory.another()
    }

    /// What a commit looks at that has to wait.
    pub fn cancellation(&self) -> CancellationToken {
        CancellationToken(Arc::downgrade(&self.signals))
    }

    /// What a writer calls that was [full](SinkWriter::is_full).
    pub fn waker(&self) -> SinkWaker {
        self.waker.clone()
    }
}

/// Whether a job was cancelled, or has failed.
///
/// A commit that waits for a system outside looks at it, and gives up with an error: a job that is
/// [cancelled](crate::JobHandle::cancel) waits for it otherwise. In a job with checkpoints, what was not committed is committed by its
/// next run.
#[derive(Clone)]
pub struct CancellationToken(Weak<Signals>);

impl CancellationToken {
    /// Whether it was; also when the job is gone.
    pub fn is_cancelled(&self) -> bool {
        self.0.upgrade().is_none_or(|signals| signals.is_cancelled())
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancellationToken").field(&self.is_cancelled()).finish()
    }
}

/// Makes the engine go on with a writer that was [full](SinkWriter::is_full).
#[derive(Clone)]
pub struct SinkWaker(WeakWaker);

impl SinkWaker {
    /// The writer may not be full any more. Any thread may call it, at any time.
    pub fn wake(&self) {
        self.0.wake();
    }
}

impl fmt::Debug for SinkWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkWaker").finish_non_exhaustive()
    }
}

impl<C: Chain> Stream<C> {
    /// Writes the records to a sink that [commits in two phases](Sink), each task what it has.
    ///
    /// Each record is committed exactly once in a job with checkpoints, if the sink keeps its promises: with the first
    /// checkpoint that counts after the record was written, or at the end of the job. Without checkpoints, all is
    /// committed when the job has ended well, and nothing if it has not; where one of several commits fails then, the error
    /// lists what was committed. Writers of several tasks know nothing of each other; see
    /// [`parallelism`](Self::parallelism) for fewer of them.
    ///
    /// The example is that of the module [`connector`](crate::connector).
    #[doc(alias("sinkTo", "addSink"))]
    #[track_caller]
    pub fn write<K: Sink<Item = C::Item>>(self, sink: K) {
        let details = Details::of("sink", sink.describe());
        let sink = Arc::new(sink);
        let is_committed = AtomicBool::new(false);
        self.close_in_sink(Origin::here("write"), details, move |cx, op| {
            WritePush::open(&sink, &is_committed, cx, op)
        });
    }
}

/// What the writer of a task has prepared and is not committed yet, in the order of its epochs.
struct Pending<K: Sink> {
    sink: Arc<K>,
    operator: Arc<str>,
    /// Of the job, which holds this in what its tasks have saved at their end.
    signals: Weak<Signals>,
    /// The task, whose writer may have room again when something is committed.
    task: WeakWaker,
    waiting: Mutex<Vec<Waiting<K::Commit>>>,
    /// Held while something is committed, so that commits are in order.
    committing: Mutex<()>,
}

struct Waiting<C> {
    epoch: Epoch,
    commit: C,
    flush: Arc<Mutex<Flushing>>,
}

enum Flushing {
    Needed(Flush),
    Done,
    Failed,
}

impl<K: Sink> Pending<K> {
    fn add(&self, epoch: Epoch, Prepared { commit, flush }: Prepared<K::Commit>) {
        let flush = flush.map_or(Flushing::Done, Flushing::Needed);
        let flush = Arc::new(Mutex::new(flush));
        lock(&self.waiting).push(Waiting { epoch, commit, flush });
    }

    /// Completes what was prepared up to a barrier.
    ///
    /// # Errors
    ///
    /// The job has failed then, for what was written is lost.
    fn flush(&self, until: Epoch) -> Result<()> {
        let waiting = lock(&self.waiting);
        let due = waiting.iter().filter(|waiting| waiting.epoch <= until);
        let due: Vec<_> = due.map(|waiting| Arc::clone(&waiting.flush)).collect();
        drop(waiting);
        for flush in due {
            let mut flush = lock(&flush);
            match std::mem::replace(&mut *flush, Flushing::Failed) {
                Flushing::Done => {}
                Flushing::Needed(call) => {
                    if let Err(error) = catch(call).and_then(|flushed| flushed) {
                        return Err(self.failed(error));
                    }
                }
                Flushing::Failed => return Err(self.lost()),
            }
            *flush = Flushing::Done;
        }
        Ok(())
    }

    /// Commits what was prepared up to a barrier.
    fn commit(&self, until: Epoch) -> Result<()> {
        let _committing = lock(&self.committing);
        loop {
            let waiting = lock(&self.waiting);
            let next = waiting.first().filter(|waiting| waiting.epoch <= until);
            let Some(commit) = next.map(|waiting| waiting.commit.clone()) else { return Ok(()) };
            drop(waiting);
            catch(|| self.sink.commit(&commit))
                .and_then(|committed| committed)
                .map_err(|error| error.in_operator(&*self.operator))?;
            // Still the first: others are added behind it.
            let committed = lock(&self.waiting).remove(0);
            drop((commit, committed));
            self.task.wake();
        }
    }

    /// Whether all that was prepared is committed.
    fn is_committed(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// Ends the job with an error; returns what is said of the checkpoint.
    fn failed(&self, error: Error) -> Error {
        if let Some(signals) = self.signals.upgrade() {
            signals.fail(error.in_operator(&*self.operator));
        }
        self.lost()
    }

    fn lost(&self) -> Error {
        let what = "what was written could not be completed";
        Error::new(ErrorKind::Io, what).in_operator(&*self.operator)
    }
}

struct WritePush<K: Sink> {
    op: Op,
    /// `None` once it has ended or failed.
    writer: Option<K::Writer>,
    pending: Arc<Pending<K>>,
    state: StateHandle,
    /// The last barrier that has arrived.
    epoch: Epoch,
    count: u64,
    /// The writer's does not keep it.
    _waker: Waker,
}

impl<K: Sink> WritePush<K> {
    fn open(
        sink: &Arc<K>,
        is_committed: &AtomicBool,
        cx: &TaskContext<'_>,
        id: usize,
    ) -> Result<Self> {
        let state = cx.state::<K::Commit>(id, "prepared", Redistribution::United);
        let op = cx.op(id);
        let named = |error: Error| error.in_operator(&*op.name());
        let is_trial = cx.is_trial();
        // By the first task of each host, for all: writers may throw away what is left then.
        let commits = !is_committed.swap(true, Ordering::AcqRel) && !is_trial;
        state.restore(|commit: K::Commit| match commits {
            true => guard(&op, || sink.commit(&commit)),
            false => Ok(()),
        })?;
        let context = SinkContext {
            operator: op.name(),
            task: cx.task,
            tasks: cx.tasks,
            id: cx.checkpointed_id(id),
            is_restored: cx.is_restored(),
            waker: SinkWaker(cx.waker.downgrade()),
            memory: cx.fixed(id),
            signals: Arc::clone(op.signals()),
        };
        let writer = match is_trial {
            true => None,
            false => Some(guard(&op, || sink.open(&context)).map_err(named)?),
        };
        let pending = Arc::new(Pending {
            sink: Arc::clone(sink),
            operator: op.name(),
            signals: Arc::downgrade(op.signals()),
            task: cx.waker.downgrade(),
            waiting: Mutex::default(),
            committing: Mutex::default(),
        });
        let epoch = Epoch::default();
        Ok(Self { op, writer, pending, state, epoch, count: 0, _waker: cx.waker.clone() })
    }

    /// At a barrier or the end: prepares what was written, and saves all that waits to be committed.
    fn prepare(&mut self, event: Event, epoch: Epoch) {
        let Some(writer) = &mut self.writer else { return };
        match guard(&self.op, || writer.prepare()) {
            Ok(Some(prepared)) => self.pending.add(epoch, prepared),
            Ok(None) => {}
            Err(error) => return self.fail(error),
        }
        self.state.save(event, |out| {
            lock(&self.pending.waiting).iter().for_each(|waiting| out.add(&waiting.commit));
            let pending = Arc::clone(&self.pending);
            out.before_it_counts(move || pending.flush(epoch));
            let pending = Arc::clone(&self.pending);
            out.once_it_counts(move || pending.commit(epoch));
            let pending = Arc::clone(&self.pending);
            out.until(move || pending.is_committed());
        });
    }

    fn writer_is_full(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|writer| guard(&self.op, || writer.is_full()))
    }

    /// Whether records should wait for a checkpoint, which is requested unless it is on its way. They do not where none would
    /// come: in a loop, while the job is drained, or where the program itself takes them; nor while a barrier that has
    /// overtaken batches is still in tasks in front of this one, which may wait for this task.
    fn waits_for_checkpoint(&mut self) -> bool {
        let Some(writer) = self.writer.as_mut().filter(|_| self.state.is_on()) else {
            return false;
        };
        let signals = self.op.signals();
        let comes = signals.has_checkpoints() && !signals.draining();
        let is_in_loop = self.op.depth() > Depth::default();
        if !comes || self.epoch < signals.epoch() || signals.overtakes() || is_in_loop {
            return false;
        }
        let waits = guard(&self.op, || writer.has_enough());
        if waits {
            signals.want_checkpoint();
        }
        waits
    }

    /// At the end: what is left is committed when the job ends well.
    fn end(&mut self) {
        self.writer = None;
        let pending = Arc::clone(&self.pending);
        let name = format!("{} ({})", pending.sink.describe(), self.op.name());
        self.op.signals().on_success(move || {
            pending.flush(Epoch::LAST)?;
            let rename = Box::new(move || pending.commit(Epoch::LAST));
            Ok(Publish::File { name, rename })
        });
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.writer = None;
        self.op.fail(error);
    }
}

impl<K: Sink> Pipe for WritePush<K> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Barrier(epoch) => {
                self.epoch = epoch;
                if self.state.is_on() {
                    self.prepare(event, epoch);
                }
            }
            Event::End => {
                self.prepare(event, Epoch::LAST);
                self.end();
            }
            _ => {}
        }
    }

    fn resume(&mut self) -> Flow {
        if self.writer_is_full() {
            Flow::Blocked
        } else if self.waits_for_checkpoint() {
            // Every barrier has passed that is known.
            Flow::Paused
        } else {
            Flow::Ready
        }
    }

    fn is_full(&mut self) -> bool {
        self.writer_is_full() || self.waits_for_checkpoint()
    }

    fn idle(&mut self, _: crate::clock::Nanos) -> Option<crate::clock::Nanos> {
        let writer = self.writer.as_mut()?;
        if let Err(error) = guard(&self.op, || writer.rest()) {
            self.fail(error);
        }
        None
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.count);
    }
}

impl<K: Sink, T: Time> Push<K::Item, T> for WritePush<K> {
    #[inline(always)]
    fn push(&mut self, item: <K::Item as Record>::Of<'_>, _: T) {
        let Some(writer) = &mut self.writer else { return };
        self.count += 1;
        if let Err(error) = guard(&self.op, || writer.write(item)) {
            self.fail(error);
        }
    }
}
