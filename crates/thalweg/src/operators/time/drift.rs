//! Keeps the partitions of a source close to each other in event time.
//!
//! Each task publishes its watermark. Before a task goes on, it checks whether it is too far ahead of the last
//! task. If so, it sets its flag `waits` and checks again before it waits; a task that advances after that wakes
//! it. So no wake-up is lost.
//!
//! Of several hosts, each sends the others the least progress of its tasks, which they then take for the progress of
//! all tasks there. It does so when that has advanced by an eighth of the allowed distance, and whenever it is less
//! than before, as after a pause. So what is known of another host is behind by less than the allowed distance. The
//! last task of all is therefore never too far ahead of what its host knows of the others, and does not wait.

use crate::data::{Data, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Waker;
use crate::net::{HostId, Link, Links, Part, Receive};
use crate::plan::{TaskContext, TieKind};
use crate::sync::{AtomicBool, AtomicI64, Mutex, Ordering, lock};
use crate::time::{Timestamp, micros};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The progress of the tasks of one operator.
pub(super) struct Drift {
    most: i64,
    /// On all hosts.
    tasks: Vec<Progress>,
    /// The other hosts, unless all tasks are on this one.
    others: OnceLock<Others>,
}

/// The other hosts with tasks of the operator.
struct Others {
    operator: Arc<str>,
    links: Vec<Link>,
    me: HostId,
    /// The host of each task.
    hosts: Vec<HostId>,
    /// The least progress of this host's tasks that was sent.
    sent: Mutex<i64>,
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

    /// Registers the other hosts. `hosts` are those of the tasks.
    fn join_others(self: &Arc<Self>, of: &Links, part: Part, hosts: &[HostId], name: Arc<str>) {
        let mut links = of.to_others(part);
        links.retain(|link| hosts.contains(&link.to()));
        let (me, sent) = (of.hosts().me(), Mutex::new(i64::MIN));
        let _ = self.others.set(Others { operator: name, links, me, hosts: hosts.to_vec(), sent });
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
            self.send(others);
        }
    }

    /// Sends the other hosts the least progress of this host's tasks, if it has changed enough.
    fn send(&self, others: &Others) {
        let step = (self.most / 8).max(1);
        // Locked while it is computed, so that the last one sent is the last one computed.
        let mut sent = lock(&others.sent);
        let here = self.tasks.iter().zip(&others.hosts).filter(|(_, host)| **host == others.me);
        let least = here.map(|(task, _)| task.at.load(Ordering::SeqCst)).min().unwrap_or(i64::MAX);
        let is_news = match least {
            i64::MAX => *sent < least,
            _ => least < *sent || least >= sent.saturating_add(step),
        };
        if is_news {
            *sent = least;
            let mut frame = Vec::new();
            least.encode(&mut frame);
            others.links.iter().for_each(|link| link.send(frame.clone()));
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
            let all = self.tasks.iter().map(|task| task.at.load(Ordering::SeqCst));
            let last = all.min().unwrap_or(i64::MAX);
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
        let at = decode_whole(frame, i64::decode).map_err(|error| {
            let what =
                format!("host {} has sent what is no progress in event time: {error}", from.0);
            Error::new(ErrorKind::Internal, what).in_operator(&*others.operator)
        })?;
        for (task, _) in self.tasks.iter().zip(&others.hosts).filter(|(_, host)| **host == from) {
            task.at.store(at, Ordering::SeqCst);
        }
        self.wake_waiting();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Channel, Hosts, Network, Receiver};

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

    /// Keeps the frames that are sent.
    #[derive(Default)]
    struct Sent(Mutex<Vec<Vec<u8>>>);

    impl Network for Sent {
        fn send(&self, _: HostId, _: Channel, frame: Vec<u8>) {
            lock(&self.0).push(frame);
        }

        fn open(&self, _: Channel, _: Receiver) {}

        fn count_in(&self, _: &crate::memory::MemoryPool) {}

        fn close(&self, _: u64) {}
    }

    #[test]
    fn hosts_send_each_other_their_least_progress_now_and_then() {
        // Two tasks on each of two hosts.
        let of = [HostId(0), HostId(0), HostId(1), HostId(1)];
        let on = |me: HostId| {
            let network = Arc::new(Sent::default());
            let hosts = Arc::new(Hosts::several(me, vec![2, 2], Arc::clone(&network) as _));
            let links = Links::new(hosts, 0, Arc::default());
            let drift = Arc::new(Drift::new(Duration::from_micros(80), 4));
            drift.join_others(&links, Part::Tie(0), &of, "assign".into());
            (drift, network)
        };
        let ((here, sent), (there, _)) = (on(HostId(0)), on(HostId(1)));
        let frames = || std::mem::take(&mut *lock(&sent.0));
        let deliver =
            || frames().into_iter().map(|frame| there.receive(HostId(0), &frame).unwrap()).count();
        let to = |drift: &Drift, task, at| drift.move_to(task, Some(Timestamp::from_micros(at)));
        to(&there, 2, 100);
        there.move_to(3, None);
        to(&here, 0, 500);
        assert_eq!(deliver(), 0, "a task of the host has not begun");
        assert!(there.must_wait(2));
        to(&here, 1, 10);
        assert_eq!(deliver(), 1);
        assert!(there.must_wait(2));
        (11..=30).for_each(|at| to(&here, 1, at));
        assert_eq!(deliver(), 2, "each time it has advanced by an eighth of the distance");
        assert!(!there.tasks[2].waits.load(Ordering::SeqCst), "it was woken");
        assert!(!there.must_wait(2));
        to(&here, 1, 15);
        assert_eq!(deliver(), 1, "less than before");
        assert!(there.must_wait(2));
        here.move_to(0, None);
        here.move_to(1, None);
        assert_eq!(deliver(), 1, "no task has to wait for this host");
        assert!(!there.must_wait(2));
        let error = there.receive(HostId(0), &[1]).unwrap_err();
        assert!(error.to_string().starts_with("assign: host 0 has sent"), "{error}");
    }
}
