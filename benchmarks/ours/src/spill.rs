//! State that exceeds memory: the counts of many keys with `--memory` bytes for them, or with as many as there are.
//!
//! `spill-count`: how often each key comes, in no order. `spill-windows`: the same in windows that begin each
//! `--distinct` records, each key once in so many, and are `--overlap` times as long.

use crate::checkpoint::mixed;
use crate::environment_of;
use crate::streams::{answer, digest_and_stats};
use bench_protocol::{Answer, Request, Result, serve};
use std::time::Duration;
use thalweg::config::Config;
use thalweg::data::Record;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};
use thalweg_workloads::digest::Row;
use thalweg_workloads::readings::RowReadings;

pub(crate) fn serve_count(request: &Request) -> Result<()> {
    let (records, distinct): (u64, u64) = (request.value("records")?, request.value("distinct")?);
    serve_rows(request, records, |env| {
        let keys = env.range(0..records).map(move |n| mixed(n) % distinct);
        let counts = keys.group_by(|key| *key).count().unkey();
        counts.map(|(key, value)| RowReadings { start: 0, key, value })
    })
}

pub(crate) fn serve_windows(request: &Request) -> Result<()> {
    let (records, distinct): (u64, u64) = (request.value("records")?, request.value("distinct")?);
    // Record `n` is of millisecond `n`.
    let slide = Duration::from_millis(distinct);
    let window = EventTimeWindow::sliding(slide * request.value::<u32>("overlap")?, slide);
    serve_rows(request, records, |env| {
        let time = |n: &u64| Timestamp::from_micros(*n as i64 * 1000);
        let keys = env.range(0..records).assign_timestamps(time, Watermarks::monotonous());
        let keys = keys.group_by(move |n| n.wrapping_mul(618_033) % distinct);
        keys.window(window).count().unkey().map(|(key, pane)| RowReadings {
            start: pane.start.as_micros(),
            key,
            value: pane.value,
        })
    })
}

fn serve_rows<C>(
    request: &Request,
    records: u64,
    rows: impl Fn(&Environment) -> Stream<C>,
) -> Result<()>
where
    C: Chain,
    for<'a> <C::Item as Record>::Of<'a>: Row,
{
    let mut config = Config::default();
    let is_short = request.get("memory").is_some();
    config.memory = request.value_or("memory", config.memory)?;
    let env = environment_of(request, config)?;
    serve(request, |stopwatch| {
        let (digest, stats) = stopwatch.time(|| digest_and_stats(&env, rows(&env)))?;
        let spilled: u64 = stats.operators.iter().map(|operator| operator.spilled_bytes).sum();
        if is_short && spilled == 0 {
            return Err("nothing was spilled: the state is too small for the budget".into());
        }
        let extra =
            vec![("spilled_bytes", spilled as f64), ("memory_peak", stats.memory_peak as f64)];
        Ok(Answer { extra, ..answer(digest, records, records * 8) })
    })
}
