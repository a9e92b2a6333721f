//! Jobs on several processes, as people start them: every example program by `thalweg launch`, and one by real
//! launchers: ssh, Open MPI, MPICH and SLURM. Daemons run in temporary folders and end with the step.

pub(crate) mod service;
mod slurm;
mod soak;
mod ssh;

use crate::built::Build;
use crate::process::{Totals, program};
use crate::{examples, setup};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What the checks have in common.
struct Programs {
    /// The folder of the example programs.
    examples: PathBuf,
    launcher: PathBuf,
    /// The home of what is started: the secret of its hosts is there.
    home: tempfile::TempDir,
    /// What `wordcount` prints on one host.
    expected: String,
}

/// The arguments of `wordcount`: a text that never changes, at a place that does not depend on the working directory.
fn arguments() -> [String; 2] {
    ["--tsv".to_owned(), crate::process::root().join("LICENSE-APACHE").display().to_string()]
}

/// Runs all checks.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    for (name, package) in [
        ("ssh", "openssh-client"),
        ("/usr/sbin/sshd", "openssh-server"),
        ("mpirun.openmpi", "openmpi-bin"),
        ("mpirun.mpich", "mpich"),
        ("srun", "slurm-wlm"),
        ("/usr/sbin/munged", "munge"),
    ] {
        setup::debian(name, package)?;
    }
    let [launcher, examples] = build(Build::Tested)?;
    let expected = answer(program(examples.join("wordcount")).args(arguments()))?;
    let home = tempfile::tempdir().context("there is no room for a temporary folder")?;
    let programs = Programs { examples, launcher, home, expected };

    let mut check = |name: &str, check: &dyn Fn() -> Result<()>| -> Result<()> {
        let start = Instant::now();
        match check().with_context(|| name.to_owned()) {
            Ok(()) => {
                totals.passed += 1;
                println!("{name}: ok ({:.1} s)", start.elapsed().as_secs_f64());
                Ok(())
            }
            Err(error) => {
                totals.failed += 1;
                Err(error)
            }
        }
    };
    for count in ["2", "3", "5"] {
        check(&format!("all examples on {count} processes"), &|| {
            examples::check_launched(&programs.examples, &programs.launcher, count)
        })?;
    }
    check("a job of 12 seconds with checkpoints", &|| {
        soak::check(&programs.examples, &programs.launcher, 12)
    })?;
    check("Open MPI", &|| programs.by_mpi("mpirun.openmpi", &["--oversubscribe"]))?;
    check("MPICH", &|| programs.by_mpi("mpirun.mpich", &[]))?;
    let ssh = ssh::Server::start()?;
    check("ssh: the program is copied once", &|| ssh.copies_once(&programs))?;
    check("ssh: a jump host", &|| ssh.has_jumped())?;
    check("ssh: a host that fails", &|| ssh.one_fails(&programs))?;
    check("ssh: the launcher is killed", &|| ssh.launcher_is_killed(&programs))?;
    check("ssh: a connection is killed", &|| ssh.connection_is_killed(&programs))?;
    check("ssh: Ctrl-C", &|| ssh.interrupted(&programs))?;
    drop(ssh);
    let slurm = slurm::Cluster::start()?;
    check("SLURM: srun on one node", &|| slurm.srun(&programs, &["-N1", "-n3"], &[]))?;
    // The names of its nodes mean nothing to the resolver, as they do in a real cluster.
    let first = ["--first-host", "localhost"];
    check("SLURM: srun on three nodes", &|| slurm.srun(&programs, &["-N3", "-n5"], &first))?;
    check("SLURM: two cores a task", &|| {
        slurm.srun_with_cores(&programs, &["-N3", "-n3", "-c2"], 3, "2 cores")
    })?;
    // A node has four.
    check("SLURM: more tasks than cores", &|| {
        slurm.srun_with_cores(&programs, &["-N3", "-n14", "-O"], 14, "1 core")
    })?;
    check("SLURM: sbatch", &|| slurm.sbatch(&programs))?;
    check("SLURM: a job that requeues itself", &|| slurm.requeued(&programs))
}

/// Runs one long job for so many seconds.
pub(crate) fn soak(seconds: u64) -> Result<()> {
    let [launcher, examples] = build(Build::Optimised)?;
    soak::check(&examples, &launcher, seconds)
}

/// Builds the command `thalweg` and all example programs; returns the path of it, and the folder of those.
pub(crate) fn build(how: Build) -> Result<[PathBuf; 2]> {
    let folder = how.build(&["--bin", "thalweg", "--examples"])?;
    Ok([folder.join("thalweg"), folder.join("examples")])
}

impl Programs {
    /// A command that sees no settings but those of its launcher.
    fn command(&self, name: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = program("timeout");
        command.args(["120"]).arg(name).env("HOME", self.home.path());
        command
    }

    fn wordcount(&self) -> PathBuf {
        self.examples.join("wordcount")
    }

    fn by_mpi(&self, launcher: &str, flags: &[&str]) -> Result<()> {
        let mut command = self.command(launcher);
        // Open MPI refuses root otherwise, which containers run as.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args(flags).args(["-n", "3"]).arg(self.wordcount()).args(arguments());
        self.same(&answer(&mut command)?)
    }

    /// Fails unless this is what one host prints.
    fn same(&self, answer: &str) -> Result<()> {
        if answer == self.expected {
            return Ok(());
        }
        bail!("another answer than on one host, in {} lines: {answer}", answer.lines().count())
    }
}

/// What a command prints; an error with what it said if it fails.
fn answer(command: &mut Command) -> Result<String> {
    let output = command.output().context("a program cannot be started")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a command says on standard error, if it ends well.
fn said_by(command: &mut Command) -> Result<String> {
    let output = command.output().context("a program cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("{}: {said}", output.status);
    }
    Ok(said)
}

/// Writes a file in a folder.
fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
