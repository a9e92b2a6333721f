//! Data between hosts by MPI: lints and tests of what only the feature `mpi` compiles, with the real library and launcher.

use crate::process::{Totals, cargo, program, run, run_tests};
use crate::setup;
use anyhow::Result;
use std::path::Path;

/// Runs all checks.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    for (name, package) in [
        // With its compiler, which finds no header without the next package.
        ("mpirun.openmpi", "openmpi-bin"),
        // One of its tests starts a program by the launcher of another library than its own.
        ("mpirun.mpich", "mpich"),
        // With libclang, by which MPI's header is read.
        ("clang", "clang"),
    ] {
        setup::debian(name, package)?;
    }
    setup::debian_where("mpi.h", "libopenmpi-dev", has_header)?;
    let with_mpi = |command: &str, arguments: &[&str]| {
        let mut command = cargo([command, "-p", "thalweg", "--features", "mpi"]);
        // The library of this launcher, whichever one `mpicc` stands for.
        command.args(arguments).env("MPICC", "mpicc.openmpi");
        command
    };
    let lints = ["-p", "thalweg-mpi", "--lib", "--test", "mpi", "--", "-D", "warnings"];
    run(&mut with_mpi("clippy", &lints))?;
    run_tests(&mut with_mpi("test", &["--test", "mpi"]), totals)
}

/// Whether the compiler of Open MPI finds the library's header.
fn has_header() -> bool {
    let folders = program("mpicc.openmpi").arg("--showme:incdirs").output();
    let folders = folders.map(|output| output.stdout).unwrap_or_default();
    let folders = String::from_utf8_lossy(&folders).into_owned();
    folders.split_whitespace().any(|folder| Path::new(folder).join("mpi.h").exists())
}
