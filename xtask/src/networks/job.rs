//! A job on the hosts: its processes, what they say, and how they end.

use super::lab::{Lab, address, on_host};
use crate::process::program;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Longer than any job here takes, so that a hang ends with a message.
const LONG: Duration = Duration::from_secs(60);

/// A program with its arguments, and the hosts that run it.
pub(super) struct Program<'a> {
    lab: &'a Lab,
    file: PathBuf,
    arguments: Vec<String>,
    hosts: usize,
    port: u16,
    /// Whether the file of hosts says at which port every host listens: the same one at each address.
    listed_ports: bool,
    lost_after: &'static str,
    connect_timeout: &'static str,
    /// Where its checkpoints are, if it has some.
    checkpoints: Option<PathBuf>,
    folder: PathBuf,
}

/// The time between checkpoints.
const INTERVAL: &str = "50ms";

impl<'a> Program<'a> {
    pub(super) fn new(lab: &'a Lab, file: PathBuf, arguments: &[&str]) -> Self {
        let port = lab.port();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let folder = lab.path(&format!("job-{port}"));
        let (lost_after, connect_timeout) = ("2s", "20s");
        Self {
            lab,
            file,
            arguments,
            hosts: 2,
            port,
            listed_ports: false,
            lost_after,
            connect_timeout,
            checkpoints: None,
            folder,
        }
    }

    pub(super) fn hosts(self, hosts: usize) -> Self {
        Self { hosts, ..self }
    }

    pub(super) fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    pub(super) fn listed_ports(self) -> Self {
        Self { listed_ports: true, ..self }
    }

    pub(super) fn lost_after(self, lost_after: &'static str) -> Self {
        Self { lost_after, ..self }
    }

    pub(super) fn connect_timeout(self, connect_timeout: &'static str) -> Self {
        Self { connect_timeout, ..self }
    }

    /// With checkpoints in a folder that all hosts share.
    pub(super) fn checkpoints(self, folder: PathBuf) -> Self {
        Self { checkpoints: Some(folder), ..self }
    }

    /// Where the first host listens.
    pub(super) fn first_port(&self) -> u16 {
        self.port
    }

    /// The file of hosts, as the book describes it, and the secret.
    fn write_hosts(&self) -> Result<PathBuf> {
        let (file, secret) = (self.folder.join("hosts.toml"), self.folder.join("secret"));
        if file.exists() {
            return Ok(file);
        }
        fs::create_dir_all(&self.folder).context("cannot make a folder")?;
        fs::write(&secret, "a secret of some seconds").context("cannot write the secret")?;
        let status = program("chmod").arg("400").arg(&secret).status()?;
        ensure!(status.success(), "chmod ended with {status}");
        let Self { port, lost_after, connect_timeout, .. } = self;
        let mut text = format!(
            "secret-file = '{}'\nconnect-timeout = '{connect_timeout}'\nlost-after = '{lost_after}'\n",
            secret.display()
        );
        for host in 0..self.hosts {
            let port =
                if host == 0 || self.listed_ports { format!(":{port}") } else { String::new() };
            writeln!(text, "[[hosts]]\naddress = '{}{port}'", address(host))?;
        }
        fs::write(&file, text).context("cannot write the file of hosts")?;
        Ok(file)
    }

    /// Starts one of the hosts.
    pub(super) fn start_host(&self, host: usize) -> Result<Process> {
        self.start_host_by(host, on_host(host))
    }

    /// Starts one of the hosts by a command that runs another one there.
    pub(super) fn start_host_by(&self, host: usize, mut command: Command) -> Result<Process> {
        command.arg(&self.file).args(["--host-id", &host.to_string(), "--cores", "2"]);
        command.arg("--hosts").arg(self.write_hosts()?);
        if let Some(folder) = &self.checkpoints {
            command.arg("--checkpoint").arg(folder).args(["--checkpoint-interval", INTERVAL]);
        }
        command.args(&self.arguments);
        self.spawn(host, command)
    }

    /// Starts all hosts, by a command on another one that runs a program on hosts.
    pub(super) fn launch_by(&self, host: usize, mut command: Command) -> Result<Process> {
        fs::create_dir_all(&self.folder).context("cannot make a folder")?;
        command.arg(&self.file).args(&self.arguments);
        self.spawn(host, command)
    }

    fn spawn(&self, host: usize, mut command: Command) -> Result<Process> {
        let path = |what: &str| self.folder.join(format!("{host}.{what}"));
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command.env("THALWEG_SPILL_DIR", self.lab.path(""));
        command.stdout(create(&stdout)?).stderr(create(&stderr)?);
        let child = command.spawn().context("cannot start a host")?;
        Ok(Process { host, child, stdout, stderr })
    }

    /// Starts all hosts.
    pub(super) fn start(&self) -> Result<Job> {
        let all = (0..self.hosts).map(|host| self.start_host(host));
        Ok(Job(all.collect::<Result<_>>()?))
    }

    /// Runs the job to its end; returns what its first host prints.
    pub(super) fn answer(&self) -> Result<String> {
        self.start()?.answer()
    }
}

fn create(path: &PathBuf) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// The process of a host. It is killed when this is dropped.
pub(super) struct Process {
    pub(super) host: usize,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// How a process has ended.
pub(super) struct Ended {
    pub(super) host: usize,
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Process {
    /// Waits until the process has said something on standard error.
    pub(super) fn until_said(&mut self, what: &str) -> Result<()> {
        let end = Instant::now() + LONG;
        while !self.has_said(what)? {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let (host, said) = (self.host, read(&self.stderr)?);
                bail!("host {host} does not say \"{what}\", but ({ended:?}): {said}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Whether the process has said something on standard error.
    pub(super) fn has_said(&self, what: &str) -> Result<bool> {
        Ok(read(&self.stderr)?.contains(what))
    }

    /// Waits until the process has ended.
    pub(super) fn end(mut self) -> Result<Ended> {
        let end = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                let (host, said) = (self.host, read(&self.stderr)?);
                bail!("host {host} still runs after {} s; it says: {said}", LONG.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let (stdout, stderr) = (read(&self.stdout)?, read(&self.stderr)?);
        Ok(Ended { host: self.host, status, stdout, stderr })
    }

    pub(super) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Fails unless the process is stopped: if it runs again, what the other hosts do says nothing.
    pub(super) fn is_still_stopped(&self) -> Result<()> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let state = stat.rsplit_once(") ").map_or("", |(_, state)| state);
        ensure!(state.starts_with('T'), "host {} does not stay stopped: {state}", self.host);
        Ok(())
    }

    /// Sends a signal, such as `STOP`.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        let mut kill = program("kill");
        let status = kill.arg(format!("-{signal}")).arg(self.child.id().to_string()).status()?;
        ensure!(status.success(), "host {} cannot be sent {signal}", self.host);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &PathBuf) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Ended {
    /// Fails unless the process has succeeded.
    pub(super) fn succeeded(self) -> Result<Self> {
        let Self { host, status, stderr, .. } = &self;
        ensure!(status.success(), "host {host} ended with {status}: {stderr}");
        Ok(self)
    }

    /// Fails unless the process has failed and said all of this.
    pub(super) fn failed_with(self, all: &[&str]) -> Result<Self> {
        let Self { host, status, stderr, .. } = &self;
        // Ended by itself, not by a signal; and 101 is a panic.
        ensure!(
            matches!(status.code(), Some(1..=100)),
            "host {host} ended with {status}, and should have failed: {stderr}"
        );
        if let Some(missing) = all.iter().find(|&&what| !stderr.contains(what)) {
            bail!("host {host} does not say \"{missing}\", but: {stderr}");
        }
        Ok(self)
    }
}

/// The processes of a job, by host.
pub(super) struct Job(pub(super) Vec<Process>);

impl Job {
    /// Waits until all have succeeded; returns what the first one has printed. The others print nothing.
    pub(super) fn answer(self) -> Result<String> {
        let ended = self.end()?;
        let mut answer = String::new();
        for ended in ended {
            let Ended { host, stdout, .. } = ended.succeeded()?;
            match host {
                0 => answer = stdout,
                _ => ensure!(stdout.is_empty(), "host {host} prints {stdout}"),
            }
        }
        Ok(answer)
    }

    /// Waits until all have ended.
    pub(super) fn end(self) -> Result<Vec<Ended>> {
        self.0.into_iter().map(Process::end).collect()
    }

    /// Takes one of the processes out.
    pub(super) fn remove(&mut self, host: usize) -> Process {
        let at = self.0.iter().position(|process| process.host == host);
        self.0.remove(at.expect("the host is in the job"))
    }

    /// Waits until all have said that their job runs, and for so many milliseconds.
    pub(super) fn until_running(&mut self, and_then: u64) -> Result<()> {
        self.0.iter_mut().try_for_each(|process| process.until_said("running"))?;
        std::thread::sleep(Duration::from_millis(and_then));
        Ok(())
    }
}
