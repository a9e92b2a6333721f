//! What several hosts print: standard output is that of the first alone, and lines of standard error begin with the
//! number of the host.
#![expect(
    clippy::disallowed_methods,
    reason = "the part of the crate that speaks for a whole program"
)]

use crate::error::{Error, ErrorKind, Result};
use crate::sync::spawn;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long hosts connect before a line says that this one waits for the others.
const UNANNOUNCED: Duration = Duration::from_secs(5);

static HOST: OnceLock<usize> = OnceLock::new();

/// Lines for standard error.
pub(in crate::cli) struct Lines;

impl Lines {
    /// From now on every line begins with the number of this host.
    pub(in crate::cli) fn begin_with(host: usize) {
        // A program has one number on all its environments.
        let _ = HOST.set(host);
    }

    /// Whether this is one of several hosts.
    pub(in crate::cli) fn are_of_several_hosts() -> bool {
        HOST.get().is_some()
    }

    /// Prints lines; what they lack if standard error is closed is no error of the program.
    pub(in crate::cli) fn print(text: &str) {
        let _ = std::io::stderr().write_all(lines(HOST.get().copied(), text).as_bytes());
    }
}

/// The lines of a text, each with its end. An empty line before them is for a terminal, which hosts have none of.
fn lines(host: Option<usize>, text: &str) -> String {
    let Some(host) = host else { return format!("{}\n", text.trim_end_matches('\n')) };
    text.trim_start_matches('\n').lines().fold(String::new(), |mut lines, line| {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "[{host}] {line}");
        lines
    })
}

/// Prints once that this host waits for the others, for at most `limit`, unless the result is dropped soon.
pub(in crate::cli) fn announce_waiting(limit: Duration) -> Result<Sender<()>> {
    let (connected, ended) = channel();
    spawn("thalweg-waiting".to_owned(), move || {
        if ended.recv_timeout(UNANNOUNCED) == Err(RecvTimeoutError::Timeout) {
            let limit = format!("for up to {limit:?} (--connect-timeout)");
            Lines::print(&format!("waiting for the other hosts, {limit}"));
        }
    })?;
    Ok(connected)
}

/// From now on, what this process prints to standard output is discarded.
pub(in crate::cli) fn silence_output() -> Result<()> {
    let silenced = std::io::stdout().flush().and_then(|()| discard());
    silenced.map_err(|cause| {
        Error::new(ErrorKind::Io, "cannot discard the standard output of this host")
            .caused_by(cause)
    })
}

#[cfg(unix)]
fn discard() -> std::io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere).map_err(Into::into)
}

#[cfg(not(unix))]
fn discard() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_the_host() {
        assert_eq!(lines(Some(3), "\na\n\nb"), "[3] a\n[3] \n[3] b\n");
        assert_eq!(lines(None, "\na\nb\n"), "\na\nb\n");
    }
}
