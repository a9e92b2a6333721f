//! The part that the heads of all stages share: resuming the stage, sending events, going idle.

use super::{Epoch, Event, Flow, Pipe, Poll, Turn};
use crate::clock::Nanos;

/// When a task that cannot continue is called again if an operator wants to be called at once: 1 ms.
const STUCK: Nanos = 1_000_000;

/// The state of a stage's head between two batches.
#[derive(Default)]
pub(crate) struct Head {
    /// A barrier that was sent down the stage and may still be in it.
    barrier: Option<Epoch>,
    /// Whether batches that the barrier has overtaken are still to arrive and to be saved with it.
    gathers: bool,
    /// The barrier, if it has left the stage and the head still gathers.
    left: Option<Epoch>,
    /// The last barrier for which the stage was overdrawn.
    overdrawn: Epoch,
    /// A barrier that has left the stage, at which operators may still be saving their state.
    saving: Option<Epoch>,
    /// The end was sent down the stage.
    over: bool,
    /// The last barrier of an operator that goes on after the end of its input which is known to have left the stage.
    own: Epoch,
    /// A batch was pushed since the stage was last called with `idle`.
    unflushed: bool,
}

/// What a head may do next.
pub(crate) enum Settled {
    /// Push a batch or send an event.
    Ready,
    /// Call `settle` again in the same turn.
    Busy,
    /// End the turn.
    Stop(Poll),
}

impl Head {
    /// Resumes the stage, so that it emits its pending output.
    pub(crate) fn settle<N: Pipe>(&mut self, next: &mut N, turn: &mut Turn<'_>) -> Settled {
        // Taken before the stage is resumed: an operator that waits compares what it has seen with what is known then.
        let known = turn.barrier_known();
        let flow = next.resume();
        if self.over {
            self.own_barrier_passed(next, turn);
        }
        match flow {
            Flow::Ready => {}
            Flow::Busy => {
                self.save_on(next, turn);
                return Settled::Busy;
            }
            flow @ (Flow::Blocked | Flow::Waiting | Flow::Paused) => {
                turn.back_pressured |= matches!(flow, Flow::Blocked);
                // A barrier from another host may come before the order to send it. An operator that waits does not know of it
                // then, and it may be held upstream of that operator.
                if flow == Flow::Paused && self.barrier.is_some_and(|barrier| barrier <= known) {
                    self.barrier_left(next);
                }
                let saves = self.save_on(next, turn);
                let now = turn.clock.now();
                // Flushes the other lanes: their receivers need not wait for the slow one. A time in the past would make the
                // task run again at once, although it cannot continue before it is woken, and may hide a later one.
                let again =
                    next.idle(now).map(|at| if at > now { at } else { now.saturating_add(STUCK) });
                let rests = again.map_or(Poll::Wait, Poll::WaitUntil);
                return Settled::Stop(if saves { Poll::Later } else { rests });
            }
        }
        let was_overdrawn = self.barrier_left(next);
        match self.save_on(next, turn) {
            _ if was_overdrawn => Settled::Busy,
            true if self.over => Settled::Busy,
            false if self.over => Settled::Stop(Poll::Done),
            _ => Settled::Ready,
        }
    }

    /// Notes that the barrier has left the stage. Returns whether the stage was [overdrawn](Self::overdraw) for it, and so may
    /// not be ready any more.
    fn barrier_left<N: Pipe>(&mut self, next: &mut N) -> bool {
        let Some(epoch) = self.barrier.take() else { return false };
        self.saving = Some(epoch);
        if epoch != self.overdrawn {
            return false;
        }
        next.end_overdraft();
        true
    }

    /// Has operators save a part of their state at a barrier that has left the stage; returns whether more is left. The barrier
    /// has passed the task once all state is saved, and no batches are gathered.
    fn save_on<N: Pipe>(&mut self, next: &mut N, turn: &mut Turn<'_>) -> bool {
        let Some(epoch) = self.saving else { return false };
        if next.save_part() {
            return true;
        }
        self.saving = None;
        match self.gathers {
            true => self.left = Some(epoch),
            false => turn.passed = Some(epoch),
        }
        false
    }

    /// Keeps the barrier that was sent last in the task until [`gathered`](Self::gathered) is called.
    pub(crate) fn gather(&mut self) {
        self.gathers = true;
    }

    /// Notes that all batches that the barrier has overtaken are saved.
    pub(crate) fn gathered(&mut self, turn: &mut Turn<'_>) {
        self.gathers = false;
        if let Some(epoch) = self.left.take() {
            turn.passed = Some(epoch);
        }
    }

    /// [Overdraws](Pipe::overdraw) a stage that is not ready, for a barrier that may overtake batches, once for each barrier.
    /// Returns whether to settle the stage again.
    pub(crate) fn overdraw<N: Pipe>(&mut self, barrier: Epoch, next: &mut N) -> bool {
        if barrier <= self.overdrawn {
            return false;
        }
        self.overdrawn = barrier;
        next.overdraw();
        true
    }

    /// After the end, operators that go on may send barriers of their own. These are few, and the state is saved at once.
    fn own_barrier_passed<N: Pipe>(&mut self, next: &mut N, turn: &mut Turn<'_>) {
        if let Some(epoch) = next.own_barrier().filter(|epoch| *epoch > self.own) {
            while next.save_part() {}
            (self.own, self.saving) = (epoch, None);
            turn.passed = Some(epoch);
        }
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

    /// There is no input for now. After a push, the task first yields to the others, so that what they send can join
    /// the batches that are open here; then the stage flushes.
    pub(crate) fn rest<N: Pipe>(&mut self, next: &mut N, turn: &Turn<'_>) -> Poll {
        if std::mem::take(&mut self.unflushed) {
            return Poll::Later;
        }
        let rests = next.idle(turn.clock.now()).map_or(Poll::Wait, Poll::WaitUntil);
        if self.saving.is_some() { Poll::Later } else { rests }
    }

    /// There is no input for now, and nothing to flush: the task waits to be woken, unless operators are still saving.
    pub(crate) fn wait(&self) -> Poll {
        if self.saving.is_some() { Poll::Later } else { Poll::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::flow::Signals;

    /// Holds barriers, and an operator downstream waits for other tasks unless a barrier is known that it has not seen.
    struct Holding<'a> {
        signals: &'a Signals,
        held: Option<Epoch>,
        seen: Epoch,
    }

    impl Pipe for Holding<'_> {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            None
        }

        fn event(&mut self, event: Event) {
            if let Event::Barrier(epoch) = event {
                self.held = Some(epoch);
            }
        }

        fn resume(&mut self) -> Flow {
            if self.seen == self.signals.epoch() {
                return Flow::Paused;
            }
            self.seen = self.held.take().unwrap_or(self.seen);
            Flow::Busy
        }
    }

    #[test]
    fn a_barrier_that_comes_before_its_order_has_not_passed_where_a_task_waits() {
        let (signals, clock) = (Signals::default(), Clock::system());
        let mut stage = Holding { signals: &signals, held: None, seen: Epoch::default() };
        let mut head = Head::default();
        // It comes from another host.
        head.send(Event::Barrier(Epoch(1)), &mut stage);
        let mut passed = || {
            let mut turn = Turn::new(&clock, (0, 0), 1, &signals);
            while let Settled::Busy = head.settle(&mut stage, &mut turn) {}
            turn.passed
        };
        assert_eq!(passed(), None, "it is held, and the task waits");
        signals.barrier_asked(Epoch(1), false);
        assert_eq!(passed(), Some(Epoch(1)));
    }

    /// Saves its state at a barrier in three parts.
    struct Saving {
        flow: Flow,
        left: usize,
    }

    impl Pipe for Saving {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            None
        }

        fn event(&mut self, event: Event) {
            if let Event::Barrier(_) = event {
                self.left = 3;
            }
        }

        fn resume(&mut self) -> Flow {
            self.flow
        }

        fn save_part(&mut self) -> bool {
            self.left = self.left.saturating_sub(1);
            self.left > 0
        }
    }

    #[test]
    fn a_barrier_has_passed_when_all_is_saved_and_the_task_goes_on_meanwhile() {
        let (signals, clock) = (Signals::default(), Clock::system());
        let mut stage = Saving { flow: Flow::Ready, left: 0 };
        let mut head = Head::default();
        let turn = || Turn::new(&clock, (0, 0), 1, &signals);
        let settle = |head: &mut Head, stage: &mut Saving| {
            let mut turn = turn();
            let settled = head.settle(stage, &mut turn);
            (settled, turn.passed)
        };
        head.send(Event::Barrier(Epoch(1)), &mut stage);
        for left in [2, 1] {
            let settled = settle(&mut head, &mut stage);
            assert!(matches!(settled, (Settled::Ready, None)), "a batch may come");
            assert_eq!(stage.left, left);
            // Also without a batch.
            assert_eq!(head.rest(&mut stage, &turn()), Poll::Later);
            assert_eq!(head.wait(), Poll::Later);
        }
        let settled = settle(&mut head, &mut stage);
        assert!(matches!(settled, (Settled::Ready, Some(Epoch(1)))));
        assert_eq!(head.rest(&mut stage, &turn()), Poll::Wait);
        assert_eq!(head.wait(), Poll::Wait);

        // The receivers have no credit, or there is much output.
        for flow in [Flow::Blocked, Flow::Busy] {
            stage.flow = Flow::Ready;
            head.send(Event::Barrier(Epoch(2)), &mut stage);
            assert!(matches!(settle(&mut head, &mut stage), (Settled::Ready, None)));
            stage.flow = flow;
            let (settled, passed) = settle(&mut head, &mut stage);
            assert!(matches!(settled, Settled::Busy | Settled::Stop(Poll::Later)));
            assert_eq!(passed, None);
            let (settled, passed) = settle(&mut head, &mut stage);
            assert!(matches!(settled, Settled::Busy | Settled::Stop(Poll::Wait)));
            assert_eq!(passed, Some(Epoch(2)));
        }
    }

    #[test]
    fn a_task_ends_when_all_is_saved() {
        let (signals, clock) = (Signals::default(), Clock::system());
        let mut stage = Saving { flow: Flow::Ready, left: 0 };
        let mut head = Head::default();
        head.send(Event::Barrier(Epoch(1)), &mut stage);
        let mut turn = Turn::new(&clock, (0, 0), 1, &signals);
        assert!(matches!(head.settle(&mut stage, &mut turn), Settled::Ready));
        head.send(Event::End, &mut stage);
        assert!(matches!(head.settle(&mut stage, &mut turn), Settled::Busy));
        assert_eq!(turn.passed, None);
        assert!(matches!(head.settle(&mut stage, &mut turn), Settled::Stop(Poll::Done)));
        assert_eq!(turn.passed, Some(Epoch(1)));
    }
}
