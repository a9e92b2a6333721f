//! Sums and maxima of keys in sliding windows of event time.

use bench_protocol::{Request, Result};
use renoir::operator::window::EventTimeWindow;
use renoir::prelude::*;
use thalweg_workloads::SECOND;
use thalweg_workloads::readings::{Reading, Readings, RowReadings};
use thalweg_workloads::windows::Windows;

use crate::streams::{SEED, Sink, answer, digest_of, slide_by_slide, with_start};
use crate::{batches, context, cores};

/// Readings that a source takes at a time.
const CHUNK: u64 = 1 << 16;

/// Up to so many keys each has readings in every slide.
const FEW: u64 = 1000;

pub(crate) fn serve(request: &Request) -> Result<()> {
    match request.get("form").unwrap_or("sum") {
        "sum" => aggregates(request, |sum, value| *sum += value),
        "max" => aggregates(request, |max, value| *max = value.max(*max)),
        other => Err(format!("there is no form {other:?}: sum, max").into()),
    }
}

fn aggregates(
    request: &Request,
    aggregate: impl Fn(&mut u64, u64) + Copy + Send + 'static,
) -> Result<()> {
    let cores = cores(request)?;
    let keys: u64 = request.value("keys")?;
    let readings = Readings::generate(SEED, keys, request.value("events")?);
    let seconds = |name| request.value::<i64>(name).map(|seconds| seconds * SECOND);
    let windows = Windows::sliding(seconds("size")?, seconds("slide")?);
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            digest_of(context(cores)?, |context, sink| {
                if keys <= FEW {
                    few_keys(context, &readings, keys, windows, aggregate, sink);
                } else {
                    many_keys(context, &readings, windows, aggregate, sink);
                }
            })
        })?;
        Ok(answer(digest, records, bytes))
    })
}

pub(crate) fn chunks(
    readings: &Readings,
    index: u64,
    count: u64,
) -> impl Iterator<Item = Reading> + use<> {
    let readings = readings.clone();
    let chunks = (index..readings.count().div_ceil(CHUNK)).step_by(count as usize);
    chunks.flat_map(move |chunk| readings.range(chunk * CHUNK..(chunk + 1) * CHUNK))
}

/// Renoir's own windows. They begin with a key's first record: each source begins with a record of
/// nothing for every key, in the first window that a reading is in. Results of nothing are left out.
fn few_keys(
    context: &StreamContext,
    readings: &Readings,
    keys: u64,
    windows: Windows,
    aggregate: impl Fn(&mut u64, u64) + Clone + Send + 'static,
    mut sink: Sink,
) {
    let first = readings.range(0..1).next().map_or(0, |reading| reading.time);
    let begin = windows.last_start(first) - windows.size() + windows.slide();
    let readings = readings.clone();
    let results = context
        .stream_par_iter(move |index: u64, count: u64| {
            let nothing = (0..keys).map(move |key| (key, begin, 0));
            let of = |reading: Reading| (reading.key, reading.time, reading.value);
            nothing.chain(chunks(&readings, index, count).map(of))
        })
        .batch_mode(batches())
        .add_timestamps(move |reading| windows.last_start(reading.1), slide_by_slide(0))
        .group_by(|reading| reading.0)
        .window(EventTimeWindow::sliding(windows.size(), windows.slide()))
        .fold(0u64, move |so_far, reading| aggregate(so_far, reading.2));
    with_start(results, windows.size()).for_each(move |(start, key, value)| {
        if value > 0 {
            sink.add(&RowReadings { start, key, value });
        }
    });
}

/// Each reading once for each of its windows, which does not depend on when a key was seen first.
fn many_keys(
    context: &StreamContext,
    readings: &Readings,
    windows: Windows,
    aggregate: impl Fn(&mut u64, u64) + Clone + Send + 'static,
    mut sink: Sink,
) {
    let readings = readings.clone();
    let results = context
        .stream_par_iter(move |index: u64, count: u64| chunks(&readings, index, count))
        .batch_mode(batches())
        .flat_map(move |reading| {
            let starts = windows.starts(reading.time);
            starts.map(move |start| (reading.key, start, reading.value))
        })
        .add_timestamps(|reading| reading.1, slide_by_slide(windows.size() - windows.slide()))
        .group_by(|reading| reading.0)
        .reorder()
        .window(EventTimeWindow::tumbling(windows.slide()))
        .fold(0u64, move |so_far, reading| aggregate(so_far, reading.2));
    with_start(results, windows.slide())
        .for_each(move |(start, key, value)| sink.add(&RowReadings { start, key, value }));
}
