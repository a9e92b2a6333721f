//! A running job, as its handles, its watch and an application share it.

use super::savepoints::Savepoints;
use crate::checkpoint::{CheckpointFile, StateId, Taken};
use crate::clock::Nanos;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Epoch;
use crate::metrics::Stats;
use crate::net::HostId;
use crate::plan::Launched;
use crate::runtime::{Answer, Runtime, SaveOrder};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A job and what it runs on.
pub(crate) struct RunningJob {
    pub(super) launched: Launched,
    pub(super) runtime: Arc<Runtime>,
    pub(super) savepoints: Savepoints,
}

impl RunningJob {
    pub(super) fn new(launched: Launched, runtime: Arc<Runtime>) -> Arc<Self> {
        Arc::new(Self { launched, runtime, savepoints: Savepoints::default() })
    }

    pub(crate) fn launched(&self) -> &Launched {
        &self.launched
    }

    /// What the job has counted so far.
    pub(crate) fn stats(&self) -> Stats {
        self.launched.stats(&self.runtime)
    }

    /// What is known of the job's checkpoints, if it has some.
    #[cfg(feature = "cli")]
    pub(crate) fn checkpoint_stats(&self) -> Option<crate::metrics::CheckpointStats> {
        self.launched.checkpoints.as_ref()?.stats(self.now())
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

    /// Sends a barrier through the job, on all hosts; returns its number when it has left every task, `None` if the job has
    /// failed.
    pub(super) fn barrier(&self) -> Result<Option<Epoch>> {
        self.barrier_watched(false, None, Duration::MAX, |_| Duration::MAX)
    }

    /// As [`barrier`](Self::barrier); the barrier overtakes batches at once.
    pub(super) fn barrier_overtaking(&self) -> Result<Option<Epoch>> {
        self.barrier_watched(false, Some(Duration::ZERO), Duration::MAX, |_| Duration::MAX)
    }

    /// As [`barrier`](Self::barrier), of which no checkpoint is taken.
    pub(super) fn barrier_alone(&self) -> Result<()> {
        if let (Some(epoch), Some(checkpoints)) = (self.barrier()?, &self.launched.checkpoints) {
            // It would pile up until the next checkpoint, as it does on the other hosts.
            checkpoints.drop_saved(epoch);
        }
        Ok(())
    }

    /// As [`barrier`](Self::barrier), and sources read nothing behind the last one; lets the barrier overtake batches after
    /// `overtakes`, if that is set. Calls `late` when the barrier has not passed after `patience`, with the operators of this host at
    /// which it waits, and again after as long as that returns.
    pub(super) fn barrier_watched(
        &self,
        is_last: bool,
        overtakes: Option<Duration>,
        patience: Duration,
        mut late: impl FnMut(&str) -> Duration,
    ) -> Result<Option<Epoch>> {
        let late = |tasks: &[usize], hosts: &[HostId]| {
            late(&self.launched.where_a_barrier_waits(tasks, hosts))
        };
        self.runtime.barrier(&self.launched.job, is_last, overtakes, patience, late)
    }

    /// Whether the job has checkpoints that another run can go on from.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.launched
            .checkpoints
            .as_ref()
            .is_some_and(|checkpoints| checkpoints.storage().is_some())
    }

    /// Requests a last checkpoint, with which the job ends; `why` is how the message of its error begins.
    ///
    /// # Errors
    ///
    /// If the job has no checkpoints.
    pub(crate) fn suspend(&self, why: &str) -> Result<()> {
        self.needs_checkpoints("cannot be suspended")?;
        self.launched.job.suspend(why);
        Ok(())
    }

    fn needs_checkpoints(&self, for_what: &str) -> Result<()> {
        if self.has_checkpoints() {
            return Ok(());
        }
        let what = format!(
            "the job has no checkpoints, so it {for_what}: set `checkpoints` of its `Config`, or `--checkpoint DIR`"
        );
        Err(Error::new(ErrorKind::Config, what))
    }

    /// Takes a checkpoint, and copies it to a directory; `None` on other hosts than the first, and if there are no checkpoints
    /// any more.
    ///
    /// # Errors
    ///
    /// If the job has no checkpoints, or this is one of its closures; what keeps the checkpoint from being taken or copied.
    pub(crate) fn savepoint(&self, to: &Path) -> Result<Option<CheckpointFile>> {
        self.needs_checkpoints("has no savepoints")?;
        self.runtime.may_wait_for(&self.launched.job)?;
        if self.runtime.hosts.me() != HostId::FIRST {
            return Ok(None);
        }
        self.savepoints.request(to).recv().map_or(Ok(None), |answer| answer.map(Some))
    }

    /// What the tasks of this host have saved at a barrier, but for what is superseded; `None` if the job is drained, or has no checkpoints.
    ///
    /// # Errors
    ///
    /// If an operator could not save what it remembers.
    pub(super) fn taken(
        &self,
        epoch: Epoch,
        superseded: BTreeSet<StateId>,
    ) -> Result<Option<Taken>> {
        let Launched { job, checkpoints, .. } = &self.launched;
        let torn = job.signals().torn(epoch);
        // Also of a torn one: what tasks have saved must not pile up.
        let taken = checkpoints.as_ref().map(|checkpoints| checkpoints.take(epoch, superseded));
        // A job that is drained ends as such.
        let is_drained = job.signals().draining();
        if let Some(operator) = torn.filter(|_| checkpoints.is_some() && !is_drained) {
            let what = "no checkpoint: the first round of a loop has begun, and a stream from outside the loop has not ended";
            return Err(Error::new(ErrorKind::Plan, what).in_operator(&*operator));
        }
        // A source that is drained ends before its input does, and operators have given results of a part of it. An operator
        // that has failed has lost a record.
        Ok(taken.transpose()?.filter(|_| !job.signals().draining() && !job.signals().stopped()))
    }

    /// As [`Runtime::wait_saved`].
    pub(super) fn wait_saved(&self) -> Option<Vec<Answer>> {
        self.runtime.wait_saved(&self.launched.job)
    }

    /// As [`Runtime::wait_committed`].
    pub(super) fn wait_committed(&self, epoch: Epoch) {
        self.runtime.wait_committed(&self.launched.job, epoch);
    }

    /// As [`Runtime::failure`].
    pub(super) fn failure(&self) -> Option<Error> {
        self.runtime.failure(&self.launched.job)
    }

    /// As [`Runtime::wait_to_save`].
    pub(super) fn wait_to_save(&self) -> Option<SaveOrder> {
        self.runtime.wait_to_save(&self.launched.job)
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
