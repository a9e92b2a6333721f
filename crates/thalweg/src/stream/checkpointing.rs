//! Takes the checkpoints of a job, on a thread of its own.

use super::running_job::RunningJob;
use super::watch::Warnings;
use crate::checkpoint::{Checkpoints, Store, Taken};
use crate::clock::nanos;
use crate::config::CheckpointConfig;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::sync::{Mutex, lock, park, spawn};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks whether the job is over, if nobody waits for it.
const LOOK: Duration = Duration::from_millis(100);

/// The kinds of sinks that run the program's code.
const CALLED_AGAIN: [&str; 2] = ["for_each", "for_each_parallel"];

/// Where a job's checkpoints are, before it has started.
pub(super) struct Checkpointing {
    writer: Arc<Writer>,
    pub(super) checkpoints: Arc<Checkpoints>,
    interval: Duration,
}

/// Stores snapshots one after the other.
struct Writer {
    store: Store,
    /// The number of the last one; of the one that the job begins with at first, or 0.
    last: Mutex<u64>,
}

/// The thread that takes checkpoints.
pub(super) struct Checkpointer(JoinHandle<()>);

/// The directories in which this process has had the checkpoints of a job.
static USED: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

impl Checkpointing {
    /// Reads the newest checkpoint, if there is one.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, if this process has had a job with checkpoints in it before, or if none of the
    /// checkpoints in it can be read.
    pub(super) fn open(config: &CheckpointConfig, warnings: &Warnings) -> Result<Self> {
        let dir = Store::directory(&config.dir)?;
        if lock(&USED).contains(&dir) {
            let what = "this program has had a job with checkpoints in this directory already: a second one \
                        could not be told from it when the program is run again; give it a directory of its own";
            let place = Place::File(config.dir.clone());
            return Err(Error::new(ErrorKind::Plan, what).at(place));
        }
        let store = Store::open(&dir)?;
        lock(&USED).insert(dir);
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
        let writer = Arc::new(Writer { store, last: Mutex::new(last) });
        let (at_end, warned) = (Arc::clone(&writer), warnings.clone());
        // Files get their names one after the other: if the process dies in between, another one must know that all
        // of them were complete.
        let at_end = move |taken: Result<Taken>| {
            if let Err(error) = taken.and_then(|taken| at_end.write(taken)) {
                warned.of_checkpoint(&error.to_string());
            }
        };
        let checkpoints = Checkpoints::new(snapshot, Some(Box::new(at_end)));
        Ok(Self { writer, checkpoints, interval: config.interval })
    }

    /// The job could not be started: its directory may be that of another one.
    pub(super) fn forget(config: &CheckpointConfig) {
        if let Ok(dir) = Store::directory(&config.dir) {
            lock(&USED).remove(&dir);
        }
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
            let Self { writer, interval, .. } = self;
            let mut next = job.now().saturating_add(nanos(interval));
            while !job.is_over() {
                park(LOOK.min(interval));
                if job.now() < next {
                    continue;
                }
                match take(&job, &writer) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => warnings.of_checkpoint(&error.to_string()),
                }
                next = job.now().saturating_add(nanos(interval));
            }
            job.wait();
            if job.has_succeeded() {
                writer.store.clear();
            }
        })?;
        Ok(Checkpointer(thread))
    }
}

/// Takes a checkpoint; returns whether the job goes on.
fn take(job: &RunningJob, writer: &Writer) -> Result<bool> {
    let Some(taken) = job.snapshot()? else { return Ok(false) };
    if job.is_over() {
        return Ok(false);
    }
    writer.write(taken)?;
    Ok(true)
}

impl Writer {
    fn write(&self, Taken { snapshot, syncs }: Taken) -> Result<()> {
        let mut last = lock(&self.last);
        syncs.into_iter().try_for_each(|sync| sync())?;
        // Also if it fails: a number is never used twice.
        *last += 1;
        self.store.write(*last, &snapshot)
    }
}

impl Checkpointer {
    /// Waits until the thread has ended; the job is over.
    pub(super) fn end(self) {
        self.0.thread().unpark();
        let _ = self.0.join();
    }
}
