//! Caches: the result of a stream, kept for further jobs.
//!
//! A cache has a part for each task that filled it, on the host of that task. A job that reads it has a task for each
//! part, so that the records of a task stay together, and on their host. Where a keyed stream is read by another number
//! of tasks, each reads the records of its own keys from the parts that may have them.

mod fill;
mod read;

use crate::data::{Data, Key, Portable, Record, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Broadcast;
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned, Placed};
use crate::operators::loops::ByRef;
use crate::plan::{Details, Origin, Parallelism, TieKind};
use crate::stream::{Chain, Environment, Stream};
use crate::support::replay_buffer::ReplayBuffer;
use crate::time::Time;
use fill::{Filled, Filling};
use read::{Reads, Share};
use std::sync::{Arc, OnceLock};

/// The records of a stream that a job has kept, as a source for further jobs; made by [`Stream::cache`]. Clones
/// share them; they are dropped with the last clone and the last job that reads them.
#[must_use = "a cache is there to be read by further jobs"]
pub struct Cached<D: Data, T: Time = ()>(Arc<Shared<D, T>>);

/// The records of a keyed stream that a job has kept; made by [`KeyedStream::cache`].
#[must_use = "a cache is there to be read by further jobs"]
pub struct CachedByKey<K: Data, V: Data, T: Time = ()>(Cached<(K, V), T>);

struct Shared<D: Data, T: Time> {
    /// The operator that fills it, for messages.
    operator: String,
    /// The tasks that fill it.
    tasks: usize,
    /// Set once the job has succeeded.
    parts: OnceLock<Parts<D, T>>,
}

/// The records of a cache that is filled.
struct Parts<D: Data, T: Time> {
    /// By task; `None` where the task was on another host.
    parts: Vec<Option<ReplayBuffer<D, T>>>,
    /// The number of records, on all hosts.
    len: u64,
}

impl<D: Data, T: Time> Clone for Cached<D, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Data, V: Data, T: Time> Clone for CachedByKey<K, V, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Chain<Item: Portable<Owned: Sync>>> Stream<C> {
    /// Keeps the records, in the tasks where they are, for further jobs: each can read them as often as needed,
    /// without computing them again.
    ///
    /// The job that fills the cache must have ended before another reads it. Where the program needs the
    /// records there is [`collect`](Self::collect), which brings them together; where one job uses a stream
    /// twice, [`split`](Self::split); where it iterates over the same records, [`replay`](Self::replay).
    ///
    /// Costs one copy of the records, in memory as long as no more than half of the budget of the environment
    /// that fills it is taken, and beyond that on disk. Borrowed records are kept as owned ones (`str` as
    /// `String`). Records keep their timestamps and their order in a task; watermarks are not kept, so that in
    /// a further job no record is late, and windows are emitted at the end. On several hosts, each keeps the records of
    /// its tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let squares = env.range(0..1000).map(|n| n * n).cache();
    /// env.run()?;
    ///
    /// let even = squares.stream(&env).filter(|n| n % 2 == 0).count().collect_one();
    /// let large = squares.by_ref(&env).filter(|n| **n >= 250_000).count().collect_one();
    /// env.run()?;
    /// assert_eq!((even.take()?, large.take()?), (Some(500), Some(500)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start, and so is one with checkpoints that fills a cache or reads
    /// one. A job that reads a cache that has not been filled, because the job that fills it has not run, has not ended, or has
    /// failed, is refused at its start with an error of kind [`NotProduced`](crate::ErrorKind::NotProduced). A cache that
    /// several hosts have filled can only be read on the same hosts, by as many tasks.
    #[track_caller]
    pub fn cache(self) -> Cached<<C::Item as Portable>::Owned, C::Time> {
        self.kept(Origin::here("cache"))
    }

    fn kept(self, origin: Origin) -> Cached<<C::Item as Portable>::Owned, C::Time> {
        let tasks = self.tasks();
        let cached =
            Cached(Arc::new(Shared { operator: origin.label(), tasks, parts: OnceLock::new() }));
        let filling = Filling::new(cached.clone());
        let (env, stage) = (self.env.clone(), self.stage);
        match env.hosts_if_several() {
            None => {
                self.close(origin, Details::none(), move |cx, op| {
                    Ok(filling.task::<C::Item, _>(cx, op, filling.noted(cx, op)))
                });
                env.tie_last(stage, TieKind::Cache);
            }
            Some(hosts) => {
                let here = filling.clone();
                let filled = self.then(origin, |prev, op| Filled { prev, op, filling });
                env.tie_last(stage, TieKind::Cache);
                let (edge, all) = env.to_each_host(hosts, stage, origin);
                let send = Origin { kind: "broadcast", ..origin };
                filled.close(send, Details::none(), move |cx, op| {
                    Ok(Broadcast::new(edge.lanes_from(cx.task, cx.op(op))))
                });
                all.close(origin, Details::none(), move |cx, op| Ok(here.noted(cx, op)));
            }
        }
        let mut builder = env.builder();
        builder.require_bounded_end(stage, "it would never be complete");
        builder.fix_tasks(stage, "later jobs read the cache in as many");
        drop(builder);
        cached
    }
}

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Sync>, Value: Portable<Owned: Sync>>,
    P: Placed,
{
    /// Keeps the values, in the tasks that own their keys, for further jobs: see
    /// [`Stream::cache`](crate::Stream::cache).
    ///
    /// Each record is sent to the task that owns its key, unless it is there. A job that reads the cache finds
    /// it there: keyed operators need no further exchange, whatever the number of tasks of its environment.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let visits = env.range(0..1000).group_by(|n| n % 10).cache();
    /// env.run()?;
    ///
    /// let counts = visits.stream(&env).count().collect::<Vec<_>>();
    /// let greatest = visits.stream(&env).max(|n| *n).collect::<Vec<_>>();
    /// assert!(env.plan().operators.iter().all(|op| op.kind != "repartition"));
    /// env.run()?;
    /// assert!(counts.take()?.iter().all(|(_, count)| *count == 100));
    /// assert!(greatest.take()?.iter().all(|(key, n)| *n == 990 + key));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Stream::cache`](crate::Stream::cache).
    #[track_caller]
    pub fn cache(
        self,
    ) -> CachedByKey<<G::Key as Portable>::Owned, <G::Value as Portable>::Owned, C::Time> {
        let origin = Origin::here("cache");
        let (stream, keys) = P::partitioned(self, origin).into_parts();
        let pair = move |item: Item<'_, C, G, P>| {
            let key = keys.key(&item).own();
            (key, G::Value::to_owned(keys.value(item)))
        };
        CachedByKey(stream.map_as(Origin { kind: "pair", ..origin }, pair).kept(origin))
    }
}

/// A record of a keyed stream whose keys are in the tasks that own them.
type Item<'a, C, G, P> = <<<P as Placed>::PartitionedChain<C, G> as Chain>::Item as Record>::Of<'a>;

impl<D: Data + Sync, T: Time> Cached<D, T> {
    /// A source of the records for a job: clones of them, in as many tasks as filled the cache.
    ///
    /// The cache need not be filled when the job is built, but must be when it starts. Where a reference to the
    /// records is enough, [`by_ref`](Self::by_ref) clones none.
    #[track_caller]
    pub fn stream(&self, env: &Environment) -> Stream<impl Chain<Item = D, Time = T> + use<D, T>>
    where
        D: Clone,
    {
        let origin = Origin::here("cached");
        let records = self.read(env, origin, self.0.tasks, None);
        records.map_as(Origin { kind: "clone", ..origin }, |record: &D| record.clone())
    }

    /// A source of the records for a job, by reference: closures see `&D`, and must turn it into an owned value
    /// before an exchange or a sink.
    #[track_caller]
    pub fn by_ref(
        &self,
        env: &Environment,
    ) -> Stream<impl Chain<Item = ByRef<D>, Time = T> + use<D, T>> {
        self.read(env, Origin::here("cached"), self.0.tasks, None)
    }

    /// The number of records.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](crate::ErrorKind::NotProduced) as long as the cache is not filled.
    pub fn len(&self) -> Result<u64> {
        Ok(self.parts()?.len)
    }

    /// Whether there is no record.
    ///
    /// # Errors
    ///
    /// As for [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    fn parts(&self) -> Result<&Parts<D, T>> {
        self.0.parts.get().ok_or_else(|| {
            let what = format!(
                "there is nothing to be read: the job in which {} fills the cache has not run to its end",
                self.0.operator
            );
            Error::new(ErrorKind::NotProduced, what)
        })
    }

    /// A source of the records, in `tasks` tasks. `hash` returns the hash of a record's key, if each task is to
    /// read the records of its own keys.
    fn read(
        &self,
        env: &Environment,
        origin: Origin,
        tasks: usize,
        hash: Option<fn(&D) -> u64>,
    ) -> Stream<impl Chain<Item = ByRef<D>, Time = T> + use<D, T>> {
        let share = match hash {
            Some(hash) if tasks != self.0.tasks => Share::Owned(hash),
            _ => Share::Part,
        };
        let details = Details::of("filled_by", self.0.operator.clone());
        env.source(
            origin,
            details,
            Parallelism::Fixed(tasks),
            true,
            Reads { cached: self.clone(), share },
        )
        .tied(TieKind::Cache)
    }
}

impl<K, V, T> CachedByKey<K, V, T>
where
    K: Data + Key + Sync + Clone,
    V: Data + Sync + Clone,
    T: Time,
{
    /// A source of the records for a job: clones of them, in the tasks that own their keys.
    ///
    /// Where the environment has as many tasks for keys as the one that filled the cache, each reads the
    /// records of one task; otherwise each selects its own from the parts of several.
    #[track_caller]
    pub fn stream(
        &self,
        env: &Environment,
    ) -> KeyedStream<impl Chain<Item = (K, V), Time = T> + use<K, V, T>, FirstOf, Partitioned> {
        let origin = Origin::here("cached");
        let hash = |pair: &(K, V)| pair.0.key_hash();
        let records = self.0.read(env, origin, env.keyed_tasks(), Some(hash));
        let copies =
            records.map_as(Origin { kind: "clone", ..origin }, |pair: &(K, V)| pair.clone());
        KeyedStream::from_parts(copies, FirstOf)
    }

    /// The number of records.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](crate::ErrorKind::NotProduced) as long as the cache is not filled.
    pub fn len(&self) -> Result<u64> {
        self.0.len()
    }

    /// Whether there is no record.
    ///
    /// # Errors
    ///
    /// As for [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        self.0.is_empty()
    }
}
