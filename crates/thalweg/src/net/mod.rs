//! How the hosts of a job reach each other.
//!
//! Every host describes the same plan and runs the tasks that [`Hosts`] assigns to it. Hosts exchange frames on
//! [`Channel`]s: each edge of the plan has one, each [tie](crate::plan::Tie), and the job as a whole. A [`Network`]
//! carries frames and does not look into them.
//!
//! A job on one host has no network, and nothing in this module is called while it runs.

mod agreement;
mod blocking;
mod channels;
mod clocks;
mod executable;
mod frames;
mod hosts;
mod liveness;
#[cfg(any(feature = "mpi", test))]
mod mpi;
mod tcp;
#[cfg(test)]
mod test_network;
mod tree;

pub(crate) use agreement::{Agree, Agreement};
pub(crate) use clocks::Offset;
pub(crate) use hosts::{HostId, Hosts};
pub(crate) use liveness::{Periodic, silence};
pub(crate) use tcp::{free_port, read_from_host};
#[cfg(test)]
pub(crate) use test_network::TestNetwork;
pub(crate) use tree::Place;

use crate::clock::Clock;
use crate::config::HostConfig;
use crate::error::{Error, Result};
use crate::flow::{Signals, catch};
use crate::memory::MemoryPool;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tcp::TcpNetwork;

/// The most bytes of a frame.
pub(crate) const LARGEST_FRAME: usize = 1 << 30;

/// How long a frame is [held](Network::hold) at most: its sender may work on one record for minutes.
const HELD: Duration = Duration::from_millis(20);

/// What a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Channel {
    /// The number of the job: how many its environment had before, and in the upper half the number of the environment
    /// among those that share its threads.
    pub(crate) job: u64,
    pub(crate) part: Part,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, part } = self;
        match part {
            Part::Job => write!(f, "the messages about job {job}"),
            Part::Edge(edge) => write!(f, "edge {edge} of job {job}"),
            Part::Tie(tie) => write!(f, "tie {tie} of job {job}"),
        }
    }
}

/// The part of a job that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The job as a whole: its outcome, its barriers.
    Job,
    /// The lanes of this edge of the plan.
    Edge(usize),
    /// This tie of the plan.
    Tie(usize),
}

/// Carries frames between hosts, as one of them sees it.
pub(crate) trait Network: Send + Sync {
    /// Sends a frame; never waits. The frames of a channel from one host to another arrive in order, each once. If one of the two
    /// hosts is [lost](Receive::lost) to the other, those that have arrived are the first ones, without a gap, and no further one
    /// arrives. Between channels, and between pairs of hosts, there is no order.
    ///
    /// Frames have no numbers: receivers cannot tell one that is repeated from the next one, and rely on this. So a network whose
    /// connection breaks makes no other one in its place, unless it knows what the other host has taken.
    fn send(&self, to: HostId, channel: Channel, frame: Vec<u8>);

    /// Sends a frame that may wait for more frames to the same host, until one is [sent](Self::send), the host's frames are
    /// [released](Self::release), or it has waited for [`HELD`]: many small frames are then sent at once.
    fn hold(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        self.send(to, channel, frame);
    }

    /// Sends the frames to a host that wait for more.
    fn release(&self, _to: HostId) {}

    /// Whether the connection to a host takes less than is sent to it.
    fn is_behind(&self, _to: HostId) -> bool {
        false
    }

    /// Sets the receiver of a channel. Frames that have arrived before wait for it.
    fn open(&self, channel: Channel, receiver: Receiver);

    /// Counts the frames that wait on this host to be sent, or for their receivers, as in flight from now on. Receivers
    /// count what they keep.
    fn count_in(&self, memory: &MemoryPool);

    /// Forgets the channels of a job, and drops what still arrives for them.
    fn close(&self, job: u64);

    /// How far the clock of another host is ahead of this one's; `None` if that is not known.
    fn clock_offset(&self, _of: HostId) -> Option<Offset> {
        None
    }

    /// Sets whether a thread that runs tasks is awake, and [attends](Self::attend) to the network between turns.
    fn set_attended(&self, _attended: bool) {}

    /// Takes what has arrived, unless another thread does; returns whether there was anything.
    fn attend(&self) -> bool {
        false
    }

    /// Waits until the system has taken what was sent, for a few seconds at most: the process may end after it.
    fn flush(&self) {}

    /// Leaves the other hosts, where the process must not end without it, and waits until they do so too. Nothing is sent
    /// after it.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))]
    fn leave(&self) {}
}

/// The connections of this process to the other hosts. When they are dropped, the host leaves.
pub(crate) enum Connections {
    Tcp(TcpNetwork),
    #[cfg(feature = "mpi")]
    Mpi(mpi::MpiNetwork),
}

impl Connections {
    /// Connects this host with all others, by values that were [checked](HostConfig::validate); `clock` is that of its tasks.
    /// Returns the cores of each host too.
    pub(crate) fn make(
        config: &HostConfig,
        cores: usize,
        credit: usize,
        clock: Clock,
    ) -> Result<(Self, Vec<usize>)> {
        #[cfg(feature = "mpi")]
        if config.transport == crate::config::Transport::Mpi {
            let (network, cores) = mpi::MpiNetwork::connect(config, cores, credit)?;
            return Ok((Self::Mpi(network), cores));
        }
        let (network, cores) = TcpNetwork::connect(config, cores, credit, clock)?;
        Ok((Self::Tcp(network), cores))
    }

    /// Carries the frames of jobs.
    pub(crate) fn network(&self) -> Arc<dyn Network> {
        match self {
            Self::Tcp(network) => network.network(),
            #[cfg(feature = "mpi")]
            Self::Mpi(network) => network.network(),
        }
    }
}

/// Takes the frames of a channel. It is called for one frame of each sender at a time.
pub(crate) trait Receive: Send + Sync {
    /// Whether it may take long: because it runs closures of the program, or waits for a disk. Frames of other channels do
    /// not wait for it.
    fn may_block(&self) -> bool {
        false
    }

    /// Takes a frame.
    ///
    /// # Errors
    ///
    /// If the frame is not one that the sender could have sent. That ends the job.
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()>;

    /// A host is lost: nothing comes from it any more. `how` says what is known of it. Also called on a host that is lost
    /// itself.
    fn lost(&self, _host: HostId, _how: &str) {}
}

/// The receiver of a channel's frames, and the job that it belongs to.
#[derive(Clone)]
pub(crate) struct Receiver {
    receive: Arc<dyn Receive>,
    signals: Arc<Signals>,
}

impl Receiver {
    fn new(receive: Arc<dyn Receive>, signals: Arc<Signals>) -> Self {
        Self { receive, signals }
    }

    /// Takes a frame. If it cannot be taken, the job fails.
    pub(crate) fn take(&self, from: HostId, frame: &[u8]) {
        if let Err(error) = catch(|| self.receive.receive(from, frame)).and_then(|taken| taken) {
            self.signals.fail(error);
        }
    }

    /// Whether taking a frame may take long.
    pub(crate) fn may_block(&self) -> bool {
        self.receive.may_block()
    }

    /// A host is lost.
    pub(crate) fn lost(&self, host: HostId, how: &str) {
        if let Err(panic) = catch(|| self.receive.lost(host, how)) {
            self.signals.fail(panic);
        }
    }

    /// Fails the job.
    fn fail(&self, error: Error) {
        self.signals.fail(error);
    }
}

/// The channels of one job, as one of its hosts sees them. Closed when dropped.
pub(crate) struct Links {
    hosts: Arc<Hosts>,
    job: u64,
    signals: Arc<Signals>,
}

impl Links {
    pub(crate) fn new(hosts: Arc<Hosts>, job: u64, signals: Arc<Signals>) -> Self {
        Self { hosts, job, signals }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Sets the receiver of the frames of a part of the job. Does nothing on a job's only host.
    pub(crate) fn open(&self, part: Part, receive: Arc<dyn Receive>) {
        if let Some(network) = self.hosts.network() {
            let receiver = Receiver::new(receive, Arc::clone(&self.signals));
            network.open(Channel { job: self.job, part }, receiver);
        }
    }

    /// The link to another host, for a part of the job.
    pub(crate) fn to(&self, host: HostId, part: Part) -> Link {
        let network = self.hosts.network().cloned();
        Link { network, to: host, channel: Channel { job: self.job, part } }
    }

    /// The links to all other hosts, for a part of the job.
    pub(crate) fn to_others(&self, part: Part) -> Vec<Link> {
        self.hosts.others().map(|host| self.to(host, part)).collect()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some(network) = self.hosts.network() {
            network.close(self.job);
        }
    }
}

/// Sends frames to another host, for a part of a job.
#[derive(Clone)]
pub(crate) struct Link {
    /// `None` on a job's only host, from which no link leads anywhere.
    network: Option<Arc<dyn Network>>,
    to: HostId,
    channel: Channel,
}

impl Link {
    /// The host that it leads to.
    pub(crate) fn to(&self) -> HostId {
        self.to
    }

    pub(crate) fn send(&self, frame: Vec<u8>) {
        if let Some(network) = &self.network {
            network.send(self.to, self.channel, frame);
        }
    }

    /// Sends a frame that may wait for more, until the link is [released](Self::release).
    pub(crate) fn hold(&self, frame: Vec<u8>) {
        if let Some(network) = &self.network {
            network.hold(self.to, self.channel, frame);
        }
    }

    pub(crate) fn release(&self) {
        if let Some(network) = &self.network {
            network.release(self.to);
        }
    }

    /// Whether the connection takes less than is sent on it.
    pub(crate) fn is_behind(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.is_behind(self.to))
    }

    /// How far the clock of the other host is ahead of this one's, if that is known.
    pub(crate) fn clock_offset(&self) -> Option<Offset> {
        self.network.as_ref()?.clock_offset(self.to)
    }
}
