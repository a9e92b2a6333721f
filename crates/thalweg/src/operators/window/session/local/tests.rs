//! Sessions of parts against sessions of the records themselves, with the same events in between.

use super::super::FixedGap;
use super::super::open::{Open, Sessions, SessionsOf, Taken};
use super::*;
use crate::flow::{Depth, Signals};
use crate::operators::aggregates::{Aggregates, Combine};
use crate::operators::keyed::FirstOf;
use proptest::prelude::*;
use std::collections::BTreeMap;

const GAP: i64 = 10;

/// What leaves the task.
enum Out<S> {
    Part(u32, Part<S>),
    Event(Event),
}

/// The end of the stage, and whether it has room.
struct Last<S>(Vec<Out<S>>, Flow);

impl<S: Send> Pipe for Last<S> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.0.push(Out::Event(event));
    }

    fn resume(&mut self) -> Flow {
        self.1
    }
}

impl<S: Data> Push<SessionPart<u32, S>, Timestamp> for Last<S> {
    fn push(&mut self, part: PartialEntry<'_, u32, Part<S>>, _: Timestamp) {
        assert_eq!(part.hash, part.key.key_hash());
        self.0.push(Out::Part(part.key, part.state));
    }
}

type Local<A> = SessionPartsPush<
    (u32, u64),
    Timestamp,
    FirstOf,
    FixedGap,
    A,
    Last<<A as crate::operators::aggregates::Aggregate<u64>>::State>,
>;

fn local<A: Combine<u64>>(aggregate: A) -> Local<A> {
    SessionPartsPush {
        saved: SavedWatermark::none(),
        op: Op::new(0, "test".into(), Depth(0), Arc::new(Signals::default())),
        keys: FirstOf,
        gap: FixedGap { micros: GAP },
        aggregate: Arc::new(aggregate),
        merged_from: i64::MIN,
        watermark: i64::MIN,
        was_idle: false,
        table: GroupTable::new(),
        weighed: HeapEstimate::new(),
        sending: None,
        waiting: PartialBatch::default(),
        alone: 0,
        behind: PartialBatch::default(),
        delayed: None,
        held: None,
        flushed: 0,
        clock: Clock::simulated(),
        hot: HotKeys::default(),
        trial: Trial::new(),
        emitted: 0,
        next: Last(Vec::new(), Flow::Ready),
        types: PhantomData,
    }
}

impl<A: Combine<u64>> Local<A> {
    fn add(&mut self, key: u32, at: i64, value: u64) {
        self.push((key, value), Timestamp::from_micros(at));
    }

    fn pass(&mut self, event: Event) -> Vec<Out<A::State>> {
        self.event(event);
        self.sent()
    }

    /// What is sent when the task resumes.
    fn sent(&mut self) -> Vec<Out<A::State>> {
        while self.resume() == Flow::Busy {}
        mem::take(&mut self.next.0)
    }

    /// What is sent when the input runs dry.
    fn dry(&mut self) -> Vec<Out<A::State>> {
        self.idle(0);
        self.sent()
    }

    /// The number of parts that are sent before a watermark, when the input has run dry.
    fn parts(&mut self, watermark: i64) -> usize {
        self.event(Event::Watermark(Timestamp::from_micros(watermark)));
        let out = self.dry();
        assert!(matches!(out.last(), Some(Out::Event(Event::Watermark(_)))));
        out.len() - 1
    }
}

/// The task that owns all keys, whose merged watermark may be ahead of that of the sending task.
#[derive(Default)]
struct Owner {
    keys: BTreeMap<u32, SessionsOf<u64, ()>>,
    watermark: Option<i64>,
    ended: Vec<(u32, i64, i64, u64)>,
    late: usize,
}

impl Owner {
    fn take(&mut self, key: u32, (first, until, sum): Part<u64>) {
        let watermark = self.watermark.unwrap_or(i64::MIN);
        let taken = self.keys.entry(key).or_insert_with(Sessions::new).take(
            (first, until),
            |until| until < watermark,
            || (0, ()),
            |(all, ()), _| *all += sum,
            |(all, ()), (other, ())| *all += other,
        );
        self.late += usize::from(taken == Taken::Late);
    }

    fn reach(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(Some(watermark));
        self.end(self.watermark.and_then(|at| at.checked_sub(1)).unwrap_or(i64::MIN));
    }

    fn end(&mut self, at: i64) {
        for (key, sessions) in &mut self.keys {
            sessions.end(at, |Open { first, until, state: (sum, ()) }| {
                self.ended.push((*key, first, until, sum));
            });
        }
    }

    fn receive(&mut self, out: Vec<Out<u64>>) {
        for out in out {
            match out {
                Out::Part(key, part) => self.take(key, part),
                Out::Event(Event::Watermark(at)) => self.reach(at.as_micros()),
                Out::Event(_) => {}
            }
        }
    }

    fn results(mut self) -> (Vec<(u32, i64, i64, u64)>, usize) {
        self.end(i64::MAX);
        self.ended.sort_unstable();
        (self.ended, self.late)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A record of a key, so long after the watermark.
    Record(u32, i64),
    /// The task's watermark advances.
    Watermark(i64),
    /// The task has no input for a moment.
    Dry,
    /// The task has no input, and others advance.
    Idle(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0..3u32, 0..50i64).prop_map(|(key, after)| Step::Record(key, after)),
        4 => (0..3u32, -30..0i64).prop_map(|(key, after)| Step::Record(key, after)),
        4 => (0..40i64).prop_map(Step::Watermark),
        2 => Just(Step::Dry),
        1 => (0..40i64).prop_map(Step::Idle),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn parts_make_the_same_sessions_and_the_same_records_are_late(steps in steps()) {
        let mut local = local(Aggregates::<u64>::new().sum(|n| *n));
        let (mut of_parts, mut of_records) = (Owner::default(), Owner::default());
        let mut now = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Record(key, after) => {
                    let at = now + after;
                    local.add(key, at, number as u64);
                    of_records.take(key, (at, at + GAP, number as u64));
                }
                Step::Dry => of_parts.receive(local.dry()),
                Step::Watermark(by) => {
                    now += by;
                    of_parts.receive(local.pass(Event::Watermark(Timestamp::from_micros(now))));
                    of_records.reach(now);
                }
                Step::Idle(by) => {
                    of_parts.receive(local.pass(Event::Idle));
                    let others = now + by;
                    of_parts.reach(others);
                    of_records.reach(others);
                }
            }
        }
        of_parts.receive(local.pass(Event::End));
        prop_assert_eq!(of_parts.results(), of_records.results());
    }
}

#[test]
fn a_part_has_all_records_of_a_session() {
    let mut local = local(Aggregates::<u64>::new().count());
    for at in 0..3000 {
        local.add((at % 3) as u32, at, 1);
    }
    assert_eq!(local.parts(3000), 3);
    // Each session is a part.
    for at in 0..3000 {
        local.add((at % 3) as u32, 3000 + 20 * at, 1);
    }
    assert_eq!(local.parts(70_000), 3000);
    // Late records are not merged.
    for _ in 0..100 {
        local.add(7, 69_999, 1);
    }
    assert_eq!(local.parts(80_000), 100);
    // Nor is any after the task was idle.
    local.pass(Event::Idle);
    for at in 0..100 {
        local.add(7, 80_000 + at, 1);
    }
    assert_eq!(local.parts(90_000), 100);
}

#[test]
fn a_watermark_waits_for_more_records_while_there_are_some() {
    let mut local = local(Aggregates::<u64>::new().count());
    let watermark = |at| Event::Watermark(Timestamp::from_micros(at));
    for at in 0..3 {
        (0..1000).for_each(|key| local.add(key, 10 + at, 1));
        assert!(local.pass(watermark(10 + at)).is_empty());
    }
    // A record behind the watermark comes after it.
    local.add(5, 11, 1);
    let out = local.dry();
    assert!(out[..1000].iter().all(|out| matches!(out, Out::Part(_, (10, 22, 3)))));
    assert!(
        matches!(out[1000..], [Out::Event(event), Out::Part(5, (11, 21, 1))] if event == watermark(12))
    );
    // An event that follows does not wait.
    local.add(5, 20, 1);
    assert!(local.pass(watermark(15)).is_empty());
    let out = local.pass(Event::End);
    assert!(
        matches!(out[..], [Out::Part(5, _), Out::Event(first), Out::Event(Event::End)] if first == watermark(15))
    );
    // Enough records do not wait either.
    for round in 0..MOST / 8192 {
        (0..8192).for_each(|key| local.add(key, 20, 1));
        assert_eq!(local.pass(watermark(16)).len() > 8192, round + 1 == MOST / 8192);
    }
}

/// A task that waits for calls in flight, or for the receivers of another output, is not resumed before they are ready.
#[test]
fn a_watermark_does_not_wait_for_the_next_turn_of_a_task_without_input() {
    let mut local = local(Aggregates::<u64>::new().count());
    let at = Timestamp::from_micros(12);
    (0..2 * CHUNK).for_each(|key| local.add(key as u32, 11, 1));
    assert!(local.pass(Event::Watermark(at)).is_empty());
    assert_eq!(local.idle(0), None);
    let out = mem::take(&mut local.next.0);
    assert_eq!(out.len(), 2 * CHUNK + 1);
    assert!(matches!(out.last(), Some(Out::Event(Event::Watermark(last))) if *last == at));
}

#[test]
fn a_watermark_waits_for_more_records_while_receivers_have_no_room() {
    let mut local = local(Aggregates::<u64>::new().count());
    (0..1000).for_each(|key| local.add(key, 11, 1));
    let watermark = Event::Watermark(Timestamp::from_micros(12));
    assert!(local.pass(watermark).is_empty());
    local.next.1 = Flow::Blocked;
    assert_eq!(local.resume(), Flow::Blocked);
    assert!(local.dry().is_empty());
    local.next.1 = Flow::Ready;
    assert!(local.sent().is_empty());
    assert_eq!(local.dry().len(), 1001);
}

#[test]
fn parts_that_are_replaced_at_once_do_not_end_merging() {
    let mut local = local(Aggregates::<u64>::new().count());
    let mut sent = 0;
    for span in 0..20 {
        for record in 0..1 << 16 {
            local.add(record % 10_000, span * 1000, 1);
            if record % 4096 == 4095 {
                sent += local.pass(Event::Watermark(Timestamp::from_micros(span * 1000))).len();
                assert!(local.merged_from < i64::MAX, "in span {span}");
            }
        }
    }
    // A part of each key in each span, and some that a watermark has divided.
    assert!((190_000..250_000).contains(&sent), "{sent}");
}

#[test]
fn merging_that_does_not_pay_is_given_up_for_a_while() {
    let mut local = local(Aggregates::<u64>::new().count());
    let mut at = 0;
    for _ in 0..TRIAL {
        at += 1;
        local.add(at as u32, at, 1);
    }
    assert_eq!(local.parts(at), TRIAL as usize);
    assert_eq!(local.merged_from, i64::MAX);
    for _ in 0..FIRST_PATIENCE {
        local.add(5, at, 1);
    }
    assert_eq!(local.parts(at), FIRST_PATIENCE as usize);
    assert_eq!(local.merged_from, at);
    for _ in 0..2 * TRIAL {
        local.add(5, at, 1);
    }
    assert_eq!(local.parts(at + 1), 1);
    assert_eq!(local.merged_from, at + 1);
}

#[test]
fn large_parts_do_not_wait_for_a_watermark() {
    let mut local = local(Aggregates::<u64>::new().to_vec());
    let (mut most, mut sent) = (0, 0);
    for at in 0..1_000_000 {
        local.add((at % 5) as u32, at, at as u64);
        if at % 1000 == 0 {
            while local.resume() == Flow::Busy {}
            most = most.max(local.table.values().map(|part| part.2.heap_size()).sum());
            sent += mem::take(&mut local.next.0).len();
        }
    }
    assert!(most < 2 * TABLE && most > TABLE / 4, "{most}");
    assert!((10..200).contains(&sent), "{sent}");
}

#[test]
fn many_keys_do_not_wait_for_a_watermark() {
    let mut local = local(Aggregates::<u64>::new().count());
    for at in 0..1_000_000 {
        // Each key twice, so that merging pays.
        local.add((at / 4) as u32 * 2 + (at % 2) as u32, at, 1);
        if at % 1000 == 0 {
            while local.resume() == Flow::Busy {}
            assert!(local.table.bytes() <= TABLE);
        }
    }
    assert!(local.next.0.len() > 400_000);
}
