//! What may surround the jobs of an environment.
//!
//! The engine is a library: it reads no command line, installs no signal handler and never exits.
//! An environment that a program makes by way of the module `cli` carries an [`Application`],
//! which does such things around each of its jobs; any other carries none.

use super::job::Running;
use crate::config::Config;
use crate::error::Result;
use crate::metrics::Stats;
use crate::plan::Plan;
use std::sync::Arc;
use std::time::Duration;

/// What is done around every job of an environment.
pub(crate) trait Application: Send + Sync {
    /// How long something may stand still before it is spoken of; `None` for ever.
    fn patience(&self) -> Option<Duration>;

    /// Speaks of something that stands still.
    fn say(&self, what: &str);

    /// A job that could run is about to. It does not when this fails.
    fn starting(&self, plan: &Plan, config: &Config) -> Result<()>;

    /// A job runs. What is done beside it ends when the result is dropped.
    fn started(&self, job: &Arc<Running>) -> Result<Box<dyn Attendance>>;
}

/// What is done beside one job.
pub(crate) trait Attendance: Send + Sync {
    /// The job is over.
    fn ended(self: Box<Self>, stats: &Stats);
}
