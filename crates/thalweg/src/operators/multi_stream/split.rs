//! Several streams made of one, each with all records.

use crate::data::{Portable, Record};
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Pipe, Push};
use crate::plan::{Details, Origin, Parallelism, Strategy};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Splits the stream into `N` streams, each with all records.
    ///
    /// The operators before `split` run once. Each task sends a copy of every record to a task of each stream.
    /// The slowest of the streams slows all; one that needs no more records (after a [`limit`](Self::limit))
    /// blocks none. Keeps order and the number of tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let [all, some] = env.range(0..100).map(|n| n * n).split();
    /// let sum = all.sum(|n| *n).collect_one();
    /// let even = some.filter(|n| n % 2 == 0).count().collect_one();
    /// env.run()?;
    /// assert_eq!((sum.take()?, even.take()?), (Some(328_350), Some(50)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("tee", "fork"))]
    #[track_caller]
    pub fn split<const N: usize>(self) -> [Stream<Received<C::Item, C::Time>>; N]
    where
        for<'a> <C::Item as Record>::Of<'a>: Clone,
    {
        let origin = Origin::here("split");
        let (env, from) = (self.env.clone(), self.stage);
        let (parallelism, bounded) = (Parallelism::Free(self.tasks()), self.is_bounded());
        let stages = [(); N].map(|()| env.builder().stage_after(&[from], parallelism, bounded));
        let edges = stages.map(|to| env.link(from, to, Strategy::Forward));
        let ends = edges.clone();
        self.close(origin, Details::none(), move |cx, op| {
            let outlet = |edge: &Edge<_, _>| {
                edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
            };
            Ok(Copies { outlets: Forked(ends.iter().map(outlet).collect()) })
        });
        let mut branches = stages.into_iter().zip(edges);
        [(); N].map(|()| {
            let (stage, edge) = branches.next().expect("there are as many edges as stages");
            env.receive(stage, origin, vec![edge])
        })
    }
}

/// Sends every record to several exchanges.
struct Copies<I: Portable + ?Sized, T: Time> {
    outlets: Forked<Vec<Outlet<I, T, RoundRobin>>>,
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for Copies<I, T>
where
    for<'a> <I as Record>::Of<'a>: Clone,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Some((last, others)) = self.outlets.0.split_last_mut() else { return };
        for outlet in others {
            outlet.push(item.clone(), time);
        }
        last.push(item, time);
    }
}

impl<I: Portable + ?Sized, T: Time> Pipe for Copies<I, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.outlets)
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{check, check_sinks};

    #[test]
    fn every_branch_has_every_record() {
        check(|env| {
            let [a, b, c] = env.range(0..1000).map(|n| n + 1).split();
            a.merge(b.shuffle()).merge(c).group_by(|n| *n).count().filter(|_, count| *count == 3)
        })
        .equals((1..=1000u64).map(|n| (n, 3)));
    }

    #[test]
    fn a_branch_that_has_enough_holds_up_no_other() {
        check_sinks(|env| {
            let [few, all] = env.iter(0..10_000u64).split();
            let (few, all) = (few.limit(3).count().collect_one(), all.count().collect_one());
            let [a, b] = env.iter(0u64..).split();
            let (a, b) = (a.limit(5).count().collect_one(), b.limit(50).count().collect_one());
            (few, all, a, b)
        })
        .must_restore()
        .equals((Some(3), Some(10_000), Some(5), Some(50)));
    }

    #[test]
    fn texts_are_split_too() {
        check(|env| {
            let words = env.iter(["a b", "c"]).flat_map_str(|line, out| {
                line.split(' ').for_each(|word| out.push(word));
            });
            let [a, b] = words.split();
            a.merge(b)
        })
        .equals(["a", "a", "b", "b", "c", "c"]);
    }
}
