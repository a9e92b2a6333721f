//! The processes of an MPI job. One thread starts MPI, makes all calls of it, and ends it. No call waits for another process
//! but [`Processes::start`], [`Processes::all_gather`] and [`Processes::finalise`].

use crate::lent::Lent;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::point_to_point::Status;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Equivalence, Source};
use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;

/// The most bytes of a message: MPI counts them in 31 bits.
pub const LONGEST: usize = i32::MAX as usize;

/// The tag of all messages. Those between the same two processes arrive in order, since they have the same.
const TAG: i32 = 0;
/// The messages that are received at the same time.
const AT_ONCE: usize = 16;
/// So many of each process, if that is more.
const OF_EACH: usize = 4;

/// Why MPI cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// It was started in this process before, by this crate or the program, and can be started only once.
    StartedBefore,
    /// The library supports programs with one thread only.
    OneThread,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartedBefore => {
                "MPI was started in this process before, and can be started only once"
            }
            Self::OneThread => "this library of MPI supports no program with several threads",
        })
    }
}

impl std::error::Error for StartError {}

/// The processes of an MPI job, as one of them sees it. It stays on the thread that has started it.
///
/// If it is dropped without [`finalise`](Self::finalise), MPI is not finalised, and its launcher ends the other processes
/// when this one ends.
pub struct Processes {
    universe: ManuallyDrop<Universe>,
    world: SimpleCommunicator,
    /// Messages that are being sent, and to whom.
    sending: VecDeque<(usize, Lent)>,
    /// How many of them are for each process.
    sending_to: Vec<usize>,
    /// Messages that are being received, and from whom, in the order in which they arrive.
    receiving: VecDeque<(usize, Lent)>,
}

impl Processes {
    /// Starts MPI; waits until all processes do. A failure of MPI itself ends all processes.
    pub fn start() -> Result<Self, StartError> {
        // Only one thread calls MPI, the one that starts it.
        let Some((universe, provided)) = mpi::initialize_with_threading(Threading::Funneled) else {
            return Err(StartError::StartedBefore);
        };
        if provided < Threading::Funneled {
            return Err(StartError::OneThread);
        }
        let world = universe.world();
        Ok(Self {
            sending_to: vec![0; world.size() as usize],
            universe: ManuallyDrop::new(universe),
            world,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
        })
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    /// The number of processes.
    pub fn count(&self) -> usize {
        self.sending_to.len()
    }

    /// The name of this machine, as MPI knows it.
    pub fn machine(&self) -> String {
        mpi::environment::processor_name().unwrap_or_default()
    }

    /// The bytes of every process, in their order. All have to call it; waits for them.
    pub fn all_gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        let mut lengths = vec![0u64; self.count()];
        self.world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
        let longest = lengths.iter().copied().max().unwrap_or_default() as usize;
        let mut padded = own.to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0u8; longest * self.count()];
        self.world.all_gather_into(&padded[..], &mut all[..]);
        let of = |(bytes, length): (&[u8], u64)| bytes[..length as usize].to_vec();
        // Chunks cannot be empty.
        all.chunks(longest.max(1)).zip(lengths).map(of).collect()
    }

    /// Begins to send a message of at most [`LONGEST`] bytes. Does not wait.
    ///
    /// # Panics
    ///
    /// If there is no such process, or the message is longer.
    pub fn send(&mut self, to: usize, message: Vec<u8>) {
        assert!(message.len() <= LONGEST, "a message of {} bytes", message.len());
        let process = self.world.process_at_rank(to as i32);
        self.sending.push_back((to, Lent::send(&process, TAG, message)));
        self.sending_to[to] += 1;
    }

    /// How many messages to a process MPI still reads from this process's memory.
    pub fn sending_to(&self, to: usize) -> usize {
        self.sending_to[to]
    }

    /// Whether no message is being sent or received.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.receiving.is_empty()
    }

    /// Goes on sending; returns whether a message was taken. `reuse` gets the buffers of such messages.
    pub fn advance(&mut self, mut reuse: impl FnMut(Vec<u8>)) -> bool {
        let before = self.sending.len();
        for _ in 0..before {
            let Some((to, message)) = self.sending.pop_front() else { break };
            match message.finished() {
                Ok(message) => {
                    self.sending_to[to] -= 1;
                    reuse(message);
                }
                Err(message) => self.sending.push_back((to, message)),
            }
        }
        self.sending.len() < before
    }

    /// A message that has arrived, and from whom. Those of a process are in order. `buffer` returns a buffer for one, whose
    /// content does not matter. Does not wait.
    pub fn receive(&mut self, mut buffer: impl FnMut() -> Vec<u8>) -> Option<(usize, Vec<u8>)> {
        // A process that is stopped in the middle of a few messages must not keep those of others from being received.
        while self.receiving.len() < AT_ONCE.max(OF_EACH * self.count()) {
            let any = self.world.any_process();
            let Some((message, status)) = any.immediate_matched_probe_with_tag(TAG) else { break };
            let mut buffer = buffer();
            // What it holds already need not be cleared.
            buffer.resize(length(&status), 0);
            let from = status.source_rank() as usize;
            self.receiving.push_back((from, Lent::receive(message, buffer)));
        }
        // Those behind one of the same process that is not complete have to wait for it.
        for at in 0..self.receiving.len() {
            let from = self.receiving[at].0;
            if self.receiving.iter().take(at).any(|(before, _)| *before == from) {
                continue;
            }
            let Some((_, message)) = self.receiving.remove(at) else { break };
            match message.finished() {
                Ok(message) => return Some((from, message)),
                Err(message) => self.receiving.insert(at, (from, message)),
            }
        }
        None
    }

    /// Ends MPI; waits until all processes do. Nothing may be on its way.
    ///
    /// # Panics
    ///
    /// If this process still sends or receives a message.
    pub fn finalise(self) {
        assert!(self.is_idle(), "messages are on their way");
        // Nothing uses it after this: the communicator of all processes is not freed.
        drop(ManuallyDrop::into_inner(self.universe));
    }
}

/// The bytes of a message.
fn length(status: &Status) -> usize {
    status.count(u8::equivalent_datatype()) as usize
}
