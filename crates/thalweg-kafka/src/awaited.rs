//! Answers of brokers that a writer waits for without blocking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use thalweg::connector::SinkWaker;
use thalweg::{Error, ErrorKind, Result};

/// What a thread of its own finds out. The task of a writer is waked when there is an answer.
pub(crate) struct Awaited<T> {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Awaited<T> {
    pub(crate) fn start(
        waker: SinkWaker,
        find: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let find = move || {
            // Dropped last.
            let _answers = Answers { is_over: over, waker };
            find()
        };
        let thread = thread::Builder::new().name("transactions".to_owned()).spawn(find);
        let thread = thread
            .map_err(|cause| Error::new(ErrorKind::Io, "cannot start a thread").caused_by(cause))?;
        Ok(Self { is_over, thread })
    }

    /// Whether there is an answer.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The answer, for which this waits.
    pub(crate) fn wait(self) -> Result<T> {
        joined(self.thread.join())
    }
}

/// What a thread has found out.
pub(crate) fn joined<T>(found: thread::Result<Result<T>>) -> Result<T> {
    let what = "a thread that begins with transactions has panicked";
    found.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, what)))
}

/// Says that there is an answer, also after a panic, and wakes the task.
struct Answers {
    is_over: Arc<AtomicBool>,
    waker: SinkWaker,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }
}
