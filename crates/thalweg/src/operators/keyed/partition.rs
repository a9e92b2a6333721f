//! Where the records of a key are, and how they are brought into one task.

use super::combine::Combiner;
use super::group::{Grouped, Partials, Values};
use super::{Carried, KeyBy, KeyedStream};
use crate::data::{Key, Portable, Record, Wire};
use crate::error::Result;
use crate::exchange::{ByHash, Hashed, Partial};
use crate::flow::{Op, Pipe, Push, guard};
use crate::metrics::{HotKeys, Report};
use crate::operators::aggregates::{Aggregate, Combine, details};
use crate::plan::{Distribution, Origin, Parallelism, Scope, TaskContext, TieKind};
use crate::stream::{Chain, Received, Stream};
use crate::support::cost::Cost;
use crate::time::Time;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// The records of a key may be in any task.
pub enum Scattered {}

/// The records of a key are in the task that owns the key.
pub enum Partitioned {}

/// The placement `P`, in a function that accepts both [`Scattered`] and [`Partitioned`] streams: see
/// [`Keyed`](super::Keyed).
pub struct Like<P>(PhantomData<P>);

/// Where the records of a key are: [`Scattered`] or [`Partitioned`].
pub trait Placed: Sized + 'static {
    /// Whether they are all in the task that owns the key.
    const IS_PARTITIONED: bool;
    /// The placement after a merge of this stream with another.
    type Merged<Q: Placed>: Placed;
    /// The chain after which they are in the task that owns the key.
    type PartitionedChain<C: Chain<Item: Wire>, G: KeyBy<C::Item>>: Chain<Item: Wire, Time = C::Time>;
    /// How keys are found in the records of that chain.
    type Keys<C: Chain<Item: Wire>, G: KeyBy<C::Item>>: KeyBy<<Self::PartitionedChain<C, G> as Chain>::Item, Key = G::Key, Value = G::Value>;
    /// The chain of aggregates, for records that can be sent to other tasks.
    type Combined<C, G, A>: Chain<Item = (<G::Key as Portable>::Owned, A::Output), Time = C::Time>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>;

    /// One of two chains: the first for records in the task that owns the key, the second for all others.
    #[doc(hidden)]
    type Either<A: Chain, B: Chain<Item = A::Item, Time = A::Time>>: Chain<Item = A::Item, Time = A::Time>;

    /// Adds one of two operators to a stream, which may need `with`.
    #[doc(hidden)]
    fn either<C, G, A, B, W>(
        keyed: KeyedStream<C, G, Self>,
        with: W,
        partitioned: impl FnOnce(KeyedStream<C, G, Partitioned>, W) -> Stream<A>,
        scattered: impl FnOnce(KeyedStream<C, G, Scattered>, W) -> Stream<B>,
    ) -> Stream<Self::Either<A, B>>
    where
        C: Chain,
        A: Chain,
        B: Chain<Item = A::Item, Time = A::Time>;

    /// Brings all records of a key into the task that owns it, if they are not there yet.
    #[doc(hidden)]
    fn partitioned<C: Chain<Item: Wire>, G: KeyBy<C::Item>>(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
    ) -> KeyedStream<Self::PartitionedChain<C, G>, Self::Keys<C, G>, Partitioned> {
        Self::partition(keyed.stream, keyed.keys, origin)
    }

    /// The same of the parts of a keyed stream, whose placement may be called [`Like`] this one.
    #[doc(hidden)]
    fn partition<C: Chain<Item: Wire>, G: KeyBy<C::Item>>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
    ) -> KeyedStream<Self::PartitionedChain<C, G>, Self::Keys<C, G>, Partitioned>;

    /// Aggregates the values of each key.
    #[doc(hidden)]
    fn combine_sent<C, G, A>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Combined<C, G, A>>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>;
}

/// Aggregates that can be computed from partial aggregates.
pub trait Combining<C: Chain, G: KeyBy<C::Item>>: Sized {
    /// The chain after aggregation.
    type Chain<A: Combine<G::Value>>: Chain<Item = (<G::Key as Portable>::Owned, A::Output), Time = C::Time>;

    /// Aggregates the values of each key in the task that owns it.
    fn combine<A: Combine<G::Value>>(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Chain<A>>;
}

impl Placed for Partitioned {
    const IS_PARTITIONED: bool = true;
    type Merged<Q: Placed> = Q;
    type PartitionedChain<C: Chain<Item: Wire>, G: KeyBy<C::Item>> = C;
    type Keys<C: Chain<Item: Wire>, G: KeyBy<C::Item>> = G;
    type Combined<C, G, A>
        = Grouped<C, Values<A, G>>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>;

    type Either<A: Chain, B: Chain<Item = A::Item, Time = A::Time>> = A;

    fn either<C, G, A, B, W>(
        keyed: KeyedStream<C, G, Self>,
        with: W,
        partitioned: impl FnOnce(KeyedStream<C, G, Partitioned>, W) -> Stream<A>,
        _: impl FnOnce(KeyedStream<C, G, Scattered>, W) -> Stream<B>,
    ) -> Stream<Self::Either<A, B>>
    where
        C: Chain,
        A: Chain,
        B: Chain<Item = A::Item, Time = A::Time>,
    {
        partitioned(keyed, with)
    }

    fn partition<C: Chain<Item: Wire>, G: KeyBy<C::Item>>(
        stream: Stream<C>,
        keys: G,
        _: Origin,
    ) -> KeyedStream<C, G, Self> {
        KeyedStream::new(stream, keys)
    }

    fn combine_sent<C, G, A>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Combined<C, G, A>>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>,
    {
        <Self as Combining<C, G>>::combine(KeyedStream::new(stream, keys), origin, aggregate)
    }
}

impl Placed for Scattered {
    const IS_PARTITIONED: bool = false;
    type Merged<Q: Placed> = Self;
    type PartitionedChain<C: Chain<Item: Wire>, G: KeyBy<C::Item>> =
        Received<Hashed<C::Item>, C::Time>;
    type Keys<C: Chain<Item: Wire>, G: KeyBy<C::Item>> = Carried<G>;
    type Combined<C, G, A>
        = <Self as Combining<C, G>>::Chain<A>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>;

    type Either<A: Chain, B: Chain<Item = A::Item, Time = A::Time>> = B;

    fn either<C, G, A, B, W>(
        keyed: KeyedStream<C, G, Self>,
        with: W,
        _: impl FnOnce(KeyedStream<C, G, Partitioned>, W) -> Stream<A>,
        scattered: impl FnOnce(KeyedStream<C, G, Scattered>, W) -> Stream<B>,
    ) -> Stream<Self::Either<A, B>>
    where
        C: Chain,
        A: Chain,
        B: Chain<Item = A::Item, Time = A::Time>,
    {
        scattered(keyed, with)
    }

    fn partition<C: Chain<Item: Wire>, G: KeyBy<C::Item>>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
    ) -> KeyedStream<Self::PartitionedChain<C, G>, Carried<G>, Partitioned> {
        let hashed = add_hash(stream, keys.clone(), origin);
        let exchange = Origin { kind: "repartition", ..origin };
        KeyedStream::new(by_hash::<_, G::Key>(hashed, exchange), Carried(keys))
    }

    fn combine_sent<C, G, A>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Combined<C, G, A>>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>,
    {
        <Self as Combining<C, G>>::combine(KeyedStream::new(stream, keys), origin, aggregate)
    }
}

impl<P: Placed> Placed for Like<P> {
    const IS_PARTITIONED: bool = P::IS_PARTITIONED;
    type Merged<Q: Placed> = P::Merged<Q>;
    type PartitionedChain<C: Chain<Item: Wire>, G: KeyBy<C::Item>> = P::PartitionedChain<C, G>;
    type Keys<C: Chain<Item: Wire>, G: KeyBy<C::Item>> = P::Keys<C, G>;
    type Combined<C, G, A>
        = P::Combined<C, G, A>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>;

    type Either<A: Chain, B: Chain<Item = A::Item, Time = A::Time>> = P::Either<A, B>;

    fn either<C, G, A, B, W>(
        keyed: KeyedStream<C, G, Self>,
        with: W,
        partitioned: impl FnOnce(KeyedStream<C, G, Partitioned>, W) -> Stream<A>,
        scattered: impl FnOnce(KeyedStream<C, G, Scattered>, W) -> Stream<B>,
    ) -> Stream<Self::Either<A, B>>
    where
        C: Chain,
        A: Chain,
        B: Chain<Item = A::Item, Time = A::Time>,
    {
        P::either(KeyedStream::new(keyed.stream, keyed.keys), with, partitioned, scattered)
    }

    fn partition<C: Chain<Item: Wire>, G: KeyBy<C::Item>>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
    ) -> KeyedStream<Self::PartitionedChain<C, G>, Self::Keys<C, G>, Partitioned> {
        P::partition(stream, keys, origin)
    }

    fn combine_sent<C, G, A>(
        stream: Stream<C>,
        keys: G,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Combined<C, G, A>>
    where
        C: Chain<Item: Wire>,
        G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
        A: Combine<G::Value>,
    {
        P::combine_sent(stream, keys, origin, aggregate)
    }
}

impl<P, C, G> Combining<C, G> for Like<P>
where
    P: Placed,
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
{
    type Chain<A: Combine<G::Value>> = P::Combined<C, G, A>;

    fn combine<A: Combine<G::Value>>(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Chain<A>> {
        P::combine_sent(keyed.stream, keyed.keys, origin, aggregate)
    }
}

impl<C, G> Combining<C, G> for Partitioned
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
{
    type Chain<A: Combine<G::Value>> = Grouped<C, Values<A, G>>;

    fn combine<A: Combine<G::Value>>(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Chain<A>> {
        table(keyed, origin, aggregate)
    }
}

impl<C, G> Combining<C, G> for Scattered
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
{
    type Chain<A: Combine<G::Value>> =
        Grouped<Received<Partial<G::Key, A::State>, C::Time>, Partials<A, G::Key, G::Value>>;

    fn combine<A: Combine<G::Value>>(
        keyed: KeyedStream<C, G, Self>,
        origin: Origin,
        aggregate: A,
    ) -> Stream<Self::Chain<A>> {
        let KeyedStream { stream, keys, .. } = keyed;
        let local = Origin { kind: "combine", ..origin };
        let details = details(origin, &aggregate);
        let (aggregate, cost) = (Arc::new(aggregate), Cost::default());
        let (parts, receive) = (Arc::clone(&aggregate), cost.clone());
        let combined =
            stream.then(local, |prev, op| Combiner { prev, op, keys, aggregate: parts, receive });
        let combiner = combined.chain.op;
        let grouped = by_hash::<_, G::Key>(combined, Origin { kind: "repartition", ..origin })
            .then_described(origin, details, |prev, op| Grouped {
                prev,
                op,
                absorb: Partials::new(aggregate),
                cost,
            })
            .with_state::<A::State>(Scope::key::<G::Key>())
            .bounded_for(
                "its result is known only at the end; `window(…)` has results before the end",
            );
        let table = grouped.chain.op;
        grouped.builder().tie(TieKind::Hints, &[combiner, table]);
        grouped
    }
}

/// Aggregates the values of each key of a partitioned stream.
pub(super) fn table<C, G, A>(
    keyed: KeyedStream<C, G, Partitioned>,
    origin: Origin,
    aggregate: A,
) -> Stream<Grouped<C, Values<A, G>>>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    A: Aggregate<G::Value>,
{
    let KeyedStream { stream, keys, .. } = keyed;
    let details = details(origin, &aggregate);
    let absorb = Values { aggregate: Arc::new(aggregate), keys };
    stream
        .then_described(origin, details, |prev, op| Grouped {
            prev,
            op,
            absorb,
            cost: Cost::default(),
        })
        .with_state::<A::State>(Scope::key::<G::Key>())
        .bounded_for("its result is known only at the end; `window(…)` has results before the end")
}

/// Adds the hash of its key to each record.
pub(in crate::operators) fn add_hash<C: Chain, G: KeyBy<C::Item>>(
    stream: Stream<C>,
    keys: G,
    origin: Origin,
) -> Stream<AddHash<C, G>> {
    stream.then(Origin { kind: "hash", ..origin }, |prev, op| AddHash { prev, op, keys })
}

/// Sends each record to the task that owns its key group. Keys are of type `K`.
pub(in crate::operators) fn by_hash<C: Chain<Item: Portable>, K: Portable + ?Sized>(
    stream: Stream<C>,
    origin: Origin,
) -> Stream<Received<C::Item, C::Time>>
where
    ByHash: crate::exchange::Route<C::Item>,
{
    let parallelism = Parallelism::Free(stream.env.keyed_tasks());
    stream.exchange(origin, Distribution::by_key::<K>(), parallelism, |cx, op, edge| {
        edge.outlet(cx.task, cx.op(op), ByHash)
    })
}

/// The chain that adds to each record the hash of its key.
pub struct AddHash<C, G> {
    prev: C,
    op: usize,
    keys: G,
}

impl<C: Chain, G: KeyBy<C::Item>> Chain for AddHash<C, G> {
    type Item = Hashed<C::Item>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<AddHashPush<C::Item, G, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let (op, keys) = (cx.op(self.op), self.keys.clone());
        let hot = HotKeys::default();
        self.prev.attach(cx, AddHashPush { op, keys, hot, next, types: PhantomData })
    }
}

/// Computes hashes in a running task.
pub struct AddHashPush<I: ?Sized, G, N> {
    op: Op,
    keys: G,
    hot: HotKeys,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, G: KeyBy<I>, N: Pipe> Pipe for AddHashPush<I, G, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.hot(self.op.id(), &self.hot);
        self.next.report(report);
    }
}

impl<I, T, G, N> Push<I, T> for AddHashPush<I, G, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    N: Push<Hashed<I>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let hash = guard(&self.op, || {
            let hash = self.keys.hash(&item);
            self.hot.see(hash, self.keys.key(&item));
            hash
        });
        self.next.push((hash, item), time);
    }
}
