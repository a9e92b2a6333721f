//! The sink that fills a cache.
//!
//! Each task keeps its records, and emits their number at its end. The cache is full when the numbers of all tasks are
//! known: on one host they are noted in memory; on several, they are broadcast to a task on each host.

use super::{Cached, Parts};
use crate::data::{Data, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Op, Pipe, Publish, Push, guard};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::support::replay_buffer::{ReplayBuffer, ReplayWriter};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// Collects the parts of the tasks of this host. Owned by the job, and dropped with it if the job fails.
pub(super) struct Filling<D: Data, T: Time> {
    cached: Cached<D, T>,
    state: Arc<Mutex<State<D, T>>>,
}

struct State<D: Data, T: Time> {
    /// By task; `None` for tasks that have not ended, and for those of other hosts.
    parts: Vec<Option<ReplayBuffer<D, T>>>,
    /// The number of records of each task that has ended, on whatever host.
    lens: Vec<Option<u64>>,
}

impl<D: Data, T: Time> Clone for Filling<D, T> {
    fn clone(&self) -> Self {
        Self { cached: self.cached.clone(), state: Arc::clone(&self.state) }
    }
}

impl<D: Data + Sync, T: Time> Filling<D, T> {
    pub(super) fn new(cached: Cached<D, T>) -> Self {
        let tasks = cached.0.tasks;
        let state = State { parts: (0..tasks).map(|_| None).collect(), lens: vec![None; tasks] };
        Self { cached, state: Arc::new(Mutex::new(state)) }
    }

    /// Keeps the records of a task, and passes their number to `next` at the end.
    pub(super) fn task<I, N>(&self, cx: &TaskContext<'_>, op: usize, next: N) -> Fill<I, D, T, N>
    where
        I: Portable<Owned = D> + ?Sized,
    {
        Fill {
            op: cx.op(op),
            task: cx.task,
            growing: Some(ReplayWriter::new(cx.modest(op), cx.spill)),
            all: self.clone(),
            failed: false,
            records: 0,
            written: 0,
            sends: cx.links.hosts().count() > 1,
            next,
            types: PhantomData,
        }
    }

    /// Notes the numbers of records of the tasks.
    pub(super) fn noted(&self, cx: &TaskContext<'_>, op: usize) -> Noted<D, T> {
        Noted { op: cx.op(op), all: self.clone() }
    }

    /// Notes that a task has ended with `len` records. With the last task, the cache is filled once the job has
    /// succeeded.
    fn note(&self, op: &Op, task: usize, len: u64) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(noted) = state.lens.get_mut(task) else {
            return Err(Error::new(ErrorKind::Internal, "a cache has no task with this number"));
        };
        *noted = Some(len);
        let Some(len) = state.lens.iter().copied().sum() else { return Ok(()) };
        let parts = Parts { parts: std::mem::take(&mut state.parts), len };
        drop(state);
        let (cached, filler) = (self.cached.clone(), op.clone());
        op.signals().on_success(move || {
            // A job runs once, so it is not set before. If no handle of the cache is left, the records are dropped here.
            let set = move || guard(&filler, || drop((cached.0.parts.set(parts), cached)));
            Ok(Publish::Result(Box::new(set)))
        });
        Ok(())
    }
}

/// The chain that keeps records, and emits the number of those of each task.
pub(super) struct Filled<C, D: Data, T: Time> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) filling: Filling<D, T>,
}

impl<C, D> Chain for Filled<C, D, C::Time>
where
    C: Chain<Item: Portable<Owned = D>>,
    D: Data + Sync,
{
    type Item = (usize, u64);
    type Time = ();
    type Task<N: Push<Self::Item, ()> + 'static> = C::Task<Fill<C::Item, D, C::Time, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, ()> + 'static,
    {
        self.prev.attach(cx, self.filling.task(cx, self.op, next))
    }
}

/// Receives the numbers of records of the tasks.
pub(super) struct Noted<D: Data, T: Time> {
    op: Op,
    all: Filling<D, T>,
}

impl<D: Data + Sync, T: Time> Pipe for Noted<D, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }
}

impl<D: Data + Sync, T: Time> Push<(usize, u64), ()> for Noted<D, T> {
    fn push(&mut self, (task, len): (usize, u64), (): ()) {
        if let Err(error) = self.all.note(&self.op, task, len) {
            self.op.fail(error);
        }
    }
}

/// Keeps the records of a task.
pub(super) struct Fill<I: ?Sized, D: Data, T: Time, N> {
    op: Op,
    task: usize,
    /// `None` after the end.
    growing: Option<ReplayWriter<D, T>>,
    all: Filling<D, T>,
    failed: bool,
    records: u64,
    written: u64,
    /// Whether the number of records is sent on an exchange.
    sends: bool,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, D: Data + Sync, T: Time, N> Fill<I, D, T, N> {
    #[cold]
    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }
}

impl<I, D, T, N> Pipe for Fill<I, D, T, N>
where
    I: ?Sized,
    D: Data + Sync,
    T: Time,
    N: Push<(usize, u64), ()>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if self.failed {
            return;
        }
        if event == Event::End
            && let Some(growing) = self.growing.take()
        {
            self.records = growing.len();
            match growing.finish() {
                Ok((part, written)) => {
                    self.written = written;
                    if let Some(own) = lock(&self.all.state).parts.get_mut(self.task) {
                        *own = Some(part);
                    }
                    self.next.push((self.task, self.records), ());
                }
                Err(error) => return self.fail(error),
            }
        }
        self.next.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        let records = self.growing.as_ref().map_or(self.records, ReplayWriter::len);
        let emitted = if self.sends { u64::from(self.growing.is_none()) } else { records };
        report.emitted(self.op.id(), emitted);
        self.next.report(report);
        report.kept(self.op.id(), records);
        report.spilled(self.op.id(), self.written);
    }
}

impl<I, T, N> Push<I, T> for Fill<I, I::Owned, T, N>
where
    I: Portable<Owned: Sync> + ?Sized,
    T: Time,
    N: Push<(usize, u64), ()>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if self.failed {
            return;
        }
        let Some(growing) = &mut self.growing else { return };
        if let Err(error) = growing.push(I::to_owned(item), time) {
            self.fail(error);
        }
    }
}
