//! Warnings about a job. While it runs: windows that wait for a watermark, operators that wait for the program, and
//! tasks that block. At its end: records that were dropped as late.
//!
//! The library prints nothing: warnings are events of the facade `log`, without effect where the program has
//! installed no logger. An application prints them too. Beside warnings, there is the line from which checkpoint a job goes on.

use super::application::Application;
use super::running_job::RunningJob;
use crate::error::Result;
use crate::metrics::{ReportedStalls, Stats, blocked, losses, stalls};
use crate::sync::spawn;
use log::{Level, info, log_enabled, warn};
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The log target of warnings about stalls.
const STALLS: &str = "thalweg::stalls";
/// The log target of warnings about dropped records.
const LATE: &str = "thalweg::late";

/// The log target of what is said about checkpoints.
const CHECKPOINTS: &str = "thalweg::checkpoints";

/// The kinds of operators that may stall.
const WAITING: [&str; 3] = ["assign_timestamps", "channel", "to_channel"];

/// The shortest interval between two checks of a job, whatever the configuration: each check interrupts its tasks.
const SHORTEST: Duration = Duration::from_millis(1);

/// The receiver of a job's warnings: an application, or `log` alone.
#[derive(Clone)]
pub(crate) struct Warnings(Option<Arc<dyn Application>>);

impl Warnings {
    /// The warnings of a job that runs within the hooks of this application, or of none.
    pub(super) fn of(application: Option<&Arc<dyn Application>>) -> Self {
        Self(application.cloned())
    }

    fn warn(&self, target: &str, what: &str) {
        warn!(target: target, "{what}");
        if let Some(application) = &self.0 {
            application.warn(what);
        }
    }

    /// Warns of an operator that makes no progress.
    pub(crate) fn of_stall(&self, what: &str) {
        self.warn(STALLS, what);
    }

    /// Warns of a checkpoint that could not be taken, or read.
    pub(super) fn of_checkpoint(&self, what: &str) {
        self.warn(CHECKPOINTS, what);
    }

    /// Says what is good about checkpoints: no warning.
    pub(super) fn of_recovery(&self, what: &str) {
        info!(target: CHECKPOINTS, "{what}");
        if let Some(application) = &self.0 {
            application.tell(what);
        }
    }

    /// Warns of the late records that a job has dropped; called at its end.
    pub(super) fn of_losses(&self, stats: &Stats) {
        losses(stats).iter().for_each(|loss| self.warn(LATE, loss));
    }
}

/// A thread that checks a job at intervals, until this is dropped.
pub(super) struct Watch {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts the thread for a job with an operator that may stall, if there is an application or a logger to receive
    /// the warnings. Without an application, a bounded job is watched only if it has a `to_channel`.
    pub(super) fn start(
        job: &Arc<RunningJob>,
        patience: Option<Duration>,
        warnings: &Warnings,
    ) -> Result<Option<Self>> {
        let plan = &job.launched().plan;
        let has = |kinds: &[&str]| plan.operators.iter().any(|op| kinds.contains(&&*op.kind));
        let wanted = match &warnings.0 {
            Some(_) => true,
            None => {
                log_enabled!(target: STALLS, Level::Warn)
                    && (!plan.stages.iter().all(|stage| stage.bounded) || has(&["to_channel"]))
            }
        };
        let Some(patience) = patience.filter(|_| wanted && has(&WAITING)) else { return Ok(None) };
        let patience = patience.max(SHORTEST);
        let (stop, stopped) = channel();
        let (job, warnings) = (Arc::downgrade(job), warnings.clone());
        let thread = spawn("thalweg-watch".to_owned(), move || {
            let (mut reported, mut reported_blocked) = (ReportedStalls::default(), BTreeSet::new());
            // The first check is at the beginning; otherwise stalls of the first windows would be reported late.
            let mut before: Option<Stats> = None;
            while let Some(looked) = look(&job, patience) {
                match &looked {
                    Ok(now) => {
                        let before = before.as_ref();
                        let found = before.map(|before| stalls(before, now, patience));
                        for stall in reported.new_stalls(found.unwrap_or_default()) {
                            warnings.of_stall(&stall.warning);
                        }
                    }
                    Err(operators) if reported_blocked.insert(Arc::clone(operators)) => {
                        warnings.of_stall(&blocked(operators, patience));
                    }
                    Err(_) => {}
                }
                before = looked.ok();
                if stopped.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        })?;
        Ok(Some(Self { stop: Some(stop), thread }))
    }

    /// Ends the thread and waits for it; called when the job is over.
    pub(super) fn end(mut self) {
        drop(self.stop.take());
        // It only reads counts; a panic there does not fail the job.
        let _ = self.thread.join();
    }
}

/// The statistics of a job, or the operators of a task that has been in one turn for longer than `patience`, so that
/// a blocked task does not block the watch; `None` when the job is over.
fn look(job: &Weak<RunningJob>, patience: Duration) -> Option<Result<Stats, Arc<str>>> {
    let job = job.upgrade()?;
    (!job.launched().job.is_over()).then(|| job.stats_within(patience))
}
