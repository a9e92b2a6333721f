//! Builds that later steps need, made at the lowest priority while the tests of an earlier one wait for processes and clocks.
//!
//! Nothing depends on it. A step builds what it needs itself: what was built before is there, and cargo waits for another build
//! in the same folder.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Builds that are under way. When it is dropped, no other begins, and cargo is ended; compilers that it has started finish what they
/// are at.
pub(crate) struct Ahead(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    child: Option<Child>,
    is_over: bool,
}

impl Ahead {
    /// Begins to run commands, one after the other. What they print is lost, and whether they fail: whoever needs it will see.
    pub(crate) fn begin(commands: Vec<Command>) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for command in commands {
                if !start(&of_thread, at_lowest_priority(&command)) {
                    return;
                }
                while is_running(&of_thread) {
                    thread::sleep(std::time::Duration::from_millis(200));
                }
            }
        });
        Self(state)
    }
}

fn start(state: &Mutex<State>, mut command: Command) -> bool {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !state.is_over {
        state.child = command.spawn().ok();
    }
    !state.is_over
}

fn is_running(state: &Mutex<State>) -> bool {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
}

/// The same command, run by `nice`.
fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_over = true;
        if let Some(mut child) = state.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn commands_run_one_after_the_other_where_they_belong() {
        let folder = tempfile::tempdir().unwrap();
        let command = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]).env("WORD", "said").current_dir(folder.path());
            command
        };
        let all = ["sleep 0.3; nice >> out", "false", "echo $WORD >> out", "mv out whole"];
        let ahead = Ahead::begin(all.map(command).into());
        let begun = Instant::now();
        let whole = folder.path().join("whole");
        while !whole.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
        drop(ahead);
        assert_eq!(std::fs::read_to_string(whole).unwrap(), "19\nsaid\n");
    }

    #[test]
    fn what_is_not_finished_is_ended() {
        let begun = Instant::now();
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            command
        };
        let ahead = Ahead::begin(vec![sleep(), sleep()]);
        thread::sleep(Duration::from_millis(100));
        drop(ahead);
        assert!(begun.elapsed() < Duration::from_secs(500));
    }
}
