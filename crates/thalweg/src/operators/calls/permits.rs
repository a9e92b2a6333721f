//! Permits: how many calls of an operator may run at once, over all of its tasks.
//!
//! A permit is free, or held, or promised to a task that waits; no other task can take a promised one. A permit
//! that is returned is promised to the task that has waited longest. So no task can starve the others, however
//! busy it is.

use crate::flow::Waker;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// The permits of an operator.
pub(super) struct Permits(Mutex<State>);

struct State {
    /// The free permits; no task waits while there are any.
    left: usize,
    /// The tasks that wait, each once.
    waiting: VecDeque<(usize, Waker)>,
    /// The tasks to which a permit is promised, each once.
    promised: Vec<usize>,
}

/// Allows one call to run until it is dropped.
pub(super) struct Permit(Arc<Permits>);

/// A task's access to the permits.
pub(super) struct Desk {
    permits: Arc<Permits>,
    task: usize,
    waker: Waker,
}

impl Permits {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let state = State { left: most, waiting: VecDeque::new(), promised: Vec::new() };
        Arc::new(Self(Mutex::new(state)))
    }

    /// The access of a task, whose waker is called when it is promised a permit.
    pub(super) fn desk(self: &Arc<Self>, task: usize, waker: Waker) -> Desk {
        Desk { permits: Arc::clone(self), task, waker }
    }

    fn give_back(&self) {
        let mut state = lock(&self.0);
        let Some((task, waker)) = state.waiting.pop_front() else {
            state.left += 1;
            return;
        };
        state.promised.push(task);
        drop(state);
        waker.wake();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Desk {
    /// Takes a permit, if there is one. Otherwise the task is queued, and is woken when a permit is promised to
    /// it.
    pub(super) fn take(&self) -> Option<Permit> {
        let mut state = lock(&self.permits.0);
        if let Some(at) = state.promised.iter().position(|task| *task == self.task) {
            state.promised.swap_remove(at);
        } else if state.left > 0 {
            state.left -= 1;
        } else {
            if state.waiting.iter().all(|(task, _)| *task != self.task) {
                state.waiting.push_back((self.task, self.waker.clone()));
            }
            return None;
        }
        Some(Permit(Arc::clone(&self.permits)))
    }

    /// Withdraws the task from the queue, and returns a permit that was promised to it.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.permits.0);
        state.waiting.retain(|(task, _)| *task != self.task);
        let Some(at) = state.promised.iter().position(|task| *task == self.task) else { return };
        state.promised.swap_remove(at);
        drop(state);
        self.permits.give_back();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_longest_is_next() {
        let permits = Permits::new(2);
        let desks = [0, 1, 2].map(|task| permits.desk(task, Waker::default()));
        let (first, second) = (desks[0].take().unwrap(), desks[0].take().unwrap());
        assert!(desks[1].take().is_none() && desks[2].take().is_none());
        drop(first);
        // It is promised to task 1, and no other task can take it.
        assert!(desks[0].take().is_none() && desks[2].take().is_none());
        let first = desks[1].take().unwrap();
        drop((first, second));
        let (a, b) = (desks[2].take().unwrap(), desks[0].take().unwrap());
        assert!(desks[1].take().is_none());
        drop((a, b));
        assert!(desks[1].take().is_some());
    }

    #[test]
    fn a_task_that_goes_leaves_what_it_was_promised() {
        let permits = Permits::new(1);
        let [gone, stays] = [0, 1].map(|task| permits.desk(task, Waker::default()));
        let taken = stays.take().unwrap();
        assert!(gone.take().is_none() && stays.take().is_none());
        drop(taken);
        drop(gone);
        assert!(stays.take().is_some());
    }
}
