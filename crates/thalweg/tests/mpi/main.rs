//! Jobs whose data travels by MPI, started by the real `mpirun` of Open MPI. This program starts itself, as the ranks.
//!
//! Without the feature `mpi` there is nothing to test. What it needs is installed by `cargo xtask test --step mpi`.

#[cfg(feature = "mpi")]
mod jobs;
#[cfg(feature = "mpi")]
mod ranks;

#[cfg(feature = "mpi")]
fn main() -> std::process::ExitCode {
    ranks::main()
}

#[cfg(not(feature = "mpi"))]
fn main() {}
