//! Sums and maxima of the sessions of keys in event time.
//!
//! Renoir's own sessions end after a gap of wall-clock time, which answers another question. Its transactions
//! that commit after a time end with the watermark alone, which would have to follow every record. So sessions
//! are a function with state for each key, after its readings have been put in order; `--by hand` is an
//! operator that sees watermarks instead.

use bench_by_hand::sessions::{SLIDES, Sessions};
use bench_protocol::{Request, Result};
use renoir::Stream;
use renoir::operator::Operator;
use renoir::prelude::*;
use thalweg_workloads::readings::{Reading, Readings, RowSession};

use crate::streams::{SEED, Sink, answer, by_hand, digest_of, slide_by_slide};
use crate::windows::chunks;
use crate::{batches, context, cores};

pub(crate) fn serve(request: &Request) -> Result<()> {
    match request.get("form").unwrap_or("sum") {
        "sum" => sessions(request, |sum, value| sum + value),
        "max" => sessions(request, u64::max),
        other => Err(format!("there is no form {other:?}: sum, max").into()),
    }
}

fn sessions(request: &Request, aggregate: fn(u64, u64) -> u64) -> Result<()> {
    let cores = cores(request)?;
    let keys: u64 = request.value("keys")?;
    let readings = Readings::generate(SEED, keys, request.value("events")?);
    let gap = request.value::<i64>("gap-ms")? * 1000;
    let hand = match request.get("by").unwrap_or("state") {
        "state" => false,
        "hand" => true,
        other => return Err(format!("there is no way {other:?}: state, hand").into()),
    };
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            digest_of(context(cores)?, |context, sink| {
                if hand {
                    with_operator(context, &readings, gap, aggregate, sink);
                } else {
                    with_state(context, &readings, keys, gap, aggregate, sink);
                }
            })
        })?;
        Ok(answer(digest, records, bytes))
    })
}

fn read(
    context: &StreamContext,
    readings: &Readings,
    ends: u64,
) -> Stream<impl Operator<Out = (u64, i64, u64)> + use<>> {
    let readings = readings.clone();
    context
        .stream_par_iter(move |index: u64, count: u64| {
            let of = |reading: Reading| (reading.key, reading.time, reading.value);
            let ends = (0..ends).map(|key| (key, i64::MAX / 2, 0));
            chunks(&readings, index, count).map(of).chain(ends)
        })
        .batch_mode(batches())
}

/// A session is given when a reading comes that does not belong to it: each source ends with a reading of
/// nothing for every key.
fn with_state(
    context: &StreamContext,
    readings: &Readings,
    keys: u64,
    gap: i64,
    aggregate: fn(u64, u64) -> u64,
    mut sink: Sink,
) {
    let mut open = None::<RowSession>;
    let mut latest = i64::MIN;
    read(context, readings, keys)
        .add_timestamps(
            |reading| reading.1,
            move |_, &time| {
                let slide = SLIDES.last_start(time);
                (slide > latest).then(|| {
                    latest = slide;
                    slide - 1
                })
            },
        )
        .group_by(|reading| reading.0)
        .reorder()
        .rich_filter_map(move |(&key, (_, time, value))| match &mut open {
            Some(session) if time - session.last <= gap => {
                session.value = aggregate(session.value, value);
                session.last = time;
                None
            }
            open => open.replace(RowSession { start: time, last: time, key, value }),
        })
        .for_each(move |(_, session)| {
            if session.value > 0 {
                sink.add(&session);
            }
        });
}

/// One operator has the open sessions of all its keys.
fn with_operator(
    context: &StreamContext,
    readings: &Readings,
    gap: i64,
    aggregate: fn(u64, u64) -> u64,
    mut sink: Sink,
) {
    let readings = read(context, readings, 0)
        .add_timestamps(|reading| SLIDES.last_start(reading.1), slide_by_slide(0))
        .group_by(|reading| reading.0);
    let sessions = by_hand(
        readings.unkey(),
        Sessions::new(gap, aggregate),
        |open, slide, (_, (key, time, value))| open.add(slide, Reading { key, time, value }),
        // What is complete ends a microsecond before the next slide begins.
        |open, last, out| {
            let slide = SLIDES.last_start(last);
            open.complete(slide, |session| out.push_back((last, session)));
        },
    );
    sessions.for_each(move |session| sink.add(&session));
}
