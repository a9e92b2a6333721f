//! What the one state of a task owns on the heap, in the memory budget: the result of a fold of all records, say. It cannot be
//! divided and does not go to disk, so a job whose state does not fit is stopped.
//!
//! Nothing is measured at each record: see [`HeapEstimate`]. For states that own nothing on the heap, nothing is done for a record.
//! What several tasks share by an `Arc` is divided among its holders.

use crate::data::{Data, divide_shared};
use crate::error::Result;
use crate::memory::Reservation;
use crate::metrics::show;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;

/// The bytes that a state may own even if the budget is exhausted; they are not counted.
const ALWAYS: usize = 16 << 10;

/// A change is measured after so many batches at the latest, as it may be a large one, and one more for each [`BYTES_A_BATCH`] that the
/// state owns.
const BATCHES: usize = 1024;
const BYTES_A_BATCH: usize = 16 << 10;

/// The reservation of a state of type `S`.
pub(crate) struct OwnedHeap<S> {
    /// `None` if such states own nothing.
    memory: Option<Reservation>,
    weighed: HeapEstimate<S>,
    /// Since the first change that is not measured yet.
    batches: usize,
    wording: Wording,
    failed: bool,
}

/// What the state is, and what would need less, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wording {
    pub(crate) state: &'static str,
    pub(crate) less: &'static str,
}

impl<S: Data> OwnedHeap<S> {
    /// That of a task of the operator with this number.
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize, wording: Wording) -> Self {
        Self::reserving(HeapEstimate::<S>::OWNS.then(|| cx.fixed(op)), wording)
    }

    fn reserving(memory: Option<Reservation>, wording: Wording) -> Self {
        Self { memory, weighed: HeapEstimate::new(), batches: 0, wording, failed: false }
    }

    /// Notes that the state has changed.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        self.weighed.changed();
    }

    /// As [`changed`](Self::changed), so many times.
    #[inline(always)]
    pub(crate) fn changed_times(&mut self, times: usize) {
        self.weighed.changed_times(times);
    }

    /// Between two batches: reserves what the state owns.
    ///
    /// # Errors
    ///
    /// If there is no memory for it, the first time that there is none.
    #[inline]
    pub(crate) fn fit(&mut self, state: Option<&S>) -> Result<()> {
        if self.memory.is_none() || !self.weighed.has_changed() {
            return Ok(());
        }
        self.batches += 1;
        let is_late = || self.batches > BATCHES + self.weighed.bytes() / BYTES_A_BATCH;
        match self.weighed.is_due(|| 1) || is_late() {
            true => self.reserve(state),
            false => Ok(()),
        }
    }

    #[cold]
    fn reserve(&mut self, state: Option<&S>) -> Result<()> {
        self.batches = 0;
        self.weighed.weigh(state.map(|state| divide_shared(|| state.heap_size())).into_iter());
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let owned = self.weighed.bytes();
        let wanted = if owned <= ALWAYS { 0 } else { owned };
        // Most often nothing changes, and all tasks share the counts of the pool.
        if self.failed || wanted == memory.bytes() || memory.try_resize(wanted) {
            return Ok(());
        }
        self.failed = true;
        let Wording { state, less } = self.wording;
        let message = format!(
            "{state} takes {} in one of its tasks, which the memory budget of {} bytes does not hold, and it does not go to disk; \
             {less}",
            show::bytes(owned as u64),
            memory.pool().limit(),
        );
        Err(memory.refused(message))
    }

    /// The state is a new one, as for the next round of a loop.
    pub(crate) fn restarted(&mut self) {
        self.release();
        self.changed();
    }

    /// The state is gone.
    pub(crate) fn release(&mut self) {
        if let Some(memory) = &mut self.memory {
            self.weighed = HeapEstimate::new();
            self.batches = 0;
            // Shrinking succeeds.
            let _ = memory.try_resize(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;
    use std::sync::Arc;

    const WORDING: Wording = Wording { state: "what it keeps", less: "fewer words need less" };

    #[test]
    fn a_state_is_reserved_as_it_grows_and_released_as_it_shrinks() {
        let pool = MemoryPool::new(1 << 20);
        let mut owned = OwnedHeap::<Vec<String>>::reserving(Some(pool.reserve()), WORDING);
        let mut words = Vec::new();
        for n in 0..500 {
            words.push("x".repeat(1000));
            owned.changed();
            owned.fit(Some(&words)).unwrap();
            let truth = words.heap_size();
            let least = if truth <= 2 * ALWAYS { 0 } else { truth / 2 };
            assert!((least..=2 * truth).contains(&pool.used()), "{} of {truth}, {n}", pool.used());
        }
        words.truncate(100);
        owned.changed_times(500);
        owned.fit(Some(&words)).unwrap();
        assert!((100_000..250_000).contains(&pool.used()), "{}", pool.used());
        owned.release();
        assert_eq!(pool.used(), 0);
        owned.fit(None).unwrap();
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_new_state_is_measured_as_the_first_one_was() {
        let pool = MemoryPool::new(1 << 20);
        let mut owned = OwnedHeap::<Vec<String>>::reserving(Some(pool.reserve()), WORDING);
        owned.changed_times(100_000);
        owned.fit(Some(&vec!["x".repeat(1000); 500])).unwrap();
        assert!(pool.used() > 500_000, "{}", pool.used());
        owned.restarted();
        assert_eq!(pool.used(), 0);
        // One change is enough again.
        owned.fit(Some(&vec!["x".repeat(1000); 100])).unwrap();
        assert!((100_000..200_000).contains(&pool.used()), "{}", pool.used());
    }

    #[test]
    fn a_large_change_is_seen_however_few_there_are() {
        let pool = MemoryPool::new(1 << 20);
        let mut owned = OwnedHeap::<String>::reserving(Some(pool.reserve()), WORDING);
        owned.changed_times(1 << 20);
        owned.fit(Some(&"x".repeat(20_000))).unwrap();
        let large = "x".repeat(900_000);
        owned.changed();
        for _ in 0..BATCHES {
            owned.fit(Some(&large)).unwrap();
        }
        assert!(pool.used() < 30_000, "{}", pool.used());
        for _ in 0..=20_000 / BYTES_A_BATCH {
            owned.fit(Some(&large)).unwrap();
        }
        assert_eq!(pool.used(), 900_000);
    }

    #[test]
    fn a_state_that_tasks_share_counts_once() {
        let pool = MemoryPool::new(1 << 20);
        let shared: Arc<str> = "x".repeat(900_000).into();
        let tasks = vec![(1_u64, Arc::clone(&shared)); 3];
        drop(shared);
        let mut owned = Vec::new();
        for state in &tasks {
            let mut of_task =
                OwnedHeap::<(u64, Arc<str>)>::reserving(Some(pool.reserve()), WORDING);
            of_task.changed();
            of_task.fit(Some(state)).unwrap();
            owned.push(of_task);
        }
        assert!((899_000..901_000).contains(&pool.used()), "{}", pool.used());
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused_once() {
        let pool = MemoryPool::new(100_000);
        let mut owned = OwnedHeap::<String>::reserving(Some(pool.reserve()), WORDING);
        let mut refused = Vec::new();
        for length in [10_000, 90_000, 200_000, 300_000] {
            owned.changed_times(1 << 20);
            refused.extend(owned.fit(Some(&"x".repeat(length))).err());
        }
        let messages: Vec<_> = refused.iter().map(|error| error.message().to_owned()).collect();
        let said = "what it keeps takes 195.3 KiB in one of its tasks, which the memory budget of 100000 bytes does not hold, and it \
                    does not go to disk; fewer words need less; `--memory` or `Config::memory` allows more";
        assert_eq!(messages, [said]);
        assert_eq!(pool.used(), 90_000);
    }
}
