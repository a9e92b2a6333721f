//! Two streams that are exchanged to the tasks of one stage, whose head reads both.

use super::joinable::{Joinable, SameKey};
use crate::data::{Data, Key, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Broadcast, ByHash, Edge, Hashed, PairInlet};
use crate::flow::{Depth, PushTwo};
use crate::operators::keyed::{FirstOf, KeyBy, Placed, add_hash};
use crate::plan::{Details, Distribution, Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Environment, Stream};
use crate::time::Time;

/// The two inputs of the stage that joins them.
pub struct Inputs<K: Data, A: Data, B: Data, T: Time> {
    first: Input<K, A, T>,
    second: Input<K, B, T>,
    env: Environment,
    stage: usize,
    origin: Origin,
}

struct Input<K: Data, A: Data, T: Time> {
    /// `None` where the job is refused.
    edge: Option<Edge<Hashed<(K, A)>, T>>,
    /// The operator that receives it.
    op: usize,
    /// The stage that sends to it.
    from: usize,
    bounded: bool,
    /// Whether all records of a key come from one task, which owns it.
    together: bool,
    /// Whether every record goes to every task.
    everywhere: bool,
}

/// How the records of the two inputs reach the stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Each record goes to the task that owns its key.
    ByKey,
    /// Every record of the left stream goes to every task of the right one.
    LeftEverywhere,
    /// Every record of the right stream goes to every task of the left one.
    RightEverywhere,
}

/// A stream of pairs of key and value, with whether all records of a key are in one task.
pub(super) struct Pairs<C: Chain> {
    stream: Stream<C>,
    together: bool,
}

/// A stream as pairs of its keys, which are of the type `K`, and values.
pub(super) fn pairs<S: Joinable<Key: SameKey<K>>, K: Data>(
    stream: S,
    origin: Origin,
) -> Pairs<impl Chain<Item = (K, S::Value), Time = S::Time> + use<S, K>> {
    pairs_of(stream, origin, <S::Keys as KeyBy<_>>::Value::to_owned)
}

/// A stream as pairs of its keys, which are of the type `K`, and `()`.
pub(super) fn keys<S: Joinable<Key: SameKey<K>>, K: Data>(
    stream: S,
    origin: Origin,
) -> Pairs<impl Chain<Item = (K, ()), Time = S::Time> + use<S, K>> {
    pairs_of(stream, origin, |_| ())
}

/// The type of a stream's value as closures see it.
type Seen<'a, S> = <<<S as Joinable>::Keys as KeyBy<
    <<S as Joinable>::Chain as Chain>::Item,
>>::Value as Record>::Of<'a>;

fn pairs_of<S, K, A, F>(
    stream: S,
    origin: Origin,
    value: F,
) -> Pairs<impl Chain<Item = (K, A), Time = S::Time> + use<S, K, A, F>>
where
    S: Joinable<Key: SameKey<K>>,
    K: Data,
    A: Data,
    F: for<'a> Fn(Seen<'a, S>) -> A + Send + Sync + 'static,
{
    let (stream, keys) = stream.into_keyed().into_parts();
    let pair = move |item: <<S::Chain as Chain>::Item as Record>::Of<'_>| {
        (keys.key(&item).own().same(), value(keys.value(item)))
    };
    let stream = stream.map_as(Origin { kind: "pair", ..origin }, pair);
    Pairs { stream, together: S::Placed::IS_PARTITIONED }
}

/// All records of a stream, under one key.
pub(super) fn all<C, A>(
    stream: Stream<C>,
    origin: Origin,
) -> Pairs<impl Chain<Item = ((), A), Time = C::Time> + use<C, A>>
where
    C: Chain<Item: Portable<Owned = A>>,
    A: Data,
{
    let pair = |item: <C::Item as Record>::Of<'_>| ((), C::Item::to_owned(item));
    Pairs { stream: stream.map_as(Origin { kind: "pair", ..origin }, pair), together: false }
}

impl<K, A, B, T> Inputs<K, A, B, T>
where
    K: Data + Key + Clone,
    A: Data,
    B: Data,
    T: Time,
{
    /// Sends both streams to the tasks that own their keys. A stream that is there already stays.
    pub(super) fn by_key<C, D>(left: Pairs<C>, right: Pairs<D>, origin: Origin) -> Self
    where
        C: Chain<Item = (K, A), Time = T>,
        D: Chain<Item = (K, B), Time = T>,
    {
        let tasks = Parallelism::Free(left.stream.env.keyed_tasks());
        Self::sent(left, right, tasks, origin, (Pairs::by_key, Pairs::by_key))
    }

    /// Sends both streams to the stage that joins them.
    pub(super) fn new<C, D>(
        left: Pairs<C>,
        right: Pairs<D>,
        delivery: Delivery,
        origin: Origin,
    ) -> Self
    where
        A: Clone,
        B: Clone,
        C: Chain<Item = (K, A), Time = T>,
        D: Chain<Item = (K, B), Time = T>,
    {
        match delivery {
            Delivery::ByKey => Self::by_key(left, right, origin),
            Delivery::LeftEverywhere => {
                let tasks = Parallelism::Free(right.stream.tasks());
                let how = (Pairs::everywhere as _, Pairs::stay as _);
                let mut inputs = Self::sent(left, right, tasks, origin, how);
                inputs.first.everywhere = true;
                inputs
            }
            Delivery::RightEverywhere => {
                let tasks = Parallelism::Free(left.stream.tasks());
                let how = (Pairs::stay as _, Pairs::everywhere as _);
                let mut inputs = Self::sent(left, right, tasks, origin, how);
                inputs.second.everywhere = true;
                inputs
            }
        }
    }

    fn sent<C, D>(
        left: Pairs<C>,
        right: Pairs<D>,
        parallelism: Parallelism,
        origin: Origin,
        (send_left, send_right): (SendTo<C, K, A, T>, SendTo<D, K, B, T>),
    ) -> Self
    where
        C: Chain<Item = (K, A), Time = T>,
        D: Chain<Item = (K, B), Time = T>,
    {
        let (env, other) = (left.stream.env.clone(), right.stream.env.clone());
        let bounded = left.stream.is_bounded() && right.stream.is_bounded();
        let before = [left.stream.stage, right.stream.stage];
        let stage = env.stage_of_both(&other, origin, before, parallelism, bounded);
        // A table without rows, or the end of one side, may be its end.
        env.builder().time_origins.ends_early(stage);
        // Streams of two environments are refused; the stage of the other one is not in this plan.
        let same = env.is_same(&other);
        let first = Input::new(left, stage, origin, same.then_some(send_left));
        let second = Input::new(right, stage, origin, same.then_some(send_right));
        Self { first, second, env, stage, origin }
    }
}

impl<K: Data, A: Data, B: Data, T: Time> Inputs<K, A, B, T> {
    /// Makes a stream that begins with the result of `chain`, as an operator of its own.
    pub(super) fn join<J: Chain>(
        self,
        details: Details,
        fault: Option<String>,
        chain: impl FnOnce(Self, usize) -> J,
    ) -> Stream<J> {
        let (stage, origin) = (self.stage, self.origin);
        let op = self.env.builder().operator(stage, origin, details);
        let stream = self.begin(|inputs| chain(inputs, op));
        if let Some(fault) = fault {
            stream.refuse(Error::new(ErrorKind::Plan, fault));
        }
        stream
    }

    /// Makes a stream that begins with the result of `chain`.
    pub(super) fn begin<J: Chain>(self, chain: impl FnOnce(Self) -> J) -> Stream<J> {
        let (env, stage) = (self.env.clone(), self.stage);
        Stream { chain: chain(self), env, stage }
    }

    /// Whether the first and the second input end.
    pub(super) fn bounded(&self) -> (bool, bool) {
        (self.first.bounded, self.second.bounded)
    }

    /// The same inputs, the second first.
    pub(super) fn swap(self) -> Inputs<K, B, A, T> {
        let Self { first, second, env, stage, origin } = self;
        Inputs { first: second, second: first, env, stage, origin }
    }

    /// Whether every record of the first and of the second input goes to every task.
    pub(super) fn everywhere(&self) -> (bool, bool) {
        (self.first.everywhere, self.second.everywhere)
    }

    /// Whether records of the first and of the second input are in any task, whatever their keys: every task has all of the
    /// other input.
    pub(super) fn anywhere(&self) -> (bool, bool) {
        let Self { first, second, .. } = self;
        (second.everywhere && !first.together, first.everywhere && !second.together)
    }

    /// Whether an input that is not read might block the other.
    pub(super) fn hang_together(&self, cx: &TaskContext<'_>) -> bool {
        cx.plan.are_connected(self.first.from, self.second.from, self.stage)
    }

    /// Refuses a strategy that keeps no state from round to round.
    pub(super) fn refuse_in_loops(&self, cx: &TaskContext<'_>, op: usize) -> Result<()> {
        if cx.depth(op) == Depth(0) {
            return Ok(());
        }
        let what =
            "cannot be made within a loop in this way: a join by a table can, which is the default";
        Err(Error::new(ErrorKind::Plan, what).in_operator(&*cx.op(op).name()))
    }

    /// The head of a task.
    pub(super) fn inlet<N>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> PairInlet<Hashed<(K, A)>, Hashed<(K, B)>, T, N>
    where
        N: PushTwo<Hashed<(K, A)>, Hashed<(K, B)>, T>,
    {
        let first = Edge::all_lanes_to(self.first.edge.as_slice(), cx.task);
        let second = Edge::all_lanes_to(self.second.edge.as_slice(), cx.task);
        let ops = (cx.op(self.first.op), cx.op(self.second.op));
        let again =
            [self.first.from, self.second.from].map(|from| cx.comes_again(from, self.stage));
        PairInlet::new(ops, again.into(), first, second, next)
    }
}

/// Sends a stream to a stage.
type SendTo<C, K, A, T> = fn(Pairs<C>, usize, Origin) -> Edge<Hashed<(K, A)>, T>;

impl<K: Data, A: Data, T: Time> Input<K, A, T> {
    fn new<C: Chain<Time = T>>(
        pairs: Pairs<C>,
        to: usize,
        origin: Origin,
        send: Option<SendTo<C, K, A, T>>,
    ) -> Self {
        let stream = &pairs.stream;
        let (from, bounded, together) = (stream.stage, stream.is_bounded(), pairs.together);
        let Some(send) = send else {
            return Self { edge: None, op: 0, from, bounded, together, everywhere: false };
        };
        let receive = Origin { kind: "receive", ..origin };
        let op = stream.builder().operator(to, receive, Details::none());
        let edge = Some(send(pairs, to, origin));
        Self { edge, op, from, bounded, together, everywhere: false }
    }
}

impl<C, K, A> Pairs<C>
where
    C: Chain<Item = (K, A)>,
    K: Data + Key + Clone,
    A: Data,
{
    /// Sends each record to the task that owns its key, unless it is there already.
    fn by_key(self, to: usize, origin: Origin) -> Edge<Hashed<(K, A)>, C::Time> {
        let tasks = self.stream.builder().plan.stages[to].tasks;
        if self.together && self.stream.tasks() == tasks {
            return self.stay(to, origin);
        }
        self.send(to, Origin { kind: "repartition", ..origin }, Distribution::by_key::<K>())
    }

    /// Leaves each record in the task where it is.
    fn stay(self, to: usize, origin: Origin) -> Edge<Hashed<(K, A)>, C::Time> {
        self.send(to, Origin { kind: "forward", ..origin }, Strategy::Forward)
    }

    fn send(
        self,
        to: usize,
        exchange: Origin,
        distribution: impl Into<Distribution>,
    ) -> Edge<Hashed<(K, A)>, C::Time> {
        // A forward edge has one lane, so the route does not matter.
        add_hash(self.stream, FirstOf, exchange).send_to(
            to,
            exchange,
            distribution,
            |cx, op, edge| edge.outlet(cx.task, cx.op(op), ByHash),
        )
    }

    /// Sends every record to every task.
    fn everywhere(self, to: usize, origin: Origin) -> Edge<Hashed<(K, A)>, C::Time>
    where
        A: Clone,
    {
        let exchange = Origin { kind: "broadcast", ..origin };
        let hashed = add_hash(self.stream, FirstOf, origin);
        hashed.send_to(to, exchange, Strategy::Broadcast, |cx, op, edge| {
            Broadcast::new(edge.lanes_from(cx.task, cx.op(op)))
        })
    }
}
