//! Watermarks to other hosts, and barriers without credit.

use super::*;
use crate::clock::Clock;
use crate::exchange::Idleness;
use crate::exchange::far::{Ends, Frame};
use crate::flow::{Depth, Epoch, Waker};
use crate::memory::MemoryPool;
use crate::net::{HostId, Part, Receive, TestNetwork};
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;
use std::sync::Arc;

/// What has arrived on the lanes to a host, as text: "2" for two records, "w5" for the watermark 5.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Receive for Seen {
    fn receive(&self, _: HostId, frame: &[u8]) -> crate::Result<()> {
        lock(&self.0).push(match Frame::decode(frame).unwrap().1 {
            Frame::Batch(_, batch) => {
                let mut records = RecordBatch::<u64, Timestamp>::default();
                records.decode(batch).unwrap();
                records.len().to_string()
            }
            Frame::Event(Event::Watermark(at)) => format!("w{}", at.as_micros()),
            Frame::Event(event) => format!("{event:?}"),
            Frame::Credit(_) => return Ok(()),
            frame => panic!("{frame:?}"),
        });
        Ok(())
    }
}

/// The lanes of a task to itself, and to a task of each of two other hosts.
struct Three {
    network: Arc<TestNetwork>,
    clock: Clock,
    lanes: Lanes<u64, Timestamp>,
    own: Arc<Lane<RecordBatch<u64, Timestamp>>>,
    seen: [Seen; 2],
}

impl Three {
    fn new() -> Self {
        let (network, memory) = (Arc::new(TestNetwork::default()), MemoryPool::new(1 << 20));
        let lane = || Lane::new(0, 1 << 20, &memory, Waker::default(), Waker::default());
        let here = network.links(HostId(0), 3, &Arc::default());
        let far = |to: usize| {
            let ends = Ends { from: 0, to: to as u32 };
            let far = Far::new(here.to(HostId(to), Part::Edge(0)), ends, true);
            Arc::new(lane().into_half(far, 1 << 20))
        };
        let seen = [1, 2].map(|host| {
            let seen = Seen::default();
            let links = network.links(HostId(host), 3, &Arc::default());
            links.open(Part::Edge(0), Arc::new(seen.clone()));
            seen
        });
        let (own, clock) = (Arc::new(lane()), Clock::simulated());
        clock.advance_to(1_000_000_000);
        let settings = LaneSettings {
            batch: BatchMode::Adaptive { size: 100 },
            credit: 1 << 20,
            usual_credit: 1 << 20,
            memory: memory.clone(),
            compress_from: None,
            encode: false,
            bundled: false,
            idleness: Idleness::default(),
            clock: clock.clone(),
        };
        let op = Op::new(0, "test".into(), Depth(0), Arc::default());
        let all = [Arc::clone(&own), far(1), far(2)];
        let lanes = Lanes::new(op, 0, settings, all.into(), None);
        Self { network, clock, lanes, own, seen }
    }

    /// A record to every task.
    fn push(&mut self) {
        (0..3).for_each(|to| self.lanes.push(to, 7, Timestamp::from_micros(0)));
    }

    fn watermark(&mut self, at: i64) {
        self.lanes.event(Event::Watermark(Timestamp::from_micros(at)));
    }

    /// There is no input, this long after the last time.
    fn idle_after(&mut self, nanos: Nanos) -> Option<Nanos> {
        self.clock.advance_to(self.clock.now() + nanos);
        let now = self.clock.now();
        self.lanes.idle(now).map(|at| at - now)
    }

    /// What has arrived at the other hosts since the last call.
    fn arrived(&self) -> [String; 2] {
        while self.network.deliver(0) {}
        self.seen.clone().map(|seen| lock(&seen.0).split_off(0).join(" "))
    }

    /// The watermarks that the task of this host has received since the last call.
    fn own(&self) -> Vec<i64> {
        let messages = std::iter::from_fn(|| self.own.take());
        messages
            .filter_map(|(message, _)| match message {
                crate::exchange::lane::Message::Event(Event::Watermark(at)) => Some(at.as_micros()),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn watermarks_to_other_hosts_keep_a_pace_and_the_last_one_arrives() {
    let mut three = Three::new();
    let pace = 2 * PACE;
    for at in 0..10 {
        three.push();
        three.watermark(at);
        three.clock.advance_to(three.clock.now() + pace / 4);
    }
    // At once within the host; one in four to the others, after the records before it.
    assert_eq!(three.own(), (0..10).collect::<Vec<_>>());
    assert_eq!(three.arrived(), ["1 w0 4 w4 4 w8"; 2]);
    // A record that is pushed before the next one may come before it.
    three.push();
    assert_eq!(three.idle_after(0), Some(pace / 2));
    assert_eq!(three.arrived(), ["2"; 2]);
    assert_eq!(three.idle_after(pace / 2), None);
    assert_eq!(three.arrived(), ["w9"; 2]);
    // Turns that end with input left send it too.
    three.watermark(10);
    assert_eq!(three.arrived(), [""; 2]);
    three.lanes.tick(three.clock.now() + pace);
    assert_eq!(three.arrived(), ["w10"; 2]);
}

#[test]
fn watermarks_wait_for_a_connection_that_is_behind_and_only_for_that() {
    let mut three = Three::new();
    lock(&three.network.behind).insert(HostId(2));
    for at in 0..3 {
        three.push();
        three.watermark(at);
        three.clock.advance_to(three.clock.now() + 10 * PACE);
    }
    assert_eq!(three.arrived(), ["1 w0 1 w1 1 w2", ""]);
    // Records do not wait for it.
    assert_eq!(three.idle_after(0), Some(AGAIN));
    assert_eq!(three.arrived(), ["", "3"]);
    assert_eq!(three.idle_after(AGAIN), Some(AGAIN));
    lock(&three.network.behind).clear();
    assert_eq!(three.idle_after(AGAIN), None);
    assert_eq!(three.arrived(), ["", "w2"]);
}

#[test]
fn watermarks_wait_no_longer_than_that_for_a_connection_that_stays_behind() {
    let mut three = Three::new();
    lock(&three.network.behind).extend([HostId(1), HostId(2)]);
    let step = LONGEST / 4;
    for at in 0..10 {
        three.push();
        three.watermark(at);
        three.clock.advance_to(three.clock.now() + step);
    }
    assert_eq!(three.arrived(), ["5 w4 5 w9"; 2]);
    // Without another one too.
    three.watermark(10);
    while let Some(again) = three.idle_after(0) {
        assert!((1..=AGAIN).contains(&again));
        three.clock.advance_to(three.clock.now() + again);
        assert!(three.clock.now() < 4_000_000_000, "it never ends");
    }
    assert_eq!(three.arrived(), ["w10"; 2]);
}

#[test]
fn an_attempt_that_sends_nothing_delays_no_other() {
    let mut three = Three::new();
    lock(&three.network.behind).extend([HostId(1), HostId(2)]);
    three.watermark(0);
    assert_eq!(three.idle_after(0), Some(AGAIN));
    lock(&three.network.behind).clear();
    three.watermark(1);
    assert_eq!(three.arrived(), ["w1"; 2]);
    assert_eq!(three.idle_after(0), None, "nothing waits");
}

#[test]
fn other_events_wait_for_nothing_and_come_after_the_watermark() {
    for event in [Event::Idle, Event::Barrier(Epoch(1)), Event::Round(Depth(1)), Event::End] {
        let mut three = Three::new();
        lock(&three.network.behind).insert(HostId(1));
        three.watermark(1);
        three.push();
        three.lanes.event(event);
        let text = format!("1 w1 {event:?}");
        assert_eq!(three.arrived(), [text, format!("w1 1 {event:?}")]);
        assert_eq!(three.idle_after(1), None);
    }
}

#[test]
fn the_first_watermark_after_a_rest_does_not_wait() {
    // A receiver that believes that nothing comes would let other tasks' watermarks pass the records. A barrier does not
    // change what it believes.
    for between in [None, Some(Event::Barrier(Epoch(1)))] {
        let mut three = Three::new();
        lock(&three.network.behind).extend([HostId(1), HostId(2)]);
        three.lanes.event(Event::Idle);
        between.into_iter().for_each(|event| three.lanes.event(event));
        three.watermark(1);
        three.push();
        three.watermark(2);
        three.lanes.flush();
        let between = between.map_or(String::new(), |event| format!(" {event:?}"));
        assert_eq!(three.arrived(), [0; 2].map(|_| format!("Idle{between} w1 1")));
        assert!(three.idle_after(0).is_some());
    }
}

#[test]
fn without_credit_a_barrier_is_let_through_and_little_else() {
    let memory = MemoryPool::new(1 << 20);
    let lane = Arc::new(Lane::new(0, 8, &memory, Waker::default(), Waker::default()));
    let settings = LaneSettings {
        batch: BatchMode::Fixed { size: 1 },
        credit: 8,
        usual_credit: 8,
        memory: memory.clone(),
        compress_from: None,
        encode: false,
        bundled: false,
        idleness: Idleness::default(),
        clock: Clock::simulated(),
    };
    let op = Op::new(0, "test".into(), Depth(0), Arc::default());
    let mut lanes = Lanes::<u64, ()>::new(op, 0, settings, vec![Arc::clone(&lane)], None);
    (0..2).for_each(|n| lanes.push(0, n, ()));
    assert_eq!(lanes.resume(), Flow::Blocked);
    lanes.overdraw();
    assert_eq!(lanes.resume(), Flow::Ready);
    lanes.event(Event::Barrier(Epoch(1)));
    assert_eq!(lanes.resume(), Flow::Ready, "it has left the task");
    lanes.end_overdraft();
    assert_eq!(lanes.resume(), Flow::Blocked, "what comes behind it waits");
    // In front of the next one, an operator has pending output.
    lanes.overdraw();
    assert_eq!(lanes.resume(), Flow::Ready);
    lanes.push(0, 2, ());
    assert_eq!(lanes.resume(), Flow::Blocked);
    let messages = std::iter::from_fn(|| lane.take()).map(|(message, _)| match message {
        crate::exchange::lane::Message::Event(event) => format!("{event:?}"),
        _ => "batch".to_owned(),
    });
    let messages: Vec<_> = messages.collect();
    assert_eq!(messages, ["batch", "batch", "Barrier(Epoch(1))", "batch"]);
}
