//! The memory of keyed timers: a part that others give way to, and what is free beside it.

use crate::config::StateBackend;
use crate::error::Error;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::support::overflow::kept_in_memory;

/// The part of the memory budget that the tasks of an operator have in any case, once they need it: one in so many. Others give way to
/// it, such as sorts: keys that come in any order cost more on disk than runs that are read once.
const BASE: usize = 2;

/// The memory of the keys of one task. Keys beyond it go to disk, so it takes from others only what it cannot work without: its
/// base is reserved as state that has to stay in memory, and the rest as state that gives way.
pub(super) struct Budget {
    base: Reservation,
    more: Reservation,
    /// The most bytes of the base.
    most: usize,
    /// The task's share of the base of the operator: equal to `most`, unless no key may go to disk.
    share: usize,
    /// Whether no key may go to disk.
    in_memory: bool,
}

impl Budget {
    /// That of one of so many tasks, of two empty reservations: for state that has to stay in memory, and for state that need not.
    pub(super) fn new(base: Reservation, more: Reservation, tasks: usize) -> Self {
        let most = base.pool().limit() / BASE / tasks.max(1);
        Self { base, more, most, share: most, in_memory: false }
    }

    /// The budget of a task of an operator, by the state backend of the job; that of one of so many parts of its keys.
    pub(super) fn of(cx: &TaskContext<'_>, op: usize, parts: usize) -> Self {
        let budget = Self::new(cx.fixed(op), cx.spillable(op), cx.tasks.max(1) * parts);
        match cx.state_backend {
            StateBackend::MemoryThenDisk => budget,
            // No part gives way to others.
            StateBackend::Memory => budget.in_memory(),
            StateBackend::Disk => {
                let most = cx.most_cached() / parts;
                Self { more: budget.more.at_most(0), most, share: most, ..budget }
            }
        }
    }

    /// The same budget for keys that may not go to disk: all of it is reserved as state that has to stay in memory.
    pub(super) fn in_memory(self) -> Self {
        Self { most: self.limit(), in_memory: true, ..self }
    }

    /// Whether no key may go to disk.
    pub(super) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// The error of keys that have no room in memory and may not go to disk.
    pub(super) fn kept_in_memory(&self) -> Error {
        kept_in_memory(&self.base)
    }

    /// The base that each task can have at the same time.
    pub(super) fn base(&self) -> usize {
        self.share
    }

    /// The bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.base.bytes() + self.more.bytes()
    }

    /// The memory budget that all share.
    pub(super) fn limit(&self) -> usize {
        self.base.pool().limit()
    }

    /// Whether something has to be released, because state that has to stay in memory has taken its place.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.more.is_over_budget()
    }

    /// As [`Reservation::try_resize`].
    #[must_use = "a refused reservation must lead to keys on disk or an error"]
    pub(super) fn try_resize(&mut self, bytes: usize) -> bool {
        let base = bytes.min(self.most);
        if base < self.base.bytes() {
            // First, as the rest may need the place.
            let _ = self.base.try_resize(base);
        }
        let before = self.more.bytes();
        if !self.more.try_resize(bytes - base) {
            return false;
        }
        let has_base = self.base.try_resize(base);
        if !has_base {
            // It has grown: what shrinks is not refused.
            let _ = self.more.try_resize(before);
        }
        has_base
    }

    /// Holds so many bytes of state that has to stay in memory after all; returns whether there is room.
    pub(super) fn insists(&mut self, bytes: usize) -> bool {
        self.base.try_resize(bytes) && self.more.try_resize(0)
    }

    /// As [`Reservation::refused`].
    pub(super) fn refused(&self, what: String) -> Error {
        self.base.refused(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Claim, MemoryPool};

    #[test]
    fn a_base_is_taken_from_others_and_the_rest_is_what_is_free() {
        let pool = MemoryPool::new(800);
        let mut sort = pool.unnamed(Claim::Spillable);
        assert!(sort.try_resize(800));
        let mut budget = Budget::new(pool.reserve(), pool.unnamed(Claim::Spillable), 8);
        assert!(budget.try_resize(50) && sort.is_over_budget());
        assert!(!budget.try_resize(51) && budget.bytes() == 50 && !budget.is_over());
        assert!(sort.try_resize(400) && budget.try_resize(400) && !budget.try_resize(401));
        let mut windows = pool.reserve();
        assert!(windows.try_resize(750) && budget.is_over() && !windows.try_resize(751));
        assert!(budget.try_resize(30) && !budget.is_over() && budget.bytes() == 30);
        assert!(windows.try_resize(300) && !budget.try_resize(401) && !budget.insists(501));
        assert!(budget.insists(500) && sort.is_over_budget() && budget.bytes() == 500);
    }

    /// All tasks have caches while a checkpoint is restored, and all get states that are not accounted for yet.
    #[test]
    fn tasks_whose_keys_stay_in_memory_share_what_is_beside_them() {
        let pool = MemoryPool::new(800);
        let budget = Budget::new(pool.reserve(), pool.unnamed(Claim::Spillable), 8);
        let mut budget = budget.in_memory();
        assert!(budget.base() == 50 && budget.try_resize(800) && !budget.try_resize(801));
    }
}
