//! The queue between one sending and one receiving task.
//!
//! States of a lane, and their transitions:
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | open | creation | |
//! | short of credit: `used > credit` | the sender, sending | the receiver, returning a batch |
//! | sender waiting | the sender, on finding it short, under the lock | the receiver, waking it |
//! | closed for a round | the receiver, which needs no more records of the round | the sender, sending the round's end |
//! | closed | the receiver, which needs no more records | never |
//!
//! No wake-up is lost: the sender decides to wait, and the receiver decides whether to wake it, under the same lock.
//! The receiver is woken after every send; it only goes idle through the state of its task's cell, which records a
//! wake-up that arrives while the task runs.
//!
//! Where the two tasks are on different hosts, each has a half of the lane (see [`far`](super::far)). The half at the
//! receiver has the queue, and the half at the sender the credit; both have the lane's state, open or closed, and send
//! each other its changes.
//!
//! What a lane holds is counted in the memory pool as in flight: batches that are queued or processed, those that wait to
//! be filled again, and, as large as the last one, the batch that is being filled. Of a lane between hosts, the half at the
//! sender counts the frame that is being filled, the network those on their way, and the half at the receiver those that
//! wait to be decoded.

use super::align::Idleness;
use super::far::{Far, Frame};
use crate::clock::Nanos;
use crate::flow::{Event, Waker};
use crate::memory::{InFlight, MemoryPool};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use std::collections::VecDeque;

/// A message on a lane.
pub(crate) enum Message<B> {
    Batch(B),
    /// Batches from another host, as they were encoded there.
    Encoded(Vec<u8>),
    /// The same, compressed.
    Compressed(Vec<u8>),
    /// Batches from the task with this number among those of another host, where lanes are bundled.
    Section(u32, Vec<u8>),
    /// When the batches that follow were sent by another host, on its clock.
    SentAt(Nanos),
    Event(Event),
}

pub(crate) struct Lane<B> {
    state: Mutex<State<B>>,
    /// The length of the queue, so that a receiver can skip an empty lane without taking its lock.
    queued: AtomicUsize,
    /// Whether the lane is closed, for a round or for ever. Read by senders that have nothing to send.
    closed: AtomicBool,
    credit: usize,
    /// The number of its edge in the plan.
    pub(crate) edge: usize,
    /// Where the sender has it from that it is idle.
    pub(super) idleness: Idleness,
    pub(crate) sender: Waker,
    pub(crate) receiver: Waker,
    /// The other half, if that is on another host.
    far: Option<Far>,
}

struct State<B> {
    queue: VecDeque<(Message<B>, usize)>,
    /// Emptied batches on their way back to the sender, each with its size in bytes when it was sent.
    spare: Vec<(B, usize)>,
    /// The bytes of all spare batches.
    spared: usize,
    /// Bytes sent and not yet returned. In the half at the receiver: the bytes of the frames in the queue.
    used: usize,
    /// The bytes of the last batch, or frame, that was sent.
    last: usize,
    /// The most bytes of a batch without what its records own on the heap: so much stays allocated when it is emptied.
    shell: usize,
    /// What the memory pool counts.
    held: InFlight,
    sender_waits: bool,
    /// Ends of rounds in the queue.
    round_ends: usize,
    /// Ends of rounds that were sent, in all.
    rounds: u64,
    /// In the half at the receiver: credit that is free and not yet returned.
    unreturned: usize,
    /// In the half at the receiver: the credit of the sender. In the half at the sender: what the receiver knows of it.
    known_credit: usize,
    /// In the half at the receiver: when the next frame of batches was sent, if it is stamped.
    sent_at: Option<Nanos>,
    open: Open,
}

impl<B> State<B> {
    /// Queues an event. A watermark takes the place of one that waits right before it: a receiver that is slow has one of
    /// those between two batches, and not thousands in front of a barrier.
    fn arrive(&mut self, event: Event) {
        if let Some((Message::Event(before), _)) = self.queue.back_mut()
            && event.supersedes(*before)
        {
            *before = event;
            return;
        }
        self.round_ends += usize::from(matches!(event, Event::Round(_)));
        self.queue.push_back((Message::Event(event), 0));
    }

    /// Counts what the lane holds.
    fn count(&mut self) {
        let open = if self.used > 0 { self.last } else { self.shell };
        self.held.follow(self.used + self.spared + open);
    }

    /// The same for the half at the sender: frames on their way are counted by the network.
    fn count_filling(&mut self) {
        self.held.follow(if self.used > 0 { self.last } else { 0 });
    }

    /// The same for the half at the receiver.
    fn count_queued(&mut self) {
        self.held.follow(self.used);
    }
}

/// Whether the receiver accepts records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Yes,
    /// Not before the round has ended.
    NextRound,
    Never,
}

/// Whether a sender may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credit {
    Left,
    Short,
    Closed,
}

impl<B> Lane<B> {
    pub(crate) fn new(
        edge: usize,
        credit: usize,
        memory: &MemoryPool,
        sender: Waker,
        receiver: Waker,
    ) -> Self {
        let state = State {
            queue: VecDeque::new(),
            spare: Vec::new(),
            spared: 0,
            used: 0,
            last: 0,
            shell: 0,
            held: memory.carry(0),
            sender_waits: false,
            round_ends: 0,
            rounds: 0,
            unreturned: 0,
            known_credit: 0,
            sent_at: None,
            open: Open::Yes,
        };
        Self {
            state: Mutex::new(state),
            queued: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            credit,
            edge,
            idleness: Idleness::default(),
            sender,
            receiver,
            far: None,
        }
    }

    /// This lane as a half whose other half is on another host. Unless that learns of another credit, it assumes this one.
    pub(super) fn into_half(mut self, far: Far, assumed_credit: usize) -> Self {
        lock(&self.state).known_credit = assumed_credit;
        self.far = Some(far);
        self
    }

    /// The other half, if it is on another host.
    pub(super) fn far(&self) -> Option<&Far> {
        self.far.as_ref()
    }

    /// Sends a frame of batches to another host, which takes this much credit, and when that is if it is stamped. Returns
    /// whether there is credit left; a closed lane sends nothing.
    pub(super) fn send_far(
        &self,
        far: &Far,
        frame: Vec<u8>,
        bytes: usize,
        sent_at: Option<Nanos>,
    ) -> Credit {
        let mut state = lock(&self.state);
        if state.open != Open::Yes {
            return Credit::Closed;
        }
        state.used += bytes;
        state.last = frame.len().max(bytes);
        state.count_filling();
        let credit = if state.used > self.credit { Credit::Short } else { Credit::Left };
        let known = std::mem::replace(&mut state.known_credit, self.credit);
        drop(state);
        if known != self.credit {
            far.hold(Frame::Credit(self.credit));
        }
        if let Some(sent_at) = sent_at {
            far.hold(Frame::SentAt(sent_at));
        }
        far.send_batches(frame, bytes);
        credit
    }

    /// Sends a batch of so many bytes, of which its records own `heap` on the heap. Returns an empty one to fill next if one
    /// has come back. Never refuses for lack of credit: the excess is bounded by what one batch of the sender's input can
    /// produce. A closed lane returns the batch itself.
    pub(crate) fn send(&self, batch: B, bytes: usize, heap: usize) -> (Option<B>, Credit) {
        let mut state = lock(&self.state);
        if state.open != Open::Yes {
            return (Some(batch), Credit::Closed);
        }
        state.queue.push_back((Message::Batch(batch), bytes));
        state.used += bytes;
        state.last = bytes;
        state.shell = state.shell.max(bytes.saturating_sub(heap));
        self.queued.store(state.queue.len(), Ordering::Release);
        let spare = state.spare.pop().map(|(batch, bytes)| {
            state.spared -= bytes;
            batch
        });
        state.count();
        let credit = if state.used > self.credit { Credit::Short } else { Credit::Left };
        drop(state);
        self.receiver.wake();
        (spare, credit)
    }

    /// Sends an event. Events need no credit, and a watermark replaces one that waits right before it. The end of a round reopens
    /// a lane that was closed for that round. To another host, the event may wait for more until the lane is
    /// [released](Far::release).
    pub(crate) fn send_event(&self, event: Event) {
        let mut state = lock(&self.state);
        match &self.far {
            None => self.event_arrives(state, event),
            Some(far) => {
                if self.passes(&mut state, event) {
                    drop(state);
                    far.hold(Frame::Event(event));
                }
            }
        }
    }

    /// Whether an event passes the lane, which is not closed for ever. The end of a round reopens it.
    fn passes(&self, state: &mut State<B>, event: Event) -> bool {
        if state.open != Open::Never && matches!(event, Event::Round(_)) {
            state.rounds += 1;
            state.open = Open::Yes;
            self.closed.store(false, Ordering::Release);
        }
        state.open != Open::Never
    }

    /// Takes a frame of the other half.
    pub(super) fn take_frame(&self, far: &Far, frame: Frame<'_>) {
        let mut state = lock(&self.state);
        let sent_at = state.sent_at.take();
        match frame {
            Frame::Batch(bytes, batch) | Frame::Compressed(bytes, batch) => match state.open {
                Open::Yes => {
                    state.used += batch.len();
                    state.count_queued();
                    let batch = batch.to_owned();
                    let message = match frame {
                        Frame::Compressed(..) => Message::Compressed(batch),
                        _ => Message::Encoded(batch),
                    };
                    state.queue.extend(sent_at.map(|at| (Message::SentAt(at), 0)));
                    state.queue.push_back((message, bytes));
                    self.queued.store(state.queue.len(), Ordering::Release);
                    drop(state);
                    self.receiver.wake();
                }
                Open::NextRound => self.give_back(state, far, bytes),
                Open::Never => {}
            },
            Frame::Event(event) => self.event_arrives(state, event),
            Frame::Returned(bytes) => {
                state.used = state.used.saturating_sub(bytes);
                state.count_filling();
                let wake = state.sender_waits && state.used <= self.credit / 2;
                if wake {
                    state.sender_waits = false;
                }
                drop(state);
                if wake {
                    self.sender.wake();
                }
            }
            Frame::Credit(credit) => state.known_credit = credit,
            Frame::SentAt(at) => state.sent_at = Some(at),
            Frame::Closed => {
                state.open = Open::Never;
                state.used = 0;
                state.count_filling();
                state.sender_waits = false;
                self.closed.store(true, Ordering::Release);
                drop(state);
                self.sender.wake();
            }
            // A sender that is past that round is not concerned.
            Frame::ClosedRound(rounds) if state.open == Open::Yes && state.rounds == rounds => {
                state.open = Open::NextRound;
                state.sender_waits = false;
                self.closed.store(true, Ordering::Release);
                drop(state);
                self.sender.wake();
            }
            Frame::ClosedRound(_) => {}
        }
    }

    /// Takes an event from another host whose lanes are bundled.
    pub(super) fn take_event(&self, event: Event) {
        self.event_arrives(lock(&self.state), event);
    }

    fn event_arrives(&self, mut state: MutexGuard<'_, State<B>>, event: Event) {
        if !self.passes(&mut state, event) {
            return;
        }
        state.arrive(event);
        self.queued.store(state.queue.len(), Ordering::Release);
        drop(state);
        self.receiver.wake();
    }

    /// Takes batches of the task with this number among those of another host, and when they were sent if that is measured.
    /// Returns whether they are wanted; if not, their credit is free.
    pub(super) fn take_section(
        &self,
        sender: u32,
        batches: Vec<u8>,
        credit: usize,
        sent_at: Option<Nanos>,
    ) -> bool {
        let mut state = lock(&self.state);
        if state.open != Open::Yes {
            return false;
        }
        state.used += batches.len();
        state.count_queued();
        state.queue.extend(sent_at.map(|at| (Message::SentAt(at), 0)));
        state.queue.push_back((Message::Section(sender, batches), credit));
        self.queued.store(state.queue.len(), Ordering::Release);
        drop(state);
        self.receiver.wake();
        true
    }

    /// Returns credit to a sender on another host: not for every batch, but so that at most half of it is kept back, and a
    /// sender that waits for half of it always gets it.
    fn give_back(&self, mut state: MutexGuard<'_, State<B>>, far: &Far, bytes: usize) {
        state.unreturned = state.unreturned.saturating_add(bytes);
        if state.unreturned > state.known_credit / 2 {
            let returned = std::mem::take(&mut state.unreturned);
            drop(state);
            far.send(Frame::Returned(returned));
        }
    }

    /// Called by the sender: returns whether there is credit again. If not, the sender will be woken when there is.
    pub(crate) fn await_credit(&self) -> Credit {
        let mut state = lock(&self.state);
        if state.open != Open::Yes {
            Credit::Closed
        } else if state.used > self.credit {
            state.sender_waits = true;
            Credit::Short
        } else {
            Credit::Left
        }
    }

    /// Whether anything is queued. Takes no lock; a message whose wake-up was seen is always visible.
    pub(crate) fn has_messages(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0
    }

    /// Whether the receiver accepts no more records, in this round or for ever. A sender woken by `close` or
    /// `close_round` always sees it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes the next message, and the bytes of credit to return for it.
    pub(crate) fn take(&self) -> Option<(Message<B>, usize)> {
        let mut state = lock(&self.state);
        let message = state.queue.pop_front();
        match &message {
            Some((Message::Event(Event::Round(_)), _)) => state.round_ends -= 1,
            Some((
                Message::Encoded(frame) | Message::Compressed(frame) | Message::Section(_, frame),
                _,
            )) => {
                state.used -= frame.len();
                state.count_queued();
            }
            _ => {}
        }
        self.queued.store(state.queue.len(), Ordering::Release);
        message
    }

    /// Returns the credit of a frame whose records are processed to its sender on another host: where lanes are bundled, to
    /// the task with this number among those of its host.
    pub(super) fn return_credit(&self, far: &Far, sender: u32, bytes: usize) {
        match &far.gate {
            Some((gate, _)) => gate.give_back(sender, bytes),
            None => self.give_back(lock(&self.state), far, bytes),
        }
    }

    /// Returns the credit of messages that are dropped, where lanes are bundled: their senders still send to others.
    fn give_back_dropped(&self, dropped: &VecDeque<(Message<B>, usize)>) {
        let Some((gate, _)) = self.far().and_then(|far| far.gate.as_ref()) else { return };
        for (message, bytes) in dropped {
            if let Message::Section(sender, _) = message {
                gate.give_back(*sender, *bytes);
            }
        }
    }

    /// Returns an emptied batch and its credit to the sender.
    ///
    /// The batch is kept for reuse while the spare batches hold no more bytes than the credit, so that a lane in
    /// steady state allocates and frees no batches. Batches beyond that, which an unusual fan-out has sent, are
    /// freed.
    pub(crate) fn return_batch(&self, batch: B, bytes: usize) {
        let mut state = lock(&self.state);
        state.used -= bytes;
        let kept = bytes.min(state.shell);
        let freed = if state.spared <= self.credit {
            state.spare.push((batch, kept));
            state.spared += kept;
            None
        } else {
            Some(batch)
        };
        state.count();
        let wake = state.sender_waits && state.used <= self.credit / 2;
        if wake {
            state.sender_waits = false;
        }
        drop(state);
        drop(freed);
        if wake {
            self.sender.wake();
        }
    }

    /// Called by the receiver: drops what is queued and everything sent from now on.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.open, Open::Never) == Open::Never {
            return;
        }
        state.used = 0;
        state.sender_waits = false;
        let dropped = std::mem::take(&mut state.queue);
        let spare = std::mem::take(&mut state.spare);
        (state.spared, state.shell) = (0, 0);
        state.count();
        self.queued.store(0, Ordering::Release);
        self.closed.store(true, Ordering::Release);
        drop(state);
        drop(spare);
        if let Some(far) = &self.far {
            far.close();
        }
        self.give_back_dropped(&dropped);
        // Woken before the drop, since the destructor of a record may run any code.
        self.sender.wake();
        drop(dropped);
    }

    /// Called by the receiver, which has not received the end of the round: drops the batches that are queued and
    /// those still sent in this round; events are kept. If the sender is already past the round, nothing changes, and
    /// the receiver must drop the remaining batches itself.
    pub(crate) fn close_round(&self) {
        let mut state = lock(&self.state);
        if state.open != Open::Yes || state.round_ends > 0 {
            return;
        }
        state.open = Open::NextRound;
        state.sender_waits = false;
        let mut dropped = VecDeque::new();
        let (mut bytes, mut frames) = (0, 0);
        for _ in 0..state.queue.len() {
            let Some((message, credit)) = state.queue.pop_front() else { break };
            match &message {
                Message::Event(_) => {
                    state.queue.push_back((message, credit));
                    continue;
                }
                Message::Encoded(frame)
                | Message::Compressed(frame)
                | Message::Section(_, frame) => frames += frame.len(),
                Message::Batch(_) | Message::SentAt(_) => {}
            }
            bytes += credit;
            dropped.push_back((message, credit));
        }
        state.used -= if self.far.is_some() { frames } else { bytes };
        self.queued.store(state.queue.len(), Ordering::Release);
        self.closed.store(true, Ordering::Release);
        if let Some(far) = &self.far {
            state.count_queued();
            let rounds = state.rounds;
            if far.gate.is_some() {
                drop(state);
                far.close_round(rounds);
                self.give_back_dropped(&dropped);
            } else {
                far.close_round(rounds);
                self.give_back(state, far, bytes);
            }
        } else {
            state.count();
            drop(state);
        }
        // Woken before the drop, since the destructor of a record may run any code.
        self.sender.wake();
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::super::far::{Ends, HEADER};
    use super::*;
    use crate::net::{HostId, Part, Receive, TestNetwork};
    use crate::time::Timestamp;
    use std::sync::Arc;

    fn lane(credit: usize) -> Lane<Vec<u8>> {
        Lane::new(0, credit, &MemoryPool::new(1000), Waker::default(), Waker::default())
    }

    fn receive(lane: &Lane<Vec<u8>>) {
        if let Some((Message::Batch(batch), bytes)) = lane.take() {
            lane.return_batch(batch, bytes);
        }
    }

    #[test]
    fn a_lane_in_steady_state_allocates_no_batch() {
        // Batches of 40 bytes with a credit of 100: three are in flight when the sender must wait.
        let lane = lane(100);
        let mut made = 0;
        for _ in 0..10 {
            loop {
                let (spare, credit) = lane.send(vec![0; 40], 40, 0);
                made += usize::from(spare.is_none());
                if credit == Credit::Short {
                    break;
                }
            }
            (0..3).for_each(|_| receive(&lane));
        }
        assert_eq!(made, 3);
    }

    #[test]
    fn batches_beyond_the_credit_are_freed() {
        let lane = lane(100);
        (0..50).for_each(|_| drop(lane.send(vec![0; 40], 40, 0)));
        (0..50).for_each(|_| receive(&lane));
        let kept = std::iter::from_fn(|| lane.send(vec![0; 40], 40, 0).0).count();
        assert_eq!(kept, 3, "those within the credit, and the one that exceeds it");
    }

    #[test]
    fn a_sender_learns_whether_it_has_credit() {
        let lane = lane(100);
        (0..3).for_each(|_| drop(lane.send(vec![0; 40], 40, 0)));
        assert_eq!(lane.await_credit(), Credit::Short);
        receive(&lane);
        assert_eq!(lane.await_credit(), Credit::Left, "80 bytes are within the credit");
        lane.close();
        assert_eq!(lane.await_credit(), Credit::Closed);
    }

    #[test]
    fn a_lane_that_is_closed_for_a_round_opens_with_the_next() {
        let lane = lane(100);
        let round = Event::Round(crate::flow::Depth(1));
        let send = || lane.send(vec![0; 60], 60, 0).1;
        assert_eq!((send(), send()), (Credit::Left, Credit::Short));
        lane.send_event(Event::Idle);
        lane.close_round();
        assert!(lane.is_closed());
        assert_eq!((lane.await_credit(), send()), (Credit::Closed, Credit::Closed));
        lane.send_event(round);
        assert!(!lane.is_closed());
        // The receiver has not received the end of the round yet.
        lane.close_round();
        assert_eq!((lane.is_closed(), send()), (false, Credit::Left));
        let taken = || match lane.take() {
            Some((Message::Event(event), _)) => Some(event),
            _ => None,
        };
        assert_eq!([taken(), taken(), taken()], [Some(Event::Idle), Some(round), None]);
        lane.close();
        lane.send_event(round);
        assert!(lane.is_closed(), "closed for ever, not only for the round");
    }

    #[test]
    fn a_watermark_takes_the_place_of_one_that_waits_right_before_it() {
        let watermark = |at| Event::Watermark(Timestamp::from_micros(at));
        let taken = |lane: &Lane<Vec<u8>>| {
            let mut all = Vec::new();
            while let Some((message, bytes)) = lane.take() {
                match message {
                    Message::Event(event) => all.push(Some(event)),
                    Message::Batch(batch) => {
                        lane.return_batch(batch, bytes);
                        all.push(None);
                    }
                    _ => panic!("nothing comes from another host"),
                }
            }
            assert!(!lane.has_messages());
            all
        };
        let lane = lane(1000);
        let watermarks =
            |of: std::ops::Range<i64>| of.for_each(|at| lane.send_event(watermark(at)));
        watermarks(0..1000);
        assert_eq!(taken(&lane), [Some(watermark(999))]);
        // Not one that is taken already.
        watermarks(5..6);
        assert_eq!(taken(&lane), [Some(watermark(5))]);
        let round = Event::Round(crate::flow::Depth(1));
        for between in [Event::Idle, Event::Barrier(crate::flow::Epoch(1)), round] {
            watermarks(0..5);
            let _ = lane.send(vec![0; 40], 40, 0);
            watermarks(5..10);
            lane.send_event(between);
            watermarks(10..15);
            let [first, second, third] = [4, 9, 14].map(|at| Some(watermark(at)));
            assert_eq!(taken(&lane), [first, None, second, Some(between), third]);
        }
        // Ends of rounds are counted: what is closed for one stays open for those behind.
        lane.send_event(round);
        lane.close_round();
        assert!(!lane.is_closed());
    }

    #[test]
    fn a_lane_counts_what_it_holds() {
        let memory = MemoryPool::new(1000);
        let lane = Lane::new(0, 100, &memory, Waker::default(), Waker::default());
        // Batches of 40 bytes, with 60 more on the heap.
        let send = || drop(lane.send(vec![0; 40], 100, 60));
        (0..3).for_each(|_| send());
        assert_eq!(memory.in_flight(), 400, "three, and one that is being filled");
        receive(&lane);
        assert_eq!(memory.in_flight(), 400, "not less than half of it is released");
        (0..2).for_each(|_| receive(&lane));
        assert_eq!(memory.in_flight(), 160, "three empty ones, and one that may be filled");
        send();
        assert_eq!(
            memory.in_flight(),
            280,
            "two empty ones, one in flight, one that is being filled"
        );
        lane.close();
        assert_eq!(memory.in_flight(), 0);
    }

    /// The two halves of a lane, with a credit of 100 and of 1000, on hosts that are connected by this network.
    fn halves(network: &Arc<TestNetwork>, memory: &MemoryPool) -> [Arc<Lane<Vec<u8>>>; 2] {
        struct Half(Arc<Lane<Vec<u8>>>);

        impl Receive for Half {
            fn receive(&self, _: HostId, frame: &[u8]) -> crate::Result<()> {
                let ((_, frame), far) = (Frame::decode(frame).unwrap(), self.0.far().unwrap());
                assert_ne!(far.sends, frame.is_of_sender(), "{frame:?}");
                self.0.take_frame(far, frame);
                Ok(())
            }
        }

        let half = |me: usize, credit: usize| {
            let links = network.links(HostId(me), 2, &Arc::default());
            let link = links.to(HostId(1 - me), Part::Edge(0));
            let far = Far::new(link, Ends { from: 0, to: 0 }, me == 0);
            let half = Lane::new(0, credit, memory, Waker::default(), Waker::default());
            let half = Arc::new(half.into_half(far, 1000));
            links.open(Part::Edge(0), Arc::new(Half(Arc::clone(&half))));
            half
        };
        [half(0, 100), half(1, 1000)]
    }

    #[test]
    fn a_sender_with_less_credit_than_its_receiver_assumes_gets_it_back() {
        let (network, memory) = (Arc::new(TestNetwork::default()), MemoryPool::new(1000));
        let [sender, receiver] = halves(&network, &memory);
        let [to, back] = [&sender, &receiver].map(|half| half.far().unwrap());
        let send = || sender.send_far(to, to.begin(60), 60, None);
        assert_eq!((send(), send()), (Credit::Left, Credit::Short));
        assert_eq!(sender.await_credit(), Credit::Short);
        assert!(memory.in_flight() > 0, "the frame that is being filled");
        while network.deliver(0) {}
        for _ in 0..2 {
            let Some((Message::Encoded(_), bytes)) = receiver.take() else { panic!("a frame") };
            receiver.return_credit(back, 0, bytes);
        }
        while network.deliver(0) {}
        assert_eq!(sender.await_credit(), Credit::Left);
        assert_eq!(memory.in_flight(), 0);
    }

    #[test]
    fn a_stamp_arrives_with_its_frame_and_is_dropped_with_it() {
        let (network, memory) = (Arc::new(TestNetwork::default()), MemoryPool::new(1000));
        let [sender, receiver] = halves(&network, &memory);
        let to = sender.far().unwrap();
        let send = |sent_at| _ = sender.send_far(to, to.begin(20), 1, sent_at);
        // The stamp is a frame of its own, which is not taken before the batches are there.
        send(Some(7));
        network.deliver(0);
        network.deliver(0);
        assert!(receiver.take().is_none(), "the credit and the stamp have arrived");
        network.deliver(0);
        assert!(matches!(receiver.take(), Some((Message::SentAt(7), 0))));
        assert!(matches!(receiver.take(), Some((Message::Encoded(_), 1))));
        send(None);
        while network.deliver(0) {}
        assert!(matches!(receiver.take(), Some((Message::Encoded(_), 1))));
        // One that is dropped because it is queued, and one because it comes too late.
        send(Some(8));
        while network.deliver(0) {}
        send(Some(9));
        receiver.close_round();
        while network.deliver(0) {}
        sender.send_event(Event::Round(crate::flow::Depth(1)));
        send(None);
        while network.deliver(0) {}
        assert!(matches!(receiver.take(), Some((Message::Event(_), 0))));
        assert!(matches!(receiver.take(), Some((Message::Encoded(_), 1))));
        assert!(receiver.take().is_none());
    }

    #[test]
    fn frames_that_wait_to_be_decoded_are_counted() {
        let (network, memory) = (Arc::new(TestNetwork::default()), MemoryPool::new(1000));
        let [sender, receiver] = halves(&network, &memory);
        let to = sender.far().unwrap();
        let send = || {
            let mut frame = to.begin(200);
            frame.resize(200, 0);
            let _ = sender.send_far(to, frame, 10, None);
            while network.deliver(0) {}
        };
        let filling = |bytes: usize| memory.in_flight() - bytes;
        (0..2).for_each(|_| send());
        let waiting = 2 * (200 - HEADER);
        assert_eq!(filling(waiting), 200);
        receiver.take();
        receiver.take();
        assert_eq!(filling(0), 200);
        send();
        receiver.close_round();
        assert_eq!(filling(0), 200, "those of a round that is skipped are dropped");
    }
}

#[cfg(loom)]
pub mod models {
    use super::*;
    use crate::flow::Wake;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// A task that can be woken, and a test thread that waits for that.
    struct Sleeper(Arc<Notify>);

    impl Wake for Sleeper {
        fn wake(&self) {
            self.0.notify();
        }
    }

    fn waker() -> (Waker, Arc<Notify>) {
        let (waker, notify) = (Waker::default(), Arc::new(Notify::new()));
        waker.set(std::sync::Arc::new(Sleeper(Arc::clone(&notify))));
        (waker, notify)
    }

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(check);
    }

    /// Sends `batches` of one byte each over a credit of one, waiting for it as a task does.
    fn send(lane: &Lane<u8>, woken: &Notify, batches: u8) -> Credit {
        for batch in 0..batches {
            let (_, mut credit) = lane.send(batch, 1, 0);
            while credit == Credit::Short {
                credit = lane.await_credit();
                if credit == Credit::Short {
                    woken.wait();
                }
            }
            if credit == Credit::Closed {
                return credit;
            }
        }
        lane.send_event(Event::End);
        Credit::Left
    }

    /// Takes the next message, waiting for it as a task does.
    fn next(lane: &Lane<u8>, woken: &Notify) -> (Message<u8>, usize) {
        loop {
            if lane.has_messages()
                && let Some(message) = lane.take()
            {
                return message;
            }
            woken.wait();
        }
    }

    pub fn neither_end_sleeps_through_what_the_other_did() {
        model(|| {
            let ((sender, sent), (receiver, received)) = (waker(), waker());
            let lane = Arc::new(Lane::new(0, 1, &MemoryPool::new(1), sender, receiver));
            let sending = {
                let lane = Arc::clone(&lane);
                thread::spawn(move || send(&lane, &sent, 3))
            };
            let mut expected = 0;
            while let (Message::Batch(batch), bytes) = next(&lane, &received) {
                assert_eq!(batch, expected);
                expected += 1;
                lane.return_batch(batch, bytes);
            }
            assert_eq!(expected, 3);
            assert_eq!(sending.join().unwrap(), Credit::Left);
        });
    }

    pub fn a_sender_that_waits_learns_that_the_lane_is_closed() {
        model(|| {
            let ((sender, sent), (receiver, received)) = (waker(), waker());
            let lane = Arc::new(Lane::new(0, 0, &MemoryPool::new(1), sender, receiver));
            let sending = {
                let lane = Arc::clone(&lane);
                thread::spawn(move || send(&lane, &sent, 2))
            };
            let (first, _) = next(&lane, &received);
            assert!(matches!(first, Message::Batch(0)));
            lane.close();
            assert_eq!(sending.join().unwrap(), Credit::Closed);
            assert!(lane.is_closed() && !lane.has_messages());
        });
    }
}
