//! The `side_output_each` operator: passes each record on, and sends parts of it to a side output.

// The types say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

use super::flat_each::Visit;
use crate::data::{Portable, Record};
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Op, Pipe, Push, guard};
use crate::plan::{Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Two streams: one of all records, unchanged, and a side output of the parts that a [visitor](Visit) finds
    /// in them.
    ///
    /// It is [`split`](Self::split) for a stream whose branches need only small parts of each record. The first
    /// stream stays in its tasks, and its records stay borrowed; only the parts are copied, to as many tasks of
    /// the side output. So one pass over a large input can compute several results, each with a
    /// `side_output_each` of its own. The slower of both streams slows the other; one that needs no more
    /// records blocks none. Keeps order.
    ///
    /// ```
    /// use thalweg::{Environment, text};
    ///
    /// let env = Environment::new();
    /// let lines = env.iter(["a cat", "a dog"]).flat_map_str(|line, out| out.push(line));
    /// let (lines, words) = lines.side_output_each(text::Words);
    /// let (lines, words) = (lines.count().collect_one(), words.count().collect_one());
    /// env.run()?;
    /// assert_eq!((lines.take()?, words.take()?), (Some(2), Some(4)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "side_output")]
    #[track_caller]
    pub fn side_output_each<V>(
        self,
        visitor: V,
    ) -> (Stream<SideOutputEach<C, V>>, Stream<Received<V::Out, C::Time>>)
    where
        V: Visit<C::Item, Out: Portable>,
        for<'a> <C::Item as Record>::Of<'a>: Clone,
    {
        let origin = Origin::here("side_output_each");
        let (env, from) = (self.env.clone(), self.stage);
        let (parallelism, bounded) = (Parallelism::Free(self.tasks()), self.is_bounded());
        let to = env.builder().stage_after(&[from], parallelism, bounded);
        let edge = env.link(from, to, Strategy::Forward);
        let side = env.receive(to, origin, vec![edge.clone()]);
        let visitor = Arc::new(visitor);
        (self.then(origin, |prev, op| SideOutputEach { prev, op, visitor, edge }), side)
    }
}

/// The chain that ends in a visitor with a side output.
pub struct SideOutputEach<C: Chain, V: Visit<C::Item, Out: Portable>> {
    prev: C,
    op: usize,
    visitor: Arc<V>,
    edge: Edge<V::Out, C::Time>,
}

impl<C, V> Chain for SideOutputEach<C, V>
where
    C: Chain,
    V: Visit<C::Item, Out: Portable>,
    for<'a> <C::Item as Record>::Of<'a>: Clone,
{
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> =
        C::Task<SideOutputEachPush<C::Item, C::Time, V, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        let (op, visitor) = (cx.op(self.op), Arc::clone(&self.visitor));
        let side = self.edge.outlet(cx.task, cx.op(self.op), RoundRobin::starting_at(cx.task));
        let (ends, scratch) = (Forked((next, side)), V::Scratch::default());
        self.prev.attach(cx, SideOutputEachPush { op, visitor, scratch, ends, types: PhantomData })
    }
}

/// A visitor with a side output, in a running task.
pub struct SideOutputEachPush<I, T, V, N>
where
    I: Record + ?Sized,
    T: Time,
    V: Visit<I, Out: Portable>,
{
    op: Op,
    visitor: Arc<V>,
    scratch: V::Scratch,
    /// The main output, and the side output of the parts.
    ends: Forked<(N, Outlet<V::Out, T, RoundRobin>)>,
    types: PhantomData<fn(&I)>,
}

impl<I, T, V, N> Pipe for SideOutputEachPush<I, T, V, N>
where
    I: Record + ?Sized,
    T: Time,
    V: Visit<I, Out: Portable>,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }
}

impl<I, T, V, N> Push<I, T> for SideOutputEachPush<I, T, V, N>
where
    I: Record + ?Sized,
    T: Time,
    V: Visit<I, Out: Portable>,
    N: Push<I, T>,
    for<'a> I::Of<'a>: Clone,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { op, visitor, scratch, ends: Forked((next, side)), .. } = self;
        let seen = item.clone();
        guard(op, || {
            visitor.visit(seen, scratch, &mut |part: <V::Out as Record>::Of<'_>| {
                side.push(part, time);
            });
        });
        next.push(item, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check, check_sinks};

    /// Each number as often as its value.
    struct Repeated;

    impl Visit<u64> for Repeated {
        type Out = u64;
        type Scratch = ();

        fn visit(&self, number: u64, (): &mut (), emit: &mut impl FnMut(u64)) {
            assert!(number < 100, "too much");
            (0..number).for_each(|_| emit(1000 + number));
        }
    }

    #[test]
    fn both_streams_have_what_is_theirs() {
        check(|env| {
            let (all, parts) = env.range(0..50).side_output_each(Repeated);
            let (all, few) = all.side_output_each(Repeated);
            all.merge(parts).merge(few.filter(|n| *n == 1003))
        })
        .equals(
            (0..50_u64)
                .chain((0..50_u64).flat_map(|n| (0..n).map(move |_| 1000 + n)))
                .chain([1003; 3]),
        );
    }

    #[test]
    fn a_stream_that_has_enough_holds_up_no_other() {
        check_sinks(|env| {
            let (all, parts) = env.range(0..90).side_output_each(Repeated);
            let (all, parts) = (all.count().collect_one(), parts.limit(3).count().collect_one());
            let (few, others) = env.range(0..90).side_output_each(Repeated);
            let (few, others) = (few.limit(3).count().collect_one(), others.count().collect_one());
            (all, parts, few, others)
        })
        .equals((Some(90), Some(3), Some(3), Some(4005)));
    }

    #[test]
    fn a_panic_names_the_operator() {
        let env = crate::Environment::new();
        let (all, parts) = env.range(0..1000).side_output_each(Repeated);
        let _counts = (all.count().collect_one(), parts.count().collect_one());
        let error = env.run().unwrap_err();
        assert!(error.operator().unwrap().starts_with("side_output_each ("), "{error}");
        assert!(error.message().contains("too much"), "{error}");
    }
}
