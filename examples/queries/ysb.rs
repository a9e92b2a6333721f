//! The Yahoo benchmark: what each query means is said with its answers, in
//! `thalweg_workloads::ysb::oracle`.

use super::window;
use hashbrown::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg::operators::keyed::{FirstOf, Partitioned};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, Pane};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, KeyedStream, Stream, Visit};
use thalweg_workloads::segments::Segment;
use thalweg_workloads::windows::Windows;
use thalweg_workloads::ysb::fixed::{self, Fixed};
use thalweg_workloads::ysb::oracle::{RowStar, RowSwa, RowYsb, SWA, YSB};
use thalweg_workloads::ysb::{Campaigns, Event, EventType, FixedSegments};

/// The events of a segment after the other, dealt out to all tasks.
pub fn events(
    env: &Environment,
    segments: &FixedSegments,
) -> Stream<impl Chain<Item = Event, Time = Timestamp> + use<>> {
    let segments = segments.segments().to_vec();
    env.parallel_iter(move |task, tasks| segments.clone().into_iter().skip(task).step_by(tasks))
        .flat_each(Decode)
        .assign_timestamps(|event| Timestamp::from_micros(event.time), Watermarks::monotonous())
}

/// Reads the events of a segment.
struct Decode;

impl Visit<Segment<Fixed>> for Decode {
    type Out = Event;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, segment: Segment<Fixed>, (): &mut (), emit: &mut impl FnMut(Event)) {
        let (events, _) = segment.bytes().as_chunks::<{ fixed::SIZE }>();
        for event in events {
            emit(fixed::decode(event).expect("a segment holds only what was made or checked"));
        }
    }
}

/// The campaign of each advertisement. The standard library's hash is made to withstand keys that somebody
/// chose to collide, at twice the cost.
fn table(campaigns: &Campaigns) -> Arc<HashMap<u128, u32>> {
    Arc::new(campaigns.table().iter().map(|(ad, campaign)| (*ad, *campaign)).collect())
}

/// Views by campaign and window.
pub fn ysb<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
    campaigns: &Campaigns,
) -> Stream<impl Chain<Item = RowYsb, Time = Timestamp> + use<C>> {
    let table = table(campaigns);
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

/// Clicks and views by campaign and window, joined: events are split into both, each is joined with the
/// campaigns and counted, and the two counts are joined.
pub fn ysb_star<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
    campaigns: &Campaigns,
    windows: Windows,
) -> Stream<impl Chain<Item = RowStar, Time = Timestamp> + use<C>> {
    let table = table(campaigns);
    let [clicks, views] = events.split();
    let clicks = count(clicks, EventType::Click, Arc::clone(&table), windows);
    let views = count(views, EventType::View, table, windows);
    // A count has the last timestamp of its window, and windows end a slide apart.
    let ends = EventTimeWindow::tumbling(Duration::from_micros(windows.slide().unsigned_abs()));
    clicks
        .window_join(views, ends, |_, clicks, views| (clicks.start, clicks.value, views.value))
        .unkey()
        .map(|(campaign, both)| {
            let (start, clicks, views) = both.value;
            RowStar { start: start.as_micros(), campaign, clicks, views }
        })
}

/// Events of one type by campaign and window.
fn count<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
    wanted: EventType,
    table: Arc<HashMap<u128, u32>>,
    windows: Windows,
) -> KeyedStream<impl Chain<Item = (u32, Pane<u64>), Time = Timestamp>, FirstOf, Partitioned> {
    events
        .filter(move |event| event.event_type == wanted)
        .filter_map(move |event: Event| table.get(&event.ad).copied())
        .group_by(|campaign| *campaign)
        .window(window(windows))
        .count()
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
