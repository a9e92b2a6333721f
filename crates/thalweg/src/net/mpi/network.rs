//! The processes that MPI has started, as hosts.

use super::bell::Bell;
use super::outgoing::Outgoing;
use super::thread::{self, NetworkThread};
use crate::config::HostConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryPool;
use crate::net::channels::Channels;
use crate::net::frames::{Frame, LARGEST, Notice};
use crate::net::tcp::Identity;
use crate::net::{Channel, HostId, Network, Receiver, blocking};
use crate::sync::{AtomicBool, Mutex, Ordering, join_other, lock, spawn};
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// The buffers that are kept to be used again, and the most bytes of each.
const SPARE: usize = 16;
const SPARE_BYTES: usize = 4 << 20;

/// The processes that MPI has started, and the thread that serves them. When it is dropped, the host leaves.
pub(crate) struct MpiNetwork(Arc<Shared>);

/// What tasks and the network's thread share.
pub(super) struct Shared {
    pub(super) peers: BTreeMap<HostId, Peer>,
    pub(super) channels: Channels,
    memory: OnceLock<MemoryPool>,
    /// Buffers for messages.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Whether messages are due that the thread has not seen.
    pub(super) is_due: AtomicBool,
    /// Whether this host leaves.
    pub(super) leaving: AtomicBool,
    pub(super) bell: Bell,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Another host.
#[derive(Default)]
pub(super) struct Peer {
    /// The name of its machine.
    pub(super) machine: String,
    pub(super) outgoing: Outgoing,
}

impl MpiNetwork {
    /// Starts MPI, and compares what has to be equal on all hosts. Returns the cores of each host too.
    pub(crate) fn connect(
        config: &HostConfig,
        cores: usize,
        credit: usize,
    ) -> Result<(Self, Vec<usize>)> {
        let mine = Identity::of_this_process(config, cores, credit)?;
        let (begun, result) = channel();
        let (limit, lost_after) = (config.connect_timeout, config.lost_after);
        let handle = spawn("thalweg-mpi".to_owned(), move || match thread::begin(mine) {
            Ok((processes, hosts)) => {
                let shared = Arc::new(Shared::of(&hosts, processes.rank()));
                let of_thread = NetworkThread::new(processes, &shared, &hosts, lost_after);
                // If the program waits no more, this host must not seem to be there.
                if begun.send(Ok((shared, hosts))).is_ok() {
                    of_thread.run();
                }
            }
            Err(error) => _ = begun.send(Err(error)),
        })?;
        let (shared, hosts) = result.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                let what = format!("MPI has not started all processes within {limit:?}");
                Error::new(ErrorKind::TimedOut, what)
            }
            RecvTimeoutError::Disconnected => {
                Error::new(ErrorKind::Internal, "the thread that starts MPI has panicked")
            }
        })??;
        *lock(&shared.thread) = Some(handle);
        let cores = hosts.iter().map(|host| host.cores as usize).collect();
        Ok((Self(shared), cores))
    }

    /// Carries the frames of jobs.
    pub(crate) fn network(&self) -> Arc<dyn Network> {
        Arc::clone(&self.0) as _
    }
}

impl Drop for MpiNetwork {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Shared {
    /// Between these hosts.
    fn of(hosts: &[Identity], me: usize) -> Self {
        let peer = |(host, identity): (usize, &Identity)| {
            let (machine, outgoing) = (identity.address.clone(), Outgoing::default());
            (HostId(host), Peer { machine, outgoing })
        };
        Self {
            peers: hosts.iter().enumerate().filter(|(host, _)| *host != me).map(peer).collect(),
            channels: Channels::default(),
            memory: OnceLock::new(),
            buffers: Mutex::default(),
            is_due: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            bell: Bell::default(),
            thread: Mutex::default(),
        }
    }

    /// An empty buffer for frames.
    fn buffer(&self) -> Vec<u8> {
        let mut buffer = self.used_buffer();
        buffer.clear();
        buffer
    }

    /// A buffer with any content.
    pub(super) fn used_buffer(&self) -> Vec<u8> {
        lock(&self.buffers).pop().unwrap_or_default()
    }

    /// Keeps a buffer to be used again.
    pub(super) fn reuse(&self, buffer: Vec<u8>) {
        let mut buffers = lock(&self.buffers);
        if buffers.len() < SPARE && buffer.capacity() <= SPARE_BYTES {
            buffers.push(buffer);
        }
    }

    /// Has the network's thread send what is due.
    fn wake(&self) {
        self.is_due.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn send_to(&self, peer: &Peer, frame: &Frame) {
        peer.outgoing.send(frame, || self.buffer());
        self.wake();
    }

    /// The host that a frame is for, and the frame with its header; `None` if it is too large, which ends the job.
    fn frame(&self, to: HostId, channel: Channel, content: Vec<u8>) -> Option<(&Peer, Frame)> {
        if content.len() > LARGEST {
            self.channels.fail(channel, Frame::too_large(content.len()));
            return None;
        }
        Some((self.peers.get(&to)?, Frame::new(channel, content)))
    }
}

impl Network for Shared {
    fn send(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        if let Some((peer, frame)) = self.frame(to, channel, frame) {
            self.send_to(peer, &frame);
        }
    }

    fn hold(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        if let Some((peer, frame)) = self.frame(to, channel, frame)
            && peer.outgoing.hold(&frame, || self.buffer())
        {
            self.wake();
        }
    }

    fn release(&self, to: HostId) {
        if self.peers.get(&to).is_some_and(|peer| peer.outgoing.release()) {
            self.wake();
        }
    }

    fn is_behind(&self, to: HostId) -> bool {
        self.peers.get(&to).is_some_and(|peer| peer.outgoing.is_behind())
    }

    fn open(&self, channel: Channel, receiver: Receiver) {
        if self.channels.open(channel, blocking::not_blocking(receiver, self.memory.get())) {
            self.bell.ring();
        }
    }

    fn count_in(&self, memory: &MemoryPool) {
        if self.memory.set(memory.clone()).is_ok() {
            self.channels.count_in(memory);
            self.peers.values().for_each(|peer| peer.outgoing.count_in(memory));
        }
    }

    fn close(&self, job: u64) {
        self.channels.close(job);
        for peer in self.peers.values() {
            self.send_to(peer, &Frame::notice(Notice::Over(job)));
        }
    }

    /// Waits until all hosts leave, or one is lost.
    fn leave(&self) {
        for peer in self.peers.values() {
            peer.outgoing.end(&Frame::notice(Notice::Goodbye), || self.buffer());
        }
        // After the goodbyes: the thread ends when they are sent.
        self.leaving.store(true, Ordering::Release);
        self.wake();
        let thread = lock(&self.thread).take();
        // A receiver that is dropped on the thread itself may have the last handle.
        thread.into_iter().for_each(join_other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Signals;
    use crate::net::{Part, Receive};
    use std::sync::mpsc::Sender;
    use std::thread::ThreadId;

    /// Notes the threads that it runs on.
    struct Runs {
        on: Mutex<Sender<ThreadId>>,
        may_block: bool,
    }

    impl Receive for Runs {
        fn may_block(&self) -> bool {
            self.may_block
        }

        fn receive(&self, _: HostId, _: &[u8]) -> Result<()> {
            let _ = lock(&self.on).send(std::thread::current().id());
            Ok(())
        }
    }

    #[test]
    fn a_receiver_that_may_block_does_not_run_on_the_networks_thread() {
        let (shared, me) = (Shared::of(&[], 0), std::thread::current().id());
        for (number, may_block) in [(0, false), (1, true)] {
            let channel_of_job = Channel { job: 0, part: Part::Edge(number) };
            let (on, runs_on) = channel();
            let runs = Arc::new(Runs { on: Mutex::new(on), may_block });
            shared.open(channel_of_job, Receiver::new(runs, Arc::new(Signals::default())));
            // As the network's thread does.
            shared.channels.take(HostId(1), channel_of_job, &[1]);
            assert_eq!(runs_on.recv().unwrap() != me, may_block);
        }
        shared.channels.close(0);
    }
}
