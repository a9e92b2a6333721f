//! Keyed streams paired with a state that a control stream changes.

use super::meeting::{Connected, Order};
use super::{Meet, Sent};
use crate::data::{Covariant, Data, Portable, Record, Wire};
use crate::exchange::{ByHash, Hashed};
use crate::operators::keyed::{
    AddHash, Carried, KeyBy, KeyedStream, Partitioned, Placed, add_hash,
};
use crate::operators::loops::Beside;
use crate::plan::{Distribution, Origin, Parallelism, Strategy};
use crate::stream::{Chain, Stream};

/// A keyed stream paired with a state.
type ConnectedByKey<C, G, D, S, U> = KeyedStream<
    Connected<Hashed<<C as Chain>::Item>, <D as Chain>::Item, <C as Chain>::Time, S, U>,
    InBeside<Carried<G>>,
    Partitioned,
>;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire + Covariant>,
    G: KeyBy<C::Item>,
    P: Placed,
{
    /// Pairs each value with a state that a control stream changes, as
    /// [`Stream::connect`](crate::Stream::connect) does for a stream without keys: see there for order, time
    /// and the end of the streams.
    ///
    /// Each record goes to the task that owns its key, unless it is there, and every control record to every
    /// task. The operators that follow get values as pairs `(value, &state)`: [`map`](Self::map),
    /// [`filter_map`](Self::filter_map) and [`flat_map`](Self::flat_map) accept them, as does
    /// [`stateful_map_with`](Self::stateful_map_with), which also keeps a state for each key.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// // A factor for the amounts of all accounts.
    /// let env = Environment::new();
    /// let amounts = env.iter([("ann".to_owned(), 3), ("bob".to_owned(), 4)]).keyed();
    /// let factors = env.iter([2, 10]);
    /// let scaled = amounts
    ///     .connect_after(factors, 1, |factor: &mut i32, by| *factor *= by)
    ///     .map(|_, (amount, factor)| amount * factor);
    /// let out = scaled.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [("ann".to_owned(), 60), ("bob".to_owned(), 80)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of two environments are refused at the job's start.
    #[track_caller]
    pub fn connect<D, S, U>(
        self,
        control: Stream<D>,
        init: S,
        update: U,
    ) -> ConnectedByKey<C, G, D, S, U>
    where
        D: Chain<Item: Portable>,
        for<'a> <D::Item as Record>::Of<'a>: Clone,
        S: Data + Clone + Sync,
        U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let (order, origin) = (Order::Arrival, Origin::here("connect"));
        met(self, Meet { control, init, update, order, origin })
    }

    /// Like [`connect`](Self::connect), with all of the control stream before the first record: see
    /// [`Stream::connect_after`](crate::Stream::connect_after).
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
    ) -> ConnectedByKey<C, G, D, S, U>
    where
        D: Chain<Item: Portable>,
        for<'a> <D::Item as Record>::Of<'a>: Clone,
        S: Data + Clone + Sync,
        U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let (order, origin) = (Order::ControlFirst, Origin::here("connect_after"));
        met(self, Meet { control, init, update, order, origin })
    }
}

fn met<C, G, P, D, S, U>(
    keyed: KeyedStream<C, G, P>,
    controls: Meet<D, S, U>,
) -> ConnectedByKey<C, G, D, S, U>
where
    C: Chain<Item: Wire + Covariant>,
    G: KeyBy<C::Item>,
    P: Placed,
    D: Chain<Item: Portable>,
    for<'a> <D::Item as Record>::Of<'a>: Clone,
    S: Data + Clone + Sync,
    U: for<'a> Fn(&mut S, <D::Item as Record>::Of<'a>) + Send + Sync + 'static,
{
    let origin = controls.origin;
    let (stream, keys) = keyed.into_parts();
    // Records that are in the task that owns their key stay there.
    let (tasks, kind, distribution) = match P::IS_PARTITIONED {
        true => (Parallelism::Free(stream.tasks()), "forward", Strategy::Forward.into()),
        false => (
            Parallelism::Free(stream.env.keyed_tasks()),
            "repartition",
            Distribution::by_key::<G::Key>(),
        ),
    };
    let hashed = add_hash(stream, keys.clone(), origin);
    let send = |stream: Stream<AddHash<C, G>>, to| -> Sent<AddHash<C, G>> {
        stream.send_to(to, Origin { kind, ..origin }, distribution, |cx, op, edge| {
            edge.outlet(cx.task, cx.op(op), ByHash)
        })
    };
    KeyedStream::from_parts(
        controls.with(hashed, tasks, send, Some(|(hash, _)| *hash)),
        InBeside(Carried(keys)),
    )
}

/// Finds key and value in records that are paired with a state.
#[derive(Clone, Copy, Debug)]
pub struct InBeside<G>(pub(super) G);

impl<I, S, G> KeyBy<Beside<I, S>> for InBeside<G>
where
    I: Record + ?Sized,
    S: 'static,
    G: KeyBy<I>,
{
    type Key = G::Key;
    type Value = Beside<G::Value, S>;

    #[inline(always)]
    fn key<'k>(&self, item: &'k (I::Of<'_>, &S)) -> &'k G::Key {
        self.0.key(&item.0)
    }

    #[inline(always)]
    fn hash(&self, item: &(I::Of<'_>, &S)) -> u64 {
        self.0.hash(&item.0)
    }

    #[inline(always)]
    fn value<'a>(
        &self,
        (item, state): <Beside<I, S> as Record>::Of<'a>,
    ) -> <Self::Value as Record>::Of<'a> {
        (self.0.value(item), state)
    }

    #[inline(always)]
    fn pair<'a>(
        &self,
        (item, state): <Beside<I, S> as Record>::Of<'a>,
    ) -> (<G::Key as Portable>::Owned, <Self::Value as Record>::Of<'a>) {
        let (key, value) = self.0.pair(item);
        (key, (value, state))
    }
}
