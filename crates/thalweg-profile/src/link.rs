//! A link of a limited rate between the broker and all else, for measurements on more than one network.
//!
//! This process runs in a network namespace of its own, and the broker in another one. A pair of virtual devices joins them, each
//! of which sends at the link's rate. Neither namespace has a name: the kernel removes them, with the devices, when the last
//! process in them has ended, however it ended.

use std::convert::Infallible;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use thalweg::{Error, ErrorKind, Result};

/// The hidden option of the process that is in its namespace.
pub(crate) const INSIDE: &str = "--inside";
/// The address of the broker, and of all else.
const ADDRESSES: [&str; 2] = ["10.79.0.2", "10.79.0.1"];
const DEVICE: &str = "link0";
/// What may leave at once after a pause, as a time in seconds: a few requests would pass at no rate at all if it were long, and the
/// rate would not be reached if the kernel's timers were late by more.
const BURST: f64 = 2e-4;
/// The same in bytes, at least: more than a packet.
const LEAST_BURST: f64 = 4e3;
/// What may wait in front of the link, in seconds, and in bytes at least: more is dropped.
const QUEUE: f64 = 0.1;
const LEAST_QUEUE: f64 = 1e6;

/// A link, and the namespace behind it.
pub(crate) struct Link {
    /// Keeps the namespace while no other process is in it.
    holder: Child,
    /// Its end ends the holder.
    _input: ChildStdin,
}

impl Link {
    /// The address of whatever listens behind the link.
    pub(crate) const FAR: &str = ADDRESSES[0];

    /// Makes a link. The calling process is in a namespace of its own: see [`enter`].
    ///
    /// # Errors
    ///
    /// If the system cannot.
    pub(crate) fn make() -> Result<Self> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // It gets no signals from the terminal.
        let mut holder = unshare.process_group(0).spawn().map_err(not_started("unshare"))?;
        let (Some(mut input), Some(output)) = (holder.stdin.take(), holder.stdout.take()) else {
            return Err(Error::new(ErrorKind::Internal, "pipes are missing"));
        };
        let mut answer = String::new();
        let answered =
            input.write_all(b"\n").and_then(|()| BufReader::new(output).read_line(&mut answer));
        let link = Self { holder, _input: input };
        // Before the answer, its namespace is still that of this process.
        if !answered.is_ok_and(|bytes| bytes > 0) {
            return Err(Error::new(
                ErrorKind::Io,
                "a network namespace for the broker cannot be made",
            ));
        }
        let far = link.holder.id().to_string();
        ran(Command::new("ip")
            .args(["link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE])
            .args(["netns", &far]))?;
        for (address, is_far) in ADDRESSES.into_iter().zip([true, false]) {
            for words in [
                format!("addr add {address}/24 dev {DEVICE}"),
                format!("link set {DEVICE} up"),
                "link set lo up".to_owned(),
            ] {
                ran(link.command("ip", is_far).args(words.split(' ')))?;
            }
        }
        Ok(link)
    }

    /// Sets the rate of both directions, in bits a second.
    ///
    /// # Errors
    ///
    /// If the system cannot.
    pub(crate) fn set_rate(&self, bits: f64) -> Result<()> {
        let bytes = bits / 8.0;
        let burst = (bytes * BURST).max(LEAST_BURST);
        let queue = (bytes * QUEUE).max(LEAST_QUEUE);
        let words = format!(
            "qdisc replace dev {DEVICE} root tbf rate {bits:.0}bit burst {burst:.0} limit {queue:.0}"
        );
        [true, false]
            .into_iter()
            .try_for_each(|is_far| ran(self.command("tc", is_far).args(words.split(' '))))
    }

    /// The words before a command that runs behind the link.
    pub(crate) fn behind(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.holder.id())]
    }

    /// A program on one side.
    fn command(&self, program: &str, is_far: bool) -> Command {
        if !is_far {
            return Command::new(program);
        }
        let [nsenter, namespace] = self.behind();
        let mut command = Command::new(nsenter);
        command.args([&*namespace, program]);
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Replaces this process by the same in a network namespace of its own.
///
/// # Errors
///
/// If there can be none.
pub(crate) fn enter() -> Result<Infallible> {
    // First without what follows, so that the error has the reason.
    let tried = Command::new("unshare").args(["--net", "true"]).output();
    let tried = tried.map_err(not_started("unshare"))?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        let what = format!(
            "--network needs network namespaces, and none can be made here ({}): they need Linux and the rights of root",
            said.trim()
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    let own = std::env::current_exe()
        .map_err(|cause| Error::new(ErrorKind::Io, "cannot find this program").caused_by(cause))?;
    let mut unshare = Command::new("unshare");
    unshare.arg("--net").arg(own).arg(INSIDE).args(std::env::args_os().skip(1));
    Err(not_started("unshare")(unshare.exec()))
}

fn not_started(program: &str) -> impl FnOnce(io::Error) -> Error {
    let package = if program == "ip" || program == "tc" { "iproute2" } else { "util-linux" };
    let what = format!("--network cannot start `{program}`, which Debian's {package} has");
    move |cause| Error::new(ErrorKind::Io, what).caused_by(cause)
}

/// Runs a command that says nothing unless it fails.
fn ran(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(not_started(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let (words, said) = (words.join(" "), String::from_utf8_lossy(&output.stderr));
    Err(Error::new(ErrorKind::Io, format!("--network: `{program} {words}` fails: {}", said.trim())))
}
