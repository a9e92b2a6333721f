//! AIR's form of the Yahoo benchmark: clicks and views by campaign and window, joined to a ratio.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::Generated;
use thalweg_examples::queries::{self, ysb};
use thalweg_workloads::ysb::oracle::STAR;
use thalweg_workloads::ysb::{Campaigns, FixedSegments, recipe};

/// Join the clicks on every campaign's advertisements with their views, in windows of ten seconds.
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
    let rows = ysb::ysb_star(ysb::events(&env, &segments), &Campaigns::new(args.seed), STAR);
    queries::run(&env, rows, args.tsv)
}
