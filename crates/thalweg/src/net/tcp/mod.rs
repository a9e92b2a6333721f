//! The network between processes: one TCP connection for every two hosts, and one thread at a time that reads from all of them.
//!
//! [`rendezvous`] connects the hosts, by the [`handshake`] of every two. Then frames go over the connections. The
//! sender of a frame writes it, unless another thread writes to that host ([`outgoing`]). The network's thread ([`thread`]), or
//! while much arrives one that runs tasks, reads ([`reading`]), gives frames to the receivers of their channels,
//! continues to write where a connection was full, and detects lost hosts. [`heartbeats`] have a thread of their own, so that
//! a host on which receivers take long is not lost to the others; with them, hosts compare their clocks ([`clocks`](super::clocks)). The network does not look into frames: batches are
//! decoded by the tasks that receive them.
//!
//! A connection is a socket, or TLS on one ([`stream`]). Two hosts have one, from before the first frame to the last: hosts connect
//! again only before all are connected, and a connection that breaks later is not made again. What it had not taken is dropped,
//! so no frame arrives twice.
//!
//! A host that has no more jobs says goodbye, and the other side closes the connection: so nothing that was sent is lost.

mod connection;
mod handshake;
mod heartbeats;
mod names;
mod outgoing;
mod ports;
mod reading;
mod rendezvous;
mod strangers;
mod stream;
mod thread;
#[cfg(feature = "tls")]
mod tls;

#[cfg(all(test, not(miri)))]
mod tests;

pub(super) use handshake::Identity;
pub(crate) use ports::free_port;

use super::channels::Channels;
use super::clocks::{Offset, RemoteClock};
use super::frames::{self, Arrived, Frame, FrameReader, LARGEST, Notice};
use super::{Channel, HostId, Network, Receiver, blocking};
use crate::clock::{Clock, Nanos, nanos};
use crate::config::{HostConfig, Secret};
use crate::data::{Data, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryPool;
use crate::sync::{AtomicBool, Mutex, Ordering, join_other, spawn, try_lock};
use connection::Message;
use handshake::{Handshake, Role, Step};
use heartbeats::Heartbeats;
use mio::{Interest, Poll, Token, Waker};
use outgoing::{Outgoing, Rest};
use reading::Reading;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use stream::Stream;
use thread::{FAREWELL, Nap};

/// The connections of a host, and the threads that serve them. When it is dropped, the host leaves.
pub(crate) struct TcpNetwork {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    heartbeats: Heartbeats,
}

/// What tasks and the network's thread share.
struct Shared {
    peers: BTreeMap<HostId, Peer>,
    channels: Channels,
    /// The clock of this host's tasks.
    clock: Clock,
    /// Wakes the network's thread.
    waker: Waker,
    /// Held by the thread that reads, or waits for something to read.
    reading: Mutex<Reading>,
    nap: Nap,
    /// Whether this host leaves.
    leaving: AtomicBool,
    /// Counts the frames that wait.
    memory: OnceLock<MemoryPool>,
}

/// Another host.
struct Peer {
    address: String,
    stream: Stream,
    outgoing: Outgoing,
    clock: RemoteClock,
    /// Whether a sender has left frames to the network's thread.
    behind: AtomicBool,
}

impl TcpNetwork {
    /// Connects this host with all others. Returns the cores of each host too.
    pub(crate) fn connect(
        config: &HostConfig,
        cores: usize,
        credit: usize,
        clock: Clock,
    ) -> Result<(Self, Vec<usize>)> {
        Self::connect_as(config, Identity::of_this_process(config, cores, credit)?, clock)
    }

    fn connect_as(config: &HostConfig, mine: Identity, clock: Clock) -> Result<(Self, Vec<usize>)> {
        let met = rendezvous::meet(config, mine)?;
        let cores = met.hosts.iter().map(|host| host.cores as usize).collect();
        let most_silent = met.hosts.iter().map(Identity::lost_after).min();
        let most_silent = most_silent.unwrap_or(config.lost_after);
        let network = Self::start(met, config.lost_after, most_silent, clock)?;
        Ok((network, cores))
    }

    /// Starts the network's thread. No host may be silent for `most_silent`.
    fn start(
        met: rendezvous::Met,
        lost_after: Duration,
        most_silent: Duration,
        clock: Clock,
    ) -> Result<Self> {
        let failed = |cause: io::Error| {
            Error::new(ErrorKind::Io, "cannot wait for other hosts").caused_by(cause)
        };
        let poll = Poll::new().map_err(failed)?;
        let mut peers = BTreeMap::new();
        for (host, mut stream) in met.streams {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(stream.socket_mut(), Token(host), interest).map_err(failed)?;
            let address = met.hosts.get(host).map(|peer| peer.address.clone()).unwrap_or_default();
            let (outgoing, clock) = (Outgoing::default(), RemoteClock::default());
            let behind = AtomicBool::new(false);
            peers.insert(HostId(host), Peer { address, stream, outgoing, clock, behind });
        }
        let waker = Waker::new(poll.registry(), reading::WAKE).map_err(failed)?;
        let reading =
            Reading::new(peers.keys().copied(), poll, lost_after, most_silent, clock.clone());
        let shared = Arc::new(Shared {
            peers,
            channels: Channels::default(),
            clock,
            waker,
            reading: Mutex::new(reading),
            nap: Nap::default(),
            leaving: AtomicBool::new(false),
            memory: OnceLock::new(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = Some(spawn("thalweg-net".to_owned(), move || thread::run(&of_thread))?);
        let heartbeats = Heartbeats::start(&shared, most_silent / 4).inspect_err(|_| {
            // The other thread ends, and closes the connections.
            shared.leaving.store(true, Ordering::Release);
            shared.wake();
        })?;
        for peer in shared.peers.values() {
            shared.ask_clock(peer);
        }
        Ok(Self { shared, thread, heartbeats })
    }

    /// Carries the frames of jobs.
    pub(crate) fn network(&self) -> Arc<dyn Network> {
        Arc::clone(&self.shared) as _
    }
}

/// Reads bytes as a host would, torn after so many of them: as a handshake, as a message, and as frames. Takes the answers of
/// clocks in them.
///
/// # Panics
///
/// If it matters where frames are torn, or a handshake succeeds.
pub(crate) fn read_from_host(bytes: &[u8], torn_at: usize) {
    let torn = bytes.split_at(torn_at.min(bytes.len()));
    shake_hands(Role::Connects, [torn.0, torn.1]);
    shake_hands(Role::Accepts, [torn.0, torn.1]);
    let _ = decode_whole(bytes, Message::decode);
    let frames = |pieces: &[&[u8]]| {
        let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
        let (clock, mut now) = (RemoteClock::default(), 0);
        let read = pieces.iter().try_for_each(|piece| {
            reader.read(piece, |arrived| {
                frames.push(format!("{arrived:?} {:?}", clock.offset(now)));
                match arrived {
                    Arrived::Notice(Notice::ClockRequest(at)) => now = at,
                    Arrived::Notice(Notice::ClockAnswer { asked, received, answered }) => {
                        clock.ask(asked);
                        clock.take_answer(asked, received, answered, now);
                    }
                    _ => {}
                }
            })
        });
        (read, frames)
    };
    assert_eq!(frames(&[bytes]), frames(&[torn.0, torn.1]));
}

/// Gives bytes of a stranger to a handshake.
fn shake_hands(role: Role, pieces: [&[u8]; 2]) {
    let mine = Identity {
        host: 0,
        hosts: 2,
        cores: 1,
        executable: 0,
        credit: 0,
        compression: String::new(),
        lost_after: 0,
        address: String::new(),
    };
    let secret = Secret::new("a secret of this host alone");
    let mut handshake = Handshake::new(role, mine, secret, [0; 32]);
    for mut rest in pieces {
        while !rest.is_empty() {
            let (now, later) = rest.split_at(handshake.wanted().min(rest.len()));
            rest = later;
            match handshake.take(now) {
                Ok(Step::Read(_)) => {}
                Ok(Step::Done(_)) => panic!("a handshake without the secret"),
                Err(_) => return,
            }
        }
    }
}

impl Shared {
    /// Sends a frame; never waits.
    fn send_to(&self, peer: &Peer, frame: Frame) {
        self.leave(peer, peer.outgoing.send(frame, &mut &peer.stream));
    }

    /// Asks another host for the time, unless it has not answered the last request; returns whether it does.
    fn ask_clock(&self, peer: &Peer) -> bool {
        let now = self.clock.now();
        let asks = peer.clock.ask(now);
        if asks {
            self.send_to(peer, Frame::notice(Notice::ClockRequest(now)));
        }
        asks
    }

    /// Answers another host's request for the time, which has arrived at this time, unless this host leaves.
    fn answer_clock(&self, peer: &Peer, asked: Nanos, received: Nanos) {
        if !self.leaving.load(Ordering::Acquire) {
            let answered = self.clock.now();
            self.send_to(peer, Frame::notice(Notice::ClockAnswer { asked, received, answered }));
        }
    }

    /// Leaves the rest of what is to be written to the network's thread.
    fn leave(&self, peer: &Peer, rest: Rest) {
        if rest == Rest::Network {
            peer.behind.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// The host that a frame is for, and the frame with its header; `None` if it is too large, which ends the job.
    fn frame(&self, to: HostId, channel: Channel, content: Vec<u8>) -> Option<(&Peer, Frame)> {
        if content.len() > LARGEST {
            self.channels.fail(channel, Frame::too_large(content.len()));
            return None;
        }
        Some((self.peers.get(&to)?, Frame::new(channel, content).counted_in(self.memory.get())))
    }

    fn wake(&self) {
        self.nap.end();
        // It fails only if the system is out of memory; the thread wakes within a quarter of the longest silence then.
        let _ = self.waker.wake();
    }
}

impl Network for Shared {
    fn send(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        if let Some((peer, frame)) = self.frame(to, channel, frame) {
            self.send_to(peer, frame);
        }
    }

    fn hold(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        if let Some((peer, frame)) = self.frame(to, channel, frame) {
            self.leave(peer, peer.outgoing.hold(frame, &mut &peer.stream));
        }
    }

    fn release(&self, to: HostId) {
        if let Some(peer) = self.peers.get(&to) {
            self.leave(peer, peer.outgoing.release(&mut &peer.stream));
        }
    }

    fn is_behind(&self, to: HostId) -> bool {
        self.peers.get(&to).is_some_and(|peer| peer.outgoing.is_behind())
    }

    fn open(&self, channel: Channel, receiver: Receiver) {
        if self.channels.open(channel, blocking::not_blocking(receiver, self.memory.get())) {
            self.wake();
        }
    }

    fn count_in(&self, memory: &MemoryPool) {
        let _ = self.memory.set(memory.clone());
        self.channels.count_in(memory);
    }

    fn close(&self, job: u64) {
        self.channels.close(job);
        for peer in self.peers.values() {
            self.send_to(peer, Frame::notice(Notice::Over(job)));
        }
    }

    fn clock_offset(&self, of: HostId) -> Option<Offset> {
        self.peers.get(&of)?.clock.offset(self.clock.now())
    }

    fn set_attended(&self, attended: bool) {
        self.nap.set_attended(attended);
    }

    fn attend(&self) -> bool {
        if !self.nap.is_on() {
            return false;
        }
        let Some(mut reading) = try_lock(&self.reading) else { return false };
        let before = reading.read();
        // An error is met by the network's thread as well.
        let _ = reading.turn(self, 0);
        reading.read() > before
    }

    #[expect(clippy::disallowed_methods, reason = "only threads of the program wait for jobs")]
    fn flush(&self) {
        let clock = Clock::system();
        let until = clock.now().saturating_add(nanos(FAREWELL));
        while self.peers.values().any(|peer| !peer.outgoing.is_idle()) && clock.now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for TcpNetwork {
    /// Waits until what was sent has arrived, or for a few seconds. A thread that reads does not wait: it may be here because a
    /// receiver that has ended a job had the last handle, and the network's thread leaves when it reads again.
    fn drop(&mut self) {
        self.heartbeats.stop();
        for peer in self.shared.peers.values() {
            self.shared.send_to(peer, Frame::notice(Notice::Goodbye));
        }
        self.shared.leaving.store(true, Ordering::Release);
        self.shared.wake();
        if !reading::is_reading() {
            self.thread.take().into_iter().for_each(join_other);
        }
    }
}
