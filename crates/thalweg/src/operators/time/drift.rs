//! Keeps the partitions of a source close to each other in event time.
//!
//! Each task publishes its watermark. Before a task goes on, it checks whether it is too far ahead of the last
//! task. If so, it sets its flag `waits` and checks again before it waits; a task that advances after that wakes
//! it. So no wake-up is lost.
//!
//! Several hosts exchange progress along a tree. A host sends each neighbour the least progress of its own tasks and of its
//! other neighbours. So every host has the least progress of all others, but not that of each. A message is sent when this
//! progress has advanced by a step, a part of the allowed distance, and whenever it is less than before, as after a pause.
//! Steps are so small that, once all messages have arrived, a host's view of the others is behind by at most a quarter of the
//! distance. The last task of all is therefore never too far ahead of this view, and does not wait.

use crate::data::{Data, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Waker;
use crate::net::{HostId, Link, Links, Part, Place, Receive};
use crate::plan::{TaskContext, TieKind};
use crate::sync::{AtomicBool, AtomicI64, Mutex, Ordering, lock};
use crate::time::{Timestamp, micros};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The progress of the tasks of one operator.
pub(super) struct Drift {
    most: i64,
    /// The progress of all tasks. For tasks on other hosts, `others` is used instead.
    tasks: Vec<Progress>,
    /// The other hosts, unless all tasks are on this one.
    others: OnceLock<Others>,
}

/// The other hosts with tasks of the operator.
struct Others {
    operator: Arc<str>,
    /// The neighbours of this host in the tree.
    links: Vec<Link>,
    /// By how much progress advances before it is sent.
    step: i64,
    /// For each neighbour, in the order of `links`.
    exchanged: Mutex<Vec<Exchanged>>,
    /// The least progress of all other hosts, as far as the neighbours have sent it.
    least: AtomicI64,
}

/// The last progress that was exchanged with a neighbour.
#[derive(Clone)]
struct Exchanged {
    received: i64,
    sent: i64,
}

impl Others {
    /// Whether progress `at` is to be sent after `sent`.
    fn is_news(&self, at: i64, sent: i64) -> bool {
        match at {
            i64::MAX => sent < at,
            _ => at < sent || at >= sent.saturating_add(self.step),
        }
    }
}

struct Progress {
    /// The watermark in microseconds: the least number before the first watermark, the greatest if no task has
    /// to wait for this one.
    at: AtomicI64,
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Drift {
    /// Creates the progress of `tasks` tasks, none of which may be further ahead of the last than `most`.
    fn new(most: Duration, tasks: usize) -> Self {
        let progress = |_| Progress {
            at: AtomicI64::new(i64::MIN),
            waits: AtomicBool::new(false),
            waker: Mutex::new(None),
        };
        let tasks = (0..tasks).map(progress).collect();
        Self { most: micros(most), tasks, others: OnceLock::new() }
    }

    /// That of an operator, which its first task creates, with this task.
    pub(super) fn of_task(
        all: &OnceLock<Arc<Self>>,
        most: Duration,
        cx: &TaskContext<'_>,
        op: usize,
    ) -> Result<Arc<Self>> {
        let drift = all.get_or_init(|| Arc::new(Self::new(most, cx.tasks)));
        drift.join(cx, op)?;
        Ok(Arc::clone(drift))
    }

    /// Registers the waker of a task of this operator, and with the first task the other hosts.
    fn join(self: &Arc<Self>, cx: &TaskContext<'_>, op: usize) -> Result<()> {
        *lock(&self.tasks[cx.task].waker) = Some(cx.waker.clone());
        let me = cx.links.hosts().me();
        if self.others.get().is_none() && cx.hosts.iter().any(|host| *host != me) {
            let part = cx.tie(TieKind::Drift, op)?.part();
            self.join_others(cx.links, part, cx.hosts, cx.op(op).name());
        }
        Ok(())
    }

    /// Registers the other hosts. `hosts` are those of the tasks, in their order.
    fn join_others(self: &Arc<Self>, of: &Links, part: Part, hosts: &[HostId], name: Arc<str>) {
        let (me, fan_out) = (of.hosts().me(), of.hosts().fan_out());
        let mut members = hosts.to_vec();
        members.dedup();
        let Some(rank) = members.iter().position(|host| *host == me) else { return };
        for (task, _) in self.tasks.iter().zip(hosts).filter(|(_, host)| **host != me) {
            task.at.store(i64::MAX, Ordering::SeqCst);
        }
        let place = Place::of(rank, members.len(), fan_out);
        let neighbours = place.parent().into_iter().chain(place.below);
        let links: Vec<_> = neighbours.map(|rank| of.to(members[rank], part)).collect();
        // The most hosts on a path, up and down the tree, each of which may delay progress by a step.
        let hops = 2 * Place::deepest(members.len(), fan_out) as i64;
        let none = Exchanged { received: i64::MIN, sent: i64::MIN };
        let _ = self.others.set(Others {
            operator: name,
            step: (self.most / (4 * hops.max(1))).max(1),
            exchanged: Mutex::new(vec![none; links.len()]),
            links,
            least: AtomicI64::new(i64::MIN),
        });
        of.open(part, Arc::clone(self) as _);
    }

    /// Sets the progress of a task and wakes the tasks that wait; `None` if no task has to wait for this one.
    pub(super) fn move_to(&self, task: usize, at: Option<Timestamp>) {
        let at = at.map_or(i64::MAX, Timestamp::as_micros);
        if self.tasks[task].at.swap(at, Ordering::SeqCst) == at {
            return;
        }
        self.wake_waiting();
        if let Some(others) = self.others.get() {
            self.send(others, &mut lock(&others.exchanged));
        }
    }

    /// The least progress of this host's tasks.
    fn least_here(&self) -> i64 {
        let here = self.tasks.iter().map(|task| task.at.load(Ordering::SeqCst));
        here.min().unwrap_or(i64::MAX)
    }

    /// Sends each neighbour the least progress of this host and the other neighbours, if it has changed enough. `exchanged` is
    /// locked meanwhile, so that the last value sent is the last one computed.
    fn send(&self, others: &Others, exchanged: &mut [Exchanged]) {
        let here = self.least_here();
        for (to, link) in others.links.iter().enumerate() {
            let rest = exchanged.iter().enumerate().filter(|(from, _)| *from != to);
            let least = rest.map(|(_, from)| from.received).fold(here, i64::min);
            if others.is_news(least, exchanged[to].sent) {
                exchanged[to].sent = least;
                let mut frame = Vec::new();
                least.encode(&mut frame);
                link.send(frame);
            }
        }
    }

    fn wake_waiting(&self) {
        for other in &self.tasks {
            if other.waits.swap(false, Ordering::SeqCst)
                && let Some(waker) = &*lock(&other.waker)
            {
                waker.wake();
            }
        }
    }

    /// Returns whether a task must wait. If so, it is woken when another task has advanced.
    pub(super) fn must_wait(&self, task: usize) -> bool {
        self.is_ahead(task, || self.tasks[task].at.load(Ordering::SeqCst))
    }

    /// Returns whether a split that this task reads must wait, which has this watermark. If so, the task is woken when another
    /// split has advanced.
    pub(super) fn must_hold(&self, task: usize, split: Timestamp) -> bool {
        self.is_ahead(task, || split.as_micros())
    }

    fn is_ahead(&self, task: usize, at: impl Fn() -> i64) -> bool {
        let is_ahead = || {
            let others = self.others.get().map(|others| others.least.load(Ordering::SeqCst));
            let last = others.unwrap_or(i64::MAX).min(self.least_here());
            at() != i64::MAX && at() > last.saturating_add(self.most)
        };
        if !is_ahead() {
            return false;
        }
        self.tasks[task].waits.store(true, Ordering::SeqCst);
        is_ahead()
    }
}

impl Receive for Drift {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let Some(others) = self.others.get() else { return Ok(()) };
        let wrong = |what: String| {
            let what = format!("host {} has sent {what}", from.0);
            Error::new(ErrorKind::Internal, what).in_operator(&*others.operator)
        };
        let at = decode_whole(frame, i64::decode)
            .map_err(|error| wrong(format!("what is no progress in event time: {error}")))?;
        let neighbour = others.links.iter().position(|link| link.to() == from);
        let neighbour = neighbour.ok_or_else(|| wrong("its progress to a stranger".to_owned()))?;
        let mut exchanged = lock(&others.exchanged);
        exchanged[neighbour].received = at;
        let least = exchanged.iter().map(|with| with.received).min().unwrap_or(i64::MAX);
        others.least.store(least, Ordering::SeqCst);
        self.send(others, &mut exchanged);
        drop(exchanged);
        self.wake_waiting();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;
    use crate::flow::Signals;
    use crate::net::TestNetwork;

    #[test]
    fn a_partition_too_far_ahead_waits_for_the_last_one() {
        let drift = Drift::new(Duration::from_micros(10), 3);
        let to = |task, at| drift.move_to(task, Some(Timestamp::from_micros(at)));
        to(0, 5);
        assert!(drift.must_wait(0), "two have not begun");
        to(1, 0);
        drift.move_to(2, None);
        assert!(!drift.must_wait(0), "one has ended");
        to(0, 11);
        assert!(drift.must_wait(0));
        assert!(!drift.must_wait(1), "the last never waits");
        to(1, 1);
        assert!(!drift.tasks[0].waits.load(Ordering::SeqCst), "it was woken");
        assert!(!drift.must_wait(0));
        to(0, i64::MAX - 1);
        drift.move_to(1, None);
        assert!(!drift.must_wait(0), "it is alone");
    }

    /// Hosts with this many tasks each, none of which may be more than 80 microseconds ahead of the last one.
    struct Several {
        network: Arc<TestNetwork>,
        hosts: Vec<Arc<Drift>>,
        tasks: usize,
        signals: Arc<Signals>,
    }

    const MOST: i64 = 80;

    impl Several {
        fn new(count: usize, tasks: usize, fan_out: usize) -> Self {
            let network = Arc::new(TestNetwork::by_tree_of(fan_out));
            let of: Vec<_> = (0..count * tasks).map(|task| HostId(task / tasks)).collect();
            let signals = Arc::new(Signals::default());
            let host = |me: usize| {
                let drift = Arc::new(Drift::new(Duration::from_micros(MOST as u64), of.len()));
                let links = network.links(HostId(me), count, &signals);
                drift.join_others(&links, Part::Tie(0), &of, "assign".into());
                drift
            };
            let hosts = (0..count).map(host).collect();
            Self { network, hosts, tasks, signals }
        }

        fn of(&self, task: usize) -> &Drift {
            &self.hosts[task / self.tasks]
        }

        fn to(&self, task: usize, at: i64) {
            self.of(task).move_to(task, Some(Timestamp::from_micros(at)));
        }

        fn end(&self, task: usize) {
            self.of(task).move_to(task, None);
        }

        fn must_wait(&self, task: usize) -> bool {
            self.of(task).must_wait(task)
        }

        fn waits(&self, task: usize) -> bool {
            self.of(task).tasks[task].waits.load(Ordering::SeqCst)
        }

        /// Delivers all frames; returns how many there were.
        fn settle(&self) -> usize {
            std::iter::from_fn(|| self.network.deliver(0).then_some(())).count()
        }
    }

    #[test]
    fn hosts_send_their_least_progress_now_and_then() {
        // Tasks 0 and 1 are on the first host, 2 and 3 on the other.
        let hosts = Several::new(2, 2, 16);
        hosts.to(2, 100);
        hosts.end(3);
        assert_eq!(hosts.settle(), 1, "tasks of the first host have not begun");
        hosts.to(0, 500);
        assert_eq!(hosts.settle(), 0, "a task of the first host has not begun");
        assert!(hosts.must_wait(2) && hosts.must_wait(0));
        hosts.to(1, 10);
        assert_eq!(hosts.settle(), 1);
        assert!(hosts.must_wait(2) && hosts.must_wait(0));
        (11..=30).for_each(|at| hosts.to(1, at));
        assert_eq!(hosts.settle(), 2, "each time it has advanced by an eighth of the distance");
        assert!(!hosts.waits(2), "it was woken");
        assert!(!hosts.must_wait(2));
        hosts.to(1, 15);
        assert_eq!(hosts.settle(), 1, "less than before");
        assert!(hosts.must_wait(2));
        hosts.end(0);
        hosts.end(1);
        assert_eq!(hosts.settle(), 1, "no task has to wait for the first host");
        assert!(!hosts.must_wait(2));
        hosts.end(2);
        assert_eq!(hosts.settle(), 1, "nor for the other one");
    }

    #[test]
    fn the_last_task_of_many_hosts_never_waits_and_no_other_runs_away() {
        for seed in 0..24 {
            let (count, fan_out) = (5 + seed as usize % 5, [1, 2, 16][seed as usize % 3]);
            let hosts = Several::new(count, 2, fan_out);
            let mut random = seed;
            let mut at = vec![i64::MIN; 2 * count];
            for _ in 0..8000 {
                let drawn = splitmix64(&mut random) as usize;
                let task = drawn / 4 % at.len();
                if !drawn.is_multiple_of(4) {
                    hosts.network.deliver(drawn / 4);
                } else if at[task] == i64::MIN || !hosts.must_wait(task) {
                    at[task] = at[task].max(0) + (drawn / 1000 % 30) as i64;
                    hosts.to(task, at[task]);
                }
            }
            hosts.settle();
            let last = at.iter().copied().min().unwrap();
            assert!(last > MOST, "they go on: {at:?}");
            for (task, at) in at.iter().enumerate() {
                assert!(
                    !hosts.waits(task) || hosts.must_wait(task),
                    "it is woken when it need not"
                );
                let ahead = at - last;
                match hosts.must_wait(task) {
                    true => assert!(ahead > MOST / 2, "by {ahead}, seed {seed}"),
                    false => assert!(ahead <= MOST, "by {ahead}, seed {seed}"),
                }
            }
            assert!(!hosts.signals.stopped(), "no frame is refused");
        }
    }

    #[test]
    fn what_is_no_progress_is_refused() {
        let hosts = Several::new(5, 1, 2);
        let error = hosts.hosts[0].receive(HostId(1), &[1, 2]).unwrap_err();
        assert!(error.to_string().starts_with("assign: host 1 has sent"), "{error}");
        // Its neighbours are 1 and 3.
        let error = hosts.hosts[0].receive(HostId(2), &[1; 8]).unwrap_err();
        assert!(error.to_string().starts_with("assign: host 2 has sent"), "{error}");
    }
}
