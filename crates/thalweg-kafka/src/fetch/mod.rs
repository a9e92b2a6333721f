//! Fetches records by Kafka's protocol itself, in place of librdkafka, which allocates memory for each record and hands over one at a
//! time. Here what a broker sends stays as it is until a task reads it.
//!
//! A thread for each broker asks for all partitions that the broker leads and for which there is room, again and again, and puts what
//! comes into their [queues](Queue); while no queue has room it waits for the tasks. Tasks decode what is in their queues, and never
//! wait.
//!
//! A partition is added without a leader. The thread `kafka-leaders` looks for it, and has a thread for each broker that leads any. Where a
//! broker does not answer, or answers that another one leads the partition, it has no leader again, and is looked for after a pause.
//! Whoever holds the lock of the [state](State) may take that of a queue, and not the other way round. The threads are not waited for
//! when all readers are gone: they end when their request is answered.

mod budget;
mod queue;
#[cfg(test)]
mod tests;

use crate::client::{Client, Options};
use crate::partition::Partition;
use crate::protocol::answer::{Answered, Limits, Wanted};
use crate::protocol::{Cluster, Connection, Fault, FoundTopic, Leader, Settings, TopicId};
use crate::threads::start;
use crate::tokens::{PANICKED, Tokens};
use budget::{Asking, Budget};
use queue::Wants;
pub(crate) use queue::{Queue, Taken, Trouble};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg::{Error, ErrorKind, Result};

/// How long a broker may wait for records, by default. A partition that is opened meanwhile waits for so long at most.
const WAIT: Duration = Duration::from_millis(100);
/// The same for a request that leaves out partitions without room, as they may soon have some.
const SHORT_WAIT: Duration = Duration::from_millis(10);
/// The most of it: a thread cannot end before it has an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often leaders are looked for that may have changed without a word from the broker that led before.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The bytes of an answer at most, by default: those of Kafka's own client.
const MOST: i32 = 50 << 20;
/// The pause before the leader of a partition is looked for again: behind the first failure, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A partition without a failure for so long begins with the first pause again.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// After so many answers in a row that a partition has no leader, or one of an earlier epoch, it is logged. They come each
/// [`LONGEST_PAUSE`].
const SAID_AFTER: u32 = 10;
/// After so many in a row with a leader of an earlier epoch, it is believed: in about two minutes.
const BELIEVED_AFTER: u32 = 120;
/// In place of the number of a broker: any that is asked who leads.
const ANY: i32 = -1;

/// The settings that are kept to here, beside those of connections.
const KEPT: [&str; 9] = [
    "client.id",
    "enable.ssl.certificate.verification",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "queued.max.messages.kbytes",
];
/// Those of how librdkafka works inside, and of what it says of itself, which mean nothing here.
const WITHOUT_MEANING: [&str; 5] = [
    "debug",
    "fetch.error.backoff.ms",
    "fetch.queue.backoff.ms",
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
    pub(crate) fn new(
        config: &rdkafka::ClientConfig,
        options: &Options,
        tokens: Option<&Arc<Tokens>>,
    ) -> Result<Self> {
        let is_of_connections = |name: &str| {
            name.starts_with("sasl.") || name.starts_with("ssl.") || name == "security.protocol"
        };
        let is_known = |name: &str| {
            KEPT.contains(&name) || WITHOUT_MEANING.contains(&name) || is_of_connections(name)
        };
        if let Some(name) = options.names().find(|name| !is_known(name)) {
            let what = format!("the setting `{name}` is supported by librdkafka alone");
            return Err(Error::new(ErrorKind::Config, what));
        }
        // librdkafka, which is asked for all but records, has refused what is no number.
        let number = |name| options.get(name).and_then(|text| text.parse::<i32>().ok());
        let wait = number("fetch.wait.max.ms").and_then(|wait| u64::try_from(wait).ok());
        let isolation = config.get("isolation.level").unwrap_or_default();
        let limits = Limits {
            wait: wait.map_or(WAIT, Duration::from_millis).min(LONGEST_WAIT),
            least: number("fetch.min.bytes").unwrap_or(1),
            most: number("fetch.max.bytes").unwrap_or(MOST),
            are_committed: !isolation.eq_ignore_ascii_case("read_uncommitted"),
        };
        Ok(Self { settings: Settings::new(config, tokens)?, limits })
    }
}

/// What fetches for the readers of a source, until the last one and the source are gone.
pub(crate) struct Fetcher(Arc<Shared>);

struct Shared {
    settings: Arc<Settings>,
    limits: Limits,
    client: Arc<Client>,
    /// Whether topics have to stay the same.
    are_same: bool,
    /// What is held of all partitions.
    budget: Arc<Budget>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    partitions: Vec<Assigned>,
    /// Brokers with a thread.
    served: BTreeSet<i32>,
    /// Those of which it was logged that they do not answer.
    reported: BTreeSet<i32>,
    is_over: bool,
}

/// A partition that is read.
struct Assigned {
    topic: Arc<str>,
    number: i32,
    /// Of the topic when it was first read, if it has to stay the same.
    expected_id: Option<TopicId>,
    /// The one that brokers have said last.
    current_id: Option<TopicId>,
    queue: Arc<Queue>,
    /// `None` while it has to be looked for.
    leader: Option<Leader>,
    /// Of the last leader that was found, or at first of that which has appended the last record, negative if it is not known.
    last_epoch: i32,
    /// It is not looked for before.
    not_before: Instant,
    /// How often a broker has failed for this partition of late.
    failures: u32,
    /// How often brokers have said in a row that it has no leader, and that it has one of an earlier epoch.
    leaderless: u32,
    older: u32,
}

impl Assigned {
    /// Without a leader, which is looked for at once.
    fn new(partition: &Partition, id: Option<TopicId>, queue: Arc<Queue>) -> Self {
        // A broker that names a leader from before the last record knows less than a run before this one.
        let last_epoch = queue.epoch();
        Self {
            topic: partition.topic.as_str().into(),
            number: partition.number,
            expected_id: id,
            current_id: id,
            queue,
            leader: None,
            last_epoch,
            not_before: Instant::now(),
            failures: 0,
            leaderless: 0,
            older: 0,
        }
    }

    fn is_led_by(&self, node: i32) -> bool {
        self.leader.is_some_and(|leader| leader.node == node)
    }

    /// Forgets the leader, which is looked for again after a pause.
    fn forget_leader(&mut self) {
        if self.not_before.elapsed() > FORGOTTEN {
            self.failures = 0;
        }
        let pause = FIRST_PAUSE * 2u32.pow(self.failures.min(5));
        self.failures += 1;
        self.leader = None;
        self.not_before = Instant::now() + pause.min(LONGEST_PAUSE);
        self.queue.unanswered();
    }
}

impl Fetcher {
    /// Errors that end the job go by the client. Topics of another id than at first are not read if they have to stay the same.
    pub(crate) fn new(plan: Plan, client: Arc<Client>, are_same: bool) -> Result<Self> {
        let Plan { settings, limits } = plan;
        let shared = Arc::new(Shared {
            settings: Arc::new(settings),
            limits,
            client,
            are_same,
            budget: Arc::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let fetcher = Self(Arc::clone(&shared));
        shared.start("kafka-leaders", |shared| shared.find_leaders())?;
        Ok(fetcher)
    }

    /// What is held of all partitions, of which each queue is to be a part.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.0.budget)
    }

    /// Begins to fetch a partition.
    pub(crate) fn add(&self, partition: &Partition, id: Option<TopicId>, queue: Arc<Queue>) {
        let assigned = Assigned::new(partition, id, queue);
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
    pub(crate) fn has_room(&self) {
        // A thread that looked at the queue before there was room holds this lock until it waits, and is waked then.
        drop(self.0.state());
        self.0.changed.notify_all();
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Starts a thread. If it panics, the job ends.
    fn start(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<()> {
        let shared = Arc::clone(self);
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
                let what = "a thread that fetches from Kafka has panicked";
                shared.client.fail(Box::new(move || Error::new(ErrorKind::Internal, what)));
            }
        };
        start(name, run)
    }

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

    /// Looks for the brokers of partitions, and has a thread for each.
    fn find_leaders(self: &Arc<Self>) {
        let mut cluster = Cluster::new(Arc::clone(&self.settings));
        let mut look_at = Instant::now() + LOOK_AGAIN;
        while let Some(names) = self.to_find(look_at) {
            let found = cluster.topics(names.iter().map(|name| &**name));
            if Instant::now() >= look_at {
                look_at = Instant::now() + LOOK_AGAIN;
            }
            let mut state = self.state();
            let asked = state.partitions.iter_mut();
            let asked = asked.filter(|assigned| names.contains(&assigned.topic));
            let mut waiting = Vec::new();
            match found {
                Ok(topics) => asked.for_each(|assigned| {
                    settle(assigned, &topics, self.are_same);
                    let line = |why: &str| format!("{}/{} {why}", assigned.topic, assigned.number);
                    waiting.extend(why_waiting(assigned).map(line));
                }),
                Err(fault) => {
                    let without = asked.filter(|assigned| assigned.leader.is_none());
                    without.for_each(Assigned::forget_leader);
                    drop(state);
                    self.report(ANY, fault);
                    continue;
                }
            }
            state.reported.remove(&ANY);
            if state.partitions.iter().any(|assigned| assigned.leader.is_none()) {
                cluster.ask_another();
            }
            let leaders = state.partitions.iter().filter_map(|assigned| assigned.leader);
            let nodes: BTreeSet<_> = leaders.map(|leader| leader.node).collect();
            let new: Vec<_> = nodes.difference(&state.served).copied().collect();
            for node in new {
                // It was in the same answer as the leader, or in one before.
                let Some((host, port)) = cluster.address(node).cloned() else {
                    state.forget(node);
                    continue;
                };
                state.served.insert(node);
                let serve = move |shared: &Arc<Self>| shared.serve(node, &host, port);
                if let Err(error) = self.start(&format!("kafka-fetch-{node}"), serve) {
                    let what = error.to_string();
                    return self
                        .client
                        .fail(Box::new(move || Error::new(ErrorKind::Io, what.clone())));
                }
            }
            drop(state);
            self.changed.notify_all();
            for line in waiting {
                log::warn!("{}: {line}", self.client.connections().operator());
            }
        }
    }

    /// Waits until there are partitions whose leaders are to be looked for, or until it is time to look for all; returns their topics,
    /// and `None` at the end.
    fn to_find(&self, look_at: Instant) -> Option<BTreeSet<Arc<str>>> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            let is_due = |assigned: &&Assigned| {
                now >= look_at || (assigned.leader.is_none() && assigned.not_before <= now)
            };
            let due = state.partitions.iter().filter(is_due);
            let names: BTreeSet<_> = due.map(|assigned| Arc::clone(&assigned.topic)).collect();
            if !names.is_empty() {
                return Some(names);
            }
            let without = state.partitions.iter().filter(|assigned| assigned.leader.is_none());
            let next = without.map(|assigned| assigned.not_before).min();
            let until = if state.partitions.is_empty() { None } else { Some(look_at) };
            let until = next.into_iter().chain(until).min();
            state = self.wait(state, until);
        }
    }

    /// Logs what ends by itself, and ends the job for what does not.
    fn report(&self, node: i32, fault: Fault) {
        let reader = self.client.connections().operator();
        match fault {
            Fault::Final(_) | Fault::Denied => {
                let what = format!("cannot go on with Kafka: {}", fault.what());
                let kind = match what.contains(PANICKED) {
                    true => ErrorKind::Panic,
                    false => ErrorKind::Config,
                };
                self.client.fail(Box::new(move || Error::new(kind, what.clone())));
            }
            _ => {
                // Once until it has answered again.
                let is_new = self.state().reported.insert(node);
                let level = if is_new { log::Level::Warn } else { log::Level::Debug };
                log::log!(level, "{reader}: records cannot be fetched for now: {}", fault.what());
            }
        }
    }

    /// Fetches from a broker as long as it has partitions.
    fn serve(&self, node: i32, host: &str, port: u16) {
        if let Err(fault) = self.fetch(node, host, port) {
            let mut state = self.state();
            state.forget(node);
            state.served.remove(&node);
            drop(state);
            self.changed.notify_all();
            self.report(node, fault);
        }
    }

    fn fetch(&self, node: i32, host: &str, port: u16) -> std::result::Result<(), Fault> {
        let mut connection = Connection::new(&self.settings, host, port)?;
        self.client.connections().work();
        let mut turn = 0;
        while let Some(Asked { limits, wanted, queues, asking }) = self.wanted(node, turn) {
            turn += 1;
            let mut moved = Vec::new();
            let take = |at: usize, answered: Answered, buffer| match verdict(answered.code) {
                Verdict::Answered => {
                    queues[at].put((wanted[at].from, wanted[at].epoch), answered, buffer);
                }
                Verdict::Over(Trouble::OutOfRange) => queues[at].out_of_range(wanted[at].epoch),
                Verdict::Over(trouble) => queues[at].fail(trouble),
                Verdict::FindLeader(trouble) => {
                    trouble.into_iter().for_each(|trouble| queues[at].fail(trouble));
                    moved.push((at, answered.code));
                }
            };
            let buffer = |at: usize| queues[at].buffer();
            let late = || queues.iter().for_each(|queue| queue.unanswered());
            let throttled = connection.fetch(&limits, &wanted, late, buffer, take)?;
            drop(asking);
            if turn == 1 {
                self.state().reported.remove(&node);
            }
            if !moved.is_empty() {
                let mut state = self.state();
                // Another leader may have been found meanwhile.
                let is_moved = |assigned: &&mut Assigned| {
                    assigned.is_led_by(node)
                        && moved.iter().any(|(at, _)| Arc::ptr_eq(&queues[*at], &assigned.queue))
                };
                state.partitions.iter_mut().filter(is_moved).for_each(Assigned::forget_leader);
                drop(state);
                self.changed.notify_all();
                let reader = self.client.connections().operator();
                for (at, code) in moved {
                    let Wanted { topic, number, .. } = &wanted[at];
                    let code = named_code(code);
                    log::warn!(
                        "{reader}: {host}:{port} answers with error {code} for {topic}/{number}, whose leader is looked for again"
                    );
                }
            }
            self.pause(throttled);
        }
        Ok(())
    }

    /// Waits for so long, or until nothing is to be fetched any more.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !time.is_zero()
            && !state.is_over
            && !state.partitions.is_empty()
            && Instant::now() < until
        {
            state = self.wait(state, Some(until));
        }
    }

    /// What to ask a broker for, once there is something; `None` if it has no partitions, and needs no thread.
    fn wanted(&self, node: i32, turn: usize) -> Option<Asked> {
        let mut state = self.state();
        loop {
            let led = |assigned: &Assigned| assigned.leader.filter(|leader| leader.node == node);
            let own = state.partitions.iter();
            let own: Vec<_> = own.filter_map(|one| Some((one, led(one)?))).collect();
            if own.is_empty() || state.is_over {
                state.served.remove(&node);
                return None;
            }
            // A broker fills its answer from the first one on, which alone gets a batch that is longer than it may be.
            let first = turn % own.len();
            let mut limits = self.limits;
            let (mut wanted, mut queues) = (Vec::new(), Vec::new());
            let mut asking = Asking::new(&self.budget, Instant::now());
            for (assigned, leader) in own[first..].iter().chain(&own[..first]) {
                match assigned.queue.wanted(&mut asking) {
                    Wants::Nothing => {}
                    Wants::Room => limits.wait = limits.wait.min(SHORT_WAIT),
                    Wants::Records { from, epoch, is_first } => {
                        if is_first {
                            // The reader has to know the end, and others may be about to be opened.
                            limits.wait = Duration::ZERO;
                        }
                        wanted.push(Wanted {
                            topic: Arc::clone(&assigned.topic),
                            id: assigned.expected_id.or(assigned.current_id),
                            number: assigned.number,
                            leader: *leader,
                            from,
                            epoch,
                            most: i32::try_from(assigned.queue.most()).unwrap_or(i32::MAX),
                        });
                        queues.push(Arc::clone(&assigned.queue));
                    }
                }
            }
            if !wanted.is_empty() {
                return Some(Asked { limits, wanted, queues, asking });
            }
            state = self.wait(state, asking.again());
        }
    }
}

/// A request, and the queues of the partitions in it.
struct Asked {
    limits: Limits,
    wanted: Vec<Wanted>,
    queues: Vec<Arc<Queue>>,
    /// Until it is answered.
    asking: Asking,
}

impl State {
    /// Forgets a broker.
    fn forget(&mut self, node: i32) {
        let of_it = self.partitions.iter_mut().filter(|assigned| assigned.is_led_by(node));
        of_it.for_each(Assigned::forget_leader);
    }
}

/// Why the records of a partition wait, when that is to be logged: once.
fn why_waiting(assigned: &Assigned) -> Option<&'static str> {
    match (assigned.leaderless, assigned.older) {
        (SAID_AFTER, _) => Some(
            "has no leader for now, so its records wait: the brokers that have them may be away",
        ),
        (_, SAID_AFTER) => Some(
            "has a leader from before the last record that was read, as brokers say, so its records wait: these brokers may be cut off; \
             if the cluster was restored, the job goes on in about two minutes",
        ),
        _ => None,
    }
}

/// Takes what was found of a partition's broker.
fn settle(assigned: &mut Assigned, topics: &[FoundTopic], are_same: bool) {
    let topic = topics.iter().find(|topic| topic.name == *assigned.topic);
    let (code, leader) = match topic {
        Some(topic) if topic.code == 0 => match topic.leaders.get(&assigned.number) {
            Some(leader) => (0, Some(*leader).filter(|leader| leader.node >= 0)),
            None => (UNKNOWN_TOPIC_OR_PARTITION, None),
        },
        Some(topic) => (topic.code, None),
        None => (UNKNOWN_TOPIC_OR_PARTITION, None),
    };
    let id = topic.and_then(|topic| topic.id);
    // Another topic of this name, of which nothing is read.
    let is_another = id.zip(assigned.expected_id).is_some_and(|(found, known)| found != known);
    let is_new = |leader: &Leader| assigned.leader.is_none_or(|now| leader.epoch > now.epoch);
    match leader {
        // A broker that is cut off may know less than another one that was asked before. If all do, the cluster was restored.
        Some(leader)
            if leader.epoch < assigned.last_epoch
                && id == assigned.current_id
                && assigned.older < BELIEVED_AFTER =>
        {
            assigned.older += 1;
        }
        Some(leader) if !is_another && is_new(&leader) => {
            if assigned.current_id.is_some() && id != assigned.current_id {
                assigned.queue.forget_epoch();
            }
            (assigned.leader, assigned.current_id) = (Some(leader), id);
            assigned.last_epoch = leader.epoch;
            assigned.queue.forget_epoch_behind(leader.epoch);
            if are_same {
                assigned.expected_id = assigned.expected_id.or(id);
            }
        }
        _ => {}
    }
    if leader.is_none() {
        assigned.older = 0;
    }
    if assigned.leader.is_some() {
        (assigned.leaderless, assigned.older) = (0, 0);
    } else {
        // One that is not there is the reader's to find out.
        if leader.is_none() && !matches!(verdict(code), Verdict::FindLeader(Some(_))) {
            assigned.leaderless = assigned.leaderless.saturating_add(1);
        }
        assigned.forget_leader();
    }
    if let Some((now, before)) = id.zip(assigned.expected_id)
        && is_another
    {
        assigned.queue.fail(Trouble::Another { before, now });
    }
    if let Verdict::FindLeader(Some(trouble)) | Verdict::Over(trouble) = verdict(code) {
        assigned.queue.fail(trouble);
    }
}

/// A code of Kafka's protocol, with what librdkafka calls it.
pub(crate) fn named_code(code: i16) -> String {
    match RDKafkaRespErr::try_from(i32::from(code)) {
        Ok(known) => format!("{code} ({})", RDKafkaErrorCode::from(known)),
        Err(_) => format!("{code} of Kafka's protocol"),
    }
}

/// What the code of a partition's answer means.
enum Verdict {
    Answered,
    /// The reader ends the job, once it knows more.
    Over(Trouble),
    /// Another broker may lead the partition by now, or this one has trouble that ends by itself, as all other codes say.
    FindLeader(Option<Trouble>),
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const UNKNOWN_TOPIC_ID: i16 = 100;
/// UNKNOWN_SERVER_ERROR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE,
/// NETWORK_EXCEPTION, NOT_CONTROLLER, KAFKA_STORAGE_ERROR, LISTENER_NOT_FOUND, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
/// OFFSET_NOT_AVAILABLE, THROTTLING_QUOTA_EXCEEDED, INCONSISTENT_TOPIC_ID.
const ENDS_BY_ITSELF: [i16; 15] = [-1, 5, 6, 7, 8, 9, 13, 41, 56, 72, 74, 75, 78, 89, 103];

fn verdict(code: i16) -> Verdict {
    match code {
        0 => Verdict::Answered,
        OFFSET_OUT_OF_RANGE => Verdict::Over(Trouble::OutOfRange),
        TOPIC_AUTHORIZATION_FAILED => Verdict::Over(Trouble::Denied),
        UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_TOPIC_ID => {
            Verdict::FindLeader(Some(Trouble::Unknown))
        }
        code if ENDS_BY_ITSELF.contains(&code) => Verdict::FindLeader(None),
        code => Verdict::Over(Trouble::Code(code)),
    }
}
