//! What the states of a table own on the heap, without asking each of them at each change.
//!
//! `heap_size` takes time in proportion to a state's parts (a list of texts, say), which is too much at each
//! change. So all states are measured together from time to time: when the number of changes has grown by a
//! quarter, or when there were as many changes as measuring costs. In between, the states are assumed to grow at
//! their average rate so far, to at most one and a half times their last measured size. The error is what a quarter
//! of the changes adds beyond that average, and what one batch adds.
//!
//! For states that own nothing on the heap all of it compiles to nothing.

use crate::data::Data;
use std::marker::PhantomData;
use std::mem::needs_drop;

/// Bytes of a state that take about as long to measure as one change of a state.
const BYTES_A_CHANGE: usize = 64;

/// What many states of type `S` own on the heap.
#[derive(Debug)]
pub struct Weighed<S> {
    /// At the last measurement.
    bytes: usize,
    /// Changes until then, and since.
    before: usize,
    since: usize,
    states: PhantomData<fn(S)>,
}

impl<S> Weighed<S> {
    /// Whether there is anything to weigh.
    const OWNS: bool = needs_drop::<S>();

    /// No states.
    pub(crate) fn new() -> Self {
        Self { bytes: 0, before: 0, since: 0, states: PhantomData }
    }

    /// A state was changed or has come.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        if Self::OWNS {
            self.since += 1;
        }
    }

    /// The bytes that all states own, as far as is known.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        if !Self::OWNS || self.before == 0 {
            return self.bytes;
        }
        let more = self.bytes as u128 * self.since as u128 / self.before as u128;
        self.bytes + usize::try_from(more).unwrap_or(usize::MAX).min(self.bytes / 2)
    }

    /// Whether the states, so many, should be [weighed](Self::weigh) again. For between two batches; they are
    /// counted only where that is of consequence.
    #[inline(always)]
    pub(crate) fn is_due(&self, count: impl FnOnce() -> usize) -> bool {
        let asking = self.bytes / BYTES_A_CHANGE;
        Self::OWNS
            && self.since > 0
            && (self.since >= self.before / 4
                || self.since >= asking && self.since - asking >= count())
    }

    /// Records what all states own.
    #[cold]
    pub(crate) fn weigh(&mut self, states: impl Iterator<Item = usize>) {
        if !Self::OWNS {
            return;
        }
        self.bytes = states.sum();
        self.before = self.before.saturating_add(std::mem::take(&mut self.since));
    }

    /// A state comes that owns something already.
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

    /// This state leaves.
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
    fn what_grows_is_known_within_a_quarter_and_asked_seldom() {
        let mut lists = vec![Vec::<String>::new(); 10];
        let mut weighed = Weighed::new();
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
    fn what_owns_nothing_is_not_weighed() {
        let mut weighed = Weighed::<(u64, f64)>::new();
        weighed.changed();
        assert!(!weighed.is_due(|| 1));
        assert_eq!(weighed.bytes(), 0);
    }
}
