//! How jobs end: by failure, cancellation or draining, and that none goes on for ever because of what a
//! program's own code does.

mod cancelled;
mod drained;
mod named;
mod nested;
mod panics;
#[cfg(feature = "cli")]
mod waiting;

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thalweg::Environment;
use thalweg::config::Config;

/// Longer than any test needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An environment with settings that differ from the default.
fn environment(change: impl FnOnce(&mut Config)) -> Environment {
    let mut config = Config::default();
    change(&mut config);
    Environment::with_config(config)
}

/// Runs a test on a thread of its own, so that one that hangs fails.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _done = done;
        test();
    });
    match ended.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
    }
}
