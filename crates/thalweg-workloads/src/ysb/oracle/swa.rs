//! AIR's simple windowed aggregation: counts all events.

use crate::SECOND;
use crate::digest::row;
use crate::windows::Windows;
use crate::ysb::Event;
use std::collections::BTreeMap;

/// Tumbling windows of 10 s.
pub const SWA: Windows = Windows::tumbling(10 * SECOND);

row! {
    /// The number of events in a window.
    RowSwa {
        /// The window's start.
        start: i64,
        /// Events in the window, of whatever type.
        events: u64,
    }
}

/// The number of events in each window of [`SWA`] that has any.
pub fn swa(events: impl Iterator<Item = Event>) -> Vec<RowSwa> {
    let mut counts = BTreeMap::<i64, u64>::new();
    for event in events {
        for start in SWA.starts(event.time) {
            *counts.entry(start).or_default() += 1;
        }
    }
    counts.into_iter().map(|(start, events)| RowSwa { start, events }).collect()
}
