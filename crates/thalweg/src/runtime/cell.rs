//! A cell: a task with its scheduling state.
//!
//! ```text
//!              wake                    run
//!    idle ────────────> queued ────────────────> running ──────> done
//!     ^                   ^                      │  │  ^
//!     │                   └──── more to do ──────┘  │  │ wake: notified
//!     └──────────────── nothing to do ──────────────┘  │
//!                        └─── but notified: queued ────┘
//! ```
//!
//! A cell is in at most one queue and runs on at most one thread, however often and from whichever thread it is
//! woken. A wake-up while it runs makes it run once more, so that it sees whatever changed after it had looked.

use super::counts::{TaskCounts, TaskTimes};
use super::job::{Job, Member};
use super::running::{self, Running};
use crate::clock::{Clock, Nanos};
use crate::error::Error;
use crate::flow::{Poll, Task, Turn, Wake, catch};
use crate::metrics::Report;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Condvar, Mutex, Ordering, lock};
use std::sync::{Arc, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// A task of a job.
pub(crate) struct Cell {
    me: Weak<Cell>,
    life: Life,
    body: Mutex<Body>,
    job: Arc<Job>,
    scheduler: Arc<dyn Schedule>,
    index: usize,
    /// The operators of its stage, for errors that name no operator.
    operators: Arc<str>,
    request: CountsRequest,
    usual_turn: UsualTurn,
    /// The time of its first timer; `Nanos::MAX` without one.
    armed: AtomicU64,
}

/// Queues cells that are woken.
pub(crate) trait Schedule: Send + Sync {
    /// Queues a cell that was woken and is in no queue.
    fn schedule(&self, cell: Arc<Cell>);
}

/// A request for the counts of a running task: the task reports them at the end of its turn. Waiting for the cell's
/// lock instead could starve, since a busy task takes it again before a waiting thread has woken.
#[derive(Default)]
struct CountsRequest {
    pending: AtomicBool,
    answer: Mutex<Option<TaskCounts>>,
    answered: Condvar,
}

/// How long a request waits before it tries the lock again: the task may have gone idle just before the request.
const RETRY: Duration = Duration::from_millis(5);

/// What a cell's scheduler does with it next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Run it again soon.
    Queue,
    /// Run it again after those that are queued.
    QueueLast,
    /// Leave it until it is woken.
    Nothing,
    /// Leave it until it is woken, or until this time.
    WakeAt(Nanos),
    /// Drop it.
    Done,
}

struct Body {
    task: Option<Box<dyn Task>>,
    times: TaskTimes,
    /// When the job was started.
    began: Nanos,
    /// When the last turn ended; the task has waited for `waits_for` since.
    since: Nanos,
    waits_for: WaitsFor,
}

#[derive(Clone, Copy)]
enum WaitsFor {
    Thread,
    Input,
    Receiver,
}

impl Cell {
    pub(crate) fn new(
        index: usize,
        task: Box<dyn Task>,
        job: Arc<Job>,
        scheduler: Arc<dyn Schedule>,
        operators: Arc<str>,
        now: Nanos,
    ) -> Arc<Self> {
        let body = Body {
            task: Some(task),
            times: TaskTimes::default(),
            began: now,
            since: now,
            waits_for: WaitsFor::Thread,
        };
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            life: Life::new(),
            body: Mutex::new(body),
            job,
            scheduler,
            index,
            operators,
            request: CountsRequest::default(),
            usual_turn: UsualTurn::new(),
            armed: AtomicU64::new(Nanos::MAX),
        })
    }

    /// The task's number in its job.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Whether it has had a turn.
    pub(crate) fn has_run(&self) -> bool {
        self.usual_turn.get() != UsualTurn::UNKNOWN
    }

    /// How long its next turn will take, by those before; long if there was none.
    pub(crate) fn usual_turn(&self) -> Nanos {
        self.usual_turn.get()
    }

    /// Arms it for this time, unless it is armed for that or an earlier one; returns whether it was not.
    pub(crate) fn arm(&self, at: Nanos) -> bool {
        self.armed.fetch_min(at, Ordering::Relaxed) > at
    }

    /// Disarms it, if it is armed for this time; returns whether it was.
    pub(crate) fn disarm(&self, at: Nanos) -> bool {
        let armed =
            self.armed.compare_exchange(at, Nanos::MAX, Ordering::Relaxed, Ordering::Relaxed);
        armed.is_ok()
    }

    /// Runs one turn. The caller is the scheduler that took the cell from a queue.
    pub(crate) fn run(&self, clock: &Clock, budget: usize) -> Next {
        self.life.run();
        let _running = Running::turn(self.job.signals(), &self.scheduler);
        let mut body = lock(&self.body);
        if self.job.signals().stopped() {
            return self.end(&mut body);
        }
        let began = clock.now();
        body.wait_until(began);
        let Some(task) = &mut body.task else { return Next::Done };
        let mut turn = Turn::new(clock, (began, self.usual_turn()), budget, self.job.signals());
        let polled = catch(|| task.poll(&mut turn));
        let (back_pressured, passed) = (turn.back_pressured, turn.passed);
        let ended = clock.now();
        let took = ended.saturating_sub(began);
        body.turn(ended, took, back_pressured);
        self.usual_turn.record(took);
        let poll = polled.unwrap_or_else(|panic| {
            self.fail(panic);
            Poll::Done
        });
        if let Some(epoch) = passed {
            self.job.passed(self.index, epoch);
        }
        if self.request.pending.load(Ordering::Relaxed) {
            self.answer_request(&mut body);
        }
        if self.job.signals().stopped() {
            self.job.wake_all();
            return self.end(&mut body);
        }
        match poll {
            Poll::Done => self.end(&mut body),
            Poll::Again => {
                body.waits_for = WaitsFor::Thread;
                self.life.queue_again();
                Next::Queue
            }
            Poll::Later => {
                body.waits_for = WaitsFor::Thread;
                self.life.queue_again();
                Next::QueueLast
            }
            Poll::Wait | Poll::WaitUntil(_) if !self.life.rest() => {
                body.waits_for = WaitsFor::Thread;
                Next::Queue
            }
            Poll::Wait => Next::Nothing,
            Poll::WaitUntil(at) => Next::WakeAt(at),
        }
    }

    /// Fails the job with a panic. Adds the operators of the stage where the panic came from code outside an
    /// operator's closures, such as a record's `clone` or destructor.
    fn fail(&self, panic: Error) {
        self.job.fail(panic.in_operator(&*self.operators));
    }

    /// Fails its job.
    pub(crate) fn fail_job(&self, error: Error) {
        self.job.fail(error);
    }

    /// Drops the task and everything that it owns.
    fn end(&self, body: &mut Body) -> Next {
        if let Some(counted) = self.counted(body) {
            let task = body.task.take();
            if let Err(panic) = catch(|| drop(task)) {
                self.fail(panic);
            }
            self.life.end();
            self.job.one_ended(self.index, counted);
        }
        Next::Done
    }

    /// Ends a task that its scheduler could not start. The job has failed.
    pub(crate) fn abandon(&self) {
        self.end(&mut lock(&self.body));
    }

    /// The counts of the task, unless it has ended.
    fn counted(&self, body: &mut Body) -> Option<TaskCounts> {
        let task = body.task.as_mut()?;
        let mut report = Report::default();
        // Operators may run the program's code while they report.
        if let Err(panic) = catch(|| task.report(&mut report)) {
            self.fail(panic);
        }
        Some(TaskCounts { times: body.times.clone(), report })
    }

    #[cold]
    fn answer_request(&self, body: &mut Body) {
        self.request.pending.store(false, Ordering::Relaxed);
        let counted = self.counted(body);
        *lock(&self.request.answer) = counted;
        self.request.answered.notify_one();
    }
}

impl Member for Cell {
    fn counts_within(&self, at_most: Duration) -> Result<Option<TaskCounts>, Arc<str>> {
        *lock(&self.request.answer) = None;
        let mut waited = Duration::ZERO;
        loop {
            match self.body.try_lock() {
                Ok(mut body) => return Ok(self.counted(&mut body)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Ok(self.counted(&mut poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) if running::is_in_turn() => return Ok(None),
                Err(TryLockError::WouldBlock) if waited >= at_most => {
                    return Err(Arc::clone(&self.operators));
                }
                Err(TryLockError::WouldBlock) => waited = waited.saturating_add(RETRY),
            }
            self.request.pending.store(true, Ordering::Relaxed);
            let answer = lock(&self.request.answer);
            let waited = self.request.answered.wait_timeout(answer, RETRY);
            let (mut answer, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if let Some(counted) = answer.take() {
                return Ok(Some(counted));
            }
        }
    }
}

impl Body {
    fn wait_until(&mut self, now: Nanos) {
        let waited = now.saturating_sub(self.since);
        match self.waits_for {
            WaitsFor::Thread => self.times.queued += waited,
            WaitsFor::Input => self.times.idle += waited,
            WaitsFor::Receiver => self.times.back_pressured += waited,
        }
    }

    fn turn(&mut self, ended: Nanos, took: Nanos, back_pressured: bool) {
        self.since = ended;
        self.times.until = ended.saturating_sub(self.began);
        self.times.busy += took;
        self.times.turns += 1;
        self.times.turn_lengths.record(Duration::from_nanos(took));
        self.waits_for = if back_pressured { WaitsFor::Receiver } else { WaitsFor::Input };
    }
}

/// An estimate of the length of a task's next turn: at once as long as a long turn, and slowly shorter after it.
struct UsualTurn(AtomicU64);

impl UsualTurn {
    /// Before the first turn: longer than any wait that would be worth avoiding.
    const UNKNOWN: Nanos = 1_000_000_000;

    fn new() -> Self {
        Self(AtomicU64::new(Self::UNKNOWN))
    }

    fn get(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    /// Called by the thread that runs the task.
    fn record(&self, took: Nanos) {
        let usual = self.get();
        let next = match usual {
            Self::UNKNOWN => took,
            _ => took.max(usual - usual.saturating_sub(took) / 8),
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

impl Wake for Cell {
    fn wake(&self) {
        if self.life.wake()
            && let Some(me) = self.me.upgrade()
        {
            self.scheduler.schedule(me);
        }
    }
}

/// The state machine shown at the top of this module.
pub(crate) struct Life(AtomicU8);

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const NOTIFIED: u8 = 3;
const DONE: u8 = 4;

impl Life {
    /// Queued, as every cell is when its job starts.
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(QUEUED))
    }

    /// Returns whether the caller must put the cell into a queue.
    pub(crate) fn wake(&self) -> bool {
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let to = match now {
                IDLE => QUEUED,
                RUNNING => NOTIFIED,
                // Writes the same state again: the thread that takes the cell from its queue then sees everything
                // that happened before this wake-up.
                QUEUED => QUEUED,
                NOTIFIED => NOTIFIED,
                _ => return false,
            };
            match self.0.compare_exchange_weak(now, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return now == IDLE,
                Err(other) => now = other,
            }
        }
    }

    fn run(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
    }

    fn queue_again(&self) {
        self.0.swap(QUEUED, Ordering::AcqRel);
    }

    /// Goes idle, unless the task was woken meanwhile: then it is queued, and this returns `false`.
    fn rest(&self) -> bool {
        let rested =
            self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !rested {
            self.queue_again();
        }
        rested
    }

    fn end(&self) {
        self.0.store(DONE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_expected_at_once_and_forgotten_slowly() {
        let usual = UsualTurn::new();
        assert_eq!(usual.get(), UsualTurn::UNKNOWN);
        usual.record(100);
        assert_eq!(usual.get(), 100);
        usual.record(80_000);
        assert_eq!(usual.get(), 80_000);
        usual.record(0);
        assert_eq!(usual.get(), 70_000);
        (0..100).for_each(|_| usual.record(100));
        assert!((100..110).contains(&usual.get()), "{}", usual.get());
    }
}

#[cfg(loom)]
pub mod models {
    use super::*;
    use crate::sync::AtomicUsize;
    use loom::sync::Arc;
    use loom::thread;

    /// A cell's life, with work that arrives together with wake-ups, and a queue.
    struct World {
        life: Life,
        work: AtomicUsize,
        done: AtomicUsize,
        queued: AtomicUsize,
        running: AtomicBool,
    }

    impl World {
        fn add_work(&self) {
            self.work.fetch_add(1, Ordering::Relaxed);
            if self.life.wake() {
                self.queue();
            }
        }

        fn queue(&self) {
            let before = self.queued.fetch_add(1, Ordering::AcqRel);
            assert_eq!(before, 0, "in two queues");
        }

        /// Runs the cell if it is queued.
        fn run(&self) {
            let take = |queued: usize| queued.checked_sub(1);
            if self.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_err() {
                return;
            }
            assert!(!self.running.swap(true, Ordering::AcqRel), "on two threads");
            self.life.run();
            let found = self.work.swap(0, Ordering::Relaxed);
            self.done.fetch_add(found, Ordering::Relaxed);
            self.running.store(false, Ordering::Release);
            if !self.life.rest() {
                self.queue();
            }
        }
    }

    pub fn work_added_at_any_moment_is_done_once() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let world = Arc::new(World {
                life: Life::new(),
                work: AtomicUsize::new(0),
                done: AtomicUsize::new(0),
                queued: AtomicUsize::new(1),
                running: AtomicBool::new(false),
            });
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || {
                        world.add_work();
                        world.run();
                    })
                })
                .collect();
            world.run();
            for thread in threads {
                thread.join().unwrap();
            }
            // The last wake-up left the cell queued, or the cell has run since.
            while world.queued.load(Ordering::Acquire) > 0 {
                world.run();
            }
            assert_eq!(world.done.load(Ordering::Relaxed), 2);
        });
    }
}
