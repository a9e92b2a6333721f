//! One pool from which tables, sorts, combiners and buffers reserve what they hold.
//!
//! Nothing allocates through the pool. Whoever holds much says so beforehand, and when the pool
//! refuses, moves something to disk, sends something on, or fails by name.
//!
//! # Who gives way
//!
//! A reservation makes one of three claims, so that what can go to disk does not starve what
//! cannot:
//!
//! * *Fixed* reservations belong to state that has to stay in memory. They are refused only where fixed and
//!   modest reservations together would exceed the budget: spillable ones do not count against them.
//! * *Spillable* reservations get what is free. When a fixed one takes memory that they hold, the pool is
//!   over its budget and their tasks are woken; these check between
//!   batches, write their state to disk and release the memory.
//! * *Modest* reservations hold state that could have been written to disk and no longer can, such as the table
//!   of a join during lookups. They leave a quarter of the pool to the others.
//!
//! No task waits for memory, so there is no deadlock. The cost is that the pool may be over its budget from
//! the moment a fixed reservation grows until the tasks with spillable ones have had a turn.

use crate::error::{Error, ErrorKind};
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of the pool that modest reservations leave to the others.
const SPARED: usize = 4;
/// How many holders a refusal names.
const NAMED: usize = 3;

/// A budget in bytes, shared by every job of a runtime. Cloning shares it.
#[derive(Clone, Debug)]
pub struct MemoryPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    used: AtomicUsize,
    /// What of that cannot be given back on demand.
    fixed: AtomicUsize,
    peak: AtomicUsize,
    /// The reservations of operators.
    holders: Mutex<Vec<Arc<Holder>>>,
}

/// What the holder of a reservation can do when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Its state has to stay in memory.
    Fixed,
    /// Further state goes to disk; what is in memory stays there.
    Modest,
    /// All of its state can be moved to disk on request.
    Spillable,
}

/// Wakes the task that a reservation belongs to.
pub(crate) type WakeHolder = Arc<dyn Fn() + Send + Sync>;

/// An operator's reservation in one task.
struct Holder {
    operator: Arc<str>,
    bytes: AtomicUsize,
    wake: Option<WakeHolder>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operator, self.bytes.load(Ordering::Relaxed))
    }
}

/// Bytes taken from a [`MemoryPool`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
    claim: Claim,
    holder: Option<Arc<Holder>>,
}

impl MemoryPool {
    /// A pool of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Pool {
            limit,
            used: AtomicUsize::new(0),
            fixed: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            holders: Mutex::new(Vec::new()),
        }))
    }

    /// The budget in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The bytes reserved now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were reserved at one time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// A reservation of nothing, to be resized, for what has to stay in memory.
    pub fn reserve(&self) -> Reservation {
        self.unnamed(Claim::Fixed)
    }

    /// A reservation of nothing that is listed under no operator.
    pub(crate) fn unnamed(&self, claim: Claim) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, claim, holder: None }
    }

    /// A reservation of nothing for an operator's task; `wake` wakes the task when it should release memory.
    pub(crate) fn named(
        &self,
        claim: Claim,
        operator: Arc<str>,
        wake: Option<WakeHolder>,
    ) -> Reservation {
        let holder = Arc::new(Holder { operator, bytes: AtomicUsize::new(0), wake });
        lock(&self.0.holders).push(Arc::clone(&holder));
        Reservation { pool: self.clone(), bytes: 0, claim, holder: Some(holder) }
    }

    /// Wakes the tasks that can release memory.
    #[cold]
    fn call_in(&self) {
        let able = |holder: &Arc<Holder>| {
            let wake = holder.wake.as_ref().filter(|_| holder.bytes.load(Ordering::Relaxed) > 0);
            wake.cloned()
        };
        // Called without the lock, since a scheduler may take locks of its own.
        let able: Vec<_> = lock(&self.0.holders).iter().filter_map(able).collect();
        able.iter().for_each(|wake| wake());
    }

    /// The operators that hold most, for messages: "`sorted (a.rs:3)` holds 40.0 MiB, …".
    fn greatest_holders(&self) -> String {
        let mut by_operator = BTreeMap::<Arc<str>, usize>::new();
        for holder in &*lock(&self.0.holders) {
            *by_operator.entry(Arc::clone(&holder.operator)).or_default() +=
                holder.bytes.load(Ordering::Relaxed);
        }
        let mut all: Vec<_> = by_operator.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let named = all.iter().take(NAMED).map(|(operator, bytes)| {
            format!("{operator} holds {}", crate::metrics::show::bytes(*bytes as u64))
        });
        named.collect::<Vec<_>>().join(", ")
    }
}

impl Reservation {
    /// Another reservation of nothing, with the same claim, for the same operator's task.
    pub(crate) fn another(&self) -> Self {
        match &self.holder {
            None => self.pool.unnamed(self.claim),
            Some(holder) => {
                let (operator, wake) = (Arc::clone(&holder.operator), holder.wake.clone());
                self.pool.named(self.claim, operator, wake)
            }
        }
    }

    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pool that the bytes come from.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// Whether this reservation should be released, because a fixed one has taken its memory. Costs a relaxed
    /// load: check between batches.
    #[inline]
    pub(crate) fn is_over_budget(&self) -> bool {
        self.claim == Claim::Spillable && self.bytes > 0 && self.pool.used() > self.pool.limit()
    }

    /// The error of what has no room: `what`, which says too what needs less, the operators that hold the memory, and
    /// how to allow more.
    #[cold]
    pub(crate) fn refused(&self, mut what: String) -> Error {
        let holders = self.pool.greatest_holders();
        if !holders.is_empty() {
            what += "; ";
            what += &holders;
        }
        what += "; `--memory` or `Config::memory` allows more";
        Error::new(ErrorKind::Memory, what)
    }

    /// Makes the reservation `bytes` large. Shrinking always succeeds; growing fails, and changes
    /// nothing, when the pool does not have the difference.
    #[must_use = "a refused reservation must lead to a spill or an error"]
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        let pool = &*self.pool.0;
        if bytes <= self.bytes {
            let less = self.bytes - bytes;
            if self.claim != Claim::Spillable {
                pool.fixed.fetch_sub(less, Ordering::Relaxed);
            }
            pool.used.fetch_sub(less, Ordering::Relaxed);
            self.set(bytes);
            return true;
        }
        let more = bytes - self.bytes;
        let take = |from: &AtomicUsize, limit: usize| {
            from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(more).filter(|&sum| sum <= limit)
            })
        };
        let before = match self.claim {
            // The sum of both cannot overflow: neither exceeds the limit, which may be `usize::MAX` where
            // nothing is refused, and then no machine has as much.
            Claim::Fixed if take(&pool.fixed, pool.limit).is_ok() => {
                Ok(pool.used.fetch_add(more, Ordering::Relaxed))
            }
            Claim::Fixed => return false,
            Claim::Modest => take(&pool.used, pool.limit - pool.limit / SPARED),
            Claim::Spillable => take(&pool.used, pool.limit),
        };
        let Ok(before) = before else { return false };
        if self.claim == Claim::Modest {
            pool.fixed.fetch_add(more, Ordering::Relaxed);
        }
        let used = before.saturating_add(more);
        pool.peak.fetch_max(used, Ordering::Relaxed);
        if used > pool.limit {
            self.pool.call_in();
        }
        self.set(bytes);
        true
    }

    fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        if let Some(holder) = &self.holder {
            holder.bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = self.try_resize(0);
        if let Some(holder) = &self.holder {
            let mut holders = lock(&self.pool.0.holders);
            if let Some(at) = holders.iter().position(|other| Arc::ptr_eq(other, holder)) {
                holders.swap_remove(at);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_dropped_comes_back() {
        let pool = MemoryPool::new(100);
        let mut a = pool.reserve();
        let mut b = pool.reserve();
        assert!(a.try_resize(60));
        assert!(!b.try_resize(41));
        assert_eq!((b.bytes(), pool.used()), (0, 60));
        assert!(b.try_resize(40));
        drop(a);
        assert_eq!((pool.used(), pool.peak()), (40, 100));
        assert!(b.try_resize(0));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn what_can_spill_gives_way_to_what_cannot() {
        let pool = MemoryPool::new(100);
        let woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&woken);
        let wake: WakeHolder = Arc::new(move || wake.store(true, Ordering::Relaxed));
        let mut sort = pool.named(Claim::Spillable, "sort".into(), Some(wake));
        let mut table = pool.named(Claim::Modest, "table".into(), None);
        let mut windows = pool.named(Claim::Fixed, "windows".into(), None);
        assert!(table.try_resize(20) && sort.try_resize(80) && !sort.try_resize(81));
        assert!(!sort.is_over_budget() && !table.try_resize(21));
        assert!(windows.try_resize(80) && woken.load(Ordering::Relaxed));
        assert!(sort.is_over_budget() && !windows.is_over_budget());
        let error = windows.refused("too many keys".into());
        assert_eq!(error.kind(), ErrorKind::Memory);
        let said = "too many keys; sort holds 80 B, windows holds 80 B, table holds 20 B; `--memory` or \
                    `Config::memory` allows more";
        assert_eq!(error.message(), said);
        // What is really too much is refused.
        assert!(!windows.try_resize(81));
        assert!(sort.try_resize(0) && !sort.is_over_budget());
        assert!(!sort.try_resize(1));
        drop((sort, windows));
        assert_eq!((pool.used(), pool.0.fixed.load(Ordering::Relaxed)), (20, 20));
        assert_eq!(lock(&pool.0.holders).len(), 1);
    }

    #[test]
    fn what_keeps_its_memory_leaves_some_to_others() {
        let pool = MemoryPool::new(100);
        let mut table = pool.unnamed(Claim::Modest);
        assert!(!table.try_resize(76) && table.try_resize(75));
        let mut another = table.another();
        assert!(!another.try_resize(1));
        assert!(pool.reserve().try_resize(25));
    }
}
