//! Maps each value with a state per key.

use super::partition::Placed;
use super::stateful::{EndlessKeys, Remembering, Step};
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Key, Portable, Record, Wire};
use crate::plan::{Origin, Scope};
use crate::state::GroupTable;
use crate::stream::Chain;
use crate::support::keyed_timers::Remembered;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// A keyed stream of what the closure returns.
type Mapped<C, G, P, S, F, O> = KeyedStream<
    Remembering<
        <P as Placed>::PartitionedChain<C, G>,
        StatefulMapStep<<P as Placed>::Keys<C, G>, S, F, O>,
    >,
    FirstOf,
    Partitioned,
>;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key> + Key>>,
    P: Placed,
{
    /// Maps each value to another, with a state per key that is a clone of `init` at first. The result is a stream
    /// with the same keys.
    ///
    /// Every record is sent to the task that owns its key, unless it is already there. The values of a key are
    /// processed in the order in which they arrive. That is the order of their stream only where a single task sends
    /// them all. For a result at the end only, see [`fold`](Self::fold); for any number of values from each,
    /// [`stateful_flat_map`](Self::stateful_flat_map); for a state without keys,
    /// [`Stream::stateful_map`](crate::Stream::stateful_map).
    ///
    /// Memory: one state per key, for as long as the job runs. The state is declared: the plan shows it. On a stream that ends,
    /// the records of keys for which there is no room are written to disk, and processed after the end; where the states keep
    /// growing, they are written to disk too. On a stream without an end, keys go to disk with their states, and return with
    /// their next records.
    ///
    /// # Errors
    ///
    /// A single key whose state is larger than a quarter of the memory budget may fail the job.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let visits = env.iter(["ann", "bob", "ann"]).map(str::to_owned);
    /// let numbered = visits.group_by(|name| name.clone()).stateful_map(0, |_, seen, name| {
    ///     *seen += 1;
    ///     format!("{name}, visit {seen}")
    /// });
    /// let out = numbered.collect::<std::collections::BTreeSet<_>>();
    /// env.run()?;
    /// let out: Vec<String> = out.take()?.into_iter().map(|(_, text)| text).collect();
    /// assert_eq!(out, ["ann, visit 1", "ann, visit 2", "bob, visit 1"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("rich_map", "mapWithState", "RichMapFunction"))]
    #[track_caller]
    pub fn stateful_map<S, O, F>(self, init: S, f: F) -> Mapped<C, G, P, S, F, O>
    where
        S: Data + Clone + Sync,
        O: 'static,
        F: for<'a, 'k> Fn(&'k G::Key, &mut S, <G::Value as Record>::Of<'a>) -> O
            + Send
            + Sync
            + 'static,
    {
        self.stateful_map_as(Origin::here("stateful_map"), init, f)
    }

    /// As [`stateful_map`](Self::stateful_map), under another name in plans and messages.
    pub(super) fn stateful_map_as<S, O, F>(
        self,
        origin: Origin,
        init: S,
        f: F,
    ) -> Mapped<C, G, P, S, F, O>
    where
        S: Data + Clone + Sync,
        O: 'static,
        F: for<'a, 'k> Fn(&'k G::Key, &mut S, <G::Value as Record>::Of<'a>) -> O
            + Send
            + Sync
            + 'static,
    {
        let KeyedStream { stream, keys, .. } = P::partitioned(self, origin);
        let bounded = stream.is_bounded();
        let step =
            StatefulMapStep { keys, init: Arc::new(init), f: Arc::new(f), output: PhantomData };
        let mapped = stream.then(origin, |prev, op| Remembering { prev, op, bounded, step });
        KeyedStream::new(mapped.with_state::<S>(Scope::key::<G::Key>()), FirstOf)
    }
}

/// The step that maps a value with the state of its key.
pub struct StatefulMapStep<G, S, F, O> {
    keys: G,
    init: Arc<S>,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<G: Clone, S, F, O> Clone for StatefulMapStep<G, S, F, O> {
    fn clone(&self) -> Self {
        let (init, f) = (Arc::clone(&self.init), Arc::clone(&self.f));
        Self { keys: self.keys.clone(), init, f, output: PhantomData }
    }
}

impl<I, G, S, F, O> Step<I> for StatefulMapStep<G, S, F, O>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    S: Data + Clone + Sync,
    O: 'static,
    F: for<'a, 'k> Fn(&'k G::Key, &mut S, <G::Value as Record>::Of<'a>) -> O
        + Send
        + Sync
        + 'static,
    <G::Key as Portable>::Owned: Borrow<G::Key>,
{
    type Key = G::Key;
    type State = S;
    type Out = (<G::Key as Portable>::Owned, O);

    fn hash(&self, item: &I::Of<'_>) -> u64 {
        self.keys.hash(item)
    }

    fn with_key<R>(
        &self,
        item: &I::Of<'_>,
        see: impl FnOnce(u64, <G::Key as Key>::Probe<'_>) -> R,
    ) -> R {
        see(self.keys.hash(item), self.keys.key(item).probe())
    }

    #[inline(always)]
    fn take<'a>(
        &self,
        table: &mut GroupTable<G::Key, S>,
        item: I::Of<'a>,
    ) -> Option<<Self::Out as Record>::Of<'a>> {
        let hash = self.keys.hash(&item);
        let key = self.keys.key(&item);
        let state = table.upsert(hash, key.probe(), key, || S::clone(&self.init));
        let (key, value) = self.keys.pair(item);
        let output = (self.f)(key.borrow(), state, value);
        Some((key, output))
    }

    #[inline(always)]
    fn take_endless<'a>(
        &self,
        keys: &mut EndlessKeys<G::Key, S>,
        item: I::Of<'a>,
    ) -> Option<<Self::Out as Record>::Of<'a>> {
        let hash = self.keys.hash(&item);
        let start = || Remembered(S::clone(&self.init));
        let mut visit = keys.visit(hash, self.keys.key(&item), start)?;
        let (key, value) = self.keys.pair(item);
        let output = (self.f)(key.borrow(), &mut visit.state().0, value);
        visit.leave(hash);
        Some((key, output))
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::{check, every};
    use crate::config::Config;
    use crate::operators::time::Watermarks;
    use crate::operators::window::EventTimeWindow;
    use crate::time::Timestamp;
    use std::time::Duration;

    /// The number of each record among those of its key.
    #[test]
    fn each_key_remembers_its_own_in_order() {
        let expected = (0..5000u64).map(|n| (n % 7, (n / 7, n)));
        check(|env| {
            env.iter(0..5000u64).group_by(|n| n % 7).stateful_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                (*seen - 1, n)
            })
        })
        .must_restore()
        .equals(expected);
    }

    #[test]
    fn keys_stay_where_they_are() {
        every(|env| {
            let sums = env
                .range(0..1000)
                .group_by(|n| n % 10)
                .stateful_map(0, |key, sum: &mut u64, n| {
                    *sum += n * key;
                    *sum
                })
                .max(|sum| *sum)
                .collect::<std::collections::BTreeMap<_, _>>();
            let exchanges =
                env.plan().operators.iter().filter(|op| op.kind == "repartition").count();
            env.run()?;
            assert_eq!(exchanges, 1);
            assert_eq!(sums.take()?[&3], (0..100).map(|n| (10 * n + 3) * 3).sum::<u64>());
            Ok(())
        });
    }

    /// What waits on disk is in its own window when it comes.
    #[test]
    fn records_beyond_memory_keep_their_time() -> crate::Result<()> {
        let config = Config { memory: 200_000, ..Config::default() };
        let env = Environment::with_config(config);
        let timed = env.range(0..40_000).assign_timestamps(
            |n| Timestamp::from_millis(n.cast_signed()),
            Watermarks::monotonous(),
        );
        let first = timed.group_by(|n| *n).stateful_map((), |_, (), n| n).unkey().map(|(_, n)| n);
        let windows = first.window_all(EventTimeWindow::tumbling(Duration::from_secs(10))).count();
        let out = windows.map(|window| window.value).collect::<Vec<_>>();
        let stats = env.start()?.wait()?;
        assert!(stats.operators.iter().any(|op| op.spilled_bytes > 0));
        assert_eq!(out.take()?, [10_000; 4], "{stats}");
        Ok(())
    }

    #[test]
    fn keys_beyond_memory_wait_on_disk() -> crate::Result<()> {
        let env = Environment::with_config(Config { memory: 200_000, ..Config::default() });
        let last = |_: &u64, last: &mut u64, n: u64| std::mem::replace(last, n);
        let n = 100_000;
        let out = env.range(0..2 * n).group_by(move |i| i % n).stateful_map(n, last);
        let out = out.collect::<Vec<_>>();
        env.run()?;
        let mut out = out.take()?;
        out.sort_unstable();
        let expected = (0..n).flat_map(|key| [(key, key), (key, n)]);
        assert!(out.into_iter().eq(expected));
        Ok(())
    }

    /// On a stream without an end, each record has its result at once, wherever its key is.
    #[test]
    fn keys_of_an_endless_stream_go_to_disk_and_come_back() -> crate::Result<()> {
        let one = std::num::NonZeroUsize::MIN;
        let config =
            Config { memory: 200_000, cores: one, keyed_tasks_per_core: one, ..Config::default() };
        let env = Environment::with_config(config);
        let n = 8_000;
        let endless = env.generate(f64::INFINITY, move |i| (i < 2 * n).then_some(i));
        let last = endless
            .group_by(move |i| i % n)
            .stateful_map(n, |_, last: &mut u64, i| (std::mem::replace(last, i), i));
        let out = last.unkey().to_channel();
        let job = env.start()?;
        let mut out = out.collect::<crate::Result<Vec<_>>>()?;
        let stats = job.wait()?;
        let spilled = stats.operators.iter().filter(|op| op.spilled_bytes > 0);
        assert!(spilled.map(|op| &*op.kind).eq(["stateful_map"]), "{stats}");
        out.sort_unstable();
        let expected = (0..n).flat_map(|key| [(key, (n, key)), (key, (key, n + key))]);
        let mut expected: Vec<_> = expected.collect();
        expected.sort_unstable();
        assert_eq!(out, expected);
        Ok(())
    }

    #[test]
    fn endless_streams_are_interrupted_and_go_on() {
        let n = 3000u64;
        let key = |n: u64| format!("{:01000}", n % 1000);
        check(|env| {
            let endless = env.generate(f64::INFINITY, move |i| (i < n).then_some(i));
            let seen =
                endless.group_by(move |i| key(*i)).stateful_map(0, |_, seen: &mut u64, _| {
                    *seen += 1;
                    *seen
                });
            // Pairs end with the shorter stream.
            seen.unkey().zip(env.iter(0..n)).map(|(seen, _)| seen)
        })
        .any_tasks()
        .memory(1 << 12)
        .must_restore()
        .seeds(4)
        .equals((0..n).map(move |i| (key(i), i / 1000 + 1)));
    }
}
