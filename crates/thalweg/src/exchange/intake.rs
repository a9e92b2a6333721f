//! The receiving end shared by the heads that lanes feed.

use super::align::{Align, Idleness};
use super::compression::decompress;
use super::lane::{Lane, Message};
use super::overtake::Owed;
use super::record_batch::RecordBatch;
use crate::clock::Nanos;
use crate::data::{DecodeError, Portable};
use crate::error::{Error, ErrorKind};
use crate::flow::{Depth, Event, Head, Op, Pipe, Poll, Settled, Turn};
use crate::metrics::{AcrossHosts, Histogram, Passed, Report};
use crate::time::Time;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The lanes of a task, their alignment, and counts of what was received.
pub(super) struct Intake<I: Portable + ?Sized, T: Time> {
    op: Op,
    pub(super) lanes: Vec<Arc<Lane<RecordBatch<I, T>>>>,
    pub(super) align: Align,
    pub(super) head: Head,
    /// How many rounds of loops have ended.
    pub(super) rounds: u64,
    /// The value of `rounds` when the lanes were last closed for the rest of a round.
    closed_in: Option<u64>,
    batches: u64,
    /// Records received and not dropped, by lane.
    records: Vec<u64>,
    /// Records that an earlier run had received and not processed.
    pub(super) restored: u64,
    /// Whether the lanes were closed, for a round or for ever.
    pub(super) closed: bool,
    /// How long batches were in flight, of those that their senders stamped.
    under_way: Histogram,
    /// Those of these that came from other hosts.
    across_hosts: AcrossHosts,
    /// An empty batch, to decode those of other hosts into.
    spare: RecordBatch<I, T>,
    /// Where lanes are bundled: the number, among the tasks of its host, of the task that sent the last batch.
    sender: u32,
}

/// Closes lanes for the rest of a round, except those that are `complete`: they have delivered its end and are in the
/// next round.
pub(super) fn close_round<B>(lanes: &[Arc<Lane<B>>], complete: impl Fn(usize) -> bool) {
    let lanes = lanes.iter().enumerate();
    lanes.filter(|(at, _)| !complete(*at)).for_each(|(_, lane)| lane.close_round());
}

/// What is taken from a lane.
pub(super) enum Taken<I: Portable + ?Sized, T: Time> {
    /// A batch, what follows it in the same frame, and the bytes of credit to return for all of it.
    Batch(RecordBatch<I, T>, Rest, usize),
    Event(Event),
}

/// The batches of a frame of another host that are not decoded yet. Each is decoded when the records of the one before
/// are processed.
#[derive(Default)]
pub(super) struct Rest {
    frame: Vec<u8>,
    /// Where the next batch begins.
    at: usize,
}

impl Rest {
    /// The encoded batches that are left.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.frame[self.at..]
    }
}

impl<I: Portable + ?Sized, T: Time> Intake<I, T> {
    pub(super) fn new(op: Op, lanes: Vec<Arc<Lane<RecordBatch<I, T>>>>) -> Self {
        Self::with_others(op, lanes, &[])
    }

    /// An intake that aligns further lanes, with this idleness, with its own; its own are numbered first.
    pub(super) fn with_others(
        op: Op,
        lanes: Vec<Arc<Lane<RecordBatch<I, T>>>>,
        others: &[Idleness],
    ) -> Self {
        Self {
            op,
            align: Align::new(lanes.iter().map(|lane| &lane.idleness).chain(others)),
            head: Head::default(),
            rounds: 0,
            closed_in: None,
            records: vec![0; lanes.len()],
            restored: 0,
            closed: false,
            lanes,
            batches: 0,
            under_way: Histogram::default(),
            across_hosts: AcrossHosts::default(),
            spare: RecordBatch::default(),
            sender: 0,
        }
    }

    pub(super) fn op(&self) -> &Op {
        &self.op
    }

    /// Does what precedes a batch: resumes the stage, and sends it the next aligned event. Returns `Continue` when a
    /// batch may be taken.
    pub(super) fn attend<N: Pipe>(
        &mut self,
        next: &mut N,
        turn: &mut Turn<'_>,
    ) -> ControlFlow<Option<Poll>> {
        self.settle(next, turn)?;
        self.emit(next)
    }

    /// Resumes the stage. Returns `Continue` when an event may be sent.
    pub(super) fn settle<N: Pipe>(
        &mut self,
        next: &mut N,
        turn: &mut Turn<'_>,
    ) -> ControlFlow<Option<Poll>> {
        match self.head.settle(next, turn) {
            Settled::Ready => {}
            Settled::Busy => return ControlFlow::Break(None),
            Settled::Stop(poll) => return ControlFlow::Break(Some(poll)),
        }
        if !self.is_in_loop() && next.is_closed() {
            self.close();
            self.head.send(Event::End, next);
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }

    /// Sends the next aligned event to the stage, which is settled. Returns `Continue` when there is none.
    pub(super) fn emit<N: Pipe>(&mut self, next: &mut N) -> ControlFlow<Option<Poll>> {
        if self.align.is_undecided() {
            if let Some(event) = self.align.agreed() {
                self.rounds += u64::from(matches!(event, Event::Round(_)));
                if let Event::Barrier(epoch) = event
                    && self.align.is_torn()
                {
                    self.op.signals().tear(epoch, self.op.name());
                }
                self.head.send(event, next);
            }
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }

    pub(super) fn is_in_loop(&self) -> bool {
        self.op.depth() > Depth(0)
    }

    /// Whether the stage is closed for the rest of a round: a task within a loop then drops its input up to the end
    /// of the round.
    pub(super) fn skips<N: Pipe>(&self, next: &mut N) -> bool {
        self.is_in_loop() && next.is_closed()
    }

    /// Whether skipping of this round begins with this call.
    pub(super) fn begins_to_skip(&mut self) -> bool {
        self.closed_in.replace(self.rounds) != Some(self.rounds)
    }

    /// Subtracts records of a lane that were dropped instead of pushed.
    pub(super) fn dropped(&mut self, from: usize, records: usize) {
        self.records[from] -= records as u64;
    }

    /// Closes the lanes for the rest of the round.
    pub(super) fn skip_round(&mut self) {
        if self.begins_to_skip() {
            self.closed = true;
            close_round(&self.lanes, |at| self.align.is_complete(at));
        }
    }

    /// Closes the lanes for ever.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.lanes.iter().for_each(|lane| lane.close());
    }

    /// Takes the next message of a lane, unless the lane is blocked by alignment or empty.
    #[inline]
    pub(super) fn take(&mut self, from: usize, turn: &Turn<'_>) -> Option<Taken<I, T>> {
        if self.align.is_held(from) {
            return None;
        }
        self.take_unheld(from, turn)
    }

    /// Takes the next message of a lane that is known not to be blocked, if it has one.
    #[inline]
    pub(super) fn take_unheld(&mut self, from: usize, turn: &Turn<'_>) -> Option<Taken<I, T>> {
        let lane = &self.lanes[from];
        if !lane.has_messages() {
            return None;
        }
        let (batch, rest, bytes) = match lane.take()? {
            (Message::Event(event), _) => return Some(Taken::Event(event)),
            (Message::SentAt(at), _) => {
                self.measure_far(from, at, turn);
                return self.take_unheld(from, turn);
            }
            (Message::Batch(batch), bytes) => (batch, Rest::default(), bytes),
            (Message::Encoded(frame), bytes) => self.decode_first(Ok(frame), bytes),
            (Message::Compressed(frame), bytes) => self.decode_first(decompress(&frame), bytes),
            (Message::Section(sender, frame), bytes) => {
                self.sender = sender;
                self.decode_first(Ok(frame), bytes)
            }
        };
        self.batches += 1;
        self.records[from] += batch.len() as u64;
        if let Some(sent_at) = batch.sent_at {
            let span = turn.clock.now().saturating_sub(sent_at);
            self.under_way.record(Duration::from_nanos(span));
        }
        Some(Taken::Batch(batch, rest, bytes))
    }

    /// Records how long a frame of another host was in flight that was sent at this time on that host's clock, if the offset of
    /// the clocks is known.
    #[cold]
    fn measure_far(&mut self, from: usize, sent_at: Nanos, turn: &Turn<'_>) {
        let offset = self.lanes[from].far().and_then(|far| far.link.clock_offset());
        if let Some(offset) = offset {
            let span = offset.since(sent_at, turn.clock.now());
            self.under_way.record(Duration::from_nanos(span));
            let uncertainty = Duration::from_nanos(offset.uncertainty);
            self.across_hosts.add(AcrossHosts { batches: 1, uncertainty });
        }
    }

    /// Decodes the first batch of a frame, unless the frame is torn.
    fn decode_first(
        &mut self,
        frame: Result<Vec<u8>, DecodeError>,
        bytes: usize,
    ) -> (RecordBatch<I, T>, Rest, usize) {
        let (mut batch, mut rest) = (std::mem::take(&mut self.spare), Rest::default());
        match frame {
            Ok(frame) => {
                rest.frame = frame;
                self.decode_next(&mut batch, &mut rest);
            }
            Err(error) => self.torn(&error),
        }
        (batch, rest, bytes)
    }

    fn torn(&self, error: &DecodeError) {
        let what = format!("a batch from another host cannot be decoded: {error}");
        self.op.fail(Error::new(ErrorKind::Internal, what));
    }

    /// Decodes the next batch of a frame into one whose records are processed; returns whether there was one.
    #[inline]
    pub(super) fn continues(
        &mut self,
        from: usize,
        batch: &mut RecordBatch<I, T>,
        rest: &mut Rest,
    ) -> bool {
        if rest.at >= rest.frame.len() {
            return false;
        }
        self.decode_next(batch, rest);
        self.records[from] += batch.len() as u64;
        true
    }

    /// Where lanes are bundled: the number, among the tasks of its host, of the task that sent the last batch.
    pub(super) fn sender(&self) -> u32 {
        self.sender
    }

    /// As [`return_batch`](Self::return_batch), for a batch that need not be the last one. Where lanes are bundled, `sender` is
    /// the number of the task that sent it.
    pub(super) fn return_earlier(
        &mut self,
        from: usize,
        sender: u32,
        batch: RecordBatch<I, T>,
        bytes: usize,
    ) {
        self.sender = sender;
        self.return_batch(from, batch, bytes);
    }

    /// Returns a batch of a lane, which is empty, and the credit for what was taken with it.
    pub(super) fn return_batch(&mut self, from: usize, batch: RecordBatch<I, T>, bytes: usize) {
        let lane = &self.lanes[from];
        match lane.far() {
            None => lane.return_batch(batch, bytes),
            Some(far) => {
                self.spare = batch;
                lane.return_credit(far, self.sender, bytes);
            }
        }
    }

    /// Returns the credit for a batch that was drawn from a lane which is now closed, where lanes are bundled: the sender still
    /// sends to other tasks.
    pub(super) fn give_back_dropped(&self, owed: &Owed) {
        let lane = &self.lanes[owed.lane];
        if let Some(far) = lane.far().filter(|far| far.gate.is_some()) {
            lane.return_credit(far, owed.sender, owed.bytes);
        }
    }

    #[inline(never)]
    fn decode_next(&self, batch: &mut RecordBatch<I, T>, rest: &mut Rest) {
        let mut input = &rest.frame[rest.at..];
        if let Err(error) = batch.decode_next(&mut input) {
            self.torn(&error);
            batch.clear();
            input = &[];
        }
        rest.at = rest.frame.len() - input.len();
    }

    pub(super) fn report(&self, report: &mut Report) {
        let records = self.records.iter().sum::<u64>() + self.restored;
        let (under_way, across_hosts) = (&self.under_way, self.across_hosts);
        report.received(self.op.id(), records, self.batches, under_way, across_hosts);
        for (lane, &received) in self.lanes.iter().zip(&self.records) {
            let passed = Passed { received, closed: self.closed, ..Passed::default() };
            report.passed(lane.edge, passed);
        }
    }
}
