//! The processes of a job, which `thalweg launch` starts on this machine: how they are killed, and how they end. None of them
//! outlives this process: the launcher ends with it, and the processes of a job with their launcher.

use super::moments::{Moment, Shape, Victim};
use crate::built::Build;
use crate::hosts::service::{children, processes_with, until};
use crate::process::program;
use crate::recovery::newest;
use crate::{hosts, temporary};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any job here takes, also on a busy machine, so that a hang ends with a message.
const LONG: Duration = Duration::from_secs(300);
/// The time between two checks of a job.
const LOOK: Duration = Duration::from_millis(1);
/// The environment variable by which the processes of a job are found.
const MARK: &str = "KILLED_JOB";

/// The programs, and where they may write.
pub(super) struct Setting {
    launcher: PathBuf,
    examples: PathBuf,
    folder: TempDir,
}

impl Setting {
    /// Builds the programs.
    pub(super) fn new(how: Build) -> Result<Self> {
        let [launcher, examples] = hosts::build(how)?;
        let folder = match temporary::folder() {
            Some(folder) => folder,
            None => tempfile::tempdir().context("there is no room for a temporary folder")?,
        };
        Ok(Self { launcher, examples, folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts an example program as a job.
    pub(super) fn start(
        &self,
        shape: Shape,
        example: &str,
        arguments: &[String],
    ) -> Result<Launch> {
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let said = self.folder().join("said");
        let Shape { processes, cores } = shape;
        let mut command = program("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.launcher).arg("launch");
        command.args(["--local", &processes.to_string(), "--cores", &cores.to_string(), "--"]);
        command.arg(self.examples.join(example)).args(arguments);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command.env("THALWEG_SPILL_DIR", self.folder()).env(MARK, &mark);
        let output =
            File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let child = command.stdout(Stdio::null()).stderr(output).spawn();
        let child = child.context("cannot start setpriv")?;
        Ok(Launch { child, mark: format!("{MARK}={mark}"), said })
    }
}

/// A running job, which is killed when this is dropped.
pub(super) struct Launch {
    child: Child,
    mark: String,
    /// The file with the standard error of its processes.
    said: PathBuf,
}

/// How a job has ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

impl Launch {
    /// Waits for a moment and kills, unless the job ends before; returns whether it has killed. `before` is the number of the
    /// newest checkpoint when the job was started.
    pub(super) fn kill_at(
        &mut self,
        moment: Moment,
        victim: Victim,
        checkpoints: &Path,
        before: u64,
    ) -> Result<bool> {
        let begun = Instant::now();
        loop {
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            let is_time = match moment {
                Moment::Checkpoints { more, .. } => newest(checkpoints)? >= before + more,
                Moment::After(time) => begun.elapsed() >= time,
            };
            if is_time {
                break;
            }
            self.ends_in_time(begun)?;
            std::thread::sleep(LOOK);
        }
        if let Moment::Checkpoints { then, .. } = moment {
            std::thread::sleep(then);
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
        }
        self.kill(victim)?;
        Ok(true)
    }

    fn kill(&mut self, victim: Victim) -> Result<()> {
        let killed = victim.of(&children(self.child.id()));
        if killed.is_empty() {
            return self.child.kill().context("the launcher cannot be killed");
        }
        let mut kill = program("kill");
        kill.arg("-KILL").args(killed.iter().map(u32::to_string));
        // `kill` fails if one of the processes has just ended by itself.
        kill.stderr(Stdio::null()).status().context("cannot start kill")?;
        Ok(())
    }

    /// Waits until no process of the job is left.
    pub(super) fn end(mut self) -> Result<Ended> {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            self.ends_in_time(begun)?;
            std::thread::sleep(LOOK);
        };
        until("processes of the job are left", || processes_with(&self.mark).is_empty())?;
        Ok(Ended { status, said: self.said()? })
    }

    fn ends_in_time(&self, begun: Instant) -> Result<()> {
        ensure!(
            begun.elapsed() < LONG,
            "the job still runs after {} s; it says: {}",
            LONG.as_secs(),
            self.said()?
        );
        Ok(())
    }

    fn said(&self) -> Result<String> {
        let cannot = || format!("cannot read {}", self.said.display());
        let bytes = std::fs::read(&self.said).with_context(cannot)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Fails unless the job has ended well.
    pub(super) fn succeeded(self) -> Result<Self> {
        let Self { status, said } = &self;
        ensure!(status.success(), "it ended with {status}, and was not killed: {said}");
        Ok(self)
    }
}
