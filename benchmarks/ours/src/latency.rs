//! Latency from end to end: a source that keeps to a schedule, a parallel map, a single sink.
//!
//! `--interval-us N` sets the schedule (0: as fast as it can), `--records N` how many records, `--work-us N` how long
//! the map works on each, and `--batch default|single|fixed` the batch mode.

use crate::environment_of;
use bench_protocol::histogram::Histogram;
use bench_protocol::workload::{NumberCheck, number, work_for};
use bench_protocol::{Answer, Request, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg::config::{BatchMode, Config};
use thalweg::{Chain, Environment, Stream};

/// A record that carries no time.
const UNSTAMPED: u64 = u64::MAX;
/// Of the records made as fast as possible, one in this many is stamped: asking the clock for each
/// would be what is measured.
const STAMPED: u64 = 64;

#[derive(Default)]
struct Seen {
    check: NumberCheck,
    latencies: Histogram,
}

pub(crate) fn serve_latency(request: &Request) -> Result<()> {
    let mut config = Config::default();
    match request.get("batch").unwrap_or("default") {
        "default" => {}
        "single" => config.batch = BatchMode::Single,
        "fixed" => config.batch = BatchMode::Fixed { size: 1024 },
        other => return Err(format!("there is no mode {other:?}: default, single, fixed").into()),
    }
    let env = environment_of(request, config)?;
    let records: u64 = request.value("records")?;
    let interval = Duration::from_micros(request.value("interval-us")?);
    let work = Duration::from_micros(request.value_or("work-us", 0)?);
    bench_protocol::serve(request, |stopwatch| {
        let Seen { check, latencies } = stopwatch.time(|| run(&env, records, interval, work))?;
        let (digest, extra) = (check.digest(), latencies.percentiles());
        Ok(Answer { digest, records, bytes: records * 8, extra, ..Answer::default() })
    })
}

fn run(
    env: &Environment,
    records: u64,
    interval: Duration,
    work: Duration,
) -> thalweg::Result<Seen> {
    let start = Arc::new(OnceLock::new());
    let began = Arc::clone(&start);
    let began = move || *began.get_or_init(Instant::now);
    let seen = Arc::new(Mutex::new(Seen::default()));
    if interval.is_zero() {
        let source = env.iter((0..records).map(move |i| {
            let stamped = i.is_multiple_of(STAMPED);
            (if stamped { since(began()) } else { UNSTAMPED }, number(i))
        }));
        follow(source, work, &start, &seen);
    } else {
        let due = interval.as_nanos() as u64;
        let source = env.generate(1.0 / interval.as_secs_f64(), move |i| {
            began();
            (i < records).then(|| (i * due, number(i)))
        });
        follow(source, work, &start, &seen);
    }
    env.run()?;
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(seen)
}

fn follow(
    source: Stream<impl Chain<Item = (u64, u64)>>,
    work: Duration,
    start: &Arc<OnceLock<Instant>>,
    seen: &Arc<Mutex<Seen>>,
) {
    let (start, seen) = (Arc::clone(start), Arc::clone(seen));
    let worked = source.shuffle().map(move |record| {
        work_for(work);
        record
    });
    worked.for_each(move |(stamp, number)| {
        // One sink: the lock is not contended.
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.check.add(number);
        if stamp != UNSTAMPED {
            let now = start.get().copied().map_or(0, since);
            seen.latencies.record_nanos(now.saturating_sub(stamp));
        }
    });
}

fn since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
