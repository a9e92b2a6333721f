//! A running job, as its handles, its watch and an application share it.

use crate::checkpoint::Taken;
use crate::clock::Nanos;
use crate::error::Result;
use crate::metrics::Stats;
use crate::plan::Launched;
use crate::runtime::Runtime;
use std::sync::Arc;
use std::time::Duration;

/// A job and what it runs on.
pub(crate) struct RunningJob {
    pub(super) launched: Launched,
    pub(super) runtime: Arc<Runtime>,
}

impl RunningJob {
    pub(super) fn new(launched: Launched, runtime: Arc<Runtime>) -> Arc<Self> {
        Arc::new(Self { launched, runtime })
    }

    pub(crate) fn launched(&self) -> &Launched {
        &self.launched
    }

    /// What the job has counted so far.
    pub(crate) fn stats(&self) -> Stats {
        self.launched.stats(&self.runtime)
    }

    /// The time of the clock that the job's tasks read.
    pub(super) fn now(&self) -> Nanos {
        self.runtime.clock.now()
    }

    pub(super) fn is_over(&self) -> bool {
        self.launched.job.is_over()
    }

    /// Blocks until the job is over, on a thread that runs no tasks.
    pub(super) fn wait(&self) {
        self.launched.job.wait();
    }

    /// Whether the job is over and has not failed.
    pub(super) fn has_succeeded(&self) -> bool {
        self.launched.job.signals().is_done()
    }

    /// Sends a barrier through the job, and returns what its tasks have saved; `None` if the job has failed, or has no
    /// checkpoints.
    ///
    /// # Errors
    ///
    /// If an operator could not save what it remembers.
    pub(super) fn snapshot(&self) -> Result<Option<Taken>> {
        let Launched { job, checkpoints, .. } = &self.launched;
        let Some(checkpoints) = checkpoints else { return Ok(None) };
        let taken = self.runtime.barrier(job)?.map(|epoch| checkpoints.take(epoch)).transpose()?;
        // A source that is drained ends before its input does, and operators have given results of a part of it.
        Ok(taken.filter(|_| !job.signals().draining()))
    }

    /// Like [`stats`](Self::stats), but waits at most about this long for a task to end its turn.
    ///
    /// # Errors
    ///
    /// The operators of the first task whose turn has not ended by then.
    pub(super) fn stats_within(&self, at_most: Duration) -> Result<Stats, Arc<str>> {
        self.launched.stats_within(&self.runtime, at_most)
    }
}
