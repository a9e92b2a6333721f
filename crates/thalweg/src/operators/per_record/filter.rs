//! Some of the records.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Keeps the records for which the closure answers `true`.
    ///
    /// Keeps order and tasks. To change the records as well, see
    /// [`filter_map`](Self::filter_map).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let even = env.iter(0..6).filter(|n| n % 2 == 0).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(even.take()?, [0, 2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("where", "FilterFunction"))]
    #[track_caller]
    pub fn filter<F>(self, keep: F) -> Stream<Filter<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
    {
        self.filter_as(Origin::here("filter"), keep)
    }

    /// A filter that goes by another name in plans and messages.
    pub(crate) fn filter_as<F>(self, origin: Origin, keep: F) -> Stream<Filter<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
    {
        self.then(origin, |prev, op| Filter { prev, op, keep: Arc::new(keep) })
    }
}

/// The chain that ends in a filter.
pub struct Filter<C, F> {
    prev: C,
    op: usize,
    keep: Arc<F>,
}

impl<C, F> Chain for Filter<C, F>
where
    C: Chain,
    F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
{
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<FilterPush<C::Item, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        let (op, keep) = (cx.op(self.op), Arc::clone(&self.keep));
        self.prev.attach(cx, FilterPush { op, keep, kept: 0, next, types: PhantomData })
    }
}

/// A filter in a running task.
pub struct FilterPush<I: ?Sized, F, N> {
    op: Op,
    keep: Arc<F>,
    kept: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, F: Send + Sync, N: Pipe> Pipe for FilterPush<I, F, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.kept);
        self.next.report(report);
    }
}

impl<I, T, F, N> Push<I, T> for FilterPush<I, F, N>
where
    I: Record + ?Sized,
    T: Time,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> bool + Send + Sync,
    N: Push<I, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if guard(&self.op, || (self.keep)(&item)) {
            self.kept += 1;
            self.next.push(item, time);
        }
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, time: T) {
        let Self { op, keep, next, .. } = self;
        let mut kept = 0;
        next.push_run(items.filter(counting::<I, F>(op, keep, &mut kept)), time);
        self.kept += kept;
    }
}

/// The closure as an adapter of iterators takes it. Made here, since a closure's type names all types
/// of the function that it stands in: those of a long chain would grow without bound.
#[inline(always)]
fn counting<'a, I, F>(op: &Op, keep: &F, kept: &mut u64) -> impl FnMut(&I::Of<'a>) -> bool
where
    I: Record + ?Sized,
    F: for<'b> Fn(&'b I::Of<'a>) -> bool,
{
    move |item| {
        let keep = guard(op, || keep(item));
        *kept += u64::from(keep);
        keep
    }
}
