//! The side output of an operator, or none.

use crate::data::Data;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;

/// The side output of an operator, [`ToSideOutput`] or [`NoSideOutput`]: makes the outlet of each task.
pub trait MaybeSideOutput<S: 'static, T: Time>: Send + 'static {
    /// The outlet of a running task.
    #[doc(hidden)]
    type Outlet: Push<S, T> + 'static;

    /// Makes the outlet of a task.
    #[doc(hidden)]
    fn outlet(&self, cx: &TaskContext<'_>, op: usize) -> Self::Outlet;
}

/// No side output: records are dropped, and none is needed.
#[derive(Clone, Copy)]
pub struct NoSideOutput;

impl<S: 'static, T: Time> MaybeSideOutput<S, T> for NoSideOutput {
    type Outlet = Self;

    fn outlet(&self, _: &TaskContext<'_>, _: usize) -> Self {
        Self
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

impl<S: 'static, T: Time> Push<S, T> for NoSideOutput {
    fn push(&mut self, _: S, _: T) {}
}

/// A side output that is read by a stage with the same number of tasks.
pub struct ToSideOutput<S: Data, T: Time>(Edge<S, T>);

impl<S: Data, T: Time> ToSideOutput<S, T> {
    /// Begins a side output of the operator that is added to `stream` next: the operator's part of it, and the
    /// stream.
    pub(super) fn begin<C: Chain<Time = T>>(
        stream: &Stream<C>,
        origin: Origin,
    ) -> (Self, Stream<Received<S, T>>) {
        let (edge, side) = stream.begin_side_output(origin);
        (Self(edge), side)
    }
}

impl<S: Data, T: Time> MaybeSideOutput<S, T> for ToSideOutput<S, T> {
    type Outlet = SideOutlet<S, T>;

    fn outlet(&self, cx: &TaskContext<'_>, op: usize) -> SideOutlet<S, T> {
        SideOutlet(self.0.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0)))
    }
}

/// The outlet of a task to a side output.
pub struct SideOutlet<S: Data, T: Time>(Outlet<S, T, RoundRobin>);

impl<S: Data, T: Time> Pipe for SideOutlet<S, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<S: Data, T: Time> Push<S, T> for SideOutlet<S, T> {
    fn push(&mut self, record: S, time: T) {
        self.0.push(record, time);
    }
}
