//! Query 8, monitor new users: a join within windows.

use crate::SECOND;
use crate::digest::row;
use crate::nexmark::EventRef;
use crate::windows::Windows;
use std::collections::HashSet;

/// Tumbling windows of 10 s.
pub const NEW_USERS: Windows = Windows::tumbling(10 * SECOND);

row! {
    /// A person who registered and opened an auction in one window.
    Row8 {
        /// The window's start.
        start: i64,
        /// The person.
        person: u64,
        /// The person's name.
        name: String,
    }
}

/// The persons that opened an auction in the same window of [`NEW_USERS`] in which they registered: one
/// row each, however many auctions they opened.
///
/// ```sql
/// SELECT DISTINCT p.start, p.id, p.name FROM TUMBLE(person, 10 s) p JOIN TUMBLE(auction, 10 s) a
/// ON p.id = a.seller AND p.start = a.start
/// ```
pub fn q8<'a>(events: impl Iterator<Item = EventRef<'a>>) -> Vec<Row8> {
    let mut persons = Vec::new();
    let mut sellers = HashSet::new();
    for event in events {
        match event {
            EventRef::Person(person) => persons.push(person),
            EventRef::Auction(auction) => {
                let starts = NEW_USERS.starts(auction.date_time);
                sellers.extend(starts.map(|start| (start, auction.seller)));
            }
            EventRef::Bid(_) => {}
        }
    }
    let mut rows = Vec::new();
    for person in persons {
        let starts = NEW_USERS.starts(person.date_time);
        let sold = starts.filter(|&start| sellers.contains(&(start, person.id)));
        rows.extend(sold.map(|start| Row8 { start, person: person.id, name: person.name.into() }));
    }
    rows
}
