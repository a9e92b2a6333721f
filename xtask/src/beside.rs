//! Steps of `cargo xtask test` that run beside the others: those that only compute, at the lowest priority, while the tests of other
//! steps wait for processes and clocks; and long ones whose tests wait nearly all of their time.
//!
//! Each is a process of its own: this program with that step alone. What it prints is kept until its turn comes.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Steps that run one after the other, beside those of this process. When it is dropped, no other begins, and the one that runs is
/// ended with all its processes.
pub(crate) struct Beside(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<&'static str>,
    running: Option<(&'static str, Child)>,
    ended: BTreeMap<&'static str, Result<Ended>>,
}

/// A step that has run to its end.
pub(crate) struct Ended {
    pub(crate) has_passed: bool,
    pub(crate) output: String,
    pub(crate) time: Duration,
}

/// How much less of a core a step gets where others need it.
#[derive(Clone, Copy)]
pub(crate) struct Niceness(&'static str);

impl Niceness {
    /// It gets what others leave.
    pub(crate) const MOST: Self = Self("19");
    /// It gets as much.
    pub(crate) const NONE: Self = Self("0");
}

/// Ends all processes of the group when the shell is ended, as when this process dies.
const IN_ITS_GROUP: &str = "trap 'trap - TERM; kill -TERM 0' TERM; \"$@\" & wait $!";

impl Beside {
    /// Begins to run these steps, each with the program and arguments that `line` returns, and with so much less priority.
    pub(crate) fn begin(
        steps: impl Iterator<Item = &'static str>,
        niceness: Niceness,
        line: impl Fn(&'static str) -> Vec<String> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        shared.lock().waiting = steps.collect();
        let of_thread = Arc::clone(&shared);
        // The death of this thread, too, ends what it has started.
        thread::spawn(move || while of_thread.run_next(niceness, &line) {});
        Self(shared)
    }

    /// The result of a step, which is waited for if it is running. If it has not begun, it does not begin, and there is none.
    pub(crate) fn take(&self, step: &str) -> Option<Result<Ended>> {
        let mut state = self.0.lock();
        state.waiting.retain(|waiting| *waiting != step);
        while state.running.as_ref().is_some_and(|(running, _)| *running == step) {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.ended.remove(step)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the next step, if there is one.
    fn run_next(&self, niceness: Niceness, line: &impl Fn(&'static str) -> Vec<String>) -> bool {
        let mut state = self.lock();
        let Some(step) = state.waiting.pop_front() else { return false };
        let begun = Instant::now();
        match start(niceness, &line(step)) {
            Ok((child, output)) => {
                state.running = Some((step, child));
                drop(state);
                let has_passed = self.wait();
                state = self.lock();
                state.running = None;
                let time = begun.elapsed();
                let read = std::fs::read(output.path()).context("cannot read what a step has said");
                let ended = read.map(|output| {
                    let output = String::from_utf8_lossy(&output).into_owned();
                    Ended { has_passed, output, time }
                });
                state.ended.insert(step, ended);
            }
            // It runs by itself when its turn comes.
            Err(error) => eprintln!("{step} does not run beside the others: {error:#}"),
        }
        self.changed.notify_all();
        true
    }

    /// Waits until the step that runs has ended; returns whether it has passed.
    fn wait(&self) -> bool {
        loop {
            match self.lock().running.as_mut().map(|(_, child)| child.try_wait()) {
                Some(Ok(None)) => {}
                Some(Ok(Some(status))) => return status.success(),
                Some(Err(_)) | None => return false,
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Starts a program; returns the file of its output, too.
fn start(Niceness(niceness): Niceness, line: &[String]) -> Result<(Child, NamedTempFile)> {
    let output = NamedTempFile::new().context("no file for what a step says")?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "sh", "-c", IN_ITS_GROUP, "sh", "nice", "-n", niceness]);
    command.args(line).process_group(0).stdin(Stdio::null());
    // One opening, with one position for both.
    let said = output.reopen()?;
    command.stdout(said.try_clone()?).stderr(said);
    let child = command.spawn().context("cannot start a step beside the others")?;
    Ok((child, output))
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting.clear();
        if let Some((_, child)) = &mut state.running {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(steps: &[&'static str]) -> Beside {
        // Each step is a line of a shell.
        let line = |step: &'static str| ["sh", "-c", step].map(str::to_owned).into();
        Beside::begin(steps.iter().copied(), Niceness::MOST, line)
    }

    fn until(so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !so() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn steps_run_one_after_the_other_and_are_waited_for() {
        let steps = ["sleep 0.3; nice; echo said >&2", "echo bad; exit 3", "sleep 1000", "true"];
        let beside = beside(&steps);
        until(|| beside.0.lock().waiting.len() < steps.len());
        let first = beside.take(steps[0]).unwrap().unwrap();
        assert_eq!((first.output.as_str(), first.has_passed), ("19\nsaid\n", true));
        assert!(first.time >= Duration::from_millis(300));
        until(|| beside.0.lock().ended.contains_key(steps[1]));
        let second = beside.take(steps[1]).unwrap().unwrap();
        assert!(beside.take(steps[1]).is_none(), "it was taken");
        assert_eq!((second.output.as_str(), second.has_passed), ("bad\n", false));
        assert!(beside.take(steps[3]).is_none(), "it has not begun");
        assert!(beside.take("another").is_none());
    }

    #[test]
    fn what_runs_is_ended_with_all_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("begun");
        let step = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", begun.display());
        let step: &'static str = step.leak();
        let beside = beside(&[step]);
        until(|| begun.exists());
        let sleeps = std::fs::read_to_string(begun).unwrap();
        let process = std::path::Path::new("/proc").join(sleeps.trim());
        assert!(process.exists());
        let shared = Arc::clone(&beside.0);
        drop(beside);
        until(|| shared.lock().running.is_none());
        // It may be left to be waited for by the first process.
        let is_dead = || match std::fs::read_to_string(process.join("stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        until(is_dead);
    }
}
