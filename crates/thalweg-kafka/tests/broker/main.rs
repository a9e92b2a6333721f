//! Jobs between topics of a real broker. This program starts itself, as the jobs that it kills.
//!
//! `THALWEG_KAFKA_JARS` names the folder with the broker's jars. Without it there is nothing to test; `cargo xtask test --step
//! kafka` gets them, and sets it.

mod broker;
mod killed;
mod reading;
mod writing;

use broker::Broker;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

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
    let names: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    let mut broker = Broker::start(&jars);
    for (name, test) in [reading::TESTS, writing::TESTS, killed::TESTS].concat() {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part)) {
            continue;
        }
        let begun = Instant::now();
        let test = std::panic::AssertUnwindSafe(|| test(&mut broker));
        let verdict = match std::panic::catch_unwind(test) {
            Ok(()) => "ok",
            Err(_) => "FAILED",
        };
        let count = if verdict == "ok" { &mut passed } else { &mut failed };
        *count += 1;
        println!("test {name} ... {verdict} ({:.1} s)", begun.elapsed().as_secs_f64());
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}
