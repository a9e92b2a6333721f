//! The head of a stage that is fed by an exchange: takes batches, merges events.

use super::lane::{Lane, Parcel};
use super::packet::Packet;
use crate::data::Portable;
use crate::flow::{Epoch, Event, Flow, Op, Poll, Push, Task, Turn};
use crate::metrics::{Histogram, Report};
use crate::time::{Time, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A task fed by the lanes of an exchange.
///
/// Events are merged here, so that operators see each once: a watermark is the least of all lanes',
/// a barrier has come when it came on every lane (a lane where it came early is not read
/// meanwhile), the end when every lane has ended.
pub struct Inlet<I: Portable + ?Sized, T: Time, N> {
    op: Op,
    lanes: Vec<Receiving<I, T>>,
    /// The lane to look at first.
    turn: usize,
    watermark: Option<Timestamp>,
    /// The barrier that some lanes have reached and others have not.
    aligning: Option<Epoch>,
    /// Whether an event has come since the lanes were last compared.
    undecided: bool,
    /// Whether the end has been passed on.
    ended: bool,
    /// Whether something was pushed since `idle` was last called.
    unflushed: bool,
    batches: u64,
    records: u64,
    /// How long those batches were under way that their senders stamped.
    under_way: Histogram,
    next: N,
}

/// The lane that a parcel came on, the parcel, and the bytes to return for it.
type Taken<I, T> = (usize, Parcel<Packet<I, T>>, usize);

struct Receiving<I: Portable + ?Sized, T: Time> {
    lane: Arc<Lane<Packet<I, T>>>,
    watermark: Option<Timestamp>,
    at_barrier: bool,
    ended: bool,
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> Inlet<I, T, N> {
    pub(crate) fn new(op: Op, lanes: Vec<Arc<Lane<Packet<I, T>>>>, next: N) -> Self {
        let lanes = lanes
            .into_iter()
            .map(|lane| Receiving { lane, watermark: None, at_barrier: false, ended: false })
            .collect();
        Self {
            op,
            lanes,
            turn: 0,
            watermark: None,
            aligning: None,
            // A task that no lane leads to ends at once.
            undecided: true,
            ended: false,
            unflushed: false,
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
            let receiving = &self.lanes[at];
            if receiving.at_barrier || !receiving.lane.has_parcels() {
                continue;
            }
            if let Some((parcel, bytes)) = receiving.lane.take() {
                self.turn = at + 1;
                return Some((at, parcel, bytes));
            }
        }
        None
    }

    fn note(&mut self, from: usize, event: Event) {
        match event {
            Event::Watermark(at) => self.lanes[from].watermark = Some(at),
            Event::Barrier(epoch) => {
                self.lanes[from].at_barrier = true;
                self.aligning = Some(epoch);
            }
            Event::End => self.lanes[from].ended = true,
        }
        self.undecided = true;
    }

    /// The next event that every lane still open agrees on.
    fn agreed(&mut self) -> Option<Event> {
        let open = || self.lanes.iter().filter(|lane| !lane.ended);
        // None is below every timestamp: a lane without a watermark holds back the rest.
        let low = open().map(|lane| lane.watermark).min().flatten();
        if let Some(at) = low
            && low > self.watermark
        {
            self.watermark = low;
            return Some(Event::Watermark(at));
        }
        if let Some(epoch) = self.aligning
            && open().all(|lane| lane.at_barrier)
        {
            self.aligning = None;
            for lane in &mut self.lanes {
                lane.at_barrier = false;
            }
            return Some(Event::Barrier(epoch));
        }
        if open().next().is_none() && !self.ended {
            self.ended = true;
            return Some(Event::End);
        }
        None
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        match self.next.resume() {
            Flow::Ready if self.ended => return Some(Poll::Done),
            Flow::Ready => {}
            Flow::Busy => return None,
            Flow::Blocked => {
                // What goes elsewhere need not wait for the one receiver that is slow.
                self.next.idle(turn.clock.now());
                turn.back_pressured = true;
                return Some(Poll::Wait);
            }
        }
        if self.next.is_closed() && !self.ended {
            for receiving in &self.lanes {
                receiving.lane.close();
            }
            self.ended = true;
            self.next.event(Event::End);
            return None;
        }
        if self.undecided {
            match self.agreed() {
                Some(event) => self.next.event(event),
                None => self.undecided = false,
            }
            return None;
        }
        match self.take() {
            Some((from, Parcel::Batch(mut batch), bytes)) => {
                self.batches += 1;
                self.records += batch.len() as u64;
                self.unflushed = true;
                if let Some(sent_at) = batch.sent_at {
                    let span = turn.clock.now().saturating_sub(sent_at);
                    self.under_way.record(Duration::from_nanos(span));
                }
                let next = &mut self.next;
                batch.drain(|item, time| next.push(item, time));
                self.lanes[from].lane.give_back(batch, bytes);
                None
            }
            Some((from, Parcel::Event(event), _)) => {
                self.note(from, event);
                None
            }
            None if self.unflushed => {
                self.unflushed = false;
                Some(Poll::Later)
            }
            None => Some(self.next.idle(turn.clock.now()).map_or(Poll::Wait, Poll::WaitUntil)),
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
