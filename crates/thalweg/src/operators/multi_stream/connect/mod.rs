//! Connected streams: records paired with a state that a control stream changes, such as rules, limits or
//! switches.
//!
//! Every task of the stream has a state of its own. Each control record goes to every task and changes the
//! state there; the stream's own records are passed on with a reference to it:
//!
//! ```text
//!   control ══ broadcast ══╗
//!                          ╠═> a state a task ──> (record, &state)
//!   records ── as they are ╝
//! ```
//!
//! Time is that of the records alone: control records lose their timestamps (`timeless.rs`), and their stream
//! holds back no watermark.

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod copies;
mod held;
mod keyed;
mod meeting;
mod stateful;
mod timeless;

pub use keyed::InBeside;
pub use meeting::Connected;
pub use stateful::StatefulWith;

use crate::data::{Covariant, Data, Portable, Record, Wire};
use crate::error::{Error, ErrorKind};
use crate::exchange::{Broadcast, RoundRobin};
use crate::plan::{Details, Origin, Parallelism, Scope, Strategy};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use held::HashOf;
use meeting::{Controls, Order, Records};
use std::sync::Arc;
use timeless::Timeless;

impl<C: Chain<Item: Wire + Covariant>> Stream<C> {
    /// Pairs each record with a state that a control stream changes: rules that are added and withdrawn,
    /// limits, switches.
    ///
    /// Each task has a copy of the state, `init` at first. Every control record goes to every task, and changes
    /// the state there by `update`. The operators that follow get pairs of a record and a reference to the
    /// state. No copy is made, and the reference cannot leave the task, so a closure must turn the pair into
    /// another value before an exchange or a sink. For streams with keys there is
    /// [`KeyedStream::connect`](crate::KeyedStream::connect).
    ///
    /// Control records of one task arrive in order. Between the two streams, the order is that of arrival, and
    /// tasks may receive a control record at different times: a record sees the control records that arrived
    /// before it. To process all of a control stream that ends first, see
    /// [`connect_after`](Self::connect_after).
    ///
    /// Time is that of the records: the control stream may have timestamps or not, and holds back no watermark,
    /// however long it is idle. The result ends with the stream of records, whether the control stream does or
    /// not; after the end of the control stream the state stays as it is. Within a loop, the state stays from
    /// round to round if the control stream is from outside, and is `init` again in each round if the control
    /// stream is from the body.
    ///
    /// Keeps order and the number of tasks. Memory: a state per task, with what it owns on the heap.
    /// The state is declared: the plan shows it. A checkpoint has it once for each host, and all tasks go on with one of
    /// these: control records that several tasks send have come in one order everywhere then.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let blocked = env.iter([3u64, 5]);
    /// let visits = env.range(0..10);
    /// let allowed = visits
    ///     .connect_after(blocked, BTreeSet::new(), |all, id| _ = all.insert(id))
    ///     .filter_map(|(visit, blocked)| (!blocked.contains(&visit)).then_some(visit));
    /// let out = allowed.count().collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(8));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of two environments are refused at the job's start. The job stops when the memory budget does not hold the states.
    #[doc(alias("BroadcastStream", "CoProcessFunction"))]
    #[track_caller]
    pub fn connect<D, S, U>(
        self,
        control: Stream<D>,
        init: S,
        update: U,
    ) -> Stream<Connected<C::Item, D::Item, C::Time, S, U>>
    where
        D: Chain<Item: Portable>,
        for<'a> <D::Item as Record>::Of<'a>: Clone,
        S: Data + Clone + Sync,
        U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let origin = Origin::here("connect");
        self.connected(control, init, update, Order::Arrival, origin)
    }

    /// Like [`connect`](Self::connect), with all of the control stream before the first record.
    ///
    /// For a control stream that is small and known beforehand, or is computed from the stream itself. Records
    /// wait in the exchange until the control stream has ended. Only if both streams have a common source, as
    /// after a [`split`](Self::split), which would otherwise block, are records kept here, in memory up to an
    /// eighth of the budget, and beyond that on disk.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// // How far each number is from the mean.
    /// let env = Environment::new();
    /// let [numbers, all] = env.range(0..101).split();
    /// let mean = all.map(|n| (n, 1)).reduce(|a, b| (a.0 + b.0, a.1 + b.1)).map(|(sum, n)| sum / n);
    /// let far = numbers
    ///     .connect_after(mean, 0, |mean, is| *mean = is)
    ///     .map(|(n, mean)| n.abs_diff(*mean));
    /// let far = far.sum(|n| *n).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(far.take()?, [2550]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the control stream does not end, the job is refused at its start.
    #[track_caller]
    pub fn connect_after<D, S, U>(
        self,
        control: Stream<D>,
        init: S,
        update: U,
    ) -> Stream<Connected<C::Item, D::Item, C::Time, S, U>>
    where
        D: Chain<Item: Portable>,
        for<'a> <D::Item as Record>::Of<'a>: Clone,
        S: Data + Clone + Sync,
        U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let origin = Origin::here("connect_after");
        self.connected(control, init, update, Order::ControlFirst, origin)
    }

    fn connected<D, S, U>(
        self,
        control: Stream<D>,
        init: S,
        update: U,
        order: Order,
        origin: Origin,
    ) -> Stream<Connected<C::Item, D::Item, C::Time, S, U>>
    where
        D: Chain<Item: Portable>,
        for<'a> <D::Item as Record>::Of<'a>: Clone,
        S: Data + Clone + Sync,
        U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let tasks = Parallelism::Free(self.tasks());
        let controls = Meet { control, init, update, order, origin };
        let send = |stream: Self, to| -> Sent<C> {
            let forward = Origin { kind: "forward", ..origin };
            stream.send_to(to, forward, Strategy::Forward, |cx, op, edge| {
                edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
            })
        };
        controls.with(self, tasks, send, None)
    }
}

/// A control stream, with how it changes the state.
struct Meet<D: Chain, S, U> {
    control: Stream<D>,
    init: S,
    update: U,
    order: Order,
    origin: Origin,
}

/// The exchange that brings records to a stage.
type Sent<C> = crate::exchange::Edge<<C as Chain>::Item, <C as Chain>::Time>;

impl<D, S, U> Meet<D, S, U>
where
    D: Chain<Item: Portable>,
    for<'a> <D::Item as Record>::Of<'a>: Clone,
    S: Data + Clone + Sync,
    U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
{
    /// Brings records and the control stream to a stage of so many tasks; `send` sends the records.
    fn with<C>(
        self,
        stream: Stream<C>,
        parallelism: Parallelism,
        send: impl FnOnce(Stream<C>, usize) -> Sent<C>,
        hash: HashOf<C::Item>,
    ) -> Stream<Connected<C::Item, D::Item, C::Time, S, U>>
    where
        C: Chain<Item: Wire + Covariant>,
    {
        let Self { control, init, update, order, origin } = self;
        let env = stream.env.clone();
        let same = env.is_same(&control.env);
        let (bounded, ends) = (stream.is_bounded(), control.is_bounded());
        let before = [control.stage, stream.stage];
        let stage = match same {
            true => env.stage_of_both(&control.env, origin, before, parallelism, bounded),
            false => {
                env.stage_of_both(&control.env, origin, [stream.stage; 2], parallelism, bounded)
            }
        };
        let receive = |kind| {
            let origin = Origin { kind, ..origin };
            env.builder().operator(stage, origin, Details::none())
        };
        // A control stream of another environment is not in this plan, and the job is refused.
        let controls = match same {
            true => {
                let op = receive("receive control");
                let exchange = Origin { kind: "broadcast", ..origin };
                let edge = timeless::<_, C::Time>(control).send_to(
                    stage,
                    exchange,
                    Strategy::Broadcast,
                    |cx, op, edge| Broadcast::new(edge.lanes_from(cx.task, cx.op(op))),
                );
                let mut builder = env.builder();
                let last = builder.plan.edges.len() - 1;
                builder.time_origins.timeless(last);
                Controls { edges: vec![edge], op, from: before[0] }
            }
            false => Controls { edges: Vec::new(), op: 0, from: 0 },
        };
        let from = stream.stage;
        let op = receive("receive");
        let records = Records { edge: send(stream, stage), op, from, hash };
        let op = env.builder().operator(stage, origin, Details::none());
        let (init, update, copies) = (Arc::new(init), Arc::new(update), Arc::default());
        let chain = Connected { controls, records, stage, op, order, init, update, copies };
        let connected = Stream { chain, env, stage }.with_state::<S>(Scope::Task);
        if order == Order::ControlFirst && !ends {
            let what = "reads all of the control stream first, which does not end: `connect` takes both as they come";
            connected.refuse(Error::new(ErrorKind::Plan, what));
        }
        connected
    }
}

/// The stream without its time.
fn timeless<D: Chain, T: Time>(stream: Stream<D>) -> Stream<Timeless<D, T>> {
    let Stream { env, chain, stage } = stream;
    Stream { env, chain: Timeless::new(chain), stage }
}
