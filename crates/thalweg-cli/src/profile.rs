//! `thalweg profile`: becomes `thalweg-profile`, a program of its own, since it needs a client of Kafka and this one does not.

use anyhow::{Context as _, Result, bail};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The program, which is beside this one or on the path.
const PROGRAM: &str = "thalweg-profile";

/// Take the latency of a pipeline between two topics of Kafka apart
///
/// Everything that follows goes to the program `thalweg-profile`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program.
pub(crate) fn run(Arguments { arguments }: &Arguments) -> Result<Infallible> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let beside = own.with_file_name(PROGRAM);
    let program = if beside.exists() { beside } else { PROGRAM.into() };
    let error = Command::new(&program).args(arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "there is no program `{PROGRAM}` beside {} or on the path: `cargo build --release -p {PROGRAM}` makes it",
            own.display()
        );
    }
    Err(error).with_context(|| format!("cannot start `{}`", program.display()))
}
