//! A task: one partition of a stage, run a turn at a time.

use super::{Epoch, Signals};
use crate::clock::{Clock, Nanos};
use crate::metrics::Report;
use std::sync::{Arc, OnceLock};

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// There is more to do.
    Again,
    /// Input has run out, and output waits for company: come back after everybody else.
    Later,
    /// Nothing to do until woken.
    Wait,
    /// Nothing to do until woken, or until the clock shows this.
    WaitUntil(Nanos),
    /// The task has ended.
    Done,
}

/// A resumable piece of work. It never blocks the thread that runs it.
pub trait Task: Send {
    /// Takes some input, pushes it through, and stops when the turn's budget, the input or the
    /// output's credit is used up.
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll;

    /// Writes down what was counted since the job began.
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

/// A turn takes no batch after this, whatever its budget: far longer than batches take whose
/// records cost nothing worth speaking of, and short for a person who waits.
const LONGEST: Nanos = 20_000_000;
/// How many batches pass between two looks at the clock.
const LOOK: usize = 4;

/// What a task may use in one turn.
pub struct Turn<'a> {
    pub(crate) clock: &'a Clock,
    budget: usize,
    /// When the turn is over, however much of the budget is left.
    until: Nanos,
    signals: &'a Signals,
    /// Why the turn ended: waiting for a receiver, rather than for input.
    pub(crate) back_pressured: bool,
    /// A barrier left the task: nothing of what came before it is held there, except as state.
    pub(crate) passed: Option<Epoch>,
}

impl<'a> Turn<'a> {
    /// A turn that begins at `now`.
    pub(crate) fn new(clock: &'a Clock, now: Nanos, budget: usize, signals: &'a Signals) -> Self {
        let until = now.saturating_add(LONGEST);
        Self { clock, budget, until, signals, back_pressured: false, passed: None }
    }

    /// Takes one batch off the budget; answers whether it was there. Nothing is left of it when the
    /// turn has taken long, so that others need not wait for slow closures, and when the job is
    /// stopped.
    pub(crate) fn spend(&mut self) -> bool {
        let late = self.budget.is_multiple_of(LOOK) && self.clock.now() > self.until;
        let any = self.budget > 0 && !late && !self.signals.stopped();
        self.budget = self.budget.saturating_sub(1);
        any
    }
}

/// Something that can be told that it has work.
pub(crate) trait Wake: Send + Sync {
    /// Schedules the task, unless it is scheduled already.
    fn wake(&self);
}

/// A task to wake that is filled in when the tasks exist, for those who are made before them.
#[derive(Clone, Default)]
pub(crate) struct Waker(Arc<OnceLock<Arc<dyn Wake>>>);

impl Waker {
    /// Names the task. Later calls change nothing.
    pub(crate) fn set(&self, task: Arc<dyn Wake>) {
        let _ = self.0.set(task);
    }

    /// Wakes the task, if it is named yet: one that is not has not begun, and will look by itself.
    pub(crate) fn wake(&self) {
        if let Some(task) = self.0.get() {
            task.wake();
        }
    }
}
