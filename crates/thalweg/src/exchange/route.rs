//! Which of the next stage's tasks a record goes to.

use super::record_batch::{Hashed, Partial, PartialEntry};
use crate::data::{Key, Record, splitmix64};

/// Chooses a receiver for each record of one sending task.
pub(crate) trait Route<I: Record + ?Sized>: Send {
    /// The receiver, below `receivers`.
    fn pick(&mut self, item: &I::Of<'_>, receivers: usize) -> usize;
}

/// The number of key groups: hashes are routed by key group. Fixed for a job's life.
pub(crate) const KEY_GROUPS: u64 = 1 << 15;

/// The task that owns the key group of this hash. Each task owns a contiguous range of key groups, all of nearly
/// equal size.
#[inline(always)]
pub(crate) fn owner(hash: u64, tasks: usize) -> usize {
    owner_of_group(key_group(hash), tasks)
}

/// The key group of this hash.
#[inline(always)]
pub(crate) fn key_group(hash: u64) -> u16 {
    const { assert!(KEY_GROUPS <= 1 << 16) };
    (hash >> (64 - KEY_GROUPS.trailing_zeros())) as u16
}

/// As [`owner`], of a key group.
#[inline(always)]
pub(crate) fn owner_of_group(group: u16, tasks: usize) -> usize {
    ((u64::from(group) * tasks as u64) >> KEY_GROUPS.trailing_zeros()) as usize
}

/// The first and the last hash of the key groups of a task; the first is greater where the task has none.
pub(crate) fn hashes_of(task: usize, tasks: usize) -> (u64, u64) {
    let bits = KEY_GROUPS.trailing_zeros();
    let begin = |task: usize| ((task as u64) << bits).div_ceil(tasks as u64);
    match (begin(task), begin(task + 1)) {
        (begin, end) if begin < end => {
            (begin << (64 - bits), u64::MAX >> bits | (end - 1) << (64 - bits))
        }
        _ => (1, 0),
    }
}

/// Routes to the owner of the record's key group.
#[derive(Clone)]
pub(crate) struct ByHash;

impl<I: Record + ?Sized> Route<Hashed<I>> for ByHash {
    #[inline(always)]
    fn pick(&mut self, item: &(u64, I::Of<'_>), receivers: usize) -> usize {
        owner(item.0, receivers)
    }
}

impl<K: Key + ?Sized, A: 'static> Route<Partial<K, A>> for ByHash {
    #[inline(always)]
    fn pick(&mut self, entry: &PartialEntry<'_, K, A>, receivers: usize) -> usize {
        owner(entry.hash, receivers)
    }
}

/// Routes to each receiver in turn.
pub(crate) struct RoundRobin {
    next: usize,
}

impl RoundRobin {
    /// Starts with the receiver `next`, so that many senders do not all start with the same one.
    pub(crate) fn starting_at(next: usize) -> Self {
        Self { next }
    }
}

impl<I: Record + ?Sized> Route<I> for RoundRobin {
    #[inline(always)]
    fn pick(&mut self, _: &I::Of<'_>, receivers: usize) -> usize {
        let to = if self.next < receivers { self.next } else { 0 };
        self.next = to + 1;
        to
    }
}

/// Routes to a receiver drawn by a seeded generator.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn seeded(state: u64) -> Self {
        Self { state }
    }
}

impl<I: Record + ?Sized> Route<I> for Random {
    #[inline(always)]
    fn pick(&mut self, _: &I::Of<'_>, receivers: usize) -> usize {
        let drawn = splitmix64(&mut self.state) >> 32;
        ((drawn * receivers as u64) >> 32) as usize
    }
}

/// Routes to the receiver that a closure returns, modulo the number of receivers.
pub(crate) struct Custom<F>(pub(crate) F);

impl<I: Record + ?Sized, F> Route<I> for Custom<F>
where
    F: for<'a, 'b> Fn(&'b I::Of<'a>, usize) -> usize + Send,
{
    #[inline(always)]
    fn pick(&mut self, item: &I::Of<'_>, receivers: usize) -> usize {
        let picked = (self.0)(item, receivers);
        // Most closures pick one of the receivers, and a division takes as long as all else here.
        if picked < receivers { picked } else { picked % receivers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_groups_are_shared_out_evenly_and_in_order() {
        for tasks in [1, 2, 3, 7, 64] {
            let owners: Vec<usize> =
                (0..KEY_GROUPS).map(|group| owner(group << 49, tasks)).collect();
            assert!(owners.is_sorted());
            for task in 0..tasks {
                let share = owners.iter().filter(|&&o| o == task).count();
                assert!(share.abs_diff(KEY_GROUPS as usize / tasks) <= 1, "{tasks} {task}");
                let (first, last) = hashes_of(task, tasks);
                assert_eq!((owner(first, tasks), owner(last, tasks)), (task, task));
                assert!(first == 0 || owner(first - 1, tasks) == task - 1);
                assert!(last == u64::MAX || owner(last + 1, tasks) == task + 1);
            }
        }
    }

    #[test]
    fn round_robin_visits_every_receiver() {
        let mut route = RoundRobin::starting_at(2);
        let seen: Vec<usize> = (0..6).map(|i| Route::<u64>::pick(&mut route, &i, 3)).collect();
        assert_eq!(seen, [2, 0, 1, 2, 0, 1]);
    }
}
