//! One record out for each record in.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record.
    ///
    /// The closure sees the record itself, or a reference where the stream's records are borrowed
    /// (`str`, `[T]`), and returns an owned value. For several records out of one there is
    /// [`flat_map`](Self::flat_map), for one or none [`filter_map`](Self::filter_map).
    ///
    /// Maps that follow each other are compiled as one piece of code. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let lengths = env.iter(["a", "bc"]).map(|word| word.len()).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(lengths.take()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("select", "MapFunction"))]
    #[track_caller]
    pub fn map<O, F>(self, f: F) -> Stream<Map<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        self.map_as(Origin::here("map"), f)
    }

    /// A map that goes by another name in plans and messages.
    pub(crate) fn map_as<O, F>(self, origin: Origin, f: F) -> Stream<Map<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        let output = PhantomData;
        self.then(origin, |prev, op| Map { prev, op, f: Arc::new(f), output })
    }
}

/// The chain that ends in a map.
pub struct Map<C, F, O> {
    prev: C,
    op: usize,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, F, O> Chain for Map<C, F, O>
where
    C: Chain,
    O: 'static,
    F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<MapPush<C::Item, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        self.prev.attach(cx, MapPush { op, f, next, types: PhantomData })
    }
}

/// A map in a running task.
pub struct MapPush<I: ?Sized, F, O, N> {
    op: Op,
    f: Arc<F>,
    next: N,
    types: PhantomData<fn(&I) -> O>,
}

impl<I: Record + ?Sized, F: Send + Sync, O, N: Pipe> Pipe for MapPush<I, F, O, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I, T, F, O, N> Push<I, T> for MapPush<I, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    F: for<'a> Fn(I::Of<'a>) -> O + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let output = guard(&self.op, || (self.f)(item));
        self.next.push(output, time);
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, time: T) {
        let Self { op, f, next, .. } = self;
        next.push_run(items.map(guarded::<I, F, O>(op, f)), time);
    }
}

/// The closure as an adapter of iterators takes it. Made here, since a closure's type names all types
/// of the function that it stands in: those of a long chain would grow without bound.
#[inline(always)]
fn guarded<'a, I, F, O>(op: &Op, f: &F) -> impl FnMut(I::Of<'a>) -> O
where
    I: Record + ?Sized,
    F: Fn(I::Of<'a>) -> O,
{
    move |item| guard(op, || f(item))
}
