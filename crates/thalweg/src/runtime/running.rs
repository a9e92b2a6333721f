//! The jobs whose code runs on the current thread, so that a call that would wait for one of them can be refused.

use crate::flow::Signals;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    /// A stack, innermost last. It has more than one frame where a closure runs a job whose scheduler has no threads
    /// of its own.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Job and scheduler are identified by their addresses, which stay unique while the frame exists.
struct Frame {
    job: usize,
    /// `None` on a thread for blocking calls, which belongs to no scheduler.
    scheduler: Option<usize>,
}

/// The current thread runs code of a job until this is dropped.
pub(crate) struct Running;

impl Running {
    fn enter(job: &Arc<Signals>, scheduler: Option<usize>) -> Self {
        let job = Arc::as_ptr(job).addr();
        FRAMES.with_borrow_mut(|frames| frames.push(Frame { job, scheduler }));
        Self
    }

    /// Enters a turn of one of the job's tasks.
    pub(super) fn turn<S: ?Sized>(job: &Arc<Signals>, scheduler: &Arc<S>) -> Self {
        Self::enter(job, Some(Arc::as_ptr(scheduler).addr()))
    }

    /// Enters a blocking call that the job waits for.
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

/// Whether the current thread is in a turn of any task.
pub(super) fn is_in_turn() -> bool {
    any(|frame| frame.scheduler.is_some())
}

/// Whether the current thread is in a turn of a task of this scheduler's.
pub(super) fn is_in_turn_of<S: ?Sized>(scheduler: &Weak<S>) -> bool {
    let address = scheduler.as_ptr().addr();
    any(|frame| frame.scheduler == Some(address))
}

/// Whether the current thread runs code of this job.
pub(super) fn is_in_job(job: &Arc<Signals>) -> bool {
    let address = Arc::as_ptr(job).addr();
    any(|frame| frame.job == address)
}
