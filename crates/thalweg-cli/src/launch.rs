//! `thalweg launch`: what is to be started where, from the command line.

use crate::lines::say;
use crate::supervise::{by_signal, last_signal, pause, supervise};
use crate::{hosts, local};
use anyhow::{Context as _, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Start a program as one job on many hosts
///
/// The program is one that takes the engine's flags (`EngineArgs`). Every host runs it with the same arguments; each runs
/// a part of the job. Standard output is that of host 0; lines of standard error begin with the number of their host.
/// When one process fails, the others are ended, and its status is that of this command.
///
/// Ctrl-C and SIGTERM are passed on to all processes; the third such signal kills them.
///
/// With --restarts, a job that has failed is started again on all hosts. One with --checkpoint goes on from its newest
/// checkpoint then, another one begins anew.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  thalweg launch --local 3 -- ./wordcount big.txt
  thalweg launch --hosts hosts.toml -- ./wordcount /shared/big.txt
  thalweg launch --local 3 --restarts 5 -- ./wordcount big.txt --output counts --checkpoint saved

hosts.toml:
  [[hosts]]
  address = \"node1\"              # of host 0: how the others reach it
  cores = 8                      # all by default
  tasks = { count = 16 }         # of one stage, as the program's --explain names it

  [[hosts]]
  address = \"10.0.0.2\"           # of others: for ssh, and with a port where it listens
  ssh = \"me@node2.example.org\"   # how ssh reaches it, if not by its address

Under SLURM and MPI this command is not needed: srun ./wordcount, mpirun ./wordcount.")]
pub(crate) struct Arguments {
    /// Start this many processes on this machine, which share its cores and its memory
    #[arg(long, value_name = "N", required_unless_present = "hosts", conflicts_with = "hosts")]
    local: Option<NonZeroUsize>,

    /// Start a process on each of the hosts that this TOML file lists, by ssh
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,

    /// The cores of each process [default: an equal share of this machine; what the file says]
    #[arg(long, value_name = "C")]
    pub(crate) cores: Option<NonZeroUsize>,

    /// The port at which host 0 waits for the others [default: a free one; what the file says]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// Start the program again up to N times when it has failed, after 1 s, 2 s, 4 s, and so on up to 30 s
    ///
    /// Not after wrong arguments or settings (status 2), nor after a signal to this command. What host 0 has printed and read
    /// of its standard input is not taken back
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,

    /// Set a variable on all hosts, or pass on the one that is set here; those named THALWEG_... always are
    #[arg(long = "env", value_name = "NAME[=VALUE]", requires = "hosts", conflicts_with = "local")]
    pub(crate) variables: Vec<String>,

    /// The folder in which the program runs on all hosts [default: the one with this path]
    #[arg(long, value_name = "DIR", requires = "hosts", conflicts_with = "local")]
    pub(crate) directory: Option<PathBuf>,

    /// A configuration file for ssh and scp in place of your own
    #[arg(long, value_name = "FILE", requires = "hosts", conflicts_with = "local")]
    pub(crate) ssh_config: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Runs the job to its end; returns the exit status.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let (program, rest) = arguments.command.split_first().context("no program is named")?;
    let program = find(program, env::var_os("PATH").as_deref())?;
    let start = || match (arguments.local, &arguments.hosts) {
        (Some(count), _) => local::start(count, arguments, &program, rest),
        (None, Some(file)) => hosts::start(file, arguments, &program, rest),
        (None, None) => bail!("either --local or --hosts is needed"),
    };
    // A signal that comes before ends this command at once.
    let mut first = Some(start()?);
    let signal = last_signal()?;
    let mut restarts = 0;
    loop {
        let status = match first.take().map_or_else(start, Ok) {
            Ok(started) => supervise(started, &signal)?,
            // A host may come back.
            Err(error) if restarts < arguments.restarts => {
                say(&format!("{error:#}"));
                1
            }
            Err(error) => return Err(error),
        };
        if let Some(status) = by_signal(&signal, status) {
            return Ok(status);
        }
        if NOT_AGAIN.contains(&status) || restarts == arguments.restarts {
            return Ok(status);
        }
        let wait = FIRST_PAUSE.saturating_mul(1 << restarts.min(8)).min(LONGEST_PAUSE);
        restarts += 1;
        let of = arguments.restarts;
        say(&format!("starting the program again in {} s: {restarts} of {of}", wait.as_secs()));
        pause(wait, &signal);
        if let Some(status) = by_signal(&signal, status) {
            return Ok(status);
        }
    }
}

/// The statuses after which the program is not started again: of success, and of arguments and settings that it refuses.
const NOT_AGAIN: [u8; 2] = [0, 2];
/// How long the launcher waits before it starts the program again the first time, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The path of a program, as a shell finds it.
fn find(program: &OsStr, folders: Option<&OsStr>) -> Result<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return match is_executable(path) {
            Ok(true) => Ok(path.to_owned()),
            Ok(false) => bail!("{} is no program: it may not be executed", path.display()),
            Err(cause) => {
                Err(cause).with_context(|| format!("there is no program {}", path.display()))
            }
        };
    }
    let folders = folders.map(env::split_paths).into_iter().flatten();
    let mut found = folders.map(|folder| folder.join(path));
    match found.find(|path| is_executable(path).unwrap_or(false)) {
        Some(path) => Ok(path),
        None if is_executable(path).unwrap_or(false) => {
            bail!("there is no program `{0}` in PATH: did you mean ./{0}?", path.display())
        }
        None => bail!("there is no program `{}` in PATH", path.display()),
    }
}

fn is_executable(path: &Path) -> std::io::Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A secret for this launch alone.
pub(crate) fn secret() -> Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|cause| anyhow::anyhow!("cannot get random numbers from the system: {cause}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert_eq!(find("sh".as_ref(), Some("/none:/bin".as_ref())).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh".as_ref(), None).unwrap(), Path::new("/bin/sh"));
        let message =
            |program: &str| find(program.as_ref(), Some("/bin".as_ref())).unwrap_err().to_string();
        assert_eq!(message("no-such"), "there is no program `no-such` in PATH");
        assert_eq!(message("./no-such"), "there is no program ./no-such");
        assert_eq!(message("src/main.rs"), "src/main.rs is no program: it may not be executed");
    }

    #[test]
    fn secrets_differ() {
        assert_ne!(secret().unwrap(), secret().unwrap());
        assert_eq!(secret().unwrap().len(), 64);
    }
}
