//! Brings two streams to the tasks of one stage, which joins them.

use crate::data::{Data, Key, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Broadcast, ByHash, Edge, Hashed, PairInlet};
use crate::flow::{Depth, PushTwo};
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Placed, add_hash};
use crate::plan::{Origin, Strategy, TaskContext};
use crate::stream::{Chain, Environment, Stream};
use crate::time::Time;

/// The two sides as they come to the stage that joins them.
pub struct Sides<K: Data, A: Data, B: Data, T: Time> {
    first: Side<K, A, T>,
    second: Side<K, B, T>,
    pub(super) env: Environment,
    stage: usize,
    pub(super) origin: Origin,
}

struct Side<K: Data, A: Data, T: Time> {
    edges: Vec<Edge<Hashed<(K, A)>, T>>,
    /// The operator that receives it.
    op: usize,
    /// The stage that sends it.
    from: usize,
    bounded: bool,
}

/// How the two sides get there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each record goes to the task that owns its key.
    ByKey,
    /// Every record of the left side goes to every task.
    LeftEverywhere,
    /// Every record of the right side goes to every task.
    RightEverywhere,
}

/// Pairs of a key and what is to be known of the record, with where the records of a key are.
pub(super) struct Pairs<C: Chain> {
    stream: Stream<C>,
    together: bool,
}

/// A keyed stream as pairs of its key and what the closure makes of its values.
pub(super) fn pairs<C, G, P, K, A, F>(
    keyed: KeyedStream<C, G, P>,
    origin: Origin,
    value: F,
) -> Pairs<impl Chain<Item = (K, A), Time = C::Time> + use<C, G, P, K, A, F>>
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned = K>>,
    P: Placed,
    K: Data,
    A: Data,
    F: for<'a> Fn(<G::Value as Record>::Of<'a>) -> A + Send + Sync + 'static,
{
    let (stream, keys) = keyed.into_parts();
    let pair =
        move |item: <C::Item as Record>::Of<'_>| (keys.key(&item).own(), value(keys.value(item)));
    let stream = stream.map_as(Origin { kind: "pair", ..origin }, pair);
    Pairs { stream, together: P::TOGETHER }
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

/// The owned form of a value.
pub(super) fn owned<V: Portable + ?Sized>(value: V::Of<'_>) -> V::Owned {
    V::to_owned(value)
}

impl<K, A, B, T> Sides<K, A, B, T>
where
    K: Data + Key + Clone,
    A: Data + Clone,
    B: Data + Clone,
    T: Time,
{
    /// Sends both sides to a new stage.
    pub(super) fn new<C, D>(left: Pairs<C>, right: Pairs<D>, way: Way, origin: Origin) -> Self
    where
        C: Chain<Item = (K, A), Time = T>,
        D: Chain<Item = (K, B), Time = T>,
    {
        let (env, other) = (left.stream.env.clone(), right.stream.env.clone());
        let tasks = match way {
            Way::ByKey => env.keyed_tasks(),
            Way::RightEverywhere => left.stream.tasks(),
            Way::LeftEverywhere => right.stream.tasks(),
        };
        let bounded = (left.stream.is_bounded(), right.stream.is_bounded());
        let before = [left.stream.stage, right.stream.stage];
        let stage = env.stage_of_both(&other, origin, before, tasks, bounded.0 && bounded.1);
        // Streams of two environments are refused; the other one's stage is of no plan.
        let same = env.is_same(&other);
        let first = left.side(stage, way, Way::LeftEverywhere, same, origin);
        let second = right.side(stage, way, Way::RightEverywhere, same, origin);
        Self { first, second, env, stage, origin }
    }

    /// Makes it a stream of what `chain` makes of it.
    pub(super) fn join<J: Chain>(
        self,
        detail: String,
        fault: Option<String>,
        chain: impl FnOnce(Self, usize) -> J,
    ) -> Stream<J> {
        let (env, stage, origin) = (self.env.clone(), self.stage, self.origin);
        let op = env.build(|builder| builder.operator(stage, origin, detail));
        let stream = Stream { chain: chain(self, op), env, stage };
        if let Some(fault) = fault {
            stream.refuse(Error::new(ErrorKind::Plan, fault));
        }
        stream
    }
}

impl<K: Data, A: Data, B: Data, T: Time> Sides<K, A, B, T> {
    /// Whether the first and the second side end.
    pub(super) fn bounded(&self) -> (bool, bool) {
        (self.first.bounded, self.second.bounded)
    }

    /// The same sides, the second first.
    pub(super) fn swap(self) -> Sides<K, B, A, T> {
        let Self { first, second, env, stage, origin } = self;
        Sides { first: second, second: first, env, stage, origin }
    }

    /// Whether a side that is not read might hold up the other.
    pub(super) fn hang_together(&self, cx: &TaskContext<'_>) -> bool {
        cx.plan.are_connected(self.first.from, self.second.from, self.stage)
    }

    /// Refuses a way of joining that keeps nothing from round to round.
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
        let first = self.first.edges.iter().flat_map(|edge| edge.lanes_to(cx.task)).collect();
        let second = self.second.edges.iter().flat_map(|edge| edge.lanes_to(cx.task)).collect();
        let ops = (cx.op(self.first.op), cx.op(self.second.op));
        let again =
            [self.first.from, self.second.from].map(|from| cx.comes_again(from, self.stage));
        PairInlet::new(ops, again.into(), first, second, next)
    }
}

impl<C, K, A> Pairs<C>
where
    C: Chain<Item = (K, A)>,
    K: Data + Key + Clone,
    A: Data + Clone,
{
    fn side(
        self,
        to: usize,
        way: Way,
        everywhere: Way,
        send: bool,
        origin: Origin,
    ) -> Side<K, A, C::Time> {
        let env = self.stream.env.clone();
        let (from, bounded) = (self.stream.stage, self.stream.is_bounded());
        let receive = Origin { kind: "receive", ..origin };
        let receiving =
            |env: &Environment| env.build(|builder| builder.operator(to, receive, String::new()));
        if !send {
            return Side { edges: Vec::new(), op: 0, from, bounded };
        }
        let tasks = env.build(|builder| builder.plan.stages[to].tasks);
        let stays = match way {
            Way::ByKey => self.together && self.stream.tasks() == tasks,
            _ => true,
        };
        let op = receiving(&env);
        let hashed = add_hash(self.stream, FirstOf, origin);
        let edge = if way == everywhere {
            let exchange = Origin { kind: "broadcast", ..origin };
            hashed.send_to(to, exchange, Strategy::Broadcast, |cx, op, edge| {
                Broadcast::new(edge.lanes_from(cx.task, cx.op(op)))
            })
        } else {
            // One that stays has but one lane to go on.
            let (kind, strategy) = match stays {
                true => ("forward", Strategy::Forward),
                false => ("partition", Strategy::Keyed),
            };
            hashed.send_to(to, Origin { kind, ..origin }, strategy, |cx, op, edge| {
                edge.outlet(cx.task, cx.op(op), ByHash)
            })
        };
        Side { edges: vec![edge], op, from, bounded }
    }
}
