//! Parking of threads without work, without lost wake-ups.
//!
//! A thread that finds no work parks, after a search where searches have paid ([`Patience`](super::patience)):
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
//!
//! A thread that expects to do the work itself before another one would be awake calls
//! [`work_deferred`](Parking::work_deferred) instead, which wakes no thread while one is on watch. Its expectation may be
//! wrong: it may block in a closure for ever. So the thread on watch is parked for at most [`WATCH`], then looks at every
//! queue. One thread at most is on watch, and only while others rely on it:
//!
//! ```text
//!        work deferred: a thread is woken             it parks              work deferred
//!   none ────────────────────────────────> coming ────────────> watching ────────────────> relied on
//!    ^                                      │  ^                   │                          │
//!    └──────────── it takes work ───────────┘  └─── it wakes up ───│──────────────────────────┘
//!    └─────────────────────────────── it wakes up ─────────────────┘
//! ```
//!
//! A thread that defers work while another one is coming, or is on watch, wakes none. The coming thread looks at every
//! queue before it parks; if it takes work instead, it leaves the state first, then announces what else is in the queues.
//! So the deferred work is seen either by the thread that comes or watches, or by one that is woken.
//!
//! A thread that parks waits no longer than until the first timer, unless another parked thread does already
//! ([`covered`](Parking::covered)). For a timer that is not due within [`FAR`] two threads wait, so that it is not late if
//! another program has the core of one of them; the more frequent timers are, the less one of them matters. A thread that is awake checks the timers after each turn, and calls `work_deferred`
//! before a turn if there are any, so that they are checked although the turn is long.

use crate::clock::{Clock, Nanos};
use crate::sync::{AtomicU8, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence, lock};
#[cfg(not(loom))]
use std::time::Duration;

/// How long deferred work may wait for the thread on watch: 1 ms. A thread that watches all the time costs less than a
/// hundredth of a core.
const WATCH: Nanos = 1_000_000;

/// From when on two threads wait for a timer: 0.1 ms. For timers that are nearer, a second thread would often be woken, and
/// cost more than it helps.
const FAR: Nanos = 100_000;

/// The parking state of a pool's threads.
pub(crate) struct Parking {
    searching: AtomicUsize,
    parked: AtomicUsize,
    watch: Watch,
    /// When a parked thread wakes up for the timers, and when a second one does; `Nanos::MAX` if none does.
    covered: [AtomicU64; 2],
    parkers: Vec<Parker>,
    clock: Clock,
}

/// The state of the watch, shown at the top of this module.
struct Watch(AtomicU8);

const NONE: u8 = 0;
const COMING: u8 = 1;
const WATCHING: u8 = 2;
const RELIED_ON: u8 = 3;

struct Parker {
    state: Mutex<ParkState>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParkState {
    Awake,
    Parked,
    /// Awake since this time; its thread has not noticed yet.
    Woken(Nanos),
}

impl Parking {
    pub(crate) fn new(threads: usize, clock: Clock) -> Self {
        let parker = |_| Parker { state: Mutex::new(ParkState::Awake), changed: Condvar::new() };
        Self {
            searching: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            watch: Watch(AtomicU8::new(NONE)),
            covered: [AtomicU64::new(Nanos::MAX), AtomicU64::new(Nanos::MAX)],
            parkers: (0..threads).map(parker).collect(),
            clock,
        }
    }

    /// Work was put into a queue: makes sure that a thread will find it.
    pub(crate) fn work_added(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) > 0 && self.searching.load(Ordering::SeqCst) == 0 {
            self.wake_one();
        }
    }

    /// Work was put into a queue whose thread expects to take it soon: makes sure that another one looks at the queue
    /// within [`WATCH`], if one is parked.
    pub(crate) fn work_deferred(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) > 0
            && self.searching.load(Ordering::SeqCst) == 0
            && !self.watch.rely()
        {
            self.wake_one();
        }
    }

    /// The calling thread has taken work after a rest. It checks the queues next, and announces the work in them.
    pub(crate) fn work_taken(&self) {
        self.watch.abandon();
    }

    fn wake_one(&self) {
        for parker in &self.parkers {
            let mut state = lock(&parker.state);
            if *state == ParkState::Parked {
                *state = ParkState::Woken(self.clock.now());
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

    /// Whether all threads but the calling one are parked, or search.
    pub(crate) fn others_rest(&self) -> bool {
        let resting = self.parked.load(Ordering::Relaxed) + self.searching.load(Ordering::Relaxed);
        resting + 1 >= self.parkers.len()
    }

    /// Whether all threads are parked, or are about to be.
    pub(crate) fn all_parked(&self) -> bool {
        self.parked.load(Ordering::SeqCst) >= self.parkers.len()
    }

    pub(crate) fn start_searching(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the search.
    pub(crate) fn stop_searching(&self) {
        self.searching.fetch_sub(1, Ordering::SeqCst);
    }

    /// Parks thread `me` until it is woken, or it is time to look at the timers, unless `any_work` returns `true` after
    /// the thread has announced that it is parked. Returns when another thread woke it, if one did.
    pub(crate) fn park(
        &self,
        me: usize,
        timers_at: impl FnOnce() -> Option<Nanos>,
        any_work: impl Fn() -> bool,
    ) -> Option<Nanos> {
        let parker = &self.parkers[me];
        *lock(&parker.state) = ParkState::Parked;
        self.parked.fetch_add(1, Ordering::SeqCst);
        let watching = self.watch.begin();
        fence(Ordering::SeqCst);
        let covers = timers_at().and_then(|at| self.cover(at, self.clock.now()));
        let span = covers.map(|(at, _)| at.saturating_sub(self.clock.now()));
        let at_most = span.into_iter().chain(watching.then_some(WATCH)).min();
        let mut state = lock(&parker.state);
        if !any_work() {
            state = Self::wait(parker, state, at_most);
        }
        if *state == ParkState::Parked {
            self.parked.fetch_sub(1, Ordering::SeqCst);
        }
        let was = std::mem::replace(&mut *state, ParkState::Awake);
        drop(state);
        if watching {
            self.watch.end();
        }
        if let Some((at, covered)) = covers {
            Self::uncover(at, covered);
        }
        if let ParkState::Woken(at) = was { Some(at) } else { None }
    }

    /// The calling thread is to wake up at this time to look at the timers. Returns the time and where it is noted, unless
    /// enough other threads do so.
    fn cover(&self, at: Nanos, now: Nanos) -> Option<(Nanos, &AtomicU64)> {
        let threads = if at.saturating_sub(now) > FAR { 2 } else { 1 };
        let mut noted = self.covered[..threads].iter();
        noted.find(|covered| covered.fetch_min(at, Ordering::SeqCst) > at).map(|noted| (at, noted))
    }

    /// The calling thread is awake. Of the timers that were added until now, either it sees them, or the thread that
    /// added them sees that they are not covered.
    fn uncover(at: Nanos, covered: &AtomicU64) {
        let _ = covered.compare_exchange(at, Nanos::MAX, Ordering::SeqCst, Ordering::SeqCst);
        fence(Ordering::SeqCst);
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

    /// The time may have passed at any moment, so a limited wait is none.
    #[cfg(loom)]
    fn wait<'a>(
        parker: &'a Parker,
        mut state: crate::sync::MutexGuard<'a, ParkState>,
        at_most: Option<Nanos>,
    ) -> crate::sync::MutexGuard<'a, ParkState> {
        if at_most.is_some() {
            drop(state);
            loom::thread::yield_now();
            return lock(&parker.state);
        }
        while *state == ParkState::Parked {
            state = parker.changed.wait(state).unwrap();
        }
        state
    }
}

impl Watch {
    fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Relies on the thread on watch, or on the one that is coming; returns `false` if there is none. Then the caller
    /// wakes one.
    fn rely(&self) -> bool {
        loop {
            let changed = match self.0.load(Ordering::SeqCst) {
                COMING | RELIED_ON => return true,
                WATCHING => self.change(WATCHING, RELIED_ON),
                _ => self.change(NONE, COMING),
            };
            if let Ok(before) = changed {
                return before == WATCHING;
            }
        }
    }

    /// The calling thread parks. Returns whether it is on watch.
    fn begin(&self) -> bool {
        self.0.load(Ordering::SeqCst) == COMING && self.change(COMING, WATCHING).is_ok()
    }

    /// The calling thread was on watch and is awake.
    fn end(&self) {
        if self.change(WATCHING, NONE).is_err() {
            // Relied on, a state that only this thread leaves.
            self.0.store(COMING, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// The calling thread has taken work, and may be the one that was coming.
    fn abandon(&self) {
        if self.0.load(Ordering::SeqCst) == COMING {
            let _ = self.change(COMING, NONE);
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(loom)]
pub mod models {
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
        searches: bool,
        defers: bool,
    }

    impl World {
        fn any_work(&self) -> bool {
            self.queue.load(Ordering::SeqCst) > 0 || self.left.load(Ordering::SeqCst) == 0
        }

        /// Works, searches and parks as a pool's thread does, until all work is done.
        fn work(&self, me: usize) {
            let Self { sleep, queue, left, pieces, together, .. } = self;
            let take = |queued: usize| queued.checked_sub(1);
            let mut rested = true;
            while left.load(Ordering::SeqCst) > 0 {
                if queue.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                    if std::mem::take(&mut rested) {
                        sleep.work_taken();
                        if queue.load(Ordering::SeqCst) > 0 {
                            self.announce();
                        }
                    }
                    if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                        sleep.wake_all();
                    }
                    while left.load(Ordering::SeqCst) > *pieces - *together {
                        thread::yield_now();
                    }
                    continue;
                }
                let mut found = false;
                if self.searches {
                    sleep.start_searching();
                    found = self.any_work();
                    sleep.stop_searching();
                }
                if !found {
                    sleep.park(me, || None, || self.any_work());
                }
                rested = true;
            }
        }

        fn announce(&self) {
            if self.defers { self.sleep.work_deferred() } else { self.sleep.work_added() }
        }
    }

    /// A model of threads that run pieces of work.
    #[derive(Clone, Copy)]
    struct Model {
        threads: usize,
        pieces: usize,
        /// How many are added at a time.
        at_once: usize,
        /// How many must be worked on concurrently to be done.
        together: usize,
        searches: bool,
        defers: bool,
    }

    impl Model {
        fn check(self) {
            let Self { threads, pieces, at_once, together, searches, defers } = self;
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(2);
            builder.check(move || {
                let world = Arc::new(World {
                    sleep: Parking::new(threads, Clock::system()),
                    queue: AtomicUsize::new(0),
                    left: AtomicUsize::new(pieces),
                    pieces,
                    together,
                    searches,
                    defers,
                });
                let workers: Vec<_> = (0..threads)
                    .map(|me| {
                        let world = Arc::clone(&world);
                        thread::spawn(move || world.work(me))
                    })
                    .collect();
                for _ in 0..pieces / at_once {
                    world.queue.fetch_add(at_once, Ordering::SeqCst);
                    world.announce();
                }
                for worker in workers {
                    worker.join().unwrap();
                }
            });
        }
    }

    const ONE: Model =
        Model { threads: 1, pieces: 2, at_once: 1, together: 1, searches: true, defers: false };

    pub fn a_thread_misses_no_wake_up() {
        ONE.check();
    }

    pub fn two_threads_miss_no_wake_up() {
        Model { threads: 2, ..ONE }.check();
    }

    pub fn work_added_together_is_done_concurrently() {
        Model { threads: 2, at_once: 2, together: 2, ..ONE }.check();
    }

    pub fn no_deferred_work_is_missed() {
        Model { threads: 2, searches: false, defers: true, ..ONE }.check();
    }

    pub fn deferred_work_is_done_concurrently() {
        Model { threads: 2, at_once: 2, together: 2, searches: false, defers: true, ..ONE }.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parked_thread_waits_for_near_timers_and_two_for_far_ones() {
        let parking = Parking::new(3, Clock::system());
        let cover = |at, now| parking.cover(at, now);
        let (_, first) = cover(FAR, 0).unwrap();
        assert!(cover(FAR + 1, 1).is_none(), "the first thread does it");
        let (_, earlier) = cover(FAR - 1, 0).unwrap();
        Parking::uncover(FAR, first);
        assert!(cover(FAR - 1, 0).is_none(), "it is not the first thread's any more");
        Parking::uncover(FAR - 1, earlier);
        let (_, first) = cover(2 * FAR, 0).unwrap();
        let (_, second) = cover(2 * FAR, 0).unwrap();
        assert!(cover(2 * FAR, 0).is_none());
        Parking::uncover(2 * FAR, first);
        Parking::uncover(2 * FAR, second);
        let noted = || parking.covered.iter().map(|at| at.load(Ordering::SeqCst));
        assert!(noted().all(|at| at == Nanos::MAX));
        parking.park(
            0,
            || Some(1),
            || {
                assert!(noted().eq([1, Nanos::MAX]));
                true
            },
        );
        assert!(noted().all(|at| at == Nanos::MAX));
    }

    #[test]
    fn deferred_work_wakes_a_thread_only_if_none_is_on_watch() {
        let parking = Parking::new(2, Clock::system());
        let watch = || parking.watch.0.load(Ordering::SeqCst);
        // No thread is parked.
        parking.work_deferred();
        assert_eq!(watch(), NONE);
        let park = |me, check: &dyn Fn()| {
            parking.park(
                me,
                || None,
                || {
                    check();
                    true
                },
            )
        };
        let woken = park(0, &|| {
            // The other thread.
            parking.watch.rely();
            assert_eq!(watch(), COMING);
        });
        assert_eq!(woken, None);
        park(0, &|| {
            assert_eq!(watch(), WATCHING);
            parking.work_deferred();
            assert_eq!(watch(), RELIED_ON);
            parking.work_deferred();
            assert_eq!(parking.parked.load(Ordering::SeqCst), 1, "no thread was woken");
        });
        assert_eq!(watch(), COMING, "it watches again");
        park(0, &|| assert_eq!(watch(), WATCHING));
        assert_eq!(watch(), NONE, "no thread relied on it");
        parking.watch.rely();
        parking.work_taken();
        assert_eq!(watch(), NONE, "the thread that was coming has taken work");
    }
}
