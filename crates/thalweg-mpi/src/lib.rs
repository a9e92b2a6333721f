//! Messages of bytes between the processes of an MPI job: what `thalweg` needs of MPI for its feature `mpi`, and no more.
//!
//! A crate of its own, since MPI needs a C compiler and libclang, and unsafe code: the module `lent` alone has it. It knows
//! nothing of hosts, jobs and frames. Without its feature `mpi` it is empty.

#[cfg(feature = "mpi")]
mod lent;
#[cfg(feature = "mpi")]
mod processes;

#[cfg(feature = "mpi")]
pub use processes::{LONGEST, Processes, StartError};
