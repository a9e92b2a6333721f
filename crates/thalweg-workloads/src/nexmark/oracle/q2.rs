//! Query 2, selection: a filter that few events pass.

use crate::digest::row;
use crate::nexmark::EventRef;

/// One auction in this many is selected.
pub const SKIP: u64 = 123;

row! {
    /// A bid for one of the selected auctions.
    Row2 {
        /// The auction.
        auction: u64,
        /// The price offered.
        price: u64,
    }
}

/// The bids for every auction whose identifier is a multiple of [`SKIP`].
///
/// ```sql
/// SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0
/// ```
///
/// A bid's row depends on no other: large inputs can be processed a segment at a time and the digests merged.
pub fn q2<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row2> {
    let rows = events.filter_map(|event| match event {
        EventRef::Bid(bid) if bid.auction % SKIP == 0 => {
            Some(Row2 { auction: bid.auction, price: bid.price })
        }
        _ => None,
    });
    rows.collect()
}
