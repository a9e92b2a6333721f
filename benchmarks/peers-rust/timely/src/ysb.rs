//! The Yahoo benchmark, and the simple aggregation over its events.
//!
//! The source filters, projects and joins, so that only campaigns go on; each worker counts its own
//! first.

use bench_protocol::{Request, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thalweg_workloads::segments::Segment;
use thalweg_workloads::ysb::fixed::Fixed;
use thalweg_workloads::ysb::oracle::{RowStar, RowSwa, RowYsb, STAR, SWA, YSB};
use thalweg_workloads::ysb::{Campaigns, Event, EventType, FixedSegments, recipe};
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Concat;
use timely::dataflow::operators::vec::{Filter, Map};

use crate::streams::{
    Rows, SEED, aggregated, answer, by_key, digest_of, digested, records, timestamp,
};
use crate::workers::Workers;

type Source = &'static [Segment<Fixed>];

fn serve(
    request: &Request,
    dataflow: impl Fn(Scope<'_, u64>, Source, usize, usize, Rows) + Clone + Send + Sync + 'static,
) -> Result<()> {
    let workers = Workers::start(request)?;
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    let (count, bytes) = (segments.count(), segments.size());
    let source: Source = segments.segments().to_vec().leak();
    bench_protocol::serve(request, |stopwatch| {
        let dataflow = dataflow.clone();
        let digest = stopwatch.time(|| {
            digest_of(&workers, move |scope, at, of, rows| dataflow(scope, source, at, of, rows))
        })?;
        Ok(answer(digest, count, bytes))
    })
}

/// A worker's share of the events.
fn part(source: Source, at: usize, of: usize) -> impl Iterator<Item = Event> + 'static {
    source.iter().skip(at).step_by(of).flat_map(Segment::events)
}

/// The campaign of each advertisement.
fn table() -> Arc<FxHashMap<u128, u32>> {
    let campaigns = Campaigns::new(SEED);
    Arc::new(campaigns.table().iter().map(|(ad, campaign)| (*ad, *campaign)).collect())
}

pub(crate) fn serve_ysb(request: &Request) -> Result<()> {
    let table = table();
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

/// Clicks and views are counted apart; the counts of both meet where their campaign is.
pub(crate) fn serve_star(request: &Request) -> Result<()> {
    let table = table();
    serve(request, move |scope, source, at, of, rows| {
        let table = Arc::clone(&table);
        let events = part(source, at, of).filter_map(move |event| {
            let wanted = matches!(event.event_type, EventType::Click | EventType::View);
            let campaign = *table.get(&event.ad).filter(|_| wanted)?;
            let clicked = event.event_type == EventType::Click;
            Some((timestamp(STAR.last_start(event.time)), (campaign, clicked)))
        });
        let events = records(scope, events);
        let [clicks, views] = [true, false].map(|wanted| {
            let chosen = events.clone().filter(move |(_, clicked)| *clicked == wanted);
            let own = aggregated(chosen, Pipeline, |count: &mut u64, _| *count += 1);
            aggregated(own, by_key(), |all: &mut u64, count| *all += count)
        });
        let clicks = clicks.map(|(campaign, clicks)| (campaign, (clicks, 0)));
        let views = views.map(|(campaign, views)| (campaign, (0, views)));
        let both = aggregated(clicks.concat(views), Pipeline, |all: &mut (u64, u64), counts| {
            *all = (all.0 + counts.0, all.1 + counts.1);
        });
        let both = both.filter(|(_, (clicks, views))| *clicks > 0 && *views > 0);
        digested(both, rows, |time, (campaign, (clicks, views))| RowStar {
            start: time as i64,
            campaign,
            clicks,
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
