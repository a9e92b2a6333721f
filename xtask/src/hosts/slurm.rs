//! A cluster of SLURM on this machine: a controller and three nodes, each of them a daemon.

use super::service::{Service, free_ports, until};
use super::{Programs, answer, arguments, write};
use crate::process::{program, root};
use anyhow::{Context, Result, ensure};
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
AuthInfo=socket={path}/munge/socket,cred_expire=5
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
SchedulerParameters=sched_interval=1,bf_interval=1
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

    /// A step on several nodes of so many tasks, which run on so many cores each.
    pub(super) fn srun_with_cores(
        &self,
        programs: &Programs,
        flags: &[&str],
        tasks: usize,
        cores: &str,
    ) -> Result<()> {
        let first = ["--first-host", "localhost"];
        self.srun(programs, flags, &first)?;
        let mut command = self.command("srun");
        command.env("HOME", programs.home.path()).args(flags).arg(programs.wordcount());
        let plan = answer(command.args(arguments()).args(first).arg("--explain"))?;
        let expected = format!("to be run on {tasks} hosts, this one with {cores}, ");
        ensure!(plan.contains(&expected), "not what was requested: {plan}");
        Ok(())
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

    /// The script of the book whose job is suspended, and goes on with another number of tasks when the script has requeued itself.
    pub(super) fn requeued(&self, programs: &Programs) -> Result<()> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let jobs = programs.examples.join("network_jobs").display().to_string();
        let [alone, requeued, saved, out] =
            ["alone", "requeued", "saved", "requeued-out"].map(path);
        let all_at_once = format!("'{jobs}' sessions --rate 1e6 --output '{alone}'");
        answer(program("sh").args(["-c", &all_at_once]))?;

        let job = format!(
            "'{jobs}' --checkpoint '{saved}' --checkpoint-interval 1000s --first-host localhost sessions --output '{requeued}'"
        );
        let page = root().join("docs/book/src/hosts.md");
        let script = book_script(&std::fs::read_to_string(page)?, &job).context("the book")?;
        let script = write(self.folder.path(), "requeued.sh", &script)?;
        let mut command = self.command("sbatch");
        command.env("HOME", programs.home.path()).args(["--parsable", "-N2", "-n3", "-c1"]);
        let id = answer(command.args(["--ntasks-per-node=2", "-o", &out]).arg(script))?;
        let said = || std::fs::read_to_string(&out).unwrap_or_default();
        until("the job does not run", || said().matches("running").count() == 2)?;
        answer(self.command("scancel").args(["--signal=TERM", id.trim()]))?;
        let has_ended = || {
            let shown = answer(self.command("scontrol").args(["show", "job", id.trim()]));
            shown.is_ok_and(|shown| shown.contains("JobState=COMPLETED"))
        };
        until("the job does not go on to its end", has_ended).with_context(said)?;
        let onward = "suspended by SIGTERM: it goes on from checkpoint 1 of ";
        ensure!(said().matches(onward).count() == 2, "not all hosts were suspended: {}", said());
        ensure!(said().matches("running").count() == 5, "not all tasks have run: {}", said());
        ensure!(lines(&alone)? == lines(&requeued)?, "another answer than without interruption");
        Ok(())
    }
}

/// The script of the book that requeues itself, with another job, for which it has one task more each time.
fn book_script(page: &str, job: &str) -> Result<String> {
    let mut blocks = page.split("```sh\n").filter_map(|rest| rest.split("```").next());
    let script = blocks.find(|block| block.contains("scontrol requeue"));
    let script = script.context("no script requeues itself")?;
    let line = script.lines().find(|line| line.starts_with("srun ")).context("it has no step")?;
    Ok(script.replace(line, &format!("srun -n $((2 + ${{SLURM_RESTART_COUNT:-0}})) {job}")))
}

/// The lines of all files in a folder, in order.
fn lines(folder: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder)? {
        lines.extend(std::fs::read_to_string(file?.path())?.lines().map(str::to_owned));
    }
    lines.sort_unstable();
    ensure!(!lines.is_empty(), "there are no lines in {folder}");
    Ok(lines)
}

fn daemon(name: &str) -> Command {
    let mut command = program(name);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
