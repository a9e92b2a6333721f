//! The three schedulers, and that of simulated hosts.

mod affinity;
mod cluster;
mod deterministic;
mod outages;
pub(crate) mod parking;
mod patience;
mod stealing;
mod threads;
mod timers;

pub(crate) use cluster::{Cluster, STEP};
pub(crate) use deterministic::Deterministic;
pub(crate) use outages::{LOST_AFTER, Outage};
pub(crate) use stealing::WorkStealing;
pub(crate) use threads::ThreadPerTask;

use super::cell::{Cell, Next, Schedule};
use crate::clock::Nanos;
use crate::error::Result;
use crate::net::Network;
use std::sync::Arc;

/// Decides which cell runs when, and on which thread.
pub(crate) trait Scheduler: Schedule {
    /// Starts the tasks of a new job. Their cells are in the queued state already.
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()>;

    /// Lets the threads that run tasks attend to a network between turns.
    fn attend_to(&self, _network: &Arc<dyn Network>) {}

    /// Runs tasks on the calling thread until `done` returns `true`; returns at once if the scheduler has threads of
    /// its own.
    fn drive(&self, _done: &dyn Fn() -> bool) {}

    /// Lets simulated time pass, on the thread of a simulated host's program; returns at once from other schedulers.
    fn pass_time(&self, _span: Nanos) {}

    /// Whether blocking one of its threads may prevent other tasks from running at all.
    fn needs_its_threads(&self) -> bool {
        true
    }
}
