//! Three ways to run the same tasks.

mod deterministic;
mod homes;
mod sleep;
mod stealing;
mod threads;
mod timers;

pub(crate) use deterministic::Deterministic;
pub(crate) use stealing::WorkStealing;
pub(crate) use threads::ThreadPerTask;

use super::cell::Cell;
use crate::error::Result;
use std::sync::Arc;

/// Decides which cell runs when, and on which thread.
pub(crate) trait Scheduler: Send + Sync {
    /// Takes on the tasks of a new job. Each is queued already.
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()>;

    /// Takes a cell that was woken and is in no queue.
    fn schedule(&self, cell: Arc<Cell>);

    /// Lends the calling thread until something is done; returns at once where there are threads of
    /// the scheduler's own.
    fn drive(&self, _done: &dyn Fn() -> bool) {}

    /// Whether a closure that blocks may keep other tasks from running at all.
    fn needs_its_threads(&self) -> bool {
        true
    }
}
