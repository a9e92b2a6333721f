//! Several hosts in one process, for tests: their tasks and the frames between them take steps one at a time, in an
//! order drawn from a seed.
//!
//! A host here is a scheduler, a clock and an end of the network. A step runs one task for a turn, or delivers one
//! frame. Frames of one channel between two hosts arrive in order, and nothing else is ordered, so a frame may be
//! under way for any number of steps.
//!
//! Hosts may be dropped or stopped, and ways between them cut ([`Outage`]): what they find out about each other then is in
//! [`Outages`].
//!
//! Each host's program runs on a thread of its own, and describes and waits for its jobs there. Steps are made only
//! while all of these threads wait, by one of them, so that threads change no order: after some steps, each thread
//! looks whether what it waits for has happened.

use super::outages::{Outage, Outages};
use super::timers::Timers;
use super::{Cell, Next, Schedule, Scheduler};
use crate::clock::{Clock, Nanos};
use crate::data::splitmix64;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::discard;
use crate::memory::{InFlight, MemoryPool};
use crate::net::{Channel, HostId, Network, Offset, Part, Receiver};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Hosts in one process.
pub(crate) struct Cluster {
    turn: usize,
    /// The most steps between two looks of the programs.
    steps: usize,
    /// Whether frames are compressed, however short.
    compress: bool,
    /// Whether lanes between hosts are bundled, however few.
    bundle: bool,
    /// How many hosts report to one where they agree.
    fan_out: usize,
    hosts: Vec<Host>,
    frames: Mutex<Frames>,
    programs: Mutex<Programs>,
    /// Notified when `programs` changes, and when something outside may have woken a task.
    changed: Condvar,
    /// Only the thread that makes steps uses it.
    order: Mutex<Order>,
}

struct Order {
    /// The state of the random generator.
    random: u64,
    steps: u64,
    /// What happens after so many steps.
    outages: Vec<(u64, Outage)>,
}

struct Host {
    clock: Clock,
    ready: Mutex<Vec<Arc<Cell>>>,
    timers: Timers,
    /// Until when its program lets time pass, if it does.
    sleeps: Mutex<Option<Nanos>>,
    /// The tasks of its jobs, to fail them.
    started: Mutex<Vec<Weak<Cell>>>,
    /// Counts the frames that it has sent, until they are delivered.
    memory: OnceLock<MemoryPool>,
}

/// An encoded message.
struct Frame {
    content: Vec<u8>,
    /// Counts it.
    _held: Option<InFlight>,
}

#[derive(Default)]
struct Frames {
    /// By sender, receiver and channel; none is empty.
    under_way: BTreeMap<(HostId, HostId, Channel), VecDeque<Frame>>,
    receivers: BTreeMap<(HostId, Channel), Receiver>,
    /// The jobs that have ended on a host.
    closed: BTreeSet<(HostId, u64)>,
    outages: Outages,
    /// Frames that wait for more, by sender and receiver.
    held: BTreeMap<(HostId, HostId), Vec<(Channel, Frame)>>,
    /// How often it was asked whether a connection is behind.
    looked: u64,
}

impl Frames {
    fn send(&mut self, from: HostId, to: HostId, channel: Channel, frame: Frame) {
        let is_connected = self.outages.are_connected(from, to);
        if is_connected && !self.closed.contains(&(to, channel.job)) {
            self.under_way.entry((from, to, channel)).or_default().push_back(frame);
        }
    }

    /// Sends the frames that wait for more.
    fn release(&mut self, from: HostId, to: HostId) {
        for (channel, frame) in self.held.remove(&(from, to)).unwrap_or_default() {
            self.send(from, to, channel, frame);
        }
    }
}

/// The threads of the hosts' programs.
struct Programs {
    /// How many have not ended.
    running: usize,
    /// The hosts of those that have.
    ended: Vec<HostId>,
    /// How many of these wait.
    waiting: usize,
    /// How many of those have found that they have to wait on, since the last steps.
    looked: usize,
    /// How often steps were made.
    rounds: u64,
}

/// Steps between two looks of the programs, unless a task ends or the hosts agree on something before.
const STEPS: usize = 64;
/// How long a driver without steps to make waits for threads of blocking calls, before it looks again.
const LOOK: Duration = Duration::from_millis(5);
/// How many looks in vain it takes to conclude that the hosts wait for each other.
const PATIENCE: usize = 4000;
/// The frames under way between two hosts from which the connection is behind: so few that every job meets it.
const BEHIND: usize = 3;
/// One look in so many finds that it is not: behind a source without end it would always be.
const CAUGHT_UP: u64 = 4;
/// How long a step takes. Without that, what is to be done after some time never would be beside a source without end.
pub(crate) const STEP: Nanos = 2_000;
/// How a host is lost whose program has ended.
const ENDED: &str =
    "its program has ended, and did not run this job to its end as the other hosts do";
/// By how much the clocks of two hosts differ.
const APART: Nanos = 3_600_000_000_000;

impl Cluster {
    /// A cluster of this many hosts, each with a program that has begun. With an odd seed, they compress what they send; with
    /// two of four seeds, they bundle their lanes. With one of three seeds all hosts report to the first, with one each to the
    /// host before it, and with one two to the same host.
    pub(crate) fn new(seed: u64, turn: usize, hosts: usize) -> Arc<Self> {
        Self::looking_after(STEPS, seed, turn, hosts)
    }

    /// As [`new`](Self::new), with at most this many steps between two looks of the programs.
    pub(crate) fn looking_after(steps: usize, seed: u64, turn: usize, hosts: usize) -> Arc<Self> {
        let host = |number: usize| {
            let clock = Clock::simulated();
            clock.advance_to(number as Nanos * APART);
            Host {
                clock,
                ready: Mutex::new(Vec::new()),
                timers: Timers::new(),
                sleeps: Mutex::new(None),
                started: Mutex::new(Vec::new()),
                memory: OnceLock::new(),
            }
        };
        let programs =
            Programs { running: hosts, ended: Vec::new(), waiting: 0, looked: 0, rounds: 0 };
        Arc::new(Self {
            turn,
            steps,
            compress: seed % 2 == 1,
            bundle: matches!(seed % 4, 1 | 2),
            fan_out: [16, 1, 2][seed as usize % 3],
            hosts: (0..hosts).map(host).collect(),
            frames: Mutex::new(Frames::default()),
            programs: Mutex::new(programs),
            changed: Condvar::new(),
            order: Mutex::new(Order { random: seed, steps: 0, outages: Vec::new() }),
        })
    }

    /// The part of a host.
    pub(crate) fn host(self: &Arc<Self>, host: HostId) -> Arc<SimulatedHost> {
        Arc::new(SimulatedHost { cluster: Arc::clone(self), me: host })
    }

    /// Drops a host with all of its tasks after this many steps, as if its machine had died.
    #[cfg(test)]
    pub(crate) fn drop_after(&self, steps: u64, host: HostId) {
        self.begin_after(steps, Outage::Lost(vec![host]));
    }

    /// Begins an outage after this many steps.
    pub(crate) fn begin_after(&self, steps: u64, outage: Outage) {
        lock(&self.order).outages.push((steps, outage));
    }

    /// The program of a host has ended.
    pub(crate) fn leave(&self, host: HostId) {
        let mut programs = lock(&self.programs);
        programs.running -= 1;
        programs.ended.push(host);
        drop(programs);
        self.changed.notify_all();
    }

    /// Makes a step: returns `None` if there is none to make, else whether a task has ended with it.
    fn step(&self) -> Option<bool> {
        let mut order = lock(&self.order);
        order.steps += 1;
        let steps = order.steps;
        if let Some(due) = order.outages.iter().position(|(after, _)| *after < steps) {
            let (_, outage) = order.outages.swap_remove(due);
            self.begin(&outage);
            return Some(true);
        }
        self.advance(STEP);
        let frames = lock(&self.frames);
        let stopped = frames.outages.stopped();
        let is_running = |number: usize| !stopped.contains(&HostId(number));
        let running = (0..self.hosts.len()).filter(|number| is_running(*number));
        let ready = running.map(|number| lock(&self.hosts[number].ready).len()).sum::<usize>();
        let is_open = |key: &&(HostId, HostId, Channel)| {
            frames.receivers.contains_key(&(key.1, key.2)) && frames.outages.is_open(key.0, key.1)
        };
        let deliverable: Vec<_> = frames.under_way.keys().filter(is_open).copied().collect();
        if ready + deliverable.len() == 0 {
            drop(frames);
            return self.await_timer().then_some(false);
        }
        let mut at = splitmix64(&mut order.random) as usize % (ready + deliverable.len());
        if at >= ready {
            let key = deliverable[at - ready];
            self.deliver(key, frames);
            return Some(key.2.part == Part::Job);
        }
        drop(frames);
        for (number, host) in self.hosts.iter().enumerate() {
            if !is_running(number) {
                continue;
            }
            let mut queue = lock(&host.ready);
            if at >= queue.len() {
                at -= queue.len();
                continue;
            }
            let cell = queue.swap_remove(at);
            drop(queue);
            // The length of a turn is drawn too: a task may be stopped after any batch.
            let budget = 1 + (order.random >> 7) as usize % self.turn;
            let next = cell.run(&host.clock, budget);
            match next {
                Next::Queue | Next::QueueLast => lock(&host.ready).push(cell),
                Next::WakeAt(at) => host.timers.add(at, &cell),
                Next::Nothing | Next::Done => {}
            }
            return Some(next == Next::Done);
        }
        Some(false)
    }

    fn deliver(&self, key: (HostId, HostId, Channel), mut frames: MutexGuard<'_, Frames>) {
        let Some(queue) = frames.under_way.get_mut(&key) else { return };
        let frame = queue.pop_front();
        if queue.is_empty() {
            frames.under_way.remove(&key);
        }
        let (from, to, channel) = key;
        let receiver = frames.receivers.get(&(to, channel)).cloned();
        drop(frames);
        if let (Some(receiver), Some(frame)) = (receiver, frame) {
            receiver.take(from, &frame.content);
        }
    }

    /// Begins an outage. Of hosts that are lost, the tasks end.
    fn begin(&self, outage: &Outage) {
        let lost = if let Outage::Lost(hosts) = outage { hosts.as_slice() } else { &[] };
        let mut frames = lock(&self.frames);
        let count = self.hosts.len();
        frames.outages.begin(outage, count);
        drop(frames);
        for host in lost {
            (0..count).for_each(|other| self.lose(HostId(other), *host));
            lock(&self.hosts[host.0].ready).clear();
            let started = std::mem::take(&mut *lock(&self.hosts[host.0].started));
            started.iter().filter_map(Weak::upgrade).for_each(|cell| cell.abandon());
        }
    }

    /// A host has given up another one, or is lost itself: drops all frames between the two, and lets its jobs know.
    fn lose(&self, host: HostId, lost: HostId) {
        let mut frames = lock(&self.frames);
        let is_between =
            |from: HostId, to: HostId| [(host, lost), (lost, host)].contains(&(from, to));
        frames.under_way.retain(|(from, to, _), _| !is_between(*from, *to));
        frames.held.retain(|(from, to), _| !is_between(*from, *to));
        let own = frames.receivers.iter().filter(|((of, _), _)| *of == host);
        let own: Vec<_> = own.map(|(_, receiver)| receiver.clone()).collect();
        if host == lost {
            frames.receivers.retain(|(of, _), _| *of != host);
        }
        let all = frames.outages.lost_to(host);
        drop(frames);
        if let Some((_, how)) = all.into_iter().find(|(other, _)| *other == lost) {
            own.iter().for_each(|receiver| receiver.lost(lost, how));
        }
        discard(own);
    }

    /// Advances all clocks to the next timer, or to when a program has let enough time pass; returns whether there is one.
    fn await_timer(&self) -> bool {
        let waits = |host: &Host| {
            let next = host.timers.first().into_iter().chain(*lock(&host.sleeps)).min();
            Some(next?.saturating_sub(host.clock.now()))
        };
        let frames = lock(&self.frames);
        let (stopped, next) = (frames.outages.stopped(), frames.outages.next());
        drop(frames);
        let all = self.hosts.iter().enumerate();
        let running = all.filter(|(number, _)| !stopped.contains(&HostId(*number)));
        let next = running.filter_map(|(_, host)| waits(host)).chain(next).min();
        let Some(span) = next else { return false };
        self.advance(span);
        true
    }

    /// Time passes. Hosts find out that others are gone.
    fn advance(&self, span: Nanos) {
        let mut frames = lock(&self.frames);
        let found = frames.outages.pass(span);
        for (host, lost, how) in &found {
            frames.outages.lose(*host, *lost, how);
        }
        let stopped = frames.outages.stopped();
        drop(frames);
        found.into_iter().for_each(|(host, lost, _)| self.lose(host, lost));
        for (number, host) in self.hosts.iter().enumerate() {
            let now = host.clock.now().saturating_add(span);
            host.clock.advance_to(now);
            if !stopped.contains(&HostId(number)) {
                host.timers.fire(now);
            }
        }
    }

    /// Makes steps until programs should look, or there are none to make. Returns whether there were any.
    fn steps(&self) -> bool {
        for made in 0..self.steps {
            match self.step() {
                None => return made > 0,
                Some(true) => return true,
                Some(false) => {}
            }
        }
        true
    }

    /// Fails every job, since none of them can go on. Where programs have ended, the jobs of the others have lost these hosts.
    fn fail_all(&self, ended: &[HostId]) {
        if !ended.is_empty() {
            let receivers = lock(&self.frames).receivers.clone();
            let waiting = receivers.iter().filter(|((host, _), _)| !ended.contains(host));
            for (_, receiver) in waiting {
                ended.iter().for_each(|host| receiver.lost(*host, ENDED));
            }
            return;
        }
        for (number, host) in self.hosts.iter().enumerate() {
            for cell in lock(&host.started).drain(..).filter_map(|cell| cell.upgrade()) {
                let what = format!("host {number} waits for the others, and they wait for it");
                cell.fail_job(Error::new(ErrorKind::Internal, what));
            }
        }
    }
}

/// A host of a [`Cluster`].
pub(crate) struct SimulatedHost {
    cluster: Arc<Cluster>,
    me: HostId,
}

impl SimulatedHost {
    fn host(&self) -> &Host {
        &self.cluster.hosts[self.me.0]
    }

    pub(crate) fn clock(&self) -> Clock {
        self.host().clock.clone()
    }

    /// The bytes from which frames are compressed, if they are.
    pub(crate) fn compress_from(&self) -> Option<usize> {
        self.cluster.compress.then_some(1)
    }

    /// Whether lanes between hosts are bundled, however few.
    pub(crate) fn bundles(&self) -> bool {
        self.cluster.bundle
    }

    /// How many hosts report to one where they agree.
    pub(crate) fn fan_out(&self) -> usize {
        self.cluster.fan_out
    }

    fn is_stopped(&self) -> bool {
        lock(&self.cluster.frames).outages.is_stopped(self.me)
    }

    fn frame(&self, content: Vec<u8>) -> Frame {
        let _held = self.host().memory.get().map(|memory| memory.carry(content.len()));
        Frame { content, _held }
    }
}

impl Scheduler for SimulatedHost {
    fn start(&self, cells: &[Arc<Cell>]) -> Result<()> {
        let mut started = lock(&self.host().started);
        started.retain(|cell| cell.strong_count() > 0);
        started.extend(cells.iter().map(Arc::downgrade));
        lock(&self.host().ready).extend(cells.iter().cloned());
        Ok(())
    }

    fn pass_time(&self, span: Nanos) {
        let host = self.host();
        let until = host.clock.now().saturating_add(span);
        *lock(&host.sleeps) = Some(until);
        self.drive(&|| host.clock.now() >= until);
        *lock(&host.sleeps) = None;
    }

    fn drive(&self, done: &dyn Fn() -> bool) {
        let cluster = &self.cluster;
        let mut programs = lock(&cluster.programs);
        programs.waiting += 1;
        let mut in_vain = 0;
        loop {
            if !self.is_stopped() && done() {
                programs.waiting -= 1;
                cluster.changed.notify_all();
                return;
            }
            programs.looked += 1;
            let round = programs.rounds;
            while programs.rounds == round {
                if programs.looked < programs.running || programs.waiting < programs.running {
                    let waited = cluster.changed.wait_timeout(programs, LOOK);
                    programs = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
                // All programs wait, and have looked: this thread makes the next steps.
                drop(programs);
                let any = cluster.steps();
                programs = lock(&cluster.programs);
                if any {
                    in_vain = 0;
                    programs.rounds += 1;
                    programs.looked = 0;
                    cluster.changed.notify_all();
                    continue;
                }
                in_vain += 1;
                // A host whose program has ended sends nothing any more.
                let alone = programs.running < cluster.hosts.len();
                if in_vain >= if alone { PATIENCE / 100 } else { PATIENCE } {
                    let ended = programs.ended.clone();
                    drop(programs);
                    cluster.fail_all(&ended);
                    programs = lock(&cluster.programs);
                    in_vain = 0;
                    // What a program waits for may have failed without a step.
                    programs.rounds += 1;
                    programs.looked = 0;
                    cluster.changed.notify_all();
                    continue;
                }
                let waited = cluster.changed.wait_timeout(programs, LOOK);
                programs = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Schedule for SimulatedHost {
    fn schedule(&self, cell: Arc<Cell>) {
        lock(&self.host().ready).push(cell);
    }
}

impl Network for SimulatedHost {
    fn send(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        let mut frames = lock(&self.cluster.frames);
        frames.release(self.me, to);
        frames.send(self.me, to, channel, self.frame(frame));
    }

    // A task that keeps frames held while it waits is a task that others wait for in vain.
    fn hold(&self, to: HostId, channel: Channel, frame: Vec<u8>) {
        let mut frames = lock(&self.cluster.frames);
        frames.held.entry((self.me, to)).or_default().push((channel, self.frame(frame)));
    }

    fn release(&self, to: HostId) {
        lock(&self.cluster.frames).release(self.me, to);
    }

    fn is_behind(&self, to: HostId) -> bool {
        let mut frames = lock(&self.cluster.frames);
        frames.looked += 1;
        let waiting =
            frames.under_way.iter().filter(|((from, at, _), _)| (*from, *at) == (self.me, to));
        let waiting = waiting.map(|(_, queue)| queue.len()).sum::<usize>();
        waiting >= BEHIND && !frames.looked.is_multiple_of(CAUGHT_UP)
    }

    fn open(&self, channel: Channel, receiver: Receiver) {
        let mut frames = lock(&self.cluster.frames);
        let lost = frames.outages.lost_to(self.me);
        frames.receivers.insert((self.me, channel), receiver.clone());
        drop(frames);
        lost.into_iter().for_each(|(lost, how)| receiver.lost(lost, how));
    }

    fn count_in(&self, memory: &MemoryPool) {
        let _ = self.host().memory.set(memory.clone());
    }

    /// The true one: all clocks advance together.
    fn clock_offset(&self, of: HostId) -> Option<Offset> {
        let [theirs, mine] = [of, self.me].map(|host| host.0 as i64 * APART as i64);
        Some(Offset { nanos: theirs - mine, uncertainty: 0 })
    }

    fn close(&self, job: u64) {
        let mut frames = lock(&self.cluster.frames);
        frames.closed.insert((self.me, job));
        frames.under_way.retain(|(_, to, channel), _| *to != self.me || channel.job != job);
        let all = std::mem::take(&mut frames.receivers);
        let (closed, kept) =
            all.into_iter().partition::<BTreeMap<_, _>, _>(|((host, channel), _)| {
                *host == self.me && channel.job == job
            });
        frames.receivers = kept;
        drop(frames);
        discard(closed.into_values());
    }
}
