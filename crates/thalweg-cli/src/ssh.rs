//! The system's own ssh and scp, so that a user's configuration, agent and jump hosts work.

use crate::script;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Without questions to a person, and with a limit on the wait for a machine that is gone.
const OPTIONS: [&str; 8] = [
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];

/// A machine, as ssh reaches it.
pub(crate) struct Machine<'a> {
    pub(crate) destination: &'a str,
    /// A configuration file in place of the user's.
    pub(crate) config: Option<&'a Path>,
}

impl Machine<'_> {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(config) = self.config {
            command.arg("-F").arg(config);
        }
        command.args(OPTIONS);
        command
    }

    /// A command that runs a script of this length.
    pub(crate) fn ssh(&self, script: &str) -> Command {
        let mut command = self.command("ssh");
        command.args(["-T", "--", self.destination, &script::command(script.len())]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a script to its end; returns what it has printed.
    pub(crate) fn output(&self, script: &str) -> Result<String> {
        let child = spawn(self.ssh(script).stdout(Stdio::piped()), script)?;
        let output = child.wait_with_output().context("cannot wait for ssh")?;
        if !output.status.success() {
            bail!("ssh {}: {}", self.destination, why(&output.stderr, &output.status.to_string()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Copies a file to a place relative to the home.
    pub(crate) fn copy(&self, file: &Path, place: &str) -> Result<()> {
        let destination = match self.destination.rsplit_once('@') {
            Some((user, host)) => format!("{user}@{}", bracketed(host)),
            None => bracketed(self.destination),
        };
        let output = self
            .command("scp")
            .args([OsStr::new("-q"), OsStr::new("--"), file.as_os_str()])
            .arg(format!("{destination}:{place}"))
            .stdin(Stdio::null())
            .output()
            .context("cannot start scp: is it installed?")?;
        if !output.status.success() {
            let why = why(&output.stderr, &output.status.to_string());
            bail!("scp to {}: {why}{}", self.destination, hint(&why));
        }
        Ok(())
    }
}

/// An IPv6 address in brackets, as scp takes it.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Starts ssh and sends the script.
pub(crate) fn spawn(command: &mut Command, script: &str) -> Result<Child> {
    let mut child = command.spawn().context("cannot start ssh: is it installed?")?;
    if let Some(input) = &mut child.stdin {
        // An ssh that has failed says why by itself.
        let _ = input.write_all(script.as_bytes()).and_then(|()| input.flush());
    }
    Ok(child)
}

/// What a program has said, or else how it ended.
fn why(said: &[u8], status: &str) -> String {
    let said = String::from_utf8_lossy(said);
    match said.trim() {
        "" => status.to_owned(),
        said => said.to_owned(),
    }
}

/// What else to say of a failure of scp. It is run where ssh has worked, so a connection that is closed has been refused.
fn hint(why: &str) -> &'static str {
    if why.contains("subsystem request failed") || why.contains("Connection closed") {
        " (does sshd there have \"Subsystem sftp\"?)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_sftp_is_recognised() {
        assert!(
            hint("subsystem request failed on channel 0\nscp: Connection closed").contains("sftp")
        );
        assert_eq!(hint("scp: write remote: No space left on device"), "");
    }

    #[test]
    fn destinations_are_no_options() {
        let machine = Machine { destination: "-oProxyCommand=x", config: Some(Path::new("c")) };
        let command = machine.ssh("true");
        let arguments: Vec<_> =
            command.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert_eq!(arguments[..2], ["-F", "c"]);
        let end = arguments.iter().position(|argument| argument == "--").unwrap();
        assert_eq!(arguments[end + 1], "-oProxyCommand=x");
        assert!(arguments[end + 2].contains("count=4"), "{arguments:?}");
    }

    #[test]
    fn addresses_of_version_6_are_in_brackets_for_scp() {
        assert_eq!((&*bracketed("::1"), &*bracketed("node1")), ("[::1]", "node1"));
    }
}
