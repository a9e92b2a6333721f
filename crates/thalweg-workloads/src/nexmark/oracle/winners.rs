//! The winning bids, which queries 4 and 6 average.

use crate::nexmark::EventRef;
use std::cmp::Reverse;
use std::collections::HashMap;

/// An auction with a winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Winner {
    /// The auction.
    pub auction: u64,
    /// The seller.
    pub seller: u64,
    /// The auction's category.
    pub category: u64,
    /// When the auction closed.
    pub closed: i64,
    /// The final price.
    pub price: u64,
    /// The time of the winning bid.
    pub date_time: i64,
}

/// The winning bid of every auction that has one.
///
/// A bid counts if its time is at or after the auction's opening and before its `expires`, and its price is at least
/// the reserve. The highest price wins; of equal prices, the earliest bid. If two bids are equal in both, they give
/// the same [`Winner`].
pub fn winners<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Winner> {
    let mut auctions = Vec::new();
    let mut bids = HashMap::<u64, Vec<(u64, i64)>>::new();
    for event in events {
        match event {
            EventRef::Auction(auction) => auctions.push(auction),
            EventRef::Bid(bid) => {
                bids.entry(bid.auction).or_default().push((bid.price, bid.date_time));
            }
            EventRef::Person(_) => {}
        }
    }
    let sold = auctions.iter().filter_map(|auction| {
        let all = bids.get(&auction.id)?.iter().copied();
        let valid = all.filter(|&(price, time)| {
            (auction.date_time..auction.expires).contains(&time) && price >= auction.reserve
        });
        let (price, date_time) = valid.max_by_key(|&(price, time)| (price, Reverse(time)))?;
        Some(Winner {
            auction: auction.id,
            seller: auction.seller,
            category: auction.category,
            closed: auction.expires,
            price,
            date_time,
        })
    });
    sold.collect()
}

/// The average of prices, rounded down; 0 if there are none.
pub(super) fn average(prices: &[u64]) -> u64 {
    let sum: u128 = prices.iter().map(|&price| u128::from(price)).sum();
    (sum / prices.len().max(1) as u128) as u64
}
