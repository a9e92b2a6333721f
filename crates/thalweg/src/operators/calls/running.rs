//! An operator that makes calls, in a running task.
//!
//! Records wait in a backlog until their call may start, and the result of a call waits in the line until
//! everything that precedes it has been emitted. The backlog accepts one delivery of records, and the input is
//! blocked until it is empty: this is the back-pressure of slow calls. Calls continue while receivers are slow,
//! as far as the bound allows, since other tasks may wait for their permits.
//!
//! Where barriers pass while calls are in flight (`saved.rs`), the backlog accepts a chunk of records, and while a barrier is on its way,
//! also what comes in front of it, as far as the memory budget and a bound allow: otherwise the barrier would wait for as many calls.

use super::failed::{FailedCall, Problem};
use super::order::{Line, Ticket};
use super::permits::{Desk, Permit, Permits};
use super::saved::{Keep, Keeping};
use super::side_output::OnFailure;
use crate::clock::{Clock, Nanos, nanos};
use crate::error::Result;
use crate::fault::{Fault, is_planted};
use crate::flow::{CHUNK, Epoch, Event, Flow, Forked, Op, Pipe, Push, guard, pump};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::side_outlet::MaybeSideOutput;
use crate::plan::{TaskContext, TieKind};
use crate::stream::Chain;
use crate::support::passed_time::PassedTime;
use crate::time::Time;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes that a task accepts in front of a barrier, beyond a chunk of records.
const IN_FRONT_OF_BARRIER: usize = 32 << 20;
/// In which steps they are reserved.
const RESERVED: usize = 64 << 10;

/// The slot of a call that has ended, and its result.
pub(super) type Finished<O, E> = (usize, Result<O, E>);

/// Makes the runner of a task's calls.
pub(super) trait Make<D>: Send + 'static {
    /// The runner.
    type Run: Run<D> + 'static;

    /// Makes the runner of a task.
    fn make(&self, cx: &TaskContext<'_>) -> Self::Run;
}

/// Runs the calls of a task, each in a slot that the caller numbers.
pub(super) trait Run<D>: Send {
    /// The result of a call.
    type Out: Send + 'static;
    /// The error of a call that fails.
    type Error: Display + Send + 'static;

    /// Starts a call in a free slot. The permit is dropped when the call no longer runs.
    fn start(&mut self, op: &Op, at: usize, item: D, permit: Permit) -> Result<()>;

    /// Adds the calls that have ended.
    fn finished(&mut self, op: &Op, finished: &mut Vec<Finished<Self::Out, Self::Error>>);

    /// Abandons a call whose result is no longer needed.
    fn abandon(&mut self, op: &Op, at: usize);
}

/// The configuration of calls.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The bound of calls that may run at once, and that a task may have in its line.
    pub(super) most: usize,
    pub(super) ordered: bool,
    pub(super) timeout: Option<Duration>,
    /// The most attempts of a call.
    pub(super) attempts: u32,
    /// The delay after the first attempt; it doubles after each further one.
    pub(super) backoff: Duration,
}

impl Rules {
    /// The delay after this many attempts.
    fn rest_after(&self, attempts: u32) -> Nanos {
        let doubled = attempts.saturating_sub(1).min(32);
        nanos(self.backoff).saturating_mul(1 << doubled)
    }
}

/// The chain that ends in an operator that makes calls.
pub(super) struct Calling<C: Chain, D, M, L> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) rules: Rules,
    pub(super) permits: Arc<Permits>,
    pub(super) keep: Keep<D, C::Time>,
    pub(super) make: M,
    /// The side output of calls that have failed, if there is one.
    pub(super) failed: L,
}

impl<C, D, M, L> Chain for Calling<C, D, M, L>
where
    C: Chain<Item = D>,
    D: Send + 'static,
    M: Make<D>,
    L: MaybeSideOutput<FailedCall<D>, C::Time, Outlet: OnFailure<D>>,
{
    type Item = <M::Run as Run<D>>::Out;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<CallingPush<D, C::Time, M::Run, L::Outlet, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        self.permits.join(cx.links, cx.tie(TieKind::Permits, self.op)?.part());
        let (op, rules) = (cx.op(self.op), self.rules.clone());
        let (keeping, before) =
            Keeping::new(cx, &op, &self.keep, (rules.attempts > 1, rules.ordered))?;
        let mut push = CallingPush {
            op,
            clock: cx.clock.clone(),
            desk: self.permits.desk(cx.task, cx.waker.clone()),
            keeping,
            run: self.make.make(cx),
            slots: Vec::new(),
            free: Vec::new(),
            again: VecDeque::new(),
            timers: BTreeSet::new(),
            backlog: VecDeque::new(),
            // A result that overtakes the change of a partition would give its time to another one.
            line: Line::new(rules.ordered || cx.partitions.is_timed()),
            rules,
            finished: Vec::new(),
            barrier: None,
            epoch: Epoch::default(),
            beyond: 0,
            reserved: cx.modest(self.op),
            began_with: before.len() as u64,
            closing: false,
            failed: false,
            emitted: 0,
            passed: PassedTime::default(),
            ends: Forked((next, self.failed.outlet(cx, self.op))),
            types: PhantomData,
        };
        before.into_iter().for_each(|(record, time)| push.accept(record, time));
        self.prev.attach(cx, push)
    }
}

/// An operator that makes calls, in a running task.
pub(super) struct CallingPush<D, T, X: Run<D>, L, N> {
    op: Op,
    rules: Rules,
    clock: Clock,
    desk: Desk,
    keeping: Keeping<D, T>,
    run: X,
    slots: Vec<Slot<D, T>>,
    /// Slots without a call.
    free: Vec<usize>,
    /// Slots whose calls are to be retried, with the delay over.
    again: VecDeque<usize>,
    /// The timeouts, and the ends of retry delays, by slot.
    timers: BTreeSet<(Nanos, usize)>,
    /// Records whose call has not been started.
    backlog: VecDeque<Unbegun<D, T>>,
    line: Line<Ended<X::Out, D, T>>,
    finished: Vec<Finished<X::Out, X::Error>>,
    /// A barrier that passes in front of the results.
    barrier: Option<Event>,
    /// The last barrier that has arrived.
    epoch: Epoch,
    /// The bytes of the records that were added to the backlog since there was a chunk, and where they are reserved.
    beyond: usize,
    reserved: Reservation,
    /// The number of records of a checkpoint that it began with.
    began_with: u64,
    /// Whether an event that waits for all calls is in the line: no record may be added behind it.
    closing: bool,
    /// Whether the job is being stopped.
    failed: bool,
    emitted: u64,
    passed: PassedTime,
    ends: Forked<(N, L)>,
    types: PhantomData<fn(&D)>,
}

type Outcome<O, D> = Result<O, FailedCall<D>>;

/// A record whose call has not been started.
struct Unbegun<D, T> {
    ticket: Ticket,
    record: D,
    time: T,
}

/// A call that has ended, and whose result has not been emitted.
struct Ended<O, D, T> {
    outcome: Outcome<O, D>,
    time: T,
    /// The record of a call that has succeeded, where barriers may pass before its result.
    record: Option<D>,
}

impl<O, D, T: Copy> Ended<O, D, T> {
    /// The record and its time, where it was kept.
    fn kept(&self) -> Option<(&D, T)> {
        let record = match &self.outcome {
            Ok(_) => self.record.as_ref()?,
            Err(call) => &call.record,
        };
        Some((record, self.time))
    }
}

/// One record's call, over all of its attempts.
struct Slot<D, T> {
    ticket: Ticket,
    time: T,
    /// The record, kept for another attempt, for the side output or for checkpoints.
    record: Option<D>,
    /// Attempts that have been started.
    attempts: u32,
    running: bool,
    /// When its timer fires.
    due: Option<Nanos>,
}

impl<D, T, X, L, N> CallingPush<D, T, X, L, N>
where
    D: Send + 'static,
    T: Time,
    X: Run<D>,
    L: Push<FailedCall<D>, T> + OnFailure<D>,
    N: Push<X::Out, T>,
{
    fn set_timer(&mut self, at: usize, due: Nanos) {
        self.slots[at].due = Some(due);
        self.timers.insert((due, at));
    }

    fn stop_timer(&mut self, at: usize) {
        if let Some(due) = self.slots[at].due.take() {
            self.timers.remove(&(due, at));
        }
    }

    /// Handles the timers that are due: abandons calls that take too long, and queues retries.
    fn expire(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.clock.now();
        while let Some(&(due, at)) = self.timers.first()
            && due <= now
            && !self.failed
        {
            self.stop_timer(at);
            match self.rules.timeout {
                Some(timeout) if self.slots[at].running => {
                    self.run.abandon(&self.op, at);
                    self.fell(at, Problem::TookLonger(timeout));
                }
                _ => self.again.push_back(at),
            }
        }
    }

    /// Collects the results of calls that have ended; returns how many.
    fn collect(&mut self) -> usize {
        let mut finished = std::mem::take(&mut self.finished);
        self.run.finished(&self.op, &mut finished);
        let count = finished.len();
        for (at, result) in finished.drain(..) {
            self.stop_timer(at);
            match result {
                Ok(out) => self.end(at, Ok(out)),
                Err(error) if !self.failed => self.fell(at, Problem::Error(error)),
                Err(_) => {}
            }
        }
        self.finished = finished;
        count
    }

    /// Handles a failed attempt: schedules another one, or fails the call for good.
    fn fell(&mut self, at: usize, problem: Problem<X::Error>) {
        let slot = &mut self.slots[at];
        slot.running = false;
        if slot.attempts < self.rules.attempts && slot.record.is_some() {
            let rested = self.rules.rest_after(slot.attempts);
            self.set_timer(at, self.clock.now().saturating_add(rested));
            return;
        }
        let Forked((_, failures)) = &self.ends;
        match failures.failed(&self.op, slot.record.take(), slot.attempts, problem) {
            Some(call) => self.end(at, Err(call)),
            None => self.failed = true,
        }
    }

    fn end(&mut self, at: usize, outcome: Outcome<X::Out, D>) {
        let slot = &mut self.slots[at];
        slot.running = false;
        let record = slot.record.take().filter(|_| self.keeping.passes());
        self.line.end(slot.ticket, Ended { outcome, time: slot.time, record });
        self.free.push(at);
    }

    /// Starts the calls that may start; returns how many.
    fn start(&mut self) -> usize {
        let mut started = 0;
        while !self.failed {
            let begun = self.line.calls() - self.backlog.len();
            let fresh = !self.backlog.is_empty() && begun < self.rules.most;
            if self.again.is_empty() && !fresh {
                break;
            }
            let Some(permit) = self.desk.take() else { break };
            let (at, record) = match self.again.pop_front() {
                Some(at) => (at, self.slots[at].record.take()),
                None => self.begin(),
            };
            let Some(record) = record else { break };
            self.slots[at].attempts += 1;
            self.slots[at].running = true;
            self.slots[at].record = guard(&self.op, || self.keeping.clone(&record));
            if let Some(timeout) = self.rules.timeout {
                self.set_timer(at, self.clock.now().saturating_add(nanos(timeout)));
            }
            if let Err(error) = self.run.start(&self.op, at, record, permit) {
                self.op.fail(error);
                self.failed = true;
            }
            started += 1;
        }
        started
    }

    /// Adds a record to the backlog, and to the line.
    #[inline(always)]
    fn accept(&mut self, record: D, time: T) {
        if self.keeping.passes() && self.backlog.len() >= CHUNK {
            self.add_beyond(&record);
        }
        let ticket = self.line.begin();
        self.backlog.push_back(Unbegun { ticket, record, time });
    }

    #[cold]
    fn add_beyond(&mut self, record: &D) {
        let fixed = size_of::<Unbegun<D, T>>() + size_of::<Ended<X::Out, D, T>>();
        self.beyond += fixed + self.keeping.heap_size(record);
        // What has come is kept, also if it is refused: there is no more then.
        if self.beyond > self.reserved.bytes()
            && !self.reserved.try_resize(self.beyond.next_multiple_of(RESERVED))
        {
            self.beyond = self.beyond.max(IN_FRONT_OF_BARRIER);
        }
    }

    /// There is less than a chunk of records.
    #[cold]
    fn none_beyond(&mut self) {
        self.beyond = 0;
        // Shrinking always succeeds.
        let _ = self.reserved.try_resize(0);
    }

    /// Assigns a slot to the next record.
    fn begin(&mut self) -> (usize, Option<D>) {
        let Some(Unbegun { ticket, record, time }) = self.backlog.pop_front() else {
            return (0, None);
        };
        if self.beyond > 0 && self.backlog.len() < CHUNK {
            self.none_beyond();
        }
        let slot = Slot { ticket, time, record: None, attempts: 0, running: false, due: None };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        (at, Some(record))
    }

    /// Emits the results and events that may be emitted; returns how many results, and why others were not.
    fn hand_on(&mut self) -> (usize, Flow) {
        if let Some(event) = self.barrier {
            match self.ends.resume() {
                Flow::Ready => self.pass(event),
                flow => return (0, flow),
            }
            (self.barrier, self.closing) = (None, false);
        }
        let mut handed = 0;
        loop {
            let Self { line, ends, emitted, .. } = self;
            let flow = pump(ends, |Forked((next, failures))| {
                let Some(Ended { outcome, time, .. }) = line.take_result() else { return false };
                match outcome {
                    Ok(out) => {
                        *emitted += 1;
                        next.push(out, time);
                    }
                    Err(call) => failures.push(call, time),
                }
                handed += 1;
                true
            });
            if flow != Flow::Ready {
                return (handed, flow);
            }
            let Some(event) = line.take_event() else { return (handed, flow) };
            if waits_for_all(event) {
                self.closing = false;
            }
            // What the line still has says that the stream is not idle any more.
            if event != Event::Idle || !self.line.has_watermark() {
                self.pass(event);
            }
        }
    }

    /// Passes an event on, and saves the records whose results it overtakes.
    fn pass(&mut self, event: Event) {
        self.keeping.save(event, || {
            let ended = self.line.ended().filter_map(|(at, ended)| Some((at, ended.kept()?)));
            let under_way = self
                .slots
                .iter()
                .filter_map(|slot| Some((slot.ticket, (slot.record.as_ref()?, slot.time))));
            let unbegun = self.backlog.iter().map(|of| (of.ticket, (&of.record, of.time)));
            let mut records: Vec<_> = ended.chain(under_way).chain(unbegun).collect();
            records.sort_by_key(|(ticket, _)| *ticket);
            if is_planted(Fault::ForgetsCalls) {
                records.clear();
            }
            records.into_iter().map(|(_, record)| record)
        });
        self.passed.pass(event);
        self.ends.event(event);
    }

    /// Whether there are records whose results have not been emitted.
    fn has_calls(&self) -> bool {
        self.line.calls() > 0
    }

    /// Whether further input may come.
    fn has_room(&self) -> bool {
        let most = if self.keeping.passes() { CHUNK } else { 1 };
        !self.closing && (self.backlog.len() < most || self.expects_barrier())
    }

    /// Whether all barriers that were requested have passed, although there are records whose calls have not begun.
    fn has_passed_all(&self) -> bool {
        self.keeping.passes() && !self.closing && self.epoch == self.op.signals().epoch()
    }

    /// Whether a barrier is on its way that will not wait for calls, and what comes in front of it is accepted.
    fn expects_barrier(&self) -> bool {
        let signals = self.op.signals();
        self.keeping.passes()
            && self.beyond < IN_FRONT_OF_BARRIER
            && self.epoch < signals.epoch()
            && !signals.is_last_barrier(signals.epoch())
    }

    /// Drops all calls, as no receiver needs their results.
    #[cold]
    fn give_up(&mut self) {
        for at in 0..self.slots.len() {
            self.stop_timer(at);
            if self.slots[at].running {
                self.run.abandon(&self.op, at);
            }
        }
        self.slots.clear();
        self.free.clear();
        self.again.clear();
        self.backlog.clear();
        self.none_beyond();
        self.line.forget_calls();
        self.desk.leave();
    }
}

/// Whether no record may be added behind an event before it has been emitted.
fn waits_for_all(event: Event) -> bool {
    matches!(event, Event::Barrier(_) | Event::Round(_) | Event::End)
}

impl<D, T, X, L, N> Pipe for CallingPush<D, T, X, L, N>
where
    D: Send + 'static,
    T: Time,
    X: Run<D>,
    L: Push<FailedCall<D>, T> + OnFailure<D>,
    N: Push<X::Out, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn event(&mut self, event: Event) {
        if self.failed {
            return;
        }
        self.closing |= waits_for_all(event);
        if let Event::Barrier(epoch) = event {
            self.epoch = epoch;
            if self.keeping.passes() && !self.op.signals().is_last_barrier(epoch) {
                self.barrier = Some(event);
                return;
            }
        }
        if let Some(resumes) = self.passed.hold(event) {
            self.ends.event(resumes);
        }
        self.line.event(event);
    }

    fn resume(&mut self) -> Flow {
        let mut left = CHUNK;
        loop {
            if self.has_calls() && self.ends.is_closed() {
                self.give_up();
            }
            // A call that has ended counts as ended, even if that is noticed after its timeout.
            let mut moved = self.collect();
            self.expire();
            moved += self.start();
            if self.failed {
                // The job has failed and stops at the end of the turn: pending output is not emitted.
                self.give_up();
                return Flow::Ready;
            }
            let (handed, flow) = self.hand_on();
            // New calls have not been polled, and emitted results make room for others.
            if moved + handed > 0 {
                left = left.saturating_sub(moved + handed);
                if left == 0 {
                    return Flow::Busy;
                }
                continue;
            }
            // Nothing was emitted because no receiver needs more.
            if flow == Flow::Ready && self.has_calls() && self.ends.is_closed() {
                continue;
            }
            return match flow {
                Flow::Ready | Flow::Paused if self.has_room() => flow,
                Flow::Ready | Flow::Paused if self.has_passed_all() => Flow::Paused,
                Flow::Busy => Flow::Busy,
                // A timer may fire before a receiver has room.
                Flow::Blocked if self.timers.is_empty() => Flow::Blocked,
                _ => Flow::Waiting,
            };
        }
    }

    fn is_full(&mut self) -> bool {
        (self.backlog.len() >= CHUNK && !self.expects_barrier()) || self.ends.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.failed || self.ends.is_closed()
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        // A timer that has become due since the last check is handled soon.
        let due = self.timers.first().map(|&(due, _)| due.max(now.saturating_add(1)));
        self.ends.idle(now).into_iter().chain(due).min()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        report.began_with(self.op.id(), self.began_with);
        report.in_flight(self.op.id(), self.line.calls() as u64);
        self.ends.report(report);
    }
}

impl<D, T, X, L, N> Push<D, T> for CallingPush<D, T, X, L, N>
where
    D: Send + 'static,
    T: Time,
    X: Run<D>,
    L: Push<FailedCall<D>, T> + OnFailure<D>,
    N: Push<X::Out, T>,
{
    #[inline(always)]
    fn push(&mut self, item: D, time: T) {
        if !self.failed {
            self.accept(item, time);
        }
    }
}
