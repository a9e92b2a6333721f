//! Queries on inputs small enough to be checked by hand. Times are in seconds.

use super::*;
use crate::SECOND;
use crate::windows::Windows;
use crate::ysb::{AdType, Campaigns, Event, EventType};

const SEED: u64 = 4;

/// An event with an advertisement of `campaign`, selected by `which`.
fn event(campaign: usize, which: usize, event_type: EventType, second: i64) -> Event {
    Event {
        user: 1,
        page: 2,
        ad: Campaigns::new(SEED).ads()[10 * campaign + which],
        ad_type: AdType::Mail,
        event_type,
        time: second * SECOND,
        ip: [1, 2, 3, 4],
    }
}

fn sample() -> Vec<Event> {
    use EventType::{Click, Purchase, View};
    vec![
        event(0, 0, View, 10),
        event(0, 9, View, 19),
        event(0, 9, Click, 15),
        event(1, 0, View, 19),
        event(99, 9, Click, 19),
        event(0, 0, View, 20),
        event(0, 0, Purchase, 20),
        event(0, 0, Click, 21),
        event(0, 0, Click, 29),
        // Of no campaign.
        Event { ad: 7, ..event(0, 0, View, 12) },
    ]
}

fn lines<R: std::fmt::Display>(rows: Vec<R>) -> Vec<String> {
    rows.into_iter().map(|row| row.to_string().replace("000000\t", "s\t")).collect()
}

#[test]
fn ysb_counts_views() {
    let rows = ysb(sample().into_iter(), &Campaigns::new(SEED));
    assert_eq!(lines(rows), ["10s\t0\t2", "10s\t1\t1", "20s\t0\t1"]);
}

#[test]
fn ysb_star_has_a_row_where_both_are() {
    let rows = ysb_star(sample().into_iter(), &Campaigns::new(SEED), STAR);
    assert_eq!(lines(rows), ["10s\t0\t1\t2\t0.500000", "20s\t0\t2\t1\t2.000000"]);
}

#[test]
fn ysb_star_slides() {
    let windows = Windows::sliding(10 * SECOND, 5 * SECOND);
    let rows = ysb_star(sample().into_iter(), &Campaigns::new(SEED), windows);
    let expected = ["10s\t0\t1\t2\t0.500000", "15s\t0\t2\t2\t1.000000", "20s\t0\t2\t1\t2.000000"];
    assert_eq!(lines(rows), expected);
}

#[test]
fn swa_counts_everything() {
    assert_eq!(lines(swa(sample().into_iter())), ["10s\t6", "20s\t4"]);
}
