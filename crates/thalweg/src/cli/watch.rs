//! Looks now and then whether windows wait for a watermark that does not come, or the job for the program, and
//! says so.

use crate::config::Stalls;
use crate::error::Result;
use crate::metrics::{Stats, Told, stalls};
use crate::stream::Running;
use crate::sync::spawn;
use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// The operators that may.
const WAITING: [&str; 3] = ["assign_timestamps", "channel", "to_channel"];

/// A thread that looks at a job until this is dropped.
pub(super) struct Watch {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a job, if that is wanted and the job has an operator that may wait for what never comes.
    pub(super) fn start(job: &Arc<Running>, after: Stalls) -> Result<Option<Self>> {
        let Stalls(Some(patience)) = after else { return Ok(None) };
        let plan = &job.launched().plan;
        if !plan.operators.iter().any(|op| WAITING.contains(&&*op.kind)) {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let job = Arc::downgrade(job);
        let thread = spawn("thalweg-watch".to_owned(), move || {
            let mut told = Told::default();
            // At its beginning too, or the first windows could wait for twice as long in silence.
            let Some(mut before) = look(&job) else { return };
            while stopped.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let Some(now) = look(&job) else { break };
                for stall in told.worth(stalls(&before, &now, patience)) {
                    // A job goes on where nobody reads what is said of it.
                    let _ = writeln!(std::io::stderr(), "{}", stall.said);
                }
                before = now;
            }
        })?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only looks; a panic there is no reason to fail a job that went well.
            let _ = thread.join();
        }
    }
}

/// What a job has counted, unless it is over.
fn look(job: &Weak<Running>) -> Option<Stats> {
    let job = job.upgrade()?;
    (!job.launched().job.is_over()).then(|| job.stats())
}
