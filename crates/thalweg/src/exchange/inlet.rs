//! The head of a stage that is fed by an exchange: takes batches, merges events.

use super::align::Align;
use super::lane::{Lane, Parcel};
use super::packet::Packet;
use crate::data::Portable;
use crate::flow::{Event, Head, Op, Poll, Push, Settled, Task, Turn};
use crate::metrics::{Histogram, Report};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// A task fed by the lanes of an exchange.
///
/// Events are merged here, so that operators see each once; records come in the order in which the
/// lanes have them.
pub struct Inlet<I: Portable + ?Sized, T: Time, N> {
    op: Op,
    lanes: Vec<Arc<Lane<Packet<I, T>>>>,
    /// The lane to look at first.
    turn: usize,
    align: Align,
    head: Head,
    batches: u64,
    records: u64,
    /// How long those batches were under way that their senders stamped.
    under_way: Histogram,
    next: N,
}

/// The lane that a parcel came on, the parcel, and the bytes to return for it.
type Taken<I, T> = (usize, Parcel<Packet<I, T>>, usize);

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Inlet<I, T, N> {
    pub(crate) fn new(op: Op, lanes: Vec<Arc<Lane<Packet<I, T>>>>, next: N) -> Self {
        Self {
            op,
            align: Align::new(lanes.len()),
            lanes,
            turn: 0,
            head: Head::default(),
            batches: 0,
            records: 0,
            under_way: Histogram::default(),
            next,
        }
    }

    /// Takes a parcel from the next lane that has one.
    fn take(&mut self) -> Option<Taken<I, T>> {
        let lanes = self.lanes.len();
        for step in 0..lanes {
            let at = (self.turn + step) % lanes;
            let lane = &self.lanes[at];
            if self.align.is_held(at) || !lane.has_parcels() {
                continue;
            }
            if let Some((parcel, bytes)) = lane.take() {
                self.turn = at + 1;
                return Some((at, parcel, bytes));
            }
        }
        None
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        match self.head.settle(&mut self.next, turn) {
            Settled::Ready => {}
            Settled::Busy => return None,
            Settled::Stop(poll) => return Some(poll),
        }
        if self.next.is_closed() {
            self.lanes.iter().for_each(|lane| lane.close());
            self.head.send(Event::End, &mut self.next);
            return None;
        }
        if self.align.is_undecided() {
            if let Some(event) = self.align.agreed() {
                self.head.send(event, &mut self.next);
            }
            return None;
        }
        match self.take() {
            Some((from, Parcel::Batch(mut batch), bytes)) => {
                self.batches += 1;
                self.records += batch.len() as u64;
                self.head.pushed();
                if let Some(sent_at) = batch.sent_at {
                    let span = turn.clock.now().saturating_sub(sent_at);
                    self.under_way.record(Duration::from_nanos(span));
                }
                let next = &mut self.next;
                batch.drain(|item, time| next.push(item, time));
                self.lanes[from].give_back(batch, bytes);
                None
            }
            Some((from, Parcel::Event(event), _)) => {
                self.align.note(from, event);
                None
            }
            None => Some(self.head.rest(&mut self.next, turn)),
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
        report.received(self.op.id(), self.records, self.batches, &self.under_way);
        self.next.report(report);
    }
}
