//! `cargo xtask long`: the randomised tests, at a size that takes hours.
//!
//! The test command runs a sample of the same cases. A part that fails does not stop the others.

use crate::built::Build;
use crate::fuzz::{self, Amount};
use crate::process::{Totals, cargo, run_tests};
use crate::{hosts, inputs, kafka, killed, objects};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::time::Instant;

/// Run the randomised tests at length: hours
///
/// All hostile programs, thousands of generated jobs, every `check` with many seeds, the fuzz targets, one job with checkpoints
/// for minutes, example programs with checkpoints whose processes are killed hundreds of times, jobs that are killed with their
/// checkpoints in an object store, and jobs between topics of Kafka that are killed, or their hosts, or their broker, hundreds of
/// times.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask long                        everything
  cargo xtask long --part generated --jobs 100000 --seed 7
  cargo xtask long --part fuzz --executions 1000000
  cargo xtask long --part soak --seconds 1800
  cargo xtask long --part killed --kills 500 --kill-seed 7
  cargo xtask long --part kafka --kills 50 --kafka-seed 7")]
pub(crate) struct Arguments {
    /// Only this part; may be given several times
    #[arg(long, value_enum)]
    part: Vec<Part>,

    /// Generated jobs
    #[arg(long, default_value_t = 20_000)]
    jobs: u64,

    /// The seed of the first generated job; another seed generates other jobs
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,

    /// Seeds of every `check`, and more random cases and histories of other unit tests in proportion
    #[arg(long, default_value_t = 100)]
    seeds: u64,

    /// Inputs over all fuzz targets
    #[arg(long, default_value_t = 100_000_000)]
    executions: u64,

    /// How long the one job with checkpoints runs
    #[arg(long, default_value_t = 180)]
    seconds: u64,

    /// Kills of each example program with checkpoints, and in each test of Kafka
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,

    /// The seed of when and how example programs are killed, as an earlier run has printed it; a random one by default
    #[arg(long)]
    kill_seed: Option<u64>,

    /// The seed of the times between kills, as an earlier run has printed it; a random one by default
    #[arg(long)]
    kafka_seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Hostile,
    Generated,
    Check,
    Fuzz,
    Soak,
    Killed,
    Objects,
    Kafka,
}

/// Runs the selected parts.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut failed = Vec::new();
    for part in [
        Part::Hostile,
        Part::Generated,
        Part::Check,
        Part::Fuzz,
        Part::Soak,
        Part::Killed,
        Part::Objects,
        Part::Kafka,
    ] {
        if !arguments.part.is_empty() && !arguments.part.contains(&part) {
            continue;
        }
        println!("\n=== {part:?}");
        let start = Instant::now();
        let result = run_part(part, arguments);
        let verdict = match &result {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        println!("--- {part:?}: {verdict} ({:.0} s)", start.elapsed().as_secs_f64());
        if result.is_err() {
            failed.push(format!("{part:?}"));
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run_part(part: Part, arguments: &Arguments) -> Result<()> {
    let Arguments { jobs, seed, seeds, executions, seconds, kills, .. } = arguments;
    match part {
        Part::Hostile => tests(&["--test", "hostile"], &[("THALWEG_HOSTILE", "all".to_owned())]),
        Part::Generated => tests(
            &["--test", "generated"],
            &[
                ("THALWEG_GENERATED_JOBS", jobs.to_string()),
                ("THALWEG_GENERATED_SEED", seed.to_string()),
            ],
        ),
        Part::Check => {
            tests(&["--lib", "--test", "*"], &[("THALWEG_CHECK_SEEDS", seeds.to_string())])
        }
        Part::Fuzz => fuzz::run_targets(None, &Amount::Executions(*executions)),
        Part::Soak => hosts::soak(*seconds),
        Part::Killed => {
            let seed = arguments.kill_seed.unwrap_or_else(inputs::seed);
            let mut totals = Totals::default();
            killed::check(Build::Optimised, *kills, seed, &mut totals)?;
            some_ran(&totals)
        }
        Part::Objects => {
            let mut totals = Totals::default();
            objects::long(&mut totals)?;
            some_ran(&totals)
        }
        Part::Kafka => {
            let seed = arguments.kafka_seed.unwrap_or_else(inputs::seed);
            let mut totals = Totals::default();
            kafka::kill(*kills, seed, &mut totals).with_context(|| {
                format!("the times are those of `--kills {kills} --kafka-seed {seed}`")
            })?;
            some_ran(&totals)
        }
    }
}

/// Runs tests of the engine, with their output as they run.
fn tests(which: &[&str], variables: &[(&str, String)]) -> Result<()> {
    let mut command = cargo(["test", "-p", "thalweg", "--no-fail-fast"]);
    command.args(which).args(["--", "--nocapture"]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut totals = Totals::default();
    run_tests(&mut command, &mut totals)?;
    some_ran(&totals)
}

fn some_ran(totals: &Totals) -> Result<()> {
    if totals.ran() == 0 {
        bail!("no test ran, although there should be some");
    }
    Ok(())
}
