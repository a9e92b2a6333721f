//! Answers of brokers that a writer waits for without blocking.

use crate::threads::start;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use thalweg::connector::SinkWaker;
use thalweg::{Error, ErrorKind, Result};

/// What a thread of its own finds out. The task of a writer is waked when there is an answer.
pub(crate) struct Awaited<T>(Arc<Answer<T>>);

struct Answer<T> {
    found: Mutex<Found<T>>,
    is_there: Condvar,
}

enum Found<T> {
    Nothing,
    All(Result<T>),
    /// It was taken.
    Taken,
}

impl<T> Clone for Awaited<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Awaited<T> {
    pub(crate) fn start(
        waker: SinkWaker,
        find: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let answer =
            Arc::new(Answer { found: Mutex::new(Found::Nothing), is_there: Condvar::new() });
        let awaited = Self(Arc::clone(&answer));
        let find = move || {
            let found = joined(catch_unwind(AssertUnwindSafe(find)));
            *answer.found.lock().unwrap_or_else(PoisonError::into_inner) = Found::All(found);
            answer.is_there.notify_all();
            waker.wake();
        };
        start("transactions", find)?;
        Ok(awaited)
    }

    fn found(&self) -> MutexGuard<'_, Found<T>> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is an answer.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.found(), Found::All(_))
    }

    /// The answer, for which this waits.
    pub(crate) fn wait(self) -> Result<T> {
        match std::mem::replace(&mut *self.over(), Found::Taken) {
            Found::All(found) => found,
            Found::Nothing | Found::Taken => {
                Err(Error::new(ErrorKind::Internal, "an answer of brokers was taken before"))
            }
        }
    }

    /// Waits for the answer, and leaves it to [`wait`](Self::wait) unless it is an error.
    pub(crate) fn check(&self) -> Result<()> {
        let mut found = self.over();
        match std::mem::replace(&mut *found, Found::Taken) {
            Found::All(Err(error)) => Err(error),
            other => {
                *found = other;
                Ok(())
            }
        }
    }

    fn over(&self) -> MutexGuard<'_, Found<T>> {
        let is_missing = |found: &mut Found<T>| matches!(found, Found::Nothing);
        let waited = self.0.is_there.wait_while(self.found(), is_missing);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread has found out.
pub(crate) fn joined<T>(found: thread::Result<Result<T>>) -> Result<T> {
    let what = "a thread that begins with transactions has panicked";
    found.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, what)))
}
