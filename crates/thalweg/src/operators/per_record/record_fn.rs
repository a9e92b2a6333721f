//! The common part of operators that make at most one record of each: their chain, their push, and their
//! counters.
//!
//! Such an operator is a [`RecordFn`], a function of one record. [`Yield`] is its kind of result: one record
//! ([`Exactly`]), perhaps none ([`AtMost`]), or an error that ends the job ([`OrError`]). All of it is known at
//! compile time, so that a chain of such operators compiles to the loop that one would write by hand.

use crate::data::Record;
use crate::error::{Error, Result};
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// An operator's function of one record. Calls are guarded: a panic ends the job under the operator's name.
pub trait RecordFn<I: Record + ?Sized, T: Time>: Send + Sync + 'static {
    /// The result, with the timestamp of the input record.
    type Out: Record + ?Sized;
    /// How many results a record has.
    #[doc(hidden)]
    type Yield: Yield;

    /// The result for a record and its timestamp. Implementations are `#[inline(always)]`.
    #[doc(hidden)]
    fn call<'a>(&self, item: I::Of<'a>, time: T) -> Yielded<'a, Self::Yield, Self::Out>;
}

/// What [`RecordFn::call`] returns.
pub type Yielded<'a, Y, O> = <Y as Yield>::Of<<O as Record>::Of<'a>>;

/// How many results a record has: [`Exactly`], [`AtMost`] or [`OrError`].
pub trait Yield: 'static {
    /// The return type of a call that makes an `R`.
    type Of<R>;
    /// The state of a task, over all calls.
    type State: Default + Send;

    /// The record of one call, if there is one.
    fn one<R>(made: Self::Of<R>, state: &mut Self::State, op: Failing<'_>) -> Option<R>;

    /// The records of a run of calls.
    fn run<R>(
        made: impl Iterator<Item = Self::Of<R>>,
        state: &mut Self::State,
        op: Failing<'_>,
    ) -> impl Iterator<Item = R>;

    /// Adds the state of a run. A run has a state of its own, which can stay in a register.
    fn add(state: &mut Self::State, of_run: Self::State);

    /// The number of records made, where it differs from the number of input records.
    fn emitted(_: &Self::State) -> Option<u64> {
        None
    }

    /// Whether a call has ended the job.
    fn has_failed(_: &Self::State) -> bool {
        false
    }
}

/// The operator under whose name an error ends the job.
#[derive(Clone, Copy)]
pub struct Failing<'a>(&'a Op);

/// One record for each.
pub enum Exactly {}

impl Yield for Exactly {
    type Of<R> = R;
    type State = ();

    #[inline(always)]
    fn one<R>(made: R, (): &mut (), _: Failing<'_>) -> Option<R> {
        Some(made)
    }

    #[inline(always)]
    fn run<R>(
        made: impl Iterator<Item = R>,
        (): &mut (),
        _: Failing<'_>,
    ) -> impl Iterator<Item = R> {
        made
    }

    #[inline(always)]
    fn add((): &mut (), (): ()) {}
}

/// One record or none.
pub enum AtMost {}

impl Yield for AtMost {
    type Of<R> = Option<R>;
    /// The number of records made.
    type State = u64;

    #[inline(always)]
    fn one<R>(made: Option<R>, emitted: &mut u64, _: Failing<'_>) -> Option<R> {
        if made.is_some() {
            *emitted += 1;
        }
        made
    }

    #[inline(always)]
    fn run<R>(
        made: impl Iterator<Item = Option<R>>,
        emitted: &mut u64,
        _: Failing<'_>,
    ) -> impl Iterator<Item = R> {
        made.filter_map(counting(emitted))
    }

    #[inline(always)]
    fn add(emitted: &mut u64, of_run: u64) {
        *emitted += of_run;
    }

    fn emitted(emitted: &u64) -> Option<u64> {
        Some(*emitted)
    }
}

/// One record, or an error, which ends the job. No call follows.
pub enum OrError {}

impl Yield for OrError {
    type Of<R> = Result<R>;
    /// Whether a call has returned an error.
    type State = bool;

    #[inline(always)]
    fn one<R>(made: Result<R>, failed: &mut bool, op: Failing<'_>) -> Option<R> {
        made.map_err(|error: Error| {
            *failed = true;
            op.0.fail(error);
        })
        .ok()
    }

    #[inline(always)]
    fn run<R>(
        made: impl Iterator<Item = Result<R>>,
        failed: &mut bool,
        op: Failing<'_>,
    ) -> impl Iterator<Item = R> {
        made.map_while(taking::<Self, R>(failed, op))
    }

    #[inline(always)]
    fn add(failed: &mut bool, of_run: bool) {
        *failed |= of_run;
    }

    fn has_failed(failed: &bool) -> bool {
        *failed
    }
}

impl<C: Chain> Stream<C> {
    /// Appends an operator that is a function of one record.
    pub(crate) fn per_record<F>(self, origin: Origin, f: F) -> Stream<PerRecord<C, F>>
    where
        F: RecordFn<C::Item, C::Time>,
    {
        self.then(origin, |prev, op| PerRecord { prev, op, f: Arc::new(f) })
    }
}

/// The chain that ends in a function of one record.
pub struct PerRecord<C, F> {
    prev: C,
    op: usize,
    f: Arc<F>,
}

impl<C: Chain, F: RecordFn<C::Item, C::Time>> Chain for PerRecord<C, F> {
    type Item = F::Out;
    type Time = C::Time;
    type Task<N: Push<F::Out, C::Time> + 'static> = C::Task<PerRecordPush<C::Item, C::Time, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<F::Out, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        let state = Default::default();
        self.prev.attach(cx, PerRecordPush { op, f, state, next, types: PhantomData })
    }
}

/// A function of one record in a running task.
pub struct PerRecordPush<I: Record + ?Sized, T: Time, F: RecordFn<I, T>, N> {
    op: Op,
    f: Arc<F>,
    state: <F::Yield as Yield>::State,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, F, N> Pipe for PerRecordPush<I, T, F, N>
where
    I: Record + ?Sized,
    T: Time,
    F: RecordFn<I, T>,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if !F::Yield::has_failed(&self.state) {
            self.next.event(event);
        }
    }

    fn resume(&mut self) -> Flow {
        // The job has failed and stops at the end of the turn: pending output is not emitted.
        if F::Yield::has_failed(&self.state) { Flow::Ready } else { self.next.resume() }
    }

    fn is_closed(&mut self) -> bool {
        F::Yield::has_failed(&self.state) || self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        if let Some(emitted) = F::Yield::emitted(&self.state) {
            report.emitted(self.op.id(), emitted);
        }
        self.next.report(report);
    }
}

impl<I, T, F, N> Push<I, T> for PerRecordPush<I, T, F, N>
where
    I: Record + ?Sized,
    T: Time,
    F: RecordFn<I, T>,
    N: Push<F::Out, T>,
{
    const IS_LOOP: bool = N::IS_LOOP;

    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if F::Yield::has_failed(&self.state) {
            return;
        }
        let made = guard(&self.op, || self.f.call(item, time));
        if let Some(record) = F::Yield::one(made, &mut self.state, Failing(&self.op)) {
            self.next.push(record, time);
        }
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, time: T) {
        let Self { op, f, state, next, .. } = self;
        if F::Yield::has_failed(state) {
            return;
        }
        let mut of_run = Default::default();
        let made = items.map(guarded::<I, T, F>(op, f, time));
        next.push_run(F::Yield::run(made, &mut of_run, Failing(op)), time);
        F::Yield::add(state, of_run);
    }
}

/// The call, as a closure for iterator adapters. It is made here, since a closure's type names all types of the
/// enclosing function: those of a long chain would grow without bound.
#[inline(always)]
fn guarded<'a, I, T, F>(
    op: &Op,
    f: &F,
    time: T,
) -> impl FnMut(I::Of<'a>) -> Yielded<'a, F::Yield, F::Out>
where
    I: Record + ?Sized,
    T: Time,
    F: RecordFn<I, T>,
{
    move |item| guard(op, || f.call(item, time))
}

/// Counts what a record of a run has become. Without a branch, so that the loop can be vectorised; where the count is
/// in memory, as in [`Yield::one`], a branch is faster.
#[inline(always)]
fn counting<R>(emitted: &mut u64) -> impl FnMut(Option<R>) -> Option<R> {
    move |made| {
        *emitted += u64::from(made.is_some());
        made
    }
}

/// [`Yield::one`], as a closure for iterator adapters; made here for the same reason.
#[inline(always)]
fn taking<Y: Yield, R>(state: &mut Y::State, op: Failing<'_>) -> impl FnMut(Y::Of<R>) -> Option<R> {
    move |made| Y::one(made, state, op)
}
