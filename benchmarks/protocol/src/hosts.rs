//! Contestants that are several processes of this machine, each with cores of its own.
//!
//! With `--hosts 2`, the process that the harness started is the first host. It starts the others: the same program with the
//! same arguments, and `--host`, its number, and `--ports`, for each host the first of several free ports in a row. For a
//! round, the first host sends the others `go`, and all do their part of the work; each of the others prints `done` with
//! its peak memory when its timed part is over, then what it has of the answer, as numbers. The first host's stopwatch
//! runs from its `go` until all are done.

use crate::{Request, Result};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How many ports in a row each host has: Renoir listens at one for each exchange of a job.
const PORTS: u16 = 16;

/// How long a host works on when its orders have ended in the middle of a round: the first host has ended.
const ALONE: Duration = Duration::from_secs(10);

/// What a host has of an answer, which the first one puts together.
pub trait Part: Sized {
    /// Takes in what another host has.
    fn merge(&mut self, other: Self);

    /// The part as numbers.
    fn to_words(&self) -> Vec<u64>;

    /// The part that these numbers are.
    fn from_words(words: &[u64]) -> Option<Self>;
}

/// The other hosts, as the first one has started them. They are killed when dropped.
#[derive(Debug, Default)]
pub(crate) struct Others(Vec<Other>);

#[derive(Debug)]
struct Other {
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Others {
    /// Starts the other hosts if this is the first of several, and keeps this one to its cores.
    pub(crate) fn start(request: &mut Request) -> Result<Self> {
        let hosts = request.hosts()?;
        if hosts < 2 {
            return Ok(Self::default());
        }
        let mut others = Self::default();
        if !request.is_follower() {
            let ports = free_ports(hosts)?;
            request.set("ports", ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","));
            let program = std::env::current_exe()?;
            for host in 1..hosts {
                let mut arguments = request.to_args();
                arguments.extend(["--host".to_owned(), host.to_string()]);
                let mut child = Command::new(&program)
                    .args(arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()?;
                let orders = child.stdin.take().ok_or("standard input was piped")?;
                let output = child.stdout.take().ok_or("standard output was piped")?;
                others.0.push(Other { child, orders, lines: BufReader::new(output).lines() });
            }
        }
        keep_to(request.host()? * request.cores()?, request.cores()?)?;
        Ok(others)
    }

    /// Waits until the others have prepared what is not timed. Before, a library may print what it waits for.
    pub(crate) fn ready(&mut self) -> Result<()> {
        for other in &mut self.0 {
            while other.line()? != "ready" {}
        }
        Ok(())
    }

    /// Begins a round on the others.
    pub(crate) fn go(&mut self) -> Result<()> {
        for other in &mut self.0 {
            other.orders.write_all(b"go\n")?;
            other.orders.flush()?;
        }
        Ok(())
    }

    /// Waits until the others are done with a round; returns their peak memory in all.
    pub(crate) fn done(&mut self) -> Result<u64> {
        let mut peak = 0;
        for other in &mut self.0 {
            let line = other.line()?;
            let bytes = line.strip_prefix("done ").and_then(|bytes| bytes.parse::<u64>().ok());
            peak += bytes.ok_or_else(|| format!("another host is not done: {line}"))?;
        }
        Ok(peak)
    }

    /// Adds the parts of the others.
    pub(crate) fn merge<P: Part>(&mut self, into: &mut P) -> Result<()> {
        for other in &mut self.0 {
            let line = other.line()?;
            let words: Option<Vec<u64>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            let part = words.and_then(|words| P::from_words(&words));
            into.merge(part.ok_or_else(|| format!("no part of an answer: {line}"))?);
        }
        Ok(())
    }
}

impl Other {
    fn line(&mut self) -> Result<String> {
        Ok(self.lines.next().ok_or("another host has ended")??)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The orders of the first host. A round that goes on for long when they have ended is ended with the process.
pub(crate) fn orders() -> Receiver<String> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
            if sender.send(line).is_err() {
                return;
            }
        }
        drop(sender);
        std::thread::sleep(ALONE);
        std::process::exit(1);
    });
    orders
}

/// Ports that are free now, each the first of [`PORTS`] in a row that are no other's.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All are held until the last is found, and so is where a row with a gap begins: the system names another port
    // next time.
    let (mut held, mut ports) = (Vec::new(), Vec::new());
    while ports.len() < count {
        let first = TcpListener::bind("127.0.0.1:0")?;
        let port = first.local_addr()?.port();
        held.push(first);
        let rest: Option<Vec<TcpListener>> = (1..PORTS)
            .map(|next| TcpListener::bind(("127.0.0.1", port.checked_add(next)?)).ok())
            .collect();
        if let Some(rest) = rest {
            held.extend(rest);
            ports.push(port);
        }
    }
    Ok(ports)
}

/// Keeps this process, which has one thread so far, to cores of its own; those of several hosts differ, as far as there are enough.
fn keep_to(first: usize, cores: usize) -> Result<()> {
    let all = std::thread::available_parallelism()?.get();
    let cores: Vec<String> = (first..first + cores).map(|core| (core % all).to_string()).collect();
    let status = Command::new("taskset")
        .args(["-cp", &cores.join(","), &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("taskset, which keeps a host to its cores: {error}"))?;
    if status.success() { Ok(()) } else { Err("taskset has failed".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_no_port() {
        let mut ports = free_ports(4).expect("there are free ports");
        ports.sort();
        assert!(ports.windows(2).all(|pair| pair[1] - pair[0] >= PORTS), "{ports:?}");
    }
}
