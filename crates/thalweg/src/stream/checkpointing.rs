//! Takes the checkpoints of a job, on a thread of its own.

use super::running_job::RunningJob;
use super::watch::Warnings;
use crate::checkpoint::{Checkpoints, Store, Taken};
use crate::clock::nanos;
use crate::config::CheckpointConfig;
use crate::error::Result;
use crate::sync::{park, spawn};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks whether the job is over, if nobody waits for it.
const LOOK: Duration = Duration::from_millis(100);

/// The kinds of sinks that run the program's code.
const CALLED_AGAIN: [&str; 2] = ["for_each", "for_each_parallel"];

/// Where a job's checkpoints are, before it has started.
pub(super) struct Checkpointing {
    store: Store,
    pub(super) checkpoints: Arc<Checkpoints>,
    interval: Duration,
    /// The number of the checkpoint that the job begins with; 0 if it begins anew.
    last: u64,
}

/// The thread that takes checkpoints.
pub(super) struct Checkpointer(JoinHandle<()>);

impl Checkpointing {
    /// Reads the newest checkpoint of the environment's job with this number, if there is one.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or none of the checkpoints in it can be read.
    pub(super) fn open(config: &CheckpointConfig, job: u64, warnings: &Warnings) -> Result<Self> {
        let store = Store::open(&config.dir.join(format!("job-{job}")))?;
        let (snapshot, last) = match store.newest()? {
            None => (None, 0),
            Some(stored) => {
                for error in stored.skipped {
                    warnings.of_checkpoint(&format!(
                        "the job begins with checkpoint {}, as a newer one cannot be read: {error}",
                        stored.number
                    ));
                }
                (Some(stored.snapshot), stored.number)
            }
        };
        let checkpoints = Checkpoints::new(snapshot);
        Ok(Self { store, checkpoints, interval: config.interval, last })
    }

    /// Takes checkpoints of the job until it is over; then removes them if it has ended well, since nothing is left to be
    /// done. What keeps one from being taken is a warning, and the job goes on.
    pub(super) fn start(self, job: &Arc<RunningJob>, warnings: Warnings) -> Result<Checkpointer> {
        let operators = &job.launched().plan.operators;
        for op in operators.iter().filter(|op| CALLED_AGAIN.contains(&&*op.kind)) {
            let what = "what its closure does is done at least once, not exactly once: after a failure, it is \
                        called again for the records since the last checkpoint";
            warnings.of_checkpoint(&format!("{}: {what}", op.label()));
        }
        let job = Arc::clone(job);
        let thread = spawn("thalweg-checkpoint".to_owned(), move || {
            let Self { store, interval, mut last, .. } = self;
            let mut next = job.now().saturating_add(nanos(interval));
            while !job.is_over() {
                park(LOOK.min(interval));
                if job.now() < next {
                    continue;
                }
                match take(&job, &store, last + 1) {
                    Ok(true) => last += 1,
                    Ok(false) => break,
                    Err(error) => warnings.of_checkpoint(&error.to_string()),
                }
                next = job.now().saturating_add(nanos(interval));
            }
            job.wait();
            if job.has_succeeded() {
                store.clear();
            }
        })?;
        Ok(Checkpointer(thread))
    }
}

/// Takes a checkpoint; returns whether the job goes on.
fn take(job: &RunningJob, store: &Store, number: u64) -> Result<bool> {
    let Some(Taken { snapshot, syncs }) = job.snapshot()? else { return Ok(false) };
    if job.is_over() {
        return Ok(false);
    }
    syncs.into_iter().try_for_each(|sync| sync())?;
    store.write(number, &snapshot)?;
    Ok(true)
}

impl Checkpointer {
    /// Waits until the thread has ended; the job is over.
    pub(super) fn end(self) {
        self.0.thread().unpark();
        let _ = self.0.join();
    }
}
