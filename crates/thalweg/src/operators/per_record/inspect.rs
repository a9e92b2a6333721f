//! The `inspect` operator: calls a closure with each record.

use super::record_fn::{Exactly, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;

impl<C: Chain> Stream<C> {
    /// Calls the closure with a reference to each record and passes the record on unchanged: for logging,
    /// counters and assertions. To end a stream with a closure, see [`for_each`](Self::for_each).
    ///
    /// Several tasks may call the closure at once. Keeps order and tasks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let seen = Arc::new(AtomicU64::new(0));
    /// let counter = Arc::clone(&seen);
    /// let out = env
    ///     .iter(0..10u64)
    ///     .inspect(move |n| _ = counter.fetch_add(*n, Ordering::Relaxed))
    ///     .count()
    ///     .collect_one();
    /// env.run()?;
    /// assert_eq!((out.take()?, seen.load(Ordering::Relaxed)), (Some(10), 45));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("peek", "tap"))]
    #[track_caller]
    pub fn inspect<F>(self, see: F) -> Stream<Inspect<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        self.per_record(Origin::here("inspect"), Inspection { see })
    }
}

/// The chain that ends in an inspection.
pub type Inspect<C, F> = PerRecord<C, Inspection<F>>;

/// An inspection, as a function of one record.
pub struct Inspection<F> {
    see: F,
}

impl<I, T, F> RecordFn<I, T> for Inspection<F>
where
    I: Record + ?Sized,
    T: Time,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) + Send + Sync + 'static,
{
    type Out = I;
    type Yield = Exactly;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, _: T) -> Yielded<'a, Exactly, I> {
        (self.see)(&item);
        item
    }
}
