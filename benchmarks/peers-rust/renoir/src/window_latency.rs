//! How long after a window's end its results are there: sums of keys in sliding windows, from readings that
//! come on a schedule.
//!
//! Renoir's sliding windows do a reading's work in each of its windows, which it is fast enough for.
//! `--batch timed|adaptive|fixed`, and `--delay-us` for the first two.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench_protocol::open_loop::{Idle, Schedule, Trace};
use bench_protocol::workload::reading;
use bench_protocol::{Answer, Request, Result};
use renoir::operator::window::EventTimeWindow;
use renoir::operator::{Operator, StreamElement, Timestamp};
use renoir::prelude::*;
use renoir::{KeyedStream, Stream};
use thalweg_workloads::digest::Digest;
use thalweg_workloads::readings::RowReadings;
use thalweg_workloads::windows::Windows;

use crate::streams::answer;
use crate::{context, cores};

/// How long the source waits when nothing is due.
const NAP: Duration = Duration::from_micros(50);

/// The requested load. Times are in microseconds since the first reading.
#[derive(Clone, Copy)]
struct Load {
    rate: f64,
    keys: u64,
    windows: Windows,
    events: u64,
    batch: BatchMode,
}

impl Load {
    fn time(&self, number: u64) -> i64 {
        (number as f64 * 1e6 / self.rate) as i64
    }
}

#[derive(Default)]
struct Seen {
    rows: Digest,
    latencies: Trace,
}

/// What a replica has seen, added to the others' at its end.
#[derive(Default)]
struct Kept {
    own: Seen,
    all: Arc<Mutex<Seen>>,
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self { own: Seen::default(), all: Arc::clone(&self.all) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.rows.merge(self.own.rows);
        all.latencies.merge(&self.own.latencies);
    }
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let millis = |name| request.value::<i64>(name).map(|millis| millis * 1000);
    let delay = Duration::from_micros(request.value_or("delay-us", 300)?);
    let load = Load {
        rate: request.value("rate")?,
        keys: request.value("keys")?,
        windows: Windows::sliding(millis("size-ms")?, millis("slide-ms")?),
        events: request.value("events")?,
        batch: match request.get("batch").unwrap_or("timed") {
            "adaptive" => BatchMode::adaptive(1024, delay),
            "timed" => BatchMode::timed(1024, delay),
            "fixed" => BatchMode::fixed(1024),
            other => {
                return Err(format!("there is no mode {other:?}: timed, adaptive, fixed").into());
            }
        },
    };
    bench_protocol::serve(request, |stopwatch| {
        let idle = Idle::start();
        let seen = stopwatch.time(|| run(cores, load))?;
        let mut extra = seen.latencies.percentiles();
        extra.extend(idle.stop()?);
        Ok(Answer { extra, ..answer(seen.rows, load.events, load.events * 24) })
    })
}

fn run(cores: u64, load: Load) -> Result<Seen> {
    let context = context(cores)?;
    let schedule = Arc::new(Schedule::new(load.rate));
    let kept = Kept::default();
    let all = Arc::clone(&kept.all);
    let windows = load.windows;
    let sums = readings(&context, load, Arc::clone(&schedule))
        .add_timestamps(|reading| reading.1, often())
        .map(|(key, _, value)| (key, value))
        .group_by(|reading| reading.0)
        .window(EventTimeWindow::sliding(windows.size(), windows.slide()))
        .fold(0u64, |sum, reading| *sum += reading.1);
    follow(sums, load, schedule, kept);
    context.execute_blocking();
    let seen = std::mem::take(&mut *all.lock().map_err(|_| "a sink panicked")?);
    Ok(seen)
}

/// How often the watermark goes on, in microseconds.
const OFTEN: i64 = 100;

/// A window's results come with the first watermark that is not below its end: one for every few readings,
/// in the middle between possible ends.
fn often<T>() -> impl FnMut(&T, &Timestamp) -> Option<Timestamp> + Clone + Send + 'static {
    let mut latest = i64::MIN;
    move |_, &time| {
        let now = (time + OFTEN / 2).div_euclid(OFTEN);
        (now > latest).then(|| {
            latest = now;
            now * OFTEN - OFTEN / 2 - 1
        })
    }
}

/// Readings on a schedule. A key's windows begin with its first record: one of nothing for each comes first.
fn readings(
    context: &StreamContext,
    load: Load,
    schedule: Arc<Schedule>,
) -> Stream<impl Operator<Out = (u64, i64, u64)> + use<>> {
    let mut due = 0;
    let live = (0..load.events).map(move |number| {
        while number >= due {
            schedule.begin();
            due = schedule.due_by_now();
            if number >= due {
                std::thread::sleep(NAP);
            }
        }
        let (key, value) = reading(number, load.keys);
        (key, load.time(number), value)
    });
    let nothing = (0..load.keys).map(|key| (key, 0, 0));
    context.stream_iter(nothing.chain(live)).batch_mode(load.batch)
}

fn follow(
    sums: KeyedStream<impl Operator<Out = (u64, u64)> + 'static>,
    load: Load,
    schedule: Arc<Schedule>,
    mut kept: Kept,
) {
    let last = load.time(load.events - 1);
    sums.unkey()
        .rich_map_custom(move |mut sums| match sums.next() {
            StreamElement::Timestamped((key, value), end) => {
                let start = end - load.windows.size();
                // A window that no reading ends has no moment from which to count.
                if start >= 0 && end <= last {
                    kept.own.rows.add(&RowReadings { start, key, value });
                    kept.own.latencies.record(end.unsigned_abs() * 1000, schedule.now());
                }
                StreamElement::Timestamped((), end)
            }
            StreamElement::Item(_) => {
                unreachable!("windows of event time give their results a time")
            }
            StreamElement::Watermark(watermark) => StreamElement::Watermark(watermark),
            StreamElement::FlushBatch => StreamElement::FlushBatch,
            StreamElement::Terminate => StreamElement::Terminate,
            StreamElement::FlushAndRestart => StreamElement::FlushAndRestart,
        })
        .for_each(|()| ());
}
