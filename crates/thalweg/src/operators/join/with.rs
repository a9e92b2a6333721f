//! Joins with a choice of strategy.

use super::inputs::{Inputs, Pairs, keys, pairs};
use super::joinable::{Joinable, JoinableWith};
use super::kinds::{Anti, Full, Inner, Kind, Left, Right, Semi};
use super::local::{
    Allows, ByKey, Keeping, LeftEverywhere, Local, Makes, OneSided, RightEverywhere, Shipping,
    Sorting, TableOfLeft, TableOfRight, TwoTables,
};
use crate::data::Data;
use crate::operators::keyed::{FirstOf, KeyedStream};
use crate::plan::{Details, Origin};
use crate::stream::Chain;
use std::marker::PhantomData;

/// Two keyed streams to be joined, with the strategy; made by [`KeyedStream::join_with`].
///
/// Choose a strategy, where the default does not suit, and then the kind of join:
///
/// | | |
/// |---|---|
/// | brought together by | sending each record to the task that owns its key, unless it is there; [`broadcast_left`](Self::broadcast_left), [`broadcast_right`](Self::broadcast_right) |
/// | joined by | a table of the right stream; [`build_left`](Self::build_left), [`sort_merge`](Self::sort_merge), [`symmetric`](Self::symmetric) |
/// | kind | [`inner`](Self::inner), [`left`](Self::left), [`right`](Self::right), [`full`](Self::full), [`semi`](Self::semi), [`anti`](Self::anti) |
///
/// Combinations that make no sense do not compile: a full outer join cannot have a side that every task keeps.
///
/// ```
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// let visits = env.range(0..1000).group_by(|n| n % 10);
/// let names = env.iter([(3u64, "three"), (11, "eleven")].map(|(n, name)| (n, name.to_owned())));
/// let named = visits.join_with(names.keyed()).broadcast_right().inner();
/// let out = named.unkey().count().collect_one();
/// env.run()?;
/// assert_eq!(out.take()?, Some(100));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[must_use = "say which kind of join it is: `inner()`, `left()`, …"]
pub struct JoinWith<L, R, S = ByKey, W = TableOfRight> {
    // No field has a method's name, which the compiler would suggest instead.
    streams: (L, R),
    origin: Origin,
    way: PhantomData<fn() -> (S, W)>,
}

impl<L, R> JoinWith<L, R> {
    pub(super) fn new(left: L, right: R, origin: Origin) -> Self {
        Self { streams: (left, right), origin, way: PhantomData }
    }
}

impl<L, R, S, W> JoinWith<L, R, S, W> {
    fn with<S2, W2>(self) -> JoinWith<L, R, S2, W2> {
        JoinWith { streams: self.streams, origin: self.origin, way: PhantomData }
    }
}

impl<L, R, W: Keeping> JoinWith<L, R, ByKey, W> {
    /// Sends every record of the left stream to every task of the right one, whose records stay where they
    /// are: for a left stream that is much smaller. Each task keeps all of it.
    pub fn broadcast_left(self) -> JoinWith<L, R, LeftEverywhere, W::Left>
    where
        W: OneSided,
    {
        self.with()
    }

    /// Sends every record of the right stream to every task of the left one, whose records stay where they
    /// are: for a right stream that is much smaller. Each task keeps all of it.
    pub fn broadcast_right(self) -> JoinWith<L, R, RightEverywhere, W::Right>
    where
        W: OneSided,
    {
        self.with()
    }
}

impl<L, R> JoinWith<L, R, ByKey, TableOfRight> {
    /// Builds the table from the left stream, and looks up the records of the right one in it: for a left
    /// stream that is smaller, or ends while the right one does not.
    pub fn build_left(self) -> JoinWith<L, R, ByKey, TableOfLeft> {
        self.with()
    }

    /// Keeps the records of both streams, each to be looked up by later records of the other: for an inner join
    /// of streams neither of which ends. No record is dropped as long as the other stream continues, and the
    /// statistics count those that are kept. Beyond the memory budget, keys go to disk with their records, one by one, and
    /// return with their next record; the statistics count keys then. The job fails if the records of a single key exceed the
    /// budget. Not within a loop. See [`window_join`](KeyedStream::window_join) for a join with bounded state.
    pub fn symmetric(self) -> JoinWith<L, R, ByKey, TwoTables> {
        self.with()
    }
}

impl<L, R, S, W> JoinWith<L, R, S, W> {
    /// Sorts both sides, by the hash of their keys, and merges them, instead of looking up one in a table of
    /// the other: for two sides neither of which fits into memory, where it reads and writes each record once
    /// and in order, however much larger than memory they are. Both streams must end; the table is faster where
    /// it fits. Not within a loop.
    pub fn sort_merge(self) -> JoinWith<L, R, S, Sorting>
    where
        W: OneSided,
    {
        self.with()
    }
}

/// The keyed stream of a join's results.
type JoinedStream<L, R, S, C> = KeyedStream<
    C,
    FirstOf,
    <S as Shipping>::Placed<<L as Joinable>::Placed, <R as Joinable>::Placed>,
>;
/// The chain that a join makes of left records and values of `V`.
type ChainOf<X, L, V, W> =
    <W as Local<X, <L as Joinable>::Key, <L as Joinable>::Value, V, <L as Joinable>::Time>>::Chain;

impl<L, R, S, W> JoinWith<L, R, S, W>
where
    L: Joinable<Value: Clone>,
    R: JoinableWith<L, Value: Clone>,
    S: Shipping,
{
    /// Every pair of a left and a right record with one key. See [`KeyedStream::join`].
    pub fn inner(
        self,
    ) -> JoinedStream<L, R, S, impl Chain<Item = (L::Key, (L::Value, R::Value)), Time = L::Time>>
    where
        S: Allows<Inner>,
        W: Local<Inner, L::Key, L::Value, R::Value, L::Time> + Makes<Inner>,
    {
        self.join::<Inner>()
    }

    /// Every pair, and the left records that have no partner. See [`KeyedStream::left_join`].
    pub fn left(
        self,
    ) -> JoinedStream<
        L,
        R,
        S,
        impl Chain<Item = (L::Key, (L::Value, Option<R::Value>)), Time = L::Time>,
    >
    where
        S: Allows<Left>,
        W: Local<Left, L::Key, L::Value, R::Value, L::Time> + Makes<Left>,
    {
        self.join::<Left>()
    }

    /// Every pair, and the right records that have no partner. See [`KeyedStream::right_join`].
    pub fn right(
        self,
    ) -> JoinedStream<
        L,
        R,
        S,
        impl Chain<Item = (L::Key, (Option<L::Value>, R::Value)), Time = L::Time>,
    >
    where
        S: Allows<Right>,
        W: Local<Right, L::Key, L::Value, R::Value, L::Time> + Makes<Right>,
    {
        self.join::<Right>()
    }

    /// Every pair, and the records of either stream that have no partner. See [`KeyedStream::full_join`].
    pub fn full(
        self,
    ) -> JoinedStream<
        L,
        R,
        S,
        impl Chain<Item = (L::Key, (Option<L::Value>, Option<R::Value>)), Time = L::Time>,
    >
    where
        S: Allows<Full>,
        W: Local<Full, L::Key, L::Value, R::Value, L::Time> + Makes<Full>,
    {
        self.join::<Full>()
    }

    /// The left records that have a partner. See [`KeyedStream::semi_join`].
    pub fn semi(
        self,
    ) -> JoinedStream<L, R, S, impl Chain<Item = (L::Key, L::Value), Time = L::Time>>
    where
        S: Allows<Semi>,
        W: Local<Semi, L::Key, L::Value, (), L::Time> + Makes<Semi>,
    {
        self.sieve::<Semi>()
    }

    /// The left records that have no partner. See [`KeyedStream::anti_join`].
    pub fn anti(
        self,
    ) -> JoinedStream<L, R, S, impl Chain<Item = (L::Key, L::Value), Time = L::Time>>
    where
        S: Allows<Anti>,
        W: Local<Anti, L::Key, L::Value, (), L::Time> + Makes<Anti>,
    {
        self.sieve::<Anti>()
    }

    fn join<X>(self) -> JoinedStream<L, R, S, ChainOf<X, L, R::Value, W>>
    where
        X: Kind<L::Value, R::Value>,
        W: Local<X, L::Key, L::Value, R::Value, L::Time>,
    {
        let Self { streams: (left, right), origin, .. } = self;
        joined::<X, L, R, S, W, _, _>(pairs(left, origin), pairs(right, origin), origin)
    }

    fn sieve<X>(self) -> JoinedStream<L, R, S, ChainOf<X, L, (), W>>
    where
        X: Kind<L::Value, ()>,
        W: Local<X, L::Key, L::Value, (), L::Time>,
    {
        let Self { streams: (left, right), origin, .. } = self;
        // The right values do not matter, and need not be sent.
        joined::<X, L, R, S, W, _, _>(pairs(left, origin), keys(right, origin), origin)
    }
}

fn joined<X, L, R, S, W, C, V>(
    left: Pairs<impl Chain<Item = (L::Key, L::Value), Time = L::Time>>,
    right: Pairs<C>,
    origin: Origin,
) -> JoinedStream<L, R, S, ChainOf<X, L, V, W>>
where
    X: Kind<L::Value, V>,
    L: Joinable<Value: Clone>,
    R: Joinable,
    S: Shipping,
    W: Local<X, L::Key, L::Value, V, L::Time>,
    C: Chain<Item = (L::Key, V), Time = L::Time>,
    V: Data + Clone,
{
    let inputs = Inputs::new(left, right, S::DELIVERY, origin);
    let (left, right) = inputs.bounded();
    let details = Details::of("join", X::NAME).with("method", W::NAME);
    let stream = inputs.join(details, W::fault(left, right), W::chain);
    KeyedStream::from_parts(stream, FirstOf)
}
