//! The events of the auction house: owned records, and views of them whose text is borrowed.
//!
//! Times are microseconds since 1970, prices cents. `Display` writes the fields separated by tabs, and text as it is.

use crate::digest::{Field, Row, RowHash, tabbed};
use std::fmt;

/// Declares a record and its view: first the numbers, then the texts.
macro_rules! record {
    (
        $(#[$about:meta])* $owned:ident, $view:ident, $kind:literal, $tag:literal,
        numbers { $($(#[$number_about:meta])* $number:ident: $type:ty,)* }
        texts { $($(#[$text_about:meta])* $text:ident,)* }
    ) => {
        $(#[$about])*
        #[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $owned {
            $($(#[$number_about])* pub $number: $type,)*
            $($(#[$text_about])* pub $text: String,)*
        }

        #[doc = concat!("A [`", stringify!($owned), "`] whose text is borrowed.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $view<'a> {
            $($(#[$number_about])* pub $number: $type,)*
            $($(#[$text_about])* pub $text: &'a str,)*
        }

        impl $owned {
            /// The same record with borrowed text.
            #[inline]
            pub fn view(&self) -> $view<'_> {
                $view { $($number: self.$number,)* $($text: &self.$text,)* }
            }
        }

        impl $view<'_> {
            /// The same record with owned text: one allocation for each text that is not empty.
            pub fn to_owned(&self) -> $owned {
                $owned { $($number: self.$number,)* $($text: self.$text.to_owned(),)* }
            }
        }

        impl From<$view<'_>> for $owned {
            fn from(view: $view<'_>) -> Self {
                view.to_owned()
            }
        }

        /// The kind as a number, as in the encoding, then every field.
        impl Row for $view<'_> {
            #[inline]
            fn feed(&self, hash: &mut RowHash) {
                hash.word($tag);
                $(self.$number.feed(hash);)*
                $(self.$text.feed(hash);)*
            }
        }

        impl Row for $owned {
            #[inline]
            fn feed(&self, hash: &mut RowHash) {
                self.view().feed(hash);
            }
        }

        impl fmt::Display for $view<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                tabbed(f, &[&$kind, $(&self.$number,)* $(&self.$text,)*])
            }
        }

        impl fmt::Display for $owned {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.view().fmt(f)
            }
        }
    };
}

record! {
    /// A person registers, to sell or to bid.
    Person, PersonRef, "person", 0,
    numbers {
        /// Unique among persons.
        id: u64,
        /// When.
        date_time: i64,
    }
    texts {
        /// First name and last name.
        name,
        /// An address to write to.
        email,
        /// Four times four digits.
        credit_card,
        /// Where they live.
        city,
        /// The state of it, as two letters; of the real one only by chance.
        state,
        /// Padding.
        extra,
    }
}

record! {
    /// A thing is offered.
    Auction, AuctionRef, "auction", 1,
    numbers {
        /// Unique among auctions.
        id: u64,
        /// The person who sells; perhaps one that registers a little later.
        seller: u64,
        /// From 10 to 14.
        category: u64,
        /// The price that bidding begins at.
        initial_bid: u64,
        /// The price below which nothing is sold.
        reserve: u64,
        /// When it opens.
        date_time: i64,
        /// When it has closed: a bid of this time is too late.
        expires: i64,
    }
    texts {
        /// The thing.
        item_name,
        /// What is said of it.
        description,
        /// Padding.
        extra,
    }
}

record! {
    /// A person offers a price.
    Bid, BidRef, "bid", 2,
    numbers {
        /// For what; perhaps an auction that has closed, or one that opens a little later.
        auction: u64,
        /// The person; perhaps one that registers a little later.
        bidder: u64,
        /// How much.
        price: u64,
        /// When.
        date_time: i64,
    }
    texts {
        /// Where the bid comes from.
        channel,
        /// The page it was made on.
        url,
        /// Padding.
        extra,
    }
}

/// What happens.
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A person registers.
    Person(Person),
    /// A thing is offered.
    Auction(Auction),
    /// A price is offered for it.
    Bid(Bid),
}

/// An [`Event`] whose text is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventRef<'a> {
    /// A person registers.
    Person(PersonRef<'a>),
    /// A thing is offered.
    Auction(AuctionRef<'a>),
    /// A price is offered for it.
    Bid(BidRef<'a>),
}

impl Event {
    /// The same, with text that is borrowed.
    #[inline]
    pub fn view(&self) -> EventRef<'_> {
        match self {
            Self::Person(person) => EventRef::Person(person.view()),
            Self::Auction(auction) => EventRef::Auction(auction.view()),
            Self::Bid(bid) => EventRef::Bid(bid.view()),
        }
    }

    /// When it happens.
    #[inline]
    pub fn time(&self) -> i64 {
        self.view().time()
    }
}

impl EventRef<'_> {
    /// The same, with text of its own: one allocation for each that is not empty.
    pub fn to_owned(&self) -> Event {
        match self {
            Self::Person(person) => Event::Person(person.to_owned()),
            Self::Auction(auction) => Event::Auction(auction.to_owned()),
            Self::Bid(bid) => Event::Bid(bid.to_owned()),
        }
    }

    /// When it happens.
    #[inline]
    pub fn time(&self) -> i64 {
        match self {
            Self::Person(person) => person.date_time,
            Self::Auction(auction) => auction.date_time,
            Self::Bid(bid) => bid.date_time,
        }
    }
}

impl From<EventRef<'_>> for Event {
    fn from(view: EventRef<'_>) -> Self {
        view.to_owned()
    }
}

impl Row for EventRef<'_> {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        match self {
            Self::Person(person) => person.feed(hash),
            Self::Auction(auction) => auction.feed(hash),
            Self::Bid(bid) => bid.feed(hash),
        }
    }
}

impl Row for Event {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        self.view().feed(hash);
    }
}

impl fmt::Display for EventRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(person) => person.fmt(f),
            Self::Auction(auction) => auction.fmt(f),
            Self::Bid(bid) => bid.fmt(f),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}
