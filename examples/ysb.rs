//! The Yahoo streaming benchmark: views of advertisements by campaign and window of ten seconds.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::Generated;
use thalweg_examples::queries::{self, ysb};
use thalweg_workloads::ysb::{Campaigns, FixedSegments, recipe};

/// Count the views of every campaign in windows of ten seconds.
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
    let views = ysb::ysb(ysb::events(&env, &segments), &Campaigns::new(args.seed));
    queries::run(&env, views, args.tsv)
}
