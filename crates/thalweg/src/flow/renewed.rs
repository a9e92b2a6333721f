//! What an operator remembers of its input, in each round of a loop anew.

use super::{Event, Op, Pipe, guard};

/// What an operator remembers, which may come to a point where it wants no more input.
pub(crate) trait Remembered: Clone + Send {
    /// Whether whatever still comes would change nothing.
    fn has_enough(&self) -> bool;
}

/// What follows an operator, and what the operator remembers: it returns this as its [`next`](Pipe::next).
///
/// While the memory has enough, the stage is closed up to here; when a round of a loop ends, the memory is what it
/// was at first, and the stage open again. The operator only has to look at its memory, and to drop what comes
/// when it has enough: a batch may have more in it.
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

    // An endless fan-out pauses here too, and then finds that nobody wants more.
    fn is_full(&mut self) -> bool {
        self.memory.has_enough() || self.next.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.memory.has_enough() || self.next.is_closed()
    }
}
