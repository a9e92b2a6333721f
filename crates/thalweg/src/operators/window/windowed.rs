//! Keyed streams cut into windows.

use super::firing::{Firing, Parts, Values};
use super::frames::Frames;
use super::join::{Side, Sides};
use super::pane::Pane;
use super::slicing::{SlicePart, Slicing};
use super::total::{Summand, Total};
use crate::data::{Data, Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::operators::keyed::{
    Average, Combine, Count, FirstOf, FoldAssoc, KeyBy, KeyedStream, Max, Min, Partitioned, Reduce,
    Scattered, by_hash,
};
use crate::plan::Origin;
use crate::stream::{Chain, Received, Stream};
use crate::time::EventTime;
use std::sync::Arc;

/// Where the windows of a stream are. Implemented by [`EventTimeWindow`](super::EventTimeWindow).
pub trait Window: Clone + Send + Sync + 'static {
    /// Where they begin and end, or what is wrong with them.
    #[doc(hidden)]
    fn frames(&self) -> Result<Frames, String>;

    /// What they are, in words.
    #[doc(hidden)]
    fn describe(&self) -> String;
}

/// A keyed stream cut into windows, made by [`KeyedStream::window`]: say what is computed of each.
#[must_use = "windows do nothing until it is said what is computed of them"]
pub struct Windowed<C: Chain, G, P, W> {
    keyed: KeyedStream<C, G, P>,
    window: W,
}

impl<C: Chain<Time: EventTime>, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Cuts the values of each key into windows. What is computed of each is said next, as in
    /// `.window(…).count()`.
    ///
    /// Every key that has values in a window has a [`Pane`] of it, whose timestamp is the window's
    /// last. See [`EventTimeWindow`](super::EventTimeWindow) for when. Windows over all
    /// values, whatever the key, are those of `group_by(|_| ())`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let second = Duration::from_secs(1);
    /// let trades = env.iter([(1, "a", 10), (2, "b", 5), (3, "a", 7), (4, "a", 9)]);
    /// let highest = trades
    ///     .assign_timestamps(|trade| Timestamp::from_secs(trade.0), Watermarks::monotonous())
    ///     .group_by(|trade| trade.1)
    ///     .window(EventTimeWindow::sliding(2 * second, second))
    ///     .max(|trade| trade.2);
    /// let out = highest.unkey().map(|(share, pane)| (pane.end.as_micros() / 1_000_000, share, pane.value));
    /// let out = out.collect::<std::collections::BTreeSet<_>>();
    /// env.run()?;
    /// let expected = [(2, "a", 10), (3, "a", 10), (3, "b", 5), (4, "a", 7), (4, "b", 5), (5, "a", 9), (6, "a", 9)];
    /// assert!(out.take()?.into_iter().eq(expected));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn window<W: Window>(self, window: W) -> Windowed<C, G, P, W> {
        Windowed { keyed: self, window }
    }
}

/// Brings slices or records to the tasks of their keys, and makes windows of them there.
pub trait Windowing<C: Chain, G: KeyBy<C::Item>, A: Combine<G::Value>>: Sized {
    /// The chain after that.
    type Chain: Chain<Item = (<G::Key as Portable>::Owned, Pane<A::Output>), Time = C::Time>;

    /// Makes it.
    #[doc(hidden)]
    fn windows(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        detail: String,
        frames: Frames,
        aggregate: A,
    ) -> Stream<Self::Chain>;
}

impl<C, G, A> Windowing<C, G, A> for Partitioned
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
{
    type Chain = Firing<C, Values<A, G>>;

    fn windows(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        detail: String,
        frames: Frames,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        let (stream, keys) = keyed.into_parts();
        let feed = Values { aggregate: Arc::new(aggregate), keys };
        stream.then_described(origin, detail, |prev, op| Firing { prev, op, feed, frames })
    }
}

impl<C, G, A> Windowing<C, G, A> for Scattered
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
{
    type Chain = Firing<Received<SlicePart<G::Key, A::State>, C::Time>, Parts<A, G::Key, G::Value>>;

    fn windows(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        detail: String,
        frames: Frames,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        let (stream, keys) = keyed.into_parts();
        let aggregate = Arc::new(aggregate);
        let local = Arc::clone(&aggregate);
        let slice = Origin { kind: "slice", ..origin };
        let sliced =
            stream.then(slice, |prev, op| Slicing { prev, op, keys, aggregate: local, frames });
        let feed = Parts::new(aggregate);
        by_hash(sliced, Origin { kind: "partition", ..origin }).then_described(
            origin,
            detail,
            |prev, op| Firing { prev, op, feed, frames },
        )
    }
}

/// A keyed stream of the results of windows.
type Results<C, G, P, A> = KeyedStream<<P as Windowing<C, G, A>>::Chain, FirstOf, Partitioned>;

/// How the values of a keyed stream look to a closure.
type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C, G, P, W> Windowed<C, G, P, W>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    W: Window,
{
    /// Aggregates the values of each window by any [`Combine`].
    ///
    /// Each task aggregates its own records first, slice by slice; what is sent is put together by the
    /// task that owns the key. Where the aggregate has an [inverse](Combine::INVERSE), slices that a
    /// window has no more are subtracted; where it has none, they are kept on two stacks a key, which
    /// costs somewhat more. The order in which values are taken in is not defined.
    ///
    /// The aggregates that there are, and several at once, are in
    /// [`aggregates`](crate::operators::aggregates).
    #[track_caller]
    pub fn aggregate<A>(self, aggregate: A) -> Results<C, G, P, A>
    where
        A: Combine<G::Value>,
        P: Windowing<C, G, A>,
    {
        self.aggregate_as("aggregate", Origin::here("window"), aggregate)
    }

    fn aggregate_as<A>(self, what: &str, origin: Origin, aggregate: A) -> Results<C, G, P, A>
    where
        A: Combine<G::Value>,
        P: Windowing<C, G, A>,
    {
        let Self { keyed, window } = self;
        let detail = format!("{what}, {}", window.describe());
        let (frames, wrong) = match window.frames() {
            Ok(frames) => (frames, None),
            Err(wrong) => (Frames::new(1, 1, 0), Some(wrong)),
        };
        let wrong = wrong.or_else(|| aggregate.check().err());
        let stream = P::windows(keyed, origin, detail, frames, aggregate)
            .with_state(true, <A::State as Data>::schema());
        if let Some(wrong) = wrong {
            stream.refuse(Error::new(ErrorKind::Plan, wrong));
        }
        KeyedStream::from_parts(stream, FirstOf)
    }

    /// All values of both sides of two streams.
    pub(super) fn sides<A, B>(
        self,
        origin: Origin,
    ) -> Stream<<P as Windowing<C, G, Sides<A, B>>>::Chain>
    where
        A: Data,
        B: Data,
        G: KeyBy<C::Item, Value = Side<A, B>>,
        P: Windowing<C, G, Sides<A, B>>,
    {
        self.aggregate_as("both sides", origin, Sides::new()).into_parts().0
    }

    /// Counts the values of each window. See [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn count(self) -> Results<C, G, P, Count>
    where
        P: Windowing<C, G, Count>,
    {
        self.aggregate_as("count", Origin::here("window"), Count)
    }

    /// Adds up what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how. Integers are subtracted again when they leave a window;
    /// floats, which would not come out the same, are not.
    #[track_caller]
    pub fn sum<N, F>(self, of: F) -> Results<C, G, P, Total<F, N>>
    where
        N: Summand,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Windowing<C, G, Total<F, N>>,
    {
        self.aggregate_as("sum", Origin::here("window"), Total::new(of))
    }

    /// The least of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Results<C, G, P, Min<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Windowing<C, G, Min<F, N>>,
    {
        self.aggregate_as("min", Origin::here("window"), Min::new(of))
    }

    /// The greatest of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Results<C, G, P, Max<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        P: Windowing<C, G, Max<F, N>>,
    {
        self.aggregate_as("max", Origin::here("window"), Max::new(of))
    }

    /// The arithmetic mean of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn avg<F>(self, of: F) -> Results<C, G, P, Average<F>>
    where
        F: for<'a> Fn(Value<'a, C, G>) -> f64 + Send + Sync + 'static,
        P: Windowing<C, G, Average<F>>,
    {
        self.aggregate_as("avg", Origin::here("window"), Average::new(of))
    }

    /// Folds the values of each window in parts: `local` takes a value into a part, `global` puts a
    /// part into another. Both together must be associative and commutative; see
    /// [`aggregate`](Self::aggregate) for how it is done.
    #[track_caller]
    pub fn fold_assoc<S, F, M>(
        self,
        init: S,
        local: F,
        global: M,
    ) -> Results<C, G, P, FoldAssoc<S, F, M>>
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, Value<'a, C, G>) + Send + Sync + 'static,
        M: Fn(&mut S, S) + Send + Sync + 'static,
        P: Windowing<C, G, FoldAssoc<S, F, M>>,
    {
        let fold = FoldAssoc { init, local, global };
        self.aggregate_as("fold_assoc", Origin::here("window"), fold)
    }

    /// Makes one value of any two of a window until one is left. The closure must be associative and
    /// commutative; see [`aggregate`](Self::aggregate) for how it is done.
    #[track_caller]
    pub fn reduce_assoc<V, F>(self, reduce: F) -> Results<C, G, P, Reduce<F>>
    where
        G: KeyBy<C::Item, Value = V>,
        V: Data,
        F: Fn(V, V) -> V + Send + Sync + 'static,
        P: Windowing<C, G, Reduce<F>>,
    {
        self.aggregate_as("reduce_assoc", Origin::here("window"), Reduce { reduce })
    }
}
