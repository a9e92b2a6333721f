//! What surrounds a job that a person runs: arguments, signals, progress, statistics.
//!
//! Everything here is opt-in. The rest of the crate is a library, which reads no command line,
//! installs no signal handler and never ends the process. An environment made by
//! [`EngineArgs::environment`] or [`Environment::from_args`] turns **application mode** on:
//!
//! - With `--explain`, the first job that is about to run is printed to standard output instead,
//!   and the process ends with status 0.
//! - The first Ctrl-C, or SIGTERM, [drains](crate::JobHandle::drain) a job with an input that does not end: its sources
//!   stop, what they have read is worked through, its sinks publish, and the program goes on as after any job
//!   that has ended well. A line on standard error says so. The second signal cancels the job. A job whose input
//!   ends is cancelled by the first one, since half of the input gives another result; an
//!   [`iter`](Environment::iter) counts as one that ends.
//! - A job that is cancelled ends with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled) that says why, and
//!   leaves no file under a final name. No further job starts after a signal. A signal after the one that cancels, or
//!   while no job runs, ends the process at once with status 130, or 143 for SIGTERM. A program without
//!   application mode does the same by a [`JobControl`](crate::JobControl).
//! - With `--stats`, what a job counted is printed to standard error when it is over.
//! - While a bounded job runs, a terminal shows how far it is.
//! - Windows that get records and give no results for ten seconds (`--stall-after`) are spoken of on
//!   standard error, with what holds event time back. So is, after the same time, a job that waits for the program:
//!   for the reader of [`to_channel`](crate::Stream::to_channel), or for records from a sender of
//!   [`channel`](Environment::channel) while nothing else moves; and a sender that has filled its channel before
//!   the job has started, and a task whose iterator or closure blocks.
//! - A job that has dropped late records says so on standard error when it is over: which operator, how many, and
//!   what to do.
//!
//! Settings come, each over the one before, from the defaults, from a TOML file, from variables
//! named `THALWEG_…`, and from the command line. The file is named by `--config` or
//! `THALWEG_CONFIG`; else it is `thalweg.toml` in the working directory, if there is one. Its keys
//! are the flags' names:
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
mod interrupt;
mod progress;

pub use args::EngineArgs;
pub use exit::run;

#[cfg(doc)]
use crate::Environment;
