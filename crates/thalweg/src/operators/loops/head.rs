//! The head of a loop: passes each round its input, and waits for the decision after it.
//!
//! A stream from outside the loop that has not ended brings barriers into the body within the first round. They are torn: there
//! is no checkpoint. But where the results of the loop are merged with another stream, the merge waits for the same barrier
//! from every head, and holds that stream back meanwhile. If the stream that the round waits for has the same source, the job
//! would hang. So heads let torn barriers through, once their host has learned that they are torn: while a round runs, to the
//! operators behind the loop; before a round, heads of an inner loop also to the body.
//!
//! No other operator waits with a barrier for a stream that the barrier holds back:
//!
//! * `connect`, `connect_after`, joins by a table and `zip` align both inputs in one place, and read the input that they do not
//!   need yet while a lane of the other is held (`exchange/pair.rs`).
//! * Sorted merges: senders emit after the end of their input, behind which there are no barriers (`Align::pass_events`).
//! * `aligned` watermarks: tasks do not wait for others while a barrier is pending (`operators/time/assign.rs`). In bodies of
//!   loops they do, but such jobs have no checkpoints.
//! * `cache`: there are no checkpoints.
//! * Bundled lanes align on arrival, and do not report torn barriers: a torn barrier comes into a body through a stream from
//!   outside, which reports it.

use super::control::{Control, Needs, Verdict};
use super::hosts::Gathering;
use super::outcome::Outcome;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::Clock;
use crate::data::{Data, Record};
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Depth, Epoch, Event, Flow, Forked, Op, Pipe, Push, pump};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext, TieKind};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The input of a loop's rounds, in a running task.
pub trait Input<I: Record + ?Sized, T: Time>: Send + 'static {
    /// The records that the body gets.
    type Out: Record + ?Sized;
    /// Where the records that are left after the last round go.
    #[doc(hidden)]
    type Left: Pipe + 'static;

    /// Whether the first round begins while the input is still arriving, in jobs without checkpoints.
    #[doc(hidden)]
    const AT_ONCE: bool;

    /// Whether the first round waits until the input of every task is complete, in all jobs.
    #[doc(hidden)]
    const AFTER_ALL: bool = false;

    /// Accepts a record of the loop's input.
    #[doc(hidden)]
    fn take<N: Push<Self::Out, T>>(&mut self, item: I::Of<'_>, time: T, next: &mut N)
    -> Result<()>;

    /// Called when the input is complete.
    #[doc(hidden)]
    fn complete(&mut self) -> Result<()>;

    /// Called when the head resumes. Writes records of other hosts to disk for which there is no memory.
    #[doc(hidden)]
    fn tend(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether all records that were fed back in the round that has ended are there.
    #[doc(hidden)]
    fn has_come(&self) -> bool {
        true
    }

    /// Called when a round begins, or before the records that are left are emitted.
    #[doc(hidden)]
    fn begin(&mut self) -> Result<()>;

    /// Passes on a part of a round's input; returns whether there was any.
    #[doc(hidden)]
    fn give<N: Push<Self::Out, T>>(&mut self, next: &mut N) -> Result<bool>;

    /// Emits a part of the records that are left; returns whether there were any.
    #[doc(hidden)]
    fn leave(&mut self, left: &mut Self::Left) -> Result<bool>;

    /// Saves the records of the next round, if this event is a barrier: those that have arrived, or were fed back. None are
    /// left at the end.
    #[doc(hidden)]
    fn save(&mut self, event: Event) -> Result<()>;

    /// Called when the loop is over, and another input may arrive.
    #[doc(hidden)]
    fn restart(&mut self);

    /// The bytes of the loop's state that were written to disk, as far as is known here.
    #[doc(hidden)]
    fn written(&mut self) -> u64 {
        0
    }
}

/// The stream of a loop's outcomes.
pub(super) type Outcomes<S, T> = Stream<Received<Outcome<S>, T>>;

impl<C: Chain> Stream<C> {
    /// Adds the head of a loop of at most so many rounds, which begins with a state; returns the stream that begins the
    /// body, the loop's coordination, and the stream of the outcome.
    pub(super) fn looped<S: Data + Clone + Sync, X, M>(
        self,
        origin: Origin,
        rounds: u64,
        (state, needs): (S, Needs),
        make: M,
    ) -> (Stream<Looped<C, S, X, M>>, Arc<Control<S>>, Outcomes<S, C::Time>)
    where
        X: Input<C::Item, C::Time>,
        M: Fn(&TaskContext<'_>, usize) -> Result<(X, X::Left)> + Send + 'static,
    {
        let (env, from, bounded) = (self.env.clone(), self.stage, self.is_bounded());
        let to = env.builder().stage_after(&[from], Parallelism::Fixed(1), bounded);
        let edge: Edge<Outcome<S>, C::Time> = env.link(from, to, Strategy::Gather);
        let outcome = env.receive(to, origin, vec![edge.clone()]).need_not_be_taken();
        let depth = Depth(env.builder().plan.stages[from].loops + 1);
        let head = self
            .then_described(origin, Details::of("rounds", rounds), |prev, op| {
                let control = Arc::new(Control::new(op, depth, state, rounds, needs));
                Looped { prev, op, control, make, outcome: edge, types: PhantomData }
            })
            .bounded_for("a round ends when all of the input has gone through")
            .tied(TieKind::Rounds)
            .tied(TieKind::Input);
        if rounds == 0 {
            let what = "a loop of no rounds";
            head.refuse(crate::Error::new(crate::ErrorKind::Plan, what));
        }
        let control = Arc::clone(&head.chain.control);
        let mut builder = env.builder();
        builder.plan.stages[from].loops += 1;
        builder.open_loops.push(control.head);
        drop(builder);
        (head, control, outcome)
    }
}

/// The chain that ends in the head of a loop.
pub struct Looped<C: Chain, S: Data + Clone + Sync, X, M> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) control: Arc<Control<S>>,
    pub(super) make: M,
    /// The edge that the outcome is sent on.
    pub(super) outcome: Edge<Outcome<S>, C::Time>,
    pub(super) types: PhantomData<fn() -> X>,
}

impl<C, S, X, M> Chain for Looped<C, S, X, M>
where
    C: Chain,
    S: Data + Clone + Sync,
    X: Input<C::Item, C::Time>,
    M: Fn(&TaskContext<'_>, usize) -> Result<(X, X::Left)> + Send + 'static,
{
    type Item = X::Out;
    type Time = C::Time;
    type Task<N: Push<X::Out, C::Time> + 'static> = C::Task<HeadPush<C::Item, C::Time, S, X, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<X::Out, C::Time> + 'static,
    {
        self.control.add_head(cx.waker.clone());
        cx.op(self.op).signals().wake_when_torn(cx.waker.downgrade());
        // This state is that of all tasks; the first one saves it. An inner loop has none, as barriers come between its runs.
        let saved = match self.control.is_inner() {
            true => StateHandle::none(),
            false => cx.state::<(u64, bool, S)>(self.op, "rounds", Redistribution::United),
        };
        let (rounds, was_over) = self.control.restore(&saved)?;
        self.control.join_hosts(cx, self.op)?;
        let gathers = X::AFTER_ALL || cx.has_checkpoints();
        if gathers {
            Gathering::join(&self.control, cx, self.op, saved.is_on())?;
        }
        let (input, left) = (self.make)(cx, self.op)?;
        let outcome = self.outcome.outlet(cx.task, cx.op(self.op), RoundRobin::starting_at(0));
        let push = HeadPush {
            op: cx.op(self.op),
            clock: cx.clock.clone(),
            depth: self.control.depth,
            emits_outcome: cx.task == 0,
            control: Arc::clone(&self.control),
            input,
            // Records that enter the body must not pass a barrier that other heads meet in the next round. Streams from outside
            // may bring records, and barriers, into an inner loop before the outer loop begins.
            at_once: X::AT_ONCE && !cx.has_checkpoints(),
            gathers,
            phase: Phase::Taking,
            rounds,
            runs: 0,
            saved,
            was_over,
            epoch: Epoch::default(),
            beside: Epoch::default(),
            left: Epoch::default(),
            held: Event::End,
            ends: Forked((Body { given: 0, next }, Forked((left, outcome)))),
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// The head of a loop in a running task.
pub struct HeadPush<I: Record + ?Sized, T: Time, S: Data + Clone + Sync, X: Input<I, T>, N> {
    op: Op,
    clock: Clock,
    /// The depth of the loop.
    depth: Depth,
    /// Whether this task emits the outcome of the loop.
    emits_outcome: bool,
    control: Arc<Control<S>>,
    input: X,
    /// Whether the first round begins while the input is still arriving.
    at_once: bool,
    /// Whether it waits until the input of all heads is complete.
    gathers: bool,
    phase: Phase,
    /// Rounds that have ended, of all runs.
    rounds: u64,
    /// Runs that have begun.
    runs: u64,
    /// The rounds that have ended, whether the loop is over, and its state. Off for a loop in the body of another, whose heads
    /// send no barriers either.
    saved: StateHandle,
    /// Whether the loop was over at the checkpoint that the job has begun with.
    was_over: bool,
    /// The last barrier that was sent to the body, and the last one that was sent only to the operators behind the loop.
    epoch: Epoch,
    beside: Epoch,
    /// The last one that was sent to the body and has left the stage.
    left: Epoch,
    /// The event that is held back until the loop is over.
    held: Event,
    ends: Ends<N, X::Left, Outlet<Outcome<S>, T, RoundRobin>>,
    types: PhantomData<fn(&I)>,
}

/// The body, the records that are left, and the outcome.
type Ends<N, L, O> = Forked<(Body<N>, Forked<(L, O)>)>;

/// The body of a loop, with the number of records that it has been passed in all rounds.
struct Body<N> {
    given: u64,
    next: N,
}

impl<N: Pipe> Pipe for Body<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I: Record + ?Sized, T: Time, N: Push<I, T>> Push<I, T> for Body<N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.given += 1;
        self.next.push(item, time);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The input arrives.
    Taking,
    /// The input of this task is complete, but perhaps not that of other tasks.
    Gathering,
    /// A round has ended, or the input of all heads is complete: no record is in the body, and barriers may pass.
    Between,
    /// The input of a round is passed on.
    Giving,
    /// The input of a round has been passed on, and its end has not.
    Closing,
    /// The end of a round has been passed on, and there is no decision yet, or not all that was fed back.
    Waiting,
    /// The records that are left after the last round are emitted.
    Leaving,
    /// The job has failed.
    Over,
}

impl<I, T, S, X, N> HeadPush<I, T, S, X, N>
where
    I: Record + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    X: Input<I, T>,
    N: Push<X::Out, T>,
{
    fn fail(&mut self, error: crate::Error) {
        self.op.fail(error);
        self.phase = Phase::Over;
    }

    /// Begins to pass on the input of a round, or the records that are left.
    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        if let Err(error) = self.input.begin() {
            self.fail(error);
        }
    }

    /// Whether arriving records go directly into the body.
    fn gives_at_once(&self) -> bool {
        self.at_once && self.phase == Phase::Taking
    }

    /// Passes on a part of the input of the round, or of the records that are left.
    fn give(&mut self) -> Flow {
        let Self { op, input, phase, ends, .. } = self;
        let Forked((next, Forked((left, _)))) = ends;
        let answer = |given: Result<bool>| {
            given.unwrap_or_else(|error| {
                op.fail(error);
                false
            })
        };
        match phase {
            Phase::Giving => pump(next, |next| answer(input.give(next))),
            _ => pump(left, |left| answer(input.leave(left))),
        }
    }

    /// Saves what the loop begins its next round with. `over` says that there is none.
    fn save(&mut self, event: Event, over: bool) {
        self.saved.save(event, |out| {
            if self.emits_outcome {
                out.add_by_key(0, |bytes| {
                    self.rounds.encode(bytes);
                    over.encode(bytes);
                    self.control.state().encode(bytes);
                });
            }
        });
        if let Err(error) = self.input.save(event) {
            self.fail(error);
        }
    }

    /// After the end of the input, no barrier arrives: sends the next one that comes before the next round, if there is one.
    /// The head of an inner loop sends a torn barrier, which may have come to another head: operators behind both heads would
    /// wait for it, and hold back the stream from outside that the other head waits for.
    fn sends_barrier(&mut self) -> bool {
        let (next, signals) = (self.epoch.next(), self.op.signals());
        let comes = match self.control.is_inner() {
            true => signals.is_torn(next),
            false => self.saved.is_on() && next <= self.control.barriers(signals),
        };
        if comes {
            self.pass(Event::Barrier(next));
        }
        comes
    }

    /// While a round runs, sends the next barrier to the operators behind the loop, if it is torn. The body gets it before the
    /// next round, if there is one. A barrier that is not torn waits for the decision, as the results of the last round come
    /// before it.
    fn sends_beside(&mut self) -> bool {
        let next = self.epoch.max(self.beside).next();
        // The body may be waiting meanwhile, for a loop within it.
        let may = self.phase == Phase::Waiting
            && self.op.signals().is_torn(next)
            && self.ends.0.1.resume() == Flow::Ready;
        if may {
            self.beside = next;
            self.ends.0.1.event(Event::Barrier(next));
        }
        may
    }

    /// Whether the last barrier of a job that is suspended was sent. One that is drained ends well.
    fn is_suspended(&self) -> bool {
        let signals = self.op.signals();
        self.saved.is_on() && signals.is_last_barrier(self.epoch) && !signals.draining()
    }

    fn pass(&mut self, event: Event) {
        if let Event::Barrier(epoch) = event {
            self.epoch = epoch;
        }
        self.save(event, self.was_over);
        match event {
            Event::Barrier(epoch) if epoch <= self.beside => self.ends.0.0.event(event),
            _ => self.ends.event(event),
        }
    }

    /// Ends the loop: emits its outcome.
    fn conclude(&mut self) {
        if self.emits_outcome {
            let Forked((_, Forked((_, outcome)))) = &mut self.ends;
            match self.control.conclude() {
                Ok(concluded) => outcome.push(concluded, T::LAST),
                Err(error) => return self.fail(error),
            }
        }
        self.input.restart();
        self.phase = if self.held == Event::End { Phase::Over } else { Phase::Taking };
        self.save(self.held, true);
        self.ends.event(self.held);
    }
}

impl<I, T, S, X, N> Push<I, T> for HeadPush<I, T, S, X, N>
where
    I: Record + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    X: Input<I, T>,
    N: Push<X::Out, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if let Err(error) = self.input.take(item, time, &mut self.ends.0.0) {
            self.op.fail(error);
        }
    }
}

impl<I, T, S, X, N> Pipe for HeadPush<I, T, S, X, N>
where
    I: Record + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    X: Input<I, T>,
    N: Push<X::Out, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn event(&mut self, event: Event) {
        match event {
            // Records that are fed back may have any timestamp, so watermarks are dropped.
            Event::Watermark(_) | Event::Idle | Event::Partition(_) => {}
            // This head sent the barrier, which was torn, when its input was complete.
            Event::Barrier(epoch) if epoch <= self.epoch => {}
            Event::Barrier(_) => self.pass(event),
            // Events of an outer loop: the runs of this loop that belong to the round have ended.
            Event::Round(Depth(depth)) if depth + 1 < self.depth.0 => self.ends.event(event),
            Event::End if self.control.is_inner() => self.pass(event),
            // Its outcome was emitted before the checkpoint.
            Event::End if self.was_over => {
                self.phase = Phase::Over;
                self.pass(event);
            }
            Event::Round(_) | Event::End => {
                self.held = event;
                self.runs += 1;
                self.control.begin(&self.clock);
                match self.input.complete() {
                    Err(error) => self.fail(error),
                    Ok(()) if self.at_once => self.phase = Phase::Closing,
                    Ok(()) if self.gathers => {
                        self.phase = Phase::Gathering;
                        if let Err(error) = self.control.gather(self.op.signals()) {
                            self.fail(error);
                        }
                    }
                    Ok(()) => self.begin(Phase::Giving),
                }
            }
        }
    }

    fn resume(&mut self) -> Flow {
        // First, whatever the next operators wait for: tails of other hosts wait for it.
        if let Err(error) = self.input.tend() {
            self.fail(error);
        }
        loop {
            while self.sends_beside() {}
            match self.ends.resume() {
                Flow::Ready => self.left = self.epoch,
                other => return other,
            }
            if self.op.signals().stopped() {
                self.phase = Phase::Over;
            }
            if matches!(self.phase, Phase::Gathering | Phase::Between) && self.sends_barrier() {
                continue;
            }
            match self.phase {
                Phase::Taking | Phase::Over => return Flow::Ready,
                Phase::Gathering if !self.control.is_gathered(self.runs) => return Flow::Waiting,
                // There may be more barriers to send, since it was decided which these are.
                Phase::Gathering => self.phase = Phase::Between,
                // The job is suspended here, as its sources are.
                Phase::Between if self.is_suspended() => return Flow::Waiting,
                Phase::Between => self.begin(Phase::Giving),
                Phase::Giving | Phase::Leaving => match self.give() {
                    Flow::Ready if self.phase == Phase::Giving => self.phase = Phase::Closing,
                    Flow::Ready => self.conclude(),
                    other => return other,
                },
                Phase::Closing => {
                    self.ends.0.0.event(Event::Round(self.depth));
                    self.phase = Phase::Waiting;
                }
                Phase::Waiting => match self.control.verdict(self.rounds + 1) {
                    None => return Flow::Waiting,
                    Some(_) if !self.input.has_come() => return Flow::Waiting,
                    Some(verdict) => {
                        self.rounds += 1;
                        match verdict {
                            Verdict::Another => self.phase = Phase::Between,
                            Verdict::Over => self.begin(Phase::Leaving),
                        }
                        // A turn may end between two rounds, however short they are.
                        return Flow::Busy;
                    }
                },
            }
        }
    }

    fn own_barrier(&mut self) -> Option<Epoch> {
        let goes_on = !matches!(self.phase, Phase::Taking | Phase::Over);
        (goes_on && self.saved.is_on()).then_some(self.left)
    }

    fn report(&mut self, report: &mut Report) {
        if self.emits_outcome {
            report.rounds(self.op.id(), self.control.stats());
        }
        report.emitted(self.op.id(), self.ends.0.0.given);
        report.spilled(self.op.id(), self.input.written());
        self.ends.report(report);
    }

    // Input that goes directly into the body is subject to the body's back-pressure. Otherwise records are kept
    // here for the rounds, which end whether or not their results are needed.
    fn is_full(&mut self) -> bool {
        self.gives_at_once() && self.ends.0.0.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.gives_at_once() && self.ends.0.0.is_closed()
    }
}
