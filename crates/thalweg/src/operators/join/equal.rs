//! Joins of records whose keys are equal.

use super::joinable::{Joinable, JoinableWith, KeyOf, TimeOf, ValueOf};
use super::with::JoinWith;
use crate::operators::keyed::{FirstOf, KeyedStream, Partitioned};
use crate::plan::Origin;
use crate::stream::Chain;

/// A keyed stream whose records are in the tasks that own their keys.
type AtOwners<C> = KeyedStream<C, FirstOf, Partitioned>;

impl<C: Chain, G, P> KeyedStream<C, G, P> {
    /// Joins two streams with a choice of strategy and of the kind of join: see [`JoinWith`].
    #[track_caller]
    pub fn join_with<R>(self, right: R) -> JoinWith<Self, R>
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("join"))
    }

    /// Makes a record of every pair of records that the two streams have for a key.
    ///
    /// Both streams go to the tasks that own the keys; a stream that is there already stays. The right stream
    /// is read to its end and kept in a table; then each record of the left one is looked up. So the right
    /// stream should be the smaller one, and must end; the left one need not. Records of the left stream that
    /// arrive in the meantime wait in the exchange, or beside the table where waiting there would block
    /// the right stream. For other strategies see [`join_with`](Self::join_with); for records that are close in
    /// time, [`window_join`](Self::window_join).
    ///
    /// Duplicates count: two left and three right records of a key are six pairs. Keys are compared by `Eq`, so
    /// `None` equals `None` where keys are options. The left records of a task keep their order. In event time
    /// a pair has the later timestamp of the two, and a watermark is passed on when every result that it would
    /// overtake has been emitted.
    ///
    /// Memory: the records of the right stream, with 16 to 24 bytes each, within the budget. Beyond it both
    /// streams go to disk, in parts that are joined one after the other, so that the join takes longer but
    /// completes. Nothing but the number of results grows with the product of both sides, however many records
    /// a single key has.
    ///
    /// Within a loop, a table of a stream from outside the loop is built once and stays for all rounds; it must
    /// then fit into memory.
    ///
    /// # Errors
    ///
    /// If the right stream does not end, the job is refused at its start, as it is if the streams belong to
    /// different environments. A table that outgrows memory stops the job if the left stream does not end.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let orders = env.iter([(1, "ale"), (2, "bread"), (1, "cheese")]).keyed();
    /// let customers = env.iter([(1, "ann"), (3, "cy")]).keyed();
    /// let orders = orders.map(|_, what| what.to_owned());
    /// let joined = orders.join(customers.map(|_, name| name.to_owned()));
    /// let out = joined.unkey().map(|(_, (what, name))| format!("{name}: {what}")).sorted();
    /// let out = out.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["ann: ale", "ann: cheese"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("inner_join"))]
    #[track_caller]
    pub fn join<R>(
        self,
        right: R,
    ) -> AtOwners<impl Chain<Item = (KeyOf<Self>, (ValueOf<Self>, ValueOf<R>)), Time = TimeOf<Self>>>
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("join")).inner()
    }

    /// Like [`join`](Self::join), with the records of this stream that have no partner.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (left, right) = (env.iter([(1, 'a'), (2, 'b')]), env.iter([(1, 10)]));
    /// let out = left.keyed().left_join(right.keyed()).unkey().sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, ('a', Some(10))), (2, ('b', None))]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("leftOuterJoin", "left_outer_join"))]
    #[track_caller]
    pub fn left_join<R>(
        self,
        right: R,
    ) -> AtOwners<
        impl Chain<Item = (KeyOf<Self>, (ValueOf<Self>, Option<ValueOf<R>>)), Time = TimeOf<Self>>,
    >
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("left_join")).left()
    }

    /// Like [`join`](Self::join), with the records of the right stream that have no partner. They are emitted
    /// when the left stream has ended, which it must.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (left, right) = (env.iter([(1, 'a')]), env.iter([(1, 10), (2, 20)]));
    /// let out = left.keyed().right_join(right.keyed()).unkey().sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, (Some('a'), 10)), (2, (None, 20))]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn right_join<R>(
        self,
        right: R,
    ) -> AtOwners<
        impl Chain<Item = (KeyOf<Self>, (Option<ValueOf<Self>>, ValueOf<R>)), Time = TimeOf<Self>>,
    >
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("right_join")).right()
    }

    /// Like [`join`](Self::join), with the records of either stream that have no partner. Those of the right
    /// one are emitted when the left one has ended, which it must.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (left, right) = (env.iter([(1, 'a')]), env.iter([(2, 20)]));
    /// let out = left.keyed().full_join(right.keyed()).unkey().sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, (Some('a'), None)), (2, (None, Some(20)))]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("fullOuterJoin", "outer_join"))]
    #[track_caller]
    pub fn full_join<R>(
        self,
        right: R,
    ) -> AtOwners<
        impl Chain<
            Item = (KeyOf<Self>, (Option<ValueOf<Self>>, Option<ValueOf<R>>)),
            Time = TimeOf<Self>,
        >,
    >
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("full_join")).full()
    }

    /// The records whose key the right stream has too: each once, however often the key is there. Of the right
    /// stream, only the keys are sent and kept; otherwise it is like [`join`](Self::join).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let wanted = env.iter([2, 4, 4]).group_by(|n| *n);
    /// let out = env.iter(1..=5).group_by(|n| *n).semi_join(wanted).unkey().map(|(n, _)| n);
    /// let out = out.sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn semi_join<R>(
        self,
        right: R,
    ) -> AtOwners<impl Chain<Item = (KeyOf<Self>, ValueOf<Self>), Time = TimeOf<Self>>>
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("semi_join")).semi()
    }

    /// The records whose key the right stream does not have. Of the right stream, only the keys are sent and
    /// kept; otherwise it is like [`join`](Self::join).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let unwanted = env.iter([2, 4, 4]).group_by(|n| *n);
    /// let out = env.iter(1..=5).group_by(|n| *n).anti_join(unwanted).unkey().map(|(n, _)| n);
    /// let out = out.sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 3, 5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn anti_join<R>(
        self,
        right: R,
    ) -> AtOwners<impl Chain<Item = (KeyOf<Self>, ValueOf<Self>), Time = TimeOf<Self>>>
    where
        Self: Joinable<Value: Clone>,
        R: JoinableWith<Self, Value: Clone>,
    {
        JoinWith::new(self, right, Origin::here("anti_join")).anti()
    }
}
