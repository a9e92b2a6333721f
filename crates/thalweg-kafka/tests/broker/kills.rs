//! When something is killed: after times that follow from a seed, so that a run has the same times again.
//!
//! `THALWEG_KAFKA_KILLS` sets the number of kills of each test, and `THALWEG_KAFKA_SEED` the seed.

use crate::Test;
use crate::broker::Broker;
use std::fmt::Debug;
use std::thread;
use std::time::Duration;
use thalweg::data::{hash_bytes, splitmix64};

pub const TESTS: &[Test] = &[("times_of_kills_follow_from_a_seed", seeds)];

/// After so many kills, a test waits for what it has to find, and checks all of it: before a transaction that was left open is
/// over, and so that a long test says soon what is wrong.
const CHECKED: u64 = 20;

/// The kills of a test: some in the tests of each change, and hundreds in a long run.
pub struct Kills {
    of: &'static str,
    seed: u64,
    random: u64,
    count: u64,
    begun: u64,
}

impl Kills {
    /// Those of a test, so many of them if no variable sets another number.
    pub fn new(of: &'static str, usual: u64) -> Self {
        let number = |name: &str, usual| match std::env::var(name) {
            Ok(text) => {
                text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and no number"))
            }
            Err(_) => usual,
        };
        Self::seeded(of, number("THALWEG_KAFKA_SEED", 0), number("THALWEG_KAFKA_KILLS", usual))
    }

    fn seeded(of: &'static str, seed: u64, count: u64) -> Self {
        // Each test has times of its own, which do not depend on the tests before it.
        Self { of, seed, random: seed ^ hash_bytes(of.as_bytes()), count, begun: 0 }
    }

    /// The test's name, for its topics.
    pub fn of(&self) -> &'static str {
        self.of
    }

    /// The number of the next one, from 0, until there were all.
    pub fn another(&mut self) -> Option<u64> {
        if self.begun > 0 && self.begun.is_multiple_of(50) {
            println!("{}: {} of {} kills", self.of, self.begun, self.count);
        }
        self.begun += 1;
        (self.begun <= self.count).then(|| self.begun - 1)
    }

    /// Whether all is to be checked behind the current one.
    pub fn is_checked(&self) -> bool {
        self.begun.is_multiple_of(CHECKED)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        splitmix64(&mut self.random) % limit
    }

    pub fn millis_below(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

impl Drop for Kills {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self { of, seed, count, begun, .. } = *self;
            let last = begun.min(count);
            let set = format!("THALWEG_KAFKA_SEED={seed} THALWEG_KAFKA_KILLS={count}");
            eprintln!("{of}: failed at or behind kill {last} of {count}, with {set}");
        }
    }
}

/// Does parts of something until a time is over: one each ten milliseconds.
pub fn spread(count: u64, over: Duration, mut each: impl FnMut(std::ops::Range<u64>)) {
    let parts = over.as_millis() as u64 / 10 + 1;
    for part in 0..parts {
        each(count * part / parts..count * (part + 1) / parts);
        if part + 1 < parts {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Checks that all is there once and in order.
pub fn check<T: Debug + PartialEq>(found: &[T], expected: &[T], of: &str) {
    if found == expected {
        return;
    }
    let at = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let around = |all: &[T]| {
        format!("{:?}", &all[at.saturating_sub(2).min(all.len())..all.len().min(at + 5)])
    };
    let (has, should) = (around(found), around(expected));
    let lengths = format!("{} of {}", found.len(), expected.len());
    panic!(
        "of {of}, which has {lengths}, from {} on: {has} instead of {should}",
        at.saturating_sub(2)
    );
}

fn seeds(_: &mut Broker) {
    let times = |of, seed| {
        let mut kills = Kills::seeded(of, seed, 9);
        let mut times = Vec::new();
        while kills.another().is_some() {
            times.push(kills.millis_below(1_000));
        }
        times
    };
    assert_eq!(times("one", 7), times("one", 7));
    assert_ne!(times("one", 7), times("one", 8));
    assert_ne!(times("one", 7), times("another", 7));
    assert_eq!(times("one", 7).len(), 9);
    assert!(times("one", 7).iter().all(|time| *time < Duration::from_secs(1)));
    let mut parts = Vec::new();
    spread(1_000, Duration::from_millis(70), |part| parts.push(part));
    assert_eq!(parts.len(), 8);
    assert!(parts.iter().cloned().flatten().eq(0..1_000));
}
