//! Query 7, highest bid: the maximum of each window, over all keys.

use crate::SECOND;
use crate::digest::row;
use crate::nexmark::EventRef;
use crate::windows::Windows;
use std::collections::BTreeMap;

/// Tumbling windows of 10 s.
pub const HIGHEST_BID: Windows = Windows::tumbling(10 * SECOND);

row! {
    /// A bid that is the highest of its window.
    Row7 {
        /// The window's start.
        start: i64,
        /// The auction.
        auction: u64,
        /// The person who made the bid.
        bidder: u64,
        /// The price.
        price: u64,
        /// The time of the bid.
        date_time: i64,
    }
}

/// The bids with the highest price in each window of [`HIGHEST_BID`]: all of them, if several have the same price.
///
/// ```sql
/// SELECT start, auction, bidder, price, date_time FROM TUMBLE(bid, 10 s) b
/// WHERE price = (SELECT MAX(price) FROM TUMBLE(bid, 10 s) WHERE start = b.start)
/// ```
pub fn q7<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row7> {
    let mut windows = BTreeMap::<i64, Vec<Row7>>::new();
    for event in events {
        let EventRef::Bid(bid) = event else { continue };
        for start in HIGHEST_BID.starts(bid.date_time) {
            let highest = windows.entry(start).or_default();
            // All bids in `highest` have the same price.
            if highest.first().is_some_and(|best| best.price < bid.price) {
                highest.clear();
            }
            if highest.first().is_none_or(|best| best.price == bid.price) {
                let (auction, bidder, price) = (bid.auction, bid.bidder, bid.price);
                highest.push(Row7 { start, auction, bidder, price, date_time: bid.date_time });
            }
        }
    }
    windows.into_values().flatten().collect()
}
