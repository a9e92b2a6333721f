//! Parts of sessions that wait for a watermark, to be merged in the order of their times.
//!
//! Parts come in the order in which their tasks have read records, and tasks that read pieces of one input in turn are apart in
//! time. Merged as they come, the parts of a key would lie in a list until those between them have come. In order, nearly every
//! part extends the latest session of its key, which lies in the slot of the key.
//!
//! No result depends on the order: a part may be merged at any time before the watermark that ends its session. So the order is
//! rough, and where there are too many parts, they do not wait.

use super::local::Part;
use crate::data::{Batch, Data, Key};
use crate::exchange::{PartialBatch, PartialEntry};
use std::collections::VecDeque;
use std::mem;

/// The number of slices of time. Parts that are further ahead are in the last one.
const SLICES: usize = 64;
/// The slices before that of the first part, for tasks that are behind.
const BEHIND: i64 = 16;
/// The empty batches that are kept.
const SPARE: usize = 16;

/// The parts that a task holds, in slices of time.
pub(super) struct Held<K: Key + ?Sized, S> {
    slices: VecDeque<Slice<K, S>>,
    /// The slice to which the last part was added, while it is not among the others, and its times: the first, and how many
    /// there are.
    open: Slice<K, S>,
    times: (i64, u64),
    /// The number of the first slice, counted from time zero.
    first: i64,
    /// A slice has `1 << shift` microseconds.
    shift: u32,
    /// The shortest time that a part had, from its first record to its end.
    shortest: i64,
    len: usize,
    /// Empty batches. The one that was used last is used next, as it is in the nearest cache.
    spare: Vec<PartialBatch<K, Part<S>>>,
}

/// The parts that begin in a slice of time.
struct Slice<K: Key + ?Sized, S> {
    parts: PartialBatch<K, Part<S>>,
    /// The bytes that keys and states own.
    heap: usize,
}

impl<K: Key + ?Sized, S> Default for Slice<K, S> {
    fn default() -> Self {
        Self { parts: PartialBatch::default(), heap: 0 }
    }
}

impl<K: Key + ?Sized, S> Default for Held<K, S> {
    fn default() -> Self {
        let slices = (0..SLICES).map(|_| Slice::default()).collect();
        let (open, times) = (Slice::default(), (0, 0));
        Self {
            slices,
            open,
            times,
            first: 0,
            shift: 0,
            shortest: i64::MAX,
            len: 0,
            spare: Vec::new(),
        }
    }
}

impl<K: Key + ?Sized, S: Data> Held<K, S> {
    /// The bytes of all parts.
    pub(super) fn bytes(&self) -> usize {
        match self.len {
            0 => 0,
            _ => self.all().map(|slice| slice.parts.footprint() + slice.heap).sum(),
        }
    }

    /// The bytes that are occupied, with room for further parts.
    pub(super) fn occupied(&self) -> usize {
        let slices = self.all().map(|slice| slice.parts.occupied() + slice.heap);
        slices.chain(self.spare.iter().map(PartialBatch::occupied)).sum()
    }

    /// The end of the part that ends first.
    pub(super) fn first_end(&self) -> Option<i64> {
        let parts = self.all().flat_map(|slice| slice.parts.states());
        parts.map(|(_, until, _)| *until).min()
    }

    fn all(&self) -> impl Iterator<Item = &Slice<K, S>> {
        self.slices.iter().chain([&self.open])
    }

    /// Holds a part.
    #[inline(always)]
    pub(super) fn push(&mut self, part: PartialEntry<'_, K, Part<S>>) {
        let (at, until, _) = part.state;
        self.shortest = self.shortest.min(until.saturating_sub(at));
        let (from, count) = self.times;
        if at.wrapping_sub(from) as u64 >= count {
            self.open(at);
        }
        let Slice { parts, heap } = &mut self.open;
        *heap += K::slot_heap(&part.key);
        parts.push(part);
        *heap += parts.last_heap();
        self.len += 1;
    }

    /// Takes the slice of a time from among the others.
    #[inline(never)]
    fn open(&mut self, at: i64) {
        self.close();
        if self.len == 0 {
            self.begin(at);
        }
        let number = self.number(at);
        self.open = mem::take(&mut self.slices[number]);
        // The first slice and the last have other times, too.
        let first = at >> self.shift << self.shift;
        self.times = (first, 1 << self.shift);
        if self.open.parts.count() == 0
            && let Some(spare) = self.spare.pop()
        {
            self.open.parts = spare;
        }
    }

    /// Puts the open slice back.
    fn close(&mut self) {
        let (from, count) = mem::take(&mut self.times);
        if count > 0 {
            let number = self.number(from);
            self.slices[number] = mem::take(&mut self.open);
        }
    }

    /// The number of the slice in which a time is.
    fn number(&self, at: i64) -> usize {
        (at >> self.shift).saturating_sub(self.first).clamp(0, SLICES as i64 - 1) as usize
    }

    /// Chooses the slices, for parts that begin about then. A slice is no longer than a gap: of two parts of a key that begin
    /// in one, each extends the other.
    #[inline(never)]
    fn begin(&mut self, at: i64) {
        self.shift = self.shortest.max(1).ilog2();
        self.first = (at >> self.shift).saturating_sub(BEHIND);
    }

    /// Takes the parts out that begin before a time, and perhaps others: passes them to `merge` in batches, in the order of
    /// their times.
    pub(super) fn take_before(
        &mut self,
        time: i64,
        mut merge: impl FnMut(&mut PartialBatch<K, Part<S>>),
    ) {
        self.close();
        // The first slice has parts, too, that begin before it.
        let before = (time.saturating_sub(1) >> self.shift).saturating_sub(self.first);
        let slices = match time {
            i64::MAX => SLICES as i64,
            _ => before.saturating_add(1).clamp(1, SLICES as i64),
        };
        for number in 1..=slices {
            if self.len == 0 {
                return;
            }
            let mut parts = mem::take(&mut self.slices[0]).parts;
            if parts.count() > 0 {
                self.len -= parts.count();
                merge(&mut parts);
                if self.spare.len() < SPARE {
                    self.spare.push(parts);
                }
            }
            // More may come that begin in the last one.
            if number < slices {
                self.slices.rotate_left(1);
                self.first = self.first.saturating_add(1);
            }
        }
    }

    /// Takes all parts out, in the same way, and keeps no memory.
    pub(super) fn take_all(&mut self, merge: impl FnMut(&mut PartialBatch<K, Part<S>>)) {
        self.take_before(i64::MAX, merge);
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Parts = Held<u64, u64>;

    fn push(held: &mut Parts, at: i64, until: i64, number: u64) {
        let hash = number.key_hash();
        held.push(PartialEntry { hash, key: number, arena: &(), state: (at, until, number) });
    }

    /// The beginnings and numbers of the parts that are taken out.
    fn before(held: &mut Parts, time: i64) -> Vec<(i64, u64)> {
        let mut taken = Vec::new();
        held.take_before(time, |parts| parts.drain(|part| taken.push((part.state.0, part.key))));
        taken
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(i64, i64),
        Take(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let time = || prop_oneof![6 => 0..2_000i64, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
        let gap = prop_oneof![6 => 0..50i64, 1 => 0..=i64::MAX];
        let step = prop_oneof![
            8 => (time(), gap).prop_map(|(at, gap)| Step::Push(at, at.saturating_add(gap))),
            1 => time().prop_map(Step::Take),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn each_part_comes_out_once_and_before_its_time(steps in steps()) {
            let (mut held, mut inside) = (Parts::default(), Vec::new());
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Push(at, until) => {
                        push(&mut held, at, until, number);
                        inside.push((at, until, number));
                    }
                    Step::Take(time) => {
                        for (at, number) in before(&mut held, time) {
                            let place = inside.iter().position(|one| (one.0, one.2) == (at, number));
                            prop_assert!(place.is_some(), "{number} came out twice");
                            inside.swap_remove(place.unwrap());
                        }
                        prop_assert!(inside.iter().all(|one| one.0 >= time), "{time}: {inside:?}");
                    }
                }
                prop_assert_eq!(held.first_end(), inside.iter().map(|one| one.1).min());
                prop_assert_eq!(held.bytes() > 0, !inside.is_empty());
                prop_assert!(held.occupied() >= held.bytes());
            }
            let mut left = 0;
            held.take_all(|parts| left += parts.count());
            prop_assert_eq!((left, held.bytes(), held.spare.len()), (inside.len(), 0, 0));
        }
    }

    #[test]
    fn what_keys_and_states_own_counts() {
        let mut held = Held::<String, String>::default();
        let text = || "x".repeat(1_000);
        held.push(PartialEntry { hash: 1, key: text(), arena: &(), state: (3, 5, text()) });
        assert!((2_000..3_000).contains(&held.bytes()), "{}", held.bytes());
        held.take_all(|parts| parts.clear());
        assert_eq!((held.bytes(), held.occupied()), (0, 0));
    }

    #[test]
    fn parts_of_tasks_that_are_apart_come_out_in_order() {
        const GAP: i64 = 100;
        let mut held = Parts::default();
        let mut taken = Vec::new();
        // Two tasks, of which each reads every second piece of 1000.
        for round in 0..50 {
            for task in 0..2 {
                let piece = (2 * round + task) * 1000;
                (0..1000).for_each(|at| push(&mut held, piece + at, piece + at + GAP, at as u64));
            }
            taken.extend(before(&mut held, 2 * round * 1000));
        }
        taken.extend(before(&mut held, i64::MAX));
        assert_eq!(taken.len(), 100_000);
        // Parts whose gaps are apart are in order.
        let mut latest = 0;
        for (at, _) in taken {
            assert!(at > latest - GAP, "{at} after {latest}");
            latest = latest.max(at);
        }
    }
}
