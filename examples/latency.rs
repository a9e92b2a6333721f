//! How batches trade latency for throughput: the study of the RStream paper. One source, a map in
//! many tasks, one sink; a record a millisecond, and as many as the job can take.

use clap::Parser;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg::config::BatchMode;
use thalweg::{Chain, Environment, Result, Stream, cli};
use thalweg_examples::{output, print_table, refuse_checkpoints};

/// Measure the latency from source to sink in each batch mode, and throughput over batch size.
///
/// The batch mode is what is compared: `--batch` changes nothing here. Each job runs from its beginning to its end:
/// `--checkpoint` is refused.
#[derive(Parser)]
struct Args {
    /// Records under light load, one a millisecond.
    #[arg(long, default_value_t = 2_000)]
    light: u64,
    /// Records under heavy load, as fast as they are taken.
    #[arg(long, default_value_t = 5_000_000)]
    heavy: u64,
    /// Sizes of fixed batches whose throughput is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64, 256, 1024, 4096, 16384])]
    sizes: Vec<usize>,
    /// Print rows of load, mode, records, throughput in records a second, and the 50th, 99th,
    /// 99.9th and 100th percentiles of latency in microseconds, and nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

const MODES: [BatchMode; 4] = [
    BatchMode::Adaptive { size: 1024 },
    BatchMode::Fixed { size: 1024 },
    BatchMode::Timed { size: 1024, delay: Duration::from_millis(50) },
    BatchMode::Single,
];

const PERCENTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// Under heavy load one record in so many is timed: to ask the clock for each would be what is
/// measured.
const TIMED: u64 = 64;
const UNTIMED: u64 = u64::MAX;

fn main() -> ExitCode {
    cli::run(study)
}

fn study() -> Result<()> {
    let args = Args::parse();
    refuse_checkpoints(&args.engine.to_config()?)?;
    let env = |mode: BatchMode| args.engine.environment_with(|config| config.batch = mode);
    let mut rows = Vec::new();
    for mode in MODES {
        rows.push(row("light", mode, args.light, light(&env(mode)?, args.light)?));
    }
    let sizes = args.sizes.iter().map(|&size| BatchMode::Fixed { size });
    let sizes: Vec<BatchMode> = sizes.filter(|mode| !MODES.contains(mode)).collect();
    for mode in MODES.into_iter().chain(sizes) {
        let env = env(mode)?;
        // Once for nothing: the threads start, the memory is there.
        heavy(&env, args.heavy / 10)?;
        rows.push(row("heavy", mode, args.heavy, heavy(&env, args.heavy)?));
    }
    let titles = ["load", "mode", "records", "records/s", "p50 us", "p99 us", "p99.9 us", "max us"];
    print_table(args.tsv, titles, &rows).map_err(output)
}

/// When a job began, how long it took, and the latencies that it saw, sorted.
struct Seen {
    took: Duration,
    latencies: Vec<u64>,
}

/// A record a millisecond, by the schedule: one that is late was late from when it was due.
fn light(env: &Environment, records: u64) -> Result<Seen> {
    let start = Arc::new(OnceLock::new());
    let began = Arc::clone(&start);
    let source = env.generate(1000.0, move |n| {
        began.get_or_init(Instant::now);
        (n < records).then_some(n * 1_000_000)
    });
    measure(env, source, start)
}

fn heavy(env: &Environment, records: u64) -> Result<Seen> {
    let start = Arc::new(OnceLock::new());
    let began = Arc::clone(&start);
    let source = env.iter((0..records).map(move |n| {
        let began = began.get_or_init(Instant::now);
        if n % TIMED == 0 { began.elapsed().as_nanos() as u64 } else { UNTIMED }
    }));
    measure(env, source, start)
}

/// Source, parallel map, sink; the records are the times at which they were due.
fn measure(
    env: &Environment,
    source: Stream<impl Chain<Item = u64, Time = ()>>,
    start: Arc<OnceLock<Instant>>,
) -> Result<Seen> {
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&latencies);
    let sink_start = Arc::clone(&start);
    source.shuffle().map(|due| due).for_each(move |due| {
        if due != UNTIMED
            && let Some(start) = sink_start.get()
        {
            let latency = (start.elapsed().as_nanos() as u64).saturating_sub(due);
            list.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
        }
    });
    env.run()?;
    let took = start.get().map(Instant::elapsed).unwrap_or_default();
    let mut latencies =
        std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    latencies.sort_unstable();
    Ok(Seen { took, latencies })
}

fn row(load: &str, mode: BatchMode, records: u64, seen: Seen) -> [String; 8] {
    let rate = records as f64 / seen.took.as_secs_f64();
    let [p50, p99, p999, max] = PERCENTILES.map(|share| {
        let at = (seen.latencies.len() as f64 * share).ceil() as usize;
        let nanos = seen.latencies.get(at.saturating_sub(1)).copied().unwrap_or_default();
        format!("{:.0}", nanos as f64 / 1e3)
    });
    [
        load.to_owned(),
        mode.to_string(),
        records.to_string(),
        format!("{rate:.0}"),
        p50,
        p99,
        p999,
        max,
    ]
}
