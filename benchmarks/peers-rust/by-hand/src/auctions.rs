//! Auctions until they close, for queries 4 and 6 of Nexmark.
//!
//! What happens waits until its slide is complete: then every auction that a bid of the slide can be
//! for is known, and no bid has to wait for its auction.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use thalweg_workloads::SECOND;
use thalweg_workloads::nexmark::EventRef;
use thalweg_workloads::windows::Windows;

/// The slides in which auctions are kept: most last a fraction of one.
pub const SLIDES: Windows = Windows::tumbling(SECOND);

/// What can happen to an auction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Happening {
    /// It is opened.
    Opened {
        /// Who sells.
        seller: u64,
        /// What is sold.
        category: u64,
        /// From when on bids count.
        opened: i64,
        /// From when on they do not.
        expires: i64,
        /// The least price.
        reserve: u64,
    },
    /// Somebody bids.
    Offered {
        /// How much.
        price: u64,
        /// When.
        time: i64,
    },
}

/// What an event means to which auction; `None` of a person.
#[inline]
pub fn happening(event: EventRef<'_>) -> Option<(u64, Happening)> {
    match event {
        EventRef::Auction(auction) => Some((
            auction.id,
            Happening::Opened {
                seller: auction.seller,
                category: auction.category,
                opened: auction.date_time,
                expires: auction.expires,
                reserve: auction.reserve,
            },
        )),
        EventRef::Bid(bid) => {
            Some((bid.auction, Happening::Offered { price: bid.price, time: bid.date_time }))
        }
        EventRef::Person(_) => None,
    }
}

/// A thing that was sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winner {
    /// The auction.
    pub auction: u64,
    /// Who sold.
    pub seller: u64,
    /// The auction's category.
    pub category: u64,
    /// When the auction closed.
    pub closed: i64,
    /// The final price.
    pub price: u64,
}

#[derive(Clone, Copy)]
struct Open {
    seller: u64,
    category: u64,
    opened: i64,
    expires: i64,
    reserve: u64,
    best: Option<(u64, Reverse<i64>)>,
}

/// The auctions of a worker.
#[derive(Clone, Default)]
pub struct Auctions {
    waiting: BTreeMap<i64, Vec<(u64, Happening)>>,
    open: FxHashMap<u64, Open>,
    closing: BTreeMap<i64, Vec<u64>>,
}

impl Auctions {
    /// Takes in what happens to an auction in the slide that starts there.
    #[inline]
    pub fn add(&mut self, slide: i64, auction: u64, happening: Happening) {
        self.waiting.entry(slide).or_default().push((auction, happening));
    }

    /// All of a slide, and of those before, has been added. `sold` gets the winners of the auctions
    /// that close in it, with the slide; `later` the slides in which others will close.
    pub fn complete(
        &mut self,
        slide: i64,
        mut sold: impl FnMut(i64, Winner),
        mut later: impl FnMut(i64),
    ) {
        loop {
            let next = self.waiting.first_key_value().into_iter().map(|(at, _)| *at);
            let next = next.chain(self.closing.first_key_value().map(|(at, _)| *at)).min();
            let Some(now) = next.filter(|next| *next <= slide) else { return };
            let waiting = self.waiting.remove(&now).unwrap_or_default();
            self.happen(now, &waiting, &mut later);
            for auction in self.closing.remove(&now).unwrap_or_default() {
                let Some(open) = self.open.remove(&auction) else { continue };
                if let Some((price, _)) = open.best {
                    let Open { seller, category, expires: closed, .. } = open;
                    sold(now, Winner { auction, seller, category, closed, price });
                }
            }
        }
    }

    fn happen(&mut self, now: i64, waiting: &[(u64, Happening)], later: &mut impl FnMut(i64)) {
        for &(auction, happening) in waiting {
            let Happening::Opened { seller, category, opened, expires, reserve } = happening else {
                continue;
            };
            let open = Open { seller, category, opened, expires, reserve, best: None };
            self.open.insert(auction, open);
            let slide = SLIDES.last_start(expires);
            let closing = self.closing.entry(slide).or_insert_with(|| {
                if slide > now {
                    later(slide);
                }
                Vec::new()
            });
            closing.push(auction);
        }
        for &(auction, happening) in waiting {
            let Happening::Offered { price, time } = happening else { continue };
            let Some(open) = self.open.get_mut(&auction) else { continue };
            if (open.opened..open.expires).contains(&time) && price >= open.reserve {
                open.best = open.best.max(Some((price, Reverse(time))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::nexmark::{Segments, oracle, recipe};

    #[test]
    fn winners_are_those_of_the_definition() {
        let segments = Segments::generate(recipe(3), 200_000);
        let mut auctions = Auctions::default();
        // Every other event first, so that many bids are added before their auctions.
        for odd in [1, 0] {
            let events = segments.events().enumerate().filter(|(at, _)| at % 2 == odd);
            for (_, event) in events {
                if let Some((auction, happening)) = happening(event) {
                    auctions.add(SLIDES.last_start(event.time()), auction, happening);
                }
            }
        }
        let (mut found, mut slides) = (Vec::new(), Vec::new());
        auctions.complete(i64::MAX, |_, winner| found.push(winner), |slide| slides.push(slide));
        let mut expected: Vec<Winner> = oracle::winners(segments.events())
            .into_iter()
            .map(|oracle::Winner { auction, seller, category, closed, price, .. }| Winner {
                auction,
                seller,
                category,
                closed,
                price,
            })
            .collect();
        found.sort_unstable_by_key(|winner| winner.auction);
        expected.sort_unstable_by_key(|winner| winner.auction);
        assert_eq!(found, expected);
        slides.dedup();
        assert!(slides.is_sorted() && slides.len() > 15, "each is named once: {slides:?}");
    }
}
