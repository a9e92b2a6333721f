//! Query 3, local item suggestion: a join over all of both streams.

use crate::digest::row;
use crate::nexmark::EventRef;
use std::collections::HashMap;

/// The selected category.
pub const CATEGORY: u64 = 10;

/// The selected states.
pub const STATES: [&str; 3] = ["OR", "ID", "CA"];

row! {
    /// An auction nearby.
    Row3 {
        /// The seller's name.
        name: String,
        /// Where the seller lives.
        city: String,
        /// The seller's state.
        state: String,
        /// The auction.
        auction: u64,
    }
}

/// The sellers in category [`CATEGORY`] that live in one of [`STATES`]: a row for every such auction, whether the
/// person or the auction came first, and however long ago.
///
/// ```sql
/// SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
/// WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
/// ```
pub fn q3<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row3> {
    let mut near = HashMap::new();
    let mut auctions = Vec::new();
    for event in events {
        match event {
            EventRef::Person(person) if STATES.contains(&person.state) => {
                near.insert(person.id, person);
            }
            EventRef::Auction(auction) if auction.category == CATEGORY => auctions.push(auction),
            _ => {}
        }
    }
    let rows = auctions.iter().filter_map(|auction| {
        let person = near.get(&auction.seller)?;
        Some(Row3 {
            name: person.name.to_owned(),
            city: person.city.to_owned(),
            state: person.state.to_owned(),
            auction: auction.id,
        })
    });
    rows.collect()
}
