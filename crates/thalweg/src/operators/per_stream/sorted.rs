//! The `sorted` operators: all records in order.

use super::absorb::{Absorb, AtBarrier, VALUE};
use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::{Data, Ordered, Portable};
use crate::error::Result;
use crate::exchange::{Edge, MergingInlet};
use crate::flow::{Event, Flow, Pipe, Push};
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::state::{Sorted, Sorter};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::cmp::Ordering;
use std::sync::Arc;

/// The owned form of a chain's records.
type Owned<C> = <<C as Chain>::Item as Portable>::Owned;

impl<C: Chain> Stream<C> {
    /// Emits all records in ascending order, in one task.
    ///
    /// Each task sorts its own records, in parallel with the others, and one task merges the sorted streams as
    /// they arrive. If the stream has one task, as after an iterator, [`shuffle`](Self::shuffle) first to sort
    /// on all cores. Equal records of one task keep their order. What does not fit into the memory budget is
    /// sorted on disk, at the price of writing and reading it. Borrowed records are emitted as owned ones
    /// (`str` as `String`). For only a few records, [`top`](Self::top) keeps no more than those. Floats have no
    /// total order: see [`sorted_by`](Self::sorted_by).
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start. A full disk stops the job.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 2]).shuffle().sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// Records without an order are refused by the compiler:
    ///
    /// ```compile_fail,E0277
    /// let env = thalweg::Environment::new();
    /// let out = env.iter([0.5, 1.5]).sorted().count().collect_one();
    /// ```
    #[doc(alias("sort", "order_by", "orderBy"))]
    #[track_caller]
    pub fn sorted(self) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable<Owned: Ordered>,
    {
        self.sorted_as(Origin::here("sorted"), Owned::<C>::cmp)
    }

    /// Emits all records in the order of the closure, in one task. See [`sorted`](Self::sorted).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).sorted_by(f64::total_cmp).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [0.5, 1.5, 2.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sorted_by<F>(self, compare: F) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        self.sorted_as(Origin::here("sorted_by"), compare)
    }

    /// Emits all records in ascending order of the key that the closure computes, in one task. See
    /// [`sorted`](Self::sorted).
    ///
    /// The closure is called for each comparison: make it cheap, or sort pairs.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let words = env.iter(["three", "one", "four"]).map(str::to_owned);
    /// let out = words.sorted_by_key(|word| word.len()).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["one", "four", "three"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sorted_by_key<K, F>(self, key: F) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        K: Ord,
        F: Fn(&Owned<C>) -> K + Send + Sync + 'static,
    {
        let compare = move |a: &Owned<C>, b: &Owned<C>| key(a).cmp(&key(b));
        self.sorted_as(Origin::here("sorted_by_key"), compare)
    }

    fn sorted_as<F>(self, origin: Origin, compare: F) -> Stream<Merged<Owned<C>, C::Time, F>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        let compare = Arc::new(compare);
        let local = Arc::clone(&compare);
        let why = "the least record could still come";
        let sorted = self
            .absorb(origin, Details::none(), why, move |cx, op| {
                let compare = Arc::clone(&local);
                let (memory, spill) = (cx.spillable(op), cx.spill.clone());
                Sorting::new(move || {
                    let compare = Arc::clone(&compare);
                    let compare = move |a: &Owned<C>, b: &Owned<C>| compare(a, b);
                    Sorter::new(compare, memory.another(), spill.clone())
                })
            })
            .with_state::<Vec<Owned<C>>>(Scope::Task);
        let sort = sorted.chain.op;
        let Stream { env, chain: Received { edges, op }, stage } = sorted.gather(origin);
        Stream { env, chain: Merged { edges, op, sort, compare }, stage }
    }
}

/// The first chain of a stage that merges the sorted records of its senders.
pub struct Merged<D: Data, T: Time, F> {
    edges: Vec<Edge<D, T>>,
    op: usize,
    /// The operator that sorts the records of each task.
    sort: usize,
    compare: Arc<F>,
}

impl<D, T, F> Chain for Merged<D, T, F>
where
    D: Data,
    T: Time,
    F: Fn(&D, &D) -> Ordering + Send + Sync + 'static,
{
    type Item = D;
    type Time = T;
    type Task<N: Push<D, T> + 'static> = MergingInlet<D, T, F, MergedPush<N>>;

    fn attach<N: Push<D, T> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let lanes = Edge::all_lanes_to(&self.edges, cx.task);
        // Once all records were emitted, those of the sorts are not needed.
        let saved = cx.state::<bool>(self.sort, "over", Redistribution::First).supersedes(VALUE);
        let mut over = false;
        saved.restore(|was_over| {
            over = was_over;
            Ok(())
        })?;
        let next = MergedPush { saved, over, next };
        Ok(MergingInlet::new(cx.op(self.op), lanes, Arc::clone(&self.compare), next))
    }
}

/// Remembers whether all records were emitted. The merge emits none before all sorts have ended, and no barrier passes it
/// after that: behind a checkpoint are either all records, or none, and then the sorts have all of them.
pub struct MergedPush<N> {
    saved: StateHandle,
    /// Whether all records were emitted before the checkpoint that the job began with: what the sorts emit is dropped.
    over: bool,
    next: N,
}

impl<N: Pipe> Pipe for MergedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.saved.save(event, |out| out.add(&(event == Event::End)));
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        self.next.resume()
    }

    fn is_full(&mut self) -> bool {
        self.next.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.over || self.next.is_closed()
    }
}

impl<D: Data, T: Time, N: Push<D, T>> Push<D, T> for MergedPush<N> {
    #[inline(always)]
    fn push(&mut self, item: D, time: T) {
        self.next.push(item, time);
    }
}

/// A sort, in a running task.
struct Sorting<T: Data, F> {
    begin: Box<dyn Fn() -> Sorter<T, F> + Send>,
    phase: Phase<T, F>,
    /// The bytes that were written to disk before the current round of a loop.
    spilled: u64,
}

/// A sort, before and after its input's end.
enum Phase<T: Data, F> {
    /// `None` after the end.
    Taking(Option<Sorter<T, F>>),
    Giving(Sorted<T, F>),
}

impl<T: Data, F> Sorting<T, F> {
    fn new(begin: impl Fn() -> Sorter<T, F> + Send + 'static) -> Self {
        Self { phase: Phase::Taking(Some(begin())), begin: Box::new(begin), spilled: 0 }
    }
}

impl<I, F> Absorb<I> for Sorting<I::Owned, F>
where
    I: Portable + ?Sized,
    F: Fn(&I::Owned, &I::Owned) -> Ordering + Send + 'static,
{
    type Out = I::Owned;
    type Saved = I::Owned;

    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>) -> Result<()> {
        match &mut self.phase {
            Phase::Taking(Some(sorter)) => sorter.push(I::to_owned(item)),
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        if let Phase::Taking(sorter) = &mut self.phase
            && let Some(sorter) = sorter.take()
        {
            self.phase = Phase::Giving(sorter.finish()?);
        }
        Ok(())
    }

    #[inline]
    fn give(&mut self) -> Result<Option<I::Owned>> {
        match &mut self.phase {
            Phase::Giving(sorted) => sorted.next(),
            Phase::Taking(_) => Ok(None),
        }
    }

    fn give_way(&mut self) -> Result<()> {
        match &mut self.phase {
            Phase::Taking(Some(sorter)) => sorter.give_way(),
            Phase::Taking(None) => Ok(()),
            Phase::Giving(sorted) => sorted.give_way(),
        }
    }

    fn spilled(&self) -> u64 {
        let now = match &self.phase {
            Phase::Taking(sorter) => sorter.as_ref().map_or(0, Sorter::spilled),
            Phase::Giving(sorted) => sorted.spilled(),
        };
        self.spilled + now
    }

    fn restart(&mut self) {
        self.spilled = Absorb::<I>::spilled(self);
        self.phase = Phase::Taking(Some((self.begin)()));
    }

    fn at_barrier(&self) -> AtBarrier {
        AtBarrier::SavedToTheEnd
    }

    fn save(&self, out: &mut Saving) {
        let Phase::Taking(Some(sorter)) = &self.phase else { return };
        let (runs, records) = sorter.parts();
        runs.iter().for_each(|run| out.add_share(run, &()));
        records.iter().for_each(|record| out.add(record));
    }

    fn restore(&mut self, state: &StateHandle) -> Result<()> {
        let Phase::Taking(Some(sorter)) = &mut self.phase else { return Ok(()) };
        state.restore_files(|file| {
            sorter.add_run(file.open(sorter.spill_dir())?);
            Ok(())
        })?;
        state.restore(|record| sorter.push(record))
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use crate::config::Config;
    use crate::{Environment, ErrorKind};

    #[test]
    fn every_order_is_kept() {
        every(|env| {
            let mixed = || env.range(0..20_000).map(|n| n.wrapping_mul(0x9e37_79b9) % 20_011);
            let up = mixed().sorted().collect::<Vec<_>>();
            let down = mixed().sorted_by(|a, b| b.cmp(a)).collect::<Vec<_>>();
            let text = env.iter(["b", "c", "", "a"]).flat_map_str(|line, out| out.push(line));
            let text = text.sorted_by_key(|word| (word.len(), word.clone())).collect::<Vec<_>>();
            env.run()?;
            let (up, mut down) = (up.take()?, down.take()?);
            assert!(up.is_sorted() && up.len() == 20_000);
            down.reverse();
            assert_eq!(up, down);
            assert_eq!(text.take()?, ["", "a", "b", "c"]);
            Ok(())
        });
    }

    #[test]
    fn a_sort_beyond_the_budget_uses_the_disk() -> crate::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let spill_dir = folder.path().to_owned();
        let config = Config { memory: 1 << 20, spill_dir, ..Config::default() };
        let env = Environment::with_config(config);
        let n = 400_000_u64;
        let out = env.range(0..n).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).sorted();
        let out = out.collect::<Vec<_>>();
        env.run()?;
        let mut expected: Vec<u64> =
            (0..n).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        expected.sort();
        assert_eq!(out.take()?, expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        Ok(())
    }

    #[test]
    fn many_senders_are_merged_in_order_and_equals_stay_in_theirs() {
        every(|env| {
            let pairs = || env.range(0..3000).shuffle().map(|n| (n % 7, n));
            let few = pairs().sorted_by_key(|pair| pair.0).collect::<Vec<_>>();
            // There are many tasks for keys, and most of them have no records.
            let keyed = pairs().group_by(|pair| pair.0 % 3).repartition();
            let keyed = keyed
                .map(|_, pair| pair)
                .unkey()
                .map(|(_, pair)| pair)
                .sorted()
                .collect::<Vec<_>>();
            let first = pairs().sorted_by(|a, b| b.cmp(a)).limit(3).collect::<Vec<_>>();
            let none = env.iter(0..0_u64).shuffle().sorted().count().collect_one();
            env.run()?;
            let few = few.take()?;
            assert!(few.is_sorted_by_key(|pair| pair.0) && few.len() == 3000);
            let mut expected: Vec<_> = (0..3000_u64).map(|n| (n % 7, n)).collect();
            expected.sort_unstable();
            assert_eq!(keyed.take()?, expected);
            expected.reverse();
            assert_eq!((first.take()?, none.take()?.unwrap()), (expected[..3].to_vec(), 0));
            Ok(())
        });
        // Records of one task, whatever exchanges they go through.
        let env = Environment::new();
        let out = env.iter((0..5000_u64).map(|n| (n % 3, n))).sorted_by_key(|pair| pair.0);
        let out = out.collect::<Vec<_>>();
        env.run().unwrap();
        assert!(out.take().unwrap().is_sorted());
    }

    #[test]
    fn tasks_sort_side_by_side() {
        let env = Environment::new();
        let _out = env.range(0..10).sorted().count().collect_one();
        let plan = env.plan();
        let sorted = plan.operators.iter().find(|op| op.kind == "sorted").unwrap();
        assert_eq!(plan.stages[sorted.stage].tasks, env.config().cores.get());
    }

    #[test]
    fn an_order_that_panics_is_named() {
        let env = Environment::new();
        let out = env.iter([2, 1]).sorted_by(|_, _| panic!("which?")).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert!(error.operator().unwrap_or_default().starts_with("sorted_by ("), "{error}");
        assert!(out.take().is_err());
    }
}
