//! Keyed streams cut into windows.

use super::join::BothLists;
use crate::data::{Data, Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::operators::aggregates::{
    Aggregate, Average, Combine, Count, FoldAssoc, Max, Min, Reduce, Sum, Summand,
};
use crate::operators::join::Side;
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;
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

    /// What they are, in words.
    #[doc(hidden)]
    fn describe(&self) -> String;

    /// What is wrong with them, if anything is.
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

/// What becomes of the results: they have keys, or none.
pub trait Ending: 'static {
    /// What the operator is called.
    #[doc(hidden)]
    const KIND: &'static str;

    /// The stream of results.
    type Results<K: 'static, V: 'static, C: Chain<Item = (K, V)>>;

    /// Makes it.
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

/// A stream cut into windows, made by [`KeyedStream::window`] or [`Stream::window_all`]: say what is
/// computed of each.
#[must_use = "windows do nothing until it is said what is computed of them"]
pub struct Windowed<C: Chain, G, P, W, E = ByKey> {
    pub(super) keyed: KeyedStream<C, G, P>,
    pub(super) window: W,
    pub(super) ending: PhantomData<fn() -> E>,
}

impl<C: Chain, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Cuts the values of each key into windows. What is computed of each is said next, as in
    /// `.window(…).count()`.
    ///
    /// Every key that has values in a window has a result of it, with the window's bounds: a [`Pane`](super::Pane) of
    /// an [`EventTimeWindow`](super::EventTimeWindow), a
    /// [`CountPane`](super::CountPane) of windows that go by the order of arrival, such as
    /// [`CountWindow`](super::CountWindow). The windows say when. For windows over all records,
    /// whatever their key, see [`Stream::window_all`].
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
    pub fn window<W: Window<C::Time>>(self, window: W) -> Windowed<C, G, P, W> {
        Windowed { keyed: self, window, ending: PhantomData }
    }
}

/// Windows of which an aggregate can be computed that combines.
pub trait Windowing<C, G, P, A>: Window<C::Time>
where
    C: Chain,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
{
    /// The chain after that.
    type Chain: Chain<Item = (<G::Key as Portable>::Owned, Self::Pane<A::Output>), Time = C::Time>;

    /// Makes it.
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
    pub(super) detail: String,
}

/// The results of windows.
pub(super) type Results<C, G, W, E, O, D> = <E as Ending>::Results<
    <<G as KeyBy<<C as Chain>::Item>>::Key as Portable>::Owned,
    <W as Window<<C as Chain>::Time>>::Pane<O>,
    D,
>;

/// The results of windows that combine.
type Combined<C, G, P, W, E, A> = Results<
    C,
    G,
    W,
    E,
    <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::Output,
    <W as Windowing<C, G, P, A>>::Chain,
>;

/// How the values of a keyed stream look to a closure.
pub(super) type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C, G, P, W, E> Windowed<C, G, P, W, E>
where
    C: Chain,
    G: KeyBy<C::Item>,
    W: Window<C::Time>,
    E: Ending,
{
    /// Makes the operator, and refuses the job where the windows are wrong or the input is.
    pub(super) fn make<S: Data, D: Chain>(
        self,
        what: &str,
        origin: Origin,
        make: impl FnOnce(W, KeyedStream<C, G, P>, Described) -> Stream<D>,
    ) -> Stream<D> {
        let Self { keyed, window, .. } = self;
        let detail = format!("{what}, {}", window.describe());
        let (fault, needs_end) = (window.fault(), window.needs_end());
        let mut stream =
            make(window, keyed, Described { origin, detail }).with_state(true, S::schema());
        if let Some(why) = needs_end {
            stream = stream.bounded_for(why);
        }
        if let Some(fault) = fault {
            stream.refuse(Error::new(ErrorKind::Plan, fault));
        }
        stream
    }

    /// Aggregates the values of each window by any [`Combine`].
    ///
    /// In windows of event time, each task aggregates its own records first, slice by slice; what is sent
    /// is put together by the task that owns the key, and the order in which values are taken in is not
    /// defined. In sessions and windows of arrivals, records themselves go to that task. Where the aggregate
    /// has an [inverse](Combine::INVERSE), slices that a window has no more are subtracted; where it has none,
    /// they are kept on two stacks a key, which costs somewhat more.
    ///
    /// The aggregates that there are, and several at once, are in
    /// [`aggregates`](crate::operators::aggregates).
    #[track_caller]
    pub fn aggregate<A>(self, aggregate: A) -> Combined<C, G, P, W, E, A>
    where
        A: Combine<G::Value>,
        W: Windowing<C, G, P, A>,
    {
        self.aggregate_as("aggregate", Origin::here(E::KIND), aggregate)
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

    /// All values of both sides of two streams.
    pub(super) fn sides<A, B>(
        self,
        origin: Origin,
    ) -> Stream<<W as Windowing<C, G, P, BothLists<A, B>>>::Chain>
    where
        A: Data,
        B: Data,
        G: KeyBy<C::Item, Value = Side<A, B>>,
        W: Windowing<C, G, P, BothLists<A, B>>,
    {
        let make = |window: W, keyed, plan| window.windows(keyed, plan, BothLists::new());
        self.make::<(Vec<A>, Vec<B>), _>("both sides", origin, make)
    }

    /// Counts the values of each window. See [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn count(self) -> Combined<C, G, P, W, E, Count>
    where
        W: Windowing<C, G, P, Count>,
    {
        self.aggregate_as("count", Origin::here(E::KIND), Count)
    }

    /// Adds up what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how. Integers are subtracted again when they leave a window;
    /// floats, which would not come out the same, are not. A sum that its type does not hold fails the
    /// job, as [`KeyedStream::sum`] says.
    #[track_caller]
    pub fn sum<N, F>(self, of: F) -> Combined<C, G, P, W, E, Sum<F, N>>
    where
        N: Summand,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Sum<F, N>>,
    {
        self.aggregate_as("sum", Origin::here(E::KIND), Sum::new(of))
    }

    /// The least of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn min<N, F>(self, of: F) -> Combined<C, G, P, W, E, Min<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Min<F, N>>,
    {
        self.aggregate_as("min", Origin::here(E::KIND), Min::new(of))
    }

    /// The greatest of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn max<N, F>(self, of: F) -> Combined<C, G, P, W, E, Max<F, N>>
    where
        N: Data + PartialOrd,
        F: for<'a> Fn(Value<'a, C, G>) -> N + Send + Sync + 'static,
        W: Windowing<C, G, P, Max<F, N>>,
    {
        self.aggregate_as("max", Origin::here(E::KIND), Max::new(of))
    }

    /// The arithmetic mean of what the closure makes of the values of each window. See
    /// [`aggregate`](Self::aggregate) for how.
    #[track_caller]
    pub fn average<F>(self, of: F) -> Combined<C, G, P, W, E, Average<F>>
    where
        F: for<'a> Fn(Value<'a, C, G>) -> f64 + Send + Sync + 'static,
        W: Windowing<C, G, P, Average<F>>,
    {
        self.aggregate_as("average", Origin::here(E::KIND), Average::new(of))
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

    /// Makes one value of any two of a window until one is left. The closure must be associative and
    /// commutative; see [`aggregate`](Self::aggregate) for how it is done.
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
