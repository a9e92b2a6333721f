//! The queries of Nexmark.
//!
//! Events are borrowed from bytes that stay for good, so that none needs text of its own; what goes
//! on from the source is what the query needs of an event, at the start of its slide.

use bench_by_hand::auctions::{self, Auctions, Winner, happening};
use bench_by_hand::sellers::Sellers;
use bench_protocol::{Answer, Request, Result, Stopwatch, serve_parts};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use thalweg_workloads::nexmark::oracle::{
    CATEGORY, HIGHEST_BID, HOT_ITEMS, NEW_USERS, Row2, Row3, Row4, Row5, Row6, Row7, Row8, SKIP,
    STATES, euros,
};
use thalweg_workloads::nexmark::{BidRef, EventRef, Segment, Segments, recipe};
use timely::ExchangeData;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::{Scope, Stream};

use crate::streams::{
    Rows, SEED, aggregated, aggregated_in_all, by_key, digest_of, digested, hashed, hottest,
    keep_best, records, timestamp,
};
use crate::workers::Workers;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let workers = Workers::start(request)?;
    let query: u8 = request.value("query")?;
    let segments = Segments::generate(recipe(SEED), request.value("events")?);
    let (count, bytes) = (segments.count(), segments.size());
    let source: &'static [Segment] = segments.segments().to_vec().leak();
    let round = |stopwatch: &mut Stopwatch| {
        let digest = stopwatch.time(|| match query {
            0 => digest_of(&workers, move |scope, at, of, rows| {
                q0(scope, part(source, at, of), rows)
            }),
            1 => digest_of(&workers, move |scope, at, of, rows| {
                q1(scope, part(source, at, of), rows)
            }),
            2 => digest_of(&workers, move |scope, at, of, rows| {
                q2(scope, part(source, at, of), rows)
            }),
            3 => digest_of(&workers, move |scope, at, of, rows| {
                q3(scope, part(source, at, of), rows)
            }),
            4 => digest_of(&workers, move |scope, at, of, rows| {
                q4(scope, part(source, at, of), rows)
            }),
            5 => digest_of(&workers, move |scope, at, of, rows| {
                q5(scope, part(source, at, of), rows)
            }),
            6 => digest_of(&workers, move |scope, at, of, rows| {
                q6(scope, part(source, at, of), rows)
            }),
            7 => digest_of(&workers, move |scope, at, of, rows| {
                q7(scope, part(source, at, of), rows)
            }),
            8 => digest_of(&workers, move |scope, at, of, rows| {
                q8(scope, part(source, at, of), rows)
            }),
            other => Err(format!("there is no query {other} here").into()),
        })?;
        Ok(hashed(digest))
    };
    serve_parts(request, round, |digest| Answer {
        digest,
        records: count,
        bytes,
        ..Answer::default()
    })
}

/// A worker's share of the events.
fn part(
    source: &'static [Segment],
    at: usize,
    of: usize,
) -> impl Iterator<Item = EventRef<'static>> + 'static {
    source.iter().skip(at).step_by(of).flat_map(Segment::events)
}

fn bid(event: EventRef<'static>) -> Option<BidRef<'static>> {
    match event {
        EventRef::Bid(bid) => Some(bid),
        _ => None,
    }
}

fn q0(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    digested(records(scope, events.map(|event| (0, event))), rows, |_, event| event);
}

fn q1(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let in_euros = |bid: BidRef<'static>| BidRef { price: euros(bid.price), ..bid };
    let bids = events.filter_map(bid).map(move |bid| (0, in_euros(bid)));
    digested(records(scope, bids), rows, |_, bid| bid);
}

fn q2(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let bids = events.filter_map(bid).filter(|bid| bid.auction % SKIP == 0);
    let bids = bids.map(|bid| (0, Row2 { auction: bid.auction, price: bid.price }));
    digested(records(scope, bids), rows, |_, row| row);
}

/// A seller's name, city and state, or an auction.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Side {
    Person([String; 3]),
    Auction(u64),
}

/// A join by hand, since timely has none: the worker that owns a seller keeps both sides for good.
fn q3(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let sides = events.filter_map(|event| Some((0, side(event)?)));
    let joined = joined(records(scope, sides));
    digested(joined, rows, |_, ([name, city, state], auction)| Row3 { name, city, state, auction });
}

/// What an event is to the join, by seller.
pub(crate) fn side(event: EventRef<'static>) -> Option<(u64, Side)> {
    match event {
        EventRef::Person(person) if STATES.contains(&person.state) => {
            let known = [person.name, person.city, person.state].map(str::to_owned);
            Some((person.id, Side::Person(known)))
        }
        EventRef::Auction(auction) if auction.category == CATEGORY => {
            Some((auction.seller, Side::Auction(auction.id)))
        }
        _ => None,
    }
}

pub(crate) fn joined<'s>(
    sides: Stream<'s, u64, Vec<(u64, Side)>>,
) -> Stream<'s, u64, Vec<([String; 3], u64)>> {
    let mut sellers = FxHashMap::<u64, (Option<[String; 3]>, Vec<u64>)>::default();
    sides
        .unary(by_key(), "Join", |_, _| {
            move |input, output| {
                input.for_each(|time, batch| {
                    let mut session = output.session(&time);
                    for (seller, side) in batch.drain(..) {
                        let (person, waiting) = sellers.entry(seller).or_default();
                        match side {
                            Side::Person(known) => *person = Some(known),
                            Side::Auction(auction) => waiting.push(auction),
                        }
                        if let Some(known) = person {
                            let rows = waiting.drain(..).map(|auction| (known.clone(), auction));
                            session.give_iterator(rows);
                        }
                    }
                });
            }
        })
        .container::<Vec<([String; 3], u64)>>()
}

/// The winners among all bids, from the worker that owns the auction.
fn winners(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
) -> Stream<'_, u64, Vec<Winner>> {
    let events = events.filter_map(|event| {
        Some((timestamp(auctions::SLIDES.last_start(event.time())), happening(event)?))
    });
    let mut auctions = Auctions::default();
    records(scope, events).unary_notify(
        by_key(),
        "Winners",
        None,
        move |input, output, notificator| {
            input.for_each(|time, batch| {
                let slide = *time.time() as i64;
                batch.drain(..).for_each(|(auction, happening)| {
                    auctions.add(slide, auction, happening);
                });
                notificator.notify_at(time.retain(output.output_index()));
            });
            notificator.for_each(|time, _, notificator| {
                let mut session = output.session(&time);
                auctions.complete(
                    *time.time() as i64,
                    |_, winner| session.give(winner),
                    |slide| notificator.notify_at(time.delayed(&timestamp(slide))),
                );
            });
        },
    )
}

/// Each worker's own averages, then those of all.
fn q4(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    type Prices = (u64, u64);
    let prices = winners(scope, events).map(|winner| (winner.category, winner.price));
    let own = aggregated_in_all(prices, Pipeline, |(sum, count): &mut Prices, price| {
        *sum += price;
        *count += 1;
    });
    let all = aggregated_in_all(own, by_key(), |all: &mut Prices, (sum, count)| {
        *all = (all.0 + sum, all.1 + count);
    });
    digested(all, rows, |_, (category, (sum, count))| Row4 { category, average: sum / count });
}

fn q6(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let mut sellers = Sellers::default();
    let sold = winners(scope, events).map(|winner| (winner.seller, winner));
    let averages =
        sold.unary_notify(by_key(), "Last prices", None, move |input, output, notificator| {
            input.for_each(|time, batch| {
                let slide = *time.time() as i64;
                batch.drain(..).for_each(|(_, winner)| sellers.add(slide, winner));
                notificator.notify_at(time.retain(output.output_index()));
            });
            notificator.for_each(|time, _, _| {
                let mut session = output.session(&time);
                sellers.complete(*time.time() as i64, |row| session.give(row));
            });
        });
    digested(averages.container::<Vec<Row6>>(), rows, |_, row| row);
}

/// Counts of slides, first each worker's own; windows of them; the best of all workers.
fn q5(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let (size, slide) = (HOT_ITEMS.size(), HOT_ITEMS.slide());
    let bids = events.filter_map(bid);
    let bids = bids.map(|bid| (timestamp(HOT_ITEMS.last_start(bid.date_time)), (bid.auction, ())));
    let best = best_windows(records(scope, bids));
    digested(best, rows, move |time, (auction, bids)| Row5 {
        start: time as i64 - (size - slide),
        auction,
        bids,
    });
}

pub(crate) fn best_windows(
    bids: Stream<'_, u64, Vec<(u64, ())>>,
) -> Stream<'_, u64, Vec<(u64, u64)>> {
    let (size, slide) = (HOT_ITEMS.size(), HOT_ITEMS.slide());
    let counts = aggregated(bids, Pipeline, |count: &mut u64, ()| *count += 1);
    best_of_all(hottest(counts, slide.unsigned_abs(), (size / slide).unsigned_abs()), |row| row.1)
}

/// Each worker's own best bids of each window, then the best of those.
fn q7(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let bids = events.filter_map(bid).map(|bid| {
        let start = HIGHEST_BID.last_start(bid.date_time);
        let (auction, bidder) = (bid.auction, bid.bidder);
        let row = (auction, bidder, bid.price, bid.date_time);
        (timestamp(start), ((), row))
    });
    let own = aggregated(records(scope, bids), Pipeline, |best: &mut Vec<_>, bid| {
        keep_best(best, bid, |bid: &(u64, u64, u64, i64)| bid.2);
    });
    let own = own.flat_map(|((), best)| best);
    let best = best_of_all(own, |bid| bid.2);
    digested(best, rows, |time, (auction, bidder, price, date_time)| Row7 {
        start: time as i64,
        auction,
        bidder,
        price,
        date_time,
    });
}

/// The best of all workers' rows at each timestamp.
fn best_of_all<D: ExchangeData + Clone>(
    stream: Stream<'_, u64, Vec<D>>,
    by: impl Fn(&D) -> u64 + 'static,
) -> Stream<'_, u64, Vec<D>> {
    let at_one = Exchange::new(|_: &((), D)| 0);
    let best = aggregated(stream.map(|row| ((), row)), at_one, move |best: &mut Vec<D>, row| {
        keep_best(best, row, &by);
    });
    best.flat_map(|((), best)| best)
}

/// The name of the person that registered, and whether they sold.
type Found = (Option<String>, bool);

fn q8(
    scope: Scope<'_, u64>,
    events: impl Iterator<Item = EventRef<'static>> + 'static,
    rows: Rows,
) {
    let events = events.filter_map(|event| {
        let (key, time, name) = match event {
            EventRef::Person(person) => (person.id, person.date_time, Some(person.name.to_owned())),
            EventRef::Auction(auction) => (auction.seller, auction.date_time, None),
            EventRef::Bid(_) => return None,
        };
        Some((timestamp(NEW_USERS.last_start(time)), (key, name)))
    });
    let found =
        aggregated(records(scope, events), by_key(), |found: &mut Found, name| match name {
            Some(registered) => found.0 = Some(registered),
            None => found.1 = true,
        });
    let both = found.flat_map(|(person, (name, sold))| name.filter(|_| sold).map(|n| (person, n)));
    digested(both, rows, |time, (person, name)| Row8 { start: time as i64, person, name });
}
