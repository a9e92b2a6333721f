//! Application mode of programs that are run from a shell: arguments, signals, progress, statistics.
//!
//! Everything here is opt-in. The rest of the crate is a library, which reads no command line,
//! installs no signal handler and never ends the process. An environment made by
//! [`EngineArgs::environment`] or [`Environment::from_args`] turns **application mode** on:
//!
//! - With `--explain`, the first job that is about to run is printed to standard output instead, and the process ends
//!   with status 0.
//! - With `--plan-against DIR`, the first job is [compared](Environment::compare_with) with the newest checkpoint there
//!   instead, and the process ends with status 0, or 1 if the job would be refused.
//! - The first Ctrl-C, or SIGTERM, [drains](crate::JobHandle::drain) a job with an unbounded input: its sources stop,
//!   what they have read is processed, its sinks publish, and the program goes on as after any job that has
//!   succeeded. A line on standard error says so. The second signal cancels the job. A job with bounded input is
//!   cancelled by the first signal, since half of the input gives another result; an [`iter`](Environment::iter)
//!   counts as bounded.
//! - SIGTERM, which schedulers of clusters send, [suspends](crate::JobHandle::suspend) a job with checkpoints, bounded or not:
//!   it ends with a last checkpoint, from which it goes on when the program is run again. The status is 143, and a line on
//!   standard error names the checkpoint. The second signal cancels the job.
//! - A cancelled job ends with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled) that says why, and leaves
//!   no file under a final name. No further job starts after a signal. A signal after the one that cancels, or while
//!   no job runs, ends the process at once with status 130, or 143 for SIGTERM. A program without application mode
//!   can end its jobs through a [`JobControl`](crate::JobControl).
//! - With `--stats`, the statistics of a job are printed to standard error when it is over.
//! - While a bounded job runs, its progress is shown on a terminal.
//! - A warning on standard error reports stalls of ten seconds (`--stall-after`): windows that receive records and
//!   emit no results, with what holds event time back; a job that waits for the program, that is for the reader of
//!   [`to_channel`](crate::Stream::to_channel), or for records from a sender of [`channel`](Environment::channel)
//!   while nothing else moves; a sender that has filled its channel before the job has started; and a task whose
//!   iterator or closure blocks.
//! - When a job that has dropped late records is over, a warning on standard error says which operator dropped them,
//!   how many, and what to do.
//! - What connectors log as warnings is printed to standard error, as that a broker does not answer, unless the program has installed
//!   a logger before the first job starts. It cannot install one later.
//! - On several hosts (see [`EngineArgs::environment`]) the progress and the statistics are printed by the first one
//!   alone, and standard output is that of the first alone: what other hosts print there is discarded as soon as they
//!   have an environment. Lines that the engine prints to standard error begin with the number of the host, as in
//!   `[1] error: …`. Launchers send
//!   signals to all hosts, and the first that gets one drains, suspends or cancels the job on all of them; so a first signal that
//!   comes to a host when its job is over does not end the process, and only keeps it from starting another job.
//!
//! Settings come from the defaults, from a TOML file, from variables named `THALWEG_…`, and from the command line;
//! each of these overrides the ones before it. The file is named by `--config` or `THALWEG_CONFIG`; else it is
//! `thalweg.toml` in the working directory, if it exists. Its keys are the flags' names:
//!
//! ```toml
//! cores = 4
//! scheduler = "work-stealing"
//! batch = "adaptive:512"
//! memory = "2GiB"
//! ```

mod application;
mod args;
mod exit;
mod hosts;
mod interrupt;
mod logging;
mod progress;

pub use args::EngineArgs;
pub use exit::run;

#[cfg(doc)]
use crate::Environment;
