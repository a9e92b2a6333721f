//! Parking of threads without work, without lost wake-ups.
//!
//! A thread that finds no work first searches for a while, then parks:
//!
//! ```text
//!   working ──no work──> searching ──still none──> parked
//!      ^                     │                        │
//!      └──────found──────────┘ <──────woken───────────┘
//! ```
//!
//! A thread that adds work calls [`work_added`](Parking::work_added). It wakes no thread when one is searching, since
//! that one will look at every queue once more after it has stopped searching and has announced that it is parked. So
//! either the adding thread sees a parked thread and no searching one, and wakes it, or the last look of the parking
//! thread sees the work: the fences below order the two. A thread that finds work after a search or a wake-up wakes
//! another one if there is more.

use crate::clock::Nanos;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock};
#[cfg(not(loom))]
use std::time::Duration;

/// The parking state of a pool's threads.
pub(crate) struct Parking {
    searching: AtomicUsize,
    parked: AtomicUsize,
    parkers: Vec<Parker>,
}

struct Parker {
    state: Mutex<ParkState>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParkState {
    Awake,
    Parked,
}

impl Parking {
    pub(crate) fn new(threads: usize) -> Self {
        let parker = |_| Parker { state: Mutex::new(ParkState::Awake), changed: Condvar::new() };
        Self {
            searching: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            parkers: (0..threads).map(parker).collect(),
        }
    }

    /// Work was put into a queue: makes sure that a thread will find it.
    pub(crate) fn work_added(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) > 0 && self.searching.load(Ordering::SeqCst) == 0 {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        for parker in &self.parkers {
            let mut state = lock(&parker.state);
            if *state == ParkState::Parked {
                *state = ParkState::Awake;
                self.parked.fetch_sub(1, Ordering::SeqCst);
                drop(state);
                parker.changed.notify_one();
                return;
            }
        }
    }

    /// Wakes every thread, to end them.
    pub(crate) fn wake_all(&self) {
        for _ in &self.parkers {
            self.wake_one();
        }
    }

    pub(crate) fn start_searching(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the search. A thread that takes work after it should check whether there is more, and call
    /// [`work_added`](Self::work_added) if so.
    pub(crate) fn stop_searching(&self) {
        self.searching.fetch_sub(1, Ordering::SeqCst);
    }

    /// Parks thread `me` until it is woken or the time has passed, unless `any_work` returns `true` after the thread
    /// has announced that it is parked.
    pub(crate) fn park(&self, me: usize, at_most: Option<Nanos>, any_work: impl Fn() -> bool) {
        let parker = &self.parkers[me];
        *lock(&parker.state) = ParkState::Parked;
        self.parked.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut state = lock(&parker.state);
        if !any_work() {
            state = Self::wait(parker, state, at_most);
        }
        if *state == ParkState::Parked {
            *state = ParkState::Awake;
            self.parked.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[cfg(not(loom))]
    fn wait<'a>(
        parker: &'a Parker,
        mut state: crate::sync::MutexGuard<'a, ParkState>,
        at_most: Option<Nanos>,
    ) -> crate::sync::MutexGuard<'a, ParkState> {
        use std::sync::PoisonError;
        while *state == ParkState::Parked {
            match at_most {
                None => state = parker.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(nanos) => {
                    let waited = parker.changed.wait_timeout(state, Duration::from_nanos(nanos));
                    return waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        state
    }

    #[cfg(loom)]
    fn wait<'a>(
        parker: &'a Parker,
        mut state: crate::sync::MutexGuard<'a, ParkState>,
        _at_most: Option<Nanos>,
    ) -> crate::sync::MutexGuard<'a, ParkState> {
        while *state == ParkState::Parked {
            state = parker.changed.wait(state).unwrap();
        }
        state
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// What the threads of a pool share.
    struct World {
        sleep: Parking,
        queue: AtomicUsize,
        /// Pieces of work still to be done; threads end at zero.
        left: AtomicUsize,
        pieces: usize,
        /// The number of pieces that must be worked on concurrently to be done.
        together: usize,
    }

    impl World {
        fn any_work(&self) -> bool {
            self.queue.load(Ordering::SeqCst) > 0 || self.left.load(Ordering::SeqCst) == 0
        }

        /// Works, searches and parks as a pool's thread does, until all work is done.
        fn work(&self, me: usize) {
            let Self { sleep, queue, left, pieces, together } = self;
            let take = |queued: usize| queued.checked_sub(1);
            let mut rested = true;
            while left.load(Ordering::SeqCst) > 0 {
                if queue.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                    if std::mem::take(&mut rested) && queue.load(Ordering::SeqCst) > 0 {
                        sleep.work_added();
                    }
                    if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                        sleep.wake_all();
                    }
                    while left.load(Ordering::SeqCst) > *pieces - *together {
                        thread::yield_now();
                    }
                    continue;
                }
                sleep.start_searching();
                let found = self.any_work();
                sleep.stop_searching();
                if !found {
                    sleep.park(me, None, || self.any_work());
                }
                rested = true;
            }
        }
    }

    /// Adds pieces, `at_once` at a time; `together` of them are done only when they are worked on concurrently.
    fn model(threads: usize, pieces: usize, at_once: usize, together: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let world = Arc::new(World {
                sleep: Parking::new(threads),
                queue: AtomicUsize::new(0),
                left: AtomicUsize::new(pieces),
                pieces,
                together,
            });
            let workers: Vec<_> = (0..threads)
                .map(|me| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || world.work(me))
                })
                .collect();
            for _ in 0..pieces / at_once {
                world.queue.fetch_add(at_once, Ordering::SeqCst);
                world.sleep.work_added();
            }
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    #[test]
    fn a_thread_misses_no_wake_up() {
        model(1, 2, 1, 1);
    }

    #[test]
    fn two_threads_miss_no_wake_up() {
        model(2, 2, 1, 1);
    }
    #[test]
    fn work_added_together_is_done_concurrently() {
        model(2, 2, 2, 2);
    }
}
