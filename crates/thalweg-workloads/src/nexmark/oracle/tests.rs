//! Queries on inputs small enough to be checked by hand. Times are in seconds.

use super::*;
use crate::SECOND;
use crate::digest::digest;
use crate::nexmark::{Auction, Bid, Event, Person, Segments, recipe};

fn person(id: u64, second: i64, state: &str) -> Event {
    Event::Person(Person {
        id,
        date_time: second * SECOND,
        name: format!("name {id}"),
        email: "a@b.com".into(),
        credit_card: "0000 0000 0000 0000".into(),
        city: format!("city {id}"),
        state: state.into(),
        extra: String::new(),
    })
}

/// An auction that is open during `open`, with a reserve of 100.
fn auction(id: u64, seller: u64, category: u64, open: std::ops::Range<i64>) -> Event {
    Event::Auction(Auction {
        id,
        seller,
        category,
        initial_bid: 50,
        reserve: 100,
        date_time: open.start * SECOND,
        expires: open.end * SECOND,
        item_name: "thing".into(),
        description: "nice".into(),
        extra: String::new(),
    })
}

fn bid(auction: u64, bidder: u64, price: u64, second: i64) -> Event {
    Event::Bid(Bid {
        auction,
        bidder,
        price,
        date_time: second * SECOND,
        channel: "Apple".into(),
        url: "https://a".into(),
        extra: "x".into(),
    })
}

/// The rows as lines, sorted, with times in seconds.
fn lines<R: std::fmt::Display>(rows: Vec<R>) -> Vec<String> {
    let text = |row: R| row.to_string().replace("000000\t", "s\t");
    let mut lines: Vec<String> = rows.into_iter().map(text).collect();
    lines.sort();
    lines
}

macro_rules! answer {
    ($query:expr, $events:expr) => {
        lines($query($events.iter().map(Event::view)))
    };
}

#[test]
fn q0_gives_everything() {
    let events = [person(1, 2, "OR"), auction(3, 1, 10, 4..5), bid(3, 1, 6, 7)];
    let expected = [
        "auction\t3\t1\t10\t50\t100\t4s\t5s\tthing\tnice\t",
        "bid\t3\t1\t6\t7s\tApple\thttps://a\tx",
        "person\t1\t2s\tname 1\ta@b.com\t0000 0000 0000 0000\tcity 1\tOR\t",
    ];
    assert_eq!(answer!(q0, events), expected);
}

#[test]
fn q1_converts_bids_alone() {
    let events = [person(1, 2, "OR"), bid(3, 1, 1_999, 7)];
    // 1815.092 cents.
    assert_eq!(answer!(q1, events), ["bid\t3\t1\t1815\t7s\tApple\thttps://a\tx"]);
}

#[test]
fn euros_are_rounded_down() {
    for price in (0..5_000).chain(u64::MAX - 5_000..=u64::MAX) {
        assert_eq!(u128::from(euros(price)), u128::from(price) * 908 / 1000);
    }
}

#[test]
fn q2_selects_multiples() {
    let events = [bid(123, 1, 5, 0), bid(124, 1, 6, 0), bid(1230, 1, 7, 0), bid(123, 2, 5, 9)];
    assert_eq!(answer!(q2, events), ["123\t5", "123\t5", "1230\t7"]);
}

#[test]
fn q3_joins_whichever_came_first() {
    let events = [
        auction(7, 2, 10, 0..1),
        person(1, 1, "OR"),
        person(2, 2, "CA"),
        person(3, 3, "AZ"),
        auction(8, 1, 10, 3..4),
        auction(9, 1, 10, 3_000..4_000),
        // The wrong category, state, and a seller who never registers.
        auction(10, 1, 11, 3..4),
        auction(11, 3, 10, 3..4),
        auction(12, 4, 10, 3..4),
    ];
    let expected = ["name 1\tcity 1\tOR\t8", "name 1\tcity 1\tOR\t9", "name 2\tcity 2\tCA\t7"];
    assert_eq!(answer!(q3, events), expected);
}

#[test]
fn the_highest_valid_bid_wins_and_of_equal_ones_the_first() {
    let events = [
        bid(1, 9, 900, 9), // before it opens
        auction(1, 5, 10, 10..20),
        bid(1, 1, 99, 11), // below the reserve
        bid(1, 2, 300, 14),
        bid(1, 3, 300, 12),
        bid(1, 4, 200, 11),
        bid(1, 5, 999, 20), // too late
        bid(2, 6, 999, 12), // for another
        // Without a valid bid.
        auction(3, 5, 10, 10..20),
        bid(3, 1, 99, 15),
        // At the very start, and at the reserve.
        auction(4, 5, 11, 10..11),
        bid(4, 1, 100, 10),
    ];
    let mut won = winners(events.iter().map(Event::view));
    won.sort();
    let winner = |auction, category, closed, price, time| Winner {
        auction,
        seller: 5,
        category,
        closed: closed * SECOND,
        price,
        date_time: time * SECOND,
    };
    assert_eq!(won, [winner(1, 10, 20, 300, 12), winner(4, 11, 11, 100, 10)]);
}

#[test]
fn q4_averages_by_category() {
    let events = [
        auction(1, 1, 10, 0..9),
        auction(2, 2, 10, 0..9),
        auction(3, 1, 11, 0..9),
        auction(4, 1, 12, 0..9),
        bid(1, 1, 100, 1),
        bid(2, 1, 101, 1),
        bid(2, 1, 100, 1),
        bid(3, 1, 700, 1),
    ];
    // 100.5, rounded down; nothing is sold in category 12.
    assert_eq!(answer!(q4, events), ["10\t100", "11\t700"]);
}

#[test]
fn q5_gives_every_hottest_item_of_every_window() {
    let events = [bid(1, 1, 1, 10), bid(2, 1, 1, 11), bid(1, 1, 1, 12), bid(2, 1, 1, 19)];
    let expected = [
        "10s\t1\t2", // both have two in [10, 20)
        "10s\t2\t2",
        "12s\t1\t1", // 12 and 19
        "12s\t2\t1",
        "14s\t2\t1",
        "16s\t2\t1",
        "18s\t2\t1",
        "2s\t1\t1", // 10 and 11
        "2s\t2\t1",
        "4s\t1\t2", // 10, 11 and 12
        "6s\t1\t2",
        "8s\t1\t2",
    ];
    assert_eq!(answer!(q5, events), expected);
}

#[test]
fn q6_averages_the_last_ten_of_a_seller_in_order_of_closing() {
    let mut events = vec![auction(100, 2, 10, 0..5), bid(100, 1, 5_000, 1)];
    // Auction k closes at second 100 + k, opened in reverse, for 1000 k; the last one first.
    for k in (1..=12).rev() {
        events.push(auction(k, 1, 10, 0..100 + k as i64));
        events.push(bid(k, 1, 1_000 * k, 3));
    }
    let mut expected = vec!["2\t100\t5s\t5000".to_owned()];
    for k in 1..=12u64 {
        let first = k.saturating_sub(9).max(1);
        expected.push(format!("1\t{k}\t{}s\t{}", 100 + k, 500 * (first + k)));
    }
    expected.sort();
    assert_eq!(answer!(q6, events), expected);
}

#[test]
fn q6_orders_what_closes_at_once_by_identifier() {
    let mut events = vec![];
    for (id, price) in [(7, 100), (5, 200), (6, 600)] {
        events.extend([auction(id, 1, 10, 0..9), bid(id, 1, price, 1)]);
    }
    assert_eq!(answer!(q6, events), ["1\t5\t9s\t200", "1\t6\t9s\t400", "1\t7\t9s\t300"]);
}

#[test]
fn q7_gives_every_highest_bid_of_every_window() {
    let events = [
        bid(1, 1, 5, 10),
        bid(2, 2, 7, 11),
        bid(3, 3, 7, 19),
        bid(4, 4, 6, 19),
        bid(5, 5, 1, 20),
        bid(6, 6, 8, 45),
    ];
    let expected = [
        "10s\t2\t2\t7\t11000000",
        "10s\t3\t3\t7\t19000000",
        "20s\t5\t5\t1\t20000000",
        "40s\t6\t6\t8\t45000000",
    ];
    assert_eq!(answer!(q7, events), expected);
}

#[test]
fn q8_gives_new_sellers_once() {
    let events = [
        auction(1, 1, 10, 10..20), // before its seller, in the same window
        person(1, 19, "OR"),
        auction(2, 1, 10, 12..20),
        person(2, 19, "OR"),
        auction(3, 2, 10, 20..30), // one window late
        person(3, 19, "OR"),
        person(4, 20, "OR"),
        auction(4, 4, 10, 29..30),
    ];
    assert_eq!(answer!(q8, events), ["10s\t1\tname 1", "20s\t4\tname 4"]);
}

#[test]
fn no_query_minds_the_order_of_events_and_all_have_rows() {
    let segments = Segments::generate(recipe(11), 250_000);
    let forth: Vec<_> = segments.events().collect();
    let mut back = forth.clone();
    back.reverse();
    macro_rules! check {
        ($($query:ident)*) => {$(
            let answer = digest($query(forth.iter().copied()));
            assert_eq!(answer, digest($query(back.iter().copied())), stringify!($query));
            assert!(answer.rows() > 1, "{}: {answer}", stringify!($query));
        )*};
    }
    check!(q0 q1 q2 q3 q4 q5 q6 q7 q8);
}
