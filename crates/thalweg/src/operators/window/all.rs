//! Windows over all records of a stream, without keys.

use super::windowed::{Ending, Window, Windowed};
use crate::data::Record;
use crate::error::Result;
use crate::flow::{Pipe, Push};
use crate::operators::keyed::{KeyBy, KeyedStream, Plain, Scattered};
use crate::plan::TaskContext;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Cuts all records into windows, without keys. A method of the result chooses what is computed for each
    /// window, as in `.window_all(…).count()`.
    ///
    /// The same as [`KeyedStream::window`] with one key for all records, and without the key in the result. One
    /// task therefore makes the windows. For windows of event time, all tasks aggregate their own records first.
    /// Windows of arrivals take the records of several tasks in the order in which they happen to arrive.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::CountWindow;
    ///
    /// let env = Environment::new();
    /// let sums = env.iter(1..=6u64).window_all(CountWindow::tumbling(2)).sum(|n| *n);
    /// let out = sums.map(|window| window.value).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3, 7, 11]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("windowAll", "timeWindowAll"))]
    pub fn window_all<W: Window<C::Time>>(
        self,
        window: W,
    ) -> Windowed<C, Unkeyed, Scattered, W, OfAll> {
        let keyed = KeyedStream::from_parts(self, Unkeyed);
        Windowed { keyed, window, ending: PhantomData }
    }
}

/// Assigns the key `()` to all records.
#[derive(Clone, Copy, Debug)]
pub struct Unkeyed;

impl<I: Record + ?Sized> KeyBy<I> for Unkeyed {
    type Key = ();
    type Value = I;

    #[inline(always)]
    fn key<'k>(&self, _: &'k I::Of<'_>) -> &'k () {
        &()
    }

    #[inline(always)]
    fn value<'a>(&self, item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}

impl<I: Record + ?Sized> Plain<I> for Unkeyed {
    type Record = I;

    #[inline(always)]
    fn plain<'a>(item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}

/// Results have no keys.
pub enum OfAll {}

impl Ending for OfAll {
    const KIND: &'static str = "window_all";

    type Results<K: 'static, V: 'static, C: Chain<Item = (K, V)>> = Stream<WithoutKey<C>>;

    fn end<K: 'static, V: 'static, C: Chain<Item = (K, V)>>(
        stream: Stream<C>,
    ) -> Stream<WithoutKey<C>> {
        let Stream { env, chain, stage } = stream;
        Stream { env, chain: WithoutKey { prev: chain }, stage }
    }
}

/// The chain that ends with results without their keys. It is no operator in the plan, but part of the windows.
pub struct WithoutKey<C> {
    prev: C,
}

impl<K: 'static, V: 'static, C: Chain<Item = (K, V)>> Chain for WithoutKey<C> {
    type Item = V;
    type Time = C::Time;
    type Task<N: Push<V, C::Time> + 'static> = C::Task<WithoutKeyPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<V, C::Time> + 'static,
    {
        self.prev.attach(cx, WithoutKeyPush { next })
    }
}

/// Drops keys in a running task.
pub struct WithoutKeyPush<N> {
    next: N,
}

impl<N: Pipe> Pipe for WithoutKeyPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<K: 'static, V: 'static, T: Time, N: Push<V, T>> Push<(K, V), T> for WithoutKeyPush<N> {
    #[inline(always)]
    fn push(&mut self, (_, value): (K, V), time: T) {
        self.next.push(value, time);
    }
}
