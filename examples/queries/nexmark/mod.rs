//! Nexmark: what each query means is said with its answers, in `thalweg_workloads::nexmark::oracle`.

mod nearby;
mod sellers;
mod winners;

pub use winners::{Winner, winners};

use super::window;
use nearby::{Nearby, Side};
use sellers::LastPrices;
use thalweg::data::Record;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream, Visit, VisitInPieces};
use thalweg_workloads::nexmark::oracle::{
    CATEGORY, HIGHEST_BID, HOT_ITEMS, NEW_USERS, Row2, Row3, Row4, Row5, Row6, Row7, Row8, SKIP,
    STATES, euros,
};
use thalweg_workloads::nexmark::{BidRef, EventRef, Segment, Segments};
use thalweg_workloads::windows::Windows;

/// Events, borrowed from the bytes that they are read from.
pub struct Events {
    _unsized: [()],
}

impl Record for Events {
    type Of<'a> = EventRef<'a>;
}

/// Bids, borrowed likewise.
pub struct Bids {
    _unsized: [()],
}

impl Record for Bids {
    type Of<'a> = BidRef<'a>;
}

/// Reads the events of a segment, of which a few megabytes are encoded.
struct Decode;

/// The number of events that are read at a time.
const PIECE: usize = 1024;

impl VisitInPieces<Segment> for Decode {
    type Out = Events;
    /// The byte at which the next event begins.
    type Cursor = usize;

    #[inline(always)]
    fn visit_piece(
        &self,
        segment: &Segment,
        at: &mut usize,
        emit: &mut impl FnMut(EventRef<'_>),
    ) -> bool {
        let mut events = segment.events_from(*at);
        // A loop, which calls `emit` itself: handed to `for_each`, it would not be seen through.
        for event in events.by_ref().take(PIECE) {
            emit(event);
        }
        *at = events.offset_in(segment);
        *at < segment.bytes().len()
    }
}

/// Keeps the bids.
struct TakeBids;

impl Visit<Events> for TakeBids {
    type Out = Bids;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, event: EventRef<'_>, (): &mut (), emit: &mut impl FnMut(BidRef<'_>)) {
        if let EventRef::Bid(bid) = event {
            emit(bid);
        }
    }
}

/// The events of a segment after the other, dealt out to all tasks.
pub fn events(
    env: &Environment,
    segments: &Segments,
) -> Stream<impl Chain<Item = Events, Time = Timestamp> + use<>> {
    let segments = segments.segments().to_vec();
    env.parallel_iter(move |task, tasks| segments.clone().into_iter().skip(task).step_by(tasks))
        .flat_each_in_pieces(Decode)
        .assign_timestamps(|event| Timestamp::from_micros(event.time()), Watermarks::monotonous())
}

/// All events.
pub fn q0<C: Chain<Item = Events, Time = Timestamp>>(events: Stream<C>) -> Stream<C> {
    events
}

/// Bids in euros.
pub fn q1<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Bids, Time = Timestamp>> {
    events.flat_each(InEuros)
}

/// Keeps the bids, in another currency.
struct InEuros;

impl Visit<Events> for InEuros {
    type Out = Bids;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, event: EventRef<'_>, (): &mut (), emit: &mut impl FnMut(BidRef<'_>)) {
        if let EventRef::Bid(bid) = event {
            emit(BidRef { price: euros(bid.price), ..bid });
        }
    }
}

/// Bids for some auctions.
pub fn q2<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row2, Time = Timestamp>> {
    events
        .flat_each(TakeBids)
        .filter(|bid| bid.auction % SKIP == 0)
        .map(|bid: BidRef<'_>| Row2 { auction: bid.auction, price: bid.price })
}

/// The persons that sell in a category and live nearby.
pub fn q3<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row3, Time = Timestamp>> {
    events
        .filter_map(|event: EventRef<'_>| match event {
            EventRef::Person(person) if STATES.contains(&person.state) => {
                let known = [person.name, person.city, person.state].map(str::to_owned);
                Some((person.id, Side::Person(known)))
            }
            EventRef::Auction(auction) if auction.category == CATEGORY => {
                Some((auction.seller, Side::Auction(auction.id)))
            }
            _ => None,
        })
        .keyed()
        .process(Nearby)
        .unkey()
        .map(|(_, row)| row)
}

/// The average final price of each category.
pub fn q4<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row4, Time = Timestamp>> {
    winners(events)
        .map(|winner| (winner.category, winner.price))
        .keyed()
        .fold_assoc(
            (0, 0),
            |(sum, count): &mut (u128, u64), price| {
                *sum += u128::from(price);
                *count += 1;
            },
            |all, others| *all = (all.0 + others.0, all.1 + others.1),
        )
        .unkey()
        .map(|(category, (sum, count))| Row4 {
            category,
            average: (sum / u128::from(count)) as u64,
        })
}

/// The auctions with the most bids, window by window.
pub fn q5<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row5, Time = Timestamp>> {
    q5_in(events, HOT_ITEMS)
}

/// The auctions with the most bids, in other windows.
pub fn q5_in<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
    windows: Windows,
) -> Stream<impl Chain<Item = Row5, Time = Timestamp>> {
    let counts = events
        .flat_each(TakeBids)
        .map(|bid: BidRef<'_>| bid.auction)
        .group_by(|auction| *auction)
        .window(window(windows))
        .count()
        .unkey()
        .map(|(auction, bids)| Row5 { start: bids.start.as_micros(), auction, bids: bids.value });
    // A window's counts have its last timestamp, and windows end a slide apart.
    greatest(counts, windows.slide(), |row| row.bids)
}

/// The average of each seller's last final prices, as of every auction that closes.
pub fn q6<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row6, Time = Timestamp>> {
    winners(events)
        .group_by(|winner| winner.seller)
        .sorted_by_time(|winner| winner.auction)
        .stateful_map(LastPrices::default(), |_, last, winner| last.add(&winner))
        .unkey()
        .map(|(_, row)| row)
}

/// The bids with the highest price, window by window.
pub fn q7<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row7, Time = Timestamp>> {
    q7_in(events, HIGHEST_BID)
}

/// The bids with the highest price, in other windows, which stand side by side.
pub fn q7_in<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
    windows: Windows,
) -> Stream<impl Chain<Item = Row7, Time = Timestamp>> {
    let bids = events.flat_each(TakeBids).map(move |bid: BidRef<'_>| Row7 {
        start: windows.last_start(bid.date_time),
        auction: bid.auction,
        bidder: bid.bidder,
        price: bid.price,
        date_time: bid.date_time,
    });
    greatest(bids, windows.size(), |row| row.price)
}

/// The rows of each tumbling window that are greatest: all of them, where several are as great.
fn greatest<C, T, F>(
    rows: Stream<C>,
    size: i64,
    by: F,
) -> Stream<impl Chain<Item = T, Time = Timestamp> + use<C, T, F>>
where
    C: Chain<Item = T, Time = Timestamp>,
    T: thalweg::Data + Clone + Sync,
    F: Fn(&T) -> u64 + Clone + Send + Sync + 'static,
{
    let other = by.clone();
    let size = std::time::Duration::from_micros(size.unsigned_abs());
    rows.group_by(|_| ())
        .window(EventTimeWindow::tumbling(size))
        .fold_assoc(
            Vec::new(),
            move |best: &mut Vec<T>, row: T| {
                match best.first().map(|first| by(first).cmp(&by(&row))) {
                    Some(std::cmp::Ordering::Greater) => return,
                    Some(std::cmp::Ordering::Less) => best.clear(),
                    _ => {}
                }
                best.push(row);
            },
            move |best, mut others: Vec<T>| {
                let (a, b) = (best.first().map(&other), others.first().map(&other));
                match a.cmp(&b) {
                    std::cmp::Ordering::Less => *best = others,
                    std::cmp::Ordering::Equal => best.append(&mut others),
                    std::cmp::Ordering::Greater => {}
                }
            },
        )
        .unkey()
        .flat_map(|((), best)| best.value)
}

/// Persons that sold in the window in which they registered.
pub fn q8<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = Row8, Time = Timestamp>> {
    q8_in(events, NEW_USERS)
}

/// Persons that sold in the window in which they registered, in other windows.
pub fn q8_in<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
    windows: Windows,
) -> Stream<impl Chain<Item = Row8, Time = Timestamp>> {
    events
        .filter_map(|event: EventRef<'_>| match event {
            EventRef::Person(person) => Some((person.id, Some(person.name.to_owned()))),
            EventRef::Auction(auction) => Some((auction.seller, None)),
            EventRef::Bid(_) => None,
        })
        .keyed()
        .window(window(windows))
        .fold_assoc(
            (None, false),
            |(name, sold): &mut (Option<String>, bool), event| match event {
                Some(registered) => *name = Some(registered),
                None => *sold = true,
            },
            |(name, sold), (other, also)| {
                *name = name.take().or(other);
                *sold |= also;
            },
        )
        .unkey()
        .filter_map(|(person, found)| match found.value {
            (Some(name), true) => Some(Row8 { start: found.start.as_micros(), person, name }),
            _ => None,
        })
}
