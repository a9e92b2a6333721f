//! Keeps the partitions of a source close to each other in event time.
//!
//! Each task publishes its watermark. Before a task goes on, it checks whether it is too far ahead of the last
//! task. If so, it sets its flag `waits` and checks again before it waits; a task that advances after that wakes
//! it. So no wake-up is lost.

use crate::flow::Waker;
use crate::sync::{AtomicBool, AtomicI64, Mutex, Ordering, lock};
use crate::time::{Timestamp, micros};
use std::time::Duration;

/// The progress of the tasks of one operator.
pub(super) struct Drift {
    most: i64,
    tasks: Vec<Progress>,
}

struct Progress {
    /// The watermark in microseconds: the least number before the first watermark, the greatest if no task has
    /// to wait for this one.
    at: AtomicI64,
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Drift {
    /// Creates the progress of `tasks` tasks, none of which may be further ahead of the last than `most`.
    pub(super) fn new(most: Duration, tasks: usize) -> Self {
        let progress = |_| Progress {
            at: AtomicI64::new(i64::MIN),
            waits: AtomicBool::new(false),
            waker: Mutex::new(None),
        };
        Self { most: micros(most), tasks: (0..tasks).map(progress).collect() }
    }

    /// Registers the waker of a task.
    pub(super) fn join(&self, task: usize, waker: &Waker) {
        *lock(&self.tasks[task].waker) = Some(waker.clone());
    }

    /// Sets the progress of a task and wakes the tasks that wait; `None` if no task has to wait for this one.
    pub(super) fn move_to(&self, task: usize, at: Option<Timestamp>) {
        let at = at.map_or(i64::MAX, Timestamp::as_micros);
        if self.tasks[task].at.swap(at, Ordering::SeqCst) == at {
            return;
        }
        for other in &self.tasks {
            if other.waits.swap(false, Ordering::SeqCst)
                && let Some(waker) = &*lock(&other.waker)
            {
                waker.wake();
            }
        }
    }

    /// Returns whether a task must wait. If so, it is woken when another task has advanced.
    pub(super) fn must_wait(&self, task: usize) -> bool {
        if !self.is_ahead(task) {
            return false;
        }
        self.tasks[task].waits.store(true, Ordering::SeqCst);
        self.is_ahead(task)
    }

    fn is_ahead(&self, task: usize) -> bool {
        let at = self.tasks[task].at.load(Ordering::SeqCst);
        let others = self.tasks.iter().map(|other| other.at.load(Ordering::SeqCst));
        let last = others.min().unwrap_or(i64::MAX);
        at != i64::MAX && at > last.saturating_add(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_too_far_ahead_waits_for_the_last_one() {
        let drift = Drift::new(Duration::from_micros(10), 3);
        let to = |task, at| drift.move_to(task, Some(Timestamp::from_micros(at)));
        to(0, 5);
        assert!(drift.must_wait(0), "two have not begun");
        to(1, 0);
        drift.move_to(2, None);
        assert!(!drift.must_wait(0), "one has ended");
        to(0, 11);
        assert!(drift.must_wait(0));
        assert!(!drift.must_wait(1), "the last never waits");
        to(1, 1);
        assert!(!drift.tasks[0].waits.load(Ordering::SeqCst), "it was woken");
        assert!(!drift.must_wait(0));
        to(0, i64::MAX - 1);
        drift.move_to(1, None);
        assert!(!drift.must_wait(0), "it is alone");
    }
}
