//! The events of Nexmark: independent of how they are generated, and in accordance with the specification.

use proptest::prelude::*;
use std::collections::HashSet;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use thalweg_workloads::digest::digest;
use thalweg_workloads::error::Problem;
use thalweg_workloads::nexmark::{
    Auction, Bid, Event, EventRef, Generator, Person, RATE, Scratch, Segments, decode, encode,
    oracle, recipe,
};
use thalweg_workloads::{Recipe, SECOND};

fn events(seed: u64, count: u64) -> Vec<Event> {
    Generator::new(recipe(seed)).events(0..count).collect()
}

#[test]
fn events_and_answers_do_not_drift() {
    // The inputs and answers of other systems are stored in files: if a value changes, raise the version of the
    // format as well.
    let events = events(1, 200_000);
    let all = || events.iter().map(Event::view);
    let digests = [
        digest(oracle::q0(all())),
        digest(oracle::q1(all())),
        digest(oracle::q2(all())),
        digest(oracle::q3(all())),
        digest(oracle::q4(all())),
        digest(oracle::q5(all())),
        digest(oracle::q6(all())),
        digest(oracle::q7(all())),
        digest(oracle::q8(all())),
    ];
    let expected = [
        "200000:72f8b559cbdf7160",
        "184000:3c0161fe7c0efd16",
        "1492:161c9bd04be98c61",
        "1068:6c7435417f007421",
        "5:43ce54d3066d68ed",
        "18:a1d78f28209cec9b",
        "7533:05aa8730e8e9a244",
        "2:c699394b0f5d449e",
        "1822:6a2f1411cc2d4ba9",
    ];
    assert_eq!(digests.map(|digest| digest.to_string()), expected);
}

#[test]
fn of_fifty_events_one_is_a_person_and_three_are_auctions() {
    for round in events(2, 5_000).chunks(50) {
        let kind = |event: &Event| match event {
            Event::Person(_) => 'p',
            Event::Auction(_) => 'a',
            Event::Bid(_) => 'b',
        };
        let kinds: String = round.iter().map(kind).collect();
        assert_eq!(kinds, "paaa".to_owned() + &"b".repeat(46));
    }
}

#[test]
fn time_and_identifiers_grow_with_the_number() {
    let (mut person, mut auction) = (1000, 1000);
    for (number, event) in (0..).zip(events(3, 20_000)) {
        assert_eq!(event.time(), Recipe::START + number * SECOND / RATE.get() as i64);
        match event {
            Event::Person(it) => {
                assert_eq!(it.id, person);
                person += 1;
            }
            Event::Auction(it) => {
                assert_eq!(it.id, auction);
                auction += 1;
                assert!((10..15).contains(&it.category));
                assert!(it.reserve > it.initial_bid && it.initial_bid >= 100);
                // The time of 100 auctions is 166.6 ms.
                let length = it.expires - it.date_time;
                assert!((1..=333_200).contains(&length), "{length}");
                // No event refers to a person more than ten ahead, or more than a thousand behind.
                assert!((1000..person + 10).contains(&it.seller));
                assert!(it.seller + 1000 >= person);
            }
            Event::Bid(it) => {
                assert!((1000..auction + 10).contains(&it.auction));
                assert!(it.auction + 101 >= auction, "{it} with auctions up to {auction}");
                assert!((1000..=person + 10).contains(&it.bidder));
                assert!((100..=100_000_000).contains(&it.price));
            }
        }
    }
}

#[test]
fn the_hot_are_hot() {
    let (mut bids, mut hot_auction, mut hot_bidder) = (0, 0, 0);
    let (mut auctions, mut hot_seller, mut length) = (0, 0, 0);
    // From here on a thousand persons are active, so that the hot ones are rarely chosen by chance.
    for event in Generator::new(recipe(4)).events(100_000..300_000) {
        match event {
            Event::Bid(bid) => {
                bids += 1;
                hot_auction += u32::from(bid.auction % 100 == 0);
                hot_bidder += u32::from(bid.bidder % 100 == 1);
            }
            Event::Auction(auction) => {
                auctions += 1;
                hot_seller += u32::from(auction.seller % 100 == 0);
                length += auction.expires - auction.date_time;
            }
            Event::Person(_) => {}
        }
    }
    let share = |hot: u32, all: u32| f64::from(hot) / f64::from(all);
    // One in a hundred of the others is a hot one by chance.
    for (share, expected) in [
        (share(hot_auction, bids), 0.505),
        (share(hot_bidder, bids), 0.7525),
        (share(hot_seller, auctions), 0.7525),
    ] {
        assert!((share - expected).abs() < 0.015, "{share} for {expected}");
    }
    let average = length / i64::from(auctions);
    assert!((160_000..173_000).contains(&average), "{average}");
}

#[test]
fn records_have_the_average_size_that_they_are_padded_to() {
    let (mut sums, mut counts) = ([0; 3], [0; 3]);
    for event in events(5, 100_000) {
        let (kind, size) = match event {
            Event::Person(it) => {
                let texts = [it.name, it.email, it.credit_card, it.city, it.state, it.extra];
                (0, 8 + texts.iter().map(String::len).sum::<usize>())
            }
            Event::Auction(it) => {
                let texts = [it.item_name, it.description, it.extra];
                assert!(texts[..2].iter().all(|text| text.trim() == text));
                (1, 48 + texts.iter().map(String::len).sum::<usize>())
            }
            Event::Bid(it) => (2, 32 + it.extra.len()),
        };
        sums[kind] += size;
        counts[kind] += 1;
    }
    for (kind, expected) in [200, 500, 100].into_iter().enumerate() {
        let average = sums[kind] / counts[kind];
        assert!(average.abs_diff(expected) <= 2, "{average} for {expected}");
    }
}

#[test]
fn a_channel_has_one_address() {
    let mut pairs = HashSet::new();
    let (mut hot, mut all) = (0, 0);
    for event in events(6, 200_000) {
        if let Event::Bid(bid) = event {
            all += 1;
            hot += u32::from(!bid.channel.starts_with("channel-"));
            assert!(bid.url.starts_with("https://www.nexmark.com/"));
            pairs.insert((bid.channel, bid.url));
        }
    }
    let channels: HashSet<&String> = pairs.iter().map(|(channel, _)| channel).collect();
    assert_eq!(pairs.len(), channels.len());
    // One or two of the 10,004 may not have been drawn.
    assert!((9_990..=10_004).contains(&channels.len()));
    assert!((0.49..0.51).contains(&(f64::from(hot) / f64::from(all))));
}

#[test]
fn seeds_differ() {
    assert_ne!(digest(events(7, 1_000)), digest(events(8, 1_000)));
}

#[test]
fn neither_threads_nor_cuts_change_a_byte() {
    let whole = Segments::generate(recipe(9), 10_000);
    assert_eq!(whole.segments().len(), 1);
    for (cut, threads) in [(1, 3), (999, 1), (1_000, 2), (9_999, 8), (10_000, 1)] {
        let cut = NonZeroU32::new(cut).unwrap();
        let threads = NonZeroUsize::new(threads).unwrap();
        let made = Segments::generate_in(recipe(9), 10_000, cut, threads);
        let bytes: Vec<u8> =
            made.segments().iter().flat_map(|segment| segment.bytes().iter().copied()).collect();
        assert!(bytes[..] == whole.segments()[0].bytes()[..], "{cut} events in a segment");
        let mut next = 0;
        for segment in made.segments() {
            assert_eq!(segment.first(), next);
            assert_eq!(segment.events().count() as u64, segment.count());
            next += segment.count();
        }
        assert_eq!(next, 10_000);
    }
    assert_eq!(Segments::generate(recipe(9), 0).events().count(), 0);
}

#[test]
fn numbers_far_out_make_events_too() {
    let slow = Recipe { seed: u64::MAX, rate: NonZeroU64::MIN };
    let generator = Generator::new(slow);
    let mut scratch = Scratch::default();
    for number in u64::MAX - 200..=u64::MAX {
        let event = generator.event(number, &mut scratch);
        assert_eq!(event.time(), i64::MAX);
        if let EventRef::Auction(auction) = event {
            assert_eq!(auction.expires, i64::MAX);
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let text = || "[a-z é😀]{0,8}|[a-z]{120,300}";
    let person = (any::<(u64, i64)>(), text(), text(), text(), text(), text(), text()).prop_map(
        |((id, date_time), name, email, credit_card, city, state, extra)| {
            Event::Person(Person { id, date_time, name, email, credit_card, city, state, extra })
        },
    );
    let auction = (any::<(u64, u64, u64, u64, u64, i64, i64)>(), text(), text(), text()).prop_map(
        |(numbers, item_name, description, extra)| {
            let (id, seller, category, initial_bid, reserve, date_time, expires) = numbers;
            Event::Auction(Auction {
                id,
                seller,
                category,
                initial_bid,
                reserve,
                date_time,
                expires,
                item_name,
                description,
                extra,
            })
        },
    );
    let bid = (any::<(u64, u64, u64, i64)>(), text(), text(), text()).prop_map(
        |((auction, bidder, price, date_time), channel, url, extra)| {
            Event::Bid(Bid { auction, bidder, price, date_time, channel, url, extra })
        },
    );
    prop_oneof![person, auction, bid]
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&event.view(), &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn any_range_is_that_part_of_the_whole(seed: u64, start in 0u64..1_000, length in 0u64..200) {
        let generator = Generator::new(recipe(seed));
        let whole: Vec<Event> = generator.events(0..start + length).collect();
        let part: Vec<Event> = generator.events(start..start + length).collect();
        prop_assert_eq!(&part[..], &whole[start as usize..]);
    }

    #[test]
    fn encoded_events_come_back(events in prop::collection::vec(any_event(), 0..5)) {
        let bytes: Vec<u8> = events.iter().flat_map(encoded).collect();
        let mut rest = bytes.as_slice();
        for event in &events {
            let view = decode(&mut rest).unwrap();
            prop_assert_eq!(&view, &event.view());
            prop_assert_eq!(&view.to_owned(), event);
            prop_assert_eq!(digest([view]), digest([event]));
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn events_cut_short_are_refused(event in any_event()) {
        let bytes = encoded(&event);
        for length in 0..bytes.len() {
            let mut rest = &bytes[..length];
            let error = decode(&mut rest).unwrap_err();
            prop_assert_eq!(error.problem, Problem::Short);
            prop_assert!(error.offset <= length);
            prop_assert_eq!(rest.len(), length);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_are_another_event(
        event in any_event(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&event);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        check_bytes(&bytes)?;
    }

    #[test]
    fn any_bytes_are_refused_or_are_an_event(mut bytes: Vec<u8>, kind in 0u8..3) {
        check_bytes(&bytes)?;
        bytes.insert(0, kind);
        check_bytes(&bytes)?;
    }
}

/// Checks that decoded bytes are encoded to the same bytes again.
fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut rest = bytes;
    match decode(&mut rest) {
        Ok(event) => {
            let mut again = Vec::new();
            encode(&event, &mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
        }
        Err(error) => {
            prop_assert!(error.offset <= bytes.len());
            prop_assert_eq!(rest.len(), bytes.len());
        }
    }
    Ok(())
}
