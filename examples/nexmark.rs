//! Nexmark: queries over an auction house's persons, auctions and bids.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::queries::{self, nexmark};
use thalweg_workloads::nexmark::{Segments, recipe};

/// Run a query of Nexmark over generated events.
#[derive(Parser)]
struct Args {
    /// Which query, from 0 to 8.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=8))]
    query: u8,
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
    let segments = Segments::generate(recipe(args.seed), args.events);
    let events = nexmark::events(&env, &segments);
    match args.query {
        0 => queries::run(&env, nexmark::q0(events), args.tsv),
        1 => queries::run(&env, nexmark::q1(events), args.tsv),
        2 => queries::run(&env, nexmark::q2(events), args.tsv),
        3 => queries::run(&env, nexmark::q3(events), args.tsv),
        4 => queries::run(&env, nexmark::q4(events), args.tsv),
        6 => queries::run(&env, nexmark::q6(events), args.tsv),
        5 => queries::run(&env, nexmark::q5(events), args.tsv),
        7 => queries::run(&env, nexmark::q7(events), args.tsv),
        _ => queries::run(&env, nexmark::q8(events), args.tsv),
    }
}
