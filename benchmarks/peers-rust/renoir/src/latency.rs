//! End-to-end latency: a source that keeps to a schedule, a parallel map, a single sink.
//!
//! `--interval-us N` sets the schedule (0: as fast as it can), `--records N` how many records, `--work-us N` how long
//! the map works on each, and `--batch default|single|fixed|timed` the batch mode.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench_protocol::histogram::Histogram;
use bench_protocol::workload::{NumberCheck, number, work_for};
use bench_protocol::{Answer, Request, Result};
use renoir::prelude::*;

use crate::{context, cores};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let records: u64 = request.value("records")?;
    let interval = Duration::from_micros(request.value("interval-us")?);
    let work = Duration::from_micros(request.value_or("work-us", 0)?);
    let batch = match request.get("batch").unwrap_or("default") {
        "default" => BatchMode::default(),
        "single" => BatchMode::single(),
        "fixed" => BatchMode::fixed(1024),
        "timed" => BatchMode::timed(1024, Duration::from_millis(1)),
        other => {
            return Err(format!("there is no mode {other:?}: default, single, fixed, timed").into());
        }
    };
    bench_protocol::serve(request, |stopwatch| {
        let (check, histogram) = stopwatch.time(|| run(records, interval, work, batch, cores))?;
        let extra = histogram.percentiles();
        Ok(Answer {
            digest: check.digest(),
            records,
            bytes: records * 8,
            extra,
            ..Answer::default()
        })
    })
}

fn run(
    records: u64,
    interval: Duration,
    work: Duration,
    batch: BatchMode,
    cores: u64,
) -> Result<(NumberCheck, Histogram)> {
    let context = context(cores)?;
    let start = Instant::now();
    let source = (0..records).map(move |i| {
        if interval.is_zero() {
            // Every 64th record is stamped: asking the clock for each would be what is measured.
            let stamp = if i % 64 == 0 { start.elapsed().as_nanos() as u64 } else { u64::MAX };
            return (stamp, number(i));
        }
        // A record's time is when the schedule says it is made, whether or not it could be then.
        let due = interval * i as u32;
        if let Some(early) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(early);
        }
        (due.as_nanos() as u64, number(i))
    });
    let seen = Arc::new(Mutex::new((NumberCheck::default(), Histogram::default())));
    let sink = Arc::clone(&seen);
    context
        .stream_iter(source)
        .batch_mode(batch)
        .shuffle()
        .map(move |record| {
            work_for(work);
            record
        })
        .replication(Replication::One)
        .for_each(move |(stamp, number): (u64, u64)| {
            // One sink: the lock is not contended.
            let mut seen = sink.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            seen.0.add(number);
            if stamp != u64::MAX {
                seen.1.record_nanos((start.elapsed().as_nanos() as u64).saturating_sub(stamp));
            }
        });
    context.execute_blocking();
    let seen = seen.lock().map_err(|_| "the sink panicked")?;
    Ok(seen.clone())
}
