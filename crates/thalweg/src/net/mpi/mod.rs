//! The network between processes that MPI has started: its ranks are the hosts, and frames travel as messages of MPI.
//!
//! One thread ([`thread`]) starts MPI, makes all calls of it and ends it, so the least that a library supports beside one
//! thread is enough (`MPI_THREAD_FUNNELED`). Senders pack their frames into messages ([`outgoing`]) and wake it ([`bell`]).
//! MPI wakes no thread when a message arrives, so the thread looks for messages: without a pause while some arrive, and after
//! a while without any, once a millisecond. So a job without input uses hardly any of a core.
//!
//! All processes have to end MPI together. So a host that leaves says goodbye, and waits until the others do. If one is
//! lost, MPI is not ended, and the launcher ends the other processes when the first of them does: that is how MPI works.

mod bell;
#[cfg(feature = "mpi")]
mod network;
mod outgoing;
#[cfg(feature = "mpi")]
mod thread;

#[cfg(feature = "mpi")]
pub(crate) use network::MpiNetwork;
