//! The `top` and `bottom` operators: the greatest or least `n` records.

use super::absorb::{Absorb, AtBarrier};
use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, Ordered, Portable};
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::{Details, Origin, Scope};
use crate::stream::{Chain, Stream};
use std::cmp::Ordering;
use std::mem::needs_drop;
use std::sync::Arc;

/// The owned form of a chain's records.
type Owned<C> = <<C as Chain>::Item as Portable>::Owned;

impl<C: Chain> Stream<C> {
    /// Emits the `n` greatest records, the greatest first, in one task.
    ///
    /// Each task keeps its own greatest records, and one task the greatest of all, so that each holds no more
    /// than twice `n` records. Of equal records, any may be kept. For the least records see [`bottom`](Self::bottom),
    /// for another order [`top_by`](Self::top_by), and for the greatest of each key
    /// [`Aggregates::top_by_key`](crate::aggregates::Aggregates::top_by_key).
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start. If the memory budget does not hold so many
    /// records, the job stops; [`sorted`](Self::sorted) followed by [`limit`](Self::limit) uses the disk.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 4, 1, 5]).top(2).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [5, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("top_k", "nlargest"))]
    #[track_caller]
    pub fn top(self, n: usize) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable<Owned: Ordered>,
    {
        self.top_as(Origin::here("top"), n, Owned::<C>::cmp)
    }

    /// Emits the `n` greatest records by the closure's order, the greatest first. See [`top`](Self::top).
    ///
    /// For a result that is the same in every run, the order must leave no ties that matter:
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let counts = env.iter([("a", 2), ("b", 3), ("c", 3)]).map(|(word, n)| (word.to_owned(), n));
    /// let out = counts
    ///     .top_by(2, |a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [("b".to_owned(), 3), ("c".to_owned(), 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn top_by<F>(
        self,
        n: usize,
        compare: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        self.top_as(Origin::here("top_by"), n, compare)
    }

    /// Emits the `n` records with the greatest keys, as the closure computes them, the greatest first. See
    /// [`top`](Self::top).
    ///
    /// The key is computed for each comparison: where that is expensive, [`top_by`](Self::top_by) compares
    /// fields directly.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1), ('c', 4)]).top_by_key(2, |r| r.1).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [('c', 4), ('a', 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn top_by_key<K, F>(
        self,
        n: usize,
        key: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        K: Ordered,
        F: Fn(&Owned<C>) -> K + Send + Sync + 'static,
    {
        self.top_as(Origin::here("top_by_key"), n, move |a, b| key(a).cmp(&key(b)))
    }

    /// Emits the `n` least records, the least first, in one task. Otherwise like [`top`](Self::top).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 4, 1, 5]).bottom(3).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "nsmallest")]
    #[track_caller]
    pub fn bottom(self, n: usize) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable<Owned: Ordered>,
    {
        self.top_as(Origin::here("bottom"), n, |a, b| b.cmp(a))
    }

    /// Emits the `n` least records by the closure's order, the least first. See [`top_by`](Self::top_by).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([2.5_f64, 0.5, 1.5]).bottom_by(2, |a, b| a.total_cmp(b)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [0.5, 1.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn bottom_by<F>(
        self,
        n: usize,
        compare: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        self.top_as(Origin::here("bottom_by"), n, move |a, b| compare(b, a))
    }

    /// Emits the `n` records with the least keys, as the closure computes them, the least first. See
    /// [`top_by_key`](Self::top_by_key).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([('a', 3), ('b', 1), ('c', 4)]).bottom_by_key(2, |r| r.1).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [('b', 1), ('a', 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn bottom_by_key<K, F>(
        self,
        n: usize,
        key: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        K: Ordered,
        F: Fn(&Owned<C>) -> K + Send + Sync + 'static,
    {
        self.top_as(Origin::here("bottom_by_key"), n, move |a, b| key(b).cmp(&key(a)))
    }

    fn top_as<F>(
        self,
        origin: Origin,
        n: usize,
        compare: F,
    ) -> Stream<impl Chain<Item = Owned<C>, Time = C::Time>>
    where
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering + Send + Sync + 'static,
    {
        let why = "a greater record could still come";
        let local = Arc::new(compare);
        let global = Arc::clone(&local);
        let records = Details::of("records", n);
        self.absorb(origin, records.clone().with("phase", "local"), why, move |cx, op| {
            Top::new(n, &local, cx.fixed(op), AtBarrier::Given)
        })
        .with_state::<Vec<Owned<C>>>(Scope::Task)
        .gather(origin)
        .absorb(origin, records.with("phase", "global"), why, move |cx, op| {
            Top::new(n, &global, cx.fixed(op), AtBarrier::Saved)
        })
        .with_state::<Vec<Owned<C>>>(Scope::Task)
    }
}

/// The greatest `n` so far, and up to as many that have yet to be compared with them: they are cut back to `n`
/// when they have doubled, which costs a constant amount of work per record.
struct Top<T, F> {
    n: usize,
    compare: Arc<F>,
    records: Vec<T>,
    /// Whether the last of the first `n` records is the least of them, which new records are compared with.
    cut: bool,
    reservation: Reservation,
    at_barrier: AtBarrier,
}

impl<T: Data, F: Fn(&T, &T) -> Ordering> Top<T, F> {
    fn new(n: usize, compare: &Arc<F>, reservation: Reservation, at_barrier: AtBarrier) -> Self {
        let (compare, records) = (Arc::clone(compare), Vec::new());
        Self { n, compare, records, cut: false, reservation, at_barrier }
    }

    #[inline]
    fn add(&mut self, record: T) -> Result<()> {
        if self.n == 0 {
            return Ok(());
        }
        if self.cut && (self.compare)(&record, &self.records[self.n - 1]).is_le() {
            return Ok(());
        }
        if self.records.len() == self.records.capacity() {
            self.grow()?;
        }
        self.records.push(record);
        if self.records.len() >= self.n.saturating_mul(2) {
            self.cut();
            return self.account(self.records.capacity());
        }
        Ok(())
    }

    /// Drops all but the greatest `n`, and puts the least of those last.
    fn cut(&mut self) {
        let compare = &self.compare;
        self.records.select_nth_unstable_by(self.n - 1, |a, b| compare(b, a));
        self.records.truncate(self.n);
        self.cut = true;
    }

    #[cold]
    fn grow(&mut self) -> Result<()> {
        let more = self.records.len().clamp(16, 1 << 20).min(self.n.saturating_mul(2));
        self.account(self.records.len() + more)?;
        self.records.reserve_exact(more);
        Ok(())
    }

    /// Reserves memory for so many records, and for what the present ones own on the heap.
    fn account(&mut self, room: usize) -> Result<()> {
        let heap: usize = match needs_drop::<T>() {
            true => self.records.iter().map(T::heap_size).sum(),
            false => 0,
        };
        // As much heap again may be added before the next check.
        let bytes = room * size_of::<T>() + 2 * heap;
        if !self.reservation.try_resize(bytes) {
            let what = format!(
                "{} records need more than the memory budget of {} bytes; `sorted` and `limit` in \
                 place of it use the disk",
                self.n,
                self.reservation.pool().limit(),
            );
            return Err(self.reservation.refused(what));
        }
        Ok(())
    }
}

impl<I, F> Absorb<I> for Top<I::Owned, F>
where
    I: Portable + ?Sized,
    F: Fn(&I::Owned, &I::Owned) -> Ordering + Send + Sync + 'static,
{
    type Out = I::Owned;
    type Saved = I::Owned;

    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>) -> Result<()> {
        self.add(I::to_owned(item))
    }

    /// Sorts the records with the least first, as they are taken from the back.
    fn end(&mut self) -> Result<()> {
        if self.records.len() > self.n {
            self.cut();
        }
        let compare = &self.compare;
        self.records.sort_unstable_by(|a, b| compare(a, b));
        Ok(())
    }

    fn give(&mut self) -> Result<Option<I::Owned>> {
        Ok(self.records.pop())
    }

    fn restart(&mut self) {
        self.records.clear();
        self.cut = false;
    }

    fn at_barrier(&self) -> AtBarrier {
        self.at_barrier
    }

    fn save(&self, out: &mut Saving) {
        self.records.iter().for_each(|record| out.add(record));
    }

    fn restore(&mut self, state: &StateHandle) -> Result<()> {
        state.restore(|record| self.add(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::every;
    use crate::config::Config;
    use crate::memory::MemoryPool;
    use crate::{Environment, ErrorKind};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_greatest_are_those_that_sorting_puts_last(
            mut records in proptest::collection::vec(0..50_u8, 0..300), n in 0..20_usize,
        ) {
            let compare = Arc::new(|a: &u8, b: &u8| a.cmp(b));
            let mut top = Top::new(n, &compare, MemoryPool::new(1 << 20).reserve(), AtBarrier::Saved);
            for record in &records {
                Absorb::<u8>::take(&mut top, *record).unwrap();
                prop_assert!(top.records.len() <= 2 * n);
            }
            Absorb::<u8>::end(&mut top).unwrap();
            let mut got = Vec::new();
            while let Some(record) = Absorb::<u8>::give(&mut top).unwrap() {
                got.push(record);
            }
            records.sort_by(|a, b| b.cmp(a));
            records.truncate(n);
            prop_assert_eq!(got, records);
        }
    }

    #[test]
    fn tasks_agree_on_the_greatest() {
        every(|env| {
            let out = env.range(0..10_000).top(500).collect::<Vec<_>>();
            let none = env.range(0..100).top(0).count().collect_one();
            let least = env.range(0..100).top_by(3, |a, b| b.cmp(a)).collect::<Vec<_>>();
            let by_key = env.range(0..100).top_by_key(2, |n| n % 90).collect::<Vec<_>>();
            env.run()?;
            assert_eq!(out.take()?, (9500..10_000).rev().collect::<Vec<_>>());
            assert_eq!((none.take()?.unwrap(), least.take()?), (0, vec![0, 1, 2]));
            assert_eq!(by_key.take()?, [89, 88]);
            Ok(())
        });
    }

    #[test]
    fn more_than_memory_holds_is_refused_by_name() {
        let env = Environment::with_config(Config { memory: 10_000, ..Config::default() });
        let _out = env.range(0..100_000).top(50_000).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.operator().unwrap_or_default().starts_with("top ("), "{error}");
    }
}
