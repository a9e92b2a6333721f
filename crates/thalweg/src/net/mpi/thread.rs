//! The network's thread, which alone calls MPI: starts it, sends, looks for messages, finds out which hosts are lost, and
//! ends MPI.

use super::network::Shared;
use super::outgoing::Releases;
use crate::clock::{Clock, Nanos, nanos};
use crate::data::{Data, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::catch;
use crate::net::frames::{Arrived, Frame, FrameReader, Notice};
use crate::net::liveness::{Periodic, silence};
use crate::net::tcp::Identity;
use crate::net::{Channel, HostId};
use crate::sync::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_mpi::Processes;

/// The messages to a host that MPI has at the same time. What is sent beyond them is packed into larger ones.
const AT_ONCE: usize = 4;
/// The messages that are taken before others are sent.
const IN_TURN: usize = 32;
/// The pauses between two looks for messages: this part of the time since the last one, within these limits.
const PART: Nanos = 8;
const SHORTEST_PAUSE: Nanos = 20_000;
const LONGEST_PAUSE: Nanos = 1_000_000;
/// How long a host that leaves waits for others, if one is lost.
const FAREWELL: Duration = Duration::from_secs(5);

/// Starts MPI. Returns its processes, and what each is as a host.
///
/// # Errors
///
/// If hosts differ in what has to be equal, on all of them.
pub(super) fn begin(mut mine: Identity) -> Result<(Processes, Vec<Identity>)> {
    let processes = Processes::start()
        .map_err(|cause| Error::new(ErrorKind::Config, "cannot start MPI").caused_by(cause))?;
    mine.address = processes.machine();
    match compare(&processes, &mine) {
        Ok(hosts) => Ok((processes, hosts)),
        Err(error) => {
            processes.finalise();
            Err(error)
        }
    }
}

/// All hosts, if they fit.
fn compare(processes: &Processes, mine: &Identity) -> Result<Vec<Identity>> {
    let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
    let mut encoded = Vec::new();
    mine.encode(&mut encoded);
    let all = processes.all_gather(&encoded);
    let decoded = all.iter().map(|host| decode_whole(host, Identity::decode));
    let Ok(hosts) = decoded.collect::<Result<Vec<_>, _>>() else {
        return wrong("the hosts run different versions of the engine".to_owned());
    };
    // All of them are compared on each, so that all find the same.
    let count = processes.count();
    let wrong_rank = hosts
        .iter()
        .enumerate()
        .find(|(rank, host)| (host.host as usize, host.hosts as usize) != (*rank, count));
    if let Some((rank, Identity { host, hosts, .. })) = wrong_rank {
        return wrong(format!(
            "a process was started as host {host} of {hosts}, and is rank {rank} of {count} to MPI: the launcher may belong \
             to another MPI library than the one that this program is linked to"
        ));
    }
    let mismatch = hosts.iter().skip(1).find_map(|host| hosts[0].mismatch(host));
    mismatch.map_or(Ok(hosts), wrong)
}

pub(super) struct NetworkThread {
    shared: Arc<Shared>,
    processes: Processes,
    clock: Clock,
    peers: BTreeMap<HostId, Incoming>,
    lost_after: Nanos,
    /// Looks for hosts that are silent, each with a message to every host.
    looks: Periodic,
    /// Whether all messages that had arrived were taken since the last look.
    has_read_all: bool,
    releases: Releases,
    /// When something was sent or has arrived last.
    active: Nanos,
}

/// What comes from another host.
struct Incoming {
    reader: FrameReader,
    /// When a message has arrived last.
    arrived: Nanos,
    /// The channel of the last frame that was no notice.
    last: Option<Channel>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    There,
    /// It has said goodbye.
    Left,
    Lost,
}

impl NetworkThread {
    pub(super) fn new(
        processes: Processes,
        shared: &Arc<Shared>,
        hosts: &[Identity],
        lost_after: Duration,
    ) -> Self {
        let clock = Clock::system();
        let now = clock.now();
        let most_silent = hosts.iter().map(Identity::lost_after).min().unwrap_or(lost_after);
        let incoming = || Incoming {
            reader: FrameReader::default(),
            arrived: now,
            last: None,
            state: State::There,
        };
        Self {
            peers: shared.peers.keys().map(|host| (*host, incoming())).collect(),
            shared: Arc::clone(shared),
            processes,
            clock,
            lost_after: nanos(lost_after),
            looks: Periodic::new(most_silent / 4, now),
            has_read_all: false,
            releases: Releases::new(now),
            active: now,
        }
    }

    /// Runs until this host has left, and ends MPI unless a host is lost.
    pub(super) fn run(mut self) {
        pause_exactly();
        if let Err(panic) = catch(|| self.work()) {
            let why = format!("the thread of this host's network has failed: {panic}");
            for (host, peer) in &mut self.peers {
                peer.lose(*host, &self.shared, &why);
            }
        }
        if self.peers.values().all(|peer| peer.state == State::Left) {
            self.processes.finalise();
        }
    }

    fn work(&mut self) {
        let mut until = None;
        loop {
            let is_leaving = self.shared.leaving.load(Ordering::Acquire);
            // Both in any case.
            let is_busy = self.send() | self.receive();
            self.shared.channels.deliver_waiting();
            let now = self.clock.now();
            self.look(now);
            let hosts = self.shared.peers.values().map(|peer| &peer.outgoing);
            if self.releases.release(now, hosts) {
                self.shared.is_due.store(true, Ordering::Release);
            }
            if is_leaving && !is_busy {
                let is_lost = self.peers.values().any(|peer| peer.state == State::Lost);
                let until =
                    is_lost.then(|| *until.get_or_insert(now.saturating_add(nanos(FAREWELL))));
                if self.has_left() || until.is_some_and(|until| until <= now) {
                    return;
                }
            }
            if is_busy {
                self.active = now;
            } else {
                // What is on its way goes on only while MPI is called.
                let silence =
                    if self.processes.is_idle() { now.saturating_sub(self.active) } else { 0 };
                let pause = (silence / PART).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                self.shared.bell.wait(Duration::from_nanos(pause));
            }
        }
    }

    /// Gives MPI the messages that are due; returns whether it has done something.
    fn send(&mut self) -> bool {
        let shared = &self.shared;
        let has_taken = self.processes.advance(|message| shared.reuse(message));
        // Senders set it after their message: what is due now is found below.
        if !shared.is_due.swap(false, Ordering::AcqRel) && !has_taken {
            return false;
        }
        let mut has_sent = false;
        for (host, peer) in &shared.peers {
            while let Some(message) =
                peer.outgoing.take(self.processes.sending_to(host.0) < AT_ONCE)
            {
                self.processes.send(host.0, message);
                has_sent = true;
            }
        }
        has_taken || has_sent
    }

    /// Takes messages that have arrived; returns whether there were any.
    fn receive(&mut self) -> bool {
        let Self { shared, processes, clock, peers, has_read_all, .. } = self;
        let mut now = None;
        for _ in 0..IN_TURN {
            let Some((from, message)) = processes.receive(|| shared.used_buffer()) else {
                *has_read_all = true;
                break;
            };
            let now = *now.get_or_insert_with(|| clock.now());
            let host = HostId(from);
            if let Some(peer) = peers.get_mut(&host) {
                peer.take(host, &message, shared, now);
            }
            shared.reuse(message);
        }
        now.is_some()
    }

    /// Sends a sign of life to each host, and finds those that are silent for too long, unless messages wait that may be theirs. The
    /// time by which this look is late is not counted: a receiver took long, and what has arrived meanwhile is not read yet,
    /// or all hosts were stopped.
    fn look(&mut self, now: Nanos) {
        let Some(late) = self.looks.take(now) else { return };
        let has_read_all = std::mem::take(&mut self.has_read_all);
        for ((host, peer), to) in self.peers.iter_mut().zip(self.shared.peers.values()) {
            if peer.state == State::Lost {
                continue;
            }
            // Also to a host that has left: it waits for this one, and must not take it for lost.
            self.shared.send_to(to, &Frame::notice(Notice::Alive));
            if peer.state == State::Left {
                continue;
            }
            let silent = silence(&mut peer.arrived, late, now);
            // Where messages never run out, those of this host would have been among them for as long.
            let is_lost = has_read_all || silent >= 2 * self.lost_after;
            if silent >= self.lost_after && is_lost {
                let last = match peer.last {
                    Some(channel) => format!("the last frame was of {channel}"),
                    None => "it has sent no frame at all".to_owned(),
                };
                let seconds = silent as f64 / 1e9;
                let why = format!("nothing arrived from it for {seconds:.1} s; {last}");
                peer.lose(*host, &self.shared, &why);
            }
        }
    }

    /// Whether all hosts that are not lost have left, and have got what this one has sent.
    fn has_left(&self) -> bool {
        self.peers.iter().zip(self.shared.peers.values()).all(|((host, peer), to)| {
            match peer.state {
                State::There => false,
                State::Left => to.outgoing.is_empty() && self.processes.sending_to(host.0) == 0,
                State::Lost => true,
            }
        })
    }
}

impl Incoming {
    /// Takes a message.
    fn take(&mut self, host: HostId, message: &[u8], shared: &Shared, now: Nanos) {
        if self.state == State::Lost {
            return;
        }
        self.arrived = now;
        let Self { reader, last, state, .. } = self;
        let read = reader.read(message, |arrived| match arrived {
            Arrived::Frame(channel, frame) => {
                *last = Some(channel);
                shared.channels.take(host, channel, frame);
            }
            // Hosts ask for clocks over TCP only.
            Arrived::Notice(
                Notice::Alive | Notice::ClockRequest(_) | Notice::ClockAnswer { .. },
            ) => {}
            Arrived::Notice(Notice::Over(job)) => shared.channels.over_on(host, job),
            Arrived::Notice(Notice::Goodbye) => *state = State::Left,
        });
        match read {
            Err(why) => self.lose(host, shared, &why),
            Ok(()) if self.state == State::Left => {
                shared.channels.lose(host, &lost(host, shared, "it has left"));
            }
            Ok(()) => {}
        }
    }

    /// Nothing more is taken from the host, or sent.
    fn lose(&mut self, host: HostId, shared: &Shared, why: &str) {
        if self.state != State::Lost {
            // Before the loss ends jobs: a host that only was silent must not learn that they are over here, as if they
            // had ended well.
            shared.peers[&host].outgoing.close();
            shared.channels.lose(host, &lost(host, shared, why));
        }
        self.state = State::Lost;
    }
}

/// Has the system end the pauses of this thread in time: it may prolong them by 50 µs otherwise, to wake several threads at
/// once.
fn pause_exactly() {
    #[cfg(target_os = "linux")]
    // Without it, the pauses are longer.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
}

/// How a host is lost.
fn lost(host: HostId, shared: &Shared, how: &str) -> String {
    format!("{how} (it was on {})", shared.peers[&host].machine)
}
