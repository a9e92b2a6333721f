//! The Arcon thesis's pipeline: one source, a root in the task that owns the key, one sink.

use crate::kept::Kept;
use bench_protocol::digest::Digest;
use bench_protocol::workload::{Split, newton_sqrt, read_items};
use bench_protocol::{Answer, Request, Result, serve};
use std::num::NonZeroUsize;
use std::sync::Arc;
use thalweg::config::{Config, Scheduler};
use thalweg::{Data, Environment};

/// Ids are below this; a key is an id plus a multiple of it.
const IDS: u64 = 64;

pub(crate) fn serve_skew(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let iterations: u32 = request.value("iterations")?;
    let base: usize = request.value("base")?;
    let split = Split::parse(request.get("split").unwrap_or("even"))?;
    let keys: Vec<u64> = (0..IDS as u32).map(|id| key(id, split, base)).collect();
    let items = read_items(request.data()?)?;
    let items: Arc<[(u64, u32)]> =
        items.iter().map(|item| (keys[item.id as usize], item.number)).collect();
    let records = items.len() as u64;
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| -> thalweg::Result<Digest> {
            let items = Arc::clone(&items);
            let kept = Kept::<Digest>::new();
            let mut part = kept.part();
            let seen = env
                .iter((0..items.len()).map(move |at| items[at]))
                .keyed()
                .repartition()
                .map(move |_, number| newton_sqrt(number, iterations))
                .unkey()
                .parallelism(1)
                .map_volatile(move |(key, root): (u64, f64)| {
                    let part = &mut part;
                    part.own.add_number(key % IDS, root.to_bits());
                })
                .count()
                .collect_one();
            env.run()?;
            seen.take()?;
            Ok(kept.take())
        })?;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

/// A key for an id that belongs to the partition which the split names, of `base` partitions.
fn key(id: u32, split: Split, base: usize) -> u64 {
    let wanted = if id == 0 { 0 } else { split.partition(id, base) };
    let owner = |key: &u64| ((u128::from(key.key_hash()) * base as u128) >> 64) as usize;
    (0..).map(|n| u64::from(id) + n * IDS).find(|key| owner(key) == wanted).unwrap_or(0)
}

/// An environment with the requested scheduler, and as many tasks for the keys.
fn environment(request: &Request) -> Result<Environment> {
    let mut config = Config::default();
    config.cores = request.cores()?.try_into()?;
    let partitions: usize = request.value("partitions")?;
    if !partitions.is_multiple_of(config.cores.get()) {
        return Err("--partitions must be a multiple of the cores".into());
    }
    config.keyed_tasks_per_core = NonZeroUsize::try_from(partitions / config.cores)?;
    config.scheduler = match request.get("scheduler").unwrap_or("work-stealing") {
        "work-stealing" => Scheduler::WorkStealing,
        "thread-per-task" => Scheduler::ThreadPerTask,
        other => return Err(format!("there is no scheduler {other:?}").into()),
    };
    Ok(Environment::with_config(config))
}
