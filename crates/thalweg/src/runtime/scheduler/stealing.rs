//! Work stealing: one thread a core, each with a queue of cells; a thread whose queue is empty takes from another's.
//!
//! A task that is woken by another goes to the end of the queue of the thread that woke it, and so does a task that
//! has used up its turn: what it has sent is received before it sends more. A thread without work takes half of
//! another's queue. Tasks whose turns are long, as those with slow closures, let the others pass: barriers, watermarks and
//! results would else wait for all of them in each stage. They have half of the time in any case, if no turn is longer than 20 ms.
//!
//! A thread that wakes up does a short burst of work alone: waking another one would take longer than the work. It wakes
//! others for the cells in its queue once their turns and those since it woke up are expected to take longer than
//! [`BURST`] together (see `parking` for what holds if they take longer than expected).

use super::affinity::Affinity;
use super::parking::Parking;
use super::patience::{Patience, SEARCH};
use super::timers::Timers;
use super::{Cell, Next, Schedule, Scheduler};
use crate::clock::{Clock, Nanos};
use crate::error::Result;
use crate::net::Network;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, join_other, lock, spawn};
use std::cell::Cell as ThreadCell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
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
    /// The connections to other hosts, if there are any.
    network: OnceLock<Arc<dyn Network>>,
    shutdown: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// The length, so that checking an empty queue needs no lock.
    len: AtomicUsize,
    /// How long the turns of its cells will take, by those before.
    expected: AtomicU64,
    /// How long the turns of its thread since its last rest have taken. Written by that thread.
    spent: AtomicU64,
    /// When its thread's current turn began; 0 between turns. Written by that thread.
    turn_began: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    /// Those whose turns are usually short.
    short: VecDeque<Arc<Cell>>,
    long: VecDeque<Arc<Cell>>,
    expected: Nanos,
    /// How long those with short turns, taken since the last with a long one, will take.
    passed: Nanos,
}

/// What a thread keeps for itself.
struct Thread {
    me: usize,
    patience: Patience,
    /// While it is pinned to its core: when it woke up there.
    pinned: Option<Nanos>,
    /// How long its turns have taken since it attended to the network.
    unattended: Nanos,
}

/// A thread of a pool, as code on that thread sees it.
#[derive(Clone, Copy)]
struct Worker {
    /// The address of the pool.
    pool: usize,
    index: usize,
    /// Whether it runs a cell. Otherwise it looks at its queue next.
    in_turn: bool,
}

thread_local! {
    static WORKER: ThreadCell<Worker> =
        const { ThreadCell::new(Worker { pool: 0, index: 0, in_turn: false }) };
}

/// How much work a thread that was parked does alone: 50 µs, the time until another one that is woken has joined in.
const BURST: Nanos = 50_000;

/// How late timers may be if a thread that was expected to look at them did not, and how long a turn may take before
/// other threads take the cells queued behind it: 1 ms.
const GRACE: Nanos = 1_000_000;

/// A task with long turns lets others pass for so long at most: 20 ms, as an estimate by a turn that was held up once is much longer
/// than the next one.
const MOST_PASSED: Nanos = 20_000_000;

/// How long a thread that has woken up stays pinned to its core: 1 ms. Not at all if it has rested for longer: the two
/// system calls cost little then, and the closures of a job may ask for the number of cores, or start threads, which
/// inherit the pin.
const AT_HOME: Nanos = 1_000_000;

/// How long a thread runs tasks before it attends to the network: 50 µs.
const ATTENDED: Nanos = 50_000;

/// After so many turns, or after [`GRACE`], cells that a busy thread would never reach go first.
const FAIR: u32 = 64;

impl WorkStealing {
    pub(crate) fn new(threads: usize, turn: usize, clock: Clock) -> Arc<Self> {
        let pool = Pool {
            queues: (0..threads).map(|_| Queue::default()).collect(),
            injected: Queue::default(),
            parking: Parking::new(threads, clock.clone()),
            affinity: Affinity::new(threads),
            timers: Timers::new(),
            clock,
            turn,
            network: OnceLock::new(),
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

    fn attend_to(&self, network: &Arc<dyn Network>) {
        let _ = self.pool.network.set(Arc::clone(network));
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
        // The last handle may be dropped by a task, on a thread of this pool.
        lock(&self.threads).drain(..).for_each(join_other);
    }
}

impl Pool {
    fn schedule(&self, cell: Arc<Cell>) {
        let worker = WORKER.get();
        if worker.pool == std::ptr::from_ref(self).addr() {
            let queue = &self.queues[worker.index];
            queue.push(cell);
            if worker.in_turn {
                self.announce(queue);
            }
        } else {
            self.injected.push_in_order(cell);
            self.parking.work_added();
        }
    }

    /// Makes sure that the cells in a queue run soon.
    fn announce(&self, queue: &Queue) {
        if queue.burst() > BURST { self.parking.work_added() } else { self.parking.work_deferred() }
    }

    /// Announces whatever is in the queues. The thread that filled one may have been preempted by the calling thread,
    /// which it woke, before it could wake another.
    fn announce_all(&self) {
        let mut filled = self.queues.iter().filter(|queue| queue.len() > 0).peekable();
        if self.injected.len() > 0 {
            self.parking.work_added();
        } else if filled.peek().is_some() {
            if filled.any(|queue| queue.burst() > BURST) {
                self.parking.work_added();
            } else {
                self.parking.work_deferred();
            }
        }
    }

    fn work(pool: &Weak<Self>, me: usize) {
        let Some(pool) = pool.upgrade() else { return };
        WORKER.set(Worker { pool: Arc::as_ptr(&pool).addr(), index: me, in_turn: false });
        let mut thread = Thread { me, patience: Patience::new(), pinned: None, unattended: 0 };
        pool.affinity.pin(me);
        pool.affinity.unpin();
        let (mut turns, mut took, mut rested) = (0, 0, true);
        while !pool.shutdown.load(Ordering::Acquire) {
            // Each of them but the first has to be announced.
            rested |= pool.timers.first().is_some() && pool.timers.fire(pool.clock.now());
            let mut waiting = None;
            if turns >= FAIR || took > GRACE {
                (turns, took) = (0, 0);
                waiting = pool.find_starved(me);
                rested |= waiting.is_some();
            }
            let is_starved = waiting.is_some();
            match waiting.or_else(|| pool.find(me)) {
                Some(cell) => {
                    if std::mem::take(&mut rested) {
                        pool.set_attended(true);
                        pool.parking.work_taken();
                        pool.announce_all();
                    }
                    let turn = pool.run(me, cell);
                    // However long it takes, the next one is of its own queue, whose cells would else starve.
                    if !is_starved {
                        (turns, took) = (turns + 1, took + turn);
                    }
                    rested |= pool.attend_after(turn, &mut thread);
                    pool.unpin(&mut thread);
                }
                None if pool.attend(&mut thread) => rested = true,
                None => {
                    pool.rest(&mut thread);
                    rested = true;
                }
            }
        }
    }

    /// Runs a cell; returns about how long it took.
    fn run(&self, me: usize, cell: Arc<Cell>) -> Nanos {
        // A timer must not wait for a long turn.
        if self.timers.first().is_some() {
            self.parking.work_deferred();
        }
        let queue = &self.queues[me];
        let spent = queue.spend(cell.usual_turn());
        let worker = WORKER.get();
        WORKER.set(Worker { in_turn: true, ..worker });
        queue.turn_began.store(self.clock.now(), Ordering::Relaxed);
        let next = cell.run(&self.clock, self.turn);
        queue.turn_began.store(0, Ordering::Relaxed);
        let took = cell.usual_turn();
        queue.spent.store(spent + took, Ordering::Relaxed);
        match next {
            Next::Queue | Next::QueueLast => {
                queue.push(cell);
                // Other threads may take the cells queued before it.
                if queue.len() > 1 {
                    self.announce(queue);
                }
            }
            Next::WakeAt(at) => self.timers.add(at, &cell),
            // The destructor of a task may wake others.
            Next::Nothing | Next::Done => drop(cell),
        }
        WORKER.set(worker);
        took
    }

    /// Attends to the network if the last time was long ago; this turn came since. Returns whether anything had arrived.
    fn attend_after(&self, turn: Nanos, thread: &mut Thread) -> bool {
        thread.unattended += turn;
        thread.unattended >= ATTENDED && self.attend(thread)
    }

    /// Says whether a thread is awake, and attends to the network.
    fn set_attended(&self, attended: bool) {
        if let Some(network) = self.network.get() {
            network.set_attended(attended);
        }
    }

    /// Takes what has arrived from other hosts; returns whether there was anything.
    fn attend(&self, thread: &mut Thread) -> bool {
        thread.unattended = 0;
        let Some(network) = self.network.get() else { return false };
        // Cells that are woken meanwhile are announced at once, as in a turn: there may be much to take.
        let worker = WORKER.get();
        WORKER.set(Worker { in_turn: true, ..worker });
        let any = network.attend();
        WORKER.set(worker);
        any
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

    /// A cell that would starve if all threads that are not blocked always had work in their own queues: an injected one, or
    /// the first in the queue of a thread whose turn takes long, perhaps for ever. Only that one: others would go to the end of
    /// another queue, again and again.
    fn find_starved(&self, me: usize) -> Option<Arc<Cell>> {
        self.injected.pop().or_else(|| {
            let long_ago = self.clock.now().saturating_sub(GRACE);
            let is_stuck = |queue: &&Queue| {
                queue.len() > 0 && (1..long_ago).contains(&queue.turn_began.load(Ordering::Relaxed))
            };
            let threads = self.queues.len();
            let mut others = (1..threads).map(|step| &self.queues[(me + step) % threads]);
            others.find(is_stuck)?.pop()
        })
    }

    fn any_work(&self) -> bool {
        self.injected.len() > 0
            || self.queues.iter().any(|queue| queue.len() > 0)
            || self.shutdown.load(Ordering::Acquire)
    }

    /// When a thread that parks has to look at the timers: when the first is due, or a little later where a thread that
    /// will soon have done its turns looks at them as well.
    fn timers_at(&self) -> Option<Nanos> {
        let first = self.timers.first()?;
        let soon = self.queues.iter().any(|queue| (1..=BURST).contains(&queue.burst()));
        Some(if soon { first.saturating_add(GRACE) } else { first })
    }

    /// Waits for work: searches for a while if that usually pays, then parks.
    fn rest(&self, thread: &mut Thread) {
        self.queues[thread.me].spent.store(0, Ordering::Relaxed);
        let began = self.clock.now();
        if thread.patience.searches() && self.search(thread, began + SEARCH) {
            thread.patience.waited(Some(0));
            return;
        }
        if self.parking.others_rest() {
            self.set_attended(false);
        }
        if self.timers.first().is_some_and(|at| at <= self.clock.now()) {
            return;
        }
        self.pin(thread);
        let any_work = || {
            // Of threads that begin to rest at the same time, none may have seen the others rest above.
            if self.parking.all_parked() {
                self.set_attended(false);
            }
            self.any_work()
        };
        let woken = self.parking.park(thread.me, || self.timers_at(), any_work);
        let now = self.clock.now();
        if thread.pinned.is_some() {
            thread.pinned = Some(now);
            if now.saturating_sub(began) > AT_HOME {
                self.release(thread);
            }
        }
        thread.patience.waited(woken.map(|at| at.saturating_sub(began)));
    }

    /// Searches until this time for a cell or a timer that is due, also in what arrives from other hosts; returns whether there
    /// is one.
    fn search(&self, thread: &mut Thread, until: Nanos) -> bool {
        self.parking.start_searching();
        let mut found = false;
        while !found {
            for _ in 0..64 {
                std::hint::spin_loop();
            }
            let now = self.clock.now();
            if now >= until {
                break;
            }
            // Which may take long: meanwhile others have to be woken for what is added.
            self.parking.stop_searching();
            self.attend(thread);
            self.parking.start_searching();
            found = self.any_work() || self.timers.first().is_some_and(|at| at <= now);
        }
        self.parking.stop_searching();
        found
    }

    /// Pins the thread to its core, where it is to wake up.
    fn pin(&self, thread: &mut Thread) {
        if thread.pinned.is_none() && self.affinity.pin(thread.me) {
            thread.pinned = Some(self.clock.now());
        }
    }

    /// Lets the kernel move a thread that has been busy for a while.
    fn unpin(&self, thread: &mut Thread) {
        if let Some(since) = thread.pinned
            && self.clock.now().saturating_sub(since) > AT_HOME
        {
            self.release(thread);
        }
    }

    fn release(&self, thread: &mut Thread) {
        self.affinity.unpin();
        thread.pinned = None;
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// How long the turns of its thread since its last rest and those of its cells take together.
    fn burst(&self) -> Nanos {
        self.spent.load(Ordering::Relaxed) + self.expected.load(Ordering::Relaxed)
    }

    /// Counts a turn; returns the sum before it.
    fn spend(&self, turn: Nanos) -> Nanos {
        let spent = self.spent.load(Ordering::Relaxed);
        self.spent.store(spent + turn, Ordering::Relaxed);
        spent
    }

    fn push(&self, cell: Arc<Cell>) {
        let mut waiting = lock(&self.waiting);
        waiting.push(cell);
        self.publish(&waiting);
    }

    /// For a queue of which a cell is taken now and then: none passes another.
    fn push_in_order(&self, cell: Arc<Cell>) {
        let mut waiting = lock(&self.waiting);
        waiting.expected += cell.usual_turn();
        waiting.short.push_back(cell);
        self.publish(&waiting);
    }

    fn pop(&self) -> Option<Arc<Cell>> {
        if self.len() == 0 {
            return None;
        }
        let mut waiting = lock(&self.waiting);
        let cell = waiting.pop()?;
        self.publish(&waiting);
        Some(cell)
    }

    /// Takes the older half of another queue; returns the first cell, which is to be run at once.
    fn steal_from(&self, other: &Self) -> Option<Arc<Cell>> {
        if other.len() == 0 {
            return None;
        }
        let mut theirs = lock(&other.waiting);
        let first = theirs.pop()?;
        let taken = theirs.take_half();
        other.publish(&theirs);
        drop(theirs);
        if !taken.is_empty() {
            let mut mine = lock(&self.waiting);
            taken.into_iter().for_each(|cell| mine.push(cell));
            self.publish(&mine);
        }
        Some(first)
    }

    fn publish(&self, waiting: &Waiting) {
        self.expected.store(waiting.expected, Ordering::Relaxed);
        self.len.store(waiting.short.len() + waiting.long.len(), Ordering::SeqCst);
    }
}

impl Waiting {
    fn push(&mut self, cell: Arc<Cell>) {
        self.expected += cell.usual_turn();
        let is_long = cell.has_run() && cell.usual_turn() > GRACE;
        if is_long { self.long.push_back(cell) } else { self.short.push_back(cell) }
    }

    fn pop(&mut self) -> Option<Arc<Cell>> {
        let is_due = |long: &Arc<Cell>| {
            self.short.is_empty() || self.passed > long.usual_turn().min(MOST_PASSED)
        };
        let cell = if self.long.front().is_some_and(is_due) {
            self.passed = 0;
            self.long.pop_front()?
        } else {
            let short = self.short.pop_front()?;
            // The first turn of a task may be of any length.
            self.passed += if short.has_run() { short.usual_turn() } else { 0 };
            short
        };
        self.expected = self.expected.saturating_sub(cell.usual_turn());
        Some(cell)
    }

    /// Takes those that come first, for another queue: half of them, of both kinds, less the one that was taken before.
    fn take_half(&mut self) -> Vec<Arc<Cell>> {
        let (short, long) = (self.short.len() / 2, self.long.len() / 2);
        let taken: Vec<_> = self.short.drain(..short).chain(self.long.drain(..long)).collect();
        let expected: Nanos = taken.iter().map(|cell| cell.usual_turn()).sum();
        self.expected = self.expected.saturating_sub(expected);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Poll, Signals, Task, Turn, Waker};
    use crate::metrics::Report;
    use crate::net::{Hosts, Links};
    use crate::runtime::{Job, TaskCounts};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Runs a closure in each turn.
    struct Calls<F>(F);

    impl<F: FnMut(&Turn<'_>) -> Poll + Send> Task for Calls<F> {
        fn poll(&mut self, turn: &mut Turn<'_>) -> Poll {
            (self.0)(turn)
        }

        fn report(&mut self, _: &mut Report) {}
    }

    type Call = Box<dyn FnMut(&Turn<'_>) -> Poll + Send>;

    /// Starts a job of such tasks on two threads. The wakers are those of the tasks.
    fn start(calls: Vec<Call>, wakers: &[Waker]) -> (Arc<Job>, Arc<WorkStealing>) {
        start_on(2, calls, wakers)
    }

    fn start_on(
        threads: usize,
        calls: Vec<Call>,
        wakers: &[Waker],
    ) -> (Arc<Job>, Arc<WorkStealing>) {
        let clock = Clock::system();
        let pool = WorkStealing::new(threads, 64, clock.clone());
        let (signals, hosts) = (Arc::new(Signals::default()), Arc::new(Hosts::one(2)));
        let links = Links::new(hosts, 0, Arc::clone(&signals));
        let job = Job::new(signals, calls.len(), links);
        let cells = calls.into_iter().enumerate().map(|(index, call)| {
            let (task, on) = (Box::new(Calls(call)), Arc::clone(&pool));
            Cell::new(index, task, Arc::clone(&job), on, Arc::from("test"), clock.now())
        });
        let cells = cells.collect::<Vec<_>>();
        job.set_members(cells.iter().map(|cell| Arc::clone(cell) as _).collect());
        for (waker, cell) in wakers.iter().zip(&cells) {
            waker.set(Arc::clone(cell) as _);
        }
        pool.start(&cells).unwrap();
        (job, pool)
    }

    /// The counts of the tasks of a job that has ended.
    fn ended(job: &Job) -> Vec<TaskCounts> {
        job.wait();
        job.outcome().unwrap();
        job.counted()
    }

    #[test]
    fn a_task_that_postpones_its_timeout_is_woken_by_one_timer() {
        let minute = 60_000_000_000;
        let mut turns = 0;
        let postpones: Call = Box::new(move |turn| {
            turns += 1;
            if turns > 1000 { Poll::Done } else { Poll::WaitUntil(turn.clock.now() + minute) }
        });
        let (job, pool) = start(vec![postpones], &[]);
        while !job.is_over() {
            job.wake_all();
        }
        assert_eq!(ended(&job)[0].times.turns, 1001);
        assert!(pool.pool.timers.len() <= 1);
    }

    #[test]
    fn a_cell_queued_behind_a_turn_that_blocks_runs_although_the_other_thread_is_busy() {
        let (busy_turns, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (blocked, stop) = (channel(), Arc::new(AtomicBool::new(false)));
        let (counts, stops) = (Arc::clone(&busy_turns), Arc::clone(&stop));
        let busy: Call = Box::new(move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            if stops.load(Ordering::SeqCst) { Poll::Done } else { Poll::Again }
        });
        let counts = Arc::clone(&ran);
        let waits: Call = Box::new(move |_| {
            if counts.fetch_add(1, Ordering::SeqCst) == 0 {
                return Poll::Wait;
            }
            let _ = blocked.0.send(());
            Poll::Done
        });
        let wakers = [Waker::default(), Waker::default(), Waker::default()];
        let wake = wakers[1].clone();
        let blocks: Call = Box::new(move |turn| {
            // The third task waits, and the other thread is busy with the first.
            let ready = ran.load(Ordering::SeqCst) > 0 && busy_turns.load(Ordering::SeqCst) > 3;
            if !ready {
                return Poll::WaitUntil(turn.clock.now() + 100_000);
            }
            let seen = busy_turns.load(Ordering::SeqCst);
            while busy_turns.load(Ordering::SeqCst) < seen + 3 {
                std::thread::yield_now();
            }
            wake.wake();
            let answer = blocked.1.recv_timeout(std::time::Duration::from_secs(20));
            stop.store(true, Ordering::SeqCst);
            answer.unwrap();
            Poll::Done
        });
        ended(&start(vec![busy, waits, blocks], &wakers).0);
    }

    const MANY: usize = 100_000_000;
    const LONG_TURNS: usize = 80;

    /// Tasks that sleep in each turn until there were so many turns of them; returns how often they ran and another one did, which
    /// they wake each time, and which goes on by itself if it `is_busy`.
    fn turns_of_long_and_short(threads: usize, long: usize, is_busy: bool) -> (usize, usize) {
        let (slept, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let wakers = vec![Waker::default(); 1];
        let sleeps = |_| -> Call {
            let (slept, wake) = (Arc::clone(&slept), wakers[0].clone());
            Box::new(move |_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                wake.wake();
                let turns = slept.fetch_add(1, Ordering::SeqCst);
                if turns < LONG_TURNS { Poll::Again } else { Poll::Done }
            })
        };
        let (seen, counts) = (Arc::clone(&slept), Arc::clone(&ran));
        let short: Call = Box::new(move |_| {
            let turns = counts.fetch_add(1, Ordering::SeqCst);
            match seen.load(Ordering::SeqCst) < LONG_TURNS {
                // A job in which nothing else ever runs ends too.
                true if is_busy && turns < MANY => Poll::Again,
                true if !is_busy => Poll::Wait,
                _ => Poll::Done,
            }
        });
        let calls = std::iter::once(short).chain((0..long).map(sleeps)).collect();
        ended(&start_on(threads, calls, &wakers).0);
        (slept.load(Ordering::SeqCst), ran.load(Ordering::SeqCst))
    }

    #[test]
    fn a_short_turn_waits_for_one_long_turn_at_most() {
        for threads in [1, 2] {
            let (slept, ran) = turns_of_long_and_short(threads, 8, false);
            assert!(ran * 3 > slept, "on {threads}: {ran} of {slept}");
        }
    }

    #[test]
    fn long_turns_have_half_of_the_time() {
        let (slept, ran) = turns_of_long_and_short(1, 2, true);
        assert!((slept..MANY).contains(&ran), "{ran} of {slept}");
    }

    #[test]
    fn a_cell_without_a_turn_does_not_wait_long_for_its_first() {
        let (begun, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let are_queued = Arc::new(AtomicBool::new(false));
        let call = |of: usize| -> Call {
            let (begun, turns) = (Arc::clone(&begun), Arc::clone(&turns));
            let (are_queued, mut is_new) = (Arc::clone(&are_queued), true);
            Box::new(move |_| {
                begun.fetch_add(usize::from(std::mem::take(&mut is_new)), Ordering::SeqCst);
                if of == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
                if are_queued.load(Ordering::SeqCst) {
                    turns.fetch_add(1, Ordering::SeqCst);
                }
                let all = turns.load(Ordering::SeqCst);
                if begun.load(Ordering::SeqCst) < 20 && all < MANY {
                    Poll::Again
                } else {
                    Poll::Done
                }
            })
        };
        let (job, _pool) = start_on(1, (0..20).map(call).collect(), &[]);
        are_queued.store(true, Ordering::SeqCst);
        ended(&job);
        let turns = turns.load(Ordering::SeqCst);
        assert!(turns < 1000, "{turns} turns");
    }

    #[test]
    fn a_cell_that_was_held_up_once_does_not_wait_for_as_long() {
        let (ran, passed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let own = Arc::clone(&ran);
        let held_up: Call = Box::new(move |_| {
            let turns = own.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(if turns == 0 { 500 } else { 0 }));
            if turns < 20 { Poll::Again } else { Poll::Done }
        });
        let (of_other, own) = (Arc::clone(&ran), Arc::clone(&passed));
        let busy: Call = Box::new(move |turn| {
            let began = turn.clock.now();
            while turn.clock.now() < began + 200_000 {}
            let turns = own.fetch_add(1, Ordering::SeqCst);
            let is_over = of_other.load(Ordering::SeqCst) > 20 || turns > MANY;
            if is_over { Poll::Done } else { Poll::Again }
        });
        ended(&start_on(1, vec![held_up, busy], &[]).0);
        // Half a second and the seven eighths of it each time would be ten thousand.
        let passed = passed.load(Ordering::SeqCst);
        assert!(passed < 4000, "{passed} turns");
    }

    #[test]
    fn a_deferred_cell_runs_although_the_turn_before_it_blocks() {
        // Both tasks have taken short turns, so that the wake-ups of the second one are deferred. Then the first blocks
        // in a turn until the second has run.
        let (request, requests): (Sender<u64>, Receiver<u64>) = channel();
        let (answer, answers) = channel();
        let second: Call = Box::new(move |_| match requests.try_recv() {
            Ok(last) if answer.send(last).is_err() || last == 0 => Poll::Done,
            _ => Poll::Wait,
        });
        let wakers = [Waker::default(), Waker::default()];
        let (wake, mut left) = (wakers[1].clone(), 200_u64);
        let first: Call = Box::new(move |turn| {
            left -= 1;
            request.send(left).unwrap();
            wake.wake();
            // It never returns if no other thread runs the second task meanwhile.
            assert_eq!(answers.recv().unwrap(), left);
            if left == 0 { Poll::Done } else { Poll::WaitUntil(turn.clock.now() + 100_000) }
        });
        ended(&start(vec![first, second], &wakers).0);
    }
}
