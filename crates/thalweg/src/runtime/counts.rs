//! What a task has counted.

use crate::clock::Nanos;
use crate::data::Data;
use crate::metrics::{Histogram, Report};

/// The counts of a task.
#[derive(Clone, Default, Data)]
pub(crate) struct TaskCounts {
    pub(crate) times: TaskTimes,
    pub(crate) report: Report,
}

/// How a task has spent its time.
#[derive(Clone, Debug, Default, Data)]
pub(crate) struct TaskTimes {
    pub(crate) busy: Nanos,
    /// Waiting for input.
    pub(crate) idle: Nanos,
    /// Waiting for a receiver.
    pub(crate) back_pressured: Nanos,
    /// Ready, waiting for a thread.
    pub(crate) queued: Nanos,
    pub(crate) turns: u64,
    /// When the last turn ended, counted from the start of the job: hosts have clocks of their own.
    pub(crate) until: Nanos,
    pub(crate) turn_lengths: Histogram,
}
