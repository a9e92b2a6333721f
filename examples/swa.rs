//! A sliding window aggregation: the events of the Yahoo benchmark by window of ten seconds.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::Generated;
use thalweg_examples::queries::{self, ysb};
use thalweg_workloads::ysb::{FixedSegments, recipe};

/// Count all events in windows of ten seconds.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    given: Generated,
}

fn main() -> ExitCode {
    cli::run(query)
}

fn query() -> Result<()> {
    let args = Args::parse().given;
    let env = args.engine.environment()?;
    let segments = FixedSegments::generate(recipe(args.seed), args.events);
    let events = ysb::swa(ysb::events(&env, &segments));
    queries::run(&env, events, args.tsv)
}
