//! `thalweg exec`: becomes a program that is killed when the launcher dies. `launch --local` starts processes by it.
//!
//! Only Linux can do so; elsewhere the processes of a launcher that was killed go on.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, getppid};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process of the launcher
    #[arg(long)]
    parent: i32,

    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process by the program. What the system is to do at the death of the parent is kept.
pub(crate) fn run(arguments: &Arguments) -> Result<Infallible> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("cannot have this process end with the launcher")?;
    // It may have died before.
    if getppid() != Pid::from_raw(arguments.parent) {
        anyhow::bail!("the launcher is gone");
    }
    let (program, rest) = arguments.command.split_first().context("no program is named")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot start `{}`", program.display()))
}
