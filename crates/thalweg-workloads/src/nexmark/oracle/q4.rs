//! Query 4, average price for a category: a join, an aggregate of it, and an aggregate of that.

use super::winners::{average, winners};
use crate::digest::row;
use crate::nexmark::EventRef;
use std::collections::BTreeMap;

row! {
    /// The average final price of a category.
    Row4 {
        /// The category.
        category: u64,
        /// The average of the final prices.
        average: u64,
    }
}

/// The average final price of every category in which an auction had a winner, over the whole stream: one row each,
/// over the [winning bids](fn@super::winners) of all its auctions.
///
/// ```sql
/// SELECT category, AVG(price) FROM winners GROUP BY category
/// ```
pub fn q4<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row4> {
    let mut prices = BTreeMap::<u64, Vec<u64>>::new();
    for winner in winners(events) {
        prices.entry(winner.category).or_default().push(winner.price);
    }
    let rows = prices.iter().map(|(&category, all)| Row4 { category, average: average(all) });
    rows.collect()
}
