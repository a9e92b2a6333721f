//! The results that a job returns to the program that ran it.

use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Publish, guard};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use std::sync::Arc;

/// The result of a sink, available once its job has succeeded.
#[must_use = "a result is there to be taken"]
pub struct Output<R> {
    slot: Arc<Slot<R>>,
}

pub(super) struct Slot<R> {
    operator: String,
    /// Whether the tasks of a job were made.
    begun: AtomicBool,
    value: Mutex<Option<R>>,
}

/// A trait that no [`Output`] implements: it is the bound of stream methods that a result does not have, so that the
/// compiler can say what to do instead of reporting a missing method.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no operator follows a sink, and the stream ended in one here",
    label = "this is the result of a sink, and not a stream",
    note = "the result itself is read by `take`, once the environment has run"
)]
pub trait GoesOn: Sized {
    /// Stands for the method's body.
    fn never(self) -> !;
}

#[doc(hidden)]
impl<R> Output<R> {
    pub fn collect<S>(self) -> Output<S>
    where
        Self: GoesOn,
    {
        self.never()
    }

    pub fn map<S, F>(self, _f: F) -> Output<S>
    where
        Self: GoesOn,
        F: FnOnce(R) -> S,
    {
        self.never()
    }

    pub fn unkey(self) -> Self
    where
        Self: GoesOn,
    {
        self.never()
    }
}

impl<R> Output<R> {
    /// An empty output, and the slot in which its job stores the value.
    pub(super) fn new(operator: String) -> (Self, Arc<Slot<R>>) {
        let slot =
            Arc::new(Slot { operator, begun: AtomicBool::new(false), value: Mutex::new(None) });
        (Self { slot: Arc::clone(&slot) }, slot)
    }

    /// The result.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) if the job has not run, has not ended, or has failed.
    pub fn take(self) -> Result<R> {
        lock(&self.slot.value).take().ok_or_else(|| {
            let what = match self.slot.begun.load(Ordering::Acquire) {
                false => "there is no result: the job has not begun; call `run` of its environment first, and handle its error",
                true => {
                    "there is no result: the job has not run to its end; if it has failed, `run` or `wait` returned \
                     the error"
                }
            };
            Error::new(ErrorKind::NotProduced, what).in_operator(self.slot.operator.clone())
        })
    }
}

impl<R> Slot<R> {
    /// The job begins: its tasks are made.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }
}

impl<R: Send + 'static> Slot<R> {
    /// Publishes the value when the job has succeeded. The closure may run code of the program.
    pub(super) fn publish(self: Arc<Self>, op: &Op, value: impl FnOnce() -> R + Send + 'static) {
        let maker = op.clone();
        op.signals().on_success(move || {
            let value = guard(&maker, || {
                let value = value();
                // An unused value is dropped here, where a panic can still fail the job.
                (Arc::strong_count(&self) > 1).then_some(value)
            });
            Ok(Publish::Result(Box::new(move || *lock(&self.value) = value)))
        });
    }
}
