//! Sums and maxima of the sessions of keys.

use bench_by_hand::sessions::{SLIDES, Sessions};
use bench_protocol::{Request, Result};
use thalweg_workloads::readings::{Reading, Readings};
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::operator::Operator;

use crate::streams::{Rows, SEED, answer, by_key, digest_of, digested, records, timestamp};
use crate::workers::Workers;

/// Readings that a worker takes at a time.
const CHUNK: u64 = 1 << 16;

pub(crate) fn serve(request: &Request) -> Result<()> {
    match request.get("form").unwrap_or("sum") {
        "sum" => sessions(request, |sum, value| sum + value),
        "max" => sessions(request, u64::max),
        other => Err(format!("there is no form {other:?}: sum, max").into()),
    }
}

fn sessions(request: &Request, aggregate: fn(u64, u64) -> u64) -> Result<()> {
    let workers = Workers::start(request)?;
    let readings = Readings::generate(SEED, request.value("keys")?, request.value("events")?);
    let gap = request.value::<i64>("gap-ms")? * 1000;
    let count = readings.count();
    let bytes = count * size_of::<Reading>() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let readings = readings.clone();
        let digest = stopwatch.time(|| {
            digest_of(&workers, move |scope, at, of, rows| {
                let chunks = (at as u64..readings.count().div_ceil(CHUNK)).step_by(of);
                let readings = readings.clone();
                let mine = chunks
                    .flat_map(move |chunk| readings.range(chunk * CHUNK..(chunk + 1) * CHUNK));
                job(scope, mine, gap, aggregate, rows);
            })
        })?;
        Ok(answer(digest, count, bytes))
    })
}

/// Sessions by hand, since timely has none: the worker that owns a key goes through its readings slide by slide.
fn job(
    scope: Scope<'_, u64>,
    readings: impl Iterator<Item = Reading> + 'static,
    gap: i64,
    aggregate: fn(u64, u64) -> u64,
    rows: Rows,
) {
    let readings = readings.map(|Reading { key, time, value }| {
        (timestamp(SLIDES.last_start(time)), (key, (time, value)))
    });
    let mut open = Sessions::new(gap, aggregate);
    let sessions = records(scope, readings)
        .unary_notify(by_key(), "Sessions", None, move |input, output, notificator| {
            input.for_each(|time, batch| {
                let slide = *time.time() as i64;
                for (key, (time, value)) in batch.drain(..) {
                    open.add(slide, Reading { key, time, value });
                }
                let over = time.delayed(&timestamp(open.over(slide)), output.output_index());
                notificator.notify_at(over);
                notificator.notify_at(time.retain(output.output_index()));
            });
            notificator.for_each(|time, _, _| {
                let mut session = output.session(&time);
                open.complete(*time.time() as i64, |row| session.give(row));
            });
        })
        .container::<Vec<_>>();
    digested(sessions, rows, |_, row| row);
}
