//! State of an operator that is reset at the end of each round of a loop.

use super::{Event, Op, Pipe, guard};

/// State of an operator that may make further input unnecessary.
pub(crate) trait RoundState: Clone + Send {
    /// Whether further records would change neither the state nor the output.
    fn is_satisfied(&self) -> bool;
}

/// Wraps the operator downstream together with the state of the operator before it, which returns this as its
/// [`next`](Pipe::next).
///
/// While the state [is satisfied](RoundState::is_satisfied), the stage is closed from here upstream. At the end of a
/// round of a loop the state is reset, and the stage is open again. The operator itself only checks its state, and
/// drops the remaining records of a batch when that is satisfied.
pub(crate) struct RoundScoped<M, N> {
    pub(crate) op: Op,
    initial: M,
    pub(crate) state: M,
    pub(crate) next: N,
}

impl<M: RoundState, N> RoundScoped<M, N> {
    /// `op` is the operator whose state this is.
    pub(crate) fn new(op: Op, initial: M, next: N) -> Self {
        Self { op, state: initial.clone(), initial, next }
    }
}

impl<M: RoundState, N: Pipe> Pipe for RoundScoped<M, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if matches!(event, Event::Round(_)) {
            self.state = guard(&self.op, || self.initial.clone());
        }
        self.next.event(event);
    }

    // An endless fan-out pauses here too, and then finds the stage closed.
    fn is_full(&mut self) -> bool {
        self.state.is_satisfied() || self.next.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.state.is_satisfied() || self.next.is_closed()
    }
}
