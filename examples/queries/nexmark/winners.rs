//! The winning bid of every auction, emitted when the auction closes.

use super::Events;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::mem;
use std::time::Duration;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::time::Timestamp;
use thalweg::{Chain, Data, Stream, Visit};
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

/// Keeps what happens to auctions, with the auction.
struct Happenings;

impl Visit<Events> for Happenings {
    type Out = (u64, Happening);
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, event: EventRef<'_>, (): &mut (), emit: &mut impl FnMut((u64, Happening))) {
        let (auction, happening) = match event {
            EventRef::Auction(auction) => {
                let opened = Open {
                    seller: auction.seller,
                    category: auction.category,
                    opened: auction.date_time,
                    expires: auction.expires,
                    reserve: auction.reserve,
                };
                (auction.id, Happening::Opened(opened))
            }
            EventRef::Bid(bid) => (bid.auction, Happening::Offered((bid.price, bid.date_time))),
            EventRef::Person(_) => return,
        };
        emit((auction, happening));
    }
}

/// The winners among all bids: of each auction the valid bid with the highest price, of equal ones the
/// earliest.
pub fn winners<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Winner, Time = Timestamp>> {
    events.flat_each(Happenings).keyed().process(Selling).unkey().map(|(_, winner)| winner)
}

/// How long bids wait for their auction at least. One timer is enough for all bids of that time.
const WAIT: Duration = Duration::from_secs(1);

/// What is known of an auction.
#[derive(Data)]
enum Known {
    /// It has bids, and is not known itself: they came first, or after it had closed.
    Early(Vec<Offer>),
    /// It is open, with the best bid so far.
    Open(Open, Option<Offer>),
}

/// Replaces the best bid by a valid one that is better.
fn offer(open: &Open, best: &mut Option<Offer>, offer: Offer) {
    let (price, time) = offer;
    let valid = (open.opened..open.expires).contains(&time) && price >= open.reserve;
    let rank = |(price, time): Offer| (price, Reverse(time));
    if valid && best.is_none_or(|best| rank(offer) > rank(best)) {
        *best = Some(offer);
    }
}

struct Selling;

impl Process<u64, Happening> for Selling {
    type State = Known;
    type Out = Winner;
    type Side = Infallible;

    fn start(&self) -> Known {
        Known::Early(Vec::new())
    }

    #[inline]
    fn on_record(
        &self,
        _: &u64,
        known: &mut Known,
        happening: Happening,
        at: Timestamp,
        cx: &mut ProcessContext<'_, Winner, Infallible>,
    ) {
        match (happening, known) {
            (Happening::Offered(bid), Known::Open(open, best)) => offer(open, best, bid),
            (Happening::Offered(bid), Known::Early(early)) => {
                if early.is_empty() {
                    cx.set_timer(Timer::EventTime(at.saturating_add(WAIT)));
                }
                early.push(bid);
            }
            (Happening::Opened(open), known) => {
                let mut best = None;
                if let Known::Early(early) = mem::replace(known, Known::Open(open, None)) {
                    early.into_iter().for_each(|bid| offer(&open, &mut best, bid));
                }
                *known = Known::Open(open, best);
                cx.set_timer(Timer::EventTime(Timestamp::from_micros(open.expires)));
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
        match known {
            Known::Early(early) => {
                // When time has passed a bid, the auction is known, or was not open then.
                early.retain(|&(_, time)| due <= Timer::EventTime(Timestamp::from_micros(time)));
                match early.iter().map(|&(_, time)| time).min() {
                    Some(time) => {
                        let at = Timestamp::from_micros(time).saturating_add(WAIT);
                        cx.set_timer(Timer::EventTime(at));
                    }
                    None => cx.clear(),
                }
            }
            Known::Open(open, best) => {
                // Bids that came before it may have set a timer too.
                if due != Timer::EventTime(Timestamp::from_micros(open.expires)) {
                    return;
                }
                if let Some((price, _)) = *best {
                    let Open { seller, category, expires: closed, .. } = *open;
                    cx.emit(Winner { auction: *auction, seller, category, closed, price });
                }
                cx.clear();
            }
        }
    }
}
