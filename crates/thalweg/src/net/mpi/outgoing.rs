//! The frames that wait to be sent to a host, packed into messages.

use crate::clock::Nanos;
use crate::memory::{InFlight, MemoryPool};
use crate::net::HELD;
use crate::net::frames::Frame;
use crate::net::liveness::Periodic;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;

/// The most bytes of several frames that are packed into one message.
const LONGEST_PACKED: usize = 512 << 10;
/// The bytes of frames that are not held any more.
const WORTH_SENDING: usize = 128 << 10;

#[derive(Default)]
pub(super) struct Outgoing(Mutex<State>);

#[derive(Default)]
struct State {
    /// Messages, of which more frames may be added to the last.
    messages: VecDeque<Vec<u8>>,
    /// The bytes of all of them, and their count in the pool.
    bytes: usize,
    in_flight: Option<InFlight>,
    /// The bytes of held frames since the messages were last due.
    held: usize,
    /// Whether the messages are to be sent now.
    is_due: bool,
    /// Whether messages that are due had to wait when the next one was to be taken last.
    is_behind: bool,
    /// Nothing more is sent.
    is_closed: bool,
}

impl Outgoing {
    /// Counts what waits in a pool, from now on.
    pub(super) fn count_in(&self, memory: &MemoryPool) {
        let mut state = lock(&self.0);
        state.in_flight = Some(memory.carry(0));
        state.count();
    }

    /// Adds a frame, and makes all messages due. `buffer` returns an empty one.
    pub(super) fn send(&self, frame: &Frame, buffer: impl FnMut() -> Vec<u8>) {
        let mut state = lock(&self.0);
        state.is_due |= state.add(frame, buffer);
    }

    /// Adds a frame that may wait for more. Returns whether the messages are due.
    pub(super) fn hold(&self, frame: &Frame, buffer: impl FnMut() -> Vec<u8>) -> bool {
        let mut state = lock(&self.0);
        if state.add(frame, buffer) {
            state.held += frame.len();
            state.is_due |= state.held >= WORTH_SENDING;
        }
        state.is_due
    }

    /// Adds the last frame. What is sent after it is dropped.
    pub(super) fn end(&self, frame: &Frame, buffer: impl FnMut() -> Vec<u8>) {
        let mut state = lock(&self.0);
        state.is_due |= state.add(frame, buffer);
        state.is_closed = true;
    }

    /// Makes the messages due. Returns whether there are any.
    pub(super) fn release(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_due = !state.messages.is_empty();
        state.is_due
    }

    /// The next message, if it is due and MPI takes one more for this host.
    pub(super) fn take(&self, has_room: bool) -> Option<Vec<u8>> {
        let mut state = lock(&self.0);
        state.is_behind = !has_room && state.is_due && !state.messages.is_empty();
        if !has_room {
            return None;
        }
        let message = if state.is_due { state.messages.pop_front() } else { None };
        if state.messages.is_empty() {
            (state.is_due, state.held) = (false, 0);
        }
        state.bytes -= message.as_ref().map_or(0, Vec::len);
        state.count();
        message
    }

    /// Whether MPI has not taken all that is to be sent: the host receives less than that.
    pub(super) fn is_behind(&self) -> bool {
        lock(&self.0).is_behind
    }

    /// Whether no message waits, be it due or not.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).messages.is_empty()
    }

    /// Drops what waits, and all that is sent from now on.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0);
        state.messages.clear();
        state.bytes = 0;
        state.count();
        (state.is_behind, state.is_closed) = (false, true);
    }
}

/// Has frames sent that were held for as long as they may be.
pub(super) struct Releases(Periodic);

impl Releases {
    pub(super) fn new(now: Nanos) -> Self {
        Self(Periodic::new(HELD, now))
    }

    /// Makes what is held for these hosts due, if some of it may have been for so long; returns whether there is anything.
    pub(super) fn release<'a>(
        &mut self,
        now: Nanos,
        hosts: impl Iterator<Item = &'a Outgoing>,
    ) -> bool {
        let is_due = self.0.take(now).is_some();
        is_due && hosts.fold(false, |any, outgoing| outgoing.release() | any)
    }
}

impl State {
    /// Adds a frame to the last message, or begins another; returns whether it was taken. One that is longer than a message is cut,
    /// so that each part is a sign of life.
    fn add(&mut self, frame: &Frame, mut buffer: impl FnMut() -> Vec<u8>) -> bool {
        if self.is_closed {
            return false;
        }
        let fits = |message: &Vec<u8>| message.len() + frame.len() <= LONGEST_PACKED;
        if !self.messages.back().is_some_and(fits) {
            self.messages.push_back(buffer());
        }
        for mut left in [&frame.header[..], &frame.content[..]] {
            while !left.is_empty() {
                if self.messages.back().is_none_or(|message| message.len() == LONGEST_PACKED) {
                    self.messages.push_back(buffer());
                }
                let Some(message) = self.messages.back_mut() else { break };
                let (now, later) = left.split_at(left.len().min(LONGEST_PACKED - message.len()));
                message.extend_from_slice(now);
                left = later;
            }
        }
        self.bytes += frame.len();
        self.count();
        true
    }

    fn count(&mut self) {
        let Self { bytes, in_flight, .. } = self;
        if let Some(in_flight) = in_flight {
            in_flight.follow(*bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::nanos;
    use crate::net::frames::{Arrived, FrameReader};
    use crate::net::{Channel, Part};
    use std::time::Duration;

    fn frame(job: u64, bytes: usize) -> Frame {
        Frame::new(Channel { job, part: Part::Edge(1) }, vec![job as u8; bytes])
    }

    /// The jobs of the frames of a message.
    fn jobs(message: &[u8]) -> Vec<u64> {
        let mut jobs = Vec::new();
        let take = |arrived: Arrived<'_>| {
            let Arrived::Frame(channel, content) = arrived else { panic!("{arrived:?}") };
            assert!(content.iter().all(|byte| *byte == channel.job as u8));
            jobs.push(channel.job);
        };
        FrameReader::default().read(message, take).unwrap();
        jobs
    }

    #[test]
    fn held_frames_wait_for_more_and_are_packed() {
        let outgoing = Outgoing::default();
        assert!(!outgoing.release(), "there is nothing");
        for job in 0..3 {
            assert!(!outgoing.hold(&frame(job, 10), Vec::new));
        }
        assert_eq!(outgoing.take(true), None);
        assert!(!outgoing.is_empty());
        assert!(outgoing.release());
        assert_eq!(jobs(&outgoing.take(true).unwrap()), [0, 1, 2]);
        assert!(outgoing.is_empty());
        // Another frame takes them along, and so does one that makes them worth sending.
        assert!(!outgoing.hold(&frame(3, 10), Vec::new));
        outgoing.send(&frame(4, 0), Vec::new);
        assert_eq!(jobs(&outgoing.take(true).unwrap()), [3, 4]);
        assert!(!outgoing.hold(&frame(5, 10), Vec::new));
        assert!(outgoing.hold(&frame(6, WORTH_SENDING), Vec::new));
        assert_eq!(jobs(&outgoing.take(true).unwrap()), [5, 6]);
        assert!(!outgoing.hold(&frame(7, 10), Vec::new), "they are counted anew");
    }

    #[test]
    fn frames_are_held_no_longer_than_over_tcp() {
        let (to, other) = (Outgoing::default(), Outgoing::default());
        let (began, held) = (1_000, nanos(Duration::from_millis(20)));
        let mut releases = Releases::new(began);
        let mut release = |now| releases.release(now, [&to, &other].into_iter());
        for number in 1..4 {
            assert!(!to.hold(&frame(number, 10), Vec::new));
            assert!(!release(began + number * held - 1));
            assert_eq!(to.take(true), None);
            assert!(release(began + number * held));
            assert_eq!(jobs(&to.take(true).unwrap()), [number]);
        }
        assert!(!release(began + 4 * held), "nothing waits");
    }

    #[test]
    fn a_host_is_behind_while_what_is_due_waits_for_it() {
        let outgoing = Outgoing::default();
        assert!(!outgoing.hold(&frame(1, 10), Vec::new));
        assert_eq!((outgoing.take(false), outgoing.is_behind()), (None, false), "it is not due");
        outgoing.send(&frame(2, LONGEST_PACKED), Vec::new);
        assert!(!outgoing.is_behind(), "MPI may take it at once");
        assert_eq!((outgoing.take(false), outgoing.is_behind()), (None, true));
        assert!(outgoing.take(true).is_some() && !outgoing.is_behind());
        assert_eq!((outgoing.take(false), outgoing.is_behind()), (None, true), "there is more");
        while outgoing.take(true).is_some() {}
        assert_eq!((outgoing.take(false), outgoing.is_behind()), (None, false));
        outgoing.send(&frame(3, 10), Vec::new);
        assert_eq!((outgoing.take(false), outgoing.is_behind()), (None, true));
        outgoing.close();
        assert!(!outgoing.is_behind(), "a host that is lost has nothing to wait for");
    }

    #[test]
    fn messages_are_bounded_and_large_frames_cut() {
        let outgoing = Outgoing::default();
        let sent = [(0, 10), (1, LONGEST_PACKED), (2, 3 * LONGEST_PACKED), (3, 1), (4, 1)];
        for (job, bytes) in sent {
            outgoing.send(&frame(job, bytes), Vec::new);
        }
        let messages: Vec<_> = std::iter::from_fn(|| outgoing.take(true)).collect();
        assert!(messages.iter().all(|message| message.len() <= LONGEST_PACKED));
        assert_eq!(messages.len(), 1 + 2 + 4, "the last two are behind the rest of a large one");
        let (mut reader, mut arrived) = (FrameReader::default(), Vec::new());
        for message in &messages {
            let take = |frame: Arrived<'_>| {
                let Arrived::Frame(channel, content) = frame else { panic!("{frame:?}") };
                assert!(content.iter().all(|byte| *byte == channel.job as u8));
                arrived.push((channel.job, content.len()));
            };
            reader.read(message, take).unwrap();
        }
        assert_eq!(arrived, sent);
    }

    #[test]
    fn what_waits_counts_against_the_budget() {
        let pool = MemoryPool::new(1 << 20);
        let outgoing = Outgoing::default();
        outgoing.send(&frame(1, 1000), Vec::new);
        outgoing.count_in(&pool);
        outgoing.send(&frame(2, 1000), Vec::new);
        assert!(pool.in_flight() >= 2000, "{}", pool.in_flight());
        assert!(outgoing.take(true).is_some());
        assert_eq!(pool.in_flight(), 0);
        outgoing.send(&frame(3, 1000), Vec::new);
        outgoing.close();
        assert_eq!(pool.in_flight(), 0);
    }

    #[test]
    fn nothing_follows_the_last_frame() {
        let outgoing = Outgoing::default();
        assert!(!outgoing.hold(&frame(1, 5), Vec::new));
        outgoing.end(&frame(2, 5), Vec::new);
        outgoing.send(&frame(3, 5), Vec::new);
        assert_eq!(jobs(&outgoing.take(true).unwrap()), [1, 2]);
        outgoing.close();
        assert!(outgoing.is_empty());
        assert!(!outgoing.hold(&frame(4, WORTH_SENDING), Vec::new));
        assert_eq!(outgoing.take(true), None);
    }
}
