//! A cluster of SLURM on this machine: a controller and three nodes, each of them a daemon.

use super::service::{Service, free_ports, until};
use super::{Programs, answer, arguments, write};
use crate::process::program;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const NODES: [&str; 3] = ["n08", "n09", "n10"];

pub(super) struct Cluster {
    /// Nodes first, so that they end before their controller.
    _services: Vec<Service>,
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Cluster {
    pub(super) fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("there is no room for a temporary folder")?;
        let path = folder.path();
        for name in ["state", "spool", "munge"] {
            std::fs::create_dir(path.join(name))?;
        }
        // munge refuses folders and keys that others may change.
        let only_owner = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, only_owner(0o755))?;
        std::fs::set_permissions(path.join("munge"), only_owner(0o711))?;
        // A key for some seconds, on this machine.
        let key = write(path, "munge/key", &format!("{:>1024}", std::process::id()))?;
        std::fs::set_permissions(&key, only_owner(0o600))?;
        let munge = |name: &str| path.join("munge").join(name).display().to_string();
        let mut munged = daemon("/usr/sbin/munged");
        munged.args(["--force", "--foreground"]);
        for (flag, name) in [("key", "key"), ("pid", "pid"), ("log", "log"), ("seed", "seed")] {
            munged.arg(format!("--{flag}-file={}", munge(name)));
        }
        munged.arg(format!("--socket={}", munge("socket")));
        let munged = Service::start(&mut munged)?;
        let socket = munge("socket");
        until("munge does not listen", || std::path::Path::new(&socket).exists())?;

        let config = write(path, "slurm.conf", &Self::config(path)?)?;
        let slurm = |name: &str| {
            let mut command = daemon(name);
            command.env("SLURM_CONF", &config).arg("-D");
            command
        };
        let controller = Service::start(&mut slurm("/usr/sbin/slurmctld"))?;
        let mut services = Vec::new();
        for node in NODES {
            services.push(Service::start(slurm("/usr/sbin/slurmd").args(["-N", node]))?);
        }
        services.extend([controller, munged]);
        let cluster = Self { _services: services, folder, config };
        until("the nodes of SLURM are not idle", || {
            let idle = cluster.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"]).output();
            idle.is_ok_and(|idle| idle.stdout.trim_ascii() == NODES.len().to_string().as_bytes())
        })?;
        Ok(cluster)
    }

    fn config(path: &std::path::Path) -> Result<String> {
        let name = answer(program("hostname").arg("-s"))?;
        let user = answer(program("id").arg("-un"))?;
        let (name, user, path) = (name.trim(), user.trim(), path.display());
        let [controller, ports @ ..] = free_ports::<4>()?;
        let ports = ports.map(|port| port.to_string()).join(",");
        Ok(format!(
            "ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={path}/munge/socket
CredType=cred/munge
SlurmctldPort={controller}
SlurmdParameters=config_overrides
StateSaveLocation={path}/state
SlurmdSpoolDir={path}/spool/%n
SlurmctldPidFile={path}/slurmctld.pid
SlurmdPidFile={path}/slurmd.%n.pid
SlurmctldLogFile={path}/slurmctld.log
SlurmdLogFile={path}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=n[08-10] NodeHostname={name} NodeAddr=127.0.0.1 Port=[{ports}] CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"
        ))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = program("timeout");
        command.args(["60", name]).env("SLURM_CONF", &self.config);
        command
    }

    pub(super) fn srun(&self, programs: &Programs, flags: &[&str], more: &[&str]) -> Result<()> {
        let mut command = self.command("srun");
        command.env("HOME", programs.home.path()).args(flags).arg(programs.wordcount());
        programs.same(&answer(command.args(arguments()).args(more))?)
    }

    /// A batch script that counts by itself, and then in a step of several tasks.
    pub(super) fn sbatch(&self, programs: &Programs) -> Result<()> {
        let [flag, text] = arguments();
        let line = format!("'{}' {flag} '{text}'", programs.wordcount().display());
        let script = write(
            self.folder.path(),
            "script",
            &format!("#!/bin/sh\n{line} || exit 1\nsrun {line} --first-host localhost\n"),
        )?;
        let out = self.folder.path().join("out");
        let mut command = self.command("sbatch");
        command.env("HOME", programs.home.path()).args(["--wait", "-N2", "-n4", "-o"]);
        answer(command.arg(&out).arg(script))?;
        let printed = std::fs::read_to_string(&out).context("the script has printed nothing")?;
        let alone = printed.get(..programs.expected.len()).unwrap_or(&printed);
        programs.same(alone).context("beside the steps of the script")?;
        programs.same(&printed[alone.len()..]).context("in a step of the script")
    }
}

fn daemon(name: &str) -> Command {
    let mut command = program(name);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
