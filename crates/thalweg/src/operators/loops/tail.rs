//! The tail of a loop: the end of its body.

use super::control::Meeting;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::Clock;
use crate::data::{Data, Record};
use crate::error::Result;
use crate::flow::{Depth, Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// Handles the records that have gone through the body.
pub(super) trait Finish<I: Record + ?Sized, T, D>: Send + 'static {
    /// Merges a record into the task's partial state, or feeds it back, or both.
    fn take(&mut self, part: &mut D, item: I::Of<'_>, time: T) -> Result<()>;

    /// Ends the round; returns how many records the tail has fed back for the next one.
    fn finish(&mut self, part: &mut D) -> Result<u64>;

    /// Called when the tail resumes: accounts for memory.
    fn tend(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether what was fed back has to wait. If so, the task will be woken.
    fn must_wait(&self) -> bool {
        false
    }

    /// Whether a fan-out should pause after the record that was taken last.
    fn is_full(&self) -> bool {
        false
    }
}

/// Only folds.
pub(super) struct Fold<F>(pub(super) Arc<F>);

impl<I, T, D, F> Finish<I, T, D> for Fold<F>
where
    I: Record + ?Sized,
    F: for<'a> Fn(&mut D, I::Of<'a>) + Send + Sync + 'static,
{
    #[inline(always)]
    fn take(&mut self, part: &mut D, item: I::Of<'_>, _: T) -> Result<()> {
        (self.0)(part, item);
        Ok(())
    }

    fn finish(&mut self, _: &mut D) -> Result<u64> {
        Ok(0)
    }
}

/// Feeds the output of a body back for the next round, in a running task.
pub trait Feed<I: Record + ?Sized, T: Time>: Send + 'static {
    /// The records that the loop's fold sees.
    type Seen: Record + ?Sized;

    /// Accepts a record; passes to `see` what the fold is to see now.
    #[doc(hidden)]
    fn push(
        &mut self,
        item: I::Of<'_>,
        time: T,
        see: impl FnMut(&<Self::Seen as Record>::Of<'_>),
    ) -> Result<()>;

    /// Ends the round: passes to `see` what the fold is to see only now; returns how many records were fed back
    /// for the next round.
    #[doc(hidden)]
    fn finish(&mut self, see: impl FnMut(&<Self::Seen as Record>::Of<'_>)) -> Result<u64>;

    /// Called when the tail resumes: accounts for memory.
    #[doc(hidden)]
    fn tend(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether what was fed back has to wait. If so, the task will be woken.
    #[doc(hidden)]
    fn must_wait(&self) -> bool {
        false
    }

    /// Whether a fan-out should pause after the record that was pushed last.
    #[doc(hidden)]
    fn is_full(&self) -> bool {
        false
    }
}

/// Folds, and feeds back.
pub(super) struct FoldAndFeed<X, F> {
    pub(super) fold: Arc<F>,
    pub(super) feed: X,
}

impl<I, T, D, X, F> Finish<I, T, D> for FoldAndFeed<X, F>
where
    I: Record + ?Sized,
    T: Time,
    X: Feed<I, T>,
    F: for<'a, 'b> Fn(&mut D, &'b <X::Seen as Record>::Of<'a>) + Send + Sync + 'static,
{
    #[inline(always)]
    fn take(&mut self, part: &mut D, item: I::Of<'_>, time: T) -> Result<()> {
        self.feed.push(item, time, |seen| (self.fold)(part, seen))
    }

    fn finish(&mut self, part: &mut D) -> Result<u64> {
        self.feed.finish(|seen| (self.fold)(part, seen))
    }

    fn tend(&mut self) -> Result<()> {
        self.feed.tend()
    }

    fn must_wait(&self) -> bool {
        self.feed.must_wait()
    }

    fn is_full(&self) -> bool {
        self.feed.is_full()
    }
}

/// The tail of a loop in a running task.
pub(super) struct TailPush<I: ?Sized, T, S, D, X> {
    op: Op,
    clock: Clock,
    /// Its number among the tails of its host.
    tail: usize,
    /// The depth of the loop.
    depth: Depth,
    meeting: Arc<Meeting<S, D>>,
    part: D,
    finish: X,
    received: u64,
    /// The records received before this round.
    before: u64,
    /// Nothing: between two rounds, a tail holds no records.
    saved: StateHandle,
    types: PhantomData<fn(&I, T)>,
}

impl<I: ?Sized, T, S, D, X> TailPush<I, T, S, D, X>
where
    S: Clone + Send + Sync + 'static,
    D: Data + Default,
{
    pub(super) fn new(
        cx: &TaskContext<'_>,
        op: usize,
        meeting: &Arc<Meeting<S, D>>,
        finish: X,
    ) -> Result<Self> {
        Ok(Self {
            op: cx.op(op),
            clock: cx.clock.clone(),
            tail: meeting.add_tail(cx, op)?,
            depth: cx.depth(op),
            meeting: Arc::clone(meeting),
            part: D::default(),
            finish,
            received: 0,
            before: 0,
            saved: cx.state::<()>(op, "round", Redistribution::First),
            types: PhantomData,
        })
    }
}

impl<I, T, S, D, X> Push<I, T> for TailPush<I, T, S, D, X>
where
    I: Record + ?Sized,
    T: Time,
    S: Clone + Send + Sync + 'static,
    D: Data + Default,
    X: Finish<I, T, D>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.received += 1;
        let Self { op, part, finish, .. } = self;
        if let Err(error) = guard(op, || finish.take(part, item, time)) {
            op.fail(error);
        }
    }
}

impl<I, T, S, D, X> Pipe for TailPush<I, T, S, D, X>
where
    I: Record + ?Sized,
    T: Time,
    S: Clone + Send + Sync + 'static,
    D: Data + Default,
    X: Finish<I, T, D>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        // They have come from a stream outside of the loop, which is merged into its body.
        let is_within_round = self.received > self.before;
        self.saved.save(event, |out| {
            if is_within_round {
                out.refuse("records have come out of the body of its loop before the first round");
            }
        });
        // The end of a round of an outer loop ends a run of this one, and this loop's heads handle it.
        if event != Event::Round(self.depth) {
            return;
        }
        let mut part = std::mem::take(&mut self.part);
        let ended = guard(&self.op, || self.finish.finish(&mut part)).and_then(|fed| {
            let out = self.received - std::mem::replace(&mut self.before, self.received);
            self.meeting.arrive(self.tail, part, [out, fed], &self.op, &self.clock)
        });
        if let Err(error) = ended {
            self.op.fail(error);
        }
    }

    fn resume(&mut self) -> Flow {
        if let Err(error) = self.finish.tend() {
            self.op.fail(error);
        }
        if self.finish.must_wait() { Flow::Blocked } else { Flow::Ready }
    }

    fn is_full(&mut self) -> bool {
        self.finish.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.received);
    }
}
