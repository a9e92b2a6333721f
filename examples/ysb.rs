//! The Yahoo streaming benchmark: views of advertisements by campaign and window of ten seconds.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::queries::ysb;
use thalweg_examples::{Form, Seen};
use thalweg_workloads::ysb::{Campaigns, FixedSegments, VariableSegments, recipe};

/// Count the views of every campaign in windows of ten seconds.
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
    let campaigns = Campaigns::new(given.seed);
    match form {
        Form::Fixed => {
            let segments = FixedSegments::generate(recipe, given.events);
            let events = ysb::events(&env, &segments);
            given.run(&env, ysb::ysb(events, &campaigns))
        }
        Form::Variable => {
            let segments = VariableSegments::generate(recipe, given.events);
            let events = ysb::text_events(&env, &segments);
            given.run(&env, ysb::ysb(events, &campaigns))
        }
    }
}
