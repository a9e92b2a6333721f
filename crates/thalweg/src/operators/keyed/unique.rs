//! Removes duplicates: each distinct record is emitted once, when it first arrives.

use super::distinct::{Distinct, Whole};
use super::local_unique::Sieve;
use super::partition::{add_hash, by_hash};
use super::stateful::{EndlessKeys, Remembering, Step};
use crate::exchange::Hashed;
use crate::plan::{Origin, Scope};
use crate::state::GroupTable;
use crate::stream::{Chain, Stream};
use crate::support::keyed_timers::Remembered;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Removes duplicates: emits each distinct record once, when it first arrives.
    ///
    /// Equal records are sent to the same task, which keeps a copy of each distinct record. Duplicates of records that a task
    /// has seen recently are dropped before they are sent, where they are frequent enough. A new record is emitted at once, so
    /// this works for unbounded streams too. Their distinct records go to disk beyond the memory budget, and stay there as long
    /// as the job runs. On a stream that ends, records for which there is no room are written to disk, and emitted after the
    /// end, in no particular order. Which of several equal records from different tasks is emitted is not defined. To keep one
    /// record per key, group by the key and `reduce`.
    ///
    /// # Errors
    ///
    /// When the disk is full.
    ///
    /// ```
    /// use thalweg::{Environment, text};
    ///
    /// let env = Environment::new();
    /// let words = env
    ///     .iter(["to be or", "not to be"])
    ///     .flat_map_str(|line, out| out.push(line))
    ///     .flat_each(text::Words)
    ///     .unique();
    /// let out = words.sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["be", "not", "or", "to"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("distinct", "unique_assoc", "drop_duplicates"))]
    #[track_caller]
    pub fn unique(self) -> Stream<impl Chain<Item = C::Item, Time = C::Time>>
    where
        C::Item: Distinct,
    {
        let origin = Origin::here("unique");
        let bounded = self.is_bounded();
        let item = PhantomData::<fn(&C::Item)>;
        let hashed = add_hash(self, Whole, origin);
        let sieve = Origin { kind: "sieve", ..origin };
        let sieved = hashed.then(sieve, |prev, op| Sieve { prev, op, item });
        by_hash::<_, C::Item>(sieved, Origin { kind: "repartition", ..origin })
            .then(origin, |prev, op| Remembering { prev, op, bounded, step: First(item) })
            .with_state::<()>(Scope::key::<C::Item>())
    }
}

/// The step that emits records that are not in the table yet.
pub struct First<I: ?Sized>(PhantomData<fn(&I)>);

impl<I: ?Sized> Clone for First<I> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<I: Distinct + ?Sized> Step<Hashed<I>> for First<I> {
    type Key = I;
    type State = ();
    type Out = I;

    fn hash(&self, (hash, _): &(u64, I::Of<'_>)) -> u64 {
        *hash
    }

    fn with_key<R>(
        &self,
        (hash, item): &(u64, I::Of<'_>),
        see: impl FnOnce(u64, I::Probe<'_>) -> R,
    ) -> R {
        see(*hash, I::whole(item).probe())
    }

    #[inline(always)]
    fn take<'a>(
        &self,
        seen: &mut GroupTable<I, ()>,
        (hash, item): (u64, I::Of<'a>),
    ) -> Option<I::Of<'a>> {
        let mut new = false;
        let key = I::whole(&item);
        seen.upsert(hash, key.probe(), key, || new = true);
        new.then_some(item)
    }

    #[inline(always)]
    fn take_endless<'a>(
        &self,
        seen: &mut EndlessKeys<I, ()>,
        (hash, item): (u64, I::Of<'a>),
    ) -> Option<I::Of<'a>> {
        let mut new = false;
        let start = || {
            new = true;
            Remembered(())
        };
        seen.visit(hash, I::whole(&item), start)?.leave(hash);
        new.then_some(item)
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::every;
    use crate::config::Config;

    #[test]
    fn each_record_comes_once() {
        every(|env| {
            let numbers = env.range(0..20_000).map(|n| n % 777).unique().sorted();
            let numbers = numbers.collect::<Vec<_>>();
            let texts = env
                .range(0..5000)
                .flat_map_str(|n, out| out.push(&format!("{:0width$}", n % 50, width = 40)))
                .unique()
                .count()
                .collect_one();
            let endless = env.iter(0_u64..).map(|n| n / 3).unique().limit(5).count().collect_one();
            env.run()?;
            assert_eq!(numbers.take()?, (0..777).collect::<Vec<_>>());
            assert_eq!((texts.take()?.unwrap(), endless.take()?.unwrap()), (50, 5));
            Ok(())
        });
    }

    /// On a stream without an end, each new record is emitted at once, and the records seen so far are on disk.
    #[test]
    fn unbounded_input_beyond_memory_goes_to_disk() -> crate::Result<()> {
        let one = std::num::NonZeroUsize::MIN;
        let config =
            Config { memory: 200_000, cores: one, keyed_tasks_per_core: one, ..Config::default() };
        let env = Environment::with_config(config);
        // More than the sieve remembers.
        let n = 25_000;
        let endless = env.generate(f64::INFINITY, move |i| (i < 2 * n).then_some(i));
        let out = endless.map(move |i| i % n).unique().to_channel();
        let job = env.start()?;
        let mut out = out.collect::<crate::Result<Vec<_>>>()?;
        let stats = job.wait()?;
        let unique = stats.operators.iter().find(|op| op.kind == "unique");
        assert!(unique.is_some_and(|op| op.spilled_bytes > 0), "{stats}");
        out.sort_unstable();
        assert!(out.into_iter().eq(0..n));
        Ok(())
    }

    #[test]
    fn bounded_input_beyond_memory_waits_on_disk() -> crate::Result<()> {
        for cores in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let config = Config {
                memory: 200_000,
                cores: cores.try_into().unwrap(),
                spill_dir: folder.path().to_owned(),
                ..Config::default()
            };
            let env = Environment::with_config(config);
            let n = 100_000;
            let numbers = env.range(0..3 * n).map(move |i| i % n).unique().collect::<Vec<_>>();
            let texts = env
                .range(0..60_000)
                .flat_map_str(|n, out| {
                    out.push(&format!("a text that no slot holds: {}", n % 20_000))
                })
                .unique()
                .collect::<Vec<_>>();
            let stats = env.start()?.wait()?;
            let mut numbers = numbers.take()?;
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..n), "{cores} cores");
            let texts = texts.take()?;
            let set: std::collections::BTreeSet<_> = texts.iter().collect();
            assert_eq!((texts.len(), set.len()), (20_000, 20_000), "{cores} cores");
            let spilled = stats.operators.iter().filter(|op| op.kind == "unique");
            assert!(spilled.into_iter().all(|op| op.spilled_bytes > 0), "{cores} cores");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        Ok(())
    }
}
