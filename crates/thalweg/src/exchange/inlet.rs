//! The head of a stage that one exchange feeds: receives batches and aligns events.

use super::edge::SharedLane;
use super::intake::{Intake, Rest, Taken};
use super::overtake::{Ahead, InFlight, Owed};
use super::record_batch::RecordBatch;
use crate::data::{Batch, Portable};
use crate::flow::{Event, Op, Poll, Push, Task, Turn};
use crate::metrics::Report;
use crate::time::Time;
use std::ops::ControlFlow;

/// A task fed by the lanes of an exchange.
///
/// Events are aligned here, so that operators see each once. Records are pushed in the order in which they arrive on each lane;
/// lanes are read in turn. A barrier may overtake records (`overtake.rs`).
pub struct Inlet<I: Portable + ?Sized, T: Time, N> {
    intake: Intake<I, T>,
    /// The lane to poll first.
    turn: usize,
    /// The batches that barriers overtake; `None` where barriers are aligned.
    in_flight: Option<Box<InFlight<I, T>>>,
    next: N,
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Inlet<I, T, N> {
    /// `in_flight` is `Some` if barriers may overtake batches, and contains the batches that the job begins with.
    pub(crate) fn new(
        op: Op,
        lanes: Vec<SharedLane<I, T>>,
        in_flight: Option<Box<InFlight<I, T>>>,
        next: N,
    ) -> Self {
        Self { intake: Intake::new(op, lanes), turn: 0, in_flight, next }
    }

    /// Takes a message from the next lane that has one; returns the number of the lane, too.
    fn take(&mut self, turn: &Turn<'_>) -> Option<(usize, Taken<I, T>)> {
        let lanes = self.intake.lanes.len();
        for step in 0..lanes {
            let at = (self.turn + step) % lanes;
            if let Some(taken) = self.intake.take(at, turn) {
                self.turn = at + 1;
                return Some((at, taken));
            }
        }
        None
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        if let ControlFlow::Break(poll) = self.intake.attend(&mut self.next, turn) {
            return poll;
        }
        let skips = self.intake.skips(&mut self.next);
        if skips {
            self.intake.skip_round();
        }
        match self.take(turn) {
            Some((from, taken)) => {
                self.process(from, taken, skips);
                None
            }
            None => Some(self.intake.head.rest(&mut self.next, turn)),
        }
    }

    /// Processes a message from a lane.
    fn process(&mut self, from: usize, taken: Taken<I, T>, skips: bool) {
        match taken {
            Taken::Batch(batch, rest, bytes) => {
                let emptied = self.push_all(from, batch, rest, skips);
                self.intake.return_batch(from, emptied, bytes);
            }
            Taken::Event(event) => self.intake.align.note(from, event),
        }
    }

    /// Pushes the records of a batch and of what follows it in the same frame, or drops them if the stage skips them; returns the
    /// emptied batch.
    fn push_all(
        &mut self,
        from: usize,
        mut batch: RecordBatch<I, T>,
        mut rest: Rest,
        skips: bool,
    ) -> RecordBatch<I, T> {
        self.intake.head.pushed();
        let next = &mut self.next;
        loop {
            if skips {
                self.intake.dropped(from, batch.len());
                batch.drain(|_, _| {});
            } else {
                batch.items.each_hash(|hash| next.prefetch(hash));
                batch.drain(|item, time| next.push(item, time));
            }
            if !self.intake.continues(from, &mut batch, &mut rest) {
                return batch;
            }
        }
    }

    /// Whether a barrier may overtake batches now, or overtaken batches are left.
    fn overtakes(&self, turn: &Turn<'_>) -> bool {
        let Some(in_flight) = self.in_flight.as_deref() else { return false };
        in_flight.is_busy() || turn.overtaking() > self.intake.align.passed()
    }

    /// As [`poll`](Task::poll), where a barrier may overtake batches.
    #[cold]
    #[inline(never)]
    fn poll_overtaking(&mut self, turn: &mut Turn<'_>) -> Poll {
        while turn.spend() {
            if let Some(poll) = self.step_overtaking(turn) {
                return poll;
            }
        }
        self.next.tick(turn.clock.now());
        Poll::Again
    }

    fn step_overtaking(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        let Some(mut in_flight) = self.in_flight.take() else { return self.step(turn) };
        let poll = self.step_around(&mut in_flight, turn);
        self.in_flight = Some(in_flight);
        poll
    }

    fn step_around(&mut self, in_flight: &mut InFlight<I, T>, turn: &mut Turn<'_>) -> Option<Poll> {
        in_flight.draw(&mut self.intake, turn);
        // The runtime learns only at the end of the turn that the barrier has left the task.
        if turn.passed.is_some() {
            return None;
        }
        if let ControlFlow::Break(poll) = self.intake.settle(&mut self.next, turn) {
            if self.intake.closed {
                in_flight.give_up(&mut self.intake, turn);
            }
            poll?;
            if self.intake.op().signals().wants_checkpoint() {
                // An operator behind may wait for this very checkpoint. If it is only slow, no further credit is returned.
                in_flight.release(&mut self.intake);
            }
            let waiting = in_flight.waiting(&self.intake.align, turn);
            let settles = |epoch| self.intake.head.overdraw(epoch, &mut self.next);
            return if waiting.is_some_and(settles) { None } else { poll };
        }
        // Before aligned events: where all lanes have delivered the barrier, it may still overtake drawn batches.
        if let Some(epoch) = in_flight.begin(&mut self.intake.align, turn) {
            self.intake.head.send(Event::Barrier(epoch), &mut self.next);
            self.intake.head.gather();
            return None;
        }
        if let ControlFlow::Break(poll) = self.intake.emit(&mut self.next) {
            return poll;
        }
        match in_flight.pop() {
            Some(Ahead::Event(from, event)) => self.intake.align.note(from, event),
            Some(Ahead::Batch(None, batch, rest)) => {
                // No lane counts records of an earlier run.
                self.intake.restored += batch.len() as u64;
                drop(self.push_all(0, batch, rest, false));
            }
            Some(Ahead::Batch(Some(Owed { lane, sender, bytes }), batch, rest)) => {
                let emptied = self.push_all(lane, batch, rest, false);
                self.intake.return_earlier(lane, sender, emptied, bytes);
            }
            None => {
                let lanes = self.intake.lanes.len();
                let mut in_turn = (self.turn..self.turn + lanes).map(|at| at % lanes);
                let passed = self.intake.align.passed();
                let taken = in_turn.find_map(|at| {
                    // Messages of the other lanes are drawn.
                    let is_drawn = in_flight.draws_from(at, passed, turn);
                    let taken = if is_drawn { None } else { self.intake.take(at, turn) };
                    taken.map(|taken| (at, taken))
                });
                let Some((from, taken)) = taken else {
                    return Some(self.intake.head.rest(&mut self.next, turn));
                };
                self.turn = from + 1;
                self.process(from, taken, false);
            }
        }
        None
    }
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Task for Inlet<I, T, N> {
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll {
        if self.overtakes(turn) {
            return self.poll_overtaking(turn);
        }
        while turn.spend() {
            if let Some(poll) = self.step(turn) {
                return poll;
            }
        }
        self.next.tick(turn.clock.now());
        Poll::Again
    }

    fn report(&mut self, report: &mut Report) {
        self.intake.report(report);
        self.next.report(report);
    }
}
