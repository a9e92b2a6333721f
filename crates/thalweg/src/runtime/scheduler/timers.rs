//! Timers that wake cells.

use super::Cell;
use crate::clock::Nanos;
use crate::flow::Wake;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A queue of timers. A cell that waits until a later time than that of its first timer gets no further one: it is
/// woken at the first, which costs one turn, and then waits again. Otherwise a cell that often postpones a far timeout
/// would leave a timer for each time.
pub(crate) struct Timers {
    /// The time of the earliest timer, so that checking needs no lock.
    first: AtomicU64,
    due: Mutex<BTreeMap<(Nanos, usize), Weak<Cell>>>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { first: AtomicU64::new(Nanos::MAX), due: Mutex::new(BTreeMap::new()) }
    }

    /// Wakes `cell` at `at`, or before.
    pub(crate) fn add(&self, at: Nanos, cell: &Arc<Cell>) {
        let mut due = lock(&self.due);
        if !cell.arm(at) {
            return;
        }
        let address = Arc::as_ptr(cell).addr();
        due.insert((at, address), Arc::downgrade(cell));
        self.publish(&due);
    }

    /// When the earliest timer is due.
    pub(crate) fn first(&self) -> Option<Nanos> {
        let first = self.first.load(Ordering::Acquire);
        (first != Nanos::MAX).then_some(first)
    }

    /// Wakes all that are due by `now`; returns whether there were any.
    pub(crate) fn fire(&self, now: Nanos) -> bool {
        if self.first.load(Ordering::Acquire) > now {
            return false;
        }
        let mut due = lock(&self.due);
        let later = due.split_off(&(now.saturating_add(1), 0));
        let fired = std::mem::replace(&mut *due, later);
        self.publish(&due);
        drop(due);
        let mut any = false;
        for ((at, _), cell) in fired {
            // One that is armed for another time was woken by an earlier timer, or will be.
            if let Some(cell) = cell.upgrade()
                && cell.disarm(at)
            {
                cell.wake();
                any = true;
            }
        }
        any
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.due).len()
    }

    fn publish(&self, due: &BTreeMap<(Nanos, usize), Weak<Cell>>) {
        let first = due.keys().next().map_or(Nanos::MAX, |(at, _)| *at);
        self.first.store(first, Ordering::Release);
    }
}
