//! What a job hands back to the program that ran it.

use crate::error::{Error, ErrorKind, Result};
use crate::flow::Signals;
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// The result of a sink, there once its job has ended well.
#[must_use = "a result is there to be taken"]
pub struct Output<R> {
    slot: Arc<Slot<R>>,
}

pub(super) struct Slot<R> {
    operator: String,
    value: Mutex<Option<R>>,
}

impl<R> Output<R> {
    /// An empty output, and where its job puts the value.
    pub(super) fn new(operator: String) -> (Self, Arc<Slot<R>>) {
        let slot = Arc::new(Slot { operator, value: Mutex::new(None) });
        (Self { slot: Arc::clone(&slot) }, slot)
    }

    /// The result.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) when the job has not run, has not ended, or has
    /// failed.
    pub fn take(self) -> Result<R> {
        lock(&self.slot.value).take().ok_or_else(|| {
            let what = "there is no result: the job has not run to its end";
            Error::new(ErrorKind::NotProduced, what).in_operator(self.slot.operator.clone())
        })
    }
}

impl<R: Send + 'static> Slot<R> {
    /// Publishes the value when the job has ended well.
    pub(super) fn publish(
        self: Arc<Self>,
        signals: &Signals,
        value: impl FnOnce() -> R + Send + 'static,
    ) {
        signals.on_success(move || {
            *lock(&self.value) = Some(value());
            Ok(())
        });
    }
}
