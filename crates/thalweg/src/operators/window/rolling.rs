//! Rolling aggregates: the aggregate of the latest slices of one key, as slices enter and leave.
//!
//! If the aggregate has an inverse, slices that leave are subtracted. Otherwise there are two stacks. The front
//! stack holds, for each of its slices, the aggregate of that slice and all later ones in the stack. The back
//! stack holds the slices that have entered since, and their aggregate. When the front is empty, the back is
//! moved to it. Either way a slice costs an amortised constant number of combinations.

use super::frames::SliceId;
use crate::data::Data;
use std::mem::needs_drop;

/// The state of one key in the slices of the next window.
#[derive(Data)]
pub(super) enum Rolling<S> {
    /// The sum, and the number of slices in it.
    Sum(Option<S>, u32),
    Stacks(Stacks<S>),
}

impl<S: Clone> Rolling<S> {
    /// Creates an empty aggregate.
    pub(super) fn new(invertible: bool) -> Self {
        if invertible { Self::Sum(None, 0) } else { Self::Stacks(Stacks::new()) }
    }

    /// Whether no slice is left.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Sum(_, slices) => *slices == 0,
            Self::Stacks(stacks) => stacks.front.is_empty() && stacks.back.is_empty(),
        }
    }

    /// The number of states held, including aggregates of several slices.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Sum(sum, _) => usize::from(sum.is_some()),
            Self::Stacks(stacks) => stacks.front.len() + stacks.back.len(),
        }
    }

    /// The bytes on the heap: the stacks, and what states own.
    pub(super) fn heap(&self) -> usize
    where
        S: Data,
    {
        if !needs_drop::<S>() {
            return self.bytes();
        }
        let states: usize = match self {
            Self::Sum(sum, _) => sum.as_ref().map_or(0, S::heap_size),
            Self::Stacks(Stacks { front, back, sum }) => {
                let slices = front.iter().chain(back).map(|(_, state)| state);
                slices.chain(sum).map(S::heap_size).sum()
            }
        };
        self.bytes() + states
    }

    /// The bytes of the stacks, without what states own on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Sum(..) => 0,
            Self::Stacks(stacks) => {
                (stacks.front.capacity() + stacks.back.capacity()) * size_of::<(SliceId, S)>()
            }
        }
    }

    /// Adds the state of a slice.
    pub(super) fn add(&mut self, slice: SliceId, state: S, combine: &impl Fn(&mut S, S)) {
        match self {
            Self::Sum(sum, slices) => {
                *slices += 1;
                match sum {
                    Some(sum) => combine(sum, state),
                    None => *sum = Some(state),
                }
            }
            Self::Stacks(stacks) => stacks.add(slice, state, combine),
        }
    }

    /// Subtracts a slice that was added, if there is an inverse.
    pub(super) fn subtract(&mut self, subtract: impl FnOnce(&mut S)) {
        let Self::Sum(sum, slices) = self else { return };
        *slices -= 1;
        match sum {
            Some(sum) if *slices > 0 => subtract(sum),
            // The remainder of a subtraction may not be exactly zero, so it is dropped.
            _ => *sum = None,
        }
    }

    /// Passes the slices on of which it consists, if they can be told apart: each with its state, or the state of it and some
    /// later ones, which counts where the slice before it does not.
    pub(super) fn into_slices(self, mut each: impl FnMut(SliceId, Option<SliceId>, S)) {
        let Self::Stacks(Stacks { front, back, .. }) = self else { return };
        let mut before = None;
        // The earliest is the last, and counts for windows that begin with it or before.
        for (slice, state) in front.into_iter().rev() {
            each(slice, before.replace(slice), state);
        }
        back.into_iter().for_each(|(slice, state)| each(slice, None, state));
    }

    /// The aggregate of the slices from `first` on; `None` if there are none.
    pub(super) fn total(&mut self, first: SliceId, combine: &impl Fn(&mut S, S)) -> Option<S> {
        match self {
            Self::Sum(sum, _) => sum.clone(),
            Self::Stacks(stacks) => {
                stacks.forget_before(first, combine);
                stacks.total(combine)
            }
        }
    }
}

#[derive(Data)]
pub(super) struct Stacks<S> {
    /// Each slice with the aggregate of it and all later ones in the front; the earliest is last.
    front: Vec<(SliceId, S)>,
    back: Vec<(SliceId, S)>,
    /// The aggregate of the back.
    sum: Option<S>,
}

impl<S: Clone> Stacks<S> {
    pub(super) fn new() -> Self {
        Self { front: Vec::new(), back: Vec::new(), sum: None }
    }

    /// Adds the state of a slice. If the slice is there already, or before the last one, the cost is
    /// proportional to the number of slices.
    pub(super) fn add(&mut self, slice: SliceId, state: S, combine: &impl Fn(&mut S, S)) {
        if self.back.last().or(self.front.first()).is_none_or(|(last, _)| *last < slice) {
            match &mut self.sum {
                Some(sum) => combine(sum, state.clone()),
                None => self.sum = Some(state.clone()),
            }
            self.back.push((slice, state));
            return;
        }
        self.add_before(slice, state, combine);
    }

    #[cold]
    fn add_before(&mut self, slice: SliceId, state: S, combine: &impl Fn(&mut S, S)) {
        if self.front.first().is_some_and(|(last, _)| slice <= *last) {
            // The front is sorted from its latest slice to its earliest.
            let at = self.front.partition_point(|(other, _)| *other > slice);
            if self.front.get(at).is_none_or(|(other, _)| *other != slice) {
                // The aggregate of the later slices; the slice's own state is added below.
                let behind = self.front[at - 1].1.clone();
                let mut with = state.clone();
                combine(&mut with, behind);
                self.front.insert(at, (slice, with));
                self.front[at + 1..].iter_mut().for_each(|(_, sum)| combine(sum, state.clone()));
            } else {
                self.front[at..].iter_mut().for_each(|(_, sum)| combine(sum, state.clone()));
            }
            return;
        }
        if let Some(sum) = &mut self.sum {
            combine(sum, state.clone());
        }
        let at = self.back.partition_point(|(other, _)| *other < slice);
        match self.back.get_mut(at) {
            Some((other, there)) if *other == slice => combine(there, state),
            _ => self.back.insert(at, (slice, state)),
        }
    }

    /// Drops the slices before `first`.
    pub(super) fn forget_before(&mut self, first: SliceId, combine: &impl Fn(&mut S, S)) {
        while self.front.last().is_some_and(|(slice, _)| *slice < first) {
            self.front.pop();
        }
        if !self.front.is_empty() || self.back.first().is_none_or(|(slice, _)| *slice >= first) {
            return;
        }
        self.sum = None;
        while let Some((slice, mut state)) = self.back.pop() {
            if slice < first {
                break;
            }
            if let Some((_, behind)) = self.front.last() {
                combine(&mut state, behind.clone());
            }
            self.front.push((slice, state));
        }
        self.back.clear();
    }

    /// The aggregate of all slices; `None` if there are none.
    pub(super) fn total(&self, combine: &impl Fn(&mut S, S)) -> Option<S> {
        match (self.front.last(), &self.sum) {
            (Some((_, front)), Some(back)) => {
                let mut total = front.clone();
                combine(&mut total, back.clone());
                Some(total)
            }
            (Some((_, front)), None) => Some(front.clone()),
            (None, sum) => sum.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the stacks with the slices themselves. The aggregate collects the numbers that were added, so that
        /// missing and repeated ones are detected.
        #[test]
        fn the_stacks_hold_what_the_slices_hold(
            steps in prop::collection::vec((0..12i64, any::<bool>()), 1..60)
        ) {
            let combine = |into: &mut Vec<usize>, from: Vec<usize>| into.extend(from);
            let mut stacks = Stacks::new();
            let mut slices: Vec<(i64, usize)> = Vec::new();
            let mut first = 0;
            for (number, (by, forget)) in steps.into_iter().enumerate() {
                if forget {
                    first += by / 3;
                    slices.retain(|(slice, _)| *slice >= first);
                    stacks.forget_before(first, &combine);
                } else {
                    let slice = first + by;
                    slices.push((slice, number));
                    stacks.add(slice, vec![number], &combine);
                }
                let mut found = stacks.total(&combine).unwrap_or_default();
                found.sort_unstable();
                let mut expected: Vec<usize> = slices.iter().map(|(_, number)| *number).collect();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(stacks.total(&combine).is_none(), slices.is_empty());
            }
        }
    }
}
