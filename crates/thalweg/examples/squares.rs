//! Sums squares, in a program with an argument of its own beside the engine's.
//!
//! ```text
//! cargo run --example squares -- --records 1000000 --stats
//! cargo run --example squares -- --explain
//! ```

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::{Result, cli::EngineArgs};

/// Sums the squares of the first numbers, by their last digit.
#[derive(Parser)]
struct Args {
    /// How many numbers
    #[arg(long, default_value_t = 1000)]
    records: u64,
    /// Microseconds to waste on each number
    #[arg(long, default_value_t = 0)]
    waste: u64,
    #[command(flatten)]
    engine: EngineArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    thalweg::cli::run(|| squares(&args))
}

fn squares(args: &Args) -> Result<()> {
    let env = args.engine.environment()?;
    let waste = Duration::from_micros(args.waste);
    let sums = env
        .range(0..args.records)
        .map(move |n| {
            if !waste.is_zero() {
                std::thread::sleep(waste);
            }
            n
        })
        .group_by(|n| n % 10)
        .sum(|n| n * n)
        .collect::<Vec<_>>();
    env.run()?;
    let mut sums = sums.take()?;
    sums.sort_unstable();
    for (digit, sum) in sums {
        println!("{digit}\t{sum}");
    }
    Ok(())
}
