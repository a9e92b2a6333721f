//! The sink that fills a cache.

use super::Cached;
use crate::data::{Data, Portable};
use crate::error::Error;
use crate::flow::{Event, Op, Pipe, Publish, Push, guard};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::support::replay_buffer::{ReplayBuffer, ReplayWriter};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The parts by task, `None` for tasks that have not ended.
type Left<D, T> = Vec<Option<ReplayBuffer<D, T>>>;

/// Collects the parts of the tasks. Owned by the job, and dropped with it if the job fails.
pub(super) struct Filling<D: Data, T: Time> {
    cached: Cached<D, T>,
    parts: Arc<Mutex<Left<D, T>>>,
}

impl<D: Data + Sync, T: Time> Filling<D, T> {
    pub(super) fn new(cached: Cached<D, T>) -> Self {
        let parts = (0..cached.0.tasks).map(|_| None).collect();
        Self { cached, parts: Arc::new(Mutex::new(parts)) }
    }

    /// The sink of a task.
    pub(super) fn task<I>(&self, cx: &TaskContext<'_>, op: usize) -> Fill<I, D, T>
    where
        I: Portable<Owned = D> + ?Sized,
    {
        Fill {
            op: cx.op(op),
            task: cx.task,
            growing: Some(ReplayWriter::new(cx.modest(op), cx.spill)),
            all: Self { cached: self.cached.clone(), parts: Arc::clone(&self.parts) },
            failed: false,
            records: 0,
            written: 0,
            types: PhantomData,
        }
    }

    /// Stores a task's part. With the last part, the cache is filled once the job has succeeded.
    fn leave(&self, op: &Op, task: usize, part: ReplayBuffer<D, T>) {
        let mut parts = lock(&self.parts);
        parts[task] = Some(part);
        if parts.iter().any(Option::is_none) {
            return;
        }
        let parts: Vec<_> = parts.drain(..).flatten().collect();
        let (cached, filler) = (self.cached.clone(), op.clone());
        op.signals().on_success(move || {
            // A job runs once, so it is not set before. If no handle of the cache is left, the records are dropped here.
            let set = move || guard(&filler, || drop((cached.0.parts.set(parts), cached)));
            Ok(Publish::Result(Box::new(set)))
        });
    }
}

/// Keeps the records of a task.
pub(super) struct Fill<I: ?Sized, D: Data, T: Time> {
    op: Op,
    task: usize,
    /// `None` after the end.
    growing: Option<ReplayWriter<D, T>>,
    all: Filling<D, T>,
    failed: bool,
    records: u64,
    written: u64,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, D: Data + Sync, T: Time> Fill<I, D, T> {
    #[cold]
    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }
}

impl<I: ?Sized, D: Data + Sync, T: Time> Pipe for Fill<I, D, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        if event != Event::End || self.failed {
            return;
        }
        let Some(growing) = self.growing.take() else { return };
        self.records = growing.len();
        match growing.finish() {
            Ok((part, written)) => {
                self.written = written;
                self.all.leave(&self.op, self.task, part);
            }
            Err(error) => self.fail(error),
        }
    }

    fn report(&mut self, report: &mut Report) {
        let records = self.growing.as_ref().map_or(self.records, ReplayWriter::len);
        report.emitted(self.op.id(), records);
        report.kept(self.op.id(), records);
        report.spilled(self.op.id(), self.written);
    }
}

impl<I, T> Push<I, T> for Fill<I, I::Owned, T>
where
    I: Portable<Owned: Sync> + ?Sized,
    T: Time,
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
