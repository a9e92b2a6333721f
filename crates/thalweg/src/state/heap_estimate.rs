//! An estimate of what the states of a table own on the heap, without measuring each of them at each change.
//!
//! `heap_size` takes time in proportion to the size of a state (a list of texts, say), which is too much at each
//! change. So all states are measured together from time to time: when the number of changes has grown by a quarter,
//! or when there were many more changes than measuring costs. In between, the states are assumed to grow at their average
//! rate so far, to at most one and a half times their last measured size. The error is at most what a quarter of the
//! changes adds beyond that average, and what one batch adds.
//!
//! For states that own nothing on the heap, all of it compiles to nothing.

use crate::data::Data;
use std::marker::PhantomData;
use std::mem::needs_drop;

/// The bytes of a state that take about as long to measure as one change of a state.
const BYTES_A_CHANGE: usize = 64;
/// The changes before all states are measured again, for each of them: measuring is then a small part of the work even
/// where the states lie in memory that is in no cache.
const CHANGES_A_STATE: usize = 4;

/// An estimate of the bytes that all states of type `S` in a table own on the heap.
#[derive(Debug)]
pub struct HeapEstimate<S> {
    /// As of the last measurement.
    bytes: usize,
    /// Changes before the last measurement, and since.
    before: usize,
    since: usize,
    states: PhantomData<fn(S)>,
}

impl<S> HeapEstimate<S> {
    /// Whether states can own anything on the heap.
    pub(crate) const OWNS: bool = needs_drop::<S>();

    /// The estimate for a table without states.
    pub(crate) fn new() -> Self {
        Self { bytes: 0, before: 0, since: 0, states: PhantomData }
    }

    /// Counts a change of a state, or a new one.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        if Self::OWNS {
            self.since += 1;
        }
    }

    /// As [`changed`](Self::changed), so many times.
    #[inline(always)]
    pub(crate) fn changed_times(&mut self, times: usize) {
        if Self::OWNS {
            self.since += times;
        }
    }

    /// Whether states have changed since the last measurement.
    #[inline(always)]
    pub(crate) fn has_changed(&self) -> bool {
        Self::OWNS && self.since > 0
    }

    /// The estimated bytes of all states.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        if !Self::OWNS || self.before == 0 {
            return self.bytes;
        }
        let more = self.bytes as u128 * self.since as u128 / self.before as u128;
        self.bytes + usize::try_from(more).unwrap_or(usize::MAX).min(self.bytes / 2)
    }

    /// Whether the states should be [measured](Self::weigh) again. To be called between two batches; `count`, the
    /// number of states, is called only if it matters.
    #[inline(always)]
    pub(crate) fn is_due(&self, count: impl FnOnce() -> usize) -> bool {
        let asking = self.bytes / BYTES_A_CHANGE;
        Self::OWNS
            && self.since > 0
            && (self.since >= self.before / 4
                || self.since >= asking && self.since - asking >= CHANGES_A_STATE * count())
    }

    /// Records a measurement of all states.
    #[cold]
    pub(crate) fn weigh(&mut self, states: impl Iterator<Item = usize>) {
        if !Self::OWNS {
            return;
        }
        self.bytes = states.sum();
        self.before = self.before.saturating_add(std::mem::take(&mut self.since));
    }

    /// Adds a state that may own something already.
    #[inline(always)]
    pub(crate) fn comes(&mut self, state: &S)
    where
        S: Data,
    {
        if Self::OWNS {
            self.bytes += state.heap_size();
            self.since += 1;
        }
    }

    /// Removes a state.
    #[inline(always)]
    pub(crate) fn leaves(&mut self, state: &S)
    where
        S: Data,
    {
        if Self::OWNS {
            self.bytes = self.bytes.saturating_sub(state.heap_size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_estimated_within_a_quarter_and_measured_seldom() {
        let mut lists = vec![Vec::<String>::new(); 10];
        let mut weighed = HeapEstimate::new();
        let mut asked = 0;
        for n in 0..100_000 {
            lists[n % 10].push("x".repeat(n % 50));
            weighed.changed();
            if n % 100 == 99 {
                let count = lists.len();
                if weighed.is_due(|| count) {
                    weighed.weigh(lists.iter().map(Data::heap_size));
                    asked += 1;
                }
                let (known, truth) =
                    (weighed.bytes(), lists.iter().map(Data::heap_size).sum::<usize>());
                assert!(known >= truth / 2 && known <= 2 * truth, "{known} for {truth}");
            }
        }
        assert!(asked < 80, "{asked}");
        for list in &lists {
            weighed.leaves(list);
        }
        assert!(weighed.bytes() < 1 << 20);
    }

    #[test]
    fn states_without_heap_are_not_measured() {
        let mut weighed = HeapEstimate::<(u64, f64)>::new();
        weighed.changed();
        assert!(!weighed.is_due(|| 1));
        assert_eq!(weighed.bytes(), 0);
    }
}
