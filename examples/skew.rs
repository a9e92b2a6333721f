//! Work that is spread unevenly: the pipeline of the Arcon thesis. One source, a square root in the
//! task that owns the record's key, one sink; with as many partitions as threads or more, and with
//! each scheduler.

use clap::Parser;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;
use thalweg::config::Scheduler;
use thalweg::{Data, Environment, Error, ErrorKind, Result, cli};
use thalweg_examples::{output, print_table, refuse_checkpoints};

/// Take square roots by key, where some keys have more records than others.
///
/// The scheduler and the number of keyed tasks are what is compared: `--scheduler` and
/// `--keyed-tasks` change nothing here. Each job runs from its beginning to its end: `--checkpoint` is refused.
#[derive(Parser)]
struct Args {
    /// How many items.
    #[arg(long, default_value_t = 10_000_000)]
    items: u64,
    /// How many steps of Newton's method make a root: the load.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 500, 1000])]
    iterations: Vec<u32>,
    /// Partitions, for each of which there is a task: multiples of the threads (`--cores`). By
    /// default as many as threads, and four times as many.
    #[arg(long, value_delimiter = ',', value_name = "P")]
    partitions: Vec<usize>,
    /// Only the splits with these names: `even`, `skewed`, `thesis-uniform`, `thesis-skewed`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    splits: Vec<String>,
    /// Print rows of split, iterations, scheduler, partitions, items and the sum of the roots, and
    /// nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

/// A name, and the per mille of the items in each of as many partitions as there are shares.
pub(crate) const SPLITS: [(&str, &[u64]); 4] = [
    ("even", &[500, 500]),
    ("skewed", &[750, 250]),
    ("thesis-uniform", &[246, 295, 213, 246]),
    ("thesis-skewed", &[513, 197, 66, 224]),
];

const SCHEDULERS: [Scheduler; 2] = [Scheduler::ThreadPerTask, Scheduler::WorkStealing];

fn main() -> ExitCode {
    cli::run(compare)
}

fn compare() -> Result<()> {
    let args = Args::parse();
    let config = args.engine.to_config()?;
    refuse_checkpoints(&config)?;
    let threads = config.cores.get();
    let partitions =
        if args.partitions.is_empty() { vec![threads, 4 * threads] } else { args.partitions };
    if let Some(uneven) = partitions.iter().find(|&&p| p == 0 || !p.is_multiple_of(threads)) {
        return Err(wrong(format!("{uneven} partitions are no multiple of {threads} threads")));
    }
    if let Some(name) = args.splits.iter().find(|&name| SPLITS.iter().all(|split| split.0 != name))
    {
        return Err(wrong(format!("there is no split `{name}`")));
    }
    let wanted = |name: &str| args.splits.is_empty() || args.splits.iter().any(|one| one == name);

    let mut rows = Vec::new();
    for (name, shares) in SPLITS.into_iter().filter(|split| wanted(split.0)) {
        for &iterations in &args.iterations {
            let mut first = None;
            for (scheduler, &partitions) in
                SCHEDULERS.iter().flat_map(|it| partitions.iter().map(move |p| (it, p)))
            {
                let env = args.engine.environment_with(|config| {
                    config.scheduler = *scheduler;
                    config.keyed_tasks_per_core =
                        NonZeroUsize::new(partitions / threads).unwrap_or(NonZeroUsize::MIN);
                })?;
                let start = Instant::now();
                let sum = roots(&env, args.items, items(shares), iterations)?;
                let rate = args.items as f64 / start.elapsed().as_secs_f64();
                let ratio = rate / *first.get_or_insert(rate);
                rows.push(Row {
                    name,
                    iterations,
                    scheduler: *scheduler,
                    partitions,
                    rate,
                    ratio,
                    sum,
                });
            }
        }
    }
    print(args.tsv, args.items, threads, &rows).map_err(output)
}

/// The pipeline: the sum of all roots.
pub(crate) fn roots(
    env: &Environment,
    count: u64,
    item: impl Fn(u64) -> (u64, u32) + Send + 'static,
    iterations: u32,
) -> Result<f64> {
    let sum = env
        .iter((0..count).map(item))
        .keyed()
        .repartition()
        .map(move |_id, number| newton_sqrt(number, iterations))
        .unkey()
        .fold(0.0, |sum, (_id, root)| *sum += root)
        .collect::<Vec<_>>();
    env.run()?;
    Ok(sum.take()?.into_iter().sum())
}

fn newton_sqrt(square: u32, iterations: u32) -> f64 {
    let target = f64::from(square);
    let mut guess = target;
    for _ in 0..iterations {
        guess -= (guess * guess - target) / (guess * 2.0);
    }
    guess
}

/// Makes items of an id from 1 to 50 and a number from 1 to 100. The ids that belong to a partition
/// get its share of the items.
pub(crate) fn items(shares: &'static [u64]) -> impl Fn(u64) -> (u64, u32) + Send + 'static {
    let owner = |id: &u64| ((u128::from(id.key_hash()) * shares.len() as u128) >> 64) as usize;
    let mut ids = vec![Vec::new(); shares.len()];
    for id in 1..=50u64 {
        ids[owner(&id)].push(id);
    }
    move |n| {
        let drawn = thalweg::data::hash_u64(n);
        let mut at = drawn % 1000;
        let mut of = 0;
        while of + 1 < shares.len() && at >= shares[of] {
            at -= shares[of];
            of += 1;
        }
        let ids = &ids[of];
        (ids[(drawn >> 16) as usize % ids.len()], (drawn >> 32) as u32 % 100 + 1)
    }
}

struct Row {
    name: &'static str,
    iterations: u32,
    scheduler: Scheduler,
    partitions: usize,
    rate: f64,
    ratio: f64,
    sum: f64,
}

fn print(tsv: bool, items: u64, threads: usize, rows: &[Row]) -> std::io::Result<()> {
    let named = |row: &Row| {
        [
            row.name.to_owned(),
            row.iterations.to_string(),
            row.scheduler.to_string(),
            row.partitions.to_string(),
        ]
    };
    if tsv {
        let row = |row: &Row| {
            let [name, iterations, scheduler, partitions] = named(row);
            [name, iterations, scheduler, partitions, items.to_string(), format!("{:.3}", row.sum)]
        };
        return print_table(true, [""; 6], &rows.iter().map(row).collect::<Vec<_>>());
    }
    let row = |row: &Row| {
        let [name, iterations, scheduler, partitions] = named(row);
        let rate = format!("{:.2}", row.rate / 1e6);
        [
            name,
            iterations,
            scheduler,
            partitions,
            threads.to_string(),
            rate,
            format!("{:.2}", row.ratio),
        ]
    };
    let titles = ["split", "iterations", "scheduler", "p", "t", "M items/s", "over the first"];
    print_table(false, titles, &rows.iter().map(row).collect::<Vec<_>>())
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Config, what)
}
