//! The winning bid of every auction, emitted when the auction closes.

use super::Events;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::time::Duration;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::time::Timestamp;
use thalweg::{Chain, Data, Stream};
use thalweg_workloads::nexmark::EventRef;

/// A thing that was sold.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub struct Winner {
    /// The auction.
    pub auction: u64,
    /// The seller.
    pub seller: u64,
    /// The auction's category.
    pub category: u64,
    /// When the auction closed.
    pub closed: i64,
    /// The final price.
    pub price: u64,
}

/// What matters of an auction.
#[derive(Clone, Copy, Data)]
struct Open {
    seller: u64,
    category: u64,
    opened: i64,
    expires: i64,
    reserve: u64,
}

/// A price, and when it was offered.
type Offer = (u64, i64);

/// What can happen to an auction.
#[derive(Clone, Copy, Data)]
enum Happening {
    Opened(Open),
    Offered(Offer),
}

/// The winners among all bids: of each auction the valid bid with the highest price, of equal ones the
/// earliest.
pub fn winners<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Winner, Time = Timestamp>> {
    events
        .filter_map(|event: EventRef<'_>| match event {
            EventRef::Auction(auction) => Some((
                auction.id,
                Happening::Opened(Open {
                    seller: auction.seller,
                    category: auction.category,
                    opened: auction.date_time,
                    expires: auction.expires,
                    reserve: auction.reserve,
                }),
            )),
            EventRef::Bid(bid) => {
                Some((bid.auction, Happening::Offered((bid.price, bid.date_time))))
            }
            EventRef::Person(_) => None,
        })
        .keyed()
        .process(Selling)
        .unkey()
        .map(|(_, winner)| winner)
}

/// What is known of an auction: it may have bids before it is known itself.
#[derive(Default, Data)]
struct Known {
    open: Option<Open>,
    best: Option<Offer>,
    early: Vec<Offer>,
}

impl Known {
    fn offer(&mut self, open: Open, offer: Offer) {
        let (price, time) = offer;
        let valid = (open.opened..open.expires).contains(&time) && price >= open.reserve;
        let rank = |(price, time): Offer| (price, Reverse(time));
        if valid && self.best.is_none_or(|best| rank(offer) > rank(best)) {
            self.best = Some(offer);
        }
    }
}

struct Selling;

impl Process<u64, Happening> for Selling {
    type State = Known;
    type Out = Winner;
    type Side = Infallible;

    fn start(&self) -> Known {
        Known::default()
    }

    fn on_record(
        &self,
        _: &u64,
        known: &mut Known,
        happening: Happening,
        at: Timestamp,
        cx: &mut ProcessContext<'_, Winner, Infallible>,
    ) {
        match (happening, known.open) {
            (Happening::Opened(open), _) => {
                known.open = Some(open);
                for offer in std::mem::take(&mut known.early) {
                    known.offer(open, offer);
                }
                cx.set_timer(Timer::EventTime(Timestamp::from_micros(open.expires)));
            }
            (Happening::Offered(offer), Some(open)) => known.offer(open, offer),
            (Happening::Offered(offer), None) => {
                // When time has passed the bid, the auction is known, or was not open then.
                known.early.push(offer);
                cx.set_timer(Timer::EventTime(at.saturating_add(Duration::from_micros(1))));
            }
        }
    }

    fn on_timer(
        &self,
        auction: &u64,
        known: &mut Known,
        due: Timer,
        cx: &mut ProcessContext<'_, Winner, Infallible>,
    ) {
        let Some(open) = known.open else {
            // Later bids stay: the auction may open between these and those, and what says so come last.
            known.early.retain(|&(_, time)| due <= Timer::EventTime(Timestamp::from_micros(time)));
            if known.early.is_empty() {
                cx.clear();
            }
            return;
        };
        if due != Timer::EventTime(Timestamp::from_micros(open.expires)) {
            return;
        }
        if let Some((price, _)) = known.best {
            let Open { seller, category, expires: closed, .. } = open;
            cx.emit(Winner { auction: *auction, seller, category, closed, price });
        }
        cx.clear();
    }
}
