//! How rounds are requested from a benchmark program, and how it answers.
//!
//! Every contestant (our engine's programs, the peers, the bounds) is a process of its own that
//! speaks this protocol, so that one harness can alternate their rounds:
//!
//! 1. It is started as `PROGRAM CASE --name value ...` ([`Request`]), prepares what is not to be
//!    timed, and prints `{"ready":true}`.
//! 2. For each line `go` on standard input it does the work once and prints one line of JSON with
//!    the seconds, the digest of the answer, and the records and bytes it went through
//!    ([`serve`]).
//! 3. At the end of its input it leaves.
//!
//! With `--hosts` it is several processes, of which the harness is connected to the first alone ([`serve_parts`]).
//!
//! The crate has no dependency, so that no contestant gets one from it. Work that several
//! contestants must do alike (the records of an exchange, a Newton step) is in [`workload`], what
//! concerns graphs in [`graphs`], and the digest by which answers are compared in [`digest`].

pub mod collisions;
pub mod digest;
pub mod graphs;
pub mod histogram;
mod hosts;
pub mod open_loop;
pub mod points;
mod request;
mod serve;
pub mod workload;

pub use hosts::Part;
pub use request::Request;
pub use serve::{Answer, Stopwatch, serve, serve_parts};

/// What a benchmark program returns when it cannot do its work.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs a contestant's `main`: reads the request, dispatches, and reports an error on standard
/// error with exit code 1.
pub fn run(program: impl FnOnce(&Request) -> Result<()>) -> std::process::ExitCode {
    let request = Request::from_args(std::env::args().skip(1)).and_then(Request::with_others);
    match request.and_then(|request| program(&request)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
