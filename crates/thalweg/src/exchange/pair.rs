//! The head of a stage that two exchanges feed, each with its own type of record.
//!
//! Watermarks, barriers and ends are aligned over the lanes of both inputs. The operator decides which input may be
//! read: one that needs all of the first input before the second leaves the second in its lanes, whose senders then
//! wait. It must not do so where the first input could wait for the second, which is where the plan connects the two
//! upstream of this stage (`Plan::are_connected`).
//!
//! Within a loop, an input either comes once, from outside, and is kept for all rounds, or recurs in each round.
//! Where the stage is closed for the rest of a round, only the inputs that recur are dropped.
//!
//! While a lane of one input is blocked by a barrier, only the other input can complete the alignment, so the other
//! is then read whether the operator wants it or not.

use super::edge::SharedLane;
use super::intake::{Intake, Taken, close_round};
use crate::data::Portable;
use crate::flow::{Op, Poll, PushTwo, Task, Turn};
use crate::metrics::Report;
use crate::time::Time;
use std::ops::{ControlFlow, Range};

/// A task fed by the lanes of two exchanges.
pub struct PairInlet<I: Portable + ?Sized, J: Portable + ?Sized, T: Time, N> {
    /// The first input. Its alignment and head serve both inputs.
    first: Intake<I, T>,
    second: Intake<J, T>,
    /// The lanes to poll first, by input.
    turns: (usize, usize),
    /// Whether the second input has precedence in the next step, where both may be read.
    seconds: bool,
    /// Which inputs recur in each round of a loop.
    again: (bool, bool),
    /// Whether the stage is closed for the rest of the round.
    skips: bool,
    next: N,
}

impl<I, J, T, N> PairInlet<I, J, T, N>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    N: PushTwo<I, J, T>,
{
    /// `ops` are the operators that receive the two inputs; `again` tells which of them recur in each round of the
    /// loop that the task is in.
    pub(crate) fn new(
        ops: (Op, Op),
        again: (bool, bool),
        first: Vec<SharedLane<I, T>>,
        second: Vec<SharedLane<J, T>>,
        next: N,
    ) -> Self {
        let others: Vec<_> = second.iter().map(|lane| lane.idleness.clone()).collect();
        Self {
            first: Intake::with_others(ops.0, first, &others),
            second: Intake::new(ops.1, second),
            turns: (0, 0),
            seconds: false,
            again,
            skips: false,
            next,
        }
    }

    /// Whether these lanes have delivered all of their input for now.
    fn are_complete(&self, mut lanes: impl Iterator<Item = usize>) -> bool {
        lanes.all(|lane| self.first.align.is_complete(lane))
    }

    /// Takes a message of the first input; returns whether there was one.
    fn take_first(&mut self, turn: &Turn<'_>) -> bool {
        let lanes = self.first.lanes.len();
        for step in 0..lanes {
            let at = (self.turns.0 + step) % lanes;
            let Some(taken) = self.first.take(at, turn) else { continue };
            self.turns.0 = at + 1;
            match taken {
                Taken::Batch(mut batch, mut rest, bytes) => {
                    self.first.head.pushed();
                    let next = &mut self.next;
                    loop {
                        if self.skips && self.again.0 {
                            self.first.dropped(at, batch.len());
                            batch.drain(|_, _| {});
                        } else {
                            batch.drain(|item, time| next.push_first(item, time));
                        }
                        if !self.first.continues(at, &mut batch, &mut rest) {
                            break;
                        }
                    }
                    self.first.return_batch(at, batch, bytes);
                }
                Taken::Event(event) => {
                    self.first.align.note(at, event);
                    if event.completes() && self.are_complete(0..lanes) {
                        self.next.first_ended();
                    }
                }
            }
            return true;
        }
        false
    }

    /// The same for the second input, whose lanes are numbered after those of the first.
    fn take_second(&mut self, turn: &Turn<'_>) -> bool {
        let (before, lanes) = (self.first.lanes.len(), self.second.lanes.len());
        for step in 0..lanes {
            let at = (self.turns.1 + step) % lanes;
            if self.first.align.is_held(before + at) {
                continue;
            }
            let Some(taken) = self.second.take_unheld(at, turn) else { continue };
            self.turns.1 = at + 1;
            match taken {
                Taken::Batch(mut batch, mut rest, bytes) => {
                    self.first.head.pushed();
                    let next = &mut self.next;
                    loop {
                        if self.skips && self.again.1 {
                            self.second.dropped(at, batch.len());
                            batch.drain(|_, _| {});
                        } else {
                            batch.drain(|item, time| next.push_second(item, time));
                        }
                        if !self.second.continues(at, &mut batch, &mut rest) {
                            break;
                        }
                    }
                    self.second.return_batch(at, batch, bytes);
                }
                Taken::Event(event) => {
                    self.first.align.note(before + at, event);
                    if event.completes() && self.are_complete(before..before + lanes) {
                        self.next.second_ended();
                    }
                }
            }
            return true;
        }
        false
    }

    /// Closes the lanes of the recurring inputs for the rest of the round.
    fn skip_round(&mut self) {
        if !self.first.begins_to_skip() {
            return;
        }
        let Self { first, second, again, .. } = self;
        let before = first.lanes.len();
        if again.0 {
            first.closed = true;
            close_round(&first.lanes, |at| first.align.is_complete(at));
        }
        if again.1 {
            second.closed = true;
            close_round(&second.lanes, |at| first.align.is_complete(before + at));
        }
    }

    fn may_read_first(&self) -> bool {
        let before = self.first.lanes.len();
        let second = || before..before + self.second.lanes.len();
        (self.skips && self.again.0) || self.next.wants_first() || self.is_past(second())
    }

    fn may_read_second(&self) -> bool {
        (self.skips && self.again.1)
            || self.next.wants_second()
            || self.is_past(0..self.first.lanes.len())
    }

    /// Whether the input with these lanes has delivered everything for now, or is blocked by a barrier.
    fn is_past(&self, mut lanes: Range<usize>) -> bool {
        self.are_complete(lanes.clone()) || lanes.any(|lane| self.first.align.is_held(lane))
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        if !self.first.is_in_loop() && self.next.is_closed() {
            self.second.close();
        }
        let rounds = self.first.rounds;
        if let ControlFlow::Break(poll) = self.first.attend(&mut self.next, turn) {
            if self.first.rounds > rounds {
                let again = !self.are_complete(0..self.first.lanes.len());
                self.next.round_ends(again);
            }
            return poll;
        }
        self.skips = self.first.skips(&mut self.next);
        if self.skips {
            self.skip_round();
        }
        let (first, second) = (self.may_read_first(), self.may_read_second());
        let taken = if second && self.seconds {
            self.take_second(turn) || (first && self.take_first(turn))
        } else {
            (first && self.take_first(turn)) || (second && self.take_second(turn))
        };
        self.seconds = !self.seconds;
        if taken {
            return None;
        }
        Some(self.first.head.rest(&mut self.next, turn))
    }
}

impl<I, J, T, N> Task for PairInlet<I, J, T, N>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    N: PushTwo<I, J, T>,
{
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
        self.first.report(report);
        self.second.report(report);
        self.next.report(report);
    }
}
