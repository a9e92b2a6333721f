//! One thread a task: the classic model, for comparison.

use super::{Cell, Next, Schedule, Scheduler};
use crate::clock::{Clock, Nanos};
use crate::error::Result;
use crate::sync::{Condvar, Mutex, lock, spawn};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Gives every task a thread of its own, which sleeps when the task has nothing to do.
pub(crate) struct ThreadPerTask {
    turn: usize,
    clock: Clock,
    parkers: Arc<Mutex<HashMap<usize, Arc<Parker>>>>,
}

/// The wake-up flag of one thread.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl ThreadPerTask {
    pub(crate) fn new(turn: usize, clock: Clock) -> Self {
        Self { turn, clock, parkers: Arc::default() }
    }
}

/// The key of a cell in the map; unique while its thread holds the cell.
fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
}

impl Scheduler for ThreadPerTask {
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()> {
        let parkers: Vec<Arc<Parker>> = cells.iter().map(|_| Arc::default()).collect();
        lock(&self.parkers).extend(cells.iter().map(address).zip(parkers.iter().cloned()));
        for (at, (cell, parker)) in cells.iter().zip(parkers).enumerate() {
            let (cell, clock, turn) = (Arc::clone(cell), self.clock.clone(), self.turn);
            let registered = Arc::clone(&self.parkers);
            let started = spawn(format!("thalweg-task-{}", cell.index()), move || {
                run(&cell, &parker, &clock, turn);
                lock(&registered).remove(&address(&cell));
            });
            if let Err(error) = started {
                let mut parkers = lock(&self.parkers);
                cells[at..].iter().for_each(|cell| drop(parkers.remove(&address(cell))));
                return Err(error);
            }
        }
        Ok(())
    }

    fn needs_its_threads(&self) -> bool {
        false
    }
}

impl Schedule for ThreadPerTask {
    fn schedule(&self, cell: Arc<Cell>) {
        let parker = lock(&self.parkers).get(&address(&cell)).cloned();
        if let Some(parker) = parker {
            *lock(&parker.woken) = true;
            parker.changed.notify_one();
        }
    }
}

fn run(cell: &Cell, parker: &Parker, clock: &Clock, turn: usize) {
    loop {
        match cell.run(clock, turn) {
            Next::Queue => {}
            Next::QueueLast => std::thread::yield_now(),
            Next::Nothing => parker.sleep(None),
            Next::WakeAt(at) => {
                parker.sleep(Some(at.saturating_sub(clock.now())));
                // The cell's state does not know of a wake-up by timeout yet.
                crate::flow::Wake::wake(cell);
                *lock(&parker.woken) = false;
            }
            Next::Done => return,
        }
    }
}

impl Parker {
    fn sleep(&self, at_most: Option<Nanos>) {
        let mut woken = lock(&self.woken);
        while !*woken {
            match at_most {
                None => woken = self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner),
                Some(nanos) => {
                    let span = Duration::from_nanos(nanos);
                    let slept = self.changed.wait_timeout(woken, span);
                    woken = slept.unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            }
        }
        *woken = false;
    }
}
