//! Tests of early results of sessions against their definition: record by record, and tick by tick.

use crate::check::{cases, check};
use crate::clock::Nanos;
use crate::config::{Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::session::tests::gaps;
use crate::operators::window::tests::{Reading, disorder, micros, some_readings};
use crate::operators::window::{Early, Pane, SessionWindow, Timing};
use crate::time::Timestamp;
use crate::{Environment, ErrorKind};
use proptest::prelude::*;
use std::time::Duration;

/// A session by the definition.
#[derive(Clone, Debug)]
struct Model {
    key: u8,
    first: i64,
    until: i64,
    sum: i64,
    fresh: u64,
    results: u32,
}

impl Model {
    /// Adds a reading to the sessions, and returns the one that it is in.
    fn take(sessions: &mut Vec<Self>, (key, at, value): Reading, gap: i64) -> &mut Self {
        let until = at.saturating_add(gap);
        let joins =
            |other: &mut Self| other.key == key && at <= other.until && other.first <= until;
        let (fresh, results, sum) = (1, 0, i64::from(value));
        let mut one = Self { key, first: at, until, sum, fresh, results };
        for other in sessions.extract_if(.., joins) {
            one.first = one.first.min(other.first);
            one.until = one.until.max(other.until);
            one.sum += other.sum;
            one.fresh += other.fresh;
            one.results = one.results.max(other.results);
        }
        sessions.push(one);
        sessions.last_mut().unwrap()
    }

    fn pane(&self, timing: Timing) -> (u8, Pane<i64>) {
        let at = Timestamp::from_micros;
        let (start, end) = (at(self.first), at(self.until.saturating_add(1)));
        let pane = Pane { start, end, timing, value: self.sum };
        (self.key, pane)
    }

    fn give(&mut self) -> (u8, Pane<i64>) {
        self.fresh = 0;
        self.results += 1;
        self.pane(Timing::Early(self.results))
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn every_n_records_there_is_a_result(gap in gaps(), all in some_readings(), n in 1..6u64) {
        let (mut sessions, mut expected) = (Vec::new(), Vec::new());
        for reading in &all {
            let session = Model::take(&mut sessions, *reading, gap);
            if session.fresh >= n {
                expected.push(session.give());
            }
        }
        expected.extend(sessions.iter().map(|session| session.pane(Timing::OnTime)));
        check(|env| {
            env.iter(all.clone())
                .forward()
                .assign_timestamps(
                    |reading| Timestamp::from_micros(reading.1),
                    Watermarks::bounded_disorder(disorder(&all)),
                )
                .group_by(|reading| reading.0)
                .window(SessionWindow::new(micros(gap)).early(Early::every(n)))
                .sum(|reading| i64::from(reading.2))
        })
        .seeds(2)
        .equals(expected);
    }
}

/// Nanoseconds between two records of the test by the clock.
const PERIOD: Nanos = 100_000_000;

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn results_come_when_the_clock_says(
        gap in 0..40i64,
        steps in prop::collection::vec((0..3u8, 0..20i64), 0..40),
        // No tick falls on a record.
        interval in (130..900u64).prop_map(|millis| millis * 1_000_000 + 370_000),
    ) {
        let mut at = 0;
        let each = |(key, step)| {
            at += step;
            (key, at, 1)
        };
        let all: Vec<Reading> = steps.into_iter().map(each).collect();
        let (mut sessions, mut expected) = (Vec::new(), Vec::new());
        let (mut next, mut watermark) = (interval, i64::MIN);
        for number in 0..=all.len() {
            while next < number as Nanos * PERIOD {
                let changed = |one: &&mut Model| one.fresh > 0 && one.until >= watermark;
                let given = sessions.iter_mut().filter(changed).map(Model::give);
                expected.extend(given.map(|(key, pane)| (Some(next), key, pane)));
                next += interval;
            }
            if let Some(reading) = all.get(number) {
                Model::take(&mut sessions, *reading, gap);
                watermark = reading.1;
            }
        }
        let last = sessions.iter().map(|session| session.pane(Timing::OnTime));
        expected.extend(last.map(|(key, pane)| (None, key, pane)));

        let mut config =
            Config { scheduler: Scheduler::Deterministic { seed: 3 }, ..Config::default() };
        config.cores = 1.try_into().unwrap();
        let env = Environment::with_config(config);
        let clock = env.clock();
        let window =
            SessionWindow::new(micros(gap)).early(Early::interval(Duration::from_nanos(interval)));
        let results = env
            .generate(1e9 / PERIOD as f64, move |n| all.get(n as usize).copied())
            .assign_timestamps(|reading| Timestamp::from_micros(reading.1), Watermarks::monotonous())
            .group_by(|reading| reading.0)
            .window(window)
            .sum(|reading| i64::from(reading.2))
            .unkey()
            .map(move |(key, pane)| {
                let early = matches!(pane.timing, Timing::Early(_));
                (early.then(|| clock.now()), key, pane)
            })
            .to_channel();
        env.run().unwrap();
        let mut results: Vec<_> = results.map(|result| result.unwrap()).collect();
        results.sort();
        expected.sort();
        prop_assert_eq!(results, expected);
    }
}

/// Also with late records sent to a side output.
#[test]
fn results_that_never_come_are_refused() {
    let env = Environment::new();
    let times = env
        .iter(0..9i64)
        .assign_timestamps(|at| Timestamp::from_micros(*at), Watermarks::monotonous());
    let window = SessionWindow::new(micros(3)).early(Early::every(0));
    let (sessions, late) = times.window_all(window).late_output();
    sessions.count().for_each(drop);
    late.for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("every 0 records can never come"), "{error}");
}
