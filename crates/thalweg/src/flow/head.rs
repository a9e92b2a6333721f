//! What the heads of all stages do alike: let the stage finish, send events, rest.

use super::{Epoch, Event, Flow, Pipe, Poll, Turn};

/// Where the head of a stage is between two batches.
#[derive(Default)]
pub(crate) struct Head {
    /// The barrier that was sent down the stage and has not left it, for all that is known.
    barrier: Option<Epoch>,
    /// The end was sent down the stage.
    over: bool,
    /// Something was pushed since the stage was last told that there is no more for now.
    unflushed: bool,
}

/// What a head may do next.
pub(crate) enum Settled {
    /// Push a batch or send an event.
    Ready,
    /// Come back in the same turn.
    Busy,
    /// End the turn.
    Stop(Poll),
}

impl Head {
    /// Lets the stage go on with the output that it has left.
    pub(crate) fn settle<N: Pipe>(&mut self, next: &mut N, turn: &mut Turn<'_>) -> Settled {
        match next.resume() {
            Flow::Ready => {}
            Flow::Busy => return Settled::Busy,
            Flow::Blocked => {
                // What goes elsewhere need not wait for the one receiver that is slow.
                next.idle(turn.clock.now());
                turn.back_pressured = true;
                return Settled::Stop(Poll::Wait);
            }
            Flow::Waiting => {
                let now = turn.clock.now();
                // Who cannot go on before the call has come may have been due long ago.
                let again = next.idle(now).filter(|&at| at > now);
                return Settled::Stop(again.map_or(Poll::Wait, Poll::WaitUntil));
            }
        }
        if let Some(epoch) = self.barrier.take() {
            turn.passed = Some(epoch);
        }
        if self.over { Settled::Stop(Poll::Done) } else { Settled::Ready }
    }

    /// Sends an event. The stage must be settled.
    pub(crate) fn send<N: Pipe>(&mut self, event: Event, next: &mut N) {
        match event {
            Event::Barrier(epoch) => self.barrier = Some(epoch),
            Event::End => self.over = true,
            Event::Watermark(_) | Event::Idle | Event::Partition(_) | Event::Round(_) => {}
        }
        next.event(event);
    }

    /// Notes that a batch was pushed.
    pub(crate) fn pushed(&mut self) {
        self.unflushed = true;
    }

    /// There is nothing to push for now. The others have their turn first, so that what they send
    /// goes on together with what is here; then the stage sends on what it holds back.
    pub(crate) fn rest<N: Pipe>(&mut self, next: &mut N, turn: &Turn<'_>) -> Poll {
        if std::mem::take(&mut self.unflushed) {
            return Poll::Later;
        }
        next.idle(turn.clock.now()).map_or(Poll::Wait, Poll::WaitUntil)
    }
}
