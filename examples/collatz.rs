//! Which number below a limit takes the most steps of the Collatz sequence to reach 1.

use clap::Parser;
use std::process::ExitCode;
use thalweg::{Chain, Environment, Result, Stream, cli};
use thalweg_examples::OutputArgs;

/// Find the number n, 1 <= n < LIMIT, with the most Collatz steps; the smallest on ties.
#[derive(Parser)]
struct Args {
    /// Numbers below this one are tried.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..))]
    limit: u64,
    /// Print the result row `n<TAB>steps`, and nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(search)
}

fn search() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let longest = longest(&env, args.limit);
    if let Some(dir) = args.sink.dir() {
        longest.map(|(n, steps)| format!("{n}\t{steps}")).write_lines_parallel(dir);
        return env.run();
    }
    let longest = longest.collect::<Vec<_>>();
    env.run()?;
    for (n, steps) in longest.take()? {
        if args.tsv {
            println!("{n}\t{steps}");
        } else {
            println!("{n} takes {steps} steps");
        }
    }
    Ok(())
}

/// The number below the limit with the most steps, and how many.
pub(crate) fn longest(
    env: &Environment,
    limit: u64,
) -> Stream<impl Chain<Item = (u64, u32), Time = ()> + use<>> {
    env.range(1..limit)
        .map(|n| (n, steps(n)))
        .reduce(|a, b| if (b.1, a.0) > (a.1, b.0) { b } else { a })
}

fn steps(start: u64) -> u32 {
    let (mut n, mut steps) = (u128::from(start), 0);
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}
