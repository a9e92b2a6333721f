//! A running job, as its handles, its watch and an application share it.

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

    /// Like [`stats`](Self::stats), but waits at most about this long for a task to end its turn.
    ///
    /// # Errors
    ///
    /// The operators of the first task whose turn has not ended by then.
    pub(super) fn stats_within(&self, at_most: Duration) -> Result<Stats, Arc<str>> {
        self.launched.stats_within(&self.runtime, at_most)
    }
}
