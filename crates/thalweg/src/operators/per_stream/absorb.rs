//! The common part of folds, sorts and the like: they accept all records, and emit at the end.

use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::{Data, Portable, Record};
use crate::error::Result;
use crate::exchange::RoundRobin;
use crate::flow::{Depth, Event, Flow, Op, Pipe, Push, guard, pump};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::support::owned_heap::{OwnedHeap, Wording};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The state of one task that accepts all its records. A panic in any of these methods is attributed to the
/// operator, and an error stops the job under its name.
pub trait Absorb<I: Record + ?Sized>: Send + 'static {
    /// The type of its results.
    type Out: 'static;
    /// The type of what it saves.
    type Saved: Data;
    /// Whether `take_run` is a fold, whose value can stay in a register.
    const IS_FOLD: bool = false;

    /// Accepts a record.
    fn take(&mut self, item: I::Of<'_>) -> Result<()>;

    /// Accepts a run of records, up to the first that fails. Only `take` is guarded, and not the iterator: a
    /// panic there belongs to another operator.
    #[inline(always)]
    fn take_run<'a>(&mut self, op: &Op, mut items: impl Iterator<Item = I::Of<'a>>) -> Result<()> {
        items.try_for_each(|item| guard(op, || self.take(item)))
    }

    /// Called when the input has ended.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    /// The next record of the output, after the end.
    fn give(&mut self) -> Result<Option<Self::Out>>;

    /// Between two batches: reserves memory, and spills and releases it where the pool is over its budget.
    fn give_way(&mut self) -> Result<()> {
        Ok(())
    }

    /// The bytes written to disk so far.
    fn spilled(&self) -> u64 {
        0
    }

    /// Resets the state for the next round of a loop, or for what follows a barrier: all results are emitted, or the rest is
    /// not needed.
    fn restart(&mut self);

    /// What becomes of the state at a barrier, in a job with checkpoints.
    fn at_barrier(&self) -> AtBarrier {
        AtBarrier::Unsaved
    }

    /// Saves the state: where it is [`AtBarrier::Saved`] in an operator with one task, and where it is
    /// [`AtBarrier::SavedToTheEnd`].
    fn save(&self, _: &mut Saving) {}

    /// Restores what was saved.
    fn restore(&mut self, _: &StateHandle) -> Result<()> {
        Ok(())
    }
}

/// The name in checkpoints of what has been absorbed.
pub(super) const VALUE: &str = "value";

/// What becomes of a state at a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AtBarrier {
    /// It cannot be saved.
    Unsaved,
    /// It is saved.
    Saved,
    /// It is saved, and at the end too: the operator that receives the results may hold them when later barriers pass it.
    SavedToTheEnd,
    /// It is given, as at the end: the operator that receives it combines any number of such parts.
    Given,
}

impl<C: Chain> Stream<C> {
    /// Adds an operator that accepts the whole input. `make` is called once per task, with the operator's
    /// number in the plan. Needs an input that ends: `why` completes the message when it does not.
    pub(super) fn absorb<A, M>(
        self,
        origin: Origin,
        details: Details,
        why: &str,
        make: M,
    ) -> Stream<Absorbed<C, A, M>>
    where
        A: Absorb<C::Item>,
        M: Fn(&TaskContext<'_>, usize) -> A + Send + 'static,
    {
        let wrap = |prev, op| Absorbed { prev, op, make, output: PhantomData };
        self.then_described(origin, details, wrap).bounded_for(why)
    }

    /// Gathers the records of all tasks in one task.
    pub(crate) fn gather(self, origin: Origin) -> Stream<Received<C::Item, C::Time>>
    where
        C::Item: Portable,
    {
        let origin = Origin { kind: "gather", ..origin };
        self.exchange(origin, Strategy::Gather, Parallelism::Fixed(1), |cx, op, edge| {
            edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0))
        })
    }
}

/// The chain that ends in an operator that accepts the whole input.
pub struct Absorbed<C, A, M> {
    prev: C,
    pub(super) op: usize,
    make: M,
    output: PhantomData<fn() -> A>,
}

impl<C, A, M> Chain for Absorbed<C, A, M>
where
    C: Chain,
    A: Absorb<C::Item>,
    M: Fn(&TaskContext<'_>, usize) -> A + Send + 'static,
{
    type Item = A::Out;
    type Time = C::Time;
    type Task<N: Push<A::Out, C::Time> + 'static> = C::Task<AbsorbPush<C::Item, C::Time, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<A::Out, C::Time> + 'static,
    {
        let (op, mut value) = (cx.op(self.op), (self.make)(cx, self.op));
        let (state, ended) = match value.at_barrier() {
            AtBarrier::Unsaved => (StateHandle::none(), StateHandle::none()),
            AtBarrier::SavedToTheEnd => {
                (cx.state::<A::Saved>(self.op, VALUE, Redistribution::Dealt), StateHandle::none())
            }
            AtBarrier::Saved | AtBarrier::Given => (
                cx.state::<A::Saved>(self.op, VALUE, Redistribution::First),
                cx.state::<()>(self.op, "ended", Redistribution::First),
            ),
        };
        value.restore(&state)?;
        let mut phase = Phase::Taking;
        ended.restore(|()| {
            phase = Phase::Ended;
            Ok(())
        })?;
        let (emitted, types) = (0, PhantomData);
        self.prev.attach(cx, AbsorbPush { op, value, phase, state, ended, emitted, next, types })
    }
}

/// An operator that accepts the whole input, in a running task.
pub struct AbsorbPush<I: ?Sized, T, A, N> {
    op: Op,
    value: A,
    phase: Phase,
    state: StateHandle,
    /// Whether the results were emitted before the job began again.
    ended: StateHandle,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Taking,
    /// The end of the input or of a round has arrived, or a barrier at which the state is given, and is held back until all
    /// results are emitted.
    Giving(Event),
    /// The input has ended, and all results were emitted, before the checkpoint that the job began with: nothing comes.
    Ended,
    /// The end has been passed on, or the job has failed.
    Over,
}

impl<I: ?Sized, T, A, N> AbsorbPush<I, T, A, N> {
    /// Whether an event ends the input, or that of a round of the operator's own loop. Rounds of outer loops end after
    /// those of its own, and it has no output for them.
    fn is_end(&self, event: Event) -> bool {
        match event {
            Event::Round(depth) => depth == self.op.depth(),
            Event::End => self.op.depth() == Depth(0),
            Event::Watermark(_) | Event::Idle | Event::Partition(_) | Event::Barrier(_) => false,
        }
    }
}

impl<I: Record + ?Sized, T, A: Absorb<I>, N> AbsorbPush<I, T, A, N> {
    /// Holds this event back until all results are emitted.
    fn give_before(&mut self, event: Event) {
        self.phase = match guard(&self.op, || self.value.end()) {
            Ok(()) => Phase::Giving(event),
            Err(error) => {
                self.op.fail(error);
                Phase::Over
            }
        };
    }
}

impl<I, T, A, N> Pipe for AbsorbPush<I, T, A, N>
where
    I: Record + ?Sized,
    T: Time,
    A: Absorb<I>,
    N: Push<A::Out, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        let at_barrier = self.value.at_barrier();
        match self.phase {
            Phase::Taking if self.is_end(event) => {
                self.state.save(event, |out| {
                    if at_barrier == AtBarrier::SavedToTheEnd {
                        self.value.save(out);
                    }
                });
                self.ended.save(event, |out| {
                    // A part that was given at barriers leaves nothing behind.
                    if at_barrier == AtBarrier::Saved {
                        out.add(&());
                    }
                });
                self.give_before(event);
            }
            Phase::Taking => {
                let is_given = at_barrier == AtBarrier::Given && self.state.is_on();
                self.ended.save(event, |_| ());
                self.state.save(event, |out| {
                    if !is_given {
                        self.value.save(out);
                    }
                });
                match event {
                    Event::Barrier(_) if is_given => self.give_before(event),
                    _ => self.next.event(event),
                }
            }
            Phase::Ended => {
                self.state.save(event, |_| ());
                self.ended.save(event, |out| out.add(&()));
                self.next.event(event);
            }
            Phase::Giving(_) | Phase::Over => {}
        }
    }

    fn resume(&mut self) -> Flow {
        if let Err(error) = guard(&self.op, || self.value.give_way()) {
            self.op.fail(error);
        }
        let Phase::Giving(held) = self.phase else { return self.next.resume() };
        let Self { op, value, phase, emitted, next, .. } = self;
        let flow = pump(next, |next| {
            if op.signals().stopped() {
                return false;
            }
            match guard(op, || value.give()) {
                Ok(Some(output)) => {
                    *emitted += 1;
                    next.push(output, T::LAST);
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    op.fail(error);
                    false
                }
            }
        });
        if flow == Flow::Ready {
            *phase = Phase::Over;
            if !op.signals().stopped() {
                if held != Event::End {
                    value.restart();
                    *phase = Phase::Taking;
                }
                next.event(held);
            }
            return next.resume();
        }
        flow
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        report.spilled(self.op.id(), self.value.spilled());
        self.next.report(report);
    }
}

impl<I, T, A, N> Push<I, T> for AbsorbPush<I, T, A, N>
where
    I: Record + ?Sized,
    T: Time,
    A: Absorb<I>,
    N: Push<A::Out, T>,
{
    const IS_LOOP: bool = A::IS_FOLD;

    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        if let Err(error) = guard(&self.op, || self.value.take(item)) {
            self.op.fail(error);
        }
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, _: T) {
        if let Err(error) = self.value.take_run(&self.op, items) {
            self.op.fail(error);
        }
    }
}

/// Of what all records are combined into.
pub(super) const AGGREGATE: Wording = Wording {
    state: "what all records are combined into",
    less: "aggregates by key (`group_by`), which go to disk, or less of each record need less",
};

/// A value that a closure folds each record into.
pub(super) struct Folding<S, F> {
    /// `None` once it has been emitted.
    value: Option<S>,
    init: S,
    f: Arc<F>,
    at_barrier: AtBarrier,
    heap: OwnedHeap<S>,
}

impl<S: Data + Clone, F> Folding<S, F> {
    pub(super) fn new(
        (cx, op): (&TaskContext<'_>, usize),
        init: S,
        f: &Arc<F>,
        at_barrier: AtBarrier,
    ) -> Self {
        let mut heap = OwnedHeap::new(cx, op, AGGREGATE);
        heap.changed();
        Self { value: Some(init.clone()), init, f: Arc::clone(f), at_barrier, heap }
    }
}

impl<I, S, F> Absorb<I> for Folding<S, F>
where
    I: Record + ?Sized,
    S: Data + Clone,
    F: for<'a> Fn(&mut S, I::Of<'a>) -> Result<()> + Send + Sync + 'static,
{
    type Out = S;
    type Saved = S;
    const IS_FOLD: bool = true;

    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>) -> Result<()> {
        self.heap.changed();
        match &mut self.value {
            Some(value) => (self.f)(value, item),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn take_run<'a>(&mut self, op: &Op, mut items: impl Iterator<Item = I::Of<'a>>) -> Result<()> {
        // Moved to a local for the run, so that it need not be stored after every record.
        let Some(mut value) = self.value.take() else { return Ok(()) };
        let mut times = 0;
        let taken = items.try_for_each(|item| {
            times += 1;
            guard(op, || (self.f)(&mut value, item))
        });
        self.heap.changed_times(times);
        self.value = Some(value);
        taken
    }

    fn give(&mut self) -> Result<Option<S>> {
        self.heap.release();
        Ok(self.value.take())
    }

    fn give_way(&mut self) -> Result<()> {
        self.heap.fit(self.value.as_ref())
    }

    fn restart(&mut self) {
        self.heap.changed();
        self.value = Some(self.init.clone());
    }

    fn at_barrier(&self) -> AtBarrier {
        self.at_barrier
    }

    fn save(&self, out: &mut Saving) {
        if let Some(value) = &self.value {
            out.add(value);
        }
    }

    fn restore(&mut self, state: &StateHandle) -> Result<()> {
        self.heap.changed();
        state.restore(|value| {
            self.value = Some(value);
            Ok(())
        })
    }
}
