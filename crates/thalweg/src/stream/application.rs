//! A hook around the jobs of an environment, for applications.
//!
//! The engine is a library: it reads no command line, installs no signal handler and never exits. An environment that
//! the module `cli` makes carries an [`Application`], which does these things around each of its jobs. Any other
//! environment carries none.

use super::running_job::RunningJob;
use crate::checkpoint::PlanComparison;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::metrics::Stats;
use crate::net::Hosts;
use crate::plan::Plan;
use std::path::Path;
use std::sync::Arc;

/// Hooks that run around every job of an environment.
pub(crate) trait Application: Send + Sync {
    /// Called before a job starts. An error here fails the job.
    fn starting(&self, plan: &Plan, config: &Config, hosts: &Hosts) -> Result<()>;

    /// The directory with whose newest checkpoint jobs are to be compared, instead of running.
    fn compares_with(&self) -> Option<&Path>;

    /// Shows the comparison with the newest checkpoint in this directory, and ends the process. Returns if it cannot be
    /// shown.
    fn compared(&self, comparison: &PlanComparison, dir: &Path) -> Error;

    /// Shows a warning to the person who runs the program.
    fn warn(&self, what: &str);

    /// Tells the person who runs the program about a job.
    fn tell(&self, what: &str);

    /// Called when a job has started. Dropping the result ends what this call started.
    fn started(&self, job: &Arc<RunningJob>) -> Result<Box<dyn Attendance>>;
}

/// Work that accompanies one job.
pub(crate) trait Attendance: Send + Sync {
    /// Called when the job is over.
    fn ended(self: Box<Self>, stats: &Stats);
}
