//! Finds the centres of clusters of points: Lloyd's algorithm, as a loop that sees the same points in each
//! round.

use clap::Parser;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::config::Config;
use thalweg::io::Csv;
use thalweg::{Environment, Error, ErrorKind, Result, cli};
use thalweg_examples::queries::learning::{Point, kmeans};
use thalweg_examples::{OutputArgs, output, print_rows};

/// Find the centres of K clusters of points, in CSV files of two columns without a header.
///
/// The first K points are where the centres start. In each round, a centre moves to the mean of the points that
/// are nearest to it; when none moves, that is it.
#[derive(Parser)]
struct Args {
    /// What to read.
    #[arg(required = true)]
    points: Vec<PathBuf>,
    /// How many clusters there are.
    #[arg(long, default_value_t = 8)]
    k: usize,
    /// The most rounds.
    #[arg(long, default_value_t = 30)]
    iterations: u64,
    /// Print x and y of the centres, and nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(find)
}

fn find() -> Result<()> {
    let Args { points, k, iterations, tsv, sink, engine } = Args::parse();
    let rows = |env: &Environment| {
        let csv = Csv::new(points.clone()).has_header(false).trim(true).one_line_rows(true);
        env.csv::<(f64, f64)>(csv).map(|(x, y)| Point { x, y })
    };

    // One task reads in order.
    let mut one = Config::default();
    one.cores = NonZero::<usize>::MIN;
    let first = Environment::with_config(one);
    let start = rows(&first).limit(k as u64).collect::<Vec<_>>();
    first.run()?;
    let start = start.take()?;
    if start.len() < k || k == 0 {
        let what = format!("{k} clusters of {} points", start.len());
        return Err(Error::new(ErrorKind::Config, what));
    }

    let env = engine.environment()?;
    let out = kmeans(rows(&env), start, iterations);
    if let Some(dir) = sink.dir() {
        let centres = out.flat_map(|outcome| outcome.state);
        centres.map(|centre| format!("{}\t{}", centre.x, centre.y)).write_lines_parallel(dir);
        return env.run();
    }
    let out = out.collect::<Vec<_>>();
    env.run()?;
    for outcome in out.take()? {
        if !tsv {
            println!("{} rounds ({:?})", outcome.rounds, outcome.ended);
        }
        print_rows(outcome.state.into_iter().map(|centre| (centre.x, centre.y))).map_err(output)?;
    }
    Ok(())
}
