//! Joins against their definition: every record of one stream is compared with every record of the other.

use super::{AsOf, Interval};
use crate::check::{cases, check, every};
use crate::config::{BatchMode, Config};
use crate::operators::time::Watermarks;
use crate::operators::window::tests::beginnings;
use crate::operators::window::{EventTimeWindow, Pane};
use crate::time::Timestamp;
use crate::{Environment, ErrorKind, Stream};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A key, a timestamp in microseconds, a value.
type Reading = (u8, i64, u16);

fn micros(span: i64) -> Duration {
    Duration::from_micros(span.unsigned_abs())
}

/// The readings distributed to all tasks, with timestamps and a bound of their actual disorder. They are
/// emitted one by one, so that there is a watermark after every few of them.
fn timed(
    env: &Environment,
    all: &[Reading],
) -> Stream<impl crate::Chain<Item = Reading, Time = Timestamp> + use<>> {
    // That of all records in one task: a job that was interrupted goes on with other numbers of tasks.
    let mut greatest = Timestamp::MIN;
    let mut worst = Duration::ZERO;
    for (_, at, _) in all {
        let at = Timestamp::from_micros(*at);
        greatest = greatest.max(at);
        worst = worst.max(greatest.since(at));
    }
    let all = all.to_vec();
    env.parallel_iter(move |task, tasks| {
        all.iter().copied().skip(task).step_by(tasks).collect::<Vec<_>>().into_iter()
    })
    .batch_mode(BatchMode::Single)
    .forward()
    .batch_mode(env.config().batch)
    .assign_timestamps(
        |(_, at, _)| Timestamp::from_micros(*at),
        Watermarks::bounded_disorder(worst),
    )
}

/// The readings of both sides.
fn some_readings() -> impl Strategy<Value = (Vec<Reading>, Vec<Reading>)> {
    let step = prop_oneof![80 => 0..4i64, 20 => -20..0i64, 10 => 0..100i64, 1 => any::<i64>()];
    let side = prop::collection::vec((0..4u8, step), 0..200);
    (beginnings(), side.clone(), side).prop_map(|(begin, left, right)| {
        let of = |steps: Vec<(u8, i64)>| {
            let mut at = begin;
            let each = |(number, (key, step)): (u16, (u8, i64))| {
                at = at.saturating_add(step);
                (key, at, number)
            };
            (0..).zip(steps).map(each).collect()
        };
        (of(left), of(right))
    })
}

/// An interval, and its ends.
fn intervals() -> impl Strategy<Value = (Interval, (i64, i64))> {
    let near = (-40..40i64, 0..40i64).prop_map(|(lower, width)| (lower, lower + width));
    let far = (-i64::MAX..=i64::MAX, -i64::MAX..=i64::MAX).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![8 => near, 1 => far].prop_map(|(lower, upper)| {
        let interval = match (lower < 0, upper < 0) {
            (true, true) => Interval::preceding(micros(lower), micros(upper)),
            (true, false) => Interval::new(micros(lower), micros(upper)),
            (false, _) => Interval::following(micros(lower), micros(upper)),
        };
        (interval, (lower, upper))
    })
}

/// A left value and its right one, with the timestamp of the result.
type Pair = (u16, Option<u16>, i64);

/// Compares a join's results, and their timestamps: windows of a microsecond count the results that are not
/// late.
macro_rules! compare {
    ($expected:expr, |$env:ident| $joined:expr) => {{
        let expected: Vec<(u8, Pair)> = $expected;
        check(|$env| $joined)
            .seeds(2)
            .equals(expected.iter().map(|(key, (a, b, _))| (*key, (*a, *b))));
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        expected.iter().for_each(|(_, (_, _, at))| *counts.entry(*at).or_default() += 1);
        let panes = counts.into_iter().map(|(at, count)| {
            let end = Timestamp::from_micros(at.saturating_add(1));
            Pane::on_time(Timestamp::from_micros(at), end, count)
        });
        let panes: Vec<_> = panes.collect();
        let moment = EventTimeWindow::tumbling(Duration::from_micros(1));
        check(|$env| $joined.unkey().window_all(moment).count()).seeds(2).equals(panes);
    }};
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn every_pair_within_the_interval_is_joined(
        (left, right) in some_readings(),
        (interval, (lower, upper)) in intervals(),
        outer in any::<bool>(),
    ) {
        let mut expected = Vec::new();
        for &(key, at, value) in &left {
            let apart = |r: &Reading| i128::from(r.1) - i128::from(at);
            let near = |r: &&Reading| r.0 == key && (lower.into()..=upper.into()).contains(&apart(r));
            let partners: Vec<_> = right.iter().filter(near).collect();
            expected.extend(partners.iter().map(|r| (key, (value, Some(r.2), at.max(r.1)))));
            if partners.is_empty() && outer {
                expected.push((key, (value, None, at.max(at.saturating_add(upper)))));
            }
        }
        if outer {
            compare!(expected, |env| {
                let (left, right) = (timed(env, &left), timed(env, &right));
                let (left, right) = (left.group_by(|r| r.0), right.group_by_ref(|r| &r.0));
                left.interval_left_join(right, interval, |_, a, b| (a.2, b.map(|b| b.2)))
            });
        } else {
            compare!(expected, |env| {
                let (left, right) = (timed(env, &left), timed(env, &right));
                let (left, right) = (left.group_by_ref(|r| &r.0), right.group_by(|r| r.0).repartition());
                left.interval_join(right, interval, |_, a, b| (a.2, Some(b.2)))
            });
        }
    }

    #[test]
    fn every_record_meets_the_one_in_force(
        (left, right) in some_readings(),
        next in any::<bool>(),
        tolerance in prop::option::of(prop_oneof![8 => 0..60i64, 1 => 0..=i64::MAX]),
        outer in any::<bool>(),
    ) {
        let which = if next { AsOf::next() } else { AsOf::latest() };
        let which = tolerance.map_or(which, |most| which.within(micros(most)));
        let most = tolerance.map_or(i128::MAX, i128::from);
        let apart = |a: i64, b: i64| i128::from(b) - i128::from(a);
        let mut expected = Vec::new();
        for &(key, at, value) in &left {
            let times = right.iter().filter(|r| r.0 == key).map(|r| r.1);
            let found = if next {
                times.filter(|other| *other >= at && apart(at, *other) <= most).min()
            } else {
                times.filter(|other| *other <= at && apart(*other, at) <= most).max()
            };
            // Times are compared instead of values, as the order of several right records at one time is not
            // known.
            match found {
                Some(found) => expected.push((key, (value, Some(found.wrapping_add(100) as u16), at.max(found)))),
                None if outer && next => {
                    let given_up = tolerance.map_or(i64::MAX, |most| at.saturating_add(most));
                    expected.push((key, (value, None, given_up)));
                }
                None if outer => expected.push((key, (value, None, at))),
                None => {}
            }
        }
        let time = |r: &Reading| r.1.wrapping_add(100) as u16;
        if outer {
            compare!(expected, |env| {
                let (left, right) = (timed(env, &left), timed(env, &right));
                let (left, right) = (left.group_by(|r| r.0), right.group_by_ref(|r| &r.0));
                left.as_of_left_join(right, which, move |_, a, b| (a.2, b.map(time)))
            });
        } else {
            compare!(expected, |env| {
                let (left, right) = (timed(env, &left), timed(env, &right));
                let (left, right) = (left.group_by_ref(|r| &r.0), right.group_by(|r| r.0));
                left.as_of_join(right, which, move |_, a, b| (a.2, Some(time(b))))
            });
        }
    }
}

/// One key with many records that are all close, where one partition of a source is behind the other: results are
/// emitted as fast as they are accepted.
#[test]
fn a_record_may_have_many_results() {
    let n = 150_u64;
    let side = |env: &Environment| {
        env.parallel_iter(move |task, tasks| (task as u64..n).step_by(tasks)).assign_timestamps(
            |n| Timestamp::from_micros((*n % 2 * 150 + *n / 2) as i64),
            Watermarks::bounded_disorder(micros(400)),
        )
    };
    check(|env| {
        let (left, right) = (side(env).group_by(|_| ()), side(env).group_by(|_| ()));
        let joined = left.interval_join(right, Interval::within(micros(800)), |_, a, b| (*a, *b));
        let sums = joined.unkey().shuffle().map(|(_, (a, b))| (1, a * 1000 + b));
        sums.fold_assoc(
            (0, 0),
            |sum, (count, value)| *sum = (sum.0 + count, sum.1 + value),
            |sum, other| *sum = (sum.0 + other.0, sum.1 + other.1),
        )
    })
    .seeds(4)
    .equals([(n * n, n * (n * (n - 1) / 2) * 1001)]);
}

/// One partition is far behind the other, so that each record of a key comes in the middle of hundreds. There are two records of
/// each time.
#[test]
fn a_key_may_have_many_records_far_out_of_order() -> crate::Result<()> {
    let n = 600_u64;
    let at = move |i: u64| ((i % 2 * n / 2 + i / 2) / 2) as i64;
    let env = Environment::with_config(Config { cores: NonZeroUsize::MIN, ..Config::default() });
    // No record is forgotten before the end.
    let disorder = || Watermarks::bounded_disorder(micros(n as i64));
    let timed =
        || env.iter(0..n).assign_timestamps(move |i| Timestamp::from_micros(at(*i)), disorder());
    let (left, right) = (timed().group_by(|_| ()), timed().group_by(|_| ()));
    let joined = left.interval_join(right, Interval::within(micros(1)), |_, a, b| (*a, *b));
    let found = joined.unkey().map(|(_, pair)| pair).collect::<Vec<_>>();
    env.run()?;
    let mut found = found.take()?;
    found.sort_unstable();
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let near: Vec<_> = pairs.filter(|(a, b)| (at(*a) - at(*b)).abs() <= 1).collect();
    assert_eq!(found, near);
    Ok(())
}

#[test]
fn a_limit_ends_a_join_without_an_end() {
    every(|env| {
        let side = || {
            let numbers = env.iter(0i64..);
            let timed = numbers
                .assign_timestamps(|n| Timestamp::from_micros(*n / 100), Watermarks::monotonous());
            timed.group_by(|n| n % 3)
        };
        let pairs = side().interval_join(side(), Interval::within(micros(1)), |_, a, b| (*a, *b));
        let some = pairs.unkey().limit(10).count().collect_one();
        env.run()?;
        assert_eq!(some.take()?.unwrap(), 10);
        Ok(())
    });
}

#[test]
fn joins_at_the_ends_of_time() {
    let ends = [i64::MIN, i64::MIN + 5, -1, 0, 1, i64::MAX - 5, i64::MAX];
    let side = |env: &Environment| {
        let late = Watermarks::bounded_disorder(Duration::MAX);
        env.iter(ends).assign_timestamps(|at| Timestamp::from_micros(*at), late).group_by(|_| ())
    };
    let pairs = |interval: Interval| {
        let found = check(move |env| {
            let pairs = side(env).interval_join(side(env), interval, |_, a, b| (*a, *b));
            pairs.unkey().map(|(_, pair)| pair)
        });
        let mut found = found.seeds(1).agrees();
        found.sort_unstable();
        found
    };
    let by_hand = |lower: i128, upper: i128| {
        let all = ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b)));
        let near = |(a, b): &(i64, i64)| {
            let apart = i128::from(*b) - i128::from(*a);
            (lower..=upper).contains(&apart)
        };
        let mut all: Vec<_> = all.filter(near).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(pairs(Interval::within(micros(5))), by_hand(-5, 5));
    assert_eq!(pairs(Interval::following(micros(5), micros(20))), by_hand(5, 20));
    assert_eq!(pairs(Interval::preceding(micros(20), micros(2))), by_hand(-20, -2));
    let most = i128::from(i64::MAX);
    assert_eq!(pairs(Interval::within(Duration::MAX)), by_hand(-most, most));
    check(|env| {
        let latest = side(env).as_of_join(side(env), AsOf::latest(), |_, a, b| (*a, *b));
        latest.unkey().map(|(_, pair)| pair)
    })
    .seeds(1)
    .equals(ends.map(|at| (at, at)));
    check(|env| {
        let within = AsOf::next().within(micros(10));
        side(env)
            .as_of_left_join(side(env), within, |_, a, b| (*a, *b.unwrap()))
            .map(|_, pair| pair)
    })
    .seeds(1)
    .equals(ends.map(|at| ((), (at, at))));
}

/// Enough records that a watermark is emitted.
fn until_a_watermark(at: i64) -> impl Iterator<Item = (i64, &'static str)> {
    std::iter::repeat_n((at, "filler"), 40)
}

#[test]
fn of_several_at_one_time_the_last_to_arrive_is_in_force() {
    let side = |env: &Environment, all: &[(i64, &'static str)]| {
        let all: Vec<_> = all.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
        env.iter(all)
            .assign_timestamps(|(at, _)| Timestamp::from_micros(*at), Watermarks::monotonous())
            .group_by(|_| 0u8)
    };
    let rights = [(1, "a"), (3, "b"), (3, "c"), (3, "d"), (7, "e"), (7, "f")];
    let lefts = [(0, "0"), (3, "3"), (5, "5"), (9, "9")];
    let found = |which| {
        move |env: &Environment| {
            let joined = side(env, &lefts).as_of_left_join(side(env, &rights), which, |_, a, b| {
                (a.1.clone(), b.map(|b| b.1.clone()))
            });
            joined.unkey().map(|(_, pair)| pair)
        }
    };
    let pairs = |pairs: [(&str, &str); 4]| {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        pairs.map(|(a, b)| (a.to_owned(), some(b)))
    };
    check(found(AsOf::latest())).equals(pairs([("0", ""), ("3", "d"), ("5", "d"), ("9", "f")]));
    check(found(AsOf::next())).equals(pairs([("0", "a"), ("3", "b"), ("5", "e"), ("9", "")]));
}

/// A late record of the second stream is counted, and in force for later records.
#[test]
fn a_late_record_is_in_force_afterwards() {
    let some_late = AtomicU64::new(0);
    every(|env| {
        let prices = until_a_watermark(10).chain([(5, "late"), (30, "last")]);
        let trades = until_a_watermark(10).chain([(20, "trade"), (30, "last")]);
        let side = |all: Vec<(i64, &'static str)>, key: fn(&str) -> u8| {
            env.iter(all.into_iter().map(|(at, text)| (at, text.to_owned())))
                .batch_mode(BatchMode::Single)
                .forward()
                .assign_timestamps(|(at, _)| Timestamp::from_micros(*at), Watermarks::monotonous())
                .group_by(move |(_, text)| key(text))
        };
        // The filler has a key of its own.
        let key = |text: &str| u8::from(text == "filler");
        let (prices, trades) = (side(prices.collect(), key), side(trades.collect(), key));
        let joined =
            trades.as_of_join(prices, AsOf::latest(), |_, a, b| format!("{} {}", a.1, b.1));
        let of_interest = joined.filter(|key, _| *key == 0).unkey().map(|(_, text)| text);
        let out = of_interest.collect::<Vec<_>>();
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        // Where the other stream is slow, its watermark has not passed yet, and then nothing is late.
        assert!(late <= 1, "{late}");
        some_late.fetch_add(late, Ordering::Relaxed);
        let mut out = out.take()?;
        out.sort();
        assert_eq!(out, ["last last", "trade late"]);
        Ok(())
    });
    assert!(some_late.into_inner() > 0);
}

/// Every record has a result or is counted as late.
#[test]
fn late_records_are_counted() {
    let some_late = AtomicU64::new(0);
    every(|env| {
        let n = 6_000_u64;
        // Every tenth record comes far too late.
        let at = |n: &u64| if n % 10 == 9 { *n as i64 - 2_000 } else { *n as i64 };
        let side = || {
            env.iter(0..n)
                .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous())
                .group_by(|n| n % 500)
        };
        let nothing = env
            .iter(std::iter::empty::<u64>())
            .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous());
        let near = Interval::within(micros(20));
        let alone = side().interval_left_join(nothing.group_by(|n| n % 500), near, |_, _, b| {
            assert!(b.is_none());
        });
        let alone = alone.unkey().count().collect_one();
        let both = side()
            .as_of_left_join(side(), AsOf::latest(), |_, _, _| ())
            .unkey()
            .count()
            .collect_one();
        let stats = env.start()?.wait()?;
        let late = |name: &str| -> u64 {
            let named = stats.operators.iter().filter(|op| op.name.starts_with(name));
            named.map(|op| op.late_records).sum()
        };
        assert_eq!(alone.take()?.unwrap() + late("interval_left_join"), n);
        let given = both.take()?.unwrap();
        assert!(given <= n && given + late("as_of_left_join") >= n);
        some_late.fetch_add(late("interval_left_join"), Ordering::Relaxed);
        Ok(())
    });
    assert!(some_late.into_inner() > 0);
}

#[test]
fn a_key_without_live_records_leaves_nothing_behind() -> crate::Result<()> {
    let config = Config { memory: 48 << 20, ..Config::default() };
    let env = Environment::with_config(config);
    let n = 400_000;
    // One side alone, so that what is kept does not depend on which side runs ahead.
    let at = |n: &u64| Timestamp::from_micros(*n as i64);
    let lefts = env.iter(0..n).assign_timestamps(at, Watermarks::monotonous());
    let [lefts, rights] = lefts.split();
    let near = Interval::within(micros(100));
    let pairs =
        lefts.group_by(|n| *n).interval_join(rights.group_by(|n| *n), near, |_, a, b| a + b);
    let count = pairs.unkey().count().collect_one();
    env.run()?;
    assert_eq!(count.take()?.unwrap(), n);
    Ok(())
}

#[test]
fn more_than_memory_holds_goes_to_disk() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 400_000, ..Config::default() });
    let side = || {
        let at = |n: &u64| Timestamp::from_micros(*n as i64);
        env.range(0..8_000).assign_timestamps(at, Watermarks::monotonous()).group_by(|n| *n)
    };
    let all = Interval::within(Duration::MAX);
    let pairs = side().interval_join(side(), all, |_, a, b| a + b).unkey();
    let pairs = pairs.count().collect_one();
    let stats = env.start()?.wait()?;
    assert_eq!(pairs.take()?, Some(8_000));
    assert!(stats.operators.iter().any(|op| op.kind == "interval_join" && op.spilled_bytes > 0));
    Ok(())
}

#[test]
fn invalid_joins_are_refused_at_the_start() {
    let side = |env: &Environment| {
        let numbers = env.iter(0..9i64);
        let timed =
            numbers.assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous());
        timed.group_by(|n| n % 3)
    };
    check(|env| {
        let nothing = Interval::following(micros(5), micros(3));
        side(env).interval_join(side(env), nothing, |_, a, b| a + b)
    })
    .seeds(0)
    .fails_with("an interval from +5µs to +3µs holds nothing");
    let (env, other) = (Environment::new(), Environment::new());
    side(&env).as_of_join(side(&other), AsOf::latest(), |_, a, b| a + b).unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap_or_default().starts_with("as_of_join ("), "{error}");
}
