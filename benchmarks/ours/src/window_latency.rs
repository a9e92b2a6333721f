//! How long after a window's end its results are there: sums of keys in sliding windows, from readings that
//! come on a schedule.
//!
//! `--rate N` readings a second, a microsecond of event time apart at a million; `--keys`, `--size-ms`,
//! `--slide-ms`, `--events`.

use crate::environment;
use crate::kept::{Kept, Seen};
use crate::streams::answer;
use bench_protocol::open_loop::{Idle, Schedule};
use bench_protocol::workload::reading;
use bench_protocol::{Answer, Request, Result, serve};
use std::sync::Arc;
use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg_workloads::readings::RowReadings;

/// The requested load. Times are in microseconds since the first reading.
#[derive(Clone, Copy)]
struct Load {
    rate: f64,
    keys: u64,
    size: Duration,
    slide: Duration,
    events: u64,
}

pub(crate) fn serve_window_latency(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let millis = |name| request.value(name).map(Duration::from_millis);
    let load = Load {
        rate: request.value("rate")?,
        keys: request.value("keys")?,
        size: millis("size-ms")?,
        slide: millis("slide-ms")?,
        events: request.value("events")?,
    };
    serve(request, |stopwatch| {
        let idle = Idle::start();
        let seen = stopwatch.time(|| run(&env, load))?;
        let mut extra = seen.latencies.percentiles();
        extra.extend(idle.stop()?);
        Ok(Answer { extra, ..answer(seen.rows, load.events, load.events * 24) })
    })
}

fn run(env: &Environment, load: Load) -> Result<Seen> {
    let schedule = Arc::new(Schedule::new(load.rate));
    let first = Arc::clone(&schedule);
    let time = move |number: u64| (number as f64 * 1e6 / load.rate) as i64;
    let kept = Kept::<Seen>::new();
    let mut part = kept.part();
    let last = time(load.events - 1);
    env.generate(load.rate, move |number| {
        first.begin();
        let (key, value) = reading(number, load.keys);
        (number < load.events).then_some((key, number, value))
    })
    .assign_timestamps(
        move |reading| Timestamp::from_micros(time(reading.1)),
        Watermarks::monotonous(),
    )
    .group_by(|reading| reading.0)
    .window(EventTimeWindow::sliding(load.size, load.slide))
    .sum(|reading: &(u64, u64, u64)| reading.2)
    .unkey()
    .map_volatile(move |(key, pane)| {
        let part = &mut part;
        let (start, end) = (pane.start.as_micros(), pane.end.as_micros());
        // A window that no reading ends has no moment from which to count.
        if start >= 0 && end <= last {
            part.own.latencies.record(end as u64 * 1000, schedule.now());
            part.own.rows.add(&RowReadings { start, key, value: pane.value });
        }
    })
    .for_each(|()| ());
    env.run()?;
    Ok(kept.take())
}
