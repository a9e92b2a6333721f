//! Transactions: what a task has written between two checkpoints, and that it was written, become visible at once.
//!
//! A task's transactions have a name, which is its transactional id and that of a group. Each has a number, and carries it as
//! an offset of the group, with a digest of its records. Whoever begins with a name fences all who have begun with it before, so
//! it is known for sure which transactions there are: those up to the group's offset.

use crate::awaited::Awaited;
use crate::client;
use crate::connections::{Connections, Watch, is_without_answer};
use crate::kept::Records;
use crate::open::OpenTransaction;
use crate::outgoing::Outgoing;
use crate::rights::Needs;
use crate::writer::DELETED;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{Producer as _, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::{SinkContext, SinkWaker};
use thalweg::data::hash_bytes;
use thalweg::{Data, Error, ErrorKind, Result};

/// How long a transaction is tried again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// How long brokers may take to answer each time.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);
/// How long nothing is heard of why there is none.
pub(crate) const SLICE: Duration = Duration::from_secs(2);

/// What a task has written between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub struct Epoch {
    /// The name of the task's transactions; empty if there is nothing to be done.
    name: String,
    /// Its number among them, from 1.
    number: u64,
    /// None of an open transaction.
    records: Records,
    #[data(default)]
    open: Option<OpenTransaction>,
}

impl Epoch {
    pub(crate) fn new(name: String, number: u64, records: Records) -> Self {
        Self { name, number, records, open: None }
    }

    /// Of records that were sent in a transaction that is still open.
    pub(crate) fn of_open(name: String, number: u64, open: OpenTransaction) -> Self {
        Self { name, number, records: Records::none(), open: Some(open) }
    }

    /// Whether there is nothing to be done.
    pub(crate) fn is_nothing(&self) -> bool {
        self.name.is_empty()
    }

    /// The open transaction, its name and its number.
    pub(crate) fn as_open(&self) -> Option<(&OpenTransaction, &str, u64)> {
        Some((self.open.as_ref()?, &self.name, self.number))
    }

    /// Of records that were sent at once.
    pub(crate) fn nothing() -> Self {
        Self::new(String::new(), 0, Records::none())
    }
}

/// Settings of what takes part in transactions.
pub(crate) struct Clients {
    /// What names begin with.
    pub(crate) prefix: String,
    pub(crate) producer: ClientConfig,
    /// Of what asks for the offset of a group.
    pub(crate) marks: ClientConfig,
    pub(crate) watch: Watch,
}

impl Clients {
    /// The last transaction of a name that is committed, and the group that has its mark.
    pub(crate) fn last(
        &self,
        topic: &str,
        name: &str,
    ) -> KafkaResult<(Mark, ConsumerGroupMetadata)> {
        let mut config = self.marks.clone();
        config.set("group.id", name);
        let marks: BaseConsumer<Watch> = self.watch.client(&config)?;
        let none = Mark::default().offset(topic)?;
        let ask = |patience| marks.committed_offsets(none.clone(), patience);
        // Why there is no coordinator is in an event.
        let hear = || _ = marks.poll(Duration::from_millis(100));
        let group = Needs { group: name, ..Needs::default() };
        let last = Mark::of(&answered(&group, &self.watch.0, ask, hear)?)?;
        let group = marks.group_metadata();
        Ok((last, group.ok_or(KafkaError::ClientCreation("there is no group".to_owned()))?))
    }
}

/// The transactions of a sink on this host, by name.
#[derive(Default)]
pub(crate) struct Transactions {
    by_name: Mutex<HashMap<String, Slot>>,
    /// In a job without checkpoints, which nothing goes on from.
    run: OnceLock<u64>,
}

type Slot = Arc<Mutex<Named>>;

/// What this host knows of the transactions of a name.
#[derive(Default)]
struct Named {
    /// `None` until brokers have answered, and after a failure.
    transactor: Option<Transactor>,
    /// The number of the last transaction that this run has seen or written, once it has begun with the name for a task of its own.
    own: Option<u64>,
}

impl Named {
    /// Begins with the name; returns the number of the last transaction that there is.
    fn begin(&mut self, clients: &Clients, topic: &str, name: &str) -> Result<u64> {
        self.transactor = None;
        let doing = format!("begin with the transactions {name}");
        let begin = || Ok(begun(&mut self.transactor, clients, topic, name)?.last.number);
        let last = tried(&doing, &needs(topic, name, name), &clients.watch.0, begin)?;
        self.own = Some(last);
        Ok(last)
    }
}

impl Transactions {
    /// What the names of the transactions of all tasks begin with.
    pub(crate) fn base(&self, clients: &Clients, topic: &str, cx: &SinkContext) -> String {
        let run = || *self.run.get_or_init(|| RandomState::new().hash_one(std::process::id()));
        let id = cx.id().unwrap_or_else(run);
        format!("{}-{topic}-{id:016x}", clients.prefix)
    }

    /// Begins with the transactions of this name, on a thread of its own: it takes some tenths of a second, and tasks are opened one
    /// after another. The answer is the number of the last one that there is.
    pub(crate) fn begin(
        &self,
        clients: Clients,
        topic: &str,
        name: &str,
        waker: SinkWaker,
    ) -> Result<Awaited<u64>> {
        let (slot, topic, name) = (self.slot(name), topic.to_owned(), name.to_owned());
        Awaited::start(waker, move || {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.begin(&clients, &topic, &name)
        })
    }

    /// Writes what a task has written between two checkpoints, unless that was done before.
    pub(crate) fn commit(&self, clients: &Clients, topic: &str, epoch: &Epoch) -> Result<()> {
        let Epoch { name, number, records, open: _ } = epoch;
        let records = records.bytes();
        let this = Mark { number: *number, digest: format!("{:016x}", hash_bytes(records)) };
        let slot = self.slot(name);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Named { transactor, own } = &mut *slot;
        let doing = format!("commit transaction {number} of {name}");
        tried(&doing, &needs(topic, name, name), &clients.watch.0, || {
            let written = written(transactor, clients, topic, (name, &this), *own, records);
            let Err(failure) = written else { return Ok(()) };
            let failed = transactor.take();
            failed.iter().for_each(|failed| hear(&failed.producer));
            // A new one finds out what became of it.
            if failed.is_some_and(|failed| is_gone(failed.producer.client(), topic)) {
                return Err(Failure::Final(deleted(&format!("{doing} to {topic}"), records.len())));
            }
            Err(failure)
        })?;
        match own {
            Some(own) => *own = (*own).max(*number),
            // Of a run before this one: whoever has the task now begins with the name itself.
            None => *transactor = None,
        }
        Ok(())
    }

    fn slot(&self, name: &str) -> Slot {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(by_name.entry(name.to_owned()).or_default())
    }
}

/// How long a topic may be unknown, as it is for a moment where brokers start.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Whether brokers say for a while that there is no such topic.
pub(crate) fn is_gone(client: &Client<impl ClientContext>, topic: &str) -> bool {
    let began = Instant::now();
    while is_unknown(client, topic) {
        if began.elapsed() >= UNKNOWN {
            return true;
        }
        thread::sleep(Duration::from_millis(500));
    }
    false
}

/// Whether brokers say now that there is no such topic.
fn is_unknown(client: &Client<impl ClientContext>, topic: &str) -> bool {
    let Ok(found) = client.fetch_metadata(Some(topic), SLICE / 2) else { return false };
    let found = found.topics().iter().find(|found| found.name() == topic);
    let code = found.and_then(|found| found.error()).map(RDKafkaErrorCode::from);
    let unknown = [RDKafkaErrorCode::UnknownTopicOrPartition, RDKafkaErrorCode::UnknownTopic];
    code.is_some_and(|code| unknown.contains(&code))
}

#[cold]
fn deleted(doing: &str, bytes: usize) -> Error {
    let what = format!(
        "cannot {doing}: {DELETED}. What the transaction has, about {bytes} bytes, is not written; a job with checkpoints writes it \
         when the topic is made again and the job is run again"
    );
    Error::new(ErrorKind::Io, what)
}

fn begun<'a>(
    slot: &'a mut Option<Transactor>,
    clients: &Clients,
    topic: &str,
    name: &str,
) -> Attempt<&'a mut Transactor> {
    let made = match slot.take() {
        Some(made) => made,
        None => Transactor::new(clients, topic, name)?,
    };
    Ok(slot.insert(made))
}

/// Writes a transaction unless it is there.
fn written(
    transactor: &mut Option<Transactor>,
    clients: &Clients,
    topic: &str,
    (name, this): (&str, &Mark),
    own: Option<u64>,
    records: &[u8],
) -> Attempt<()> {
    let transactor = begun(transactor, clients, topic, name)?;
    match this.found_behind(&transactor.last, own) {
        Found::Missing => transactor.write(&needs(topic, name, name), topic, this, records),
        Found::Written => Ok(()),
        Found::Foreign => Err(Failure::Final(foreign(name))),
    }
}

#[cold]
pub(crate) fn foreign(name: &str) -> Error {
    let what = format!(
        "a later run of this job, or another one, has written transactions with the name {name}: two jobs with the same path of \
         checkpoints, on different machines, need different names (`KafkaSink::transactional_id_prefix`)"
    );
    Error::new(ErrorKind::Config, what)
}

/// The marks are offsets of the topic, for which it has to be read.
pub(crate) fn needs<'a>(topic: &'a str, group: &'a str, transactions: &'a str) -> Needs<'a> {
    Needs { topic: ("`Write` and `Read`", topic), group, transactions }
}

/// What failed once.
pub(crate) enum Failure {
    Kafka(KafkaError),
    /// Why not now.
    Later(String),
    /// Trying again cannot help.
    Final(Error),
}

pub(crate) type Attempt<T> = std::result::Result<T, Failure>;

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

/// Tries until it works, for a while.
pub(crate) fn tried<T>(
    doing: &str,
    needs: &Needs<'_>,
    connections: &Connections,
    mut attempt: impl FnMut() -> Attempt<T>,
) -> Result<T> {
    let (began, mut pause) = (Instant::now(), Duration::from_millis(50));
    let mut was_tried = false;
    loop {
        let failure = match attempt() {
            Ok(done) => {
                connections.work();
                return Ok(done);
            }
            Err(failure) => failure,
        };
        // The first attempt may have taken longer than that, until brokers gave it up.
        let is_over = was_tried && began.elapsed() >= PATIENCE;
        was_tried = true;
        match failure {
            Failure::Final(error) => return Err(error),
            Failure::Kafka(cause) if is_over || connections.are_hopeless(needs, &cause) => {
                return Err(connections.error(doing, needs, cause));
            }
            Failure::Later(why) if is_over => {
                return Err(Error::new(ErrorKind::Io, format!("cannot {doing}: {why}")));
            }
            Failure::Kafka(cause) => log::warn!("cannot {doing}, and try again: {cause}"),
            Failure::Later(why) => log::warn!("cannot {doing}, and try again: {why}"),
        }
        // Several hosts may try at once, and fence each other: not all after the same time.
        let more = RandomState::new().hash_one(doing) % 50;
        let until = Instant::now() + pause + Duration::from_millis(more);
        while Instant::now() < until {
            if connections.are_cancelled() {
                return Err(Connections::cancelled(doing));
            }
            thread::sleep(Duration::from_millis(50));
        }
        pause = (2 * pause).min(Duration::from_secs(5));
    }
}

/// What tells a transaction from others of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its number, from 1; 0 if there is none.
    pub(crate) number: u64,
    /// Of its records, or its producer if it was open while they came.
    pub(crate) digest: String,
}

/// What the last transaction of a name says of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    Written,
    /// Another one has its number.
    Foreign,
}

impl Mark {
    /// What became of this transaction, if this is the last one of its name. `own` is the number of the last one that this run
    /// has seen or written, if it has begun with the name.
    pub(crate) fn found_behind(&self, last: &Self, own: Option<u64>) -> Found {
        let is_foreign = match last.number.cmp(&self.number) {
            std::cmp::Ordering::Less => return Found::Missing,
            std::cmp::Ordering::Equal => last.digest != self.digest,
            // What an earlier run has left may have been followed by others. In this run, no other task writes with the name.
            std::cmp::Ordering::Greater => own.is_some_and(|own| own < self.number),
        };
        if is_foreign { Found::Foreign } else { Found::Written }
    }

    /// As the offset of a group.
    pub(crate) fn offset(&self, topic: &str) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(1);
        let mut offset = list.add_partition(topic, 0);
        if self.number > 0 {
            offset.set_offset(Offset::Offset(self.number as i64))?;
            offset.set_metadata(&self.digest);
        }
        Ok(list)
    }

    fn of(list: &TopicPartitionList) -> KafkaResult<Self> {
        let elements = list.elements();
        let Some(mark) = elements.first() else { return Ok(Self::default()) };
        // An answer may be of an error of the partition alone.
        mark.error()?;
        Ok(match mark.offset() {
            Offset::Offset(number) => {
                Self { number: number.unsigned_abs(), digest: mark.metadata().to_owned() }
            }
            _ => Self::default(),
        })
    }
}

/// What writes the transactions of a name. Between two of them, its thread hears that a new token is needed.
struct Transactor {
    producer: ThreadedProducer<Watch>,
    /// Of the group that has their marks.
    group: ConsumerGroupMetadata,
    /// The last transaction that there is.
    last: Mark,
}

impl Transactor {
    /// Fences all others of this name, and ends their transaction.
    fn new(clients: &Clients, topic: &str, name: &str) -> KafkaResult<Self> {
        let producer: ThreadedProducer<Watch> =
            clients.watch.client(clients.producer.clone().set("transactional.id", name))?;
        let begin = |patience| producer.init_transactions(patience);
        answered(&needs(topic, name, name), &clients.watch.0, begin, || hear(&producer))?;
        let (last, group) = clients.last(topic, name)?;
        Ok(Self { producer, group, last })
    }

    fn write(
        &mut self,
        needs: &Needs<'_>,
        topic: &str,
        this: &Mark,
        mut records: &[u8],
    ) -> Attempt<()> {
        let Self { producer, group, last } = self;
        producer.begin_transaction()?;
        let mut progress = Progress::of(producer, topic);
        let mut record = Outgoing::default();
        while !records.is_empty() {
            record.load(&mut records).map_err(Failure::Final)?;
            send(producer, &record, topic, &mut progress)?;
        }
        // Committing waits for deliveries, of which nothing else takes note. A short time each, since it is waited for to its end.
        while let Err(cause) = producer.flush(Duration::from_millis(2)) {
            progress.check(producer, cause)?;
        }
        // All records are delivered, so that this takes long only where something is wrong, such as a topic that is not there any more.
        producer.send_offsets_to_transaction(&this.offset(topic)?, group, client::PATIENCE)?;
        let commits = |patience| producer.commit_transaction(patience);
        answered(needs, &producer.client().context().0, commits, || hear(producer))?;
        *last = this.clone();
        Ok(())
    }
}

/// Asks for an answer until the time for it is over, or what a client says in between shows that there will be none. A request
/// that was not answered in its time is still on its way, and the next call waits for it.
pub(crate) fn answered<T>(
    needs: &Needs<'_>,
    connections: &Connections,
    mut ask: impl FnMut(Duration) -> KafkaResult<T>,
    hear: impl Fn(),
) -> KafkaResult<T> {
    let began = Instant::now();
    if connections.tokens().is_some() {
        // A client that was just made waits for a token.
        hear();
    }
    loop {
        let cause = match ask(SLICE) {
            Err(cause) if is_without_answer(&cause) => cause,
            answer => return answer,
        };
        hear();
        let is_over = connections.are_cancelled() || began.elapsed() >= ANSWER;
        if is_over || connections.are_hopeless(needs, &cause) {
            return Err(cause);
        }
    }
}

/// Takes what a producer has to say of its connections.
fn hear(producer: &ThreadedProducer<Watch>) {
    producer.poll(Duration::from_millis(100));
}

/// Whether brokers still take records.
struct Progress<'a> {
    connections: &'a Connections,
    topic: &'a str,
    left: i32,
    since: Instant,
    /// When brokers were asked last whether the topic is there.
    asked: Instant,
}

impl<'a> Progress<'a> {
    fn of(producer: &'a ThreadedProducer<Watch>, topic: &'a str) -> Self {
        let (connections, now) = (&producer.client().context().0, Instant::now());
        let left = producer.in_flight_count();
        Self { connections, topic, left, since: now, asked: now }
    }

    /// Hands over what was waited for in vain, if nothing was delivered for long, brokers refuse what they had accepted, or the
    /// topic is not there.
    fn check(
        &mut self,
        producer: &'a ThreadedProducer<Watch>,
        cause: KafkaError,
    ) -> KafkaResult<()> {
        let left = producer.in_flight_count();
        if left != self.left {
            *self = Self::of(producer, self.topic);
        }
        if self.asked.elapsed() >= UNKNOWN {
            self.asked = Instant::now();
            if is_unknown(producer.client(), self.topic) {
                return Err(cause);
            }
        }
        let patience = if self.connections.are_cancelled() { SLICE } else { ANSWER };
        if !self.connections.are_refused() && self.since.elapsed() < patience {
            Ok(())
        } else {
            Err(cause)
        }
    }
}

/// Sends a record, and waits for room.
fn send<'a>(
    producer: &'a ThreadedProducer<Watch>,
    record: &Outgoing,
    topic: &str,
    progress: &mut Progress<'a>,
) -> KafkaResult<()> {
    let mut sent = record.as_record(topic, ());
    loop {
        match producer.send(sent) {
            Ok(()) => break,
            Err((cause @ KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                progress.check(producer, cause)?;
                producer.poll(Duration::from_millis(10));
                sent = back;
            }
            Err((cause, _)) => return Err(cause),
        }
    }
    producer.poll(Duration::ZERO);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_of_another_job_is_not_taken_for_this_one() {
        let mark = |number, digest: &str| Mark { number, digest: digest.to_owned() };
        let this = mark(6, "a");
        for (last, own, found) in [
            (Mark::default(), None, Found::Missing),
            (mark(5, "b"), Some(5), Found::Missing),
            // It was written, and the answer was lost.
            (mark(6, "a"), Some(5), Found::Written),
            (mark(6, "a"), None, Found::Written),
            // A run that goes on commits all that the checkpoint has.
            (mark(7, "b"), None, Found::Written),
            // Another run, while this one was on its way.
            (mark(6, "b"), Some(5), Found::Foreign),
            (mark(6, "b"), None, Found::Foreign),
            (mark(7, "b"), Some(5), Found::Foreign),
            // Committed again.
            (mark(7, "b"), Some(7), Found::Written),
        ] {
            assert_eq!(this.found_behind(&last, own), found, "{last:?} {own:?}");
        }
    }

    #[test]
    fn marks_are_offsets_with_a_digest() {
        let mark = Mark { number: 3, digest: "0123".to_owned() };
        let list = mark.offset("topic").unwrap();
        assert_eq!(Mark::of(&list).unwrap(), mark);
        assert_eq!(Mark::of(&Mark::default().offset("topic").unwrap()).unwrap(), Mark::default());
    }
}
