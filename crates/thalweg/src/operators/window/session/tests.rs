//! Tests of sessions against their definition: all records are sorted, and merged by the rule.

use super::super::event_time::Earliness;
use super::super::tests::{Reading, micros, readings, some_readings};
use super::super::{Early, EventTimeWindow, Pane, Timing};
use super::early::EarlySessions;
use super::{Counted, FixedGap, SessionWindow};
use crate::Environment;
use crate::check::{cases, check, every};
use crate::config::Config;
use crate::operators::time::Watermarks;
use crate::time::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sessions of each key by the definition, with their results.
fn expected<T>(
    all: &[Reading],
    gap: impl Fn(&Reading) -> i64,
    of: impl Fn(&[i32]) -> T,
) -> Vec<(u8, Pane<T>)> {
    let mut sorted = all.to_vec();
    sorted.sort();
    // The first timestamp, the last timestamp of the session, the values.
    let mut sessions: BTreeMap<u8, Vec<(i64, i64, Vec<i32>)>> = BTreeMap::new();
    for reading in &sorted {
        let (key, at, value) = *reading;
        let until = at.saturating_add(gap(reading));
        let sessions = sessions.entry(key).or_default();
        match sessions.last_mut() {
            Some(last) if at <= last.1 => {
                last.1 = last.1.max(until);
                last.2.push(value);
            }
            _ => sessions.push((at, until, vec![value])),
        }
    }
    let pane = |(start, until, values): &(i64, i64, Vec<i32>)| {
        let end = Timestamp::from_micros(until.saturating_add(1));
        let start = Timestamp::from_micros(*start);
        Pane::on_time(start, end, of(values))
    };
    let of_key = |(key, sessions): (&u8, &Vec<_>)| {
        let key = *key;
        sessions.iter().map(move |session| (key, pane(session))).collect::<Vec<_>>()
    };
    sessions.iter().flat_map(of_key).collect()
}

fn sum(values: &[i32]) -> i64 {
    values.iter().map(|&value| i64::from(value)).sum()
}

/// A gap that depends on the value, and is huge now and then.
fn own_gap(value: i32) -> i64 {
    if value == 49 { i64::MAX } else { i64::from(value.rem_euclid(17)) }
}

pub(super) fn gaps() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..40i64, 1 => 0..=i64::MAX]
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn every_session_has_its_records(gap in gaps(), all in some_readings()) {
        let of = |env: &Environment| readings(env, &all).group_by(|reading| reading.0);
        let window = SessionWindow::new(micros(gap));
        check(|env| of(env).window(window.clone()).count())
            .seeds(2)
            .equals(expected(&all, |_| gap, |values| values.len() as u64));
        check(|env| of(env).window(window.clone()).sum(|reading| i64::from(reading.2)))
            .seeds(2)
            .equals(expected(&all, |_| gap, sum));
        check(|env| of(env).repartition().window(window.clone()).max(|reading| reading.2))
            .seeds(2)
            .equals(expected(&all, |_| gap, |values| *values.iter().max().unwrap()));
    }

    #[test]
    fn records_have_gaps_of_their_own(all in some_readings()) {
        check(|env| {
            let of = |reading: &Reading| micros(own_gap(reading.2));
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            keyed.window(SessionWindow::with_gap(of)).sum(|reading| i64::from(reading.2))
        })
        .seeds(3)
        .equals(expected(&all, |reading| own_gap(reading.2), sum));
    }
}

/// The timestamp of a result is the last one of its session, and the watermark after it does not pass it.
#[test]
fn results_have_the_timestamp_of_their_end() {
    let all: Vec<Reading> =
        (0..3000).map(|n| ((n % 7) as u8, i64::from(n) * 3 + i64::from(n / 50) * 40, n)).collect();
    let sessions = expected(&all, |_| 25, |values| values.len() as u64);
    assert!(sessions.len() > 100);
    let mut hundreds: BTreeMap<i64, u64> = BTreeMap::new();
    for (_, pane) in sessions {
        let start = (pane.end.as_micros() - 1).div_euclid(100) * 100;
        *hundreds.entry(start).or_default() += pane.value;
    }
    check(|env| {
        let keyed = readings(env, &all).group_by(|reading| reading.0);
        let sessions = keyed.window(SessionWindow::new(micros(25))).count().unkey();
        let hundreds = sessions.group_by(|_| ()).window(EventTimeWindow::tumbling(micros(100)));
        let sums = hundreds.sum(|(_, pane)| pane.value).unkey();
        sums.map(|(_, pane)| (pane.start.as_micros(), pane.value))
    })
    .equals(hundreds);
}

#[test]
fn the_gap_itself_belongs_to_the_session() {
    let count = |gap: i64, times: &[i64]| {
        let all: Vec<Reading> = times.iter().map(|at| (0, *at, 1)).collect();
        let found = check(|env| {
            let keyed = readings(env, &all).group_by(|reading| reading.0);
            keyed.window(SessionWindow::new(micros(gap))).count()
        })
        .agrees();
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(_, pane)| (pane.start.as_micros(), pane.end.as_micros(), pane.value))
            .collect();
        found.sort();
        found
    };
    assert_eq!(count(10, &[0, 10]), [(0, 21, 2)]);
    assert_eq!(count(10, &[0, 11]), [(0, 11, 1), (11, 22, 1)]);
    assert_eq!(count(10, &[-5, 13, 5, 0, 40]), [(-5, 24, 4), (40, 51, 1)]);
    assert_eq!(count(0, &[3, 4, 3]), [(3, 4, 2), (4, 5, 1)]);
    // Records that join sessions, before both and between them.
    assert_eq!(count(10, &[20, 0, 40, 30, 10]), [(0, 51, 5)]);
}

#[test]
fn sessions_at_the_ends_of_time() {
    let ends = [i64::MAX, i64::MIN, i64::MAX - 5, i64::MIN + 5, 0];
    check(|env| {
        let late = Watermarks::bounded_disorder(std::time::Duration::MAX);
        env.iter(ends)
            .assign_timestamps(|at| Timestamp::from_micros(*at), late)
            .group_by(|_| 0u8)
            .window(SessionWindow::new(micros(10)))
            .count()
            .unkey()
            .map(|(_, pane)| (pane.start.as_micros(), pane.end.as_micros(), pane.value))
    })
    .equals([(i64::MIN, i64::MIN + 16, 2), (0, 11, 1), (i64::MAX - 5, i64::MAX, 2)]);
}

/// Every record is either in a session or counted as late.
#[test]
fn late_records_are_counted() {
    let some_late = AtomicBool::new(false);
    every(|env| {
        let n = 6_000_u64;
        // Every tenth record arrives far too late.
        let at = |n: &u64| if n % 10 == 9 { *n as i64 - 2_000 } else { *n as i64 };
        let counts = env
            .iter(0..n)
            .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous())
            .group_by(|n| n % 500)
            .window(SessionWindow::new(micros(20)))
            .count()
            .unkey()
            .map(|(_, pane)| pane.value)
            .sum(|n| *n)
            .collect::<Vec<u64>>();
        let stats = env.start()?.wait()?;
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!(counts.take()?[0] + late, n);
        some_late.fetch_or(late > 0, Ordering::Relaxed);
        Ok(())
    });
    assert!(some_late.into_inner());
}

fn a_key_a_record(env: &Environment, records: u64, gap: i64) -> Watched {
    // One partition: with two, either may run ahead of the other, and the sessions in between stay open.
    let numbers = env
        .iter(0..records)
        .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous());
    let sessions = numbers.group_by(|n| *n).window(SessionWindow::new(micros(gap)));
    sessions.count().unkey().count().collect_one()
}

type Watched = crate::Output<Option<u64>>;

#[test]
fn memory_is_that_of_open_sessions() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 24 << 20, ..Config::default() });
    let count = a_key_a_record(&env, 1_000_000, 100);
    env.run()?;
    assert_eq!(count.take()?, Some(1_000_000));
    Ok(())
}

#[test]
fn more_sessions_than_memory_holds_go_to_disk() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 200_000, ..Config::default() });
    let count = a_key_a_record(&env, 10_000, 1_000_000);
    let stats = env.start()?.wait()?;
    assert_eq!(count.take()?, Some(10_000));
    let window = stats.operators.iter().find(|op| op.spilled_bytes > 0);
    assert_eq!(window.map(|op| op.kind.as_str()), Some("window"));
    Ok(())
}

/// Sessions of all records, whatever their key.
#[test]
fn sessions_without_keys() {
    let all: Vec<Reading> =
        (0..2000).map(|n| (0, i64::from(n) * 5 + i64::from(n / 64) * 30, n)).collect();
    let expected = expected(&all, |_| 9, sum).into_iter().map(|(_, pane)| pane);
    check(|env| {
        let sessions = readings(env, &all).window_all(SessionWindow::new(micros(9)));
        sessions.sum(|reading| i64::from(reading.2))
    })
    .equals(expected);
}

/// With one partition, and a watermark every few records, it is known exactly which records are late.
#[test]
fn late_records_go_to_a_second_stream() {
    every(|env| {
        // Long enough for a watermark to have come in between.
        let long = |at: i64| std::iter::repeat_n(at, 40);
        // 245 is behind the watermark and joins an open session; 239 would begin a session that has ended.
        let all = long(250).chain([2]).chain(long(251)).chain([245, 239, 238]).chain(long(300));
        let (sessions, late) = env
            .iter(all)
            .batch_mode(crate::config::BatchMode::Single)
            .forward()
            .assign_timestamps(|at| Timestamp::from_micros(*at), Watermarks::monotonous())
            .group_by(|at| at % 2 == 7)
            .window(SessionWindow::new(micros(5)))
            .late_output();
        let counts = sessions.count().unkey();
        let counts = counts.map(|(_, pane)| (pane.start.as_micros(), pane.value));
        let (counts, late) = (counts.collect::<BTreeMap<_, _>>(), late.collect::<Vec<_>>());
        let stats = env.start()?.wait()?;
        assert_eq!(late.take()?, [(false, 2), (false, 239), (false, 238)]);
        assert_eq!(counts.take()?, [(245, 81), (300, 40)].into());
        let counted: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!(counted, 3);
        Ok(())
    });
}

#[test]
fn every_record_is_in_a_session_or_late() {
    let some_late = AtomicBool::new(false);
    every(|env| {
        let n = 6_000_i64;
        let at = |n: i64| if n % 10 == 9 { n - 2_000 } else { n };
        let keyed = env
            .parallel_iter(move |task, tasks| (task as i64..n).step_by(tasks))
            .assign_timestamps(move |n| Timestamp::from_micros(at(*n)), Watermarks::monotonous())
            .group_by(|n| n % 3)
            .repartition();
        let own = SessionWindow::with_gap(|n: &i64| micros(n % 4));
        let (sessions, late) = keyed.window(own).late_output();
        let all = sessions.aggregate(|a| a.to_vec());
        let all = all.unkey().flat_map(|(_, pane)| pane.value).collect::<Vec<_>>();
        let late = late.collect::<Vec<(i64, i64)>>();
        let stats = env.start()?.wait()?;
        let (mut all, late) = (all.take()?, late.take()?);
        assert!(late.iter().all(|(key, n)| n % 10 == 9 && n % 3 == *key));
        let counted: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!(counted, late.len() as u64);
        some_late.fetch_or(counted > 0, Ordering::Relaxed);
        all.extend(late.into_iter().map(|(_, n)| n));
        all.sort_unstable();
        assert!(all.into_iter().eq(0..n));
        Ok(())
    });
    assert!(some_late.into_inner());
}

/// The sessions of a key with their timing, and the late records, with one partition and a watermark every few records.
fn lenient<E: Earliness + EarlySessions<u64>>(
    env: &Environment,
    times: &[i64],
    window: SessionWindow<FixedGap, Counted, E>,
) -> crate::Result<(Vec<(i64, i64, Timing, u64)>, Vec<i64>)> {
    let (sessions, late) = env
        .iter(times.to_vec())
        .batch_mode(crate::config::BatchMode::Single)
        .forward()
        .assign_timestamps(|at| Timestamp::from_micros(*at), Watermarks::monotonous())
        .group_by(|_| 0u8)
        .window(window)
        .late_output();
    let sessions = sessions.count().unkey().collect::<Vec<_>>();
    let late = late.map(|(_, at)| at).collect::<Vec<_>>();
    env.run()?;
    let plain = |(_, pane): (u8, Pane<u64>)| {
        (pane.start.as_micros(), pane.end.as_micros(), pane.timing, pane.value)
    };
    Ok((sessions.take()?.into_iter().map(plain).collect(), late.take()?))
}

#[test]
fn late_records_change_sessions_for_as_long_as_is_allowed() {
    every(|env| {
        // Long enough for a watermark to have come in between.
        let long = |at: i64| std::iter::repeat_n(at, 40);
        let times: Vec<i64> = (long(100).chain(long(150)))
            // A record in a session that has ended, and one that begins a session that has ended.
            .chain([103])
            .chain(long(150))
            .chain([120])
            // One in the open session, two in a session that has ended, and one that is too late for any.
            .chain(long(151))
            .chain([147, 108, 111, 44])
            .chain(long(300))
            .collect();
        let window = SessionWindow::new(micros(5)).allowed_lateness(micros(100));
        let (mut sessions, late) = lenient(env, &times, window)?;
        assert_eq!(late, [44]);
        // The two may have arrived in one batch.
        let twice = sessions.iter().filter(|one| one.3 == 42).count();
        assert!(twice <= 1, "{sessions:?}");
        sessions.retain(|one| one.3 != 42);
        let last = sessions.iter_mut().find(|one| one.3 == 43).unwrap();
        assert_eq!(last.2, Timing::Late(2 + twice as u32));
        last.2 = Timing::Late(3);
        let expected = [
            (100, 106, Timing::OnTime, 40),
            (100, 109, Timing::Late(1), 41),
            (120, 126, Timing::Late(1), 1),
            (100, 117, Timing::Late(3), 43),
            (147, 157, Timing::OnTime, 121),
            (300, 306, Timing::OnTime, 40),
        ];
        assert_eq!(sessions, expected);
        Ok(())
    });
}

#[test]
fn a_late_record_opens_a_session_again() {
    every(|env| {
        let long = |at: i64| std::iter::repeat_n(at, 40);
        let times: Vec<i64> = long(141).chain(long(151)).chain([146]).chain(long(300)).collect();
        let window = SessionWindow::new(micros(5)).early(Early::every(50));
        let (sessions, late) = lenient(env, &times, window.allowed_lateness(micros(1000)))?;
        assert_eq!(late, [0i64; 0]);
        let expected = [
            (141, 147, Timing::OnTime, 40),
            // Records that were in no early result count.
            (141, 157, Timing::Early(1), 81),
            (141, 157, Timing::OnTime, 81),
            (300, 306, Timing::OnTime, 40),
        ];
        assert_eq!(sessions, expected);
        Ok(())
    });
}

#[test]
fn sessions_are_kept_no_longer_than_late_records_are_allowed() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 24 << 20, ..Config::default() });
    let numbers = env
        .iter(0..1_000_000)
        .assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous());
    let window = SessionWindow::new(micros(100)).allowed_lateness(micros(1000));
    let count = numbers.group_by(|n| *n).window(window).count().unkey().count().collect_one();
    // And one key, with a session for each record.
    let numbers = env
        .iter(0..1_000_000)
        .assign_timestamps(|n| Timestamp::from_micros(*n * 3), Watermarks::monotonous());
    let window = SessionWindow::new(micros(1)).allowed_lateness(micros(1000));
    let sessions = numbers.window_all(window).count().count().collect_one();
    env.run()?;
    assert_eq!((count.take()?, sessions.take()?), (Some(1_000_000), Some(1_000_000)));
    Ok(())
}

/// Each task reads every third piece of an input in the order of time, so that they are apart by more than a gap. Of few keys,
/// tasks merge records before they send them; of many, they give that up.
#[test]
fn tasks_may_be_far_apart_in_time() {
    const RECORDS: u64 = 210_000;
    const PIECE: u64 = 5_000;
    const GAP: i64 = 900;
    for (keys, all_cores) in [(40_u64, 2..4_usize), (500, 3..4), (30_000, 2..3)] {
        let key = move |number: u64| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % keys;
        let mut open = vec![None; keys as usize];
        let mut sessions = Vec::new();
        for number in 0..RECORDS {
            let at = number as i64;
            let session: &mut (i64, i64, u64) =
                open[key(number) as usize].get_or_insert((at, at, 0));
            if at - session.1 > GAP {
                sessions.push((key(number), *session));
                *session = (at, at, 0);
            }
            (session.1, session.2) = (at, session.2 + number);
        }
        sessions.extend((0..keys).zip(open).filter_map(|(key, open)| Some((key, open?))));
        sessions.sort_unstable();
        for cores in all_cores {
            let config = Config { cores: cores.try_into().unwrap(), ..Config::default() };
            let env = Environment::with_config(config);
            let pieces = env.parallel_iter(move |task, tasks| {
                let starts = (PIECE * task as u64..RECORDS).step_by(PIECE as usize * tasks);
                starts.flat_map(|start| start..start + PIECE)
            });
            let out = pieces
                .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
                .group_by(move |number| key(*number))
                .window(SessionWindow::new(micros(GAP)))
                .sum(|number: &u64| *number)
                .unkey()
                .collect::<Vec<_>>();
            env.run().unwrap();
            let session = |(key, pane): (u64, Pane<u64>)| {
                let last = pane.end.as_micros() - 1 - GAP;
                (key, (pane.start.as_micros(), last, pane.value))
            };
            let mut found: Vec<_> = out.take().unwrap().into_iter().map(session).collect();
            found.sort_unstable();
            assert!(found == sessions, "{keys} keys on {cores} cores");
        }
    }
}
