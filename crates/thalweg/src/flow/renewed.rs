//! State of an operator that is reset at the end of each round of a loop.

use super::{Event, Op, Pipe, guard};

/// State of an operator, after which the operator may need no more input.
pub(crate) trait Remembered: Clone + Send {
    /// Whether further records would change neither the state nor the output.
    fn has_enough(&self) -> bool;
}

/// The operator downstream, with the state of the operator before it, which returns this as its [`next`](Pipe::next).
///
/// While the state [has enough](Remembered::has_enough), the stage is closed up to here. At the end of a round of a
/// loop the state is reset, and the stage is open again. The operator only has to check its state and to drop
/// further records of a batch when it has enough.
pub(crate) struct Renewed<M, N> {
    pub(crate) op: Op,
    first: M,
    pub(crate) memory: M,
    pub(crate) next: N,
}

impl<M: Remembered, N> Renewed<M, N> {
    /// `op` is the operator that remembers.
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
