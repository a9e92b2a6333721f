//! Query 5, hot items: a count in sliding windows, and the largest of each.

use crate::SECOND;
use crate::digest::row;
use crate::nexmark::EventRef;
use crate::windows::Windows;
use std::collections::{BTreeMap, HashMap};

/// 10 s every 2 s.
pub const HOT_ITEMS: Windows = Windows::sliding(10 * SECOND, 2 * SECOND);

row! {
    /// An auction that had the most bids of a window.
    Row5 {
        /// The window's start.
        start: i64,
        /// The auction.
        auction: u64,
        /// The number of bids for it in the window.
        bids: u64,
    }
}

/// The auctions with the most bids in each window of [`HOT_ITEMS`]: all of them, if several have the same number.
///
/// ```sql
/// WITH counts AS (SELECT start, auction, COUNT(*) AS bids FROM HOP(bid, 2 s, 10 s) GROUP BY start, auction)
/// SELECT * FROM counts c WHERE bids = (SELECT MAX(bids) FROM counts WHERE start = c.start)
/// ```
pub fn q5<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row5> {
    let mut counts = BTreeMap::<i64, HashMap<u64, u64>>::new();
    for event in events {
        let EventRef::Bid(bid) = event else { continue };
        for start in HOT_ITEMS.starts(bid.date_time) {
            *counts.entry(start).or_default().entry(bid.auction).or_default() += 1;
        }
    }
    let mut rows = Vec::new();
    for (start, auctions) in counts {
        let most = auctions.values().copied().max();
        let hot = auctions.into_iter().filter(|&(_, bids)| Some(bids) == most);
        rows.extend(hot.map(|(auction, bids)| Row5 { start, auction, bids }));
    }
    rows
}
