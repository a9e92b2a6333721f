//! Query 6, average selling price: over the last things that a seller sold.

use super::winners::{average, winners};
use crate::digest::row;
use crate::nexmark::EventRef;
use std::collections::BTreeMap;

/// Over how many final prices.
pub const LAST: usize = 10;

row! {
    /// What a seller gets, as of one auction that closed with a winner.
    Row6 {
        /// Who sells.
        seller: u64,
        /// The auction.
        auction: u64,
        /// When it closed.
        closed: i64,
        /// The average of its final price and of those before it, [`LAST`] at most.
        average: u64,
    }
}

/// For every auction with a [winning bid](fn@super::winners), the average final price of it and of the
/// seller's auctions with winners that closed before, the last [`LAST`] of them altogether.
///
/// A seller's auctions are in the order in which they close; those that close at the same time, in
/// that of their identifiers.
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
