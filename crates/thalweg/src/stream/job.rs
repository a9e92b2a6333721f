//! A job that runs.

use super::application::Attendance;
use crate::error::Result;
use crate::metrics::Stats;
use crate::plan::{Launched, Plan};
use crate::runtime::Runtime;
use std::sync::Arc;

/// A job that runs, or has ended.
///
/// Dropping the handle leaves the job running.
pub struct JobHandle {
    running: Arc<Running>,
    /// What an application does beside the job; nothing for a job of a library.
    attendance: Option<Box<dyn Attendance>>,
}

/// A job and what it runs on.
pub(crate) struct Running {
    launched: Launched,
    runtime: Arc<Runtime>,
}

impl Running {
    pub(super) fn new(launched: Launched, runtime: Arc<Runtime>) -> Arc<Self> {
        Arc::new(Self { launched, runtime })
    }

    pub(crate) fn launched(&self) -> &Launched {
        &self.launched
    }
}

impl JobHandle {
    pub(super) fn new(running: Arc<Running>, attendance: Option<Box<dyn Attendance>>) -> Self {
        Self { running, attendance }
    }

    /// Waits until the job is over, and gives what it counted.
    ///
    /// # Errors
    ///
    /// The first failure of any of its tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..100).map(|n| n * n).count();
    /// let stats = env.start()?.wait()?;
    /// assert_eq!(stats.operators[1].records_out, Some(100));
    /// assert_eq!(out.take()?, 100);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn wait(mut self) -> Result<Stats> {
        let Running { launched, runtime } = &*self.running;
        runtime.wait(&launched.job);
        let stats = launched.stats(runtime);
        if let Some(attendance) = self.attendance.take() {
            attendance.ended(&stats);
        }
        launched.job.outcome().map(|()| stats)
    }

    /// Whether the job is over.
    pub fn is_over(&self) -> bool {
        self.running.launched.job.is_over()
    }

    /// What the job has counted so far. Waits for the tasks that run to end their turns, which
    /// takes milliseconds unless a closure blocks; the job goes on meanwhile.
    pub fn stats(&self) -> Stats {
        self.running.launched.stats(&self.running.runtime)
    }

    /// Ends the job as soon as its tasks have ended their turns. What it has computed is dropped,
    /// and [`wait`](Self::wait) gives an error of kind
    /// [`Cancelled`](crate::ErrorKind::Cancelled). A job that is over stays as it ended.
    pub fn cancel(&self) {
        self.running.launched.job.cancel("the job was cancelled");
    }

    /// Ends the job's sources as if their input had ended: what was read is worked through, and
    /// the job ends well.
    pub fn drain(&self) {
        self.running.launched.job.drain();
    }

    /// The plan that the job runs by.
    pub fn plan(&self) -> &Plan {
        &self.running.launched.plan
    }
}
