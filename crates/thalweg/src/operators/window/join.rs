//! Windows of two streams.

use super::pane::Pane;
use super::windowed::Windowing;
use crate::data::{Data, Key, Portable, Record};
use crate::exchange::{ByHash, Hashed};
use crate::operators::keyed::{
    Aggregate, Carried, Combine, FirstOf, KeyBy, KeyedStream, Partitioned, add_hash,
};
use crate::plan::{Origin, Strategy};
use crate::stream::{Chain, Received, Stream};
use crate::time::EventTime;
use std::borrow::Borrow;
use std::marker::PhantomData;

/// A value of one of two streams.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub enum Side<A, B> {
    /// Of the first.
    Left(A),
    /// Of the second.
    Right(B),
}

/// The values of a keyed stream, as they are kept.
pub(in crate::operators) type Kept<G, I> = <<G as KeyBy<I>>::Value as Portable>::Owned;
/// Both streams as one, in the tasks that own the keys.
pub(in crate::operators) type Both<K, A, B, T> =
    KeyedStream<Arrived<K, A, B, T>, Carried<FirstOf>, Partitioned>;
/// The chain that begins there.
pub(in crate::operators) type Arrived<K, A, B, T> = Received<Hashed<(K, Side<A, B>)>, T>;

/// Windows in which values of two streams meet: all whose results are [`Pane`]s.
pub trait Joining<K, A, B, T>:
    Windowing<
        Arrived<K, A, B, T>,
        Carried<FirstOf>,
        Partitioned,
        Sides<A, B>,
        Chain: Chain<Item = (K, Pane<(Vec<A>, Vec<B>)>), Time = T>,
    >
where
    K: Data + Key,
    A: Data,
    B: Data,
    T: EventTime,
{
}

#[diagnostic::do_not_recommend]
impl<W, K, A, B, T> Joining<K, A, B, T> for W
where
    K: Data + Key,
    A: Data,
    B: Data,
    T: EventTime,
    W: Windowing<
            Arrived<K, A, B, T>,
            Carried<FirstOf>,
            Partitioned,
            Sides<A, B>,
            Chain: Chain<Item = (K, Pane<(Vec<A>, Vec<B>)>), Time = T>,
        >,
{
}

impl<C, G, P, K> KeyedStream<C, G, P>
where
    K: Data + Key + Portable<Owned = K> + Borrow<G::Key> + Clone,
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item, Value: Portable<Owned: Clone>, Key: Key<Owned = K>>,
    P: 'static,
{
    /// Brings the values that both streams have for a key in a window together, as two lists: the keys
    /// that only one of them has included. See [`window_join`](Self::window_join) for pairs.
    ///
    /// Every record goes to the task that owns its key, and is kept until its windows have ended. The
    /// order of the lists is that of arrival where one task sends all, and not defined otherwise.
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
    pub fn co_group<D, H, Q, W, O, F>(
        self,
        other: KeyedStream<D, H, Q>,
        window: W,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (K, Pane<O>), Time = C::Time> + use<C, G, P, K, D, H, Q, W, O, F>,
        FirstOf,
        Partitioned,
    >
    where
        D: Chain<Time = C::Time>,
        H: KeyBy<D::Item, Key = G::Key, Value: Portable<Owned: Clone>>,
        Q: 'static,
        W: Joining<K, Kept<G, C::Item>, Kept<H, D::Item>, C::Time>,
        O: 'static,
        F: Fn(&K, Vec<Kept<G, C::Item>>, Vec<Kept<H, D::Item>>) -> O + Send + Sync + 'static,
    {
        let origin = Origin::here("co_group");
        let panes = both(self, other, origin).window(window).sides(origin);
        let each = move |(key, pane): (K, Pane<(Vec<_>, Vec<_>)>)| {
            let pane_of = pane.with(());
            let (left, right) = pane.value;
            let value = f(&key, left, right);
            (key, pane_of.with(value))
        };
        KeyedStream::from_parts(panes.map_as(origin, each), FirstOf)
    }

    /// Makes a record of every pair of values that the two streams have for a key in a window.
    ///
    /// As [`co_group`](Self::co_group), of which it takes the pairs of both lists.
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
    pub fn window_join<D, H, Q, W, O, F>(
        self,
        other: KeyedStream<D, H, Q>,
        window: W,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (K, Pane<O>), Time = C::Time> + use<C, G, P, K, D, H, Q, W, O, F>,
        FirstOf,
        Partitioned,
    >
    where
        D: Chain<Time = C::Time>,
        H: KeyBy<D::Item, Key = G::Key, Value: Portable<Owned: Clone>>,
        Q: 'static,
        W: Joining<K, Kept<G, C::Item>, Kept<H, D::Item>, C::Time>,
        O: 'static,
        F: Fn(&K, &Kept<G, C::Item>, &Kept<H, D::Item>) -> O + Send + Sync + 'static,
    {
        let origin = Origin::here("window_join");
        let f = std::sync::Arc::new(f);
        let panes = both(self, other, origin).window(window).sides(origin);
        let pairs = panes.flat_map(move |(key, pane): (K, Pane<(Vec<_>, Vec<_>)>)| {
            let pane_of = pane.with(());
            let (left, right) = pane.value;
            let f = std::sync::Arc::clone(&f);
            // By number, so that no more than the two lists is held however many pairs there are.
            (0..left.len() * right.len()).map(move |number| {
                let (a, b) = (number / right.len(), number % right.len());
                let value = f(&key, &left[a], &right[b]);
                (key.clone(), pane_of.with(value))
            })
        });
        KeyedStream::from_parts(pairs, FirstOf)
    }
}

/// Brings both streams to the tasks that own the keys.
pub(in crate::operators) fn both<C, G, P, D, H, Q, K>(
    left: KeyedStream<C, G, P>,
    right: KeyedStream<D, H, Q>,
    origin: Origin,
) -> Both<K, Kept<G, C::Item>, Kept<H, D::Item>, C::Time>
where
    C: Chain,
    G: KeyBy<C::Item, Value: Portable, Key: Key<Owned = K>>,
    P: 'static,
    D: Chain<Time = C::Time>,
    H: KeyBy<D::Item, Key = G::Key, Value: Portable>,
    Q: 'static,
    K: Data + Key + Portable<Owned = K> + Borrow<G::Key>,
{
    let (left, right) = (side(left, Side::Left, origin), side(right, Side::Right, origin));
    let env = left.env.clone();
    let bounded = left.is_bounded() && right.is_bounded();
    let to = env.stage_of_both(
        &right.env,
        origin,
        [left.stage, right.stage],
        env.keyed_tasks(),
        bounded,
    );
    if !env.is_same(&right.env) {
        // The job is refused; the other stream's stage is of no plan.
        return KeyedStream::from_parts(env.receive(to, origin, Vec::new()), Carried(FirstOf));
    }
    let edges = vec![send(left, to, origin), send(right, to, origin)];
    KeyedStream::from_parts(env.receive(to, origin, edges), Carried(FirstOf))
}

/// The records of one of both streams, with their keys.
fn side<C, G, P, K, S>(
    keyed: KeyedStream<C, G, P>,
    side: fn(<G::Value as Portable>::Owned) -> S,
    origin: Origin,
) -> Stream<impl Chain<Item = (K, S), Time = C::Time>>
where
    C: Chain,
    G: KeyBy<C::Item, Value: Portable, Key: Key<Owned = K>>,
    K: 'static,
    S: 'static,
{
    let (stream, keys) = keyed.into_parts();
    stream.map_as(Origin { kind: "pair", ..origin }, move |item: <C::Item as Record>::Of<'_>| {
        let key = keys.key(&item).own();
        (key, side(<G::Value as Portable>::to_owned(keys.value(item))))
    })
}

fn send<C: Chain<Item = (K, V)>, K: Data + Key, V: Data>(
    stream: Stream<C>,
    to: usize,
    origin: Origin,
) -> crate::exchange::Edge<Hashed<(K, V)>, C::Time> {
    let exchange = Origin { kind: "partition", ..origin };
    add_hash(stream, FirstOf, origin).send_to(to, exchange, Strategy::Keyed, |cx, op, edge| {
        edge.outlet(cx.task, cx.op(op), ByHash)
    })
}

/// All values of both sides.
pub struct Sides<A, B>(PhantomData<fn(A, B)>);

impl<A, B> Sides<A, B> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Data, B: Data> Aggregate<Side<A, B>> for Sides<A, B> {
    type State = (Vec<A>, Vec<B>);
    type Output = (Vec<A>, Vec<B>);

    fn start(&self) -> Self::State {
        (Vec::new(), Vec::new())
    }

    #[inline]
    fn update(&self, (left, right): &mut Self::State, value: Side<A, B>) {
        match value {
            Side::Left(a) => left.push(a),
            Side::Right(b) => right.push(b),
        }
    }

    fn finish(&self, state: Self::State) -> Self::State {
        state
    }
}

impl<A: Data, B: Data> Combine<Side<A, B>> for Sides<A, B> {
    fn combine(&self, (left, right): &mut Self::State, mut other: Self::State) {
        left.append(&mut other.0);
        right.append(&mut other.1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::check;
    use crate::operators::time::Watermarks;
    use crate::operators::window::tests::{beginnings, shapes};
    use crate::time::Timestamp;
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
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        /// Against all pairs of readings, looked at one by one.
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
