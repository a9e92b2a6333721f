//! The skew bench in the classic model, by hand: a source thread, a thread for each partition, a
//! sink thread, and bounded channels of batches between them. Case: `skew`
//! (`--split even|skewed --iterations N --partitions P`).

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bench_protocol::digest::Digest;
use bench_protocol::workload::{Item, Split, newton_sqrt, read_items};
use bench_protocol::{Answer, Request, Result};

/// Items in a batch, and batches in a channel.
const BATCH: usize = 1024;
const DEPTH: usize = 16;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "skew" => serve(request),
        _ => request.unknown(),
    })
}

fn serve(request: &Request) -> Result<()> {
    let partitions = request.value_or("partitions", request.cores()?)?;
    if partitions == 0 {
        return Err("--partitions must be above zero".into());
    }
    let split = Split::parse(request.get("split").unwrap_or("even"))?;
    let iterations: u32 = request.value("iterations")?;
    let items = read_items(request.data()?)?;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| pipeline(&items, split, partitions, iterations))?;
        let records = items.len() as u64;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

fn pipeline(items: &[Item], split: Split, partitions: usize, iterations: u32) -> Result<Digest> {
    std::thread::scope(|scope| {
        let (to_sink, from_maps) = sync_channel::<Vec<(u32, f64)>>(DEPTH);
        let mut to_maps = Vec::new();
        for _ in 0..partitions {
            let (sender, receiver) = sync_channel::<Vec<Item>>(DEPTH);
            to_maps.push(sender);
            let to_sink = to_sink.clone();
            scope.spawn(move || map(&receiver, &to_sink, iterations));
        }
        drop(to_sink);
        scope.spawn(move || source(items, split, &to_maps));
        let sink = scope.spawn(move || {
            let mut digest = Digest::default();
            for (id, root) in from_maps.into_iter().flatten() {
                digest.add_number(u64::from(id), root.to_bits());
            }
            digest
        });
        sink.join().map_err(|_| "the sink panicked".into())
    })
}

/// A thread that cannot send any more has lost its receiver to a panic, which the scope reports.
fn source(items: &[Item], split: Split, to_maps: &[SyncSender<Vec<Item>>]) {
    let empty = || Vec::with_capacity(BATCH);
    let mut batches: Vec<Vec<Item>> = to_maps.iter().map(|_| empty()).collect();
    for item in items {
        let to = split.partition(item.id, to_maps.len());
        batches[to].push(*item);
        if batches[to].len() == BATCH
            && to_maps[to].send(std::mem::replace(&mut batches[to], empty())).is_err()
        {
            return;
        }
    }
    for (to, batch) in to_maps.iter().zip(batches) {
        if to.send(batch).is_err() {
            return;
        }
    }
}

fn map(items: &Receiver<Vec<Item>>, to_sink: &SyncSender<Vec<(u32, f64)>>, iterations: u32) {
    for batch in items {
        let roots = batch.iter().map(|item| (item.id, newton_sqrt(item.number, iterations)));
        if to_sink.send(roots.collect()).is_err() {
            return;
        }
    }
}
