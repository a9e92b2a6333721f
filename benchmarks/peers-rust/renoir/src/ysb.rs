//! The Yahoo benchmark, and the simple aggregation over its events.

use std::sync::Arc;

use bench_protocol::{Request, Result};
use renoir::Stream;
use renoir::operator::Operator;
use renoir::operator::window::EventTimeWindow;
use renoir::prelude::*;
use rustc_hash::FxHashMap;
use thalweg_workloads::segments::Segment;
use thalweg_workloads::ysb::fixed::Fixed;
use thalweg_workloads::ysb::oracle::{RowStar, RowSwa, RowYsb, STAR, SWA, YSB};
use thalweg_workloads::ysb::{Campaigns, Event, EventType, FixedSegments, recipe};

use crate::streams::{SEED, Sink, answer, digest_of, slide_by_slide, with_start};
use crate::{batches, context, cores};

type Source = &'static [Segment<Fixed>];

/// Keys that a window over all records is cut into, so that more than one core works on it.
const PARTS: i64 = 16;

fn serve(request: &Request, job: impl Fn(&StreamContext, Source, Sink)) -> Result<()> {
    let cores = cores(request)?;
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    let (records, bytes) = (segments.count(), segments.size());
    let source: Source = segments.segments().to_vec().leak();
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch
            .time(|| digest_of(context(cores)?, |context, sink| job(context, source, sink)))?;
        Ok(answer(digest, records, bytes))
    })
}

fn events(context: &StreamContext, source: Source) -> Stream<impl Operator<Out = Event> + use<>> {
    context
        .stream_par_iter(move |index: u64, count: u64| {
            let mine = source.iter().skip(index as usize).step_by(count as usize);
            mine.flat_map(Segment::events)
        })
        .batch_mode(batches())
}

/// The campaign of each advertisement, in a map with a fast hash.
fn table() -> Arc<FxHashMap<u128, u32>> {
    let campaigns = Campaigns::new(SEED);
    Arc::new(campaigns.table().iter().map(|(ad, campaign)| (*ad, *campaign)).collect())
}

pub(crate) fn serve_ysb(request: &Request) -> Result<()> {
    let table = table();
    serve(request, move |context, source, mut sink| {
        let table = Arc::clone(&table);
        let views = events(context, source)
            .filter(|event| event.event_type == EventType::View)
            .filter_map(move |event| Some((*table.get(&event.ad)?, event.time)))
            .add_timestamps(|view| YSB.last_start(view.1), slide_by_slide(0))
            .group_by(|view| view.0)
            .window(EventTimeWindow::tumbling(YSB.size()))
            .fold(0u64, |views, _| *views += 1);
        with_start(views, YSB.size()).for_each(move |(start, campaign, views)| {
            sink.add(&RowYsb { start, campaign, views });
        });
    })
}

/// Clicks and views are counted apart, and the counts of a campaign and window joined.
pub(crate) fn serve_star(request: &Request) -> Result<()> {
    let table = table();
    serve(request, move |context, source, mut sink| {
        let table = Arc::clone(&table);
        let mut both = events(context, source)
            .filter(|event| matches!(event.event_type, EventType::Click | EventType::View))
            .filter_map(move |event| {
                let clicked = event.event_type == EventType::Click;
                Some((*table.get(&event.ad)?, event.time, clicked))
            })
            .split(2);
        let [views, clicks] = [false, true].map(|wanted| {
            both.swap_remove(0)
                .filter(move |event| event.2 == wanted)
                .add_timestamps(|event| STAR.last_start(event.1), slide_by_slide(0))
                .group_by(|event| event.0)
                .window(EventTimeWindow::tumbling(STAR.size()))
                .fold(0u64, |count, _| *count += 1)
        });
        // A count has the end of its window as its timestamp: those of a window meet in the next one.
        let joined = clicks.window_join(EventTimeWindow::tumbling(STAR.size()), views);
        with_start(joined, 2 * STAR.size()).for_each(move |(start, campaign, (clicks, views))| {
            sink.add(&RowStar { start, campaign, clicks, views });
        });
    })
}

pub(crate) fn serve_swa(request: &Request) -> Result<()> {
    serve(request, |context, source, mut sink| {
        let counts = events(context, source)
            .map(|event| event.time)
            .add_timestamps(|time| SWA.last_start(*time), slide_by_slide(0))
            .group_by(|time| time % PARTS)
            .window(EventTimeWindow::tumbling(SWA.size()))
            .fold(0u64, |events, _| *events += 1);
        let all = with_start(counts, SWA.size())
            .window_all(EventTimeWindow::tumbling(SWA.size()))
            .fold((0, 0u64), |all, (start, _, events)| *all = (*start, all.1 + events));
        all.for_each(move |(_, (start, events))| sink.add(&RowSwa { start, events }));
    })
}
