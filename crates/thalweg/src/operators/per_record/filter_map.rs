//! One record out, or none, for each record in.

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
    /// Makes a record of each record for which the closure returns one.
    ///
    /// For records that must all be good there is [`try_map`](Self::try_map), which stops the job
    /// at the first that is not. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let numbers = env.iter(["1", "two", "3"]).filter_map(|text| text.parse::<u32>().ok());
    /// let out = numbers.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn filter_map<O, F>(self, f: F) -> Stream<FilterMap<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
    {
        self.then(Origin::here("filter_map"), |prev, op| FilterMap {
            prev,
            op,
            f: Arc::new(f),
            output: PhantomData,
        })
    }
}

/// The chain that ends in a filter map.
pub struct FilterMap<C, F, O> {
    prev: C,
    op: usize,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, F, O> Chain for FilterMap<C, F, O>
where
    C: Chain,
    O: 'static,
    F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<FilterMapPush<C::Item, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        self.prev.attach(cx, FilterMapPush { op, f, emitted: 0, next, types: PhantomData })
    }
}

/// A filter map in a running task.
pub struct FilterMapPush<I: ?Sized, F, O, N> {
    op: Op,
    f: Arc<F>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I) -> O>,
}

impl<I: Record + ?Sized, F: Send + Sync, O, N: Pipe> Pipe for FilterMapPush<I, F, O, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, T, F, O, N> Push<I, T> for FilterMapPush<I, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    F: for<'a> Fn(I::Of<'a>) -> Option<O> + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if let Some(output) = guard(&self.op, || (self.f)(item)) {
            self.emitted += 1;
            self.next.push(output, time);
        }
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, time: T) {
        let Self { op, f, next, .. } = self;
        let mut emitted = 0;
        next.push_run(items.filter_map(counting::<I, F, O>(op, f, &mut emitted)), time);
        self.emitted += emitted;
    }
}

/// The closure as an adapter of iterators takes it. Made here, since a closure's type names all types
/// of the function that it stands in: those of a long chain would grow without bound.
#[inline(always)]
fn counting<'a, I, F, O>(op: &Op, f: &F, emitted: &mut u64) -> impl FnMut(I::Of<'a>) -> Option<O>
where
    I: Record + ?Sized,
    F: Fn(I::Of<'a>) -> Option<O>,
{
    move |item| {
        let output = guard(op, || f(item));
        *emitted += u64::from(output.is_some());
        output
    }
}
