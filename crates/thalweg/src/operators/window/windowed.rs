//! Keyed streams cut into windows.

use crate::data::{Data, Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::operators::aggregates::{
    Aggregate, Aggregates, Average, Combine, Count, FoldAssoc, Max, Min, Number, PickBy, PickByKey,
    Reduce, Sum, Summand,
};
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::plan::{Details, Origin, Scope};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// A kind of window, for streams whose records carry `T` as their time. Implemented by
/// [`EventTimeWindow`](super::EventTimeWindow) and [`SessionWindow`](super::SessionWindow) for timestamps,
/// and for any time by [`ProcessingTimeWindow`](super::ProcessingTimeWindow) and the windows of arrivals:
/// [`CountWindow`](super::CountWindow), [`LastWindow`](super::LastWindow),
/// [`TransactionWindow`](super::TransactionWindow) and [`GlobalWindow`](super::GlobalWindow). A program's own
/// kinds are [`CustomWindow`](super::CustomWindow)s.
pub trait Window<T: Time>: Sized + Send + 'static {
    /// A result, with the bounds of its window.
    type Pane<V: Data>: Data;

    /// The details of the windows, for the plan.
    #[doc(hidden)]
    fn details(&self) -> Details;

    /// The error in their definition, if there is one.
    #[doc(hidden)]
    fn fault(&self) -> Option<String> {
        None
    }

    /// Why they need an input that ends, if they do.
    #[doc(hidden)]
    fn needs_end(&self) -> Option<&'static str> {
        None
    }
}

/// Whether results have keys.
pub trait Ending: 'static {
    /// The name of the operator.
    #[doc(hidden)]
    const KIND: &'static str;

    /// The stream of results.
    type Results<K: 'static, V: 'static, C: Chain<Item = (K, V)>>;

    /// Wraps the stream of results.
    #[doc(hidden)]
    fn end<K: 'static, V: 'static, C: Chain<Item = (K, V)>>(
        stream: Stream<C>,
    ) -> Self::Results<K, V, C>;
}

/// Results keep their keys.
pub enum ByKey {}

impl Ending for ByKey {
    const KIND: &'static str = "window";

    type Results<K: 'static, V: 'static, C: Chain<Item = (K, V)>> =
        KeyedStream<C, FirstOf, Partitioned>;

    fn end<K: 'static, V: 'static, C: Chain<Item = (K, V)>>(
        stream: Stream<C>,
    ) -> KeyedStream<C, FirstOf, Partitioned> {
        KeyedStream::from_parts(stream, FirstOf)
    }
}

/// A stream cut into windows, made by [`KeyedStream::window`] or [`Stream::window_all`]. Its methods choose what
/// is computed for each window.
#[must_use = "windows do nothing until it is said what is computed of them"]
pub struct Windowed<C: Chain, G, P, W, E = ByKey> {
    pub(super) keyed: KeyedStream<C, G, P>,
    pub(super) window: W,
    pub(super) ending: PhantomData<fn() -> E>,
}

impl<C: Chain, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Cuts the values of each key into windows. A method of the result chooses what is computed for each
    /// window, as in `.window(…).count()`.
    ///
    /// Every key with values in a window has a result for that window, with its bounds: a [`Pane`](super::Pane)
    /// for an [`EventTimeWindow`](super::EventTimeWindow), or a [`CountPane`](super::CountPane) for windows by
    /// order of arrival, such as [`CountWindow`](super::CountWindow). The kind of window defines when the result
    /// is emitted. For windows over all records, whatever their key, see [`Stream::window_all`].
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
    /// let trades = env.iter([(1, 'a', 10), (2, 'b', 5), (3, 'a', 7), (4, 'a', 9)]);
    /// let highest = trades
    ///     .assign_timestamps(|trade| Timestamp::from_secs(trade.0), Watermarks::monotonous())
    ///     .group_by(|trade| trade.1)
    ///     .window(EventTimeWindow::sliding(2 * second, second))
    ///     .max(|trade| trade.2);
    /// let out = highest.unkey().map(|(share, pane)| (pane.end.as_micros() / 1_000_000, share, pane.value));
    /// let out = out.collect::<std::collections::BTreeSet<_>>();
    /// env.run()?;
    /// let expected = [(2, 'a', 10), (3, 'a', 10), (3, 'b', 5), (4, 'a', 7), (4, 'b', 5), (5, 'a', 9), (6, 'a', 9)];
    /// assert!(out.take()?.into_iter().eq(expected));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("group_by_dynamic", "rolling"))]
    pub fn window<W: Window<C::Time>>(self, window: W) -> Windowed<C, G, P, W> {
        Windowed { keyed: self, window, ending: PhantomData }
    }
}

/// Windows over which an aggregate that combines can be computed.
pub trait Windowing<C, G, P, A>: Window<C::Time>
where
    C: Chain,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
{
    /// The chain that ends with the windows.
    type Chain: Chain<Item = (<G::Key as Portable>::Owned, Self::Pane<A::Output>), Time = C::Time>;

    /// Adds the operator.
    #[doc(hidden)]
    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain>;
}

/// How the plan shows an operator.
#[derive(Clone)]
pub struct Described {
    pub(super) origin: Origin,
    pub(super) details: Details,
}

/// The stream of the results of windows.
pub(super) type Results<C, G, W, E, O, D> = <E as Ending>::Results<
    <<G as KeyBy<<C as Chain>::Item>>::Key as Portable>::Owned,
    <W as Window<<C as Chain>::Time>>::Pane<O>,
    D,
>;

/// The stream of the results of windows with an aggregate that combines.
type Combined<C, G, P, W, E, A> = Results<
    C,
    G,
    W,
    E,
    <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::Output,
    <W as Windowing<C, G, P, A>>::Chain,
>;

/// The owned form of the values.
type Owned<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Portable>::Owned;

/// The type as which a closure sees the values of a keyed stream.
pub(super) type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C, G, P, W, E> Windowed<C, G, P, W, E>
where
    C: Chain,
    G: KeyBy<C::Item>,
    W: Window<C::Time>,
    E: Ending,
{
    /// Adds the operator. Refuses the job if the windows or the input are invalid.
    pub(super) fn make<S: Data, D: Chain>(
        self,
        what: &str,
        origin: Origin,
        make: impl FnOnce(W, KeyedStream<C, G, P>, Described) -> Stream<D>,
    ) -> Stream<D> {
        let Self { keyed, window, .. } = self;
        let details = Details::of("aggregate", what).with_all(window.details());
        let (fault, needs_end) = (window.fault(), window.needs_end());
        let mut stream = make(window, keyed, Described { origin, details })
            .with_state::<S>(Scope::key::<G::Key>());
        if let Some(why) = needs_end {
            stream = stream.bounded_for(why);
        }
        if let Some(fault) = fault {
            stream.refuse(Error::new(ErrorKind::Plan, fault));
        }
        stream
    }

    /// Aggregates the values of each window. The closure chooses what is computed, from the methods of
    /// [`Aggregates`], as in [`KeyedStream::aggregate`].
    ///
    /// In windows of event time, each task aggregates its own records first, slice by slice. The task that owns
    /// the key combines the partial aggregates, in no defined order. In sessions whose results come only at the end,
    /// it does so for the records between two watermarks. In other sessions and windows of arrivals, the
    /// records themselves are sent to that task. If the aggregate has an [inverse](Combine::INVERSE), slices
    /// that have left a window are subtracted. Otherwise they are kept on two stacks for each key, which costs
    /// somewhat more.
    #[track_caller]
    pub fn aggregate<A, M>(self, make: M) -> Combined<C, G, P, W, E, A>
    where
        M: FnOnce(Aggregates<G::Value>) -> A,
        A: Combine<G::Value>,
        W: Windowing<C, G, P, A>,
    {
        let aggregate = make(Aggregates::new());
        self.aggregate_as(&aggregate.name(), Origin::here(E::KIND), aggregate)
    }

    fn aggregate_as<A>(self, what: &str, origin: Origin, aggregate: A) -> Combined<C, G, P, W, E, A>
    where
        A: Combine<G::Value>,
        W: Windowing<C, G, P, A>,
    {
        let wrong = aggregate.check().err();
        let make = |window: W, keyed, plan| window.windows(keyed, plan, aggregate);
        let stream = self.make::<A::State, _>(what, origin, make);
        if let Some(wrong) = wrong {
            stream.refuse(Error::new(ErrorKind::Plan, wrong));
        }
        E::end(stream)
    }

    /// Counts the values of each window. See [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn count(self) -> Combined<C, G, P, W, E, Count>
    where
        W: Windowing<C, G, P, Count>,
    {
        self.aggregate_as("count", Origin::here(E::KIND), Count)
    }

    /// Sums what the closure returns for the values of each window. See [`aggregate`](Self::aggregate) for how.
    /// Integers are subtracted again when they leave a window; floats are not, since the result would differ. A
    /// sum that overflows its type fails the job, as documented at [`KeyedStream::sum`].
    #[track_caller]
    pub fn sum<N, F>(self, of: F) -> Combined<C, G, P, W, E, Sum<F, N>>
    where
        N: Summand,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Sum<F, N>>,
    {
        self.aggregate_as("sum", Origin::here(E::KIND), Sum::new(of))
    }

    /// The least of what the closure returns for the values of each window. See [`aggregate`](Self::aggregate)
    /// for how.
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Combined<C, G, P, W, E, Min<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Min<F, N>>,
    {
        self.aggregate_as("min", Origin::here(E::KIND), Min::new(of))
    }

    /// The greatest of what the closure returns for the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Combined<C, G, P, W, E, Max<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Max<F, N>>,
    {
        self.aggregate_as("max", Origin::here(E::KIND), Max::new(of))
    }

    /// The arithmetic mean of what the closure returns for the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[doc(alias = "avg")]
    #[doc(alias = "mean")]
    #[track_caller]
    pub fn average<N, F>(self, of: F) -> Combined<C, G, P, W, E, Average<F, N>>
    where
        N: Number,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Average<F, N>>,
    {
        self.aggregate_as("average", Origin::here(E::KIND), Average::new(of))
    }

    /// The value of each window whose key, as returned by the closure, is the least; of several such values,
    /// any. See [`min`](Self::min) for the key alone, and [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn min_by_key<B, F>(self, key: F) -> Combined<C, G, P, W, E, PickByKey<F, B>>
    where
        G::Value: Portable,
        B: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> B + Send + Sync + 'static,
        W: Windowing<C, G, P, PickByKey<F, B>>,
    {
        let pick: PickByKey<F, B> = Aggregates::<G::Value>::new().min_by_key(key);
        self.aggregate_as("min_by_key", Origin::here(E::KIND), pick)
    }

    /// The value of each window whose key, as returned by the closure, is the greatest. The mirror image of
    /// [`min_by_key`](Self::min_by_key).
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::CountWindow;
    ///
    /// let env = Environment::new();
    /// let trades = env.iter([('a', 3), ('b', 1), ('c', 2), ('d', 4)]);
    /// let dearest = trades.window_all(CountWindow::tumbling(2)).max_by_key(|trade| trade.1);
    /// let out = dearest.map(|pane| pane.value.0).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ['a', 'd']);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max_by_key<B, F>(self, key: F) -> Combined<C, G, P, W, E, PickByKey<F, B>>
    where
        G::Value: Portable,
        B: Data + PartialOrd,
        F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> B + Send + Sync + 'static,
        W: Windowing<C, G, P, PickByKey<F, B>>,
    {
        let pick: PickByKey<F, B> = Aggregates::<G::Value>::new().max_by_key(key);
        self.aggregate_as("max_by_key", Origin::here(E::KIND), pick)
    }

    /// The least value of each window by the order of the closure, which must be total; of several such, any. See
    /// [`min_by_key`](Self::min_by_key) for an order by a key.
    #[track_caller]
    pub fn min_by<F>(self, compare: F) -> Combined<C, G, P, W, E, PickBy<F>>
    where
        G::Value: Portable,
        F: Fn(&Owned<C, G>, &Owned<C, G>) -> Ordering + Send + Sync + 'static,
        W: Windowing<C, G, P, PickBy<F>>,
    {
        let pick: PickBy<F> = Aggregates::<G::Value>::new().min_by(compare);
        self.aggregate_as("min_by", Origin::here(E::KIND), pick)
    }

    /// The greatest value of each window by the order of the closure. The mirror image of
    /// [`min_by`](Self::min_by).
    #[track_caller]
    pub fn max_by<F>(self, compare: F) -> Combined<C, G, P, W, E, PickBy<F>>
    where
        G::Value: Portable,
        F: Fn(&Owned<C, G>, &Owned<C, G>) -> Ordering + Send + Sync + 'static,
        W: Windowing<C, G, P, PickBy<F>>,
    {
        let pick: PickBy<F> = Aggregates::<G::Value>::new().max_by(compare);
        self.aggregate_as("max_by", Origin::here(E::KIND), pick)
    }

    /// Folds the values of each window into partial states: `local` adds a value to a state, `global` merges a
    /// state into another. Both together must be associative and commutative. See [`aggregate`](Self::aggregate)
    /// for how.
    #[track_caller]
    pub fn fold_assoc<S, F, M>(
        self,
        init: S,
        local: F,
        global: M,
    ) -> Combined<C, G, P, W, E, FoldAssoc<S, F, M>>
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, Value<'a, C, G>) + Send + Sync + 'static,
        M: Fn(&mut S, S) + Send + Sync + 'static,
        W: Windowing<C, G, P, FoldAssoc<S, F, M>>,
    {
        let fold = FoldAssoc { init, local, global };
        self.aggregate_as("fold_assoc", Origin::here(E::KIND), fold)
    }

    /// Combines any two values of a window into one until one is left. The closure must be associative and
    /// commutative. See [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn reduce<V, F>(self, reduce: F) -> Combined<C, G, P, W, E, Reduce<F>>
    where
        G: KeyBy<C::Item, Value = V>,
        V: Data,
        F: Fn(V, V) -> V + Send + Sync + 'static,
        W: Windowing<C, G, P, Reduce<F>>,
    {
        self.aggregate_as("reduce", Origin::here(E::KIND), Reduce { reduce })
    }
}
