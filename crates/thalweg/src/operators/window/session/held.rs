//! Parts of sessions that wait for a watermark, to be merged in the order of their times.
//!
//! Parts come in the order in which their tasks have read records, and tasks that read pieces of one input in turn are apart in
//! time. Merged as they come, the parts of a key would lie in a list until those between them have come. In order, nearly every
//! part extends the latest session of its key, which lies in the slot of the key.
//!
//! A part may be merged at any time before the watermark that ends its session, so the order is rough, and where there are too
//! many parts, they do not wait. But all parts that are left begin at or after the time that [`next_before`](Held::next_before)
//! returns, and those that come later begin at or after the watermark, or are late. So a session that ends before both has all
//! its parts, and has its result before the next one of its key begins.

use super::local::Part;
use crate::data::{Batch, Data, Key};
use crate::exchange::{PartialBatch, PartialEntry};
use std::collections::VecDeque;
use std::mem;

/// The number of slices of time. Parts that are further ahead are in the last one.
const SLICES: usize = 128;
/// The slices before that of the first part, for tasks that are behind.
const BEHIND: i64 = 32;
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
    /// Whether the first slice has parts that begin before it.
    has_earlier: bool,
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
            has_earlier: false,
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
        self.has_earlier |= at >> self.shift < self.first;
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

    /// Chooses the slices, for parts that begin about then. A slice is no longer than half of a gap: of two parts of a key that
    /// begin in one, each extends the other, and most sessions end before the slice in which the next one of their key begins.
    #[inline(never)]
    fn begin(&mut self, at: i64) {
        self.shift = self.shortest.max(1).ilog2().saturating_sub(1);
        self.first = (at >> self.shift).saturating_sub(BEHIND);
        self.has_earlier = false;
    }

    /// The time at which the first slice starts.
    fn start(&self) -> i64 {
        match self.first < i64::MIN >> self.shift {
            true => i64::MIN,
            false => self.first << self.shift,
        }
    }

    /// Takes some of the parts out that begin before a time, and perhaps others, in the order of their times. Returns them with
    /// a time before which neither they begin nor any that are still held; `None` if there are no more before that time.
    pub(super) fn next_before(&mut self, time: i64) -> Option<(PartialBatch<K, Part<S>>, i64)> {
        self.close();
        while self.len > 0 {
            let is_last = time < i64::MAX && time.saturating_sub(1) >> self.shift <= self.first;
            let start = match mem::take(&mut self.has_earlier) {
                true => i64::MIN,
                false => self.start(),
            };
            let Slice { parts, .. } = mem::take(&mut self.slices[0]);
            // More may come that begin in the last one.
            if !is_last {
                self.slices.rotate_left(1);
                self.first = self.first.saturating_add(1);
            }
            if parts.count() > 0 {
                self.len -= parts.count();
                return Some((parts, start));
            }
            if is_last {
                break;
            }
        }
        None
    }

    /// Takes a batch back that is empty again, to be used for others.
    pub(super) fn reuse(&mut self, parts: PartialBatch<K, Part<S>>) {
        if self.spare.len() < SPARE {
            self.spare.push(parts);
        }
    }

    /// Keeps no memory for further parts.
    pub(super) fn shrink(&mut self) {
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

    /// The beginnings and numbers of the parts that are taken out, and the time before which none of the others begins.
    fn before(held: &mut Parts, time: i64) -> (Vec<(i64, u64)>, i64) {
        let (mut taken, mut reached) = (Vec::new(), i64::MIN);
        while let Some((mut parts, start)) = held.next_before(time) {
            reached = reached.max(start);
            parts.drain(|part| {
                assert!(part.state.0 >= reached, "{} after {reached}", part.state.0);
                taken.push((part.state.0, part.key));
            });
            held.reuse(parts);
        }
        (taken, reached)
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
                        let (taken, reached) = before(&mut held, time);
                        for (at, number) in taken {
                            let place = inside.iter().position(|one| (one.0, one.2) == (at, number));
                            prop_assert!(place.is_some(), "{number} came out twice");
                            inside.swap_remove(place.unwrap());
                        }
                        let first = time.max(reached);
                        prop_assert!(inside.iter().all(|one| one.0 >= first), "{first}: {inside:?}");
                    }
                }
                prop_assert_eq!(held.first_end(), inside.iter().map(|one| one.1).min());
                prop_assert_eq!(held.bytes() > 0, !inside.is_empty());
                prop_assert!(held.occupied() >= held.bytes());
            }
            let left = before(&mut held, i64::MAX).0.len();
            held.shrink();
            prop_assert_eq!((left, held.occupied()), (inside.len(), 0));
        }
    }

    #[test]
    fn what_keys_and_states_own_counts() {
        let mut held = Held::<String, String>::default();
        let text = || "x".repeat(1_000);
        held.push(PartialEntry { hash: 1, key: text(), arena: &(), state: (3, 5, text()) });
        assert!((2_000..3_000).contains(&held.bytes()), "{}", held.bytes());
        assert!(held.next_before(i64::MAX).is_some() && held.next_before(i64::MAX).is_none());
        assert_eq!((held.bytes(), held.occupied()), (0, 0));
    }

    #[test]
    fn parts_of_tasks_that_are_apart_come_out_in_order() {
        const GAP: i64 = 100;
        let mut held = Parts::default();
        let mut taken = Vec::new();
        // Two tasks, of which each reads every second piece of 1000.
        for round in 0..50 {
            for task in [1, 0] {
                let piece = (2 * round + task) * 1000;
                (0..1000).for_each(|at| push(&mut held, piece + at, piece + at + GAP, at as u64));
            }
            taken.extend(before(&mut held, 2 * round * 1000).0);
        }
        taken.extend(before(&mut held, i64::MAX).0);
        assert_eq!(taken.len(), 100_000);
        // Parts whose gaps are apart are in order.
        let mut latest = 0;
        for (at, _) in taken {
            assert!(at > latest - GAP, "{at} after {latest}");
            latest = latest.max(at);
        }
    }
}
