//! Timers that wake cells.

use super::Cell;
use crate::clock::Nanos;
use crate::flow::Wake;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A queue of timers. A timer is never cancelled: waking a cell that has nothing to do costs one turn.
pub(crate) struct Timers {
    /// The time of the earliest timer, so that checking needs no lock.
    first: AtomicU64,
    due: Mutex<BTreeMap<(Nanos, usize), Weak<Cell>>>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { first: AtomicU64::new(Nanos::MAX), due: Mutex::new(BTreeMap::new()) }
    }

    /// Wakes `cell` at `at`.
    pub(crate) fn add(&self, at: Nanos, cell: &Arc<Cell>) {
        let mut due = lock(&self.due);
        let address = Arc::as_ptr(cell).addr();
        due.insert((at, address), Arc::downgrade(cell));
        self.publish(&due);
    }

    /// When the earliest timer is due.
    pub(crate) fn first(&self) -> Option<Nanos> {
        let first = self.first.load(Ordering::Acquire);
        (first != Nanos::MAX).then_some(first)
    }

    /// Wakes all that are due by `now`.
    pub(crate) fn fire(&self, now: Nanos) {
        if self.first.load(Ordering::Acquire) > now {
            return;
        }
        let mut due = lock(&self.due);
        let later = due.split_off(&(now.saturating_add(1), 0));
        let fired = std::mem::replace(&mut *due, later);
        self.publish(&due);
        drop(due);
        for cell in fired.into_values().filter_map(|cell| cell.upgrade()) {
            cell.wake();
        }
    }

    fn publish(&self, due: &BTreeMap<(Nanos, usize), Weak<Cell>>) {
        let first = due.keys().next().map_or(Nanos::MAX, |(at, _)| *at);
        self.first.store(first, Ordering::Release);
    }
}
