//! A task: one parallel instance of a stage, run a turn at a time.

use super::{Epoch, Signals};
use crate::clock::{Clock, Nanos};
use crate::metrics::Report;
use std::sync::{Arc, OnceLock, Weak};

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// There is more to do.
    Again,
    /// Input has run out, and open batches may still fill: run again after all other tasks that are ready.
    Later,
    /// Nothing to do until woken.
    Wait,
    /// Nothing to do until woken, or until this time.
    WaitUntil(Nanos),
    /// The task has ended.
    Done,
}

/// A resumable piece of work. It never blocks the thread that runs it.
pub trait Task: Send {
    /// Takes some input, pushes it through, and stops when the turn's budget, the input or the
    /// output's credit is used up.
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll;

    /// Adds what was counted since the job began to the report.
    fn report(&mut self, report: &mut Report);
}

impl Task for Box<dyn Task> {
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll {
        (**self).poll(turn)
    }

    fn report(&mut self, report: &mut Report) {
        (**self).report(report);
    }
}

/// A turn of 20 ms takes no further batch, whatever its budget. Batches of cheap records are far shorter; a person
/// that waits for a reaction does not notice it.
const LONGEST: Nanos = 20_000_000;
/// The clock is read once in so many batches, where turns are usually short.
const LOOK: usize = 4;

/// The budget of one turn of a task.
pub struct Turn<'a> {
    pub(crate) clock: &'a Clock,
    budget: usize,
    /// The time at which the turn ends, however much of the budget is left.
    until: Nanos,
    /// The clock is read once in so many batches.
    look: usize,
    signals: &'a Signals,
    /// Whether the task waits for a receiver, rather than for input.
    pub(crate) back_pressured: bool,
    /// A barrier that has left the task: everything that came before it has been sent, or is held as state.
    pub(crate) passed: Option<Epoch>,
}

impl<'a> Turn<'a> {
    /// A turn that begins at `now`, of a task whose turns are `usual` long.
    pub(crate) fn new(
        clock: &'a Clock,
        (now, usual): (Nanos, Nanos),
        budget: usize,
        signals: &'a Signals,
    ) -> Self {
        let until = now.saturating_add(LONGEST);
        let look = if usual < LONGEST { LOOK } else { 1 };
        Self { clock, budget, until, look, signals, back_pressured: false, passed: None }
    }

    /// The last barrier that this host has been requested to send.
    pub(super) fn barrier_known(&self) -> Epoch {
        self.signals.epoch()
    }

    /// The last barrier that may overtake batches.
    pub(crate) fn overtaking(&self) -> Epoch {
        self.signals.overtaking()
    }

    /// Takes one batch off the budget; returns whether there was one left. None is left after a long turn, so that
    /// slow closures do not starve other tasks, nor when the job is stopped.
    pub(crate) fn spend(&mut self) -> bool {
        let late = self.budget.is_multiple_of(self.look) && self.clock.now() > self.until;
        // Only the end of the turn makes it known that a barrier has left the task.
        let any = self.budget > 0 && !late && self.passed.is_none() && !self.signals.stopped();
        self.budget = self.budget.saturating_sub(1);
        any
    }
}

/// A task, to those that have work for it.
pub(crate) trait Wake: Send + Sync {
    /// Schedules the task, unless it is scheduled already.
    fn wake(&self);
}

/// A handle that wakes a task. It is created before the task, and bound to it later.
#[derive(Clone, Default)]
pub(crate) struct Waker(Arc<OnceLock<Arc<dyn Wake>>>);

impl Waker {
    /// Binds the task. Later calls have no effect.
    pub(crate) fn set(&self, task: Arc<dyn Wake>) {
        let _ = self.0.set(task);
    }

    /// A handle that does not keep the task's job alive, for code of the program's.
    pub(crate) fn downgrade(&self) -> WeakWaker {
        WeakWaker(Arc::downgrade(&self.0))
    }

    /// Wakes the task. Does nothing before the task is bound: every task runs once when the job starts.
    pub(crate) fn wake(&self) {
        if let Some(task) = self.0.get() {
            task.wake();
        }
    }
}

/// A [`Waker`] that does nothing once the task is gone.
#[derive(Clone, Default)]
pub(crate) struct WeakWaker(Weak<OnceLock<Arc<dyn Wake>>>);

impl WeakWaker {
    /// Wakes the task, if it is still there.
    pub(crate) fn wake(&self) {
        if let Some(task) = self.0.upgrade() {
            Waker(task).wake();
        }
    }
}
