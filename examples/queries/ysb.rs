//! The Yahoo benchmark: what each query means is said with its answers, in
//! `thalweg_workloads::ysb::oracle`.

use super::window;
use hashbrown::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg::data::Record;
use thalweg::operators::keyed::{FirstOf, Partitioned};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, Pane};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, KeyedStream, Stream, Visit};
use thalweg_workloads::segments::Segment;
use thalweg_workloads::windows::Windows;
use thalweg_workloads::ysb::fixed::{self, Fixed};
use thalweg_workloads::ysb::oracle::{RowStar, RowSwa, RowYsb, SWA, YSB};
use thalweg_workloads::ysb::variable::Variable;
use thalweg_workloads::ysb::{
    Campaigns, Event, EventType, FixedSegments, TextEvent, VariableSegments,
};

/// Events as text, borrowed from the bytes that they are read from.
pub struct TextEvents {
    _unsized: [()],
}

impl Record for TextEvents {
    type Of<'a> = TextEvent<'a>;
}

/// What the queries ask of an event, in whichever form it is.
pub trait Shown {
    /// What the user does; `None` where the text is no such thing.
    fn event_type(&self) -> Option<EventType>;

    /// The campaign of its advertisement, if it has one.
    fn campaign(&self, ads: &Ads) -> Option<u32>;
}

/// From advertisement to campaign, for events in either form. The standard library's hash is made to withstand
/// keys that were chosen to collide, at twice the cost.
pub struct Ads {
    ids: HashMap<u128, u32>,
    texts: HashMap<String, u32>,
}

impl Ads {
    fn new(campaigns: &Campaigns) -> Arc<Self> {
        let ids = campaigns.table().iter().map(|(ad, campaign)| (*ad, *campaign)).collect();
        let texts = campaigns.text_table().into_iter().collect();
        Arc::new(Self { ids, texts })
    }
}

impl Shown for Event {
    #[inline]
    fn event_type(&self) -> Option<EventType> {
        Some(self.event_type)
    }

    #[inline]
    fn campaign(&self, ads: &Ads) -> Option<u32> {
        ads.ids.get(&self.ad).copied()
    }
}

/// Only the fields that a query asks for are read; the identifiers stay text.
impl Shown for TextEvent<'_> {
    #[inline]
    fn event_type(&self) -> Option<EventType> {
        EventType::from_name(self.event_type)
    }

    #[inline]
    fn campaign(&self, ads: &Ads) -> Option<u32> {
        ads.texts.get(self.ad).copied()
    }
}

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

/// The events of variable length, likewise. What a query does not ask for is not parsed.
pub fn text_events(
    env: &Environment,
    segments: &VariableSegments,
) -> Stream<impl Chain<Item = TextEvents, Time = Timestamp> + use<>> {
    let segments = segments.segments().to_vec();
    env.parallel_iter(move |task, tasks| segments.clone().into_iter().skip(task).step_by(tasks))
        .flat_each(Borrow)
        .assign_timestamps(|event| Timestamp::from_micros(event.time), Watermarks::monotonous())
}

/// Reads the events of a segment of text.
struct Borrow;

impl Visit<Segment<Variable>> for Borrow {
    type Out = TextEvents;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, segment: Segment<Variable>, (): &mut (), emit: &mut impl FnMut(TextEvent<'_>)) {
        for event in segment.events() {
            emit(event);
        }
    }
}

/// Events of variable length, parsed: what is sent to other tasks is no text.
///
/// An event that is none stops the job.
pub fn parsed<C: Chain<Item = TextEvents, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Event, Time = Timestamp> + use<C>> {
    events.try_map(|event: TextEvent<'_>| event.parse())
}

/// Views by campaign and window of ten seconds.
pub fn ysb<C, E>(
    events: Stream<C>,
    campaigns: &Campaigns,
) -> Stream<impl Chain<Item = RowYsb, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
    for<'a> E::Of<'a>: Shown,
{
    ysb_in(events, campaigns, YSB)
}

/// Views by campaign, in other windows.
pub fn ysb_in<C, E>(
    events: Stream<C>,
    campaigns: &Campaigns,
    windows: Windows,
) -> Stream<impl Chain<Item = RowYsb, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
    for<'a> E::Of<'a>: Shown,
{
    count_views(campaigns_of(views(events), campaigns), windows)
}

/// The events that are views.
pub fn views<C, E>(events: Stream<C>) -> Stream<impl Chain<Item = E, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
    for<'a> E::Of<'a>: Shown,
{
    events.filter(|event| event.event_type() == Some(EventType::View))
}

/// The campaigns of events.
pub fn campaigns_of<C, E>(
    events: Stream<C>,
    campaigns: &Campaigns,
) -> Stream<impl Chain<Item = u32, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
    for<'a> E::Of<'a>: Shown,
{
    let ads = Ads::new(campaigns);
    events.filter_map(move |event| event.campaign(&ads))
}

/// The number of each campaign in each window.
pub fn count_views<C: Chain<Item = u32, Time = Timestamp>>(
    campaigns: Stream<C>,
    windows: Windows,
) -> Stream<impl Chain<Item = RowYsb, Time = Timestamp> + use<C>> {
    campaigns.group_by(|campaign| *campaign).window(window(windows)).count().unkey().map(
        |(campaign, views)| RowYsb { start: views.start.as_micros(), campaign, views: views.value },
    )
}

/// Clicks and views by campaign and window, joined: events are joined with the campaigns and routed to one of two streams,
/// each of which is counted, and the two counts are joined.
pub fn ysb_star<C: Chain<Item = Event, Time = Timestamp>>(
    events: Stream<C>,
    campaigns: &Campaigns,
    windows: Windows,
) -> Stream<impl Chain<Item = RowStar, Time = Timestamp> + use<C>> {
    let ads = Ads::new(campaigns);
    // What is routed is handed on to another task, so it had better be small.
    let of_campaigns = events.filter_map(move |event: Event| {
        let clicked = match event.event_type {
            EventType::Click => true,
            EventType::View => false,
            EventType::Purchase => return None,
        };
        Some((event.campaign(&ads)?, clicked))
    });
    let ([clicks], views) = of_campaigns.route().to(|(_, clicked)| *clicked).split();
    let (clicks, views) = (count(clicks, windows), count(views, windows));
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

/// Clicks, or views, by campaign and window.
fn count<C: Chain<Item = (u32, bool), Time = Timestamp>>(
    of_campaigns: Stream<C>,
    windows: Windows,
) -> KeyedStream<impl Chain<Item = (u32, Pane<u64>), Time = Timestamp> + use<C>, FirstOf, Partitioned>
{
    of_campaigns.group_by(|event| event.0).window(window(windows)).count()
}

/// Events by window of ten seconds.
pub fn swa<C, E>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = RowSwa, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
{
    swa_in(events, SWA)
}

/// Events, in other windows.
pub fn swa_in<C, E>(
    events: Stream<C>,
    windows: Windows,
) -> Stream<impl Chain<Item = RowSwa, Time = Timestamp> + use<C, E>>
where
    C: Chain<Item = E, Time = Timestamp>,
    E: Record + ?Sized,
{
    events
        .window_all(window(windows))
        .count()
        .map(|all| RowSwa { start: all.start.as_micros(), events: all.value })
}
