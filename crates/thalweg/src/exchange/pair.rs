//! The head of a stage that two exchanges feed, each with records of its own kind.
//!
//! Both sides are one to whoever counts watermarks, barriers and ends. Which side may be read is up to the
//! operator: one that has to see all of the first side before the second leaves the second in its lanes, whose
//! senders then wait. It must not do so where the first side could wait for the second, and does not have
//! to know: see [`PushTwo::wants_second`].
//!
//! Within a loop, a side may come once, from outside, and be kept for all rounds, or come again in each. Where the
//! stage is closed for the rest of a round, only the sides that come again are dropped.
//!
//! A lane of one side that is held for a barrier is waited for by nobody but the other side, so the other is
//! read then, whether it is wanted or not.

use super::edge::SharedLane;
use super::intake::{Intake, close_round};
use super::lane::Parcel;
use crate::data::Portable;
use crate::flow::{Op, Poll, PushTwo, Task, Turn};
use crate::metrics::Report;
use crate::time::Time;
use std::ops::{ControlFlow, Range};

/// A task fed by the lanes of two exchanges.
pub struct PairInlet<I: Portable + ?Sized, J: Portable + ?Sized, T: Time, N> {
    /// The first side, with what both have in common: how far all lanes are, and where the stage is.
    first: Intake<I, T>,
    second: Intake<J, T>,
    /// The lanes to look at first.
    turns: (usize, usize),
    /// Whose turn it is, where both sides may be read.
    seconds: bool,
    /// Which sides come again in each round of a loop.
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
    /// `ops` are the operators that receive the two sides; `again` says which of them come again in each round of
    /// the loop that the task is in.
    pub(crate) fn new(
        ops: (Op, Op),
        again: (bool, bool),
        first: Vec<SharedLane<I, T>>,
        second: Vec<SharedLane<J, T>>,
        next: N,
    ) -> Self {
        Self {
            first: Intake::with_others(ops.0, first, second.len()),
            second: Intake::new(ops.1, second),
            turns: (0, 0),
            seconds: false,
            again,
            skips: false,
            next,
        }
    }

    /// Whether nothing more comes on these lanes for now.
    fn are_complete(&self, mut lanes: impl Iterator<Item = usize>) -> bool {
        lanes.all(|lane| self.first.align.is_complete(lane))
    }

    /// Takes a parcel of the first side in; answers whether there was one.
    fn take_first(&mut self, turn: &Turn<'_>) -> bool {
        let lanes = self.first.lanes.len();
        for step in 0..lanes {
            let at = (self.turns.0 + step) % lanes;
            let Some((parcel, bytes)) = self.first.take(at, turn) else { continue };
            self.turns.0 = at + 1;
            match parcel {
                Parcel::Batch(mut batch) => {
                    self.first.head.pushed();
                    let next = &mut self.next;
                    if self.skips && self.again.0 {
                        self.first.dropped(at, batch.len());
                        batch.drain(|_, _| {});
                    } else {
                        batch.drain(|item, time| next.push_first(item, time));
                    }
                    self.first.lanes[at].give_back(batch, bytes);
                }
                Parcel::Event(event) => {
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

    /// The same for the second side, whose lanes are numbered behind those of the first.
    fn take_second(&mut self, turn: &Turn<'_>) -> bool {
        let (before, lanes) = (self.first.lanes.len(), self.second.lanes.len());
        for step in 0..lanes {
            let at = (self.turns.1 + step) % lanes;
            if self.first.align.is_held(before + at) {
                continue;
            }
            let Some((parcel, bytes)) = self.second.take_unheld(at, turn) else { continue };
            self.turns.1 = at + 1;
            match parcel {
                Parcel::Batch(mut batch) => {
                    self.first.head.pushed();
                    let next = &mut self.next;
                    if self.skips && self.again.1 {
                        self.second.dropped(at, batch.len());
                        batch.drain(|_, _| {});
                    } else {
                        batch.drain(|item, time| next.push_second(item, time));
                    }
                    self.second.lanes[at].give_back(batch, bytes);
                }
                Parcel::Event(event) => {
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

    /// Closes the lanes of the sides that come again for the rest of the round.
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

    /// Whether the side with these lanes has nothing more for now, or waits for the other.
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
