//! How calls that have failed for good are handled: the job stops, or they go to a side output.

use super::failed::{FailedCall, Problem};
use crate::data::Data;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Op, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::fmt::Display;

/// Makes a task's handler of calls that have failed.
pub(super) trait Leave<D, T>: Send + 'static {
    /// The handler.
    type Exit: Exit<D, T> + 'static;

    /// Makes the handler of a task.
    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> Self::Exit;
}

/// The handler of failed calls in a running task.
pub(super) trait Exit<D, T>: Pipe {
    /// Handles a call that has failed for good, with its record if that was kept. Returns what is to go to the
    /// side output in place of the result; `None` if the job stops.
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        record: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>>;

    /// Sends a failed call to the side output.
    fn push_aside(&mut self, call: FailedCall<D>, time: T);
}

/// Stops the job when a call fails.
#[derive(Clone, Copy)]
pub(super) struct StopJob;

impl<D: 'static, T: Time> Leave<D, T> for StopJob {
    type Exit = Self;

    fn exit(&self, _: &TaskContext<'_>, _: usize) -> Self {
        Self
    }
}

impl<D: 'static, T: Time> Exit<D, T> for StopJob {
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

impl Pipe for StopJob {
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

/// Sends failed calls to a side output: to a stage of its own, with as many tasks.
pub(super) struct ToSideOutput<D: Data, T: Time>(Edge<FailedCall<D>, T>);

/// The stream of calls that have failed.
pub(super) type Failures<D, T> = Stream<Received<FailedCall<D>, T>>;

impl<D: Data, T: Time> ToSideOutput<D, T> {
    /// The side output of a stream, and the stream that begins there.
    pub(super) fn leaving<C: Chain<Time = T>>(
        stream: &Stream<C>,
        origin: Origin,
    ) -> (Self, Failures<D, T>) {
        let (edge, second) = stream.aside(Origin { kind: "failed calls", ..origin });
        (Self(edge), second)
    }
}

impl<D: Data, T: Time> Leave<D, T> for ToSideOutput<D, T> {
    type Exit = SideOutputEnd<D, T>;

    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> SideOutputEnd<D, T> {
        SideOutputEnd(self.0.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0)))
    }
}

/// The side output of failed calls in a running task.
pub(super) struct SideOutputEnd<D: Data, T: Time>(Outlet<FailedCall<D>, T, RoundRobin>);

impl<D: Data, T: Time> Pipe for SideOutputEnd<D, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<D: Data, T: Time> Exit<D, T> for SideOutputEnd<D, T> {
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
