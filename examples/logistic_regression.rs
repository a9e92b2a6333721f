//! Learns which of two kinds a point is of: logistic regression by gradient descent, as a loop that sees the same
//! points in each round.

use clap::Parser;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::io::Csv;
use thalweg::{Result, cli};
use thalweg_examples::queries::learning::{Point, Weights, logistic_regression};
use thalweg_examples::{OutputArgs, output, positive, print_rows};

/// Learn from points of two kinds to tell which one a point is of, by a line between them.
///
/// The points are rows of CSV files without a header: x, y, and 0 or 1. What is learned is three weights: a point is
/// likely to be of kind 1 where weight of x times x, weight of y times y and the bias add up to more than nothing.
/// They begin at nothing; each round goes a step against the gradient of the loss over all points.
#[derive(Parser)]
struct Args {
    /// What to read.
    #[arg(required = true)]
    points: Vec<PathBuf>,
    /// How many rounds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// How far a step goes.
    #[arg(long, default_value_t = 0.5, value_parser = positive)]
    rate: f64,
    /// Print the weights of x and y and the bias, and nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Deserialize)]
enum Kind {
    #[serde(rename = "0")]
    Other,
    #[serde(rename = "1")]
    First,
}

fn main() -> ExitCode {
    cli::run(learn)
}

fn learn() -> Result<()> {
    let Args { points, iterations, rate, tsv, sink, engine } = Args::parse();
    let env = engine.environment()?;
    let csv = Csv::new(points).has_header(false).trim(true).one_line_rows(true);
    let points = env
        .csv::<(f64, f64, Kind)>(csv)
        .map(|(x, y, kind)| (Point { x, y }, matches!(kind, Kind::First)));
    let out = logistic_regression(points, iterations, rate);
    if let Some(dir) = sink.dir() {
        let lines = out.flat_map(|outcome| {
            named(outcome.state).map(|(name, weight)| format!("{name}\t{weight}"))
        });
        lines.write_lines_parallel(dir);
        return env.run();
    }
    let out = out.collect::<Vec<_>>();
    env.run()?;
    for outcome in out.take()? {
        if !tsv {
            println!("{} rounds", outcome.rounds);
        }
        print_rows(named(outcome.state)).map_err(output)?;
    }
    Ok(())
}

/// The weights and their names.
fn named(weights: Weights) -> [(&'static str, f64); 3] {
    [("x", weights.x), ("y", weights.y), ("bias", weights.bias)]
}
