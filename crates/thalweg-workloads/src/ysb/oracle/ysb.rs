//! The benchmark itself: filter, project, join with a table, count in windows.

use crate::SECOND;
use crate::digest::row;
use crate::windows::Windows;
use crate::ysb::{Campaigns, Event, EventType};
use std::collections::BTreeMap;

/// Tumbling windows of 10 s.
pub const YSB: Windows = Windows::tumbling(10 * SECOND);

row! {
    /// The views of a campaign in a window.
    RowYsb {
        /// The window's start.
        start: i64,
        /// The campaign.
        campaign: u32,
        /// Views of its advertisements in the window.
        views: u64,
    }
}

/// The views of every campaign in each window of [`YSB`] in which it has any. Advertisements without a campaign do
/// not count.
pub fn ysb(events: impl Iterator<Item = Event>, campaigns: &Campaigns) -> Vec<RowYsb> {
    let views = events.filter(|event| event.event_type == EventType::View);
    let rows = count(views, campaigns, YSB).into_iter();
    rows.map(|((start, campaign), views)| RowYsb { start, campaign, views }).collect()
}

/// Counts events by window and campaign.
pub(super) fn count(
    events: impl Iterator<Item = Event>,
    campaigns: &Campaigns,
    windows: Windows,
) -> BTreeMap<(i64, u32), u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        let Some(&campaign) = campaigns.table().get(&event.ad) else { continue };
        for start in windows.starts(event.time) {
            *counts.entry((start, campaign)).or_default() += 1;
        }
    }
    counts
}
