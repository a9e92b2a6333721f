//! The Yahoo benchmark: what each query means is said with its answers, in
//! `thalweg_workloads::ysb::oracle`.

use super::window;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};
use thalweg_workloads::ysb::oracle::{RowSwa, RowYsb, SWA, YSB};
use thalweg_workloads::ysb::{Campaigns, Event, EventType, FixedSegments, fixed};

/// The events of a segment after the other, dealt out to all tasks.
pub fn events(
    env: &Environment,
    segments: &FixedSegments,
) -> Stream<impl Chain<Item = Event, Time = Timestamp> + use<>> {
    let segments = segments.segments().to_vec();
    env.parallel_iter(move |task, tasks| {
        let mine = segments.clone().into_iter().skip(task).step_by(tasks);
        mine.flat_map(|segment| {
            let count = segment.bytes().len() / fixed::SIZE;
            (0..count).map(move |at| event(segment.bytes(), at))
        })
    })
    .assign_timestamps(|event| Timestamp::from_micros(event.time), Watermarks::monotonous())
}

/// An event of a segment, whose bytes were checked when it was made.
#[inline(always)]
fn event(bytes: &[u8], at: usize) -> Event {
    let (events, _) = bytes.as_chunks::<{ fixed::SIZE }>();
    fixed::decode(&events[at]).expect("a segment holds only what was made or checked")
}

/// Views by campaign and window.
pub fn ysb<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
    campaigns: &Campaigns,
) -> Stream<impl Chain<Item = RowYsb, Time = Timestamp> + use<C>> {
    let table: Arc<HashMap<u128, u32>> = Arc::new(campaigns.table().clone());
    events
        .filter(|event| event.event_type == EventType::View)
        .filter_map(move |event: Event| table.get(&event.ad).copied())
        .group_by(|campaign| *campaign)
        .window(window(YSB))
        .count()
        .unkey()
        .map(|(campaign, views)| RowYsb {
            start: views.start.as_micros(),
            campaign,
            views: views.value,
        })
}

/// Events by window.
pub fn swa<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = RowSwa, Time = Timestamp> + use<C>> {
    events
        .group_by(|_| ())
        .window(window(SWA))
        .count()
        .unkey()
        .map(|((), all)| RowSwa { start: all.start.as_micros(), events: all.value })
}
