//! Transactions: what a task has written between two checkpoints, and that it was written, become visible at once.
//!
//! A task's transactions have a name, which is its transactional id and that of a group. Each has a number, and carries it as
//! an offset of the group. Whoever begins with a name fences all who have begun with it before, so it is known for sure which
//! transactions there are: those up to the group's offset.

use crate::client::{Watch, error, is_hopeless};
use crate::outgoing::Outgoing;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::SinkContext;
use thalweg::{Data, Error, Result};

/// How long a transaction is tried again.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long brokers may take to answer each time.
const ANSWER: Duration = Duration::from_secs(60);

/// What a task has written between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub struct Epoch {
    /// The name of the task's transactions; empty if there is nothing to be done.
    name: String,
    /// Its number among them, from 1.
    number: u64,
    records: Vec<u8>,
}

impl Epoch {
    pub(crate) fn new(name: String, number: u64, records: Vec<u8>) -> Self {
        Self { name, number, records }
    }

    /// Of records that were sent at once.
    pub(crate) fn nothing() -> Self {
        Self::new(String::new(), 0, Vec::new())
    }
}

/// Settings of what takes part in transactions.
pub(crate) struct Clients {
    pub(crate) producer: ClientConfig,
    /// Of what asks for the offset of a group.
    pub(crate) marks: ClientConfig,
}

/// The transactions of a sink on this host, by name.
#[derive(Default)]
pub(crate) struct Transactions {
    by_name: Mutex<HashMap<String, Slot>>,
    /// In a job without checkpoints, which nothing goes on from.
    run: OnceLock<u64>,
}

/// `None` until brokers have answered, and after a failure.
type Slot = Arc<Mutex<Option<Transactor>>>;

impl Transactions {
    /// Begins with the transactions of a task; returns their name and the number of the last one that there is.
    pub(crate) fn begin(
        &self,
        clients: &Clients,
        topic: &str,
        cx: &SinkContext,
    ) -> Result<(String, u64)> {
        let run = || *self.run.get_or_init(|| RandomState::new().hash_one(std::process::id()));
        let name = format!("thalweg-{:016x}-{}", cx.id().unwrap_or_else(run), cx.task());
        let slot = self.slot(&name);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        let doing = format!("begin with the transactions {name}");
        let last = tried(&doing, || Ok(begun(&mut slot, clients, topic, &name)?.last))?;
        Ok((name, last))
    }

    /// Writes what a task has written between two checkpoints, unless that was done before.
    pub(crate) fn commit(&self, clients: &Clients, topic: &str, epoch: &Epoch) -> Result<()> {
        let Epoch { name, number, records } = epoch;
        if name.is_empty() {
            return Ok(());
        }
        let slot = self.slot(name);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        tried(&format!("commit transaction {number} of {name}"), || {
            let transactor = begun(&mut slot, clients, topic, name)?;
            if transactor.last >= *number {
                return Ok(());
            }
            let written = transactor.write(topic, *number, records);
            if written.is_err() {
                // A new one finds out what became of it.
                *slot = None;
            }
            written
        })
    }

    fn slot(&self, name: &str) -> Slot {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(by_name.entry(name.to_owned()).or_default())
    }
}

fn begun<'a>(
    slot: &'a mut Option<Transactor>,
    clients: &Clients,
    topic: &str,
    name: &str,
) -> Attempt<&'a mut Transactor> {
    if slot.is_none() {
        *slot = Some(Transactor::new(clients, topic, name)?);
    }
    Ok(slot.as_mut().expect("it was made above"))
}

/// What failed once.
enum Failure {
    Kafka(KafkaError),
    /// Trying again cannot help.
    Saved(Error),
}

type Attempt<T> = std::result::Result<T, Failure>;

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

/// Tries until it works, for a while.
fn tried<T>(doing: &str, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
    let (began, mut pause) = (Instant::now(), Duration::from_millis(50));
    loop {
        let cause = match attempt() {
            Ok(done) => return Ok(done),
            Err(Failure::Saved(error)) => return Err(error),
            Err(Failure::Kafka(cause)) => cause,
        };
        if is_hopeless(&cause) || began.elapsed() >= PATIENCE {
            return Err(error(doing, cause));
        }
        log::warn!("cannot {doing}, and try again: {cause}");
        // Several hosts may try at once, and fence each other: not all after the same time.
        let more = RandomState::new().hash_one(doing) % 50;
        thread::sleep(pause + Duration::from_millis(more));
        pause = (2 * pause).min(Duration::from_secs(5));
    }
}

/// What writes the transactions of a name.
struct Transactor {
    producer: BaseProducer,
    /// Of the group that has their number.
    group: ConsumerGroupMetadata,
    /// The number of the last transaction that there is.
    last: u64,
}

impl Transactor {
    /// Fences all others of this name, and ends their transaction.
    fn new(clients: &Clients, topic: &str, name: &str) -> KafkaResult<Self> {
        let producer: BaseProducer =
            clients.producer.clone().set("transactional.id", name).create()?;
        producer.init_transactions(ANSWER)?;
        let marks: BaseConsumer<Watch> =
            clients.marks.clone().set("group.id", name).create_with_context(Watch)?;
        let offsets = marks.committed_offsets(mark(topic, Offset::Invalid)?, ANSWER)?;
        let last = match offsets.elements().first().map(|mark| mark.offset()) {
            Some(Offset::Offset(number)) => number.unsigned_abs(),
            _ => 0,
        };
        let group = marks.group_metadata();
        let group = group.ok_or(KafkaError::ClientCreation("there is no group".to_owned()))?;
        Ok(Self { producer, group, last })
    }

    fn write(&mut self, topic: &str, number: u64, mut records: &[u8]) -> Attempt<()> {
        let Self { producer, group, last } = self;
        producer.begin_transaction()?;
        let mut record = Outgoing::default();
        while !records.is_empty() {
            record.load(&mut records).map_err(Failure::Saved)?;
            send(producer, &record, topic)?;
        }
        // It takes note of deliveries, for which committing waits.
        producer.flush(ANSWER)?;
        let mark = mark(topic, Offset::Offset(number as i64))?;
        producer.send_offsets_to_transaction(&mark, group, ANSWER)?;
        producer.commit_transaction(ANSWER)?;
        *last = number;
        Ok(())
    }
}

/// Sends a record, and waits for room.
fn send(producer: &BaseProducer, record: &Outgoing, topic: &str) -> KafkaResult<()> {
    let mut sent = record.as_record(topic, ());
    loop {
        match producer.send(sent) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(10));
                sent = back;
            }
            Err((cause, _)) => return Err(cause),
        }
    }
    producer.poll(Duration::ZERO);
    Ok(())
}

/// The offset of a group that stands for the number of its last transaction.
fn mark(topic: &str, number: Offset) -> KafkaResult<TopicPartitionList> {
    let mut mark = TopicPartitionList::with_capacity(1);
    mark.add_partition_offset(topic, 0, number)?;
    Ok(mark)
}
