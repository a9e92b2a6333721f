//! A sliding window aggregation: the events of the Yahoo benchmark by window of ten seconds.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::queries::ysb;
use thalweg_examples::{Form, Seen};
use thalweg_workloads::ysb::{FixedSegments, VariableSegments, recipe};

/// Count all events in windows of ten seconds.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    seen: Seen,
}

fn main() -> ExitCode {
    cli::run(query)
}

fn query() -> Result<()> {
    let Seen { form, given } = Args::parse().seen;
    let (env, recipe) = (given.engine.environment()?, recipe(given.seed));
    match form {
        Form::Fixed => {
            let segments = FixedSegments::generate(recipe, given.events);
            let events = ysb::events(&env, &segments);
            given.run(&env, ysb::swa(events))
        }
        Form::Variable => {
            let segments = VariableSegments::generate(recipe, given.events);
            let events = ysb::text_events(&env, &segments);
            given.run(&env, ysb::swa(events))
        }
    }
}
