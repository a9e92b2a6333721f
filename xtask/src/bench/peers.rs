//! Peers that cargo does not build: Python peers in virtual environments, Flink as a Maven project, and programs in
//! C++. Each is prepared only when it takes part; everything is installed in the benchmarks' target folder.

use super::target;
use crate::process::{program, root, run};
use crate::setup;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The requirements of Python peers: a file of pinned versions in `benchmarks/peers-python`, installed apart from
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pins(pub(super) &'static str);

impl Pins {
    /// The virtual environment, named after the file: `requirements-spark.txt` becomes `python-spark`.
    fn environment(self) -> PathBuf {
        let name = self.0.trim_end_matches(".txt").trim_start_matches("requirements");
        target().join(format!("python{}", if name.is_empty() { "-peers" } else { name }))
    }

    /// The interpreter of the virtual environment.
    pub(super) fn python(self) -> PathBuf {
        self.environment().join("bin/python")
    }

    /// Installs the pinned packages, unless they are installed.
    pub(super) fn install(self) -> Result<()> {
        let pins = root().join("benchmarks/peers-python").join(self.0);
        setup::python(&self.environment(), &pins).map(drop)
    }
}

/// The Debian package that compiles and runs Java.
const JAVA: &str = "default-jdk-headless";

/// Installs Java if it is missing.
pub(super) fn java() -> Result<()> {
    setup::debian("java", JAVA)
}

/// The folder of Maven's classes, and of the jars they need.
fn flink_target() -> PathBuf {
    target().join("peers-flink")
}

/// Builds the peer on Flink; Maven fetches what its project pins, once.
pub(super) fn build_flink() -> Result<()> {
    setup::debian("javac", JAVA)?;
    setup::debian("mvn", "maven")?;
    let mut maven = program("mvn");
    maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"]);
    maven.arg(root().join("benchmarks/peers-flink/pom.xml"));
    maven.arg(format!("-Dbench.target={}", flink_target().display())).arg("package");
    run(&mut maven)
}

/// The options that Flink's own distribution passes to Java 17, as far as a single process needs them.
const FLINK_OPTIONS: [&str; 8] = [
    "-XX:+UseG1GC",
    // The data is in its memory, as for all contestants; the rest is for the job.
    "-XX:MaxRAMPercentage=50",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.text=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
];

/// Starts the peer on Flink; `cores` limits all threads of Java.
pub(super) fn flink(cores: usize) -> Command {
    let target = flink_target();
    let path = [target.join("bench-flink.jar"), target.join("jars").join("*")];
    let path: Vec<String> = path.iter().map(|part| part.display().to_string()).collect();
    let mut command = program("java");
    command.args(FLINK_OPTIONS).arg(format!("-XX:ActiveProcessorCount={cores}"));
    command.args(["-cp", &path.join(":"), "bench.Main"]);
    command
}

/// The folder of the programs in C++.
fn cpp_target() -> PathBuf {
    target().join("peers-cpp")
}

/// Builds a target of the makefile of the peers in C++.
fn make(what: &str) -> Result<()> {
    setup::debian("g++", "g++")?;
    setup::debian("make", "make")?;
    let mut make = program("make");
    make.args(["--silent", "--directory"]).arg(root().join("benchmarks/peers-cpp"));
    run(make.arg(format!("TARGET={}", cpp_target().display())).arg(what))
}

/// Builds the peer on MPI.
pub(super) fn build_mpi() -> Result<()> {
    setup::debian("mpicxx", "libopenmpi-dev")?;
    setup::debian("mpirun", "openmpi-bin")?;
    make("mpi")
}

/// Builds the peer on OpenMP.
pub(super) fn build_openmp() -> Result<()> {
    make("openmp")
}

/// Starts the peer on MPI, with a rank for each core.
pub(super) fn mpi(cores: usize) -> Command {
    let mut command = program("mpirun");
    // Both are refused otherwise: running as root, as in containers, and more ranks than the machine has cores.
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &cores.to_string()]);
    command.arg(cpp_target().join("bench-mpi"));
    command
}

/// Starts the peer on OpenMP, whose number of threads is set by `--cores`. They are bound to cores, as MPI binds
/// ranks: otherwise the system may put two on one core after a pause.
pub(super) fn openmp() -> Command {
    let mut command = program(cpp_target().join("bench-openmp"));
    command.env("OMP_PROC_BIND", "true");
    command
}

/// Starts a script of the Python peers.
pub(super) fn script(name: &str, pins: Pins) -> Command {
    let mut command = program(pins.python());
    command.arg(Path::new("benchmarks/peers-python").join(name));
    command
}
