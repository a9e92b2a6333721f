//! A contestant as a running process, controlled by the protocol of `benchmarks/protocol`.

use super::suite::Contestant;
use super::usage::processor_seconds;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The time without output after which a contestant is given up.
const PATIENCE: Duration = Duration::from_secs(900);

/// The name under which the harness adds processor time to a contestant's report.
const CPU: &str = "cpu_seconds";

/// The report of one round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) digest: String,
    pub(super) records: f64,
    pub(super) bytes: f64,
    /// Peak memory in bytes, if the system reports it.
    pub(super) peak: Option<f64>,
    /// The 99th percentile of the latency in seconds, if it was measured.
    pub(super) p99: Option<f64>,
    /// Seconds of processor time from the request to the report, of all the contestant's processes and cores.
    pub(super) cpu: Option<f64>,
    /// The whole line, for `--raw`.
    pub(super) line: Value,
}

/// A process that waits for `go`. It is killed when dropped.
pub(super) struct Running {
    name: String,
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    /// Starts a contestant and waits until its untimed preparation is done.
    pub(super) fn start(contestant: &Contestant, mut command: Command) -> Result<Self> {
        let name = contestant.peer.to_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{name}: cannot start {:?}", command.get_program()))?;
        let orders = child.stdin.take().context("standard input was piped")?;
        let output = child.stdout.take().context("standard output was piped")?;
        let (sender, lines) = channel();
        // In a thread of its own, so that waiting for a line can time out. What is no JSON a library has printed while it connected
        // the processes of its contestant.
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(|line| line.ok());
            for line in lines.skip_while(|line| !line.starts_with('{')) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut running = Self { name, child, orders, lines };
        let ready = running.line()?;
        if ready.get("ready") != Some(&Value::Bool(true)) {
            bail!("{}: expected to hear that it is ready, heard {ready}", running.name);
        }
        Ok(running)
    }

    /// Requests one round and waits for its end.
    pub(super) fn round(&mut self) -> Result<Round> {
        let before = processor_seconds(self.child.id());
        // A broken pipe means that the process has ended, which the code below reports.
        let _ = self.orders.write_all(b"go\n").and_then(|()| self.orders.flush());
        let mut line = self.line()?;
        let after = processor_seconds(self.child.id());
        if let (Some(before), Some(after), Some(report)) = (before, after, line.as_object_mut()) {
            report.insert(CPU.to_owned(), Value::from(after - before));
        }
        Round::read(line).with_context(|| format!("{}: not a round's report", self.name))
    }

    fn line(&mut self) -> Result<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => serde_json::from_str(&line)
                .with_context(|| format!("{}: not JSON: {line}", self.name)),
            Err(RecvTimeoutError::Timeout) => {
                bail!("{}: said nothing for {} seconds", self.name, PATIENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("{}: ended with {}", self.name, self.child.wait()?)
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Round {
    fn read(line: Value) -> Result<Self> {
        let number = |name: &str| line.get(name).and_then(Value::as_f64);
        let needed = |name: &str| {
            number(name).with_context(|| format!("the number `{name}` is missing in {line}"))
        };
        let digest = line.get("digest").and_then(Value::as_str);
        Ok(Self {
            seconds: needed("seconds")?,
            digest: digest.with_context(|| format!("no digest in {line}"))?.to_owned(),
            records: needed("records")?,
            bytes: needed("bytes")?,
            peak: number("peak_rss"),
            p99: number("p99"),
            cpu: number(CPU),
            line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_read() {
        let line = r#"{"seconds":0.5,"digest":"1:00","records":4,"bytes":32,"peak_rss":null}"#;
        let round = Round::read(serde_json::from_str(line).unwrap()).unwrap();
        assert_eq!((round.seconds, round.records, round.peak), (0.5, 4.0, None));
        assert_eq!(round.digest, "1:00");
    }

    #[test]
    fn a_line_without_a_digest_is_no_round() {
        let line = r#"{"seconds":0.5,"records":4,"bytes":32}"#;
        assert!(Round::read(serde_json::from_str(line).unwrap()).is_err());
    }
}
