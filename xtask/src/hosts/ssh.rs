//! `thalweg launch --hosts` over a real sshd, which listens on loopback and knows keys that were made for it.

use super::service::{Service, children, free_ports, processes_with, until};
use super::{Programs, answer, arguments, write};
use crate::process::{program, run};
use anyhow::{Context, Result, bail};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The variable by which processes that were started over ssh are found.
const MARK: &str = "THALWEG_TEST_OF_SSH";

pub(super) struct Server {
    folder: tempfile::TempDir,
    _sshd: Service,
    config: PathBuf,
    hosts: PathBuf,
    mark: String,
}

impl Server {
    pub(super) fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("there is no room for a temporary folder")?;
        let path = folder.path();
        let at = |name: &str| path.join(name).display().to_string();
        for key in ["host", "user", "jump"] {
            run(program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]))?;
        }
        let public = |key: &str| {
            std::fs::read_to_string(at(&format!("{key}.pub"))).context("cannot read a key")
        };
        // With the key of the jump host nothing can be run.
        let authorized = format!("{}restrict,port-forwarding {}", public("user")?, public("jump")?);
        write(path, "authorized", &authorized)?;
        let [port] = free_ports()?;
        let server = write(
            path,
            "sshd_config",
            &format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nUsePAM no\n\
                 AuthorizedKeysFile {}\nStrictModes no\nPasswordAuthentication no\n\
                 MaxStartups 100\nSubsystem sftp internal-sftp\n",
                at("host"),
                at("authorized")
            ),
        )?;
        let config = write(
            path,
            "config",
            &format!(
                "Host jump\nIdentityFile {}\nHost c\nProxyJump jump\nHost a b c\nIdentityFile {}\n\
                 Host *\nHostName 127.0.0.1\nPort {port}\nIdentitiesOnly yes\n\
                 UserKnownHostsFile {}\nStrictHostKeyChecking no\nLogLevel ERROR\n",
                at("jump"),
                at("user"),
                at("known")
            ),
        )?;
        // Each is another host for ssh, the last one behind a jump host, and one machine for the engine.
        let host = |name| format!("[[hosts]]\naddress = '127.0.0.1'\nssh = '{name}'\ncores = 1\n");
        let hosts = write(path, "hosts.toml", &["a", "b", "c"].map(host).concat())?;
        // Where it separates privileges when root starts it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let log = std::fs::File::create(at("log")).context("cannot write a log")?;
        let mut sshd = program("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(&server).stderr(log);
        let sshd = Service::start(&mut sshd)?;
        until("sshd does not listen", || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let mark = format!("{port}-{}", std::process::id());
        Ok(Self { folder, _sshd: sshd, config, hosts, mark })
    }

    fn launch(&self, programs: &Programs, example: &str) -> Command {
        self.launch_file(programs, &programs.examples.join(example))
    }

    fn launch_file(&self, programs: &Programs, file: &Path) -> Command {
        let mut command = program(&programs.launcher);
        command.args(["launch", "--hosts"]).arg(&self.hosts).arg("--ssh-config").arg(&self.config);
        // A launcher that is killed leaves nothing that has inherited its own variables.
        command.args(["--env", &format!("{MARK}={}", self.mark), "--"]);
        command.arg(file);
        command
    }

    /// Fails if processes of a launch are left.
    fn none_is_left(&self) -> Result<()> {
        let mark = format!("{MARK}={}", self.mark);
        until("remote processes do not end", || processes_with(&mark).is_empty())
    }

    pub(super) fn copies_once(&self, programs: &Programs) -> Result<()> {
        // A name and an argument that a shell would take apart.
        let folder = self.folder.path().join("it's $HOME");
        std::fs::create_dir_all(&folder)?;
        let copy = folder.join("word count");
        std::fs::copy(programs.wordcount(), &copy)?;
        // Not the program that was copied in an earlier run.
        let mut bytes = std::fs::OpenOptions::new().append(true).open(&copy)?;
        std::io::Write::write_all(&mut bytes, self.mark.as_bytes())?;
        drop(bytes);
        let text = folder.join("a \"text\"");
        std::fs::copy(&arguments()[1], &text)?;
        let mut said = Vec::new();
        for _ in 0..2 {
            let output = self.launch_file(programs, &copy).arg("--tsv").arg(&text).output()?;
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() {
                bail!("{}: {stderr}", output.status);
            }
            programs.same(&String::from_utf8_lossy(&output.stdout))?;
            said.push(stderr);
        }
        remove_copy(&copy).context("the copy is not where it should be")?;
        if !said[0].contains("copying word count to host ") || said[1].contains("copying") {
            bail!("copied twice, or not at all: {said:?}");
        }
        self.none_is_left()
    }

    /// The jump host has let through what went to the host behind it.
    pub(super) fn has_jumped(&self) -> Result<()> {
        let key =
            answer(program("ssh-keygen").arg("-lf").arg(self.folder.path().join("jump.pub")))?;
        let key = key.split_whitespace().nth(1).context("the key has no fingerprint")?;
        let log = std::fs::read_to_string(self.folder.path().join("log"))?;
        if log.lines().any(|line| line.contains("Accepted publickey") && line.contains(key)) {
            return Ok(());
        }
        bail!("no connection has come with the key of the jump host: {log}")
    }

    pub(super) fn one_fails(&self, programs: &Programs) -> Result<()> {
        let mut command = self.launch(programs, "misbehave");
        let output = command.args(["exit", "--at", "1"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(3) || !said.contains("host 1 (b) ended with status 3") {
            bail!("{}: {said}", output.status);
        }
        self.none_is_left()
    }

    /// Starts a job that does not end by itself, and waits until it runs.
    fn endless(&self, programs: &Programs) -> Result<Child> {
        let mut command = self.launch(programs, "misbehave");
        let mut child =
            command.arg("endless").stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = child.stderr.take().context("standard error is not piped")?;
        let mut running = 0;
        for line in std::io::BufRead::lines(std::io::BufReader::new(lines)) {
            running += usize::from(line?.ends_with("running"));
            if running == 3 {
                return Ok(child);
            }
        }
        bail!("the job does not start: {}", child.wait()?)
    }

    pub(super) fn launcher_is_killed(&self, programs: &Programs) -> Result<()> {
        let mut child = self.endless(programs)?;
        child.kill()?;
        child.wait()?;
        self.none_is_left()
    }

    pub(super) fn connection_is_killed(&self, programs: &Programs) -> Result<()> {
        let mut child = self.endless(programs)?;
        let connections = children(child.id());
        let [_, connection, _] = connections[..] else { bail!("it has {connections:?}") };
        run(program("kill").args(["-9", &connection.to_string()]))?;
        let status = child.wait()?;
        if status.code() != Some(137) {
            bail!("it ended with {status}");
        }
        self.none_is_left()
    }

    pub(super) fn interrupted(&self, programs: &Programs) -> Result<()> {
        let mut child = self.endless(programs)?;
        run(program("kill").args(["-INT", &child.id().to_string()]))?;
        let status = child.wait()?;
        if !status.success() {
            bail!("it did not drain: {status}");
        }
        self.none_is_left()?;
        remove_copy(&programs.examples.join("misbehave"))
    }
}

/// Removes the copy of a program from the home of this user, which is that of all hosts.
fn remove_copy(file: &Path) -> Result<()> {
    let digest = answer(program("sha256sum").arg(file))?;
    let digest = digest.split_whitespace().next().context("there is no digest")?;
    let home = std::env::home_dir().context("there is no home")?;
    Ok(std::fs::remove_dir_all(home.join(".cache/thalweg").join(digest))?)
}
