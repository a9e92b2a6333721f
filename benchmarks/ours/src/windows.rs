//! Sums and maxima of keys in windows of every overlap.

use crate::environment;
use crate::streams::{SEED, answer, digest_of};
use bench_protocol::{Request, Result, serve};
use std::time::Duration;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};
use thalweg_workloads::readings::{Reading, Readings, RowReadings};

/// Readings that a task takes at a time.
const CHUNK: u64 = 1 << 16;

pub(crate) fn serve_windows(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let readings = Readings::generate(SEED, request.value("keys")?, request.value("events")?);
    let seconds = |name| request.value(name).map(Duration::from_secs);
    let window = EventTimeWindow::sliding(seconds("size")?, seconds("slide")?);
    let sum = match request.get("form").unwrap_or("sum") {
        "sum" => true,
        "max" => false,
        other => return Err(format!("there is no form {other:?}: sum, max").into()),
    };
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            let keyed = read(&env, &readings).group_by(|reading| reading.key).window(window);
            if sum {
                let rows = keyed.sum(|reading: Reading| reading.value).unkey();
                digest_of(&env, rows.map(|(key, pane)| row(key, pane.start, pane.value)))
            } else {
                let rows = keyed.max(|reading: Reading| reading.value).unkey();
                digest_of(&env, rows.map(|(key, pane)| row(key, pane.start, pane.value)))
            }
        })?;
        Ok(answer(digest, records, bytes))
    })
}

fn row(key: u64, start: Timestamp, value: u64) -> RowReadings {
    RowReadings { start: start.as_micros(), key, value }
}

/// A chunk of readings after the other, dealt out to all tasks.
fn read(
    env: &Environment,
    readings: &Readings,
) -> Stream<impl Chain<Item = Reading, Time = Timestamp> + use<>> {
    let readings = readings.clone();
    env.parallel_iter(move |task, tasks| {
        let readings = readings.clone();
        let chunks = (task as u64..readings.count().div_ceil(CHUNK)).step_by(tasks);
        chunks.flat_map(move |chunk| readings.range(chunk * CHUNK..(chunk + 1) * CHUNK))
    })
    .assign_timestamps(|reading| Timestamp::from_micros(reading.time), Watermarks::monotonous())
}
