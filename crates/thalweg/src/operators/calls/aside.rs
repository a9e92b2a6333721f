//! What becomes of calls that have failed for good: the job stops, or they go to a side output.

use super::failed::{FailedCall, Problem};
use crate::data::Data;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Op, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::fmt::Display;

/// Makes a task's way out for calls that have failed.
pub(super) trait Leave<D, T>: Send + 'static {
    /// The way out.
    type Exit: Exit<D, T> + 'static;

    /// Makes it.
    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> Self::Exit;
}

/// The way out of a running task for calls that have failed.
pub(super) trait Exit<D, T>: Pipe {
    /// A call has failed for good, of this record if it was kept. Answers what is to go to the side output in
    /// its place; nothing when the job stops.
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        record: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>>;

    /// Sends it.
    fn push_aside(&mut self, call: FailedCall<D>, time: T);
}

/// A call that fails stops the job.
#[derive(Clone, Copy)]
pub(super) struct Stops;

impl<D: 'static, T: Time> Leave<D, T> for Stops {
    type Exit = Self;

    fn exit(&self, _: &TaskContext<'_>, _: usize) -> Self {
        Self
    }
}

impl<D: 'static, T: Time> Exit<D, T> for Stops {
    #[cold]
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        _: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>> {
        op.fail(problem.into_error(attempts));
        None
    }

    fn push_aside(&mut self, _: FailedCall<D>, _: T) {}
}

impl Pipe for Stops {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn is_full(&mut self) -> bool {
        true
    }

    fn is_closed(&mut self) -> bool {
        true
    }
}

/// To a stage of its own, whose tasks are as many.
pub(super) struct GoAside<D: Data, T: Time>(Edge<FailedCall<D>, T>);

/// The stream of calls that have failed.
pub(super) type Failures<D, T> = Stream<Received<FailedCall<D>, T>>;

impl<D: Data, T: Time> GoAside<D, T> {
    /// The way out of the stage of a stream, and the stream that begins there.
    pub(super) fn leaving<C: Chain<Time = T>>(
        stream: &Stream<C>,
        origin: Origin,
    ) -> (Self, Failures<D, T>) {
        let (edge, second) = stream.aside(Origin { kind: "failed calls", ..origin });
        (Self(edge), second)
    }
}

impl<D: Data, T: Time> Leave<D, T> for GoAside<D, T> {
    type Exit = GoingAside<D, T>;

    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> GoingAside<D, T> {
        GoingAside(self.0.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0)))
    }
}

/// The end of a task from which failed calls leave.
pub(super) struct GoingAside<D: Data, T: Time>(Outlet<FailedCall<D>, T, RoundRobin>);

impl<D: Data, T: Time> Pipe for GoingAside<D, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<D: Data, T: Time> Exit<D, T> for GoingAside<D, T> {
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        record: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>> {
        let Some(record) = record else {
            op.fail(problem.into_error(attempts));
            return None;
        };
        Some(FailedCall {
            record,
            attempts,
            timed_out: problem.is_timeout(),
            error: problem.into_text(),
        })
    }

    fn push_aside(&mut self, call: FailedCall<D>, time: T) {
        self.0.push(call, time);
    }
}
