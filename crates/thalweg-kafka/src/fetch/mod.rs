//! Fetches records by Kafka's protocol itself, in place of librdkafka, which allocates memory for each record and hands over one at a
//! time. Here what a broker sends stays as it is until a task reads it.
//!
//! A thread for each broker asks for all partitions that the broker has and for which there is room, again and again, and puts what
//! comes into their [queues](Queue). Another thread looks for the brokers of partitions that have none, or have lost theirs. Tasks
//! decode what is in their queues; no thread waits for another one to do so.

mod queue;
#[cfg(test)]
mod tests;

use crate::client::{Fault as Failure, Fetcher, Options};
use crate::protocol::answer::{Answered, Limits, Wanted};
use crate::protocol::{Cluster, Connection, Fault, FoundTopic, Leader, Settings, TopicId};
use crate::source::Partition;
use queue::Wants;
pub(crate) use queue::{Queue, Taken, Trouble};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::{Error, ErrorKind, Result};

/// How long a broker may wait for records, by default. A partition that is opened meanwhile waits for so long at most.
const WAIT: Duration = Duration::from_millis(100);
/// The same where a partition is left out of a request that will soon be wanted.
const SHORT_WAIT: Duration = Duration::from_millis(10);
/// The time before a broker is asked again that had no answer: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After this time a failure is a first one.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// The settings that are kept to here, beside those of connections.
const KNOWN: [&str; 14] = [
    "client.id",
    "debug",
    "enable.ssl.certificate.verification",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "statistics.interval.ms",
];

/// How records are fetched here, if they can be.
pub(crate) struct Plan {
    settings: Settings,
    limits: Limits,
}

impl Plan {
    /// Follows from a client's settings, and those of them that a user has set.
    ///
    /// # Errors
    ///
    /// If one of them is known to librdkafka alone.
    pub(crate) fn new(config: &rdkafka::ClientConfig, options: &Options) -> Result<Self> {
        let is_of_connections = |name: &str| {
            name.starts_with("sasl.") || name.starts_with("ssl.") || name == "security.protocol"
        };
        let mut names = options.names();
        if let Some(name) = names.find(|name| !KNOWN.contains(name) && !is_of_connections(name)) {
            let what = format!("`{name}` is set, which librdkafka alone knows");
            return Err(Error::new(ErrorKind::Config, what));
        }
        let number = |name| options.get(name).and_then(|text| text.parse::<i32>().ok());
        let wait = number("fetch.wait.max.ms").and_then(|wait| u64::try_from(wait).ok());
        let limits = Limits {
            wait: wait.map_or(WAIT, Duration::from_millis),
            least: number("fetch.min.bytes").unwrap_or(1),
            most: number("fetch.max.bytes").unwrap_or(50 << 20),
            are_committed: config.get("isolation.level") != Some("read_uncommitted"),
        };
        Ok(Self { settings: Settings::new(config)?, limits })
    }
}

/// What fetches for the readers of a source, until the last one and the source are gone.
pub(crate) struct Fetching(Arc<Shared>);

struct Shared {
    settings: Arc<Settings>,
    limits: Limits,
    fetcher: Arc<Fetcher>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    partitions: Vec<Assigned>,
    /// Brokers with a thread.
    served: BTreeSet<i32>,
    is_over: bool,
}

/// A partition that is read.
struct Assigned {
    topic: Arc<str>,
    number: i32,
    /// That of the topic when it was first read, if it has to stay the same.
    id: Option<TopicId>,
    /// The one that brokers have said last.
    found_id: Option<TopicId>,
    queue: Arc<Queue>,
    /// `None` while it has to be looked for.
    leader: Option<Leader>,
    /// Nothing is asked before, after so many failures.
    not_before: Instant,
    failures: u32,
}

impl Assigned {
    fn put_off(&mut self) {
        if self.not_before.elapsed() > FORGOTTEN {
            self.failures = 0;
        }
        let pause = FIRST_PAUSE * 2u32.pow(self.failures.min(5));
        self.failures += 1;
        self.leader = None;
        self.not_before = Instant::now() + pause.min(LONGEST_PAUSE);
    }
}

impl Fetching {
    /// Errors that end the job go by the fetcher.
    pub(crate) fn new(plan: Plan, fetcher: Arc<Fetcher>) -> Result<Self> {
        let Plan { settings, limits } = plan;
        let shared = Arc::new(Shared {
            settings: Arc::new(settings),
            limits,
            fetcher,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let fetching = Self(Arc::clone(&shared));
        start("kafka-leaders", move || shared.find_leaders())?;
        Ok(fetching)
    }

    /// Begins to fetch a partition.
    pub(crate) fn add(&self, partition: &Partition, id: Option<TopicId>, queue: Arc<Queue>) {
        let assigned = Assigned {
            topic: partition.topic.as_str().into(),
            number: partition.number,
            id,
            found_id: None,
            queue,
            leader: None,
            not_before: Instant::now(),
            failures: 0,
        };
        self.0.state().partitions.push(assigned);
        self.0.changed.notify_all();
    }

    pub(crate) fn remove(&self, queue: &Arc<Queue>) {
        let mut state = self.0.state();
        state.partitions.retain(|assigned| !Arc::ptr_eq(&assigned.queue, queue));
        drop(state);
        self.0.changed.notify_all();
    }

    /// There is room in a queue that was passed over.
    pub(crate) fn go_on(&self) {
        // Whoever looks at the queues with this lock sees the room, or waits by now.
        drop(self.0.state());
        self.0.changed.notify_all();
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|cause| Error::new(ErrorKind::Io, "cannot start a thread").caused_by(cause))?;
    Ok(())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, until a time if there is one.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        match until {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let time = until.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn fail(&self, failure: Failure) {
        self.fetcher.fail(failure);
    }

    /// Looks for the brokers of partitions, and has a thread for each.
    fn find_leaders(self: &Arc<Self>) {
        let mut cluster = Cluster::new(Arc::clone(&self.settings));
        while let Some(names) = self.without_leader() {
            let found = cluster.topics(names.iter().map(|name| &**name));
            let mut state = self.state();
            let asked = state.partitions.iter_mut().filter(|assigned| assigned.leader.is_none());
            let asked = asked.filter(|assigned| names.contains(&assigned.topic));
            match found {
                Ok(topics) => asked.for_each(|assigned| settle(assigned, &topics)),
                Err(fault) => {
                    asked.for_each(Assigned::put_off);
                    drop(state);
                    self.lost(fault);
                    continue;
                }
            }
            let leaders = state.partitions.iter().filter_map(|assigned| assigned.leader);
            let nodes: BTreeSet<_> = leaders.map(|leader| leader.node).collect();
            let new: Vec<_> = nodes.difference(&state.served).copied().collect();
            for node in new {
                // It was in the same answer as the leader, or in one before.
                let Some((host, port)) = cluster.address(node).cloned() else {
                    state.put_off(node);
                    continue;
                };
                state.served.insert(node);
                let shared = Arc::clone(self);
                if let Err(error) =
                    start(&format!("kafka-fetch-{node}"), move || shared.serve(node, &host, port))
                {
                    let what = error.to_string();
                    return self.fail(Box::new(move || Error::new(ErrorKind::Io, what.clone())));
                }
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until there are partitions whose brokers are to be looked for; `None` at the end.
    fn without_leader(&self) -> Option<BTreeSet<Arc<str>>> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            let without = state.partitions.iter().filter(|assigned| assigned.leader.is_none());
            let (due, later): (Vec<_>, Vec<_>) =
                without.partition(|assigned| assigned.not_before <= now);
            if !due.is_empty() {
                return Some(due.into_iter().map(|assigned| Arc::clone(&assigned.topic)).collect());
            }
            let until = later.iter().map(|assigned| assigned.not_before).min();
            state = self.wait(state, until);
        }
    }

    /// A broker was lost, or refuses what it is shown.
    fn lost(&self, fault: Fault) {
        let reader = self.fetcher.connections().operator();
        match fault {
            Fault::Later(what) | Fault::Gone(what) | Fault::Forgotten(what) => {
                log::info!("{reader}: records cannot be fetched for now: {what}");
            }
            Fault::Final(_) | Fault::Denied => {
                let what = format!("cannot go on with Kafka: {}", fault.what());
                self.fail(Box::new(move || Error::new(ErrorKind::Config, what.clone())));
            }
        }
    }

    /// Fetches from a broker as long as it has partitions.
    fn serve(&self, node: i32, host: &str, port: u16) {
        let lost = |fault| {
            let mut state = self.state();
            state.put_off(node);
            state.served.remove(&node);
            drop(state);
            self.changed.notify_all();
            self.lost(fault);
        };
        let mut connection = match Connection::new(&self.settings, host, port) {
            Ok(connection) => connection,
            Err(fault) => return lost(fault),
        };
        self.fetcher.connections().work();
        let mut turn = 0;
        while let Some(Asked { limits, wanted, queues }) = self.wanted(node, turn) {
            turn += 1;
            let mut moved = Vec::new();
            let take = |at: usize, answered: Answered, buffer| match verdict(answered.code) {
                Verdict::Answered => queues[at].put(wanted[at].from, answered, buffer),
                Verdict::Over(trouble) => queues[at].fail(trouble),
                Verdict::Moved(trouble) => {
                    trouble.into_iter().for_each(|trouble| queues[at].fail(trouble));
                    moved.push(at);
                }
            };
            if let Err(fault) = connection.fetch(&limits, &wanted, |at| queues[at].buffer(), take) {
                return lost(fault);
            }
            if !moved.is_empty() {
                let mut state = self.state();
                let is_moved = |assigned: &&mut Assigned| {
                    moved.iter().any(|at| Arc::ptr_eq(&queues[*at], &assigned.queue))
                };
                state.partitions.iter_mut().filter(is_moved).for_each(Assigned::put_off);
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    /// What to ask a broker for, once there is something; `None` if it has no partitions, and needs no thread.
    fn wanted(&self, node: i32, turn: usize) -> Option<Asked> {
        let mut state = self.state();
        loop {
            let has =
                |assigned: &&Assigned| assigned.leader.is_some_and(|leader| leader.node == node);
            let own: Vec<_> = state.partitions.iter().filter(has).collect();
            if own.is_empty() || state.is_over {
                state.served.remove(&node);
                return None;
            }
            // A broker fills its answer from the first one on, which alone gets a batch that is longer than it may be.
            let first = turn % own.len();
            let mut limits = self.limits;
            let (mut wanted, mut queues) = (Vec::new(), Vec::new());
            for assigned in own[first..].iter().chain(&own[..first]) {
                match assigned.queue.wanted() {
                    Wants::Nothing => {}
                    Wants::Room => limits.wait = limits.wait.min(SHORT_WAIT),
                    Wants::Records { from, epoch, is_first } => {
                        if is_first {
                            limits.wait = Duration::ZERO;
                        }
                        wanted.push(Wanted {
                            topic: Arc::clone(&assigned.topic),
                            id: assigned.id.or(assigned.found_id),
                            number: assigned.number,
                            leader: assigned.leader.expect("it is here"),
                            from,
                            epoch,
                            most: i32::try_from(assigned.queue.most()).unwrap_or(i32::MAX),
                        });
                        queues.push(Arc::clone(&assigned.queue));
                    }
                }
            }
            if !wanted.is_empty() {
                return Some(Asked { limits, wanted, queues });
            }
            state = self.wait(state, None);
        }
    }
}

/// A request, and the queues of the partitions in it.
struct Asked {
    limits: Limits,
    wanted: Vec<Wanted>,
    queues: Vec<Arc<Queue>>,
}

impl State {
    /// The broker does not answer.
    fn put_off(&mut self, node: i32) {
        let of_it = self
            .partitions
            .iter_mut()
            .filter(|assigned| assigned.leader.is_some_and(|leader| leader.node == node));
        of_it.for_each(Assigned::put_off);
    }
}

/// Takes what was found of a partition's broker.
fn settle(assigned: &mut Assigned, topics: &[FoundTopic]) {
    let topic = topics.iter().find(|topic| topic.name == *assigned.topic);
    let (code, leader) = match topic {
        Some(topic) if topic.code == 0 => match topic.leaders.get(&assigned.number) {
            Some(leader) => (0, Some(*leader).filter(|leader| leader.node >= 0)),
            None => (UNKNOWN, None),
        },
        Some(topic) => (topic.code, None),
        None => (UNKNOWN, None),
    };
    let id = topic.and_then(|topic| topic.id);
    // Another topic of this name: nothing of it is read, and the job ends when that is looked for.
    let is_another = id.zip(assigned.id).is_some_and(|(found, known)| found != known);
    match leader {
        Some(leader) if !is_another => (assigned.leader, assigned.found_id) = (Some(leader), id),
        _ => assigned.put_off(),
    }
    if let Verdict::Moved(Some(trouble)) | Verdict::Over(trouble) = verdict(code) {
        assigned.queue.fail(trouble);
    }
}

/// What the code of a partition's answer means.
enum Verdict {
    Answered,
    /// The reader ends the job.
    Over(Trouble),
    /// Another broker may have it now.
    Moved(Option<Trouble>),
}

const UNKNOWN: i16 = 3;

fn verdict(code: i16) -> Verdict {
    /// By their ids.
    const UNKNOWN_TOPIC: i16 = 100;
    match code {
        0 => Verdict::Answered,
        1 => Verdict::Over(Trouble::OutOfRange),
        29 => Verdict::Over(Trouble::Denied),
        UNKNOWN | UNKNOWN_TOPIC => Verdict::Moved(Some(Trouble::Unknown)),
        // Most end by themselves.
        _ => Verdict::Moved(None),
    }
}
