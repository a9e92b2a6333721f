//! Every query against its answer computed one event after the other, in every way that it can be run.

use std::fmt::{Debug, Display};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;
use thalweg::check::check;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream, Visit};
use thalweg_examples::queries::{nexmark, ysb};
use thalweg_workloads::nexmark::oracle;
use thalweg_workloads::windows::Windows;
use thalweg_workloads::ysb::{Campaigns, FixedSegments, VariableSegments, oracle as yahoo};
use thalweg_workloads::{nexmark as auctions, ysb as views};

/// So many events, in segments enough for all tasks: ten windows of ten seconds are a million.
fn bids(events: u64) -> auctions::Segments {
    auctions::Segments::generate_in(
        auctions::recipe(42),
        events,
        NonZeroU32::new(1000).unwrap(),
        NonZeroUsize::MIN,
    )
}

fn seen() -> FixedSegments {
    FixedSegments::generate_in(
        views::recipe(42),
        200_000,
        NonZeroU32::new(1000).unwrap(),
        NonZeroUsize::MIN,
    )
}

/// Events that are made beforehand, in their order of arrival.
struct Made(Vec<auctions::Event>);

impl Visit<u64> for Made {
    type Out = nexmark::Events;
    type Scratch = ();

    fn visit(&self, nth: u64, (): &mut (), emit: &mut impl FnMut(auctions::EventRef<'_>)) {
        emit(self.0[nth as usize].view());
    }
}

/// The rows of a query as text, which says all of them.
fn rows<C, R>(rows: Stream<C>) -> Stream<impl Chain<Item = String, Time = C::Time> + use<C, R>>
where
    C: Chain<Item = R>,
    R: Display + 'static,
{
    rows.map(|row: R| row.to_string())
}

fn texts<R: Display + Debug>(rows: impl IntoIterator<Item = R>) -> Vec<String> {
    rows.into_iter().map(|row| row.to_string()).collect()
}

/// A bid before its auction was open, and one after, both of which come before the auction is known: when time
/// has passed the first, the second still counts.
#[test]
fn a_bid_that_counts_outlives_one_that_does_not() {
    let bid = |auction, price, second: i64| {
        auctions::Event::Bid(auctions::Bid {
            auction,
            bidder: 1,
            price,
            date_time: second * 1_000_000,
            channel: String::new(),
            url: String::new(),
            extra: String::new(),
        })
    };
    let auction = auctions::Event::Auction(auctions::Auction {
        id: 7,
        seller: 3,
        category: 10,
        initial_bid: 1,
        reserve: 100,
        date_time: 5_000_000,
        expires: 9_000_000,
        item_name: String::new(),
        description: String::new(),
        extra: String::new(),
    });
    // Others' bids in between, so that the watermark reaches 3 s, and is sent.
    let others = (0..5000).map(|_| bid(8, 100, 7));
    let early = [bid(7, 300, 1), bid(7, 200, 6)];
    let made: Vec<_> = early.into_iter().chain(others).chain([auction]).collect();
    check(|env| {
        let disorder = Watermarks::bounded_disorder(Duration::from_secs(4));
        let events = env
            .iter(0..made.len() as u64)
            .flat_each(Made(made.clone()))
            .assign_timestamps(|event| Timestamp::from_micros(event.time()), disorder);
        nexmark::winners(events).map(|winner| (winner.auction, winner.price))
    })
    .equals([(7, 200)]);
}

#[test]
fn queries_that_look_at_one_event() {
    let segments = bids(10_000);
    check(|env| {
        nexmark::q0(nexmark::events(env, &segments)).map(|e: auctions::EventRef<'_>| e.to_string())
    })
    .seeds(1)
    .equals(texts(segments.events()));
    check(|env| {
        nexmark::q1(nexmark::events(env, &segments)).map(|b: auctions::BidRef<'_>| b.to_string())
    })
    .seeds(1)
    .equals(texts(oracle::q1(segments.events())));
    check(|env| rows(nexmark::q2(nexmark::events(env, &segments))))
        .seeds(2)
        .equals(texts(oracle::q2(segments.events())));
}

#[test]
fn queries_over_windows() {
    let segments = bids(250_000);
    let events = |env: &Environment| nexmark::events(env, &segments);
    check(|env| rows(nexmark::q5(events(env))))
        .seeds(2)
        .equals(texts(oracle::q5(segments.events())));
    check(|env| rows(nexmark::q7(events(env))))
        .seeds(2)
        .equals(texts(oracle::q7(segments.events())));
    check(|env| rows(nexmark::q8(events(env))))
        .seeds(2)
        .equals(texts(oracle::q8(segments.events())));
}

#[test]
fn queries_that_join() {
    let segments = bids(120_000);
    let events = |env: &Environment| nexmark::events(env, &segments);
    check(|env| rows(nexmark::q3(events(env))))
        .seeds(2)
        .equals(texts(oracle::q3(segments.events())));
    check(|env| rows(nexmark::q4(events(env))))
        .seeds(2)
        .equals(texts(oracle::q4(segments.events())));
    check(|env| rows(nexmark::q6(events(env))))
        .seeds(2)
        .equals(texts(oracle::q6(segments.events())));
}

#[test]
fn the_yahoo_benchmark() {
    let (segments, campaigns) = (seen(), Campaigns::new(42));
    check(|env| rows(ysb::ysb(ysb::events(env, &segments), &campaigns)))
        .seeds(2)
        .equals(texts(yahoo::ysb(segments.events(), &campaigns)));
    for windows in [yahoo::STAR, Windows::sliding(100_000, 30_000)] {
        check(|env| rows(ysb::ysb_star(ysb::events(env, &segments), &campaigns, windows)))
            .seeds(2)
            .equals(texts(yahoo::ysb_star(segments.events(), &campaigns, windows)));
    }
    check(|env| rows(ysb::swa(ysb::events(env, &segments))))
        .seeds(2)
        .equals(texts(yahoo::swa(segments.events())));
}

/// The oracle reads the events as they are made: what is parsed differently would show.
#[test]
fn the_yahoo_benchmark_of_variable_length() {
    let (events, campaigns) = (50_000, Campaigns::new(42));
    let (size, threads) = (NonZeroU32::new(1000).unwrap(), NonZeroUsize::MIN);
    let segments = VariableSegments::generate_in(views::recipe(42), events, size, threads);
    let generator = views::Generator::new(views::recipe(42));
    let made = || generator.events(0..events);
    let seen = |env: &Environment| ysb::text_events(env, &segments);
    check(|env| rows(ysb::ysb(seen(env), &campaigns)))
        .seeds(2)
        .equals(texts(yahoo::ysb(made(), &campaigns)));
    let windows = Windows::sliding(20_000, 8_000);
    check(|env| rows(ysb::ysb_star(ysb::parsed(seen(env)), &campaigns, windows)))
        .seeds(2)
        .equals(texts(yahoo::ysb_star(made(), &campaigns, windows)));
    check(|env| rows(ysb::swa(seen(env)))).seeds(2).equals(texts(yahoo::swa(made())));
}
