//! What the one state of a task owns on the heap, in the memory budget: the result of a fold of all records, say. It cannot be
//! divided and does not go to disk, so a job whose state does not fit is stopped.
//!
//! Nothing is measured at each record: see [`HeapEstimate`]. For states that own nothing on the heap, all of it compiles to nothing.

use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::metrics::show;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;

/// The bytes that a state may own even if the budget is exhausted; they are not counted.
const ALWAYS: usize = 16 << 10;

/// The reservation of a state of type `S`.
pub(crate) struct OwnedHeap<S> {
    /// `None` if such states own nothing.
    memory: Option<Reservation>,
    weighed: HeapEstimate<S>,
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
        Self { memory, weighed: HeapEstimate::new(), wording, failed: false }
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
        match &self.memory {
            Some(_) if self.weighed.is_due(|| 1) => self.reserve(state),
            _ => Ok(()),
        }
    }

    #[cold]
    fn reserve(&mut self, state: Option<&S>) -> Result<()> {
        self.weighed.weigh(state.map(Data::heap_size).into_iter());
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let owned = self.weighed.bytes();
        let wanted = if owned <= ALWAYS { 0 } else { owned };
        if self.failed || memory.try_resize(wanted) {
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

    /// The state is gone.
    pub(crate) fn release(&mut self) {
        if let Some(memory) = &mut self.memory {
            self.weighed = HeapEstimate::new();
            // Shrinking succeeds.
            let _ = memory.try_resize(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;

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
