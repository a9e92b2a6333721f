//! Sums and maxima of keys in windows of every overlap, and in sessions.

use crate::environment;
use crate::streams::{SEED, answer, digest_of};
use bench_protocol::{Request, Result, serve};
use std::time::Duration;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, Pane, SessionWindow};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};
use thalweg_workloads::readings::{Reading, Readings, RowReadings, RowSession};

/// Readings that a task takes at a time.
const CHUNK: u64 = 1 << 16;

pub(crate) fn serve_windows(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let readings = Readings::generate(SEED, request.value("keys")?, request.value("events")?);
    let seconds = |name| request.value(name).map(Duration::from_secs);
    let window = EventTimeWindow::sliding(seconds("size")?, seconds("slide")?);
    let sum = is_sum(request)?;
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            let keyed = read(&env, &readings).group_by(|reading| reading.key).window(window);
            if sum {
                let rows = keyed.sum(|reading: &Reading| reading.value).unkey();
                digest_of(&env, rows.map(|(key, pane)| row(key, pane.start, pane.value)))
            } else {
                let rows = keyed.max(|reading: &Reading| reading.value).unkey();
                digest_of(&env, rows.map(|(key, pane)| row(key, pane.start, pane.value)))
            }
        })?;
        Ok(answer(digest, records, bytes))
    })
}

pub(crate) fn serve_sessions(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let readings = Readings::generate(SEED, request.value("keys")?, request.value("events")?);
    let gap = Duration::from_millis(request.value("gap-ms")?);
    let sum = is_sum(request)?;
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    // A session ends a gap and a microsecond behind its last record.
    let behind = gap + Duration::from_micros(1);
    let row = move |(key, session): (u64, Pane<u64>)| RowSession {
        start: session.start.as_micros(),
        last: session.end.as_micros() - behind.as_micros() as i64,
        key,
        value: session.value,
    };
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            let keyed = read(&env, &readings).group_by(|reading| reading.key);
            let sessions = keyed.window(SessionWindow::new(gap));
            if sum {
                digest_of(&env, sessions.sum(|reading: &Reading| reading.value).unkey().map(row))
            } else {
                digest_of(&env, sessions.max(|reading: &Reading| reading.value).unkey().map(row))
            }
        })?;
        Ok(answer(digest, records, bytes))
    })
}

/// Whether sums are requested, or maxima.
fn is_sum(request: &Request) -> Result<bool> {
    match request.get("form").unwrap_or("sum") {
        "sum" => Ok(true),
        "max" => Ok(false),
        other => Err(format!("there is no form {other:?}: sum, max").into()),
    }
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
