//! Ctrl-C, and what a service manager or a cluster's scheduler sends in its place: SIGTERM.
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

/// What asks a program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGINT, which a terminal sends.
    CtrlC,
    /// SIGTERM, which programs send. Unix alone has it.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing sends it there"))]
    Term,
}

impl Signal {
    /// The exit status of a process that the signal ended: 128 and the signal's number.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::CtrlC => 130,
            Self::Term => 143,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CtrlC => "Ctrl-C",
            Self::Term => "SIGTERM",
        }
    }

    /// What a job says that the signal ended.
    fn why(self) -> &'static str {
        match self {
            Self::CtrlC => "interrupted by Ctrl-C",
            Self::Term => "ended by SIGTERM",
        }
    }
}

#[derive(Default)]
struct State {
    jobs: Vec<Weak<Running>>,
    /// The first signal that came.
    signal: Option<Signal>,
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

/// Has signals cancel jobs from now on. Later calls change nothing.
pub(super) fn install() -> Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = lock(&INSTALLED);
    if !*installed {
        listen()?;
        *installed = true;
    }
    Ok(())
}

#[cfg(unix)]
fn listen() -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
    let serve = move || {
        for number in signals.forever() {
            handle(if number == SIGTERM { Signal::Term } else { Signal::CtrlC });
        }
    };
    // The thread waits for signals as long as the process lives.
    crate::sync::spawn("thalweg-signals".to_owned(), serve).map(drop)
}

#[cfg(not(unix))]
fn listen() -> Result<()> {
    ctrlc::try_set_handler(|| handle(Signal::CtrlC)).map_err(refused)
}

fn refused(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Config, "cannot have Ctrl-C stop jobs").caused_by(cause)
}

/// Has signals cancel this job too.
pub(super) fn watch(job: &Arc<Running>) {
    let mut state = lock(state());
    state.running();
    state.jobs.push(Arc::downgrade(job));
    if let Some(signal) = state.signal {
        job.launched().job.cancel(signal.why());
    }
}

/// The signal that has asked the program to end, if one has.
pub(super) fn signal() -> Option<Signal> {
    lock(state()).signal
}

/// Refuses to begin anything new once a signal has come.
pub(super) fn check() -> Result<()> {
    match signal() {
        Some(signal) => Err(Error::new(ErrorKind::Cancelled, signal.why())),
        None => Ok(()),
    }
}

fn handle(signal: Signal) {
    let mut state = lock(state());
    let jobs = state.running();
    if state.signal.is_some() || jobs.is_empty() {
        std::process::exit(signal.status().into());
    }
    state.signal = Some(signal);
    drop(state);
    let name = signal.name();
    let _ = writeln!(std::io::stderr(), "\nstopping; {name} again to stop at once");
    for job in jobs {
        job.launched().job.cancel(signal.why());
    }
}
