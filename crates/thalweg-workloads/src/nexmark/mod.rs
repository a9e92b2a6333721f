//! Nexmark: an auction house. Persons register, open auctions, and bid.
//!
//! Events follow the public specification (Tucker and others, *NEXMark, a benchmark for queries over
//! data streams*, 2008) in the form that Apache Beam's generator gave it, with the channel and the
//! address that later versions add to a bid. Every 50 events are 1 person, 3 auctions and 46 bids, in
//! this order; identifiers grow with the event number, and so does time, at [`RATE`]. [`mod@make`] has
//! the details, [`encoding`] the bytes, [`oracle`] the queries.

pub mod again;
pub mod encoding;
mod event;
pub mod make;
pub mod oracle;

pub use encoding::{Encoded, decode, encode};
pub use event::{Auction, AuctionRef, Bid, BidRef, Event, EventRef, Person, PersonRef};
pub use make::{Generator, Scratch};

use crate::Recipe;
use std::num::NonZeroU64;

/// The number of events per second of event time, as in Beam: the same for every system and query.
pub const RATE: NonZeroU64 = NonZeroU64::new(10_000).unwrap();

/// The benchmark's events under `seed`.
pub const fn recipe(seed: u64) -> Recipe {
    Recipe { seed, rate: RATE }
}

/// Encoded events of Nexmark.
pub type Segments = crate::segments::Segments<Encoded>;

/// A piece of them.
pub type Segment = crate::segments::Segment<Encoded>;
