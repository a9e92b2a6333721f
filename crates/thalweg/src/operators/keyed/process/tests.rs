//! Handlers whose expected results can be computed independently.

use super::{Process, ProcessContext, Timer};
use crate::check::{cases, check, every};
use crate::config::{BatchMode, Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::operators::window::tests::beginnings;
use crate::time::Timestamp;
use crate::{Chain, Environment, Stream};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A key, a timestamp in microseconds, a value.
type Reading = (u8, i64, i64);
type NoSide<'a, O> = ProcessContext<'a, O, Infallible>;

fn at(micros: i64) -> Timer {
    Timer::EventTime(Timestamp::from_micros(micros))
}

fn time_of(timer: Timer) -> i64 {
    match timer {
        Timer::EventTime(at) => at.as_micros(),
        Timer::ProcessingTime(_) => panic!("only event time is used here"),
    }
}

/// The readings in the order of the list, with the least bound on disorder that holds for them.
fn timed(
    env: &Environment,
    all: &[Reading],
) -> Stream<impl Chain<Item = Reading, Time = Timestamp> + use<>> {
    let mut greatest = Timestamp::MIN;
    let behind = all.iter().map(|reading| {
        let at = Timestamp::from_micros(reading.1);
        greatest = greatest.max(at);
        greatest.since(at)
    });
    let disorder = behind.max().unwrap_or_default();
    env.iter(all.to_vec()).assign_timestamps(
        |reading| Timestamp::from_micros(reading.1),
        Watermarks::bounded_disorder(disorder),
    )
}

/// Sets a timer for each record, and emits for each timer the number of records before it.
struct Before;

impl Process<u8, Reading> for Before {
    type State = Vec<i64>;
    type Out = (i64, usize);
    type Side = Infallible;

    fn start(&self) -> Vec<i64> {
        Vec::new()
    }

    fn on_record(
        &self,
        _: &u8,
        seen: &mut Vec<i64>,
        (_, time, delay): Reading,
        _: Timestamp,
        cx: &mut NoSide<'_, (i64, usize)>,
    ) {
        seen.push(time);
        cx.set_timer(at(time.saturating_add(delay)));
    }

    fn on_timer(
        &self,
        _: &u8,
        seen: &mut Vec<i64>,
        timer: Timer,
        cx: &mut NoSide<'_, (i64, usize)>,
    ) {
        let due = time_of(timer);
        cx.emit((due, seen.iter().filter(|time| **time < due).count()));
    }
}

fn some_readings() -> impl Strategy<Value = Vec<Reading>> {
    let step = prop_oneof![60 => 0..5i64, 20 => -15..0i64, 10 => 0..100i64, 1 => any::<i64>()];
    let delay = prop_oneof![20 => 1..60i64, 1 => 1..=i64::MAX];
    let steps = prop::collection::vec((0..3u8, step, delay), 0..80);
    (beginnings(), steps).prop_map(|(mut time, steps)| {
        let each = |(key, step, delay)| {
            time = time.saturating_add(step);
            (key, time, delay)
        };
        steps.into_iter().map(each).collect()
    })
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn timers_come_when_all_before_them_has(all in some_readings()) {
        let due: BTreeSet<(u8, i64)> =
            all.iter().map(|(key, time, delay)| (*key, time.saturating_add(*delay))).collect();
        let before = |key, due| all.iter().filter(|r| r.0 == key && r.1 < due).count();
        let expected: Vec<_> =
            due.iter().map(|&(key, due)| (key, (due, before(key, due)))).collect();
        check(|env| timed(env, &all).group_by(|reading| reading.0).process(Before))
            .seeds(2)
            .equals(expected);
        // Records emitted by a timer have its time, and are not late.
        let mut tens: BTreeMap<i64, u64> = BTreeMap::new();
        let start = |due: &i64| due.div_euclid(10).saturating_mul(10);
        due.iter().for_each(|(_, due)| *tens.entry(start(due)).or_default() += 1);
        check(|env| {
            let out = timed(env, &all).group_by(|reading| reading.0).process(Before).unkey();
            let tens = out.group_by(|_| ()).window(EventTimeWindow::tumbling(Duration::from_micros(10)));
            tens.count().unkey().map(|(_, pane)| (pane.start.as_micros(), pane.value))
        })
        .seeds(2)
        .equals(tens);
    }
}

/// Sessions of records that are in order and less than ten apart. The timer of a session that continues is deleted
/// and set again, and a key without sessions is cleared.
struct Debounced;

impl Process<u8, Reading> for Debounced {
    /// For each session, when its timer fires and how many records it has.
    type State = Vec<(i64, u64)>;
    type Out = (i64, u64);
    type Side = Infallible;

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn on_record(
        &self,
        _: &u8,
        sessions: &mut Vec<(i64, u64)>,
        (_, time, _): Reading,
        _: Timestamp,
        cx: &mut NoSide<'_, (i64, u64)>,
    ) {
        match sessions.last_mut() {
            Some((due, records)) if time < *due => {
                cx.delete_timer(at(*due));
                (*due, *records) = (time + 10, *records + 1);
            }
            _ => sessions.push((time + 10, 1)),
        }
        cx.set_timer(at(time + 10));
    }

    fn on_timer(
        &self,
        _: &u8,
        sessions: &mut Vec<(i64, u64)>,
        timer: Timer,
        cx: &mut NoSide<'_, (i64, u64)>,
    ) {
        let due = time_of(timer);
        assert_eq!(sessions[0].0, due);
        cx.emit(sessions.remove(0));
        if sessions.is_empty() {
            cx.clear();
        }
    }
}

/// Sets a timer for every second after a record, until the input ends.
struct Seconds;

impl Process<u8, Reading> for Seconds {
    type State = ();
    type Out = Timer;
    type Side = Infallible;

    fn start(&self) {}

    fn on_record(
        &self,
        _: &u8,
        (): &mut (),
        _: Reading,
        time: Timestamp,
        cx: &mut NoSide<'_, Timer>,
    ) {
        cx.set_timer(Timer::EventTime(time.saturating_add(Duration::from_secs(1))));
    }

    fn on_timer(&self, _: &u8, (): &mut (), timer: Timer, cx: &mut NoSide<'_, Timer>) {
        cx.emit(timer);
        let next = Timestamp::from_micros(time_of(timer)).saturating_add(Duration::from_secs(1));
        if !cx.is_ended() {
            cx.set_timer(Timer::EventTime(next));
        }
    }
}

/// A timer for the last timestamp fires at the end of the input. Otherwise one that is set again each time would fire
/// for ever.
#[test]
fn the_last_timestamp_comes_with_the_end() {
    let second = 1_000_000;
    let begin = i64::MAX - 5 * second;
    // Enough records for watermarks to arrive in between.
    let last = std::iter::repeat_n((0, i64::MAX, 0), 200);
    let all: Vec<Reading> = std::iter::once((0, begin, 0)).chain(last).collect();
    let seconds = (1..=5).map(|n| (0, at(begin + n * second)));
    check(|env| {
        let one_by_one = env.iter(all.clone()).batch_mode(BatchMode::Single).forward();
        let timed =
            one_by_one.assign_timestamps(|r| Timestamp::from_micros(r.1), Watermarks::monotonous());
        timed.group_by(|reading| reading.0).process(Seconds)
    })
    .equals(seconds);
}

fn in_order(records: u32) -> Vec<Reading> {
    let jump = |n: i64| if n % 37 == 0 { 45 } else { 0 };
    let mut time = -500;
    (0..i64::from(records))
        .map(|n| {
            time += n % 4 + jump(n);
            ((n * n % 5) as u8, time, 0)
        })
        .collect()
}

#[test]
fn timers_are_deleted_and_keys_cleared() {
    let all = in_order(3000);
    let mut sessions: BTreeMap<u8, Vec<(i64, u64)>> = BTreeMap::new();
    for (key, time, _) in &all {
        let sessions = sessions.entry(*key).or_default();
        match sessions.last_mut() {
            Some(last) if *time < last.0 => *last = (time + 10, last.1 + 1),
            _ => sessions.push((time + 10, 1)),
        }
    }
    let expected: Vec<(u8, (i64, u64))> = sessions
        .into_iter()
        .flat_map(|(key, sessions)| sessions.into_iter().map(move |session| (key, session)))
        .collect();
    assert!(expected.len() > 200);
    check(|env| timed(env, &all).group_by(|reading| reading.0).process(Debounced))
        .must_restore()
        .equals(expected);
}

/// Counts the records of a key, and clears it ten microseconds after its last record.
struct Counted {
    clears: bool,
}

impl Process<u64, u64> for Counted {
    type State = u64;
    type Out = u64;
    type Side = Infallible;

    fn start(&self) -> u64 {
        0
    }

    fn on_record(
        &self,
        _: &u64,
        count: &mut u64,
        _: u64,
        time: Timestamp,
        cx: &mut NoSide<'_, u64>,
    ) {
        *count += 1;
        cx.set_timer(Timer::EventTime(time.saturating_add(Duration::from_micros(10))));
    }

    fn on_timer(&self, _: &u64, count: &mut u64, _: Timer, cx: &mut NoSide<'_, u64>) {
        if self.clears {
            cx.emit(*count);
            cx.clear();
        }
    }
}

fn count_of(env: &Environment, records: u64, clears: bool) -> crate::Output<Option<u64>> {
    let numbers = env
        .iter(0..records)
        .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous());
    numbers.group_by(|n| *n).process(Counted { clears }).unkey().count().collect_one()
}

#[test]
fn memory_is_that_of_keys_that_are_not_cleared() -> crate::Result<()> {
    let small = || Environment::with_config(Config { memory: 24 << 20, ..Config::default() });
    let env = small();
    let count = count_of(&env, 1_000_000, true);
    env.run()?;
    assert_eq!(count.take()?, Some(1_000_000));

    let env = Environment::with_config(Config { memory: 400_000, ..Config::default() });
    let count = count_of(&env, 10_000, false);
    let stats = env.start()?.wait()?;
    assert_eq!(count.take()?, Some(0));
    assert!(stats.operators.iter().any(|op| op.kind == "process" && op.spilled_bytes > 0));
    Ok(())
}

/// Postpones a timer with every record, to far in the future.
struct PutOff;

impl Process<u64, u64> for PutOff {
    type State = u64;
    type Out = Timer;
    type Side = Infallible;

    fn start(&self) -> u64 {
        0
    }

    fn on_record(&self, _: &u64, last: &mut u64, n: u64, _: Timestamp, cx: &mut NoSide<'_, Timer>) {
        // In two centuries.
        let timer =
            |n| Timer::ProcessingTime(Duration::from_secs(1 << 33) + Duration::from_micros(n));
        cx.delete_timer(timer(*last));
        cx.set_timer(timer(n));
        *last = n;
    }

    fn on_timer(&self, _: &u64, _: &mut u64, timer: Timer, cx: &mut NoSide<'_, Timer>) {
        cx.emit(timer);
    }
}

#[test]
fn deleted_timers_are_not_kept() -> crate::Result<()> {
    let env = Environment::with_config(Config { memory: 8 << 20, ..Config::default() });
    let n = 1_000_000;
    let out = env
        .iter(0..n)
        .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
        .group_by(|n| n % 100)
        .process(PutOff)
        .count()
        .collect::<BTreeMap<_, _>>();
    env.run()?;
    assert_eq!(out.take()?, (0..100).map(|key| (key, 1)).collect());
    Ok(())
}

/// Sends every other record to the side output.
struct Parted;

impl Process<u64, u64> for Parted {
    type State = u64;
    type Out = u64;
    type Side = (u64, u64);

    fn start(&self) -> u64 {
        0
    }

    fn on_record(
        &self,
        key: &u64,
        seen: &mut u64,
        n: u64,
        _: Timestamp,
        cx: &mut ProcessContext<'_, u64, (u64, u64)>,
    ) {
        *seen += 1;
        if seen.is_multiple_of(2) {
            cx.emit_side((*key, n));
        } else {
            cx.emit(n);
        }
    }

    fn on_timer(
        &self,
        _: &u64,
        _: &mut u64,
        _: Timer,
        _: &mut ProcessContext<'_, u64, (u64, u64)>,
    ) {
    }
}

#[test]
fn the_side_output_is_a_stream_of_its_own() {
    every(|env| {
        let n = 6_000_u64;
        let numbers = env
            .iter(0..n)
            .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous());
        let (odd, even) = numbers.group_by(|n| n % 10).process_with_side_output(Parted);
        let odd = odd.collect::<Vec<_>>();
        // The side output has timestamps and watermarks, too.
        let tens = even.keyed().window(EventTimeWindow::tumbling(Duration::from_micros(100)));
        let even = tens.count().unkey().collect::<Vec<_>>();
        env.run()?;
        let mut odd = odd.take()?;
        odd.sort();
        let mut expected: Vec<_> =
            (0..n).filter(|n| n / 10 % 2 == 0).map(|n| (n % 10, n)).collect();
        expected.sort();
        assert_eq!(odd, expected);
        let even = even.take()?;
        assert_eq!(even.len(), 10 * n as usize / 100);
        assert!(even.iter().all(|(_, pane)| pane.value == 5));
        Ok(())
    });
}

/// Reports when a key has had no record for a quarter of a second.
struct Silent;

impl Process<(), u64> for Silent {
    /// The last record, and its timer.
    type State = (u64, Option<Duration>);
    type Out = (u64, Duration, bool);
    type Side = Infallible;

    fn start(&self) -> Self::State {
        (0, None)
    }

    fn on_record(
        &self,
        _: &(),
        (last, timer): &mut Self::State,
        n: u64,
        _: Timestamp,
        cx: &mut NoSide<'_, Self::Out>,
    ) {
        if let Some(timer) = timer.take() {
            cx.delete_timer(Timer::ProcessingTime(timer));
        }
        *last = n;
        let next = cx.after(Duration::from_millis(250));
        cx.set_timer(next);
        if let Timer::ProcessingTime(at) = next {
            *timer = Some(at);
        }
    }

    fn on_timer(
        &self,
        _: &(),
        (last, _): &mut Self::State,
        _: Timer,
        cx: &mut NoSide<'_, Self::Out>,
    ) {
        cx.emit((*last, cx.now(), cx.is_ended()));
    }
}

#[test]
fn timers_of_processing_time_come_by_the_clock_of_the_engine() -> crate::Result<()> {
    for seed in 0..20 {
        let scheduler = Scheduler::Deterministic { seed };
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let seeing = Arc::clone(&seen);
        env.generate(10.0, |i| (i < 30).then_some(i))
            // No records from 0.5 s to 1.5 s.
            .filter(|i| !(5..15).contains(i))
            .assign_timestamps(|i| Timestamp::from_millis(*i as i64), Watermarks::monotonous())
            .group_by(|_| ())
            .process(Silent)
            .unkey()
            .for_each(move |(_, what)| seeing.lock().unwrap().push(what));
        env.run()?;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(seen[0], (4, Duration::from_millis(650), false));
        // The input ends before the timer's time.
        assert_eq!((seen[1].0, seen[1].2), (29, true));
    }
    Ok(())
}

/// Without timestamps, a record's time is the engine's time of day.
#[test]
fn timers_of_processing_time_need_no_timestamps() -> crate::Result<()> {
    for seed in 0..20 {
        let scheduler = Scheduler::Deterministic { seed };
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let seeing = Arc::clone(&seen);
        env.generate(10.0, |i| (i < 30).then_some(i))
            // No records from 0.5 s to 1.5 s.
            .filter(|i| !(5..15).contains(i))
            .group_by(|_| ())
            .process(Silent)
            .unkey()
            .for_each(move |(_, what)| seeing.lock().unwrap().push(what));
        env.run()?;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(seen[0], (4, Duration::from_millis(650), false));
        assert_eq!((seen[1].0, seen[1].2), (29, true));
    }
    Ok(())
}

/// Sets a timer of each kind with every record; emits which timers have fired and whether the first record had a
/// time.
struct Kinds;

impl Process<u64, u64> for Kinds {
    type State = (Option<Timestamp>, u64);
    type Out = (bool, bool, u64);
    type Side = u64;

    fn start(&self) -> Self::State {
        (None, 0)
    }

    fn on_record(
        &self,
        _: &u64,
        (first, count): &mut Self::State,
        n: u64,
        at: Timestamp,
        cx: &mut ProcessContext<'_, Self::Out, u64>,
    ) {
        *first = (*first).or(Some(at));
        *count += 1;
        assert_eq!(cx.watermark(), None);
        cx.set_timer(Timer::EventTime(at));
        cx.set_timer(cx.after(Duration::from_secs(1_000_000)));
        cx.emit_side(n);
    }

    fn on_timer(
        &self,
        _: &u64,
        (first, count): &mut Self::State,
        timer: Timer,
        cx: &mut ProcessContext<'_, Self::Out, u64>,
    ) {
        let known = first.is_some_and(|first| first >= Timestamp::from_micros(0));
        cx.emit((cx.is_ended() && known, matches!(timer, Timer::EventTime(_)), *count));
        cx.clear();
    }
}

/// Event-time timers fire first.
#[test]
fn without_timestamps_timers_come_at_the_end() {
    every(|env| {
        let (kinds, side) = env.iter(0..600u64).group_by(|n| n % 6).process_with_side_output(Kinds);
        let kinds = kinds.collect::<BTreeMap<_, _>>();
        let side = side.count().collect_one();
        env.run()?;
        assert_eq!(kinds.take()?, (0..6).map(|key| (key, (true, true, 100))).collect());
        assert_eq!(side.take()?, Some(600));
        Ok(())
    });
}

/// Emits a tick every ten microseconds until the input ends.
struct Ticking;

impl Process<u8, Reading> for Ticking {
    type State = bool;
    type Out = i64;
    type Side = Infallible;

    fn start(&self) -> bool {
        false
    }

    fn on_record(
        &self,
        _: &u8,
        _: &mut bool,
        (_, time, _): Reading,
        _: Timestamp,
        cx: &mut NoSide<'_, i64>,
    ) {
        cx.set_timer(at((time.div_euclid(10) + 1) * 10));
    }

    fn on_timer(&self, _: &u8, _: &mut bool, timer: Timer, cx: &mut NoSide<'_, i64>) {
        let due = time_of(timer);
        cx.emit(due);
        if !cx.is_ended() {
            cx.set_timer(at(due + 10));
        }
    }
}

#[test]
fn a_handler_that_always_sets_another_timer_can_stop() {
    let all = in_order(500);
    check(|env| timed(env, &all).group_by(|_| 0u8).process(Ticking)).satisfies(|mut ticks| {
        ticks.sort();
        let far: Vec<_> = ticks.windows(2).filter(|two| two[1].1 - two[0].1 > 60).collect();
        let twice = ticks.windows(2).any(|two| two[0] == two[1]);
        if far.is_empty() && !twice { Ok(()) } else { Err(format!("{ticks:?}")) }
    });
}
