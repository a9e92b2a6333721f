//! The head of a stage that one exchange feeds: receives batches and aligns events.

use super::edge::SharedLane;
use super::intake::{Intake, Taken};
use crate::data::{Batch, Portable};
use crate::flow::{Op, Poll, Push, Task, Turn};
use crate::metrics::Report;
use crate::time::Time;
use std::ops::ControlFlow;

/// A task fed by the lanes of an exchange.
///
/// Events are aligned here, so that operators see each once. Records are pushed in the order in which they arrive on
/// each lane; lanes are read in turn.
pub struct Inlet<I: Portable + ?Sized, T: Time, N> {
    intake: Intake<I, T>,
    /// The lane to poll first.
    turn: usize,
    next: N,
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Inlet<I, T, N> {
    pub(crate) fn new(op: Op, lanes: Vec<SharedLane<I, T>>, next: N) -> Self {
        Self { intake: Intake::new(op, lanes), turn: 0, next }
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
            Some((from, Taken::Batch(mut batch, mut rest, bytes))) => {
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
                        break;
                    }
                }
                self.intake.return_batch(from, batch, bytes);
                None
            }
            Some((from, Taken::Event(event))) => {
                self.intake.align.note(from, event);
                None
            }
            None => Some(self.intake.head.rest(&mut self.next, turn)),
        }
    }
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Task for Inlet<I, T, N> {
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll {
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
