//! Query 6, average selling price: over the last auctions of a seller that had a winner.

use super::winners::{average, winners};
use crate::digest::row;
use crate::nexmark::EventRef;
use std::collections::BTreeMap;

/// The number of final prices in an average.
pub const LAST: usize = 10;

row! {
    /// A seller's average, as of one auction that closed with a winner.
    Row6 {
        /// The seller.
        seller: u64,
        /// The auction.
        auction: u64,
        /// When it closed.
        closed: i64,
        /// The average of its final price and of those before it, [`LAST`] at most.
        average: u64,
    }
}

/// For every auction with a [winning bid](fn@super::winners), the average of its final price and of those of the
/// seller's auctions with winners that closed before it, over at most [`LAST`] of them in all.
///
/// A seller's auctions are ordered by the time at which they close; auctions that close at the same time, by their
/// identifiers.
///
/// ```sql
/// SELECT seller, auction, closed, AVG(price) OVER
///   (PARTITION BY seller ORDER BY closed, auction ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM winners
/// ```
pub fn q6<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row6> {
    let mut sellers = BTreeMap::<u64, Vec<_>>::new();
    for winner in winners(events) {
        sellers.entry(winner.seller).or_default().push(winner);
    }
    let mut rows = Vec::new();
    for (seller, mut sold) in sellers {
        sold.sort_unstable_by_key(|winner| (winner.closed, winner.auction));
        let prices: Vec<u64> = sold.iter().map(|winner| winner.price).collect();
        for (place, winner) in sold.iter().enumerate() {
            let last = &prices[(place + 1).saturating_sub(LAST)..=place];
            let (auction, closed) = (winner.auction, winner.closed);
            rows.push(Row6 { seller, auction, closed, average: average(last) });
        }
    }
    rows
}
