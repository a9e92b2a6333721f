//! The Yahoo benchmark, and the simple aggregation over its events.
//!
//! The source filters, projects and joins, so that only campaigns go on; each worker counts its own
//! first.

use bench_protocol::{Request, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thalweg_workloads::segments::Segment;
use thalweg_workloads::ysb::fixed::Fixed;
use thalweg_workloads::ysb::oracle::{RowSwa, RowYsb, SWA, YSB};
use thalweg_workloads::ysb::{Campaigns, Event, EventType, FixedSegments, recipe};
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Pipeline;

use crate::streams::{
    Rows, SEED, aggregated, answer, by_key, digest_of, digested, records, timestamp,
};

type Source = &'static [Segment<Fixed>];

fn serve(
    request: &Request,
    dataflow: impl Fn(Scope<'_, u64>, Source, usize, usize, Rows) + Clone + Send + Sync + 'static,
) -> Result<()> {
    let cores = request.cores()?;
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    let (count, bytes) = (segments.count(), segments.size());
    let source: Source = segments.segments().to_vec().leak();
    bench_protocol::serve(request, |stopwatch| {
        let dataflow = dataflow.clone();
        let digest = stopwatch.time(|| {
            digest_of(cores, move |scope, at, of, rows| dataflow(scope, source, at, of, rows))
        })?;
        Ok(answer(digest, count, bytes))
    })
}

/// A worker's share of the events.
fn part(source: Source, at: usize, of: usize) -> impl Iterator<Item = Event> + 'static {
    source.iter().skip(at).step_by(of).flat_map(Segment::events)
}

pub(crate) fn serve_ysb(request: &Request) -> Result<()> {
    let table: FxHashMap<u128, u32> =
        Campaigns::new(SEED).table().iter().map(|(ad, campaign)| (*ad, *campaign)).collect();
    let table = Arc::new(table);
    serve(request, move |scope, source, at, of, rows| {
        let table = Arc::clone(&table);
        let views = part(source, at, of).filter(|event| event.event_type == EventType::View);
        let views = views.filter_map(move |event| {
            let campaign = *table.get(&event.ad)?;
            Some((timestamp(YSB.last_start(event.time)), (campaign, ())))
        });
        let own = aggregated(records(scope, views), Pipeline, |count: &mut u64, ()| *count += 1);
        let all = aggregated(own, by_key(), |all: &mut u64, count| *all += count);
        digested(all, rows, |time, (campaign, views)| RowYsb {
            start: time as i64,
            campaign,
            views,
        });
    })
}

pub(crate) fn serve_swa(request: &Request) -> Result<()> {
    serve(request, |scope, source, at, of, rows| {
        let events =
            part(source, at, of).map(|event| (timestamp(SWA.last_start(event.time)), ((), ())));
        let own = aggregated(records(scope, events), Pipeline, |count: &mut u64, ()| *count += 1);
        let all = aggregated(own, by_key(), |all: &mut u64, count| *all += count);
        digested(all, rows, |time, ((), events)| RowSwa { start: time as i64, events });
    })
}
