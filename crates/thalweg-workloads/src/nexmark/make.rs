//! Generates event `n` from a recipe and `n` alone. No state is kept from one event to the next.
//!
//! Parameters that the specification leaves open have Beam's defaults:
//!
//! | what | value |
//! |---|---|
//! | persons : auctions : bids | 1 : 3 : 46 |
//! | first identifier of a person, an auction; of a category | 1000, 1000; 10 |
//! | bids for a hot auction (the first of every 100, until the next hundred begins) | 1 in 2 |
//! | bids by a hot bidder (the second of every 100 persons) | 3 in 4 |
//! | auctions by a hot seller (the first of every 100 persons) | 3 in 4 |
//! | other bids: for one of the last auctions and of those to come | 100 and 10 |
//! | other bidders and sellers: one of the last persons and of those to come | 1000 and 10 |
//! | a price, in cents | 10^x, x uniform between 2 and 8 |
//! | a reserve | the initial bid and one price more |
//! | an auction's length | uniform, on average the time of 100 auctions |
//! | categories | 5 |
//! | a person's, an auction's, a bid's average size, its padding made for that | 200, 500, 100 |
//! | channels: one of four hot ones, or of 10,000 | 1 in 2 each |
//!
//! As in the specification, a bid's size includes neither its channel nor its address. Random choices, and single
//! values with them, differ from those of Beam, which uses Java's generator.

use super::event::{AuctionRef, BidRef, Event, EventRef, PersonRef};
use crate::Recipe;
use crate::random::Random;
use std::io::Write;
use std::ops::Range;

/// The number of events after which the kinds repeat.
pub const ROUND: u64 = 50;
/// Persons in a round; they come first.
pub const PERSONS: u64 = 1;
/// Auctions in a round; they come second.
pub const AUCTIONS: u64 = 3;

const FIRST_PERSON: u64 = 1000;
pub(super) const FIRST_AUCTION: u64 = 1000;
const FIRST_CATEGORY: u64 = 10;
const CATEGORIES: u64 = 5;
const IN_FLIGHT: u64 = 100;
const ACTIVE: u64 = 1000;
/// The number of identifiers ahead of the existing ones that events may refer to.
const LEAD: u64 = 10;
const HOT_EVERY: u64 = 100;
const HOT_AUCTION_RATIO: u64 = 2;
const HOT_SELLER_RATIO: u64 = 4;
const HOT_BIDDER_RATIO: u64 = 4;
const PERSON_SIZE: usize = 200;
const AUCTION_SIZE: usize = 500;
const BID_SIZE: usize = 100;

const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
const CITIES: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const FIRST_NAMES: [&str; 11] = [
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
];
const LAST_NAMES: [&str; 9] =
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
const CHANNELS: u64 = 10_000;
/// Separates the random choices of a channel from those of the event with its number.
const CHANNEL_SEED: u64 = 0x6368_616e_6e65_6c73;

/// Generates any event of a recipe.
///
/// ```
/// use thalweg_workloads::nexmark::{Event, Generator, Scratch, recipe};
///
/// let generator = Generator::new(recipe(42));
/// let whole: Vec<Event> = generator.events(0..1_000).collect();
/// assert_eq!(generator.events(600..700).collect::<Vec<_>>(), whole[600..700]);
///
/// // Without an allocation for each text:
/// let mut scratch = Scratch::default();
/// assert_eq!(generator.event(7, &mut scratch), whole[7].view());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    recipe: Recipe,
}

/// Buffers for the text of an event while it is in use; reusing them for the next event avoids allocations.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Generator {
    /// A generator of the events of `recipe`.
    pub fn new(recipe: Recipe) -> Self {
        Self { recipe }
    }

    /// The recipe.
    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// Event `number`, its text in `scratch`.
    pub fn event<'s>(&self, number: u64, scratch: &'s mut Scratch) -> EventRef<'s> {
        scratch.clear();
        let random = Random::new(self.recipe.seed, number);
        let place = number % ROUND;
        if place < PERSONS {
            EventRef::Person(self.person(number, random, scratch))
        } else if place < PERSONS + AUCTIONS {
            EventRef::Auction(self.auction(number, random, scratch))
        } else {
            EventRef::Bid(self.bid(number, random, scratch))
        }
    }

    /// The events of a range of numbers, with owned text.
    pub fn events(&self, numbers: Range<u64>) -> impl Iterator<Item = Event> + use<> {
        let generator = *self;
        let mut scratch = Scratch::default();
        numbers.map(move |number| generator.event(number, &mut scratch).to_owned())
    }

    fn person<'s>(
        &self,
        number: u64,
        mut random: Random,
        scratch: &'s mut Scratch,
    ) -> PersonRef<'s> {
        scratch.push(random.of(&FIRST_NAMES));
        scratch.push(" ");
        scratch.push(random.of(&LAST_NAMES));
        scratch.end();
        scratch.words(&mut random, 7);
        scratch.push("@");
        scratch.words(&mut random, 5);
        scratch.push(".com");
        scratch.end();
        scratch.card(&mut random);
        scratch.push(random.of(&CITIES));
        scratch.end();
        scratch.push(random.of(&STATES));
        scratch.end();
        scratch.pad(&mut random, 8, PERSON_SIZE);
        let [name, email, credit_card, city, state, extra] = scratch.texts();
        PersonRef {
            id: FIRST_PERSON + last_person(number),
            date_time: self.recipe.time(number),
            name,
            email,
            credit_card,
            city,
            state,
            extra,
        }
    }

    fn auction<'s>(
        &self,
        number: u64,
        mut random: Random,
        scratch: &'s mut Scratch,
    ) -> AuctionRef<'s> {
        let newest = last_person(number);
        let seller = match random.below(HOT_SELLER_RATIO) {
            0 => any_person(number, &mut random),
            _ => newest - newest % HOT_EVERY,
        };
        let category = FIRST_CATEGORY + random.below(CATEGORIES);
        let initial_bid = random.price();
        let reserve = initial_bid + random.price();
        let date_time = self.recipe.time(number);
        // Uniform up to twice the time in which the auctions open that are to be in flight.
        let horizon = self.recipe.span(IN_FLIGHT * ROUND / AUCTIONS).unsigned_abs();
        let length = 1 + random.below(horizon.saturating_mul(2).max(1)).min(i64::MAX as u64 - 1);
        scratch.words(&mut random, 20);
        scratch.end();
        scratch.words(&mut random, 100);
        scratch.end();
        scratch.pad(&mut random, 48, AUCTION_SIZE);
        let [item_name, description, extra] = scratch.texts();
        AuctionRef {
            id: FIRST_AUCTION + last_auction(number),
            seller: FIRST_PERSON + seller,
            category,
            initial_bid,
            reserve,
            date_time,
            expires: date_time.saturating_add_unsigned(length),
            item_name,
            description,
            extra,
        }
    }

    fn bid<'s>(&self, number: u64, mut random: Random, scratch: &'s mut Scratch) -> BidRef<'s> {
        let newest = last_auction(number);
        let auction = match random.below(HOT_AUCTION_RATIO) {
            0 => any_auction(number, &mut random),
            _ => newest - newest % HOT_EVERY,
        };
        let newest = last_person(number);
        let bidder = match random.below(HOT_BIDDER_RATIO) {
            0 => any_person(number, &mut random),
            // Not the first of them, which is a hot seller.
            _ => newest - newest % HOT_EVERY + 1,
        };
        let price = random.price();
        self.channel(&mut random, scratch);
        // Only the four numbers count towards the average size.
        let counted = 32usize;
        scratch.extra(&mut random, counted, BID_SIZE);
        let [channel, url, extra] = scratch.texts();
        BidRef {
            auction: FIRST_AUCTION + auction,
            bidder: FIRST_PERSON + bidder,
            price,
            date_time: self.recipe.time(number),
            channel,
            url,
            extra,
        }
    }

    /// A channel and its address, which is always the same for a channel.
    fn channel(&self, random: &mut Random, scratch: &mut Scratch) {
        let hot = random.below(2) > 0;
        let channel = if hot {
            let hot = random.below(HOT_CHANNELS.len() as u64);
            scratch.push(HOT_CHANNELS[hot as usize]);
            CHANNELS + hot
        } else {
            let channel = random.below(CHANNELS);
            scratch.push("channel-");
            scratch.number(channel);
            channel
        };
        scratch.end();
        let mut random = Random::new(self.recipe.seed ^ CHANNEL_SEED, channel);
        scratch.push("https://www.nexmark.com/");
        for _ in 0..3 {
            random.words(5, b'_', &mut scratch.text);
            scratch.push("/");
        }
        scratch.push("item.htm?query=1");
        if !hot && random.below(10) > 0 {
            scratch.push("&channel_id=");
            scratch.number(u64::from((channel as i32).reverse_bits().unsigned_abs()));
        }
        scratch.end();
    }
}

/// The newest person at event `number`, from 0; that event itself if it is one.
fn last_person(number: u64) -> u64 {
    // One a round, at its start.
    number / ROUND * PERSONS
}

/// The newest auction at event `number`, from 0; that event itself if it is one. Not for a person, as there is no
/// auction before the first person.
fn last_auction(number: u64) -> u64 {
    number / ROUND * AUCTIONS + (number % ROUND - PERSONS).min(AUCTIONS - 1)
}

fn any_person(number: u64, random: &mut Random) -> u64 {
    let persons = last_person(number) + 1;
    let active = persons.min(ACTIVE);
    persons - active + random.below(active + LEAD)
}

fn any_auction(number: u64, random: &mut Random) -> u64 {
    let newest = last_auction(number);
    let oldest = newest.saturating_sub(IN_FLIGHT);
    oldest + random.below(newest - oldest + 1 + LEAD)
}

impl Scratch {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Ends a text: the bytes pushed since the last end.
    fn end(&mut self) {
        self.ends.push(self.text.len());
    }

    fn number(&mut self, number: u64) {
        // Writing to a vector cannot fail.
        let _ = write!(self.text, "{number}");
    }

    /// Appends letters and spaces, without spaces at the ends.
    fn words(&mut self, random: &mut Random, most: u64) {
        let start = self.text.len();
        random.words(most, b' ', &mut self.text);
        self.text.truncate(start + self.text[start..].trim_ascii_end().len());
        let spaces = self.text.len() - start - self.text[start..].trim_ascii_start().len();
        self.text.drain(start..start + spaces);
    }

    fn card(&mut self, random: &mut Random) {
        for block in 0..4 {
            if block > 0 {
                self.push(" ");
            }
            let digits = random.below(10_000);
            self.text.extend([1_000, 100, 10, 1].map(|unit| b'0' + (digits / unit % 10) as u8));
        }
        self.end();
    }

    /// Appends padding for a record with `numbers` bytes of numbers and all texts so far.
    fn pad(&mut self, random: &mut Random, numbers: usize, average: usize) {
        self.extra(random, numbers + self.text.len(), average);
    }

    /// Appends letters that bring a record of `size` to `average` on average, plus or minus a fifth of their number.
    fn extra(&mut self, random: &mut Random, size: usize, average: usize) {
        let missing = average.saturating_sub(size);
        let spread = (missing + 2) / 5;
        let length = missing - spread + random.below(2 * spread as u64) as usize;
        random.letters(length, &mut self.text);
        self.end();
    }

    fn texts<const N: usize>(&self) -> [&str; N] {
        let text = std::str::from_utf8(&self.text).expect("all that is pushed is ASCII");
        let mut start = 0;
        std::array::from_fn(|place| {
            let end = self.ends[place];
            &text[std::mem::replace(&mut start, end)..end]
        })
    }
}
