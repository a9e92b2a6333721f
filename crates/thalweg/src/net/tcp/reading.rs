//! Reading from all hosts, and finding out which of them are lost.
//!
//! One thread at a time reads: the network's thread, or between the turns of tasks one that runs them.

use super::Shared;
use super::outgoing::Rest;
use crate::clock::{Clock, Nanos, nanos};
use crate::net::frames::{Arrived, FrameReader, Notice};
use crate::net::liveness::{Periodic, silence};
use crate::net::{Channel, HostId};
use crate::sync::{AtomicBool, Ordering};
use mio::{Events, Poll, Token};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::time::Duration;

pub(super) const WAKE: Token = Token(usize::MAX);
/// The bytes that are read at once.
const BUFFER: usize = 256 << 10;
/// How often it reads from one host before it looks at others.
const IN_TURN: usize = 8;

/// The requests for the time that a host may send between two looks: a few when it has connected, then one with each heartbeat.
const MOST_REQUESTS: usize = 64;

thread_local! {
    /// Whether this thread is in a turn of [`Reading`], as in a receiver of what has arrived.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread reads, and has locked what it reads from: it must not wait for another thread that reads.
pub(super) fn is_reading() -> bool {
    READS.get()
}

/// The reading ends of all connections.
pub(super) struct Reading {
    poll: Poll,
    events: Events,
    clock: Clock,
    buffer: Vec<u8>,
    /// The same hosts as those of [`Shared`], in the same order.
    peers: BTreeMap<HostId, Incoming>,
    lost_after: Nanos,
    /// Looks for hosts that are silent.
    looks: Periodic,
    /// The bytes that were read since this was taken last.
    read: usize,
}

/// What comes from another host.
struct Incoming {
    reader: FrameReader,
    /// Whether there may be bytes to read.
    readable: bool,
    /// Whether the other side writes nothing more: then no event says that there is more to read.
    ended: bool,
    /// Whether there are bytes to write that the system sends no event for.
    behind: bool,
    /// The requests for the time since the last look.
    requests: usize,
    /// When bytes arrived last.
    arrived: Nanos,
    last: LastFrame,
    state: State,
}

/// The last frame that has arrived from a host.
#[derive(Clone, Copy)]
enum LastFrame {
    None,
    Heartbeat,
    Of(Channel),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    There,
    /// It has said goodbye.
    Leaving,
    /// Nothing more is read or written.
    Closed,
}

impl Reading {
    /// No host may be silent for `most_silent`.
    pub(super) fn new(
        hosts: impl Iterator<Item = HostId>,
        poll: Poll,
        lost_after: Duration,
        most_silent: Duration,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        let incoming = |host| {
            let incoming = Incoming {
                reader: FrameReader::default(),
                readable: true,
                ended: false,
                behind: false,
                requests: 0,
                arrived: now,
                last: LastFrame::None,
                state: State::There,
            };
            (host, incoming)
        };
        let peers: BTreeMap<_, _> = hosts.map(incoming).collect();
        Self {
            poll,
            // One for every host: of a host without an event, nothing had arrived before the poll.
            events: Events::with_capacity(peers.len() + 1),
            clock,
            buffer: vec![0; BUFFER],
            peers,
            lost_after: nanos(lost_after),
            looks: Periodic::new(most_silent / 4, now),
            read: 0,
        }
    }

    /// Waits until something has arrived, or can be written, or until this time, then reads and writes.
    ///
    /// # Errors
    ///
    /// Why nothing can be read any more.
    pub(super) fn turn(&mut self, shared: &Shared, until: Nanos) -> Result<(), String> {
        let busy = self.peers.values().any(|peer| peer.readable || peer.behind);
        let next = if busy { 0 } else { until.min(self.looks.next()) };
        let pause = if next == 0 { 0 } else { next.saturating_sub(self.clock.now()) };
        match self.poll.poll(&mut self.events, Some(Duration::from_nanos(pause))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(format!("cannot wait for the network: {error}")),
            Ok(()) => {}
        }
        for event in &self.events {
            let host = HostId(event.token().0);
            if let Some(peer) = self.peers.get_mut(&host) {
                peer.ended |= event.is_read_closed() || event.is_error();
                peer.readable |= event.is_readable() || peer.ended;
                peer.behind |= event.is_writable();
            }
        }
        let before = READS.replace(true);
        shared.channels.deliver_waiting();
        self.read_and_write(shared);
        self.look(shared);
        READS.set(before);
        Ok(())
    }

    /// The bytes that were read since they were [taken](Self::take_read) last.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// The bytes that were read since this was called last.
    pub(super) fn take_read(&mut self) -> usize {
        std::mem::take(&mut self.read)
    }

    /// Whether every connection is closed.
    pub(super) fn all_closed(&self) -> bool {
        self.peers.values().all(|peer| peer.state == State::Closed)
    }

    /// Reads a few times from each host that has sent something, and writes what was left to this thread.
    fn read_and_write(&mut self, shared: &Shared) {
        for ((host, peer), to) in self.peers.iter_mut().zip(shared.peers.values()) {
            if peer.state == State::Closed {
                (peer.readable, peer.behind) = (false, false);
                continue;
            }
            if take(&to.behind) || peer.behind {
                peer.behind = to.outgoing.go_on(&mut &to.stream) == Rest::Network;
            }
            for _ in 0..IN_TURN {
                if !peer.readable {
                    break;
                }
                match peer.read(*host, shared, &mut self.buffer, &self.clock) {
                    Ok(read) => self.read += read,
                    Err(why) => peer.close(*host, shared, &why),
                }
            }
        }
    }

    /// Closes connections from which nothing has arrived for too long: after they were read. The time by which this look is late
    /// is not counted: a receiver took long, and what has arrived meanwhile is not read yet, or all hosts were stopped.
    fn look(&mut self, shared: &Shared) {
        let now = self.clock.now();
        let Some(late) = self.looks.take(now) else { return };
        for (host, peer) in &mut self.peers {
            if peer.state == State::Closed {
                continue;
            }
            peer.requests = 0;
            let silent = silence(&mut peer.arrived, late, now);
            if silent >= self.lost_after && !peer.readable {
                let seconds = silent as f64 / 1e9;
                let last = peer.last;
                let why = format!("nothing arrived from it for {seconds:.1} s; {last}");
                peer.close(*host, shared, &why);
            }
        }
    }

    /// Closes all connections.
    pub(super) fn lose_all(&mut self, shared: &Shared, why: &str) {
        for (host, peer) in &mut self.peers {
            peer.close(*host, shared, why);
        }
    }
}

impl Incoming {
    /// Reads once; returns how many bytes.
    ///
    /// # Errors
    ///
    /// Why nothing more can be read.
    fn read(
        &mut self,
        host: HostId,
        shared: &Shared,
        buffer: &mut [u8],
        clock: &Clock,
    ) -> Result<usize, String> {
        let peer = &shared.peers[&host];
        let read = match (&peer.stream).read(buffer) {
            Ok(0) => return Err("its connection was closed, as when its process ends".to_owned()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Ok(0);
            }
            Err(error) => return Err(format!("its connection is broken: {error}")),
        };
        // Fewer bytes than there is room for were all that had arrived: there is an event when there are more.
        self.readable = !cfg!(unix) || read == buffer.len() || self.ended;
        // Before the frames are taken, which may take long.
        self.arrived = clock.now();
        let received = self.arrived;
        let Self { reader, last, state, requests, .. } = self;
        reader.read(&buffer[..read], |arrived| match arrived {
            Arrived::Frame(channel, frame) => {
                *last = LastFrame::Of(channel);
                shared.channels.take(host, channel, frame);
            }
            Arrived::Notice(Notice::Alive) => *last = LastFrame::Heartbeat,
            Arrived::Notice(Notice::ClockRequest(asked)) => {
                *last = LastFrame::Heartbeat;
                *requests += 1;
                if *requests <= MOST_REQUESTS {
                    shared.answer_clock(peer, asked, received);
                }
            }
            Arrived::Notice(Notice::ClockAnswer { asked, received: there, answered }) => {
                *last = LastFrame::Heartbeat;
                if peer.clock.take_answer(asked, there, answered, received) {
                    shared.ask_clock(peer);
                }
            }
            Arrived::Notice(Notice::Over(job)) => shared.channels.over_on(host, job),
            Arrived::Notice(Notice::Goodbye) => *state = State::Leaving,
        })?;
        if self.requests > MOST_REQUESTS {
            return Err("it asks for the time again and again".to_owned());
        }
        if self.state == State::Leaving {
            shared.channels.lose(host, &lost(&peer.address, "it has left"));
            // The other side waits for this, to know that it has arrived.
            peer.outgoing.close();
            let _ = peer.stream.shutdown(Shutdown::Write);
        }
        Ok(read)
    }

    /// Nothing can be read or written any more. That is a loss, unless the host has said goodbye.
    fn close(&mut self, host: HostId, shared: &Shared, why: &str) {
        let peer = &shared.peers[&host];
        let is_loss = self.state == State::There && !shared.leaving.load(Ordering::Acquire);
        self.state = State::Closed;
        (self.readable, self.behind) = (false, false);
        self.reader = FrameReader::default();
        // Before the loss ends jobs: a host that only was silent must not learn that they are over here, as if they had
        // ended well.
        peer.outgoing.close();
        let _ = peer.stream.shutdown(Shutdown::Both);
        if is_loss {
            shared.channels.lose(host, &lost(&peer.address, why));
        }
    }
}

/// How a host at an address is lost.
fn lost(address: &str, how: &str) -> String {
    format!("{how} (it was at {address})")
}

impl std::fmt::Display for LastFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("it has sent no frame at all"),
            Self::Heartbeat => f.write_str("the last frame was a heartbeat"),
            Self::Of(channel) => write!(f, "the last frame was of {channel}"),
        }
    }
}

/// Clears a flag; returns whether it was set.
fn take(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::AcqRel)
}
