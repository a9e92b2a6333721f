//! The encoding of events: compact, little-endian, one after the other without separators.
//!
//! An event is a byte for its kind (0 a person, 1 an auction, 2 a bid), then its numbers, 8 bytes each in the order
//! in which the record declares them, then the length of each text as LEB128, then the texts. Only the output of
//! [`encode`] can be decoded, so that equal events are equal bytes.

use super::event::{AuctionRef, BidRef, EventRef, PersonRef};
use super::make::{Generator, Scratch};
use crate::Recipe;
use crate::error::{DecodeError, Problem};
use crate::segments::Format;
use crate::wire::{Reader, put_texts, put_words};
use std::ops::Range;

const PERSON: u8 = 0;
const AUCTION: u8 = 1;
const BID: u8 = 2;

/// Appends an event.
///
/// ```
/// use thalweg_workloads::nexmark::{Generator, decode, encode, recipe};
///
/// let mut bytes = Vec::new();
/// let events: Vec<_> = Generator::new(recipe(1)).events(0..3).collect();
/// events.iter().for_each(|event| encode(&event.view(), &mut bytes));
///
/// let mut rest = bytes.as_slice();
/// for event in &events {
///     assert_eq!(decode(&mut rest)?, event.view());
/// }
/// assert!(rest.is_empty() && decode(&mut rest).is_err());
/// # Ok::<(), thalweg_workloads::error::DecodeError>(())
/// ```
#[inline]
pub fn encode(event: &EventRef<'_>, out: &mut Vec<u8>) {
    match event {
        EventRef::Person(person) => {
            out.push(PERSON);
            put_words([person.id, person.date_time as u64], out);
            let PersonRef { name, email, credit_card, city, state, extra, .. } = person;
            put_texts(&[name, email, credit_card, city, state, extra], out);
        }
        EventRef::Auction(auction) => {
            out.push(AUCTION);
            let AuctionRef {
                id, seller, category, initial_bid, reserve, date_time, expires, ..
            } = *auction;
            let times = [date_time as u64, expires as u64];
            put_words([id, seller, category, initial_bid, reserve, times[0], times[1]], out);
            put_texts(&[auction.item_name, auction.description, auction.extra], out);
        }
        EventRef::Bid(bid) => {
            out.push(BID);
            put_words([bid.auction, bid.bidder, bid.price, bid.date_time as u64], out);
            put_texts(&[bid.channel, bid.url, bid.extra], out);
        }
    }
}

/// Decodes one event from the front of `input`, and advances `input`; its texts are borrowed.
///
/// # Errors
/// If the bytes do not encode an event; `input` is then unchanged. Never panics, whatever the bytes.
#[inline(always)]
pub fn decode<'a>(input: &mut &'a [u8]) -> Result<EventRef<'a>, DecodeError> {
    let mut reader = Reader::new(input);
    let event = match reader.byte()? {
        BID => {
            let [auction, bidder, price, date_time] = reader.words()?;
            let [channel, url, extra] = reader.texts()?;
            let date_time = date_time as i64;
            EventRef::Bid(BidRef { auction, bidder, price, date_time, channel, url, extra })
        }
        AUCTION => {
            let [id, seller, category, initial_bid, reserve, date_time, expires] =
                reader.words()?;
            let [item_name, description, extra] = reader.texts()?;
            EventRef::Auction(AuctionRef {
                id,
                seller,
                category,
                initial_bid,
                reserve,
                date_time: date_time as i64,
                expires: expires as i64,
                item_name,
                description,
                extra,
            })
        }
        PERSON => {
            let [id, date_time] = reader.words()?;
            let [name, email, credit_card, city, state, extra] = reader.texts()?;
            let date_time = date_time as i64;
            EventRef::Person(PersonRef {
                id,
                date_time,
                name,
                email,
                credit_card,
                city,
                state,
                extra,
            })
        }
        kind => return Err(reader.error(Problem::Unknown(kind), 1)),
    };
    *input = reader.rest();
    Ok(event)
}

/// Nexmark's events for [`Segments`](super::Segments).
#[derive(Clone, Copy, Debug)]
pub struct Encoded;

impl Format for Encoded {
    const MAGIC: [u8; 8] = *b"nexmark\n";
    const NAME: &'static str = "Nexmark";
    const VERSION: u32 = 1;
    type Event<'a> = EventRef<'a>;

    fn append(recipe: Recipe, numbers: Range<u64>, out: &mut Vec<u8>) {
        let generator = Generator::new(recipe);
        let mut scratch = Scratch::default();
        for number in numbers {
            encode(&generator.event(number, &mut scratch), out);
        }
    }

    #[inline(always)]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<EventRef<'a>, DecodeError> {
        decode(input)
    }
}
