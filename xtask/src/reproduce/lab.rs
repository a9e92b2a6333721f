//! The hosts, and the processes of a job on them.

use crate::process::program;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The example that is measured.
pub(super) const PROGRAM: &str = "scaling";
/// The most hosts that there can be.
pub(super) const HOSTS: usize = 8;
/// Longer than any run takes, so that a hang ends with a message.
const LONG: Duration = Duration::from_secs(120);
/// How often a job is run by the same processes: the first time is not counted.
const JOBS: u32 = 6;
/// Where the first host listens; each run has the next port.
const FIRST_PORT: u16 = 20_000;

pub(super) struct Lab {
    /// Where files may be written. In memory.
    folder: PathBuf,
    program: PathBuf,
    processors: usize,
    next_port: Cell<u16>,
}

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// Network namespaces, each with an address of its own.
    pub(super) hosts: usize,
    /// Processes in each of them.
    pub(super) processes: usize,
    /// Processors of each process. Processes share processors only if there are too few.
    pub(super) cores: usize,
    /// The threads of each process, and the tasks of each stage in it.
    pub(super) threads: usize,
}

impl Arrangement {
    /// Hosts with one process of one core each.
    pub(super) fn hosts(hosts: usize) -> Self {
        Self { hosts, processes: 1, cores: 1, threads: 1 }
    }

    pub(super) fn all_processes(&self) -> usize {
        self.hosts * self.processes
    }

    /// Whether each process has processors of its own.
    pub(super) fn fits(&self, processors: usize) -> bool {
        self.all_processes() * self.cores <= processors
    }
}

/// What the first host has measured of one job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Processor time of the thread that reads from other hosts.
    pub(super) network_seconds: f64,
    pub(super) answer: String,
}

/// The processors that this process may use.
pub(super) fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

impl Lab {
    /// Makes the hosts. The calling process has mounts, a network and process numbers of its own.
    pub(super) fn new(build: &Path) -> Result<Self> {
        let folder = build.join("reproduce");
        // Hides what the machine itself has in these folders.
        for mounted in [Path::new("/run/netns"), &folder] {
            fs::create_dir_all(mounted).context("cannot make a folder")?;
            quietly(program("mount").args(["-t", "tmpfs", "none"]).arg(mounted))?;
        }
        ip("link add bridge0 type bridge")?;
        ip("link set bridge0 up")?;
        for host in 0..HOSTS {
            let (name, address) = (name(host), address(host));
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add veth{host} type veth peer name eth0 netns {name}"))?;
            ip(&format!("link set veth{host} master bridge0 up"))?;
            ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        let program = build.join("examples").join(PROGRAM);
        Ok(Self { folder, program, processors: processors()?, next_port: Cell::new(FIRST_PORT) })
    }

    /// A path in the folder of this run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn processors(&self) -> usize {
        self.processors
    }

    /// Runs a job of the program several times, in processes that are started for it; returns the median, without the first time.
    pub(super) fn run(&self, on: Arrangement, arguments: &[String]) -> Result<Sample> {
        let said = |host: usize, what: &str| self.path(&format!("{host}.{what}"));
        let hosts = self.write_hosts(on)?;
        let mut group = Group(Vec::new());
        for process in 0..on.all_processes() {
            let mut command = self.command(on, process);
            command.args(["--cores", &on.threads.to_string(), "--progress", "never"]);
            match &hosts {
                Some(file) => command.arg("--hosts").arg(file),
                // Even where a launcher's variables say that there are more.
                None => command.args(["--host-count", "1"]),
            };
            command.args(["--host-id", &process.to_string()]);
            command.args(arguments).args(["--jobs", &JOBS.to_string()]);
            command.env("THALWEG_SPILL_DIR", &self.folder);
            command.stdout(create(&said(process, "stdout"))?);
            command.stderr(create(&said(process, "stderr"))?);
            group.0.push(command.spawn().context("cannot start a host")?);
        }
        if let Err(error) = group.wait() {
            let all = (0..on.all_processes()).map(|host| fs::read_to_string(said(host, "stderr")));
            let all: String = all.map_while(|text| text.ok()).collect();
            return Err(error.context(format!("{on:?} {}: {all}", arguments.join(" "))));
        }
        let text = fs::read_to_string(said(0, "stdout")).context("the output cannot be read")?;
        middle_sample(&text)
    }

    /// A command that runs the program as one of the processes.
    fn command(&self, on: Arrangement, process: usize) -> Command {
        let mut command = if on.fits(self.processors) {
            let first = process * on.cores;
            let mut taskset = program("taskset");
            taskset.args(["-c", &format!("{first}-{}", first + on.cores - 1), "ip"]);
            taskset
        } else {
            program("ip")
        };
        command.args(["netns", "exec", &name(process / on.processes)]).arg(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// The file of hosts, as the book describes it; none for one process.
    fn write_hosts(&self, on: Arrangement) -> Result<Option<PathBuf>> {
        if on.all_processes() == 1 {
            return Ok(None);
        }
        let port = self.next_port.replace(self.next_port.get().wrapping_add(1).max(FIRST_PORT));
        let secret = self.path("secret");
        if !secret.exists() {
            fs::write(&secret, "a secret of some minutes").context("cannot write the secret")?;
            quietly(program("chmod").arg("400").arg(&secret))?;
        }
        let mut text = format!("secret-file = '{}'\n", secret.display());
        for process in 0..on.all_processes() {
            let address = address(process / on.processes);
            let port = if process == 0 { format!(":{port}") } else { String::new() };
            writeln!(text, "[[hosts]]\naddress = '{address}{port}'")?;
        }
        let file = self.path("hosts.toml");
        fs::write(&file, text).context("cannot write the file of hosts")?;
        Ok(Some(file))
    }
}

/// The median of the jobs of a first host's output, without the first.
fn middle_sample(text: &str) -> Result<Sample> {
    let mut samples = text.lines().skip(1).map(sample).collect::<Result<Vec<_>>>()?;
    let first = samples.first().context("the first host has printed nothing of a second job")?;
    if let Some(other) = samples.iter().find(|other| other.answer != first.answer) {
        bail!("the same job answers {} and {}", first.answer, other.answer);
    }
    samples.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(samples.swap_remove((samples.len() - 1) / 2))
}

fn sample(line: &str) -> Result<Sample> {
    let value: Value =
        serde_json::from_str(line).with_context(|| format!("not a line of JSON: {line}"))?;
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    let sample = || {
        Some(Sample {
            seconds: number("seconds").filter(|seconds| *seconds > 0.0)?,
            network_seconds: number("network_seconds")?,
            answer: value.get("answer")?.as_str()?.to_owned(),
        })
    };
    sample().with_context(|| format!("no result of a job: {line}"))
}

/// The processes of a job. They are killed when this is dropped.
struct Group(Vec<Child>);

impl Group {
    /// Waits until all have succeeded, or one has failed.
    fn wait(&mut self) -> Result<()> {
        let end = Instant::now() + LONG;
        loop {
            let mut running = false;
            for (host, child) in self.0.iter_mut().enumerate() {
                match child.try_wait()? {
                    Some(status) => ensure!(status.success(), "host {host} ended with {status}"),
                    None => running = true,
                }
            }
            if !running {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("not over after {} s", LONG.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The namespace of a host.
fn name(host: usize) -> String {
    format!("host{host}")
}

fn address(host: usize) -> String {
    format!("10.78.0.{}", host + 1)
}

fn ip(words: &str) -> Result<()> {
    quietly(program("ip").args(words.split(' ')))
}

/// Runs a command that says nothing.
fn quietly(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().context("cannot start a command")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: f64, answer: &str) -> String {
        format!("{{\"seconds\":{seconds},\"network_seconds\":0.25,\"answer\":\"{answer}\"}}\n")
    }

    #[test]
    fn the_first_job_does_not_count() {
        let text = line(9.5, "1:00") + &line(2.0, "1:00") + &line(1.0, "1:00") + &line(4.0, "1:00");
        let sample = middle_sample(&text).unwrap();
        assert_eq!((sample.seconds, sample.network_seconds), (2.0, 0.25));
        assert_eq!(sample.answer, "1:00");
    }

    #[test]
    fn output_that_is_no_result_is_refused() {
        let first = line(9.5, "1:00");
        for text in ["", "the\t12", r#"{"seconds":0.5}"#, &line(0.0, "1:00")] {
            assert!(middle_sample(&(first.clone() + text)).is_err(), "{text}");
        }
        let error = middle_sample(&(first.clone() + &first + &line(1.0, "2:00"))).unwrap_err();
        assert_eq!(error.to_string(), "the same job answers 1:00 and 2:00");
    }

    #[test]
    fn processes_share_processors_only_if_there_are_too_few() {
        assert!(Arrangement::hosts(2).fits(2) && !Arrangement::hosts(3).fits(2));
        let two_of_two = Arrangement { processes: 2, cores: 2, ..Arrangement::hosts(1) };
        assert!(two_of_two.fits(4) && !two_of_two.fits(3));
    }
}
