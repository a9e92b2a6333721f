//! The search for the rate of events that a program sustains, by the latency of its results, as in the AIR
//! paper.

use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg::cli::run(|| thalweg_sustain::run(thalweg_sustain::Args::read()))
}
