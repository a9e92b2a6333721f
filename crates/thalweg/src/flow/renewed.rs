//! State of an operator that is reset at the end of each round of a loop.

use super::{Event, Op, Pipe, guard};

/// State of an operator that may make further input unnecessary.
pub(crate) trait Remembered: Clone + Send {
    /// Whether further records would change neither the state nor the output.
    fn has_enough(&self) -> bool;
}

/// Wraps the operator downstream together with the state of the operator before it, which returns this as its
/// [`next`](Pipe::next).
///
/// While the state [is satisfied](RoundState::is_satisfied), the stage is closed from here upstream. At the end of a
/// round of a loop the state is reset, and the stage is open again. The operator itself only checks its state, and
/// drops the remaining records of a batch when that is satisfied.
pub(crate) struct Renewed<M, N> {
    pub(crate) op: Op,
    first: M,
    pub(crate) memory: M,
    pub(crate) next: N,
}

impl<M: Remembered, N> Renewed<M, N> {
    /// `op` is the operator whose state this is.
    pub(crate) fn new(op: Op, first: M, next: N) -> Self {
        Self { op, memory: first.clone(), first, next }
    }
}

impl<M: Remembered, N: Pipe> Pipe for Renewed<M, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if matches!(event, Event::Round(_)) {
            self.memory = guard(&self.op, || self.first.clone());
        }
        self.next.event(event);
    }

    // An endless fan-out pauses here too, and then finds the stage closed.
    fn is_full(&mut self) -> bool {
        self.memory.has_enough() || self.next.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.memory.has_enough() || self.next.is_closed()
    }
}
