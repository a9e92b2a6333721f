//! A look at each record on its way.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Shows each record to the closure and hands it on unchanged: for messages, counters and
    /// assertions. To end a stream so, see [`for_each`](Self::for_each).
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
    ///     .count();
    /// env.run()?;
    /// assert_eq!((out.take()?, seen.load(Ordering::Relaxed)), (10, 45));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("peek", "tap"))]
    #[track_caller]
    pub fn inspect<F>(self, see: F) -> Stream<Inspect<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        self.then(Origin::here("inspect"), |prev, op| Inspect { prev, op, see: Arc::new(see) })
    }
}

/// The chain that ends in an inspection.
pub struct Inspect<C, F> {
    prev: C,
    op: usize,
    see: Arc<F>,
}

impl<C, F> Chain for Inspect<C, F>
where
    C: Chain,
    F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) + Send + Sync + 'static,
{
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<InspectPush<C::Item, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        let (op, see) = (cx.op(self.op), Arc::clone(&self.see));
        self.prev.attach(cx, InspectPush { op, see, next, types: PhantomData })
    }
}

/// An inspection in a running task.
pub struct InspectPush<I: ?Sized, F, N> {
    op: Op,
    see: Arc<F>,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, F: Send + Sync, N: Pipe> Pipe for InspectPush<I, F, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I, T, F, N> Push<I, T> for InspectPush<I, F, N>
where
    I: Record + ?Sized,
    T: Time,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) + Send + Sync,
    N: Push<I, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        guard(&self.op, || (self.see)(&item));
        self.next.push(item, time);
    }
}
