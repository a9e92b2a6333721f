//! The benchmark as AIR extends it (its figure 1): two streams counted separately, and joined by window.

use super::ysb::count;
use crate::SECOND;
use crate::digest::{Row, RowHash, tabbed};
use crate::windows::Windows;
use crate::ysb::{Campaigns, Event, EventType};
use std::fmt;

/// Windows of 10 s every 10 s: AIR describes sliding windows of 10 s, of which there are 30 in 300 s.
pub const STAR: Windows = Windows::sliding(10 * SECOND, 10 * SECOND);

/// The clicks and views of a campaign in a window.
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowStar {
    /// The window's start.
    pub start: i64,
    /// The campaign.
    pub campaign: u32,
    /// Clicks on its advertisements in the window.
    pub clicks: u64,
    /// Views of them.
    pub views: u64,
}

impl RowStar {
    /// The number of clicks per view.
    pub fn ratio(&self) -> f64 {
        self.clicks as f64 / self.views as f64
    }
}

/// Hashes the fields; the ratio follows from them.
impl Row for RowStar {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        hash.word(self.start as u64);
        hash.word(u64::from(self.campaign));
        hash.word(self.clicks);
        hash.word(self.views);
    }
}

/// Writes the fields, and the ratio with six decimals.
impl fmt::Display for RowStar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = format!("{:.6}", self.ratio());
        tabbed(f, &[&self.start, &self.campaign, &self.clicks, &self.views, &ratio])
    }
}

/// The clicks and views of every campaign in each of `windows` in which it has both.
///
/// Events are split into clicks and views, others dropped; each is joined with the table of campaigns
/// and counted by campaign and window; and the two counts of a campaign and window are joined. The
/// benchmark's windows are [`STAR`]; with a shorter slide they overlap.
pub fn ysb_star(
    events: impl Iterator<Item = Event>,
    campaigns: &Campaigns,
    windows: Windows,
) -> Vec<RowStar> {
    let events: Vec<Event> = events.collect();
    let counts = |wanted| {
        let chosen = events.iter().copied().filter(move |event| event.event_type == wanted);
        count(chosen, campaigns, windows)
    };
    let (clicks, views) = (counts(EventType::Click), counts(EventType::View));
    let rows = clicks.into_iter().filter_map(|((start, campaign), clicks)| {
        let views = *views.get(&(start, campaign))?;
        Some(RowStar { start, campaign, clicks, views })
    });
    rows.collect()
}
