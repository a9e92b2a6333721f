//! Barriers that overtake batches, at one inlet.

use super::*;
use crate::clock::Clock;
use crate::exchange::Inlet;
use crate::exchange::edge::SharedLane;
use crate::exchange::lane::{Credit, Lane};
use crate::exchange::record_batch::Hashed;
use crate::flow::{Depth, Flow, Op, Pipe, Poll, Push, Signals, Task, Waker};
use crate::memory::MemoryPool;
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// A stage that notes its records and events.
#[derive(Default)]
struct Stage {
    seen: Arc<Mutex<Vec<String>>>,
    /// The number of records after which it is closed.
    closes_after: Option<usize>,
    records: usize,
    /// Whether the stage pauses behind a barrier.
    pauses: bool,
    is_paused: bool,
    /// Whether the stage is blocked by a lack of credit, and how often it was overdrawn.
    is_blocked: bool,
    overdrafts: Arc<Mutex<usize>>,
}

impl Pipe for Stage {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.is_paused |= self.pauses && matches!(event, Event::Barrier(_));
        lock(&self.seen).push(match event {
            Event::Barrier(Epoch(epoch)) => format!("barrier {epoch}"),
            other => format!("{other:?}"),
        });
    }

    fn resume(&mut self) -> Flow {
        match (self.is_paused, self.is_blocked) {
            (true, _) => Flow::Paused,
            (_, true) => Flow::Blocked,
            _ => Flow::Ready,
        }
    }

    fn overdraw(&mut self) {
        *lock(&self.overdrafts) += 1;
        self.is_blocked = false;
    }

    fn is_closed(&mut self) -> bool {
        self.closes_after.is_some_and(|most| self.records >= most)
    }
}

impl Push<u64, ()> for Stage {
    fn push(&mut self, item: u64, (): ()) {
        self.records += 1;
        lock(&self.seen).push(item.to_string());
    }
}

type Saved = (Epoch, Result<Vec<u64>, &'static str>);

/// A task of that stage.
struct Receiver {
    clock: Clock,
    signals: Arc<Signals>,
    lanes: Vec<SharedLane<u64, ()>>,
    seen: Arc<Mutex<Vec<String>>>,
    saved: Arc<Mutex<Vec<Saved>>>,
    inlet: Inlet<u64, (), Stage>,
}

fn batch(records: &[u64]) -> RecordBatch<u64, ()> {
    let mut batch = RecordBatch::default();
    records.iter().for_each(|record| batch.push(*record, ()));
    batch
}

fn decoded(bytes: &[u8]) -> Vec<u64> {
    let (mut batch, mut records) = (RecordBatch::<u64, ()>::default(), Vec::new());
    batch.decode(bytes).unwrap();
    batch.drain(|record, ()| records.push(record));
    records
}

impl Receiver {
    /// A receiver with this many lanes of this credit, which begins with the restored records.
    fn new(lanes: usize, credit: usize, restored: &[u64], stage: Stage) -> Self {
        let (memory, signals) = (MemoryPool::new(1 << 20), Arc::<Signals>::default());
        let lane = |_| Arc::new(Lane::new(0, credit, &memory, Waker::default(), Waker::default()));
        let lanes: Vec<_> = (0..lanes).map(lane).collect();
        let saved = Arc::<Mutex<Vec<Saved>>>::default();
        let to = Arc::clone(&saved);
        let save = move |epoch, batches: Result<&[Vec<u8>], &'static str>| {
            let all =
                |batches: &[Vec<u8>]| batches.iter().flat_map(|bytes| decoded(bytes)).collect();
            lock(&to).push((epoch, batches.map(all)));
        };
        let mut in_flight = Box::new(InFlight::new(lanes.len(), Box::new(save)));
        let mut bytes = Vec::new();
        batch(restored).encode(&mut bytes);
        in_flight.restore(&bytes, None).unwrap();
        let op = Op::new(0, "test".into(), Depth(0), Arc::clone(&signals));
        let seen = Arc::clone(&stage.seen);
        let inlet = Inlet::new(op, lanes.clone(), Some(in_flight), stage);
        Self { clock: Clock::simulated(), signals, lanes, seen, saved, inlet }
    }

    fn send(&self, lane: usize, records: &[u64]) {
        self.lanes[lane].send(batch(records), 8 * records.len(), 0);
    }

    fn barrier(&self, lane: usize) {
        self.lanes[lane].send_event(Event::Barrier(Epoch(1)));
    }

    /// Lets the first barrier overtake batches.
    fn overtake(&self) {
        assert_eq!(self.signals.number_barrier(false), Epoch(1));
        self.signals.overtake(Epoch(1));
    }

    /// Runs a turn of this many steps; returns its result, and the barrier that has left the task.
    fn poll(&mut self, steps: usize) -> (Poll, Option<Epoch>) {
        let mut turn = Turn::new(&self.clock, (self.clock.now(), 0), steps, &self.signals);
        let poll = self.inlet.poll(&mut turn);
        (poll, turn.passed)
    }

    /// The records and events of the stage since the last call.
    fn seen(&self) -> String {
        std::mem::take(&mut *lock(&self.seen)).join(", ")
    }

    fn saved(&self) -> Vec<Saved> {
        lock(&self.saved).clone()
    }
}

#[test]
fn a_barrier_overtakes_what_is_in_front_of_it_on_all_lanes() {
    let mut receiver = Receiver::new(2, 1 << 10, &[], Stage::default());
    receiver.send(0, &[1, 2]);
    receiver.barrier(0);
    receiver.send(0, &[9]);
    receiver.send(1, &[3]);
    receiver.overtake();
    assert_eq!(receiver.poll(1), (Poll::Again, None));
    assert_eq!(receiver.seen(), "barrier 1");
    // The barrier has not left the task: further batches may be in front of it on the second lane.
    assert_eq!(receiver.poll(20).1, None);
    assert_eq!((receiver.seen().as_str(), receiver.saved()), ("1, 2, 3, 9", vec![]));
    receiver.send(1, &[4]);
    receiver.barrier(1);
    receiver.send(1, &[5]);
    assert_eq!(receiver.poll(20).1, Some(Epoch(1)));
    assert_eq!(receiver.saved(), [(Epoch(1), Ok(vec![1, 2, 3, 4]))]);
    receiver.poll(20);
    assert_eq!(receiver.seen(), "4, 5");
}

#[test]
fn without_leave_a_barrier_is_aligned() {
    let mut receiver = Receiver::new(2, 1 << 10, &[], Stage::default());
    receiver.signals.number_barrier(false);
    receiver.send(0, &[1, 2]);
    receiver.barrier(0);
    receiver.send(0, &[9]);
    receiver.send(1, &[3]);
    assert_eq!(receiver.poll(20).1, None);
    receiver.barrier(1);
    assert_eq!(receiver.poll(20).1, Some(Epoch(1)));
    assert_eq!((receiver.seen().as_str(), receiver.saved()), ("1, 2, 3, barrier 1", vec![]));
}

#[test]
fn a_stage_without_credit_lets_a_barrier_through() {
    let stage = Stage { is_blocked: true, ..Stage::default() };
    let overdrafts = Arc::clone(&stage.overdrafts);
    let mut receiver = Receiver::new(1, 1 << 10, &[], stage);
    receiver.send(0, &[1]);
    receiver.overtake();
    assert_eq!((receiver.poll(20).0, *lock(&overdrafts)), (Poll::Wait, 0), "there is no barrier");
    receiver.barrier(0);
    receiver.poll(20);
    assert_eq!((receiver.seen().as_str(), *lock(&overdrafts)), ("barrier 1", 1));
    assert_eq!(receiver.saved(), [(Epoch(1), Ok(vec![1]))]);
}

#[test]
fn credit_is_returned_for_what_is_processed_and_not_for_what_is_drawn() {
    let mut receiver = Receiver::new(1, 8, &[], Stage::default());
    (1..=3).for_each(|record| receiver.send(0, &[record]));
    receiver.overtake();
    // In the first step the lanes are compared.
    receiver.poll(2);
    assert_eq!(receiver.seen(), "1");
    assert_eq!(receiver.lanes[0].await_credit(), Credit::Short);
    assert!(!receiver.lanes[0].has_messages(), "all of it is drawn");
    receiver.poll(1);
    assert_eq!((receiver.seen().as_str(), receiver.lanes[0].await_credit()), ("2", Credit::Left));
}

#[test]
fn a_lane_that_ends_has_nothing_behind_the_barrier() {
    let mut receiver = Receiver::new(2, 1 << 10, &[], Stage::default());
    receiver.send(0, &[1]);
    receiver.barrier(0);
    receiver.send(1, &[2]);
    receiver.lanes[1].send_event(Event::End);
    receiver.overtake();
    assert_eq!(receiver.poll(20).1, Some(Epoch(1)));
    assert_eq!(receiver.saved(), [(Epoch(1), Ok(vec![1, 2]))]);
    receiver.lanes[0].send_event(Event::End);
    receiver.poll(20);
    assert_eq!(receiver.poll(20).0, Poll::Done);
    assert_eq!(receiver.seen(), "barrier 1, 1, 2, End");
}

#[test]
fn there_is_no_checkpoint_where_the_stage_closes_before_all_of_it_has_come() {
    let stage = Stage { closes_after: Some(1), ..Stage::default() };
    let mut receiver = Receiver::new(2, 1 << 10, &[], stage);
    receiver.send(0, &[1]);
    receiver.barrier(0);
    receiver.send(1, &[2]);
    receiver.overtake();
    assert_eq!(receiver.poll(20).1, Some(Epoch(1)));
    assert_eq!(receiver.saved(), [(Epoch(1), Err(CLOSED))]);
    assert_eq!(receiver.seen(), "barrier 1, 1, End");
}

#[test]
fn an_operator_that_pauses_holds_up_nothing_that_belongs_to_the_checkpoint() {
    let stage = Stage { pauses: true, ..Stage::default() };
    let mut receiver = Receiver::new(2, 8, &[], stage);
    receiver.barrier(0);
    receiver.send(1, &[1]);
    receiver.overtake();
    assert_eq!(receiver.poll(1), (Poll::Again, None));
    receiver.send(1, &[2]);
    receiver.send(1, &[3]);
    assert_eq!(receiver.poll(20), (Poll::Wait, None));
    // The operator may wait for calls of its own; then more would be drawn at each checkpoint.
    assert_eq!(receiver.lanes[1].await_credit(), Credit::Short);
    // If it waits for the checkpoint, the sender may have further batches in front of the barrier.
    receiver.signals.want_checkpoint();
    assert_eq!(receiver.poll(20), (Poll::Wait, None));
    assert_eq!(receiver.lanes[1].await_credit(), Credit::Left);
    receiver.barrier(1);
    assert_eq!(receiver.poll(20).1, Some(Epoch(1)));
    assert_eq!(receiver.saved(), [(Epoch(1), Ok(vec![1, 2, 3]))]);
    assert_eq!(receiver.seen(), "barrier 1");
}

#[test]
fn what_was_in_flight_comes_first_in_the_next_run_and_may_be_overtaken_again() {
    let mut receiver = Receiver::new(1, 1 << 10, &[7, 8], Stage::default());
    receiver.send(0, &[1]);
    receiver.poll(20);
    assert_eq!(receiver.seen(), "7, 8, 1");
    let mut receiver = Receiver::new(1, 1 << 10, &[7, 8], Stage::default());
    receiver.send(0, &[1]);
    receiver.barrier(0);
    receiver.overtake();
    receiver.poll(20);
    receiver.poll(20);
    assert_eq!(receiver.saved(), [(Epoch(1), Ok(vec![7, 8, 1]))]);
    assert_eq!(receiver.seen(), "barrier 1, 7, 8, 1");
}

#[test]
fn records_by_key_go_to_the_owners_of_their_keys() {
    let of = |owner| {
        let mut keyed = RecordBatch::<Hashed<u64>, ()>::default();
        for (hash, record) in [(0, 1), (u64::MAX, 2), (1 << 62, 3), (1 << 63, 4)] {
            keyed.push((hash, record), ());
        }
        let mut bytes = Vec::new();
        // Several batches are in one frame.
        keyed.encode(&mut bytes);
        keyed.encode(&mut bytes);
        let mut in_flight = InFlight::<Hashed<u64>, ()>::new(1, Box::new(|_, _| {}));
        in_flight.restore(&bytes, owner).unwrap();
        let mut records = Vec::new();
        while let Some(Ahead::Batch(_, mut batch, _)) = in_flight.pop() {
            batch.drain(|(_, record), ()| records.push(record));
        }
        records
    };
    assert_eq!(of(Some((0, 2))), [1, 3, 1, 3]);
    assert_eq!(of(Some((1, 2))), [2, 4, 2, 4]);
    assert_eq!(of(None), [1, 2, 3, 4, 1, 2, 3, 4]);
    let mut bytes = Vec::new();
    batch(&[1]).encode(&mut bytes);
    let mut in_flight = InFlight::<u64, ()>::new(1, Box::new(|_, _| {}));
    in_flight.restore(&bytes, Some((0, 2))).expect_err("they have no hashes");
}
