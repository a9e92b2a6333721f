//! The memory pool, from which tables, sorts, combiners and buffers reserve memory.
//!
//! Nothing allocates through the pool. Code that holds much memory reserves it beforehand; when the pool refuses, it
//! spills to disk, sends records on, or fails with an error that names the operator.
//!
//! # Claims
//!
//! A reservation makes one of three claims, so that what can go to disk does not starve what
//! cannot:
//!
//! * *Fixed* reservations belong to state that has to stay in memory, or costs much on disk. They are refused only where fixed and
//!   modest reservations together would exceed the budget: spillable ones do not count against them.
//! * *Spillable* reservations get what is free. When a fixed one takes memory that they hold, the pool is
//!   over its budget and their tasks are woken; these check between
//!   batches, write their state to disk and release the memory.
//! * *Modest* reservations hold state that could have been written to disk and no longer can, such as the table
//!   of a join during lookups. They leave a quarter of the pool to the others.
//!
//! No task waits for memory, so there is no deadlock. The cost is that the pool may be over its budget from
//! the moment a fixed reservation grows until the tasks with spillable ones have had a turn.
//!
//! # In flight
//!
//! Batches on their way between tasks, and frames between hosts, are counted as they are (`InFlight`), and not refused: the
//! credit of lanes bounds them to about a quarter of the pool (`MemoryPool::credit`), and what is processed is released.
//! Spillable and modest reservations give way to them, by at most that quarter: where lanes need more, because the budget is
//! very small, operators must still be able to work.

use crate::error::{Error, ErrorKind};
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Modest reservations leave one part in so many of the pool to the others; batches in flight take as much.
const SPARED: usize = 4;
/// The least credit of a lane, unless less is configured: with less, batches would have too few records.
const LEAST_CREDIT: usize = 1 << 10;
/// The number of holders that an error names.
const NAMED: usize = 3;

/// A budget in bytes, shared by every job of a runtime. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    /// What is reserved.
    used: AtomicUsize,
    /// The part of `used` that cannot be released on request.
    fixed: AtomicUsize,
    in_flight: AtomicUsize,
    /// Of `used` and `in_flight` together.
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

/// Bytes reserved from a [`MemoryPool`], released when dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
    /// The most bytes that may be reserved, however much is free in the pool.
    most: usize,
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
            in_flight: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            holders: Mutex::new(Vec::new()),
        }))
    }

    /// The budget in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The bytes reserved now, by the state of operators.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The bytes of batches on their way between tasks, and of frames between hosts.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// The most bytes that were reserved or in flight at one time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// An empty reservation, for state that has to stay in memory.
    pub fn reserve(&self) -> Reservation {
        self.unnamed(Claim::Fixed)
    }

    /// An empty reservation that belongs to no operator.
    pub(crate) fn unnamed(&self, claim: Claim) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, most: usize::MAX, claim, holder: None }
    }

    /// An empty reservation for an operator's task; `wake` wakes the task when it should release memory.
    pub(crate) fn named(
        &self,
        claim: Claim,
        operator: Arc<str>,
        wake: Option<WakeHolder>,
    ) -> Reservation {
        let holder = Arc::new(Holder { operator, bytes: AtomicUsize::new(0), wake });
        lock(&self.0.holders).push(Arc::clone(&holder));
        let most = usize::MAX;
        Reservation { pool: self.clone(), bytes: 0, most, claim, holder: Some(holder) }
    }

    /// So many bytes in flight, until they are dropped.
    pub(crate) fn carry(&self, bytes: usize) -> InFlight {
        let mut carried = InFlight { pool: self.clone(), bytes: 0 };
        carried.resize(bytes);
        carried
    }

    /// The credit of each of so many lanes, of which each is to have `most`: they hold as much again in batches that are
    /// being filled, and all of it is to be a quarter of the pool.
    pub(crate) fn credit(&self, most: usize, lanes: usize) -> usize {
        let share = self.limit() / SPARED / 2 / lanes.max(1);
        share.max(LEAST_CREDIT).min(most)
    }

    /// Wakes the tasks that can release memory.
    #[cold]
    fn wake_holders(&self) {
        let able = |holder: &Arc<Holder>| {
            let wake = holder.wake.as_ref().filter(|_| holder.bytes.load(Ordering::Relaxed) > 0);
            wake.cloned()
        };
        // Called without the lock, since a scheduler may take locks of its own.
        let able: Vec<_> = lock(&self.0.holders).iter().filter_map(able).collect();
        able.iter().for_each(|wake| wake());
    }

    /// The operators that hold the most, as in messages: "`sorted (a.rs:3)` holds 40.0 MiB, …".
    fn greatest_holders(&self) -> String {
        let mut by_operator = BTreeMap::<Arc<str>, usize>::new();
        for holder in &*lock(&self.0.holders) {
            *by_operator.entry(Arc::clone(&holder.operator)).or_default() +=
                holder.bytes.load(Ordering::Relaxed);
        }
        by_operator.insert("what is on its way between tasks".into(), self.in_flight());
        let mut all: Vec<_> = by_operator.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let named = all.iter().take(NAMED).map(|(operator, bytes)| {
            format!("{operator} holds {}", crate::metrics::show::bytes(*bytes as u64))
        });
        named.collect::<Vec<_>>().join(", ")
    }
}

impl Pool {
    /// What is left of the limit to reservations that give way to `in_flight` bytes.
    fn without(&self, in_flight: usize) -> usize {
        self.limit - in_flight.min(self.limit / SPARED)
    }

    /// What is left of the limit to reservations that give way to what is in flight.
    fn left(&self) -> usize {
        self.without(self.in_flight.load(Ordering::Relaxed))
    }

    fn note_peak(&self, bytes: usize) {
        if bytes > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes of batches or frames that are on their way, counted until they are dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    pool: MemoryPool,
    bytes: usize,
}

impl InFlight {
    /// The bytes that it counts.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts so many bytes instead.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let pool = &*self.pool.0;
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            if bytes < before {
                pool.in_flight.fetch_sub(before - bytes, Ordering::Relaxed);
            }
            return;
        }
        let others = pool.in_flight.fetch_add(bytes - before, Ordering::Relaxed);
        let all = others.saturating_add(bytes - before);
        let used = pool.used.load(Ordering::Relaxed);
        pool.note_peak(used.saturating_add(all));
        // While the pool is over its budget, tasks see it themselves between batches.
        if used > pool.without(all) && used <= pool.without(others) {
            self.pool.wake_holders();
        }
    }

    /// Counts at least so many bytes, and less than twice as many: an amount that goes up and down a little
    /// then costs nothing.
    pub(crate) fn follow(&mut self, bytes: usize) {
        if bytes > self.bytes || bytes <= self.bytes / 2 {
            self.resize(bytes);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl Reservation {
    /// Another empty reservation, with the same claim and limit, for the same operator's task.
    pub(crate) fn another(&self) -> Self {
        let another = match &self.holder {
            None => self.pool.unnamed(self.claim),
            Some(holder) => {
                let (operator, wake) = (Arc::clone(&holder.operator), holder.wake.clone());
                self.pool.named(self.claim, operator, wake)
            }
        };
        another.at_most(self.most)
    }

    /// The same reservation, limited to this many bytes.
    pub(crate) fn at_most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Removes the [limit](Self::at_most), so that only the pool limits the reservation; returns whether there was one.
    pub(crate) fn lift_limit(&mut self) -> bool {
        std::mem::replace(&mut self.most, usize::MAX) != usize::MAX
    }

    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pool that the bytes come from.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// Whether this reservation should be released, because a fixed one, or batches in flight, have taken its memory. Costs
    /// two relaxed loads: check between batches.
    #[inline]
    pub(crate) fn is_over_budget(&self) -> bool {
        self.claim == Claim::Spillable && self.bytes > 0 && self.pool.used() > self.pool.0.left()
    }

    /// The error for a refused reservation: `what`, which also says what would need less, then the operators that hold
    /// the memory, and how to allow more.
    #[cold]
    pub fn refused(&self, mut what: String) -> Error {
        let holders = self.pool.greatest_holders();
        if !holders.is_empty() {
            what += "; ";
            what += &holders;
        }
        what += "; `--memory` or `Config::memory` allows more";
        Error::new(ErrorKind::Memory, what)
    }

    /// Makes the reservation `bytes` large. Shrinking always succeeds; growing fails, and changes
    /// nothing, when the pool does not have the difference, or the reservation has a limit below.
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
        if bytes > self.most {
            return false;
        }
        let more = bytes - self.bytes;
        let take = |from: &AtomicUsize, limit: usize| {
            from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(more).filter(|&sum| sum <= limit)
            })
        };
        let before = match self.claim {
            // The sum cannot overflow in practice: neither exceeds the limit. If that is `usize::MAX`, nothing is
            // refused, and no machine has that much memory.
            Claim::Fixed if take(&pool.fixed, pool.limit).is_ok() => {
                Ok(pool.used.fetch_add(more, Ordering::Relaxed))
            }
            Claim::Fixed => return false,
            Claim::Modest => take(&pool.used, pool.left() - pool.limit / SPARED),
            Claim::Spillable => take(&pool.used, pool.left()),
        };
        let Ok(before) = before else { return false };
        if self.claim == Claim::Modest {
            pool.fixed.fetch_add(more, Ordering::Relaxed);
        }
        let used = before.saturating_add(more);
        pool.note_peak(used.saturating_add(pool.in_flight.load(Ordering::Relaxed)));
        if used > pool.left() {
            self.pool.wake_holders();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn dropped_reservations_are_released() {
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
    fn a_limit_holds_whatever_is_free() {
        let pool = MemoryPool::new(100);
        let mut cache = pool.unnamed(Claim::Spillable).at_most(30);
        assert!(!cache.try_resize(31) && cache.try_resize(30));
        let mut another = cache.another();
        assert!(!another.try_resize(31) && another.try_resize(20) && another.try_resize(0));
        assert_eq!(pool.used(), 30);
        assert!(cache.lift_limit() && cache.try_resize(90) && !cache.lift_limit());
    }

    #[test]
    fn spillable_reservations_yield_to_fixed_ones() {
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
        // More than the limit is refused.
        assert!(!windows.try_resize(81));
        assert!(sort.try_resize(0) && !sort.is_over_budget());
        assert!(!sort.try_resize(1));
        drop((sort, windows));
        assert_eq!((pool.used(), pool.0.fixed.load(Ordering::Relaxed)), (20, 20));
        assert_eq!(lock(&pool.0.holders).len(), 1);
    }

    #[test]
    fn what_is_in_flight_is_not_refused_and_takes_a_quarter_from_what_can_spill() {
        let pool = MemoryPool::new(100);
        let woken = Arc::new(AtomicUsize::new(0));
        let wake = Arc::clone(&woken);
        let wake: WakeHolder = Arc::new(move || {
            wake.fetch_add(1, Ordering::Relaxed);
        });
        let mut sort = pool.named(Claim::Spillable, "sort".into(), Some(wake));
        assert!(sort.try_resize(90));
        let mut batches = pool.carry(10);
        assert!(!sort.is_over_budget() && woken.load(Ordering::Relaxed) == 0);
        batches.resize(20);
        batches.resize(30);
        assert!(sort.is_over_budget());
        assert_eq!(
            woken.load(Ordering::Relaxed),
            1,
            "once, when the pool comes to be over its budget"
        );
        assert!(sort.try_resize(70) && !sort.is_over_budget() && !sort.try_resize(76));
        let frames = pool.carry(500);
        assert_eq!((pool.used(), pool.in_flight(), pool.peak()), (70, 530, 600));
        assert!(!sort.is_over_budget() && sort.try_resize(75), "no more than a quarter");
        let mut windows = pool.reserve();
        assert!(windows.try_resize(100), "state that has to stay does not give way");
        let error = windows.refused("too many keys".into());
        assert!(
            error.message().contains("what is on its way between tasks holds 530 B"),
            "{error}"
        );
        drop((frames, batches));
        assert_eq!(pool.in_flight(), 0);
    }

    #[test]
    fn an_amount_that_goes_up_and_down_is_followed_in_large_steps() {
        let pool = MemoryPool::new(100);
        let mut batches = pool.carry(0);
        for (bytes, counted) in [(10, 10), (6, 10), (5, 5), (4, 5), (6, 6), (1, 1), (0, 0)] {
            batches.follow(bytes);
            assert_eq!(pool.in_flight(), counted, "{bytes}");
        }
    }

    #[test]
    fn lanes_share_an_eighth_of_the_pool_as_credit() {
        let pool = MemoryPool::new(8 << 20);
        let credits = [1, 16, 100_000].map(|lanes| pool.credit(256 << 10, lanes));
        assert_eq!(credits, [256 << 10, 64 << 10, LEAST_CREDIT]);
        assert_eq!((pool.credit(0, 1), pool.credit(100, 100_000)), (0, 100));
    }

    #[test]
    fn modest_reservations_leave_a_quarter() {
        let pool = MemoryPool::new(100);
        let mut table = pool.unnamed(Claim::Modest);
        assert!(!table.try_resize(76) && table.try_resize(75));
        let mut another = table.another();
        assert!(!another.try_resize(1));
        assert!(pool.reserve().try_resize(25));
    }
}
