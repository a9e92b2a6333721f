//! Jobs that `thalweg launch` starts by ssh from a machine that is no host, over the same bad networks.

use super::Case;
use super::job::Process;
use super::lab::{Lab, Link, STRANGER, address, on_host};
use super::programs::{nothing_is_in, sessions, sessions_are_in};
use crate::hosts::service::until;
use crate::process::{program, run};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::process::Child;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case { name: "launched over a bad network", run: bad_network },
    Case { name: "a launched host is cut off", run: cut_off },
];

/// An sshd on each of three hosts, which knows a key that was made for it.
struct Servers(Vec<Child>);

impl Servers {
    fn start(lab: &Lab) -> Result<Self> {
        // Copies of programs are put there, and stay in the mounts of the cases.
        let copies = std::env::home_dir().context("there is no home")?.join(".cache/thalweg");
        for folder in [copies.as_path(), "/run/sshd".as_ref()] {
            fs::create_dir_all(folder).context("cannot make a folder")?;
        }
        run(program("mount").args(["-t", "tmpfs", "none"]).arg(copies))?;
        let at = |name: &str| lab.path(name).display().to_string();
        for key in ["host-key", "key"] {
            run(program("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]))?;
        }
        let mut config = format!(
            "Host *\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n\
             StrictHostKeyChecking no\nLogLevel ERROR\n",
            at("key"),
            at("known-hosts")
        );
        let mut servers = Self(Vec::new());
        for host in 0..3 {
            let address = address(host);
            writeln!(config, "Host node{host}\nHostName {address}")?;
            let text = format!(
                "ListenAddress {address}\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\n\
                 AuthorizedKeysFile {}\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n",
                at("host-key"),
                at("key.pub")
            );
            let file = lab.path(&format!("sshd-{host}"));
            fs::write(&file, text).context("cannot write a file")?;
            let mut sshd = on_host(host);
            sshd.args(["/usr/sbin/sshd", "-D", "-e", "-f"]).arg(file);
            let log = fs::File::create(lab.path(&format!("sshd-{host}.log")))?;
            servers.0.push(sshd.stderr(log).spawn().context("cannot start sshd")?);
        }
        fs::write(lab.path("ssh-config"), config).context("cannot write a file")?;
        Ok(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Launches the sessions on three hosts, from a machine that is none of them.
fn launch(lab: &Lab) -> Result<Process> {
    let mut hosts = "lost-after = '2s'\nconnect-timeout = '20s'\n".to_owned();
    for host in 0..3 {
        let address = address(host);
        writeln!(hosts, "[[hosts]]\naddress = '{address}'\nssh = 'node{host}'\ncores = 1")?;
    }
    let file = lab.path("launched.toml");
    fs::write(&file, hosts).context("cannot write a file")?;
    let program = sessions(lab, "sessions");
    let mut command = on_host(STRANGER);
    command.arg(lab.launcher()).args(["launch", "--hosts"]).arg(file);
    command.arg("--ssh-config").arg(lab.path("ssh-config")).arg("--");
    program.launch_by(STRANGER, command)
}

fn bad_network(lab: &Lab) -> Result<()> {
    let _servers = Servers::start(lab)?;
    lab.all_links(Link { delay: 0.02, jitter: 0.01, loss: 0.01, ..Link::default() })?;
    launch(lab)?.end()?.succeeded()?;
    sessions_are_in(&lab.path("sessions"))
}

/// A host is cut off from the others and from where it was launched: the launch ends, and so does the process there.
fn cut_off(lab: &Lab) -> Result<()> {
    let _servers = Servers::start(lab)?;
    let mut launched = launch(lab)?;
    (0..3).try_for_each(|host| launched.until_said(&format!("[{host}] running")))?;
    std::thread::sleep(Duration::from_millis(500));
    lab.links_of(1, Link { cut: true, ..Link::default() })?;
    launched.end()?.failed_with(&["host 1 is lost"])?;
    nothing_is_in(&lab.path("sessions"))?;
    until("the process that was cut off does not end", || sessions_run().is_ok_and(|run| !run))
}

/// Whether a process of a job runs. There are no processes here but those of the cases.
fn sessions_run() -> Result<bool> {
    let found = program("pgrep").args(["-x", "network_jobs"]).output()?;
    Ok(!found.stdout.is_empty())
}
