//! One thread at a time, an order drawn from a seed, and a simulated clock that advances only when no task is ready.

use super::timers::Timers;
use super::{Cell, Next, Schedule, Scheduler};
use crate::clock::Clock;
use crate::data::splitmix64;
use crate::error::Result;
use crate::sync::{Condvar, Mutex, lock};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Runs tasks on the threads that wait for their jobs, one task at a time.
///
/// The order of the tasks, and so every interleaving, follows from the seed alone, unless other
/// threads feed the job.
pub(crate) struct Deterministic {
    turn: usize,
    clock: Clock,
    ready: Mutex<Vec<Arc<Cell>>>,
    woken: Condvar,
    timers: Timers,
    /// The state of the random generator. A thread must hold its lock to run a task.
    order: Mutex<u64>,
}

/// How often a driver without ready tasks checks whether its job is over.
const LOOK: Duration = Duration::from_millis(5);

impl Deterministic {
    pub(crate) fn new(seed: u64, turn: usize, clock: Clock) -> Self {
        Self {
            turn,
            clock,
            ready: Mutex::new(Vec::new()),
            woken: Condvar::new(),
            timers: Timers::new(),
            order: Mutex::new(seed),
        }
    }

    fn pick(&self, order: &mut u64) -> Option<Arc<Cell>> {
        let mut ready = lock(&self.ready);
        if ready.is_empty() {
            return None;
        }
        let at = splitmix64(order) as usize % ready.len();
        Some(ready.swap_remove(at))
    }

    /// The length of a turn is drawn too: a task may be stopped after any batch.
    fn budget(&self, order: u64) -> usize {
        1 + (order >> 7) as usize % self.turn
    }
}

impl Scheduler for Deterministic {
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()> {
        lock(&self.ready).extend(cells.iter().cloned());
        self.woken.notify_all();
        Ok(())
    }

    fn drive(&self, done: &dyn Fn() -> bool) {
        while !done() {
            let mut order = lock(&self.order);
            if let Some(cell) = self.pick(&mut order) {
                match cell.run(&self.clock, self.budget(*order)) {
                    Next::Queue | Next::QueueLast => self.schedule(cell),
                    Next::WakeAt(at) => self.timers.add(at, &cell),
                    Next::Nothing | Next::Done => {}
                }
            } else if let Some(at) = self.timers.first() {
                self.clock.advance_to(at);
                self.timers.fire(at);
            } else {
                drop(order);
                let ready = lock(&self.ready);
                if ready.is_empty() && !done() {
                    let waited = self.woken.wait_timeout(ready, LOOK);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }
}

impl Schedule for Deterministic {
    fn schedule(&self, cell: Arc<Cell>) {
        lock(&self.ready).push(cell);
        self.woken.notify_all();
    }
}
