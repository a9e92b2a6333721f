//! AIR's form of the Yahoo benchmark: clicks and views by campaign and window, joined to a ratio.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::queries::{self, ysb};
use thalweg_workloads::ysb::oracle::STAR;
use thalweg_workloads::ysb::{Campaigns, FixedSegments, recipe};

/// Join the clicks on every campaign's advertisements with their views, in windows of ten seconds.
#[derive(Parser)]
struct Args {
    /// How many events, made from the seed before the job begins.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// What the events are drawn from.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print every row, and nothing else; otherwise how many there are, and their digest.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(query)
}

fn query() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let segments = FixedSegments::generate(recipe(args.seed), args.events);
    let rows = ysb::ysb_star(ysb::events(&env, &segments), &Campaigns::new(args.seed), STAR);
    queries::run(&env, rows, args.tsv)
}
