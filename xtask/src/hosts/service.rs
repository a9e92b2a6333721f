//! Programs that run beside a check.

use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Longer than anything here takes, so that a hang ends with a message.
const LONG: Duration = Duration::from_secs(60);

/// A daemon, which is ended when this is dropped.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_owned();
        Ok(Self(command.spawn().with_context(|| format!("cannot start {}", name.display()))?))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Asked first, so that it can end what it has started.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + LONG;
    while !so() {
        if Instant::now() > end {
            bail!("{what} within {} s", LONG.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Ports on loopback that nothing listens at.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut listeners = Vec::new();
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// The processes whose environment has this variable with this value.
pub(crate) fn processes_with(variable: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|process| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
        })
        .collect()
}

/// The children of a process.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    listed.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
