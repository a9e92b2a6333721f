//! The `side_output` operator: an output beside the main one, for records of another type.

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

use crate::data::{Data, Record};
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Op, Pipe, Push, guard};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record, or none, for the main output, and any number of records of another type
    /// for a side output: malformed lines with the error; alerts; samples.
    ///
    /// The closure's result goes to the main output, as with [`filter_map`](Self::filter_map). For any number
    /// of results, return a list, and [`flatten`](Self::flatten). Records that the closure pushes to its second
    /// argument go to the side output, which has as many tasks and the same time, and must end in a sink like
    /// any other stream. To send each record unchanged to one of several streams, see [`route`](Self::route);
    /// with a state for each key, see
    /// [`process_with_side_output`](crate::KeyedStream::process_with_side_output).
    ///
    /// All side records of one record are emitted when the closure returns. The slower of the streams slows
    /// both; one that needs no more records (after a [`limit`](Self::limit)) does not block the other. Keeps
    /// order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let lines = env.iter(["1", "2", "x", "4"]);
    /// let (numbers, wrong) = lines.side_output(|line, wrong| match line.parse::<u64>() {
    ///     Ok(number) => Some(number),
    ///     Err(error) => {
    ///         wrong.push(format!("{line:?}: {error}"));
    ///         None
    ///     }
    /// });
    /// let (numbers, wrong) = (numbers.collect::<Vec<_>>(), wrong.collect::<Vec<_>>());
    /// env.run()?;
    /// assert_eq!(numbers.take()?, [1, 2, 4]);
    /// assert_eq!(wrong.take()?, ["\"x\": invalid digit found in string"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn side_output<O, S, F>(
        self,
        f: F,
    ) -> (Stream<SideOutput<C, O, S, F>>, Stream<Received<S, C::Time>>)
    where
        O: 'static,
        S: Data,
        F: for<'a, 'b> Fn(<C::Item as Record>::Of<'a>, &'b mut Side<S>) -> Option<O>
            + Send
            + Sync
            + 'static,
    {
        let origin = Origin::here("side_output");
        let (edge, second) = self.begin_side_output::<S>(Origin { kind: "side output", ..origin });
        let f = Arc::new(f);
        let first =
            self.then(origin, |prev, op| SideOutput { prev, op, f, edge, output: PhantomData });
        (first, second)
    }
}

/// The handle by which the closure of [`side_output`](Stream::side_output) pushes records to the side output.
pub struct Side<S> {
    pushed: Vec<S>,
}

impl<S> Side<S> {
    /// Pushes a record to the side output.
    pub fn push(&mut self, record: S) {
        self.pushed.push(record);
    }
}

/// The chain that ends in an operator with a side output.
pub struct SideOutput<C: Chain, O, S: Data, F> {
    prev: C,
    op: usize,
    f: Arc<F>,
    edge: Edge<S, C::Time>,
    output: PhantomData<fn() -> O>,
}

impl<C, O, S, F> Chain for SideOutput<C, O, S, F>
where
    C: Chain,
    O: 'static,
    S: Data,
    F: for<'a, 'b> Fn(<C::Item as Record>::Of<'a>, &'b mut Side<S>) -> Option<O>
        + Send
        + Sync
        + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> =
        C::Task<SideOutputPush<C::Item, C::Time, O, S, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let op = cx.op(self.op);
        let side = self.edge.outlet(cx.task, op.clone(), RoundRobin::starting_at(cx.task));
        let push = SideOutputPush {
            op,
            f: Arc::clone(&self.f),
            side: Side { pushed: Vec::new() },
            emitted: 0,
            ends: Forked((next, side)),
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// An operator with a side output, in a running task.
pub struct SideOutputPush<I: ?Sized, T: Time, O, S: Data, F, N> {
    op: Op,
    f: Arc<F>,
    side: Side<S>,
    emitted: u64,
    ends: Forked<(N, Outlet<S, T, RoundRobin>)>,
    types: PhantomData<fn(&I) -> O>,
}

impl<I, T, O, S, F, N> Pipe for SideOutputPush<I, T, O, S, F, N>
where
    I: ?Sized,
    T: Time,
    S: Data,
    F: Send + Sync,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn report(&mut self, report: &mut crate::metrics::Report) {
        report.emitted(self.op.id(), self.emitted);
        self.ends.report(report);
    }
}

impl<I, T, O, S, F, N> Push<I, T> for SideOutputPush<I, T, O, S, F, N>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    S: Data,
    F: for<'a, 'b> Fn(I::Of<'a>, &'b mut Side<S>) -> Option<O> + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { op, f, side, emitted, ends, .. } = self;
        let output = guard(op, || f(item, side));
        for record in side.pushed.drain(..) {
            ends.0.1.push(record, time);
        }
        if let Some(output) = output {
            *emitted += 1;
            ends.0.0.push(output, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{check, check_sinks};

    #[test]
    fn each_record_may_have_some_of_both() {
        check(|env| {
            let (numbers, sides) = env.range(0..2000).side_output(|n, side| {
                (0..n % 4).for_each(|i| side.push((n, i)));
                (n % 2 == 0).then_some(n)
            });
            numbers.map(|n| (n, 9)).merge(sides.shuffle())
        })
        .equals(
            (0..2000u64).flat_map(|n| {
                (0..n % 4).map(move |i| (n, i)).chain((n % 2 == 0).then_some((n, 9)))
            }),
        );
    }

    #[test]
    fn a_stream_that_has_enough_does_not_hold_up_the_other() {
        check_sinks(|env| {
            let halves = |n: u64, side: &mut super::Side<u64>| {
                side.push(n);
                Some(n)
            };
            let (all, few) = env.iter(0..5000u64).side_output(halves);
            let (all, few) = (all.count().collect_one(), few.limit(3).count().collect_one());
            let (some, others) = env.iter(0..5000u64).side_output(halves);
            let (some, others) =
                (some.limit(3).count().collect_one(), others.count().collect_one());
            let many = env.iter([5u64]).flat_map(|n| 0..1000 * n).side_output(halves);
            let (few_of, many) =
                (many.0.limit(3).count().collect_one(), many.1.count().collect_one());
            let (a, b) = env.iter(0u64..).side_output(halves);
            let (a, b) = (a.limit(7).count().collect_one(), b.limit(70).count().collect_one());
            ((all, few), (some, others), (few_of, many), (a, b))
        })
        .must_restore()
        .equals((
            (Some(5000), Some(3)),
            (Some(3), Some(5000)),
            (Some(3), Some(5000)),
            (Some(7), Some(70)),
        ));
    }
}
