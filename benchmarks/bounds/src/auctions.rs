//! Queries 4 and 6 of Nexmark by hand: threads take a stretch of the events each, in which almost every bid
//! finds its auction in an array; the few whose auction was opened in an earlier stretch are added when all
//! is read.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use thalweg_workloads::digest::{Digest, digest};
use thalweg_workloads::nexmark::oracle::{LAST, Row4, Row6};
use thalweg_workloads::nexmark::{AuctionRef, BidRef, EventRef, Segment};

use crate::streams::merged;
use crate::threads::{on_each, part};

#[derive(Clone, Copy, Default)]
struct Auction {
    seller: u64,
    category: u64,
    opened: i64,
    expires: i64,
    reserve: u64,
    /// The best price so far, 0 before there is one.
    price: u64,
    time: i64,
}

impl Auction {
    /// The price and time of a bid, if it is better than those before.
    #[inline]
    fn offer(&mut self, price: u64, time: i64) {
        let valid = (self.opened..self.expires).contains(&time) & (price >= self.reserve);
        if valid && (price, Reverse(time)) > (self.price, Reverse(self.time)) {
            (self.price, self.time) = (price, time);
        }
    }
}

/// The auctions opened in a stretch, whose identifiers follow one another, and the bids for others.
#[derive(Default)]
struct Stretch {
    first: u64,
    auctions: Vec<Auction>,
    foreign: Vec<(u64, u64, i64)>,
}

impl Stretch {
    fn read(segments: &[Segment]) -> Self {
        let mut all = Self::default();
        for event in segments.iter().flat_map(Segment::events) {
            match event {
                EventRef::Bid(BidRef { auction, price, date_time, .. }) => {
                    match all.auctions.get_mut(auction.wrapping_sub(all.first) as usize) {
                        Some(auction) => auction.offer(price, date_time),
                        None => all.foreign.push((auction, price, date_time)),
                    }
                }
                EventRef::Auction(auction) => all.open(auction),
                EventRef::Person(_) => {}
            }
        }
        all
    }

    #[inline]
    fn open(&mut self, auction: AuctionRef<'_>) {
        let AuctionRef { id, seller, category, date_time: opened, expires, reserve, .. } = auction;
        if self.auctions.is_empty() {
            self.first = id;
        }
        let at = id.wrapping_sub(self.first) as usize;
        assert_eq!(at, self.auctions.len(), "identifiers follow one another");
        self.auctions.push(Auction {
            seller,
            category,
            opened,
            expires,
            reserve,
            ..Auction::default()
        });
    }

    fn sold(&self) -> impl Iterator<Item = (u64, &Auction)> {
        (self.first..).zip(&self.auctions).filter(|(_, auction)| auction.price > 0)
    }
}

/// All auctions with their best bids.
fn stretches(segments: &[Segment], cores: usize) -> Vec<Stretch> {
    let mut all = on_each(cores, |index| {
        let mine = part(segments.len() as u64, index, cores);
        Stretch::read(&segments[mine.start as usize..mine.end as usize])
    });
    let foreign: Vec<_> =
        all.iter_mut().flat_map(|stretch| std::mem::take(&mut stretch.foreign)).collect();
    for (auction, price, time) in foreign {
        let found = all.iter_mut().find_map(|stretch| {
            stretch.auctions.get_mut(auction.wrapping_sub(stretch.first) as usize)
        });
        // An auction that was named ahead may never be opened.
        if let Some(found) = found {
            found.offer(price, time);
        }
    }
    all
}

pub(crate) fn q4(segments: &[Segment], cores: usize) -> Digest {
    let stretches = stretches(segments, cores);
    let parts = on_each(cores, |index| {
        let mut prices = FxHashMap::<u64, (u64, u64)>::default();
        for (_, auction) in stretches[index].sold() {
            let (sum, count) = prices.entry(auction.category).or_default();
            *sum += auction.price;
            *count += 1;
        }
        prices
    });
    let mut all = FxHashMap::<u64, (u64, u64)>::default();
    for (category, (sum, count)) in parts.into_iter().flatten() {
        let so_far = all.entry(category).or_default();
        *so_far = (so_far.0 + sum, so_far.1 + count);
    }
    digest(all.into_iter().map(|(category, (sum, count))| Row4 { category, average: sum / count }))
}

pub(crate) fn q6(segments: &[Segment], cores: usize) -> Digest {
    let stretches = stretches(segments, cores);
    merged(on_each(cores, |index| {
        let all = stretches.iter().flat_map(Stretch::sold);
        let mine = all.filter(|(_, auction)| auction.seller % cores as u64 == index as u64);
        let mut sold: Vec<(u64, i64, u64, u64)> = mine
            .map(|(id, auction)| (auction.seller, auction.expires, id, auction.price))
            .collect();
        sold.sort_unstable();
        let mut digest = Digest::default();
        for of_seller in sold.chunk_by(|a, b| a.0 == b.0) {
            let mut sum = 0;
            for (at, &(seller, closed, auction, price)) in of_seller.iter().enumerate() {
                sum += price;
                if at >= LAST {
                    sum -= of_seller[at - LAST].3;
                }
                let average = sum / (at + 1).min(LAST) as u64;
                digest.add(&Row6 { seller, auction, closed, average });
            }
        }
        digest
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::nexmark::{Segments, oracle, recipe};

    #[test]
    fn answers_are_those_of_the_definition() {
        let segments = Segments::generate(recipe(7), 300_000);
        for cores in [1, 3] {
            assert_eq!(q4(segments.segments(), cores), digest(oracle::q4(segments.events())));
            assert_eq!(q6(segments.segments(), cores), digest(oracle::q6(segments.events())));
        }
    }
}
