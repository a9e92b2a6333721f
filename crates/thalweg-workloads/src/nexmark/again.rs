//! Replayed events: a stream longer than memory, at the cost of reading it. Pure arithmetic.

use super::Segments;
use super::event::{AuctionRef, BidRef, EventRef, PersonRef};
use super::make::{AUCTIONS, FIRST_AUCTION, PERSONS, ROUND};
use crate::Recipe;
use std::num::{NonZeroU32, NonZeroUsize};

/// The number of replayed events must be a multiple of this: hot persons and auctions are the first of every hundred.
pub const PIECE: u64 = 100 * ROUND;

/// The difference between replayed events and their originals.
///
/// Identifiers and times are those of the events that are later by the given number; all else is unchanged, and so
/// are the distributions.
///
/// ```
/// use thalweg_workloads::nexmark::again::{Later, PIECE};
/// use thalweg_workloads::nexmark::{EventRef, Segments, recipe};
///
/// let piece = Segments::generate(recipe(1), PIECE);
/// let later = Later::new(recipe(1), 3 * PIECE);
/// let twice = piece.events().chain(piece.events().map(|event| later.event(event)));
/// assert!(twice.map(|event| event.time()).is_sorted());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later {
    persons: u64,
    auctions: u64,
    time: i64,
}

impl Later {
    /// The shift by this number of events, a multiple of [`PIECE`].
    pub fn new(recipe: Recipe, events: u64) -> Self {
        let rounds = events / ROUND;
        Self { persons: rounds * PERSONS, auctions: rounds * AUCTIONS, time: recipe.span(events) }
    }

    /// The replayed form of an event.
    #[inline(always)]
    pub fn event<'a>(&self, event: EventRef<'a>) -> EventRef<'a> {
        let Self { persons, auctions, time } = *self;
        match event {
            EventRef::Person(person) => EventRef::Person(PersonRef {
                id: person.id + persons,
                date_time: person.date_time + time,
                ..person
            }),
            EventRef::Auction(auction) => EventRef::Auction(AuctionRef {
                id: auction.id + auctions,
                seller: auction.seller + persons,
                date_time: auction.date_time + time,
                expires: auction.expires + time,
                ..auction
            }),
            EventRef::Bid(bid) => EventRef::Bid(BidRef {
                auction: bid.auction + auctions,
                bidder: bid.bidder + persons,
                date_time: bid.date_time + time,
                ..bid
            }),
        }
    }
}

/// A number of events that is replayed endlessly, a block at a time.
///
/// ```
/// use thalweg_workloads::nexmark::again::{BLOCK, Tape};
/// use thalweg_workloads::nexmark::recipe;
///
/// let tape = Tape::record(recipe(1), 5_000);
/// let times: Vec<i64> = (0..12).flat_map(|n| tape.block(n)).map(|event| event.time()).collect();
/// let numbers = times.iter().map(|time| tape.number(*time));
/// assert!(numbers.eq(0..12 * BLOCK));
/// ```
#[derive(Clone, Debug)]
pub struct Tape {
    blocks: Segments,
}

/// Events in a block of a tape.
pub const BLOCK: u64 = 1_000;

impl Tape {
    /// Generates the events `0..events`, or a few more, so that they can be replayed.
    pub fn record(recipe: Recipe, events: u64) -> Self {
        let block = NonZeroU32::new(BLOCK as u32).unwrap_or(NonZeroU32::MIN);
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let events = events.max(1).next_multiple_of(PIECE);
        Self { blocks: Segments::generate_in(recipe, events, block, threads) }
    }

    /// The `n`-th thousand of the stream's events, for any `n`.
    pub fn block(&self, n: u64) -> impl Iterator<Item = EventRef<'_>> {
        let blocks = self.blocks.segments();
        let (turn, place) = (n / blocks.len() as u64, n % blocks.len() as u64);
        let later = Later::new(self.blocks.recipe(), turn * self.blocks.count());
        blocks[place as usize].events().map(move |event| later.event(event))
    }

    /// The number of the event at that time.
    pub fn number(&self, time: i64) -> u64 {
        let recipe = self.blocks.recipe();
        let since = u128::from(time.saturating_sub(Recipe::START).max(0).unsigned_abs());
        (since * u128::from(recipe.rate.get())).div_ceil(1_000_000) as u64
    }
}

/// The number of the event that opens an auction.
///
/// ```
/// use thalweg_workloads::nexmark::{EventRef, Segments, again::opening, recipe};
///
/// for (number, event) in (0..).zip(Segments::generate(recipe(1), 200).events()) {
///     if let EventRef::Auction(auction) = event {
///         assert_eq!(opening(auction.id), number);
///     }
/// }
/// ```
pub fn opening(auction: u64) -> u64 {
    let at = auction.saturating_sub(FIRST_AUCTION);
    at / AUCTIONS * ROUND + PERSONS + at % AUCTIONS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nexmark::{Generator, Scratch, recipe};

    #[test]
    fn further_events_continue_identifiers_and_times() {
        let generator = Generator::new(recipe(3));
        let later = Later::new(recipe(3), 2 * PIECE);
        let (mut scratch, mut other) = (Scratch::default(), Scratch::default());
        for number in PIECE..PIECE + 500 {
            let again = later.event(generator.event(number, &mut scratch));
            let expected = generator.event(number + 2 * PIECE, &mut other);
            assert_eq!(again.time(), expected.time());
            match (again, expected) {
                (EventRef::Person(a), EventRef::Person(b)) => assert_eq!(a.id, b.id),
                (EventRef::Auction(a), EventRef::Auction(b)) => {
                    assert_eq!(a.id, b.id);
                    assert!(a.seller.abs_diff(b.seller) < 1_200 && a.expires > a.date_time);
                }
                (EventRef::Bid(a), EventRef::Bid(b)) => {
                    assert!(a.auction.abs_diff(b.auction) < 250, "{} {}", a.auction, b.auction);
                    assert!(a.bidder.abs_diff(b.bidder) < 1_200);
                }
                _ => panic!("another kind of event"),
            }
        }
    }
}
