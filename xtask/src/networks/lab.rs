//! The hosts, their network, and the folder of a case.

use super::job::Program;
use super::script;
use crate::process::{program, run};
use anyhow::{Context, Result, bail, ensure};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The hosts that jobs have, and one more that no job knows.
pub(super) const HOSTS: usize = 4;
/// The last one.
pub(super) const STRANGER: usize = HOSTS - 1;

pub(super) struct Lab {
    /// Where a case may write. In memory.
    folder: PathBuf,
    /// Of the programs.
    build: PathBuf,
    relay: RefCell<Relay>,
    next_port: Cell<u16>,
}

/// What a network does with packets in one direction: nothing, by default.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    /// Seconds.
    pub(super) delay: f64,
    /// More seconds, as chance has it: packets overtake each other.
    pub(super) jitter: f64,
    /// The probability that a packet is lost.
    pub(super) loss: f64,
    /// Bits a second; 0 for as many as can be.
    pub(super) rate: f64,
    pub(super) cut: bool,
}

/// The packets that the relay has had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) forwarded: u64,
    pub(super) lost: u64,
    /// By the full queue of a narrow link.
    pub(super) dropped: u64,
    pub(super) cut: u64,
    pub(super) overtaken: u64,
}

struct Relay {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Lab {
    /// Makes the hosts. The calling process has mounts, a network and process numbers of its own.
    pub(super) fn new(build: &Path) -> Result<Self> {
        let folder = build.join("networks");
        // Hides what the machine itself has in these folders.
        for mounted in [Path::new("/run/netns"), &folder] {
            std::fs::create_dir_all(mounted).context("cannot make a folder")?;
            run(program("mount").args(["-t", "tmpfs", "none"]).arg(mounted))?;
        }
        let mut lines = String::new();
        for host in 0..HOSTS {
            writeln!(lines, "netns add {}", name(host))?;
        }
        ip(&lines)?;
        let relay = Relay::start()?;
        let mut lines = String::new();
        for host in 0..HOSTS {
            writeln!(lines, "link set {} netns {}", device(host), name(host))?;
        }
        ip(&lines)?;
        for host in 0..HOSTS {
            let (name, device, address) = (name(host), device(host), address(host));
            for words in [
                format!("addr add {address}/24 dev {device}"),
                format!("link set {device} up"),
                "link set lo up".to_owned(),
            ] {
                let mut ip = program("ip");
                succeed(ip.args(["-n", &name]).args(words.split(' ')))?;
            }
        }
        let (folder, next_port) = (folder.join("case"), Cell::new(20_000));
        Ok(Self { folder, build: build.to_owned(), relay: RefCell::new(relay), next_port })
    }

    /// Makes the links perfect and the folder empty.
    pub(super) fn reset(&self) -> Result<()> {
        self.all_links(Link::default())?;
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder).context("cannot empty the folder")?;
        }
        std::fs::create_dir(&self.folder).context("cannot make a folder")
    }

    /// A path in the folder of this case.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A port that no job of this run has had.
    pub(super) fn port(&self) -> u16 {
        self.next_port.replace(self.next_port.get() + 1)
    }

    /// A job of two hosts, which may be changed before it is started.
    pub(super) fn job<'a>(&'a self, example: &str, arguments: &[&str]) -> Program<'a> {
        Program::new(self, self.build.join("examples").join(example), arguments)
    }

    /// The command `thalweg`.
    pub(super) fn launcher(&self) -> PathBuf {
        self.build.join("thalweg")
    }

    /// Sets what happens on the way from one host to another.
    pub(super) fn link(&self, from: usize, to: usize, link: Link) -> Result<()> {
        let Link { delay, jitter, loss, rate, cut } = link;
        let (from, to, cut) = (device(from), device(to), u8::from(cut));
        let answer = self.relay.borrow_mut().ask(&format!(
            "link {from} {to} delay={delay} jitter={jitter} loss={loss} rate={rate} cut={cut}"
        ))?;
        ensure!(answer == "ok", "the relay answers {answer}");
        Ok(())
    }

    /// Sets what happens between two hosts, in both directions.
    pub(super) fn links_between(&self, a: usize, b: usize, link: Link) -> Result<()> {
        self.link(a, b, link)?;
        self.link(b, a, link)
    }

    /// Sets what happens between all hosts.
    pub(super) fn all_links(&self, link: Link) -> Result<()> {
        (0..HOSTS).try_for_each(|a| (0..a).try_for_each(|b| self.links_between(a, b, link)))
    }

    /// Sets what happens between one host and all others.
    pub(super) fn links_of(&self, host: usize, link: Link) -> Result<()> {
        let others = (0..HOSTS).filter(|other| *other != host);
        others.into_iter().try_for_each(|other| self.links_between(host, other, link))
    }

    /// What the relay has had since it was started.
    pub(super) fn counts(&self) -> Result<Counts> {
        let answer = self.relay.borrow_mut().ask("counts")?;
        let numbers: Vec<u64> =
            answer.split(' ').map(str::parse).collect::<Result<_, _>>().context(answer.clone())?;
        let [forwarded, lost, dropped, cut, overtaken] = numbers[..] else {
            bail!("the relay answers {answer}")
        };
        Ok(Counts { forwarded, lost, dropped, cut, overtaken })
    }

    /// Lets packets of this many bytes through: large ones cost the relay less.
    pub(super) fn set_packet_size(&self, bytes: u32) -> Result<()> {
        (0..HOSTS).try_for_each(|host| {
            let (name, device) = (name(host), device(host));
            let mut ip = program("ip");
            ip.args(["-n", &name, "link", "set", &device, "mtu", &bytes.to_string()]);
            succeed(&mut ip)
        })
    }
}

impl Counts {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            forwarded: self.forwarded - before.forwarded,
            lost: self.lost - before.lost,
            dropped: self.dropped - before.dropped,
            cut: self.cut - before.cut,
            overtaken: self.overtaken - before.overtaken,
        }
    }
}

impl Relay {
    fn start() -> Result<Self> {
        let mut command = program("python3");
        command.arg(script("relay.py"));
        command.args((0..HOSTS).map(|host| format!("{}={}", device(host), address(host))));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the relay")?;
        let commands = process.stdin.take().context("its input is not piped")?;
        let answers = BufReader::new(process.stdout.take().context("its output is not piped")?);
        let mut relay = Self { process, commands, answers };
        let ready = relay.answer()?;
        ensure!(ready == "ready", "the relay does not start: {ready}");
        Ok(relay)
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.commands, "{command}").context("the relay has ended")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("the relay cannot be read")?;
        ensure!(!line.is_empty(), "the relay has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The namespace of a host.
fn name(host: usize) -> String {
    format!("host{host}")
}

fn device(host: usize) -> String {
    format!("relay{host}")
}

pub(super) fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// A command that runs another one on a host.
pub(super) fn on_host(host: usize) -> Command {
    let mut command = program("ip");
    command.args(["netns", "exec", &name(host)]);
    command
}

/// Runs several commands of `ip`, one a line.
fn ip(lines: &str) -> Result<()> {
    let mut command = program("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped());
    let mut process = command.spawn().context("cannot start ip")?;
    let input = process.stdin.take().context("its input is not piped")?;
    { input }.write_all(lines.as_bytes()).context("ip does not take its commands")?;
    let status = process.wait()?;
    ensure!(status.success(), "ip ended with {status}: {lines}");
    Ok(())
}

/// Runs a command that says nothing.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot start a command")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
