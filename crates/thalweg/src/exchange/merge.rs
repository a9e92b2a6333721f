//! The head of a stage that sorted senders feed: a k-way merge of the lanes.
//!
//! A lane is read only when all records taken from it before have been pushed, so that at most one batch a lane is
//! held here, and the rest waits within the lanes' credit. Waiting for one lane cannot deadlock with the others: each
//! lane has a credit of its own, and a sender emits only after its own input has ended, so that no sender waits for
//! records that another holds.

use super::edge::SharedLane;
use super::intake::{Intake, Taken};
use crate::data::Data;
use crate::flow::{CHUNK, Op, Poll, Push, Task, Turn, guard};
use crate::metrics::Report;
use crate::state::{LoserTree, precedes};
use crate::time::Time;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A task fed by lanes that each bring sorted records, after all their events but the end.
pub struct MergingInlet<D: Data, T: Time, F, N> {
    intake: Intake<D, T>,
    /// The next record of each lane; `None` where it has not arrived yet, or the lane has ended.
    heads: Vec<Option<(D, T)>>,
    /// The records after those in `heads`.
    behind: Vec<VecDeque<(D, T)>>,
    /// Selects the least head. Built anew in each round, once every lane that has not ended has a head.
    tree: Option<LoserTree>,
    round: u64,
    compare: Arc<F>,
    next: N,
}

impl<D, T, F, N> MergingInlet<D, T, F, N>
where
    D: Data,
    T: Time,
    F: Fn(&D, &D) -> Ordering + Send + Sync + 'static,
    N: Push<D, T>,
{
    pub(crate) fn new(op: Op, lanes: Vec<SharedLane<D, T>>, compare: Arc<F>, next: N) -> Self {
        Self {
            heads: lanes.iter().map(|_| None).collect(),
            behind: lanes.iter().map(|_| VecDeque::new()).collect(),
            tree: None,
            round: 0,
            intake: Intake::new(op, lanes),
            compare,
            next,
        }
    }

    /// Whether the lane's next record has not arrived yet.
    fn is_awaited(&self, lane: usize) -> bool {
        self.heads[lane].is_none() && !self.intake.align.is_complete(lane)
    }

    /// Takes a message from a lane whose next record has not arrived; returns whether there was one.
    fn take(&mut self, from: usize, turn: &Turn<'_>) -> bool {
        match self.intake.take(from, turn) {
            None => return false,
            Some(Taken::Event(event)) => {
                self.intake.align.note(from, event);
                if !event.completes() {
                    return true;
                }
            }
            Some(Taken::Batch(mut batch, mut rest, bytes)) => {
                let behind = &mut self.behind[from];
                loop {
                    batch.drain(|item, time| behind.push_back((item, time)));
                    if !self.intake.continues(from, &mut batch, &mut rest) {
                        break;
                    }
                }
                self.intake.return_batch(from, batch, bytes);
                self.intake.align.pass_events(from);
                self.heads[from] = behind.pop_front();
                if self.heads[from].is_none() {
                    return true;
                }
            }
        }
        // The lane was the winner of the tree, and its head has changed.
        self.replay();
        true
    }

    fn replay(&mut self) {
        let Self { intake, tree, heads, compare, .. } = self;
        if let Some(tree) = tree {
            let compare = |a: &(D, T), b: &(D, T)| compare(&a.0, &b.0);
            guard(intake.op(), || tree.replay(|a, b| precedes(heads, a, b, &compare)));
        }
    }

    /// Pushes records until the next one has not arrived, or a chunk has been pushed.
    fn hand_on(&mut self) {
        let Self { intake, tree, heads, compare, .. } = self;
        if tree.is_none() {
            let compare = |a: &(D, T), b: &(D, T)| compare(&a.0, &b.0);
            let count = heads.len();
            *tree = Some(guard(intake.op(), || {
                LoserTree::new(count, |a, b| precedes(heads, a, b, &compare))
            }));
        }
        for _ in 0..CHUNK {
            let Some(least) = self.tree.as_ref().and_then(LoserTree::winner) else { return };
            let Some((item, time)) = self.heads[least].take() else { return };
            self.intake.head.pushed();
            self.next.push(item, time);
            self.heads[least] = self.behind[least].pop_front();
            if self.is_awaited(least) {
                return;
            }
            self.replay();
            if self.next.is_full() {
                return;
            }
        }
    }

    /// Drops the records of this round that have arrived or still arrive.
    fn skip(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        self.intake.skip_round();
        self.tree = None;
        let mut taken = false;
        for lane in 0..self.intake.lanes.len() {
            taken |= self.take(lane, turn);
            let behind = std::mem::take(&mut self.behind[lane]).len();
            let dropped = behind + usize::from(self.heads[lane].take().is_some());
            self.intake.dropped(lane, dropped);
        }
        if taken { None } else { Some(self.intake.head.rest(&mut self.next, turn)) }
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        if let ControlFlow::Break(poll) = self.intake.attend(&mut self.next, turn) {
            return poll;
        }
        if self.round != self.intake.rounds {
            (self.round, self.tree) = (self.intake.rounds, None);
        }
        if self.intake.skips(&mut self.next) {
            return self.skip(turn);
        }
        // Once the tree is built, only the winner's next record can be missing.
        let (first, last) = match self.tree.as_ref().and_then(LoserTree::winner) {
            Some(least) => (least, least + 1),
            None => (0, self.intake.lanes.len()),
        };
        let (mut awaited, mut taken) = (false, false);
        for lane in first..last {
            if self.is_awaited(lane) {
                taken |= self.take(lane, turn);
                awaited |= self.is_awaited(lane);
            }
        }
        if taken {
            return None;
        }
        if !awaited {
            self.hand_on();
            return None;
        }
        Some(self.intake.head.rest(&mut self.next, turn))
    }
}

impl<D, T, F, N> Task for MergingInlet<D, T, F, N>
where
    D: Data,
    T: Time,
    F: Fn(&D, &D) -> Ordering + Send + Sync + 'static,
    N: Push<D, T>,
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
        self.intake.report(report);
        self.next.report(report);
    }
}
