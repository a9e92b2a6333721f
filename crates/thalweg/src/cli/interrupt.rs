//! Signals that end jobs: Ctrl-C, and SIGTERM, which service managers and cluster schedulers send.
//!
//! The first signal drains the jobs that would not end by themselves, and cancels all others, because the result of a
//! part of a bounded input is not the result of the input. If it is SIGTERM, jobs with checkpoints are suspended instead:
//! whoever sends it ends the program for reasons of its own, and will want the rest of the result later. The second signal
//! cancels the jobs that still drain or are being suspended. The next one ends the process, and so does any signal while no
//! job runs.
//!
//! The handler and the list of jobs that it ends belong to the process. The handler runs on a thread of its own, not
//! in the signal's context, so it may lock and print.
#![expect(
    clippy::disallowed_methods,
    reason = "the part of the crate that speaks for a whole program"
)]

use super::hosts::Lines;
use crate::clock::{Clock, Nanos};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::RunningJob;
use crate::sync::{Mutex, lock};
use std::sync::{Arc, OnceLock, Weak};

/// A signal that asks the program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGINT, which a terminal sends.
    CtrlC,
    /// SIGTERM, which programs send. Exists on Unix alone.
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

    /// The message of a job that the signal ended.
    fn why(self) -> &'static str {
        match self {
            Self::CtrlC => "interrupted by Ctrl-C",
            Self::Term => "ended by SIGTERM",
        }
    }

    /// The beginning of the message of a job that the signal suspended.
    fn suspended(self) -> String {
        format!("suspended by {}", self.name())
    }
}

/// How a signal ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Cancel,
    Drain,
    Suspend,
}

impl Stop {
    /// How the first signal ends a job.
    fn first(signal: Signal, has_checkpoints: bool, is_unbounded: bool) -> Self {
        match signal {
            Signal::Term if has_checkpoints => Self::Suspend,
            _ if is_unbounded => Self::Drain,
            _ => Self::Cancel,
        }
    }

    fn of(job: &RunningJob, signal: Signal) -> Self {
        let is_unbounded = job.launched().plan.stages.iter().any(|stage| !stage.bounded);
        Self::first(signal, job.has_checkpoints(), is_unbounded)
    }
}

/// The request of the signals received so far, with the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Each job ends in its own way.
    First(Signal),
    /// Every job is cancelled.
    Cancel(Signal),
}

/// Another SIGTERM within this time after the first is the same request: service managers send one to each process of a group,
/// and a launcher among these passes its own on.
const SAME: Nanos = 1_000_000_000;

impl Asked {
    /// Whether a signal only repeats the first one, since which this time has passed.
    fn is_repeated(self, signal: Signal, since: Nanos) -> bool {
        self.signal() == Signal::Term && signal == Signal::Term && since < SAME
    }

    /// The request after a further signal, while jobs run which the first signal ends as `stop` or less gently; `None` to end
    /// the process.
    fn next(before: Option<Self>, signal: Signal, stop: Stop) -> Option<Self> {
        match before {
            None if stop > Stop::Cancel => Some(Self::First(signal)),
            None | Some(Self::First(_)) => Some(Self::Cancel(signal)),
            Some(Self::Cancel(_)) => None,
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::First(signal) | Self::Cancel(signal) => signal,
        }
    }

    /// The line that is printed on receipt of the signal.
    fn notice(self, stop: Stop) -> String {
        let name = self.signal().name();
        match (self, stop) {
            (Self::First(_), Stop::Suspend) => {
                format!("suspending: the job ends with a last checkpoint; {name} again to cancel")
            }
            (Self::First(_), Stop::Drain) => {
                format!(
                    "draining: the input ends here, and what was read is worked through; {name} again to cancel"
                )
            }
            _ => format!("stopping; {name} again to stop at once"),
        }
    }

    fn end(self, job: &RunningJob) {
        let (signal, stop) = match self {
            Self::First(signal) => (signal, Stop::of(job, signal)),
            Self::Cancel(signal) => (signal, Stop::Cancel),
        };
        match stop {
            // It has checkpoints.
            Stop::Suspend if job.suspend(&signal.suspended()).is_ok() => {}
            Stop::Drain => job.launched().job.drain(),
            _ => job.launched().job.cancel(signal.why()),
        }
    }
}

#[derive(Default)]
struct State {
    jobs: Vec<Weak<RunningJob>>,
    /// Whether a job was started.
    has_run: bool,
    asked: Option<Asked>,
    /// When the first signal came, by the clock of the handler.
    asked_at: Nanos,
    clock: Option<Clock>,
}

impl State {
    fn running(&mut self) -> Vec<Arc<RunningJob>> {
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

/// Installs the handler. Later calls have no effect.
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

/// Registers a job with the handler.
pub(super) fn watch(job: &Arc<RunningJob>) {
    let mut state = lock(state());
    state.running();
    state.has_run = true;
    state.jobs.push(Arc::downgrade(job));
    if let Some(asked) = state.asked {
        asked.end(job);
    }
}

/// The last signal that has asked the program to end, if any.
pub(super) fn signal() -> Option<Signal> {
    lock(state()).asked.map(Asked::signal)
}

/// Returns an error once a signal has been received.
pub(super) fn check() -> Result<()> {
    match signal() {
        Some(signal) => Err(Error::new(ErrorKind::Cancelled, signal.why())),
        None => Ok(()),
    }
}

fn handle(signal: Signal) {
    let mut state = lock(state());
    let jobs = state.running();
    let now = state.clock.get_or_insert_with(Clock::system).now();
    if state.asked.is_some_and(|asked| asked.is_repeated(signal, now - state.asked_at)) {
        return;
    }
    let stop = jobs.iter().map(|job| Stop::of(job, signal)).max().unwrap_or(Stop::Cancel);
    let asked = Asked::next(state.asked, signal, stop);
    let late = may_be_late(&state, Lines::are_of_several_hosts());
    let (Some(asked), true) = (asked, late || !jobs.is_empty()) else {
        std::process::exit(signal.status().into())
    };
    if state.asked.is_none() {
        state.asked_at = now;
    }
    state.asked = Some(asked);
    drop(state);
    if jobs.is_empty() {
        return;
    }
    Lines::print(&format!("\n{}", asked.notice(stop)));
    jobs.iter().for_each(|job| asked.end(job));
}

/// Whether the signal may have ended the job of this host before it came here: it is sent to all hosts, and the first
/// to get it drains, suspends or cancels the job on all of them. Then the program ends by itself; at the latest, at its next job.
fn may_be_late(state: &State, several_hosts: bool) -> bool {
    several_hosts && state.has_run && state.asked.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_may_come_after_the_job_that_it_has_ended_on_other_hosts() {
        let state = |has_run, asked| State { has_run, asked, ..State::default() };
        assert!(may_be_late(&state(true, None), true));
        assert!(!may_be_late(&state(true, None), false));
        // Hosts that wait for each other are to end at once.
        assert!(!may_be_late(&state(false, None), true));
        assert!(!may_be_late(&state(true, Some(Asked::First(Signal::CtrlC))), true));
    }

    #[test]
    fn a_signal_that_comes_by_two_ways_counts_once() {
        let term = Asked::First(Signal::Term);
        assert!(term.is_repeated(Signal::Term, SAME - 1));
        assert!(!term.is_repeated(Signal::Term, SAME), "somebody asks again");
        assert!(!term.is_repeated(Signal::CtrlC, 0));
        assert!(!Asked::First(Signal::CtrlC).is_repeated(Signal::CtrlC, 0), "a person asks again");
        assert!(Asked::Cancel(Signal::Term).is_repeated(Signal::Term, 0));
    }

    #[test]
    fn each_signal_asks_for_more_than_the_one_before() {
        let [int, term] = [Signal::CtrlC, Signal::Term];
        let drain = Asked::next(None, int, Stop::Drain);
        assert_eq!(drain, Some(Asked::First(int)));
        assert_eq!(Asked::next(None, term, Stop::Suspend), Some(Asked::First(term)));
        assert_eq!(Asked::next(None, term, Stop::Cancel), Some(Asked::Cancel(term)));
        // The remaining jobs may all be bounded.
        for stop in [Stop::Suspend, Stop::Drain, Stop::Cancel] {
            let cancel = Asked::next(drain, term, stop);
            assert_eq!(cancel, Some(Asked::Cancel(term)));
            assert_eq!(Asked::next(cancel, int, stop), None);
        }
    }

    #[test]
    fn a_scheduler_suspends_jobs_with_checkpoints_and_a_person_does_not() {
        for is_unbounded in [true, false] {
            assert_eq!(Stop::first(Signal::Term, true, is_unbounded), Stop::Suspend);
            let without = if is_unbounded { Stop::Drain } else { Stop::Cancel };
            assert_eq!(Stop::first(Signal::Term, false, is_unbounded), without);
            for has_checkpoints in [true, false] {
                assert_eq!(Stop::first(Signal::CtrlC, has_checkpoints, is_unbounded), without);
            }
        }
    }
}
