//! Jobs between topics of a real broker. This program starts itself, as the jobs that it kills.
//!
//! `THALWEG_KAFKA_JARS` names the folder with the broker's jars. Without it there is nothing to test; `cargo xtask test --step
//! kafka` gets them, and sets it.

#[cfg(feature = "avro")]
mod avro;
mod broker;
#[cfg(feature = "tls")]
mod encrypted;
mod faults;
mod folders;
mod formats;
mod hosts;
mod killed;
mod kills;
mod letters;
mod logs;
mod open;
mod reading;
#[cfg(feature = "avro")]
mod registry;
mod rights;
#[cfg(feature = "avro")]
mod schemas;
mod superseded;
#[cfg(feature = "tls")]
mod tokens;
mod waiting;
mod writing;

use broker::{Broker, run_tests};
use std::path::PathBuf;
use std::process::ExitCode;

/// A test. It panics when it fails.
type Test = (&'static str, fn(&mut Broker));

fn main() -> ExitCode {
    if std::env::var_os(killed::JOB).is_some() {
        return killed::job();
    }
    let Some(jars) = std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from) else {
        println!("there is no broker: `cargo xtask test --step kafka` gets one");
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    #[cfg(feature = "tls")]
    let mut broker = encrypted::broker(&jars);
    #[cfg(not(feature = "tls"))]
    let mut broker = Broker::start(&jars);
    let tests = [
        reading::TESTS,
        formats::TESTS,
        writing::TESTS,
        open::TESTS,
        rights::TESTS,
        faults::TESTS,
        waiting::TESTS,
        letters::TESTS,
        #[cfg(feature = "tls")]
        encrypted::TESTS,
        #[cfg(feature = "tls")]
        tokens::TESTS,
        kills::TESTS,
        killed::TESTS,
        superseded::TESTS,
        hosts::TESTS,
        #[cfg(feature = "avro")]
        avro::TESTS,
        #[cfg(feature = "avro")]
        schemas::TESTS,
    ];
    let tests = tests.concat();
    run_tests(tests, |test: fn(&mut Broker)| {
        broker.revive();
        test(&mut broker);
    })
}
