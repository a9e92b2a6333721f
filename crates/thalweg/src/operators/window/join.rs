//! Windows of two streams.

use super::pane::Pane;
use super::windowed::{Ending, Window, Windowed, Windowing};
use crate::data::Data;
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::join::{
    Either, Joinable, JoinableWith, KeyOf, TaggedBy, TimeOf, ValueOf, both,
};
use crate::operators::keyed::{Carried, FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::EventTime;
use std::marker::PhantomData;

/// Windows for joining two streams: all windows whose results are [`Pane`]s.
pub trait Joining<L, R>:
    Windowing<
        TaggedBy<L, R>,
        Carried<FirstOf>,
        Partitioned,
        BothLists<L::Value, R::Value>,
        Chain: Chain<Item = (L::Key, Pane<(Vec<L::Value>, Vec<R::Value>)>), Time = L::Time>,
    >
where
    L: Joinable<Time: EventTime>,
    R: Joinable,
{
}

#[diagnostic::do_not_recommend]
impl<W, L, R> Joining<L, R> for W
where
    L: Joinable<Time: EventTime>,
    R: Joinable,
    W: Windowing<
            TaggedBy<L, R>,
            Carried<FirstOf>,
            Partitioned,
            BothLists<L::Value, R::Value>,
            Chain: Chain<Item = (L::Key, Pane<(Vec<L::Value>, Vec<R::Value>)>), Time = L::Time>,
        >,
{
}

impl<C: Chain, G, P> KeyedStream<C, G, P> {
    /// Collects the values of a key in a window from both streams, as two lists. Keys that only one stream has
    /// are included. See [`window_join`](Self::window_join) for pairs.
    ///
    /// Every record is sent to the task that owns its key, unless it is there already, and is kept until its
    /// windows have ended. The lists are in the order of arrival if one task sends all records; otherwise their
    /// order is not defined.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |clicks: Vec<(i64, char)>| {
    ///     env.iter(clicks)
    ///         .assign_timestamps(|click| Timestamp::from_secs(click.0), Watermarks::monotonous())
    ///         .group_by(|click| click.1)
    /// };
    /// let (views, buys) = (timed(vec![(1, 'a'), (2, 'b'), (3, 'a')]), timed(vec![(2, 'a')]));
    /// let rates = views
    ///     .co_group(buys, EventTimeWindow::tumbling(Duration::from_secs(10)), |page, views, buys| {
    ///         (*page, buys.len() as f64 / views.len() as f64)
    ///     })
    ///     .unkey()
    ///     .map(|(_, rate)| rate.value)
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// let mut rates = rates.take()?;
    /// rates.sort_by_key(|rate| rate.0);
    /// assert_eq!(rates, [('a', 0.5), ('b', 0.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn co_group<R, W, O, F>(
        self,
        other: R,
        window: W,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (KeyOf<Self>, Pane<O>), Time = TimeOf<Self>>,
        FirstOf,
        Partitioned,
    >
    where
        Self: Joinable<Value: Clone, Time: EventTime>,
        R: JoinableWith<Self, Value: Clone>,
        W: Joining<Self, R>,
        O: 'static,
        F: Fn(&KeyOf<Self>, Vec<ValueOf<Self>>, Vec<ValueOf<R>>) -> O + Send + Sync + 'static,
    {
        let origin = Origin::here("co_group");
        let panes = both(self, other, origin).window(window).sides(origin);
        let each = move |(key, pane): (KeyOf<Self>, Pane<(Vec<_>, Vec<_>)>)| {
            let pane_of = pane.with(());
            let (left, right) = pane.value;
            let value = f(&key, left, right);
            (key, pane_of.with(value))
        };
        KeyedStream::from_parts(panes.map_as(Origin { kind: "map", ..origin }, each), FirstOf)
    }

    /// Joins every pair of values that the two streams have for a key in a window.
    ///
    /// Like [`co_group`](Self::co_group), with the pairs of the two lists.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |pairs: Vec<(i64, u32)>| {
    ///     env.iter(pairs)
    ///         .assign_timestamps(|pair| Timestamp::from_secs(pair.0), Watermarks::monotonous())
    ///         .group_by(|_| ())
    /// };
    /// let (left, right) = (timed(vec![(1, 10), (2, 20), (11, 30)]), timed(vec![(3, 1), (12, 2)]));
    /// let tens = EventTimeWindow::tumbling(Duration::from_secs(10));
    /// let sums = left.window_join(right, tens, |(), a, b| a.1 + b.1);
    /// let out = sums.unkey().map(|(_, sum)| sum.value).collect::<std::collections::BTreeSet<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [11, 21, 32].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn window_join<R, W, O, F>(
        self,
        other: R,
        window: W,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (KeyOf<Self>, Pane<O>), Time = TimeOf<Self>>,
        FirstOf,
        Partitioned,
    >
    where
        Self: Joinable<Value: Clone, Time: EventTime>,
        R: JoinableWith<Self, Value: Clone>,
        W: Joining<Self, R>,
        O: 'static,
        F: Fn(&KeyOf<Self>, &ValueOf<Self>, &ValueOf<R>) -> O + Send + Sync + 'static,
    {
        let origin = Origin::here("window_join");
        let f = std::sync::Arc::new(f);
        let panes = both(self, other, origin).window(window).sides(origin);
        let pairs = panes.flat_map(move |(key, pane): (KeyOf<Self>, Pane<(Vec<_>, Vec<_>)>)| {
            let pane_of = pane.with(());
            let (left, right) = pane.value;
            let f = std::sync::Arc::clone(&f);
            // Pairs are computed from a number, so that memory holds only the two lists, however many pairs
            // there are.
            (0..left.len() * right.len()).map(move |number| {
                let (a, b) = (number / right.len(), number % right.len());
                let value = f(&key, &left[a], &right[b]);
                (key.clone(), pane_of.with(value))
            })
        });
        KeyedStream::from_parts(pairs, FirstOf)
    }
}

impl<C, G, P, W, E> Windowed<C, G, P, W, E>
where
    C: Chain,
    G: KeyBy<C::Item>,
    W: Window<C::Time>,
    E: Ending,
{
    /// Collects all values of both sides of two streams.
    fn sides<A, B>(
        self,
        origin: Origin,
    ) -> Stream<<W as Windowing<C, G, P, BothLists<A, B>>>::Chain>
    where
        A: Data,
        B: Data,
        G: KeyBy<C::Item, Value = Either<A, B>>,
        W: Windowing<C, G, P, BothLists<A, B>>,
    {
        let make = |window: W, keyed, plan| window.windows(keyed, plan, BothLists::new());
        self.make::<(Vec<A>, Vec<B>), _>("both sides", origin, make)
    }
}

/// Collects all values of two streams, as one list for each.
pub struct BothLists<A, B>(PhantomData<fn(A, B)>);

impl<A, B> BothLists<A, B> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Data, B: Data> Aggregate<Either<A, B>> for BothLists<A, B> {
    type State = (Vec<A>, Vec<B>);
    type Output = (Vec<A>, Vec<B>);

    fn start(&self) -> Self::State {
        (Vec::new(), Vec::new())
    }

    #[inline]
    fn update(&self, (left, right): &mut Self::State, value: Either<A, B>) {
        match value {
            Either::Left(a) => left.push(a),
            Either::Right(b) => right.push(b),
        }
    }

    fn finish(&self, state: Self::State) -> Self::State {
        state
    }
}

impl<A: Data, B: Data> Combine<Either<A, B>> for BothLists<A, B> {
    fn combine(&self, (left, right): &mut Self::State, mut other: Self::State) {
        left.append(&mut other.0);
        right.append(&mut other.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{cases, check};
    use crate::operators::time::Watermarks;
    use crate::operators::window::tests::{beginnings, shapes};
    use crate::time::Timestamp;
    use crate::{Environment, Stream};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

    /// A key, a timestamp in microseconds, a value.
    type Reading = (u8, i64, u16);

    fn side(begin: i64, numbers: &[(u8, i64)]) -> Vec<Reading> {
        let reading = |(&(key, at), value)| (key, begin.saturating_add(at), value);
        numbers.iter().zip(0..).map(reading).collect()
    }

    fn timed(
        env: &Environment,
        readings: &[Reading],
    ) -> Stream<impl Chain<Item = Reading, Time = Timestamp> + use<>> {
        let all = Watermarks::bounded_disorder(Duration::from_micros(100));
        let readings = readings.to_vec();
        env.iter(readings).assign_timestamps(|(_, at, _)| Timestamp::from_micros(*at), all)
    }

    proptest! {
        #![proptest_config(cases(8))]

        /// Compares the join with all pairs of readings, tested one by one.
        #[test]
        fn every_pair_in_a_window_is_joined(
            begin in beginnings(),
            left in prop::collection::vec((0..3u8, 0..100i64), 0..40),
            right in prop::collection::vec((0..3u8, 0..100i64), 0..40),
            shape in shapes(),
        ) {
            let (left, right) = (side(begin, &left), side(begin, &right));
            let window = shape.window();
            // The values of the right side are below 0.
            let lefts = left.iter().map(|(key, at, value)| (*key, *at, i32::from(*value)));
            let rights = right.iter().map(|(key, at, value)| (*key, *at, -1 - i32::from(*value)));
            let all: Vec<_> = lefts.chain(rights).collect();
            let mut pairs = Vec::new();
            let mut groups = Vec::new();
            for (key, pane) in shape.expected(&all, <[i32]>::to_vec) {
                let of = |left: bool| pane.value.iter().copied().filter(move |value| (*value >= 0) == left);
                let (a, b) = (of(true).map(|a| a as u16), of(false).map(|b| (-1 - b) as u16));
                let with = |a| b.clone().map(move |b| (a, b));
                pairs.extend(a.clone().flat_map(with).map(|pair| (key, pane.with(pair))));
                let all: BTreeSet<_> = a.map(|a| (0u8, a)).chain(b.map(|b| (1, b))).collect();
                groups.push((key, pane.with(all)));
            }
            check(|env| {
                let (a, b) = (timed(env, &left), timed(env, &right));
                let (a, b) = (a.group_by(|reading| reading.0), b.group_by(|reading| reading.0));
                a.window_join(b, window, |_, a, b| (a.2, b.2))
            })
            .seeds(2)
            .equals(pairs);
            check(|env| {
                let (a, b) = (timed(env, &left), timed(env, &right));
                let (a, b) = (a.group_by(|reading| reading.0), b.group_by(|reading| reading.0));
                a.co_group(b, window, |_, a, b| -> BTreeSet<(u8, u16)> {
                    a.iter().map(|a| (0, a.2)).chain(b.iter().map(|b| (1, b.2))).collect()
                })
            })
            .seeds(2)
            .equals(groups);
        }
    }
}
