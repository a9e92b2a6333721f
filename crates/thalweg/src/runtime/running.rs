//! The jobs whose code the calling thread runs, so that a call that would wait for one of them can be refused.

use super::scheduler::Scheduler;
use crate::flow::Signals;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    /// What this thread runs, innermost last. There is more than one where a closure runs a job whose scheduler
    /// has no threads of its own.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Job and scheduler are known by addresses, which are theirs alone as long as the frame is there.
struct Frame {
    job: usize,
    /// None for a call on a thread that is no scheduler's.
    scheduler: Option<usize>,
}

/// The thread runs code of a job until this is dropped.
pub(crate) struct Running;

impl Running {
    fn enter(job: &Arc<Signals>, scheduler: Option<usize>) -> Self {
        let job = Arc::as_ptr(job).addr();
        FRAMES.with_borrow_mut(|frames| frames.push(Frame { job, scheduler }));
        Self
    }

    /// A turn of one of the job's tasks begins.
    pub(super) fn turn(job: &Arc<Signals>, scheduler: &Arc<dyn Scheduler>) -> Self {
        Self::enter(job, Some(Arc::as_ptr(scheduler).addr()))
    }

    /// A call that the job waits for begins, on a thread for such calls.
    pub(crate) fn call(job: &Arc<Signals>) -> Self {
        Self::enter(job, None)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(Vec::pop);
    }
}

fn any(matches: impl Fn(&Frame) -> bool) -> bool {
    FRAMES.with_borrow(|frames| frames.iter().any(matches))
}

/// Whether the thread is in a turn of any task.
pub(super) fn is_in_turn() -> bool {
    any(|frame| frame.scheduler.is_some())
}

/// Whether the thread is in a turn of a task of this scheduler's.
pub(super) fn is_in_turn_of(scheduler: &Weak<dyn Scheduler>) -> bool {
    let address = scheduler.as_ptr().addr();
    any(|frame| frame.scheduler == Some(address))
}

/// Whether the thread runs code of this job.
pub(super) fn is_in_job(job: &Arc<Signals>) -> bool {
    let address = Arc::as_ptr(job).addr();
    any(|frame| frame.job == address)
}
