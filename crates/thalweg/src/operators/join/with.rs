//! Joins that are told how to go about it.

use super::kinds::{Anti, Full, Inner, Kind, Left, Right, Semi};
use super::local::{
    Allows, ByKey, Keeping, LeftEverywhere, Local, Makes, OneSided, RightEverywhere, Shipping,
    Sorting, TableOfLeft, TableOfRight, TwoTables,
};
use super::sides::{Sides, owned, pairs};
use crate::data::{Data, Key, Portable};
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Placed};
use crate::plan::Origin;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// The values of a keyed stream, as they are joined.
pub(super) type ValueOf<G, C> = <<G as KeyBy<<C as Chain>::Item>>::Value as Portable>::Owned;

/// Two keyed streams that are to be joined, and how; made by [`KeyedStream::join_with`].
///
/// Say how, where the default does not suit, and then which kind of join it is:
///
/// | | |
/// |---|---|
/// | brought together by | sending each record to the task that owns its key, unless it is there; [`broadcast_left`](Self::broadcast_left), [`broadcast_right`](Self::broadcast_right) |
/// | joined by | a table of the right stream; [`build_left`](Self::build_left), [`sort_merge`](Self::sort_merge), [`symmetric`](Self::symmetric) |
/// | kind | [`inner`](Self::inner), [`left`](Self::left), [`right`](Self::right), [`full`](Self::full), [`semi`](Self::semi), [`anti`](Self::anti) |
///
/// What makes no sense together is not there: a full outer join has no side that every task could have.
///
/// ```
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// let visits = env.range(0..1000).group_by(|n| n % 10);
/// let names = env.iter([(3u64, "three"), (11, "eleven")].map(|(n, name)| (n, name.to_owned())));
/// let named = visits.join_with(names.keyed()).broadcast_right().inner();
/// let out = named.unkey().count();
/// env.run()?;
/// assert_eq!(out.take()?, 100);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[must_use = "say which kind of join it is: `inner()`, `left()`, …"]
pub struct JoinWith<A, B, S = ByKey, W = TableOfRight> {
    // No names of methods, which the compiler would propose instead.
    sides: (A, B),
    origin: Origin,
    way: PhantomData<fn() -> (S, W)>,
}

impl<A, B> JoinWith<A, B> {
    pub(super) fn new(left: A, right: B, origin: Origin) -> Self {
        Self { sides: (left, right), origin, way: PhantomData }
    }
}

impl<A, B, S, W> JoinWith<A, B, S, W> {
    fn with<S2, W2>(self) -> JoinWith<A, B, S2, W2> {
        JoinWith { sides: self.sides, origin: self.origin, way: PhantomData }
    }
}

impl<A, B, W: Keeping> JoinWith<A, B, ByKey, W> {
    /// Sends every record of the left stream to every task of the right one, whose records stay where they
    /// are: for a left stream that is much smaller. Each task keeps all of it.
    pub fn broadcast_left(self) -> JoinWith<A, B, LeftEverywhere, W::Left>
    where
        W: OneSided,
    {
        self.with()
    }

    /// Sends every record of the right stream to every task of the left one, whose records stay where they
    /// are: for a right stream that is much smaller. Each task keeps all of it.
    pub fn broadcast_right(self) -> JoinWith<A, B, RightEverywhere, W::Right>
    where
        W: OneSided,
    {
        self.with()
    }
}

impl<A, B> JoinWith<A, B, ByKey, TableOfRight> {
    /// Makes the table of the left stream, in which the records of the right one are looked up: for a left
    /// stream that is smaller, or ends while the right one does not.
    pub fn build_left(self) -> JoinWith<A, B, ByKey, TableOfLeft> {
        self.with()
    }

    /// Keeps the records of both streams, each to be looked up by those of the other that come later: for an
    /// inner join of streams neither of which ends. Nothing is forgotten as long as the other stream goes
    /// on, and the statistics say how many records that is; when memory is out, the job fails and says
    /// so. Not within a loop. See [`window_join`](KeyedStream::window_join) for a join that forgets.
    pub fn symmetric(self) -> JoinWith<A, B, ByKey, TwoTables> {
        self.with()
    }
}

impl<A, B, S, W> JoinWith<A, B, S, W> {
    /// Sorts both sides, by the hash of their keys, and goes through them together, instead of looking up one
    /// in a table of the other: for two sides of which neither fits into memory, where it reads and writes
    /// each record once and in order, however many times more there is. Both streams must end; the table
    /// is quicker where it fits. Not within a loop.
    pub fn sort_merge(self) -> JoinWith<A, B, S, Sorting>
    where
        W: OneSided,
    {
        self.with()
    }
}

/// A keyed stream of what a kind of join makes.
pub(super) type Joined<X, S, W, C, G, P, D, H, Q, K> = KeyedStream<
    <W as Local<X, K, ValueOf<G, C>, ValueOf<H, D>, <C as Chain>::Time>>::Chain,
    FirstOf,
    <S as Shipping>::Placed<P, Q>,
>;
/// The same where only the keys of the right stream matter.
pub(super) type Sieved<X, S, W, C, G, P, Q, K> = KeyedStream<
    <W as Local<X, K, ValueOf<G, C>, (), <C as Chain>::Time>>::Chain,
    FirstOf,
    <S as Shipping>::Placed<P, Q>,
>;

impl<C, G, P, D, H, Q, S, W, K> JoinWith<KeyedStream<C, G, P>, KeyedStream<D, H, Q>, S, W>
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned = K>, Value: Portable<Owned: Clone>>,
    P: Placed,
    D: Chain<Time = C::Time>,
    H: KeyBy<D::Item, Key: Key<Owned = K>, Value: Portable<Owned: Clone>>,
    Q: Placed,
    S: Shipping,
    K: Data + Key + Eq + Clone,
{
    /// Every pair of a left and a right record with one key. See [`KeyedStream::join`].
    pub fn inner(self) -> Joined<Inner, S, W, C, G, P, D, H, Q, K>
    where
        S: Allows<Inner>,
        W: Local<Inner, K, ValueOf<G, C>, ValueOf<H, D>, C::Time> + Makes<Inner>,
    {
        self.join::<Inner>()
    }

    /// Those, and the left records that have no partner. See [`KeyedStream::left_join`].
    pub fn left(self) -> Joined<Left, S, W, C, G, P, D, H, Q, K>
    where
        S: Allows<Left>,
        W: Local<Left, K, ValueOf<G, C>, ValueOf<H, D>, C::Time> + Makes<Left>,
    {
        self.join::<Left>()
    }

    /// Every pair, and the right records that have no partner. See [`KeyedStream::right_join`].
    pub fn right(self) -> Joined<Right, S, W, C, G, P, D, H, Q, K>
    where
        S: Allows<Right>,
        W: Local<Right, K, ValueOf<G, C>, ValueOf<H, D>, C::Time> + Makes<Right>,
    {
        self.join::<Right>()
    }

    /// Every pair, and the records of either stream that have no partner. See [`KeyedStream::full_join`].
    pub fn full(self) -> Joined<Full, S, W, C, G, P, D, H, Q, K>
    where
        S: Allows<Full>,
        W: Local<Full, K, ValueOf<G, C>, ValueOf<H, D>, C::Time> + Makes<Full>,
    {
        self.join::<Full>()
    }

    /// The left records that have a partner. See [`KeyedStream::semi_join`].
    pub fn semi(self) -> Sieved<Semi, S, W, C, G, P, Q, K>
    where
        S: Allows<Semi>,
        W: Local<Semi, K, ValueOf<G, C>, (), C::Time> + Makes<Semi>,
    {
        self.sieve::<Semi>()
    }

    /// The left records that have no partner. See [`KeyedStream::anti_join`].
    pub fn anti(self) -> Sieved<Anti, S, W, C, G, P, Q, K>
    where
        S: Allows<Anti>,
        W: Local<Anti, K, ValueOf<G, C>, (), C::Time> + Makes<Anti>,
    {
        self.sieve::<Anti>()
    }

    fn join<X>(self) -> Joined<X, S, W, C, G, P, D, H, Q, K>
    where
        X: Kind<ValueOf<G, C>, ValueOf<H, D>>,
        W: Local<X, K, ValueOf<G, C>, ValueOf<H, D>, C::Time>,
    {
        let Self { sides: (left, right), origin, .. } = self;
        let left = pairs(left, origin, owned::<G::Value>);
        let right = pairs(right, origin, owned::<H::Value>);
        together::<X, S, W, _, _, _, _, P, Q>(Sides::new(left, right, S::WAY, origin))
    }

    fn sieve<X>(self) -> Sieved<X, S, W, C, G, P, Q, K>
    where
        X: Kind<ValueOf<G, C>, ()>,
        W: Local<X, K, ValueOf<G, C>, (), C::Time>,
    {
        let Self { sides: (left, right), origin, .. } = self;
        let left = pairs(left, origin, owned::<G::Value>);
        // What the other values are does not matter, and need not be sent.
        let right = pairs(right, origin, |_| ());
        together::<X, S, W, _, _, _, _, P, Q>(Sides::new(left, right, S::WAY, origin))
    }
}

fn together<X, S, W, K, L, R, T, P, Q>(
    sides: Sides<K, L, R, T>,
) -> KeyedStream<W::Chain, FirstOf, S::Placed<P, Q>>
where
    X: Kind<L, R>,
    S: Shipping,
    W: Local<X, K, L, R, T>,
    K: Data + Key + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
{
    let (left, right) = sides.bounded();
    let detail = format!("{}, {}", X::NAME, W::NAME);
    let stream = sides.join(detail, W::fault(left, right), W::chain);
    KeyedStream::from_parts(stream, FirstOf)
}
