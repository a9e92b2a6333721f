//! What needs an end, on a stream that has none; what needs more memory than there is.

use super::Broken;
use std::num::NonZeroUsize;
use thalweg::config::{Config, StateBackend};
use thalweg::{Environment, ErrorKind, Result};

pub(super) const ALL: &[Broken] = &[
    Broken::new("sort-without-end", sort_without_end),
    Broken::new("fold-without-end", fold_without_end),
    Broken::new("count-of-keys-without-end", count_of_keys_without_end),
    Broken::new("collect-without-end", collect_without_end),
    Broken::new("more-distinct-records-than-memory", more_distinct_records_than_memory),
    Broken::new("result-of-a-job-that-failed", result_of_a_job_that_failed),
    Broken::new("result-before-the-job", result_before_the_job),
];

/// Numbers at a rate, for ever.
fn ticks(env: &Environment) -> thalweg::Stream<impl thalweg::Chain<Item = u64> + use<>> {
    env.generate(1000.0, Some)
}

fn sort_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    ticks(&env).sorted().for_each(|_| ());
    env.run()
}

fn fold_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    ticks(&env).fold(0, |sum, n| *sum += n).name("total").for_each(|_| ());
    env.run()
}

fn count_of_keys_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    ticks(&env).group_by(|n| n % 10).count().unkey().for_each(|_| ());
    env.run()
}

fn collect_without_end() -> Result<()> {
    let env = Environment::from_args()?;
    let all = ticks(&env).collect::<Vec<_>>();
    env.run()?;
    println!("{}", all.take()?.len());
    Ok(())
}

fn more_distinct_records_than_memory() -> Result<()> {
    // One task, so that no other task takes of the memory.
    let mut config = Config::default();
    (config.cores, config.keyed_tasks_per_core) = (NonZeroUsize::MIN, NonZeroUsize::MIN);
    (config.memory, config.state_backend) = (1 << 20, StateBackend::Memory);
    let env = Environment::with_config(config);
    env.generate(f64::INFINITY, Some).unique().for_each(|_| ());
    env.run()
}

fn result_of_a_job_that_failed() -> Result<()> {
    let env = Environment::from_args()?;
    let count = env.range(0..10).map(|n| 10 / (n - 5)).count().collect_one();
    match env.run() {
        Err(error) if error.kind() == ErrorKind::Panic => println!("{}", count.take()?.unwrap()),
        other => other?,
    }
    Ok(())
}

fn result_before_the_job() -> Result<()> {
    let env = Environment::from_args()?;
    let count = env.range(0..10).count().collect_one();
    println!("{}", count.take()?.unwrap());
    env.run()
}
