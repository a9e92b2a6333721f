//! Several streams made of one, each with the records that a predicate matches.

use crate::data::{Portable, Record};
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Op, Pipe, Push, guard};
use crate::plan::{Details, Origin, Parallelism, Strategy};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::sync::Arc;

/// A stream that begins with an exchange.
type Branch<C> = Stream<Received<<C as Chain>::Item, <C as Chain>::Time>>;

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Sends each record to one of several streams: to that of the first predicate that matches it, or to the
    /// rest.
    ///
    /// Add a stream for each predicate by [`to`](Route::to), in order, and end with [`split`](Route::split),
    /// which returns as many streams as there are predicates, and the rest. All of them must end in a sink, so
    /// that nothing is lost by oversight; drop unwanted records by `for_each(drop)`.
    ///
    /// For streams that each have every record there is [`split`](Self::split); for a side output with another
    /// type of record, [`side_output`](Self::side_output).
    ///
    /// The operators before `route` run once. The slowest of the streams slows all; one that needs no more
    /// records (after a [`limit`](Self::limit)) blocks none, and records that are still routed to it are
    /// dropped. When none needs more, the source ends. Keeps order and the number of tasks; a record moves to a
    /// task of its stream.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let numbers = env.range(0..100);
    /// let ([small, even], rest) = numbers.route().to(|n| *n < 10).to(|n| n % 2 == 0).split();
    /// let counts = [small.count(), even.count(), rest.count()].map(|count| count.collect_one());
    /// env.run()?;
    /// let [small, even, rest] = counts.map(|count| count.take());
    /// assert_eq!((small?, even?, rest?), (Some(10), Some(45), Some(45)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("OutputTag", "branch"))]
    #[track_caller]
    pub fn route(self) -> Route<C, ()> {
        Route { stream: self, origin: Origin::here("route"), predicates: () }
    }
}

/// The predicates by which a stream is routed; made by [`Stream::route`].
#[must_use = "say where records go by `to`, and then `split`"]
pub struct Route<C: Chain, P> {
    stream: Stream<C>,
    origin: Origin,
    predicates: P,
}

impl<C: Chain<Item: Portable>, P> Route<C, P> {
    /// Adds a stream of the records for which the closure, and no earlier one, returns `true`.
    pub fn to<F>(self, takes: F) -> Route<C, (P, F)>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
    {
        let Self { stream, origin, predicates } = self;
        Route { stream, origin, predicates: (predicates, takes) }
    }

    /// The streams, in the order of their predicates, and the stream of the records that no predicate matches.
    pub fn split(self) -> (P::Many<Branch<C>>, Branch<C>)
    where
        P: Predicates<C::Item> + Several,
    {
        let Self { stream, origin, predicates } = self;
        let (env, from) = (stream.env.clone(), stream.stage);
        let (parallelism, bounded) = (Parallelism::Free(stream.tasks()), stream.is_bounded());
        let branch = || {
            let to = env.builder().stage_after(&[from], parallelism, bounded);
            (to, env.link(from, to, Strategy::Forward))
        };
        let branches: Vec<_> = (0..=P::COUNT).map(|_| branch()).collect();
        let ends: Vec<_> = branches.iter().map(|(_, edge)| edge.clone()).collect();
        let predicates = Arc::new(predicates);
        stream.close(origin, Details::of("ways", P::COUNT), move |cx, op| {
            let outlet = |edge: &Edge<_, _>| {
                edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
            };
            Ok(Routing {
                op: cx.op(op),
                predicates: Arc::clone(&predicates),
                outlets: Forked(ends.iter().map(outlet).collect()),
            })
        });
        let mut streams =
            branches.into_iter().map(|(stage, edge)| env.receive(stage, origin, vec![edge]));
        let mut next = || streams.next().expect("there is a branch more than predicates");
        (P::many(&mut next), next())
    }
}

/// A list of predicates: the first that matches a record decides where it goes.
pub trait Predicates<I: Record + ?Sized>: Send + Sync + 'static {
    /// The number of predicates.
    #[doc(hidden)]
    const COUNT: usize;

    /// The index of the first predicate that matches the record, or `COUNT`.
    #[doc(hidden)]
    fn first(&self, item: &I::Of<'_>) -> usize;
}

impl<I: Record + ?Sized> Predicates<I> for () {
    const COUNT: usize = 0;

    #[inline(always)]
    fn first(&self, _: &I::Of<'_>) -> usize {
        0
    }
}

impl<I, P, F> Predicates<I> for (P, F)
where
    I: Record + ?Sized,
    P: Predicates<I>,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> bool + Send + Sync + 'static,
{
    const COUNT: usize = P::COUNT + 1;

    #[inline(always)]
    fn first(&self, item: &I::Of<'_>) -> usize {
        let before = self.0.first(item);
        before + usize::from(before == P::COUNT && !(self.1)(item))
    }
}

/// A list of predicates whose length is known at compile time.
#[diagnostic::on_unimplemented(
    message = "a stream is routed by at most twelve predicates",
    label = "more than twelve",
    note = "route the rest again, or use `group_by`"
)]
pub trait Several {
    /// An array of this length.
    type Many<S>;

    /// Fills the array.
    #[doc(hidden)]
    fn many<S>(next: &mut dyn FnMut() -> S) -> Self::Many<S>;
}

/// The nested tuple of these predicate types, added one after the other.
macro_rules! nested {
    ($of:ty;) => { $of };
    ($of:ty; $next:ident $($more:ident)*) => { nested!(($of, $next); $($more)*) };
}

macro_rules! several {
    ($($count:literal: $($name:ident)*;)*) => {
        $(
            #[diagnostic::do_not_recommend]
            impl<$($name),*> Several for nested!((); $($name)*) {
                type Many<S> = [S; $count];

                fn many<S>(next: &mut dyn FnMut() -> S) -> [S; $count] {
                    [(); $count].map(|()| next())
                }
            }
        )*
    };
}

several! {
    0: ;
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
    9: A B C D E F G H I;
    10: A B C D E F G H I J;
    11: A B C D E F G H I J K;
    12: A B C D E F G H I J K L;
}

/// Sends every record to one of several exchanges.
struct Routing<I: Portable + ?Sized, T: Time, P> {
    op: Op,
    predicates: Arc<P>,
    outlets: Forked<Vec<Outlet<I, T, RoundRobin>>>,
}

impl<I: Portable + ?Sized, T: Time, P: Predicates<I>> Push<I, T> for Routing<I, T, P> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let to = guard(&self.op, || self.predicates.first(&item));
        // There is one more outlet than predicates: that of the rest.
        if let Some(outlet) = self.outlets.0.get_mut(to) {
            outlet.push(item, time);
        }
    }
}

impl<I: Portable + ?Sized, T: Time, P: Send + Sync> Pipe for Routing<I, T, P> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.outlets)
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{check, check_sinks};
    use crate::operators::time::Watermarks;
    use crate::operators::window::EventTimeWindow;
    use crate::time::Timestamp;
    use std::time::Duration;

    #[test]
    fn the_first_predicate_that_takes_a_record_has_it() {
        let expected = (0..3000u64).map(|n| {
            let way = match n {
                n if n % 2 == 0 => 0,
                n if n % 3 == 0 => 1,
                n if n < 1000 => 2,
                _ => 3,
            };
            (way, n)
        });
        check(|env| {
            let numbers = env.range(0..3000).route();
            let numbers = numbers.to(|n| n % 2 == 0).to(|n| n % 3 == 0).to(|n| *n < 1000);
            let ([evens, thirds, small], rest) = numbers.split();
            let mark = |way: u64| move |n| (way, n);
            evens
                .map(mark(0))
                .merge(thirds.map(mark(1)))
                .merge(small.map(mark(2)))
                .merge(rest.map(mark(3)))
        })
        .equals(expected);
    }

    #[test]
    fn a_way_may_have_all_or_nothing() {
        check_sinks(|env| {
            let ([none, all], rest) = env.range(0..5000).route().to(|_| false).to(|_| true).split();
            let [none, all, rest] = [none, all, rest].map(|way| way.count().collect_one());
            (none, all, rest)
        })
        .must_restore()
        .equals((Some(0), Some(5000), Some(0)));
    }

    #[test]
    fn a_way_that_has_enough_holds_up_no_other_and_all_of_them_the_source() {
        check_sinks(|env| {
            let ([few], rest) = env.iter(0..20_000u64).route().to(|n| n % 2 == 0).split();
            let (few, rest) = (few.limit(3).count().collect_one(), rest.count().collect_one());
            let endless = env.iter(0u64..).route().to(|n| n % 3 == 0).to(|n| n % 3 == 1);
            let ([a, b], c) = endless.split();
            let [a, b, c] =
                [a.limit(5), b.limit(50), c.limit(500)].map(|way| way.count().collect_one());
            (few, rest, a, b, c)
        })
        .must_restore()
        .equals((Some(3), Some(10_000), Some(5), Some(50), Some(500)));
    }

    #[test]
    fn texts_and_timestamps_go_along() {
        check(|env| {
            let words = env.iter(["a b", "c"]).flat_map_str(|line, out| {
                line.split(' ').for_each(|word| out.push(word));
            });
            let ([late], early) = words.route().to(|word| *word > "b").split();
            late.map(|word| format!("late {word}")).merge(early.map(str::to_owned))
        })
        .equals(["a", "b", "late c"].map(str::to_owned));
        check(|env| {
            let numbers = env
                .iter(0..1000i64)
                .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous());
            let ([even], odd) = numbers.route().to(|n| n % 2 == 0).split();
            odd.for_each(drop);
            let hundreds = EventTimeWindow::tumbling(Duration::from_micros(100));
            even.group_by(|_| ()).window(hundreds).count().unkey().map(|(_, pane)| pane.value)
        })
        .equals([50u64; 10]);
    }

    #[test]
    fn rounds_of_a_loop_are_routed() {
        let after = |n: u64| (0..7).fold(n, |n, _| if n < 50 { n + 10 } else { n + 1 });
        check(|env| {
            let (outcome, left) = env
                .range(0..100)
                .iterate(7, (), |numbers, _| {
                    let ([small], rest) = numbers.route().to(|n| *n < 50).split();
                    small.map(|n| n + 10).merge(rest.map(|n| n + 1))
                })
                .fold(|(): &mut (), _| {}, |(), ()| {})
                .all_rounds(|(), ()| {});
            outcome.for_each(drop);
            left
        })
        .equals((0..100).map(after));
    }
}
