//! Ctrl-C, and what else asks a process to end: SIGTERM and SIGHUP.
//!
//! The handler is the process's, and so is the list of jobs that it cancels. It runs on a thread
//! of its own, not in the signal's context, so it may lock and print.
#![expect(
    clippy::disallowed_methods,
    reason = "the part of the crate that speaks for a whole program"
)]

use crate::error::{Error, ErrorKind, Result};
use crate::stream::Running;
use crate::sync::{Mutex, lock};
use std::io::Write as _;
use std::sync::{Arc, OnceLock, Weak};

/// The exit status of a process that was asked to end: 128 and the number of Ctrl-C's signal.
pub(super) const STATUS: u8 = 130;

/// What a job says that was asked to end.
const WHY: &str = "interrupted by Ctrl-C or a signal to end";

#[derive(Default)]
struct State {
    jobs: Vec<Weak<Running>>,
    interrupted: bool,
}

impl State {
    fn running(&mut self) -> Vec<Arc<Running>> {
        let all = self.jobs.iter().filter_map(Weak::upgrade);
        let running: Vec<_> = all.filter(|job| !job.launched().job.is_over()).collect();
        self.jobs = running.iter().map(Arc::downgrade).collect();
        running
    }
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();

fn state() -> &'static Mutex<State> {
    STATE.get_or_init(Mutex::default)
}

/// Has Ctrl-C cancel jobs from now on. Later calls change nothing.
pub(super) fn install() -> Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = lock(&INSTALLED);
    if !*installed {
        ctrlc::try_set_handler(handle).map_err(|cause| {
            let what = "cannot have Ctrl-C stop jobs: the program handles it already";
            Error::new(ErrorKind::Config, what).caused_by(cause)
        })?;
        *installed = true;
    }
    Ok(())
}

/// Has Ctrl-C cancel this job too.
pub(super) fn watch(job: &Arc<Running>) {
    let mut state = lock(state());
    state.running();
    state.jobs.push(Arc::downgrade(job));
    if state.interrupted {
        job.launched().job.cancel(WHY);
    }
}

/// Whether Ctrl-C was pressed.
pub(super) fn interrupted() -> bool {
    lock(state()).interrupted
}

/// Refuses to begin anything new once Ctrl-C was pressed.
pub(super) fn check() -> Result<()> {
    if interrupted() { Err(Error::new(ErrorKind::Cancelled, WHY)) } else { Ok(()) }
}

fn handle() {
    let mut state = lock(state());
    let jobs = state.running();
    if state.interrupted || jobs.is_empty() {
        std::process::exit(STATUS.into());
    }
    state.interrupted = true;
    drop(state);
    let _ = writeln!(std::io::stderr(), "\nstopping; Ctrl-C again to stop at once");
    for job in jobs {
        job.launched().job.cancel(WHY);
    }
}
