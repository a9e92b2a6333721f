//! How the description of a stage becomes a task.

use super::in_flight::in_flight;
use crate::data::{Portable, Record};
use crate::error::Result;
use crate::exchange::{Edge, Inlet};
use crate::flow::{Push, Task};
use crate::plan::TaskContext;
use crate::time::Time;

/// The operators of a stage so far, as a type.
///
/// A program meets it only as a bound, `impl Chain<Item = T>`, and cannot implement it: only the engine makes tasks.
/// An operator implements it by wrapping the chain before it: `attach` nests what follows into the operator's own
/// pusher, and attaches the result to the chain before.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a chain of operators",
    label = "not what a stream is made of",
    note = "a stream's type is written `Stream<impl Chain<Item = T>>`"
)]
pub trait Chain: Send + 'static {
    /// The kind of record: an owned type, or `str` or `[T]` for records that are borrowed from their batch.
    type Item: Record + ?Sized;
    /// What each record carries beside its value: nothing, or a timestamp.
    type Time: Time;
    /// The task that results when `N` is attached.
    #[doc(hidden)]
    type Task<N: Push<Self::Item, Self::Time> + 'static>: Task + 'static;

    /// Makes the task of a stage, with `next` nested into it.
    #[doc(hidden)]
    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, Self::Time> + 'static;
}

/// The beginning of a stage that reads from exchanges.
pub struct Received<I: Portable + ?Sized, T: Time> {
    /// One edge from each preceding stage.
    pub(crate) edges: Vec<Edge<I, T>>,
    pub(crate) op: usize,
}

impl<I: Portable + ?Sized, T: Time> Clone for Received<I, T> {
    fn clone(&self) -> Self {
        Self { edges: self.edges.clone(), op: self.op }
    }
}

impl<I: Portable + ?Sized, T: Time> Chain for Received<I, T> {
    type Item = I;
    type Time = T;
    type Task<N: Push<I, T> + 'static> = Inlet<I, T, N>;

    fn attach<N: Push<I, T> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let lanes = Edge::all_lanes_to(&self.edges, cx.task);
        let in_flight = in_flight(cx, self.op, lanes.len())?;
        Ok(Inlet::new(cx.op(self.op), lanes, in_flight, next))
    }
}
