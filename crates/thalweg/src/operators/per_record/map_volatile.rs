//! The `map_volatile` operator: one output record for each input record, by a closure with undeclared state.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record, by a closure that may change what it has captured.
    ///
    /// This is the one operator that takes an `FnMut`, and it is *volatile*: the state of the closure is not
    /// declared, and is lost with its task. Use [`stateful_map`](Self::stateful_map), whose state is declared,
    /// unless the state is a mere convenience (a cache, a buffer, a random generator). The plan marks it.
    ///
    /// Every task has its own clone of the closure. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let mut buffer = String::new();
    /// let out = env
    ///     .iter([7, 42])
    ///     .map_volatile(move |n: u32| {
    ///         use std::fmt::Write;
    ///         buffer.clear();
    ///         write!(buffer, "{n:>3}").map(|()| buffer.len())
    ///     })
    ///     .filter_map(|written| written.ok())
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_volatile<O, F>(self, f: F) -> Stream<MapVolatile<C, F, O>>
    where
        O: 'static,
        F: for<'a> FnMut(<C::Item as Record>::Of<'a>) -> O + Clone + Send + 'static,
    {
        let wrap = |prev, op| MapVolatile { prev, op, f: Mutex::new(f), output: PhantomData };
        self.then_described(Origin::here("map_volatile"), Details::of("volatile", true), wrap)
    }
}

/// The chain that ends in a volatile map.
pub struct MapVolatile<C, F, O> {
    prev: C,
    op: usize,
    f: Mutex<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, F, O> Chain for MapVolatile<C, F, O>
where
    C: Chain,
    O: 'static,
    F: for<'a> FnMut(<C::Item as Record>::Of<'a>) -> O + Clone + Send + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<MapVolatilePush<C::Item, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), lock(&self.f).clone());
        self.prev.attach(cx, MapVolatilePush { op, f, next, types: PhantomData })
    }
}

/// A volatile map in a running task.
pub struct MapVolatilePush<I: ?Sized, F, O, N> {
    op: Op,
    f: F,
    next: N,
    types: PhantomData<fn(&I) -> O>,
}

impl<I: Record + ?Sized, F: Send, O, N: Pipe> Pipe for MapVolatilePush<I, F, O, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I, T, F, O, N> Push<I, T> for MapVolatilePush<I, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    F: for<'a> FnMut(I::Of<'a>) -> O + Send,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let output = guard(&self.op, || (self.f)(item));
        self.next.push(output, time);
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::plan::Details;

    #[test]
    fn the_plan_marks_it() {
        let env = Environment::new();
        let _out = env.iter(0..3).map_volatile(|n| n).count().collect_one();
        let marked: Vec<_> = env
            .plan()
            .operators
            .into_iter()
            .filter(|op| op.details == Details::of("volatile", true))
            .collect();
        assert_eq!((marked.len(), marked[0].kind.as_str()), (1, "map_volatile"));
    }
}
