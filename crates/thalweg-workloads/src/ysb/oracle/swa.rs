//! AIR's simple windowed aggregation: everything counted.

use crate::SECOND;
use crate::digest::row;
use crate::windows::Windows;
use crate::ysb::Event;
use std::collections::BTreeMap;

/// 10 s, side by side.
pub const SWA: Windows = Windows::tumbling(10 * SECOND);

row! {
    /// How much happened.
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
