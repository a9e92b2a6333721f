//! Edges whose lanes are bundled, on hosts that share a network in memory.

use super::super::edge::{Edge, LaneSettings, SharedLane, TasksOf};
use super::super::lane::Message;
use super::super::outlet::Outlet;
use super::super::{BatchMode, Custom, Idleness, InFlight, Inlet};
use crate::clock::Clock;
use crate::flow::{Depth, Epoch, Event, Flow, Op, Pipe, Poll, Push, Signals, Task, Turn, Waker};
use crate::memory::MemoryPool;
use crate::net::{HostId, Links, Part, TestNetwork};
use crate::sync::{AtomicBool, Ordering};
use crate::time::Timestamp;
use std::sync::Arc;

type Route = Custom<fn(&u64, usize) -> usize>;

/// An edge from so many tasks of each host to so many of each, as one of the hosts sees it.
struct Host {
    edge: Edge<u64, Timestamp>,
    _links: Links,
    memory: MemoryPool,
}

/// The hosts of `tasks` of each host.
fn hosts_of(tasks: &[usize]) -> Vec<HostId> {
    let of_host = |(host, tasks): (usize, &usize)| std::iter::repeat_n(HostId(host), *tasks);
    tasks.iter().enumerate().flat_map(of_host).collect()
}

impl Host {
    fn new(network: &Arc<TestNetwork>, me: usize, tasks: &[usize], credit: usize) -> Self {
        Self::with(network, me, [tasks, tasks], credit)
    }

    /// With these sending and receiving tasks of each host.
    fn with(network: &Arc<TestNetwork>, me: usize, tasks: [&[usize]; 2], credit: usize) -> Self {
        let (hosts, memory) = (tasks.map(hosts_of), MemoryPool::new(1 << 40));
        let wakers = hosts.each_ref().map(|of| vec![Waker::default(); of.len()]);
        let links = network.links(HostId(me), tasks[0].len(), &Arc::<Signals>::default());
        let edge = Edge::new(0);
        let settings = LaneSettings {
            batch: BatchMode::default(),
            credit,
            usual_credit: credit,
            memory: memory.clone(),
            compress_from: (me == 1).then_some(1),
            encode: false,
            bundled: true,
            idleness: Idleness::default(),
            clock: Clock::simulated(),
        };
        let tasks = |end: usize| TasksOf { wakers: &wakers[end], hosts: &hosts[end] };
        edge.connect(settings, tasks(0), tasks(1), &links, &|_, _| true);
        Self { edge, _links: links, memory }
    }

    /// The outlet of a task, which sends each number to the task that it names.
    fn outlet(&self, task: usize) -> Outlet<u64, Timestamp, Route> {
        let op = Op::new(0, "test".into(), Depth(0), Arc::default());
        self.edge.outlet(task, op, Custom(|to, _| *to as usize % 100))
    }

    /// What a task receives next, on any lane: its numbers and events.
    fn received(&self, task: usize) -> Vec<String> {
        self.edge.lanes_to(task).iter().flat_map(all_of).collect()
    }
}

/// Takes everything from a lane and returns the credit.
fn all_of(lane: &SharedLane<u64, Timestamp>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((message, credit)) = lane.take() {
        match message {
            Message::Event(event) => all.push(format!("{event:?}")),
            Message::Batch(mut batch) => {
                batch.drain(|number, _| all.push(number.to_string()));
                lane.return_batch(batch, credit);
            }
            Message::Section(sender, bytes) => {
                let mut batch = super::super::RecordBatch::<u64, Timestamp>::default();
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    batch.decode_next(&mut rest).unwrap();
                }
                batch.drain(|number, _| all.push(number.to_string()));
                if let Some(far) = lane.far() {
                    lane.return_credit(far, sender, credit);
                }
            }
            _ => {}
        }
    }
    all
}

fn deliver(network: &TestNetwork) {
    while network.deliver(0) {}
}

const AT: Timestamp = Timestamp::from_micros(0);

#[test]
fn each_task_receives_its_records_and_each_event_once() {
    let network = Arc::default();
    // Tasks 0 and 1; 2, 3 and 4; 5.
    let hosts = [0, 1, 2].map(|me| Host::new(&network, me, &[2, 3, 1], 1 << 20));
    let mut outlets: Vec<_> =
        (0..6).map(|task| hosts[[0, 0, 1, 1, 1, 2][task]].outlet(task)).collect();
    for (from, outlet) in outlets.iter_mut().enumerate() {
        (0..6).for_each(|to| outlet.push(from as u64 * 100 + to, AT));
        outlet.event(Event::Barrier(Epoch(1)));
        // Behind the barrier, from some tasks before the others have sent theirs.
        outlet.push(from as u64 * 100 + 5, AT);
        outlet.event(Event::End);
    }
    deliver(&network);
    for (task, host) in [0, 0, 1, 1, 1, 2].into_iter().enumerate() {
        let (own, from_hosts) = ([2, 3, 1][host], 2);
        let lanes = hosts[host].edge.lanes_to(task);
        assert_eq!(lanes.len(), own + from_hosts);
        let mut numbers = Vec::new();
        for lane in &lanes {
            let all = all_of(lane);
            let barrier = all.iter().position(|what| what.starts_with("Barrier")).unwrap();
            let behind = &all[barrier + 1..];
            let later: Vec<_> = behind.iter().filter(|what| *what != "End").collect();
            assert_eq!(later.is_empty(), task != 5, "{all:?}");
            assert_eq!(behind.last().map(String::as_str), Some("End"));
            assert_eq!(all.iter().filter(|what| *what == "End").count(), 1);
            numbers.extend(all[..barrier].iter().map(|n| n.parse::<usize>().unwrap()));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5].map(|from| from * 100 + task));
    }
    drop(outlets);
    assert!(hosts.iter().all(|host| host.memory.in_flight() < 1000), "nothing waits any more");
}

#[test]
fn the_least_watermark_of_a_host_counts_and_a_task_that_is_ahead_waits() {
    let network = Arc::default();
    let [host, other] = [0, 1].map(|me| Host::new(&network, me, &[2, 1], 1 << 20));
    let mut senders = [0, 1].map(|task| host.outlet(task));
    let watermark = |at| Event::Watermark(Timestamp::from_micros(at));
    let received = || {
        deliver(&network);
        other.received(2)
    };
    senders[0].event(watermark(5));
    assert!(received().is_empty());
    senders[1].event(watermark(3));
    assert_eq!(received(), [format!("{:?}", watermark(3))]);
    senders[1].event(Event::Idle);
    senders.iter_mut().for_each(|sender| _ = sender.idle(0));
    assert_eq!(received(), [format!("{:?}", watermark(5))]);
    // One sends two barriers and what is behind each; the other follows.
    for epoch in [1, 2] {
        senders[0].event(Event::Barrier(Epoch(epoch)));
        senders[0].push(epoch * 100 + 2, AT);
    }
    senders[0].event(Event::End);
    assert!(received().is_empty());
    assert!(other.memory.in_flight() > 0, "what waits is counted");
    senders[1].push(2, AT);
    senders[1].event(Event::Barrier(Epoch(1)));
    assert_eq!(received(), ["2", "Barrier(Epoch(1))", "102"]);
    senders[1].event(Event::Barrier(Epoch(2)));
    // One has ended, and the other is idle.
    assert_eq!(received(), ["Barrier(Epoch(2))", "202", "Idle"]);
    senders[1].event(Event::End);
    assert_eq!(received(), ["End"]);
    assert_eq!(other.memory.in_flight(), 0);
}

#[test]
fn of_watermarks_that_wait_one_after_the_other_the_last_one_counts() {
    let (network, memory) = (Arc::<TestNetwork>::default(), MemoryPool::new(1000));
    let links = network.links(HostId(0), 2, &Arc::default());
    let gate = Arc::new(super::Gate::new(links.to(HostId(1), Part::Edge(0)), 0, 2, 1, 500));
    let lane = super::Lane::new(0, 500, &memory, Waker::default(), Waker::default());
    let lane: SharedLane<u64, Timestamp> =
        Arc::new(lane.into_half(super::super::far::Far::behind(&gate, 0), 500));
    let inbox = super::Inbox::new(gate, vec![Arc::clone(&lane)], &memory, &Idleness::default());
    let send = |from, event| inbox.take(from, super::Frame::Event(event)).unwrap();
    let watermark = |at| Event::Watermark(Timestamp::from_micros(at));
    let barrier = Event::Barrier(Epoch(1));
    send(0, barrier);
    (0..1000).for_each(|at| send(0, watermark(at)));
    inbox.take(0, super::Frame::Batch(0, &[])).unwrap();
    (1000..2000).for_each(|at| send(0, watermark(at)));
    assert_eq!(super::lock(&inbox.arrivals).waiting, 3, "a batch is between two watermarks");
    send(1, watermark(5000));
    send(1, barrier);
    assert_eq!(super::lock(&inbox.arrivals).waiting, 0);
    let received = all_of(&lane);
    assert_eq!(received, [barrier, watermark(1999)].map(|event| format!("{event:?}")));
}

#[test]
fn a_bundle_has_one_credit_and_gets_it_back() {
    let network = Arc::default();
    let hosts = [0, 1].map(|me| Host::new(&network, me, &[1, 3], 500));
    let mut sender = hosts[0].outlet(0);
    let mut sent = 0_usize;
    for round in 0..20 {
        while sender.resume() == Flow::Ready {
            sender.push((sent as u64 % 3) + 1, AT);
            sent += 1;
            sender.idle(0);
        }
        assert!(sent > 0, "{round}");
        deliver(&network);
        assert_eq!(sender.resume(), Flow::Blocked);
        let received: usize = [1, 2, 3].iter().map(|task| hosts[1].received(*task).len()).sum();
        assert_eq!(received, std::mem::take(&mut sent));
        deliver(&network);
    }
    assert_eq!(sender.resume(), Flow::Ready);
}

#[test]
fn a_bundle_is_closed_when_none_of_its_receivers_needs_more() {
    let network = Arc::default();
    let hosts = [0, 1].map(|me| Host::new(&network, me, &[1, 2], 500));
    let mut sender = hosts[0].outlet(0);
    hosts[0].edge.lanes_to(0).iter().for_each(|lane| lane.close());
    let lane = |task: usize| {
        let mut lanes = hosts[1].edge.lanes_to(task);
        lanes.retain(|lane| lane.far().is_some());
        lanes.remove(0)
    };
    lane(1).close();
    lane(1).close();
    // What is for the one that is closed costs nothing.
    for _ in 0..100 {
        sender.push(1, AT);
        sender.idle(0);
        deliver(&network);
        assert_eq!(sender.resume(), Flow::Ready);
    }
    assert!(!sender.is_closed());
    lane(2).close_round();
    deliver(&network);
    assert!(sender.is_closed(), "for this round");
    sender.event(Event::Round(Depth(1)));
    assert!(!sender.is_closed());
    deliver(&network);
    assert_eq!(all_of(&lane(2)), ["Round(Depth(1))"]);
    lane(2).close();
    deliver(&network);
    assert!(sender.is_closed(), "for ever");
    sender.event(Event::Round(Depth(1)));
    assert!(sender.is_closed());
}

/// A stage that is blocked until it is closed.
struct Blocked(Arc<AtomicBool>);

impl Pipe for Blocked {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn resume(&mut self) -> Flow {
        if self.is_closed() { Flow::Ready } else { Flow::Blocked }
    }

    fn is_closed(&mut self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Push<u64, Timestamp> for Blocked {
    fn push(&mut self, _: u64, _: Timestamp) {}
}

#[test]
fn what_was_drawn_for_a_receiver_that_is_closed_costs_nothing() {
    let network = Arc::default();
    let hosts = [0, 1].map(|me| Host::new(&network, me, &[1, 2], 500));
    let mut sender = hosts[0].outlet(0);
    let (signals, closed) = (Arc::<Signals>::default(), Arc::<AtomicBool>::default());
    let op = Op::new(0, "test".into(), Depth(0), Arc::clone(&signals));
    let lanes = hosts[1].edge.lanes_to(1);
    let in_flight = Box::new(InFlight::new(lanes.len(), Box::new(|_, _| {})));
    let mut inlet = Inlet::new(op, lanes, Some(in_flight), Blocked(Arc::clone(&closed)));
    let clock = Clock::simulated();
    let mut poll = || inlet.poll(&mut Turn::new(&clock, (0, 0), 20, &signals));
    signals.overtake(signals.number_barrier(false));
    while sender.resume() == Flow::Ready {
        sender.push(1, AT);
        sender.idle(0);
    }
    deliver(&network);
    assert_eq!(poll(), Poll::Wait, "all of it is drawn");
    deliver(&network);
    assert_eq!(sender.resume(), Flow::Blocked);
    closed.store(true, Ordering::SeqCst);
    assert_eq!(poll(), Poll::Done);
    deliver(&network);
    assert_eq!(sender.resume(), Flow::Ready, "the other receiver may get more");
}

#[test]
fn what_a_host_may_not_send_is_refused() {
    use crate::net::Receive;
    let network = Arc::default();
    let host = Host::new(&network, 0, &[1, 1], 500);
    let frame = |from: u32, frame: super::Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(super::Ends { from, to: super::Ends::ALL }, &mut bytes);
        bytes
    };
    use super::Frame::{Batch, Compressed, Event as Sent, Returned};
    let allowed = frame(1, Sent(Event::Idle));
    host.edge.receive(HostId(1), &allowed).unwrap();
    let section = [[9; 4].as_slice(), &[0; 16]].concat();
    for refused in [
        frame(0, Sent(Event::Idle)),
        frame(7, Sent(Event::Idle)),
        frame(1, Returned(1)),
        frame(1, Batch(1, &[1, 2, 3])),
        frame(1, Batch(1, &section)),
        frame(1, Compressed(1, &[1, 2, 3])),
    ] {
        let error = host.edge.receive(HostId(1), &refused).unwrap_err();
        assert!(error.to_string().contains("host 1 has sent a frame"), "{error}");
    }
}

/// What a host holds for an edge grows with its tasks times the hosts, not with the square of the tasks.
#[test]
fn a_host_of_many_holds_a_lane_for_each_host_and_task() {
    let (network, hosts, senders, receivers) = (Arc::default(), 200, 4, 16);
    let [from, to] = [senders, receivers].map(|tasks| vec![tasks; hosts]);
    let host = Host::with(&network, 3, [&from, &to], 500);
    let to_own = host.edge.lanes_to(3 * receivers + 5).len();
    assert_eq!(to_own, senders + hosts - 1);
    assert_eq!(host.edge.outgoing(), senders * (hosts - 1));
}
