//! Work stealing: one thread a core, each with a queue of cells; a thread whose queue is empty takes from another's.
//!
//! A task that is woken by another goes to the end of the queue of the thread that woke it, and so does a task that
//! has used up its turn: what it has sent is received before it sends more. A thread without work takes half of
//! another's queue.

use super::affinity::Affinity;
use super::parking::Parking;
use super::timers::Timers;
use super::{Cell, Next, Schedule, Scheduler};
use crate::clock::{Clock, Nanos};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock, spawn};
use std::cell::Cell as ThreadCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// A pool of threads, started with the first job and ended when dropped.
pub(crate) struct WorkStealing {
    pool: Arc<Pool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Pool {
    queues: Vec<Queue>,
    /// Cells woken by threads that do not belong to this pool.
    injected: Queue,
    parking: Parking,
    affinity: Affinity,
    timers: Timers,
    clock: Clock,
    turn: usize,
    shutdown: AtomicBool,
}

#[derive(Default)]
struct Queue {
    cells: Mutex<VecDeque<Arc<Cell>>>,
    /// The length, so that checking an empty queue needs no lock.
    len: AtomicUsize,
}

thread_local! {
    /// The address of the pool that this thread belongs to, and the thread's index in it.
    static WORKER: ThreadCell<(usize, usize)> = const { ThreadCell::new((0, 0)) };
}

/// How long a thread searches before it parks: 20 µs, about the cost of waking it again.
const SEARCH: Nanos = 20_000;

/// In one turn of so many, the queue of injected cells goes first.
const FAIR: u32 = 64;

impl WorkStealing {
    pub(crate) fn new(threads: usize, turn: usize, clock: Clock) -> Arc<Self> {
        let pool = Pool {
            queues: (0..threads).map(|_| Queue::default()).collect(),
            injected: Queue::default(),
            parking: Parking::new(threads),
            affinity: Affinity::new(threads),
            timers: Timers::new(),
            clock,
            turn,
            shutdown: AtomicBool::new(false),
        };
        Arc::new(Self { pool: Arc::new(pool), threads: Mutex::new(Vec::new()) })
    }
}

impl Scheduler for WorkStealing {
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()> {
        let mut threads = lock(&self.threads);
        for me in threads.len()..self.pool.queues.len() {
            let pool = Arc::downgrade(&self.pool);
            threads.push(spawn(format!("thalweg-{me}"), move || Pool::work(&pool, me))?);
        }
        drop(threads);
        for (at, cell) in cells.iter().enumerate() {
            self.pool.queues[at % self.pool.queues.len()].push(Arc::clone(cell));
        }
        for _ in &self.pool.queues {
            self.pool.parking.work_added();
        }
        Ok(())
    }
}

impl Schedule for WorkStealing {
    fn schedule(&self, cell: Arc<Cell>) {
        self.pool.schedule(cell);
    }
}

impl Drop for WorkStealing {
    fn drop(&mut self) {
        self.pool.shutdown.store(true, Ordering::Release);
        self.pool.parking.wake_all();
        let me = std::thread::current().id();
        for thread in lock(&self.threads).drain(..) {
            // The last handle may be dropped by a task, on a thread of this pool, which cannot join itself.
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
    }
}

impl Pool {
    fn schedule(&self, cell: Arc<Cell>) {
        let (pool, me) = WORKER.get();
        if pool == std::ptr::from_ref(self).addr() {
            self.queues[me].push(cell);
        } else {
            self.injected.push(cell);
        }
        self.parking.work_added();
    }

    fn work(pool: &Weak<Self>, me: usize) {
        let Some(pool) = pool.upgrade() else { return };
        WORKER.set((Arc::as_ptr(&pool).addr(), me));
        pool.affinity.pin(me);
        pool.affinity.unpin(me);
        let (mut turns, mut rested) = (0_u32, true);
        while !pool.shutdown.load(Ordering::Acquire) {
            turns = turns.wrapping_add(1);
            // Otherwise a thread whose own queue is never empty would starve the injected cells.
            let waiting = turns.is_multiple_of(FAIR).then(|| pool.injected.pop()).flatten();
            match waiting.or_else(|| pool.find(me)) {
                Some(cell) => {
                    // The thread that woke this one may have been preempted by it before it could wake another.
                    if std::mem::take(&mut rested) && pool.any_cell() {
                        pool.parking.work_added();
                    }
                    pool.run(me, cell);
                }
                None => {
                    pool.rest(me);
                    rested = true;
                }
            }
        }
    }

    fn run(&self, me: usize, cell: Arc<Cell>) {
        match cell.run(&self.clock, self.turn) {
            Next::Queue | Next::QueueLast => {
                self.queues[me].push(cell);
                // Other threads may take the cells queued before it.
                if self.queues[me].len() > 1 {
                    self.parking.work_added();
                }
            }
            Next::WakeAt(at) => self.timers.add(at, &cell),
            Next::Nothing | Next::Done => {}
        }
        self.fire_timers();
    }

    fn fire_timers(&self) {
        if self.timers.first().is_some() {
            self.timers.fire(self.clock.now());
        }
    }

    /// The next cell: from this thread's queue, the injected ones, or another thread's queue.
    fn find(&self, me: usize) -> Option<Arc<Cell>> {
        if let Some(cell) = self.queues[me].pop() {
            return Some(cell);
        }
        if let Some(cell) = self.injected.pop() {
            return Some(cell);
        }
        let threads = self.queues.len();
        (1..threads)
            .find_map(|step| self.queues[me].steal_from(&self.queues[(me + step) % threads]))
    }

    fn any_cell(&self) -> bool {
        self.injected.len() > 0 || self.queues.iter().any(|queue| queue.len() > 0)
    }

    fn any_work(&self) -> bool {
        self.any_cell() || self.shutdown.load(Ordering::Acquire)
    }

    /// Searches for a while, then parks.
    fn rest(&self, me: usize) {
        self.parking.start_searching();
        let until = self.clock.now() + SEARCH;
        let mut found = false;
        while !found && self.clock.now() < until {
            self.fire_timers();
            for _ in 0..64 {
                std::hint::spin_loop();
            }
            found = self.any_work();
        }
        self.parking.stop_searching();
        if found {
            return;
        }
        let span = self.timers.first().map(|at| at.saturating_sub(self.clock.now()));
        if span == Some(0) {
            self.fire_timers();
            return;
        }
        self.affinity.pin(me);
        self.parking.park(me, span, || self.any_work());
        self.affinity.unpin(me);
        self.fire_timers();
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    fn push(&self, cell: Arc<Cell>) {
        let mut cells = lock(&self.cells);
        cells.push_back(cell);
        self.len.store(cells.len(), Ordering::SeqCst);
    }

    fn pop(&self) -> Option<Arc<Cell>> {
        if self.len() == 0 {
            return None;
        }
        let mut cells = lock(&self.cells);
        let cell = cells.pop_front();
        self.len.store(cells.len(), Ordering::SeqCst);
        cell
    }

    /// Takes the older half of another queue; returns the first cell, which is to be run at once.
    fn steal_from(&self, other: &Self) -> Option<Arc<Cell>> {
        if other.len() == 0 {
            return None;
        }
        let mut theirs = lock(&other.cells);
        let half = theirs.len().div_ceil(2);
        let mut taken: VecDeque<Arc<Cell>> = theirs.drain(..half).collect();
        other.len.store(theirs.len(), Ordering::SeqCst);
        drop(theirs);
        let first = taken.pop_front();
        if !taken.is_empty() {
            let mut mine = lock(&self.cells);
            mine.append(&mut taken);
            self.len.store(mine.len(), Ordering::SeqCst);
        }
        first
    }
}
