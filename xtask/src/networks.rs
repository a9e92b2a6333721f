//! Jobs of several hosts on bad networks and with faults: each host is a network namespace with an address of its own, and
//! a relay forwards their packets with delay, loss and cuts.
//!
//! The cases run in a process whose mounts, network and process numbers are its own. The system removes what is in there
//! (namespaces, devices, processes, files) when that process ends, however it ends; it ends at the latest with the one
//! that has started it.

mod cases;
mod faults;
mod job;
mod lab;
mod launched;
mod programs;
mod recovered;
mod strangers;

use crate::built::Build;
use crate::process::{FAILURES, Totals, program, root, run_tests};
use crate::setup;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Run jobs of several hosts on bad networks and with faults
///
/// The hosts are network namespaces, which needs root. These are the cases of the step `networks` of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Run the cases whose names contain one of these texts; by default all
    names: Vec<String>,

    /// The folder of the build: this process is where the cases can run
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Why the cases cannot run here.
pub(crate) struct Unable(pub(crate) String);

/// Runs the cases of a command line.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(build) = &arguments.inside {
        return run_inside(build, &arguments.names);
    }
    match check(&mut Totals::default(), &arguments.names)? {
        None => Ok(()),
        Some(Unable(why)) => bail!("{why}"),
    }
}

/// Runs the cases whose names contain one of these texts, or all.
pub(crate) fn check(totals: &mut Totals, names: &[String]) -> Result<Option<Unable>> {
    for (name, package) in [
        ("ip", "iproute2"),
        ("python3", "python3"),
        ("mount", "mount"),
        ("pgrep", "procps"),
        ("ssh", "openssh-client"),
        ("/usr/sbin/sshd", "openssh-server"),
    ] {
        setup::debian(name, package)?;
    }
    if let Some(why) = unable()? {
        return Ok(Some(why));
    }
    let examples = programs::BUILT.iter().flat_map(|example| ["--example", example]);
    let which: Vec<_> = ["--bin", "thalweg"].into_iter().chain(examples).collect();
    let build = Build::Tested.build(&which)?;
    let this = std::env::current_exe().context("this program has no path")?;
    let mut command = apart();
    command.arg(this).arg("networks").args(names).arg("--inside").arg(build);
    run_tests(&mut command, totals)?;
    Ok(None)
}

/// A command that runs another where its mounts, network and processes are its own, and that ends with this process.
pub(crate) fn apart() -> Command {
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc"]);
    command
}

/// Tries what the cases need of the system.
fn unable() -> Result<Option<Unable>> {
    if !Path::new("/dev/net/tun").exists() {
        return Ok(Some(Unable("there is no /dev/net/tun".to_owned())));
    }
    unable_to("ip tuntap add dev tun0 mode tun && mount -t tmpfs none /run")
}

/// Tries a script where mounts, network and processes are its own; returns why it cannot be run there.
pub(crate) fn unable_to(script: &str) -> Result<Option<Unable>> {
    let tried = apart()
        .args(["sh", "-c", script])
        .stdout(Stdio::null())
        .output()
        .context("cannot start setpriv")?;
    let said = String::from_utf8_lossy(&tried.stderr);
    Ok((!tried.status.success())
        .then(|| Unable(format!("no network namespaces can be made here: {}", said.trim()))))
}

/// One thing that must be so.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    run: fn(&lab::Lab) -> Result<()>,
}

fn run_inside(build: &Path, names: &[String]) -> Result<()> {
    let lab = lab::Lab::new(build)?;
    let chosen = |case: &&Case| {
        names.is_empty() || names.iter().any(|name| case.name.contains(name.as_str()))
    };
    let (mut passed, mut failures) = (0, Vec::new());
    for case in [cases::CASES, faults::CASES, recovered::CASES, strangers::CASES, launched::CASES]
        .concat()
        .iter()
        .filter(chosen)
    {
        let start = Instant::now();
        let result = lab.reset().and_then(|()| (case.run)(&lab));
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                passed += 1;
                println!("{}: ok ({seconds:.1} s)", case.name);
            }
            Err(error) => {
                println!("{}: FAILED ({seconds:.1} s): {error:#}", case.name);
                failures.push(format!("{}: {error:#}", case.name));
            }
        }
    }
    if failures.is_empty() {
        println!("test result: ok. {passed} passed; 0 failed;");
        return Ok(());
    }
    println!("{FAILURES}\n{}", failures.join("\n"));
    println!("test result: FAILED. {passed} passed; {} failed;", failures.len());
    bail!("{} cases have failed", failures.len())
}

/// A script that the hosts of a network run beside the job.
fn script(name: &str) -> PathBuf {
    root().join("xtask/networks").join(name)
}
