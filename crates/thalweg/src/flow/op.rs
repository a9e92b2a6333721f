//! What an operator knows of itself and of its job.

use super::{Depth, Epoch};
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::sync::Arc;

/// An operator of a running job: its number in the plan, its name for people, and the way to fail.
#[derive(Clone)]
pub(crate) struct Op(Arc<Inner>);

struct Inner {
    id: usize,
    name: Arc<str>,
    /// How many loops it is within.
    depth: Depth,
    signals: Arc<Signals>,
}

impl Op {
    pub(crate) fn new(id: usize, name: Arc<str>, depth: Depth, signals: Arc<Signals>) -> Self {
        Self(Arc::new(Inner { id, name, depth, signals }))
    }

    /// The operator's number in the plan.
    pub(crate) fn id(&self) -> usize {
        self.0.id
    }

    /// The operator's name, as in messages and plans.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    /// How many loops the operator is within.
    pub(crate) fn depth(&self) -> Depth {
        self.0.depth
    }

    /// Ends the job with this error. Only the first failure of a job counts.
    #[cold]
    pub(crate) fn fail(&self, error: Error) {
        self.0.signals.fail(error.in_operator(&*self.0.name));
    }

    /// What the whole job is told.
    pub(crate) fn signals(&self) -> &Arc<Signals> {
        &self.0.signals
    }
}

/// What every task of a job looks at between batches.
#[derive(Default)]
pub(crate) struct Signals {
    stopped: AtomicBool,
    draining: AtomicBool,
    /// The last barrier that sources are to send.
    epoch: AtomicU64,
    failure: Mutex<Option<Error>>,
    /// What makes the job's output visible, once every task has ended well.
    commits: Mutex<Vec<Commit>>,
}

/// Makes one output of a job visible.
type Commit = Box<dyn FnOnce() -> Result<()> + Send>;

impl Signals {
    /// Records a failure, unless there is one already, and stops the job.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether tasks should drop what they do.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Asks sources to end as if their input had ended.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether sources should end.
    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Asks sources to send one more barrier; answers its number.
    pub(crate) fn ask_barrier(&self) -> Epoch {
        Epoch(self.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The last barrier that sources are to send.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// Adds what is to be done once every task has ended well, and left undone otherwise.
    pub(crate) fn on_success(&self, commit: impl FnOnce() -> Result<()> + Send + 'static) {
        lock(&self.commits).push(Box::new(commit));
    }

    /// Every task has ended: publishes the output, or drops it when the job failed.
    pub(crate) fn commit(&self) {
        let commits = std::mem::take(&mut *lock(&self.commits));
        for commit in commits {
            if self.stopped() {
                return;
            }
            if let Err(error) = commit() {
                self.fail(error);
            }
        }
    }

    /// The first failure, taken out.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }
}
