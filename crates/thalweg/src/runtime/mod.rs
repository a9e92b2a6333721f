//! Runs tasks: who goes next, who sleeps, when a job is over.
//!
//! A [`Job`] is a set of tasks that end together; a [`cell`] holds each of them with its place in
//! the life below; a [`Scheduler`](scheduler::Scheduler) decides which cell runs when. Several
//! jobs run side by side on one [`Runtime`] and share its threads and its memory.
//!
//! This layer knows nothing of operators or records.

mod cell;
mod job;
mod scheduler;

pub(crate) use cell::{Cell, TaskTimes};
pub(crate) use job::{Counted, Job};

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::error::Result;
use crate::memory::MemoryPool;
use scheduler::{Deterministic, Scheduler, ThreadPerTask, WorkStealing};
use std::sync::Arc;

/// The threads, the clock and the memory that jobs share.
pub(crate) struct Runtime {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) memory: MemoryPool,
    scheduler: Arc<dyn Scheduler>,
}

impl Runtime {
    /// Starts no thread yet.
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let turn = config.turn.get();
        let (clock, scheduler): (Clock, Arc<dyn Scheduler>) = match config.scheduler {
            config::Scheduler::WorkStealing => {
                let clock = Clock::system();
                (clock.clone(), WorkStealing::new(config.cores.get(), turn, clock))
            }
            config::Scheduler::ThreadPerTask => {
                let clock = Clock::system();
                (clock.clone(), Arc::new(ThreadPerTask::new(turn, clock)))
            }
            config::Scheduler::Deterministic { seed } => {
                let clock = Clock::simulated();
                (clock.clone(), Arc::new(Deterministic::new(seed, turn, clock)))
            }
        };
        let memory = MemoryPool::new(config.memory);
        Arc::new(Self { config, clock, memory, scheduler })
    }

    /// Starts a job's tasks.
    pub(crate) fn start(&self, job: &Arc<Job>) -> Result<()> {
        self.scheduler.start(&job.cells())
    }

    /// Returns when the job is over.
    pub(crate) fn wait(&self, job: &Arc<Job>) {
        self.scheduler.drive(&|| job.is_over());
        job.wait();
    }

    /// Sends a barrier through a job; returns when every task has passed it, or the job is over.
    pub(crate) fn barrier(&self, job: &Arc<Job>) {
        let epoch = job.ask_barrier();
        self.scheduler.drive(&|| job.is_past(epoch) || job.is_over());
        job.wait_past(epoch);
    }

    /// What new cells are scheduled by.
    pub(crate) fn scheduler(&self) -> Arc<dyn Scheduler> {
        Arc::clone(&self.scheduler)
    }
}
