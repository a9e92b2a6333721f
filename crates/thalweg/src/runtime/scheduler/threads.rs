//! One thread a task: the classic model, for comparison.

use super::{Cell, Scheduler};
use crate::clock::{Clock, Nanos};
use crate::error::Result;
use crate::runtime::cell::Next;
use crate::sync::{Condvar, Mutex, lock, spawn};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Gives every task a thread of its own, which sleeps when the task has nothing to do.
pub(crate) struct ThreadPerTask {
    turn: usize,
    clock: Clock,
    beds: Arc<Mutex<HashMap<usize, Arc<Bed>>>>,
}

/// The wake-up flag of one thread.
#[derive(Default)]
struct Bed {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl ThreadPerTask {
    pub(crate) fn new(turn: usize, clock: Clock) -> Self {
        Self { turn, clock, beds: Arc::default() }
    }
}

/// The key of a cell in the map; unique while its thread holds the cell.
fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
}

impl Scheduler for ThreadPerTask {
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()> {
        let beds: Vec<Arc<Bed>> = cells.iter().map(|_| Arc::default()).collect();
        lock(&self.beds).extend(cells.iter().map(address).zip(beds.iter().cloned()));
        for (at, (cell, bed)) in cells.iter().zip(beds).enumerate() {
            let (cell, clock, turn) = (Arc::clone(cell), self.clock.clone(), self.turn);
            let registered = Arc::clone(&self.beds);
            let started = spawn(format!("thalweg-task-{}", cell.index()), move || {
                live(&cell, &bed, &clock, turn);
                lock(&registered).remove(&address(&cell));
            });
            if let Err(error) = started {
                let mut beds = lock(&self.beds);
                cells[at..].iter().for_each(|cell| drop(beds.remove(&address(cell))));
                return Err(error);
            }
        }
        Ok(())
    }

    fn schedule(&self, cell: Arc<Cell>) {
        let bed = lock(&self.beds).get(&address(&cell)).cloned();
        if let Some(bed) = bed {
            *lock(&bed.woken) = true;
            bed.changed.notify_one();
        }
    }

    fn needs_its_threads(&self) -> bool {
        false
    }
}

fn live(cell: &Cell, bed: &Bed, clock: &Clock, turn: usize) {
    loop {
        match cell.run(clock, turn) {
            Next::Queue => {}
            Next::QueueLast => std::thread::yield_now(),
            Next::Nothing => bed.sleep(None),
            Next::WakeAt(at) => {
                bed.sleep(Some(at.saturating_sub(clock.now())));
                // The cell's state does not know of a wake-up by timeout yet.
                crate::flow::Wake::wake(cell);
                *lock(&bed.woken) = false;
            }
            Next::Done => return,
        }
    }
}

impl Bed {
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
