//! The `flat_map` operator: any number of output records for each input record.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Flow, Op, Pipe, Push, guard, pump};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Makes any number of records of each record: those that the closure's result iterates over.
    ///
    /// The iterator may be infinite, or longer than the receivers can keep up with: it is then suspended and
    /// continued later. It must own what it iterates over; to emit parts of a borrowed record without copying
    /// them, see [`flat_each`](Self::flat_each).
    ///
    /// Keeps the order of the records, and of each record's results.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(1..4u64).flat_map(|n| 0..n).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [0, 0, 1, 0, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("flatMap", "explode", "FlatMapFunction"))]
    #[track_caller]
    pub fn flat_map<O, F>(self, f: F) -> Stream<FlatMap<C, F, O>>
    where
        O: IntoIterator + 'static,
        O::IntoIter: Send + 'static,
        O::Item: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        self.then(Origin::here("flat_map"), |prev, op| FlatMap::new(prev, op, f))
    }
}

/// The chain that ends in a flat map.
pub struct FlatMap<C, F, O> {
    prev: C,
    op: usize,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, F, O> FlatMap<C, F, O> {
    pub(super) fn new(prev: C, op: usize, f: F) -> Self {
        Self { prev, op, f: Arc::new(f), output: PhantomData }
    }
}

impl<C, F, O> Chain for FlatMap<C, F, O>
where
    C: Chain,
    O: IntoIterator + 'static,
    O::IntoIter: Send + 'static,
    O::Item: 'static,
    F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
{
    type Item = O::Item;
    type Time = C::Time;
    type Task<N: Push<O::Item, C::Time> + 'static> =
        C::Task<FlatMapPush<C::Item, C::Time, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O::Item, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        let waiting = VecDeque::new();
        self.prev.attach(cx, FlatMapPush { op, f, waiting, emitted: 0, next, types: PhantomData })
    }
}

/// A flat map in a running task.
pub struct FlatMapPush<I: ?Sized, T, F, O: IntoIterator, N> {
    op: Op,
    f: Arc<F>,
    /// Iterators that are not exhausted: at most one for each record of the batch in which the next operator
    /// became full.
    waiting: VecDeque<(O::IntoIter, T)>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I, T, F, O, N> Pipe for FlatMapPush<I, T, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    O: IntoIterator<IntoIter: Send, Item: 'static>,
    F: Send + Sync,
    N: Push<O::Item, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn resume(&mut self) -> Flow {
        let Self { op, waiting, emitted, next, .. } = self;
        // An iterator may be infinite, and does not belong to the next round of a loop.
        if !waiting.is_empty() && next.is_closed() {
            waiting.clear();
        }
        pump(next, |next| {
            while let Some((items, time)) = waiting.front_mut() {
                match guard(op, || items.next()) {
                    Some(item) => {
                        *emitted += 1;
                        next.push(item, *time);
                        return true;
                    }
                    None => _ = waiting.pop_front(),
                }
            }
            false
        })
    }

    fn is_full(&mut self) -> bool {
        !self.waiting.is_empty() || self.next.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, T, F, O, N> Push<I, T> for FlatMapPush<I, T, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    O: IntoIterator<IntoIter: Send, Item: 'static>,
    F: for<'a> Fn(I::Of<'a>) -> O + Send + Sync,
    N: Push<O::Item, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let mut items = guard(&self.op, || (self.f)(item).into_iter());
        if !self.waiting.is_empty() {
            self.waiting.push_back((items, time));
            return;
        }
        while let Some(item) = guard(&self.op, || items.next()) {
            self.emitted += 1;
            self.next.push(item, time);
            if self.next.is_full() {
                self.waiting.push_back((items, time));
                return;
            }
        }
    }
}
