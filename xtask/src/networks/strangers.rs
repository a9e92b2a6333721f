//! Connections of programs that are no hosts, while hosts connect and while their job runs: the answer is right.

use super::lab::{Lab, STRANGER, address, on_host};
use super::programs::{sessions, sessions_are_in};
use super::{Case, script};
use anyhow::{Context, Result, ensure};
use std::process::{Child, Stdio};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[Case { name: "strangers", run: strangers }];

/// Connects to a host for some seconds.
fn stranger(how: &str, host: usize, port: u16, seconds: &str) -> Result<Child> {
    let mut command = on_host(STRANGER);
    command.arg("python3").arg(script("stranger.py"));
    command.args([how, &address(host), &port.to_string(), seconds]);
    command.stdout(Stdio::piped()).spawn().context("cannot start a stranger")
}

fn strangers(lab: &Lab) -> Result<()> {
    let program = sessions(lab, "sessions").hosts(3).listed_ports();
    let port = program.first_port();
    let mut strangers = Vec::new();
    for how in ["silent", "rubbish", "crowd"] {
        for host in 0..3 {
            strangers.push((how, host, stranger(how, host, port, "8")?));
        }
    }
    let mut processes = Vec::new();
    for host in 0..3 {
        processes.push(program.start_host(host)?);
        std::thread::sleep(Duration::from_millis(1500));
    }
    super::job::Job(processes).answer()?;
    sessions_are_in(&lab.path("sessions"))?;
    for (how, host, stranger) in strangers {
        let output = stranger.wait_with_output().context("a stranger")?;
        let established = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let many: u32 = established.parse().context("a stranger has failed")?;
        let least = if how == "silent" { 10 } else { 200 };
        // The last host listens for a moment only.
        ensure!(host == 2 || many >= least, "{how}: only {many} connections to host {host}");
    }
    Ok(())
}
