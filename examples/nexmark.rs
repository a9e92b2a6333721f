//! Nexmark: queries over an auction house's persons, auctions and bids.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Result, cli};
use thalweg_examples::Generated;
use thalweg_examples::queries::nexmark;
use thalweg_workloads::nexmark::{Segments, recipe};

/// Run a query of Nexmark over generated events.
#[derive(Parser)]
struct Args {
    /// Which query, from 0 to 8.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=8))]
    query: u8,
    #[command(flatten)]
    given: Generated,
}

fn main() -> ExitCode {
    cli::run(query)
}

fn query() -> Result<()> {
    let Args { query, given: args } = Args::parse();
    let env = args.engine.environment()?;
    let segments = Segments::generate(recipe(args.seed), args.events);
    let events = nexmark::events(&env, &segments);
    match query {
        0 => args.run(&env, nexmark::q0(events)),
        1 => args.run(&env, nexmark::q1(events)),
        2 => args.run(&env, nexmark::q2(events)),
        3 => args.run(&env, nexmark::q3(events)),
        4 => args.run(&env, nexmark::q4(events)),
        5 => args.run(&env, nexmark::q5(events)),
        6 => args.run(&env, nexmark::q6(events)),
        7 => args.run(&env, nexmark::q7(events)),
        _ => args.run(&env, nexmark::q8(events)),
    }
}
