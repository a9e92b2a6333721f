//! Checkpoints in an object store: jobs, and `thalweg checkpoint`, with a server that speaks S3 over HTTP. This program starts
//! itself, as the jobs that it kills.
//!
//! `THALWEG_TEST_OBJECT_SERVER` names the program of the server. Without it there is nothing to test; `cargo xtask test --step
//! objects` gets it, and sets it.

mod commands;
mod job;
mod outages;
mod refused;
mod server;

use server::{Server, run_tests};
use std::path::PathBuf;
use std::process::ExitCode;

/// A test. It panics when it fails.
type Test = (&'static str, fn(&Server));

fn main() -> ExitCode {
    if std::env::var_os(job::JOB).is_some() {
        return job::run();
    }
    let Some(program) = std::env::var_os("THALWEG_TEST_OBJECT_SERVER").map(PathBuf::from) else {
        println!("there is no server: `cargo xtask test --step objects` gets one");
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    let server = Server::start(&program, false);
    let tests = [commands::TESTS, outages::TESTS, refused::TESTS].concat();
    run_tests(tests, |test: fn(&Server)| test(&server))
}
