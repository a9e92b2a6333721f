//! The exit of a task to the side output, if there is one.

use crate::data::Data;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::{Time, Timestamp};
use std::convert::Infallible;

/// Creates the exit of a task to the side output.
pub trait Leave<S>: Send + 'static {
    /// The exit.
    #[doc(hidden)]
    type Exit: Exit<S> + 'static;

    /// Creates it.
    #[doc(hidden)]
    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> Self::Exit;
}

/// The exit of a running task to the side output.
pub trait Exit<S>: Pipe {
    /// Sends a record to the side output.
    fn push_aside(&mut self, record: S, at: Timestamp);
}

/// No side output.
#[derive(Clone, Copy)]
pub struct NoSideOutput;

impl Leave<Infallible> for NoSideOutput {
    type Exit = Self;

    fn exit(&self, _: &TaskContext<'_>, _: usize) -> Self {
        Self
    }
}

impl Exit<Infallible> for NoSideOutput {
    fn push_aside(&mut self, record: Infallible, _: Timestamp) {
        match record {}
    }
}

impl Pipe for NoSideOutput {
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

/// A side output that is read by a stage with the same number of tasks.
pub struct ToSideOutput<S: Data, T: Time>(Edge<S, T>);

impl<S: Data, T: Time> ToSideOutput<S, T> {
    /// Creates the exit from the stage of a stream, and the stream that begins there.
    pub(super) fn leaving<C: Chain<Time = T>>(
        stream: &Stream<C>,
        origin: Origin,
    ) -> (Self, Stream<Received<S, T>>) {
        let (edge, second) = stream.aside(origin);
        (Self(edge), second)
    }
}

impl<S: Data, T: Time> Leave<S> for ToSideOutput<S, T> {
    type Exit = SideOutputEnd<S, T>;

    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> SideOutputEnd<S, T> {
        SideOutputEnd(self.0.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0)))
    }
}

/// The exit to the side output, in a running task.
pub struct SideOutputEnd<S: Data, T: Time>(Outlet<S, T, RoundRobin>);

impl<S: Data, T: Time> Pipe for SideOutputEnd<S, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<S: Data, T: Time> Exit<S> for SideOutputEnd<S, T> {
    fn push_aside(&mut self, record: S, at: Timestamp) {
        self.0.push(record, T::happened(at));
    }
}
