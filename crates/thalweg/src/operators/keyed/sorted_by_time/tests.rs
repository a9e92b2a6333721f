//! The order of sorted values, compared with a sort of all of them.

use crate::check::{cases, check, every};
use crate::config::{BatchMode, Config};
use crate::operators::time::Watermarks;
use crate::time::Timestamp;
use crate::{Chain, Environment, ErrorKind, Stream};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// A key, a timestamp in microseconds, a tie.
type Reading = (u8, i64, i64);

const DISORDER: Duration = Duration::from_micros(100);

fn timed(
    env: &Environment,
    all: &[Reading],
) -> Stream<impl Chain<Item = Reading, Time = Timestamp> + use<>> {
    env.iter(all.to_vec()).assign_timestamps(
        |reading| Timestamp::from_micros(reading.1),
        Watermarks::bounded_disorder(DISORDER),
    )
}

/// Each reading with its number among those of its key, in the order of time and tie.
fn numbered(all: &[Reading]) -> Vec<(u8, (u64, Reading))> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|reading| (reading.1, reading.2));
    let mut seen = BTreeMap::<u8, u64>::new();
    let number = |reading: Reading| {
        let seen = seen.entry(reading.0).or_default();
        *seen += 1;
        (reading.0, (*seen, reading))
    };
    sorted.into_iter().map(number).collect()
}

/// The same by the engine.
fn numbers<C: Chain<Item = Reading, Time = Timestamp>>(
    readings: Stream<C>,
) -> Stream<impl Chain<Item = (u8, (u64, Reading)), Time = Timestamp>> {
    let sorted = readings.group_by(|reading| reading.0).sorted_by_time(|reading| reading.2);
    let numbered = sorted.stateful_map(0, |_, seen, reading| {
        *seen += 1;
        (*seen, reading)
    });
    numbered.unkey()
}

/// Readings no further out of order than the watermark allows, with many of the same time.
fn disordered(count: i64) -> Vec<Reading> {
    (0..count).map(|n| ((n * n % 7) as u8, n / 3 - (n * 31) % 90, -n)).collect()
}

#[test]
fn values_are_in_the_order_of_time_however_they_arrive() {
    let all = disordered(1500);
    let expected = numbered(&all);
    check(|env| numbers(timed(env, &all))).seeds(4).must_restore().equals(expected.clone());
    // From several tasks, one record at a time.
    check(|env| {
        let shuffled = timed(env, &all).batch_mode(BatchMode::Single).shuffle();
        numbers(shuffled)
    })
    .seeds(4)
    .equals(expected);
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn any_readings_are_sorted(
        all in prop::collection::vec((0u8..4, -40i64..40, 0i64..1_000_000), 0..200),
    ) {
        let mut all = all;
        // So that no two are equal, whose order would be that of their arrival.
        all.iter_mut().zip(0..).for_each(|(reading, n)| reading.2 = reading.2 * 200 + n);
        let expected = numbered(&all);
        check(|env| numbers(timed(env, &all))).seeds(4).equals(expected);
    }
}

#[test]
fn extreme_timestamps_are_sorted() {
    let times = [i64::MAX, i64::MIN, 0, i64::MAX - 1, i64::MIN + 1, i64::MAX];
    let mut tie = 0;
    let all = times.map(|at| {
        tie += 1;
        (0, at, tie)
    });
    // At the first timestamp of all, the watermark cannot lag.
    let unbounded = Watermarks::bounded_disorder(Duration::MAX);
    check(|env| {
        let timed = env.iter(all.to_vec());
        numbers(timed.assign_timestamps(|it| Timestamp::from_micros(it.1), unbounded.clone()))
    })
    .equals(numbered(&all));
}

#[test]
fn values_of_the_same_time_and_tie_keep_their_order() -> crate::Result<()> {
    let env = Environment::new();
    let numbers = env
        .iter(0..100u64)
        .assign_timestamps(|_| Timestamp::from_secs(1), Watermarks::monotonous());
    let out = numbers.group_by(|_| ()).sorted_by_time(|_| ()).unkey().collect::<Vec<_>>();
    env.run()?;
    assert!(out.take()?.into_iter().map(|(_, n)| n).eq(0..100));
    Ok(())
}

#[test]
fn values_are_emitted_when_the_watermark_has_passed_them() -> crate::Result<()> {
    let env = Environment::new();
    let (numbers, stream) = env.channel(8);
    let timed =
        stream.assign_timestamps(|s: &i64| Timestamp::from_secs(*s), Watermarks::monotonous());
    let out = timed.group_by(|_| ()).sorted_by_time(|_| ()).unkey().to_channel();
    let job = env.start()?;
    let mut out = out.map(|record| record.map(|((), second)| second));
    for second in 0..10 {
        numbers.send(second).unwrap();
        if second > 0 {
            // The one before it, although the stream goes on.
            assert_eq!(out.next().transpose()?, Some(second - 1));
        }
    }
    drop(numbers);
    assert_eq!(out.next().transpose()?, Some(9));
    assert!(out.next().is_none());
    job.wait()?;
    Ok(())
}

#[test]
fn late_values_are_counted_and_dropped() {
    every(|env| {
        // Each second but one is followed by one that is behind the watermark.
        let all = env.iter((0..2000i64).map(|n| if n % 2 == 0 { n } else { n - 100 }));
        let timed = all
            .batch_mode(BatchMode::Single)
            .forward()
            .assign_timestamps(|s| Timestamp::from_secs(*s), Watermarks::monotonous());
        let sorted = timed.group_by(|_| ()).sorted_by_time(|_| ()).unkey();
        let out = sorted.map(|((), second)| second).collect::<Vec<_>>();
        let stats = env.start()?.wait()?;
        let out = out.take()?;
        assert!(out.is_sorted());
        let late = 2000 - out.len() as u64;
        assert_eq!(stats.late_dropped(), late);
        // How many are late depends on when watermarks are sent; the first cannot be.
        assert!(out.contains(&0), "{out:?}");
        Ok(())
    });
}

#[test]
fn a_stage_that_needs_no_more_ends() -> crate::Result<()> {
    let env = Environment::new();
    let endless = env
        .generate(f64::INFINITY, Some)
        .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous());
    let out = endless.group_by(|_| ()).sorted_by_time(|_| ()).unkey().limit(3);
    let out = out.map(|((), n)| n).to_channel();
    let job = env.start()?;
    assert_eq!(out.collect::<crate::Result<Vec<_>>>()?, [0, 1, 2]);
    job.wait()?;
    Ok(())
}

#[test]
fn memory_is_reserved_as_it_is_needed() -> crate::Result<()> {
    // The slab has room for more than these, and must not be doubled for the sake of timers.
    let config = Config { memory: 4 << 20, cores: 1.try_into().unwrap(), ..Config::default() };
    let env = Environment::with_config(config);
    let numbers = env.range(0..40_000).assign_timestamps(
        |n| Timestamp::from_micros(*n as i64),
        Watermarks::bounded_disorder(Duration::from_secs(1)),
    );
    let sorted = numbers.group_by(|_| 0u64).sorted_by_time(|n| *n);
    let out = sorted.unkey().count().collect_one();
    env.run()?;
    assert_eq!(out.take()?, Some(40_000));
    Ok(())
}

#[test]
fn memory_is_that_of_the_records_that_wait() -> crate::Result<()> {
    let run = |lag| {
        // One source: of several, one whose thread gets no processor would let the records of the others wait.
        let config = Config { memory: 4 << 20, cores: 1.try_into().unwrap(), ..Config::default() };
        let env = Environment::with_config(config);
        let numbers = env.range(0..300_000).assign_timestamps(
            |n| Timestamp::from_micros(*n as i64),
            Watermarks::bounded_disorder(lag),
        );
        let texts = numbers.map(|n| n.to_string());
        let sorted = texts.group_by(|text| text.len()).sorted_by_time(|text| text.clone());
        let out = sorted.unkey().count().collect_one();
        env.run()?;
        out.take()
    };
    assert_eq!(run(Duration::from_micros(100))?, Some(300_000));
    let error = run(Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    assert!(error.operator().unwrap_or_default().starts_with("sorted_by_time ("), "{error}");
    Ok(())
}
