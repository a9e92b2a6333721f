//! The queries of Nexmark.
//!
//! Events are borrowed from bytes that stay for good, so that none needs text of its own; what goes
//! to another core is what the query needs of an event.

use std::collections::VecDeque;

use bench_by_hand::auctions::{self, Auctions, Winner, happening};
use bench_by_hand::sellers::Sellers;
use bench_protocol::{Answer, Request, Result, Stopwatch, serve_parts};
use renoir::Stream;
use renoir::operator::Operator;
use renoir::operator::window::EventTimeWindow;
use renoir::prelude::*;
use serde::{Deserialize, Serialize};
use thalweg_workloads::nexmark::oracle::{
    CATEGORY, HIGHEST_BID, HOT_ITEMS, NEW_USERS, Row2, Row3, Row4, Row5, Row6, Row7, Row8, SKIP,
    STATES, euros,
};
use thalweg_workloads::nexmark::{BidRef, EventRef, Segment, Segments, recipe};

use crate::streams::{SEED, Sink, by_hand, digest_of, hashed, slide_by_slide, with_start};
use crate::{batches, context_on, runtime};

type Source = &'static [Segment];

/// Keys that a window over all records is cut into, so that more than one core works on it.
const PARTS: u64 = 16;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let runtime = runtime(request)?;
    let job = match request.value("query")? {
        0 => q0,
        1 => q1,
        2 => q2,
        3 => q3,
        4 => q4,
        5 => q5,
        6 => q6,
        7 => q7,
        8 => q8,
        other => return Err(format!("there is no query {other} here").into()),
    };
    let segments = Segments::generate(recipe(SEED), request.value("events")?);
    let (records, bytes) = (segments.count(), segments.size());
    let source: Source = segments.segments().to_vec().leak();
    let round = |stopwatch: &mut Stopwatch| {
        let digest = stopwatch
            .time(|| digest_of(context_on(&runtime), |context, sink| job(context, source, sink)))?;
        Ok(hashed(digest))
    };
    serve_parts(request, round, |digest| Answer { digest, records, bytes, ..Answer::default() })
}

fn events(
    context: &StreamContext,
    source: Source,
) -> Stream<impl Operator<Out = EventRef<'static>> + use<>> {
    context
        .stream_par_iter(move |index: u64, count: u64| {
            let mine = source.iter().skip(index as usize).step_by(count as usize);
            mine.flat_map(Segment::events)
        })
        .batch_mode(batches())
}

fn bid(event: EventRef<'static>) -> Option<BidRef<'static>> {
    match event {
        EventRef::Bid(bid) => Some(bid),
        _ => None,
    }
}

fn q0(context: &StreamContext, source: Source, mut sink: Sink) {
    events(context, source).for_each(move |event| sink.add(&event));
}

fn q1(context: &StreamContext, source: Source, mut sink: Sink) {
    events(context, source)
        .filter_map(bid)
        .map(|bid| BidRef { price: euros(bid.price), ..bid })
        .for_each(move |bid| sink.add(&bid));
}

fn q2(context: &StreamContext, source: Source, mut sink: Sink) {
    events(context, source)
        .filter_map(bid)
        .filter(|bid| bid.auction % SKIP == 0)
        .map(|bid| Row2 { auction: bid.auction, price: bid.price })
        .for_each(move |row| sink.add(&row));
}

/// A seller's name, city and state, or an auction.
#[derive(Clone, Serialize, Deserialize)]
enum Side {
    Person([String; 3]),
    Auction(u64),
}

/// A map with state for each seller, which keeps both sides for good: what a join of the two streams does,
/// of which the events would have to be read twice.
fn q3(context: &StreamContext, source: Source, mut sink: Sink) {
    let (mut person, mut waiting) = (None, Vec::new());
    events(context, source)
        .filter_map(|event| match event {
            EventRef::Person(person) if STATES.contains(&person.state) => {
                let known = [person.name, person.city, person.state].map(str::to_owned);
                Some((person.id, Side::Person(known)))
            }
            EventRef::Auction(auction) if auction.category == CATEGORY => {
                Some((auction.seller, Side::Auction(auction.id)))
            }
            _ => None,
        })
        .group_by(|event| event.0)
        .rich_flat_map(move |(_, (_, side))| {
            match side {
                Side::Person(known) => person = Some(known),
                Side::Auction(auction) => waiting.push(auction),
            }
            let auctions = if person.is_some() { std::mem::take(&mut waiting) } else { Vec::new() };
            let known: [String; 3] = person.clone().unwrap_or_default();
            auctions.into_iter().map(move |auction| (known.clone(), auction))
        })
        .for_each(move |(_, ([name, city, state], auction))| {
            sink.add(&Row3 { name, city, state, auction });
        });
}

/// The winners among all bids, from the worker that owns the auction.
fn winners(context: &StreamContext, source: Source) -> Stream<impl Operator<Out = Winner> + use<>> {
    let happenings = events(context, source)
        .filter_map(|event| Some((happening(event)?, event.time())))
        .add_timestamps(|(_, time)| auctions::SLIDES.last_start(*time), slide_by_slide(0))
        .map(|(happening, _)| happening)
        .group_by(|(auction, _)| *auction);
    by_hand(
        happenings.unkey(),
        Auctions::default(),
        |auctions, slide, (_, (auction, happening))| auctions.add(slide, auction, happening),
        |auctions, slide, out| auctions.complete(slide, |at, row| out.push_back((at, row)), |_| ()),
    )
}

fn q4(context: &StreamContext, source: Source, mut sink: Sink) {
    winners(context, source)
        .group_by_fold(
            |winner| winner.category,
            (0u64, 0u64),
            |(sum, count), winner| {
                *sum += winner.price;
                *count += 1;
            },
            |all, (sum, count)| *all = (all.0 + sum, all.1 + count),
        )
        .for_each(move |(category, (sum, count))| {
            sink.add(&Row4 { category, average: sum / count });
        });
}

fn q6(context: &StreamContext, source: Source, mut sink: Sink) {
    let sold = winners(context, source).group_by(|winner| winner.seller).unkey();
    let averages = by_hand(
        sold,
        Sellers::default(),
        |sellers, slide, (_, winner)| sellers.add(slide, winner),
        |sellers, slide, out: &mut VecDeque<(i64, Row6)>| {
            sellers.complete(slide, |row| out.push_back((slide, row)));
        },
    );
    averages.for_each(move |row| sink.add(&row));
}

/// A bid in each window that it is in. Renoir's sliding windows do the same to every record, but
/// leave out those that begin before the first record of a key.
fn q5(context: &StreamContext, source: Source, mut sink: Sink) {
    let (size, slide) = (HOT_ITEMS.size(), HOT_ITEMS.slide());
    let counts = events(context, source)
        .filter_map(bid)
        .flat_map(|bid| HOT_ITEMS.starts(bid.date_time).map(move |start| (start, bid.auction)))
        .add_timestamps(|&(start, _)| start, slide_by_slide(size - slide))
        .group_by(|&(_, auction)| auction)
        .reorder()
        .window(EventTimeWindow::tumbling(slide))
        .fold(0u64, |bids, _| *bids += 1);
    with_start(counts, slide)
        .group_by(|&(start, ..)| start)
        .window(EventTimeWindow::tumbling(slide))
        .fold(Vec::new(), |best, row| keep_best(best, *row, |row| row.2))
        .for_each(move |(_, best)| {
            for (start, auction, bids) in best {
                sink.add(&Row5 { start, auction, bids });
            }
        });
}

/// Keeps the rows that are greatest.
fn keep_best<T>(best: &mut Vec<T>, row: T, by: impl Fn(&T) -> u64) {
    match best.first().map(|first| by(first).cmp(&by(&row))) {
        Some(std::cmp::Ordering::Greater) => return,
        Some(std::cmp::Ordering::Less) => best.clear(),
        _ => {}
    }
    best.push(row);
}

/// The best of each part, then the best of those.
fn q7(context: &StreamContext, source: Source, mut sink: Sink) {
    let size = HIGHEST_BID.size();
    let best = events(context, source)
        .filter_map(bid)
        .map(|bid| (bid.auction, bid.bidder, bid.price, bid.date_time))
        .add_timestamps(|bid| HIGHEST_BID.last_start(bid.3), slide_by_slide(0))
        .group_by(|bid| bid.0 % PARTS)
        .window(EventTimeWindow::tumbling(size))
        .fold(Vec::new(), |best, bid| keep_best(best, *bid, |bid| bid.2));
    best.drop_key()
        .window_all(EventTimeWindow::tumbling(size))
        .fold(Vec::new(), |best: &mut Vec<_>, part: &Vec<_>| {
            part.iter().for_each(|bid: &(u64, u64, u64, i64)| keep_best(best, *bid, |bid| bid.2));
        })
        .for_each(move |(_, best)| {
            for (auction, bidder, price, date_time) in best {
                let start = HIGHEST_BID.last_start(date_time);
                sink.add(&Row7 { start, auction, bidder, price, date_time });
            }
        });
}

/// What a window knows of a person: the name, whether they sold.
type Found = (Option<String>, bool);

fn q8(context: &StreamContext, source: Source, mut sink: Sink) {
    let found = events(context, source)
        .filter_map(|event| match event {
            EventRef::Person(person) => {
                Some((person.id, person.date_time, Some(person.name.to_owned())))
            }
            EventRef::Auction(auction) => Some((auction.seller, auction.date_time, None)),
            EventRef::Bid(_) => None,
        })
        .add_timestamps(|event| NEW_USERS.last_start(event.1), slide_by_slide(0))
        .group_by(|event| event.0)
        .reorder()
        .window(EventTimeWindow::tumbling(NEW_USERS.size()))
        .fold((None, false), |(name, sold): &mut Found, (_, _, registered)| match registered {
            Some(registered) => *name = Some(registered.clone()),
            None => *sold = true,
        });
    with_start(found, NEW_USERS.size()).for_each(move |(start, person, found)| {
        if let (Some(name), true) = found {
            sink.add(&Row8 { start, person, name });
        }
    });
}
