//! Query 1, currency conversion: a map.

use crate::nexmark::{BidRef, EventRef};

/// Every bid, with its price in euros.
///
/// ```sql
/// SELECT auction, bidder, 908 * price / 1000, date_time, channel, url, extra FROM bid
/// ```
///
/// A bid's row depends on no other: large inputs can be processed a segment at a time and the digests merged.
pub fn q1<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<BidRef<'a>> {
    let bids = events.filter_map(|event| match event {
        EventRef::Bid(bid) => Some(BidRef { price: euros(bid.price), ..bid }),
        _ => None,
    });
    bids.collect()
}

/// A price at 0.908 euros for a dollar, rounded down to the cent.
///
/// ```
/// use thalweg_workloads::nexmark::oracle::euros;
///
/// assert_eq!(euros(1_001), 908);
/// assert_eq!(euros(u64::MAX) / 908, u64::MAX / 1_000);
/// ```
#[inline]
pub fn euros(price: u64) -> u64 {
    // Equal to `price * 908 / 1000`, which could overflow.
    price / 1000 * 908 + price % 1000 * 908 / 1000
}
