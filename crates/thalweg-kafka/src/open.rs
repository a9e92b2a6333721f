//! Transactions that stay open: records are sent as they come, and what was sent becomes visible once the checkpoint behind it
//! counts.
//!
//! While one transaction waits for its checkpoint, the next one is filled. So a task has several transactional ids, each with a
//! producer. A checkpoint has transactional id and producer of each transaction: by them any process commits it when the producer
//! is gone. Whatever else a transactional id has open is aborted when it is begun with.
//!
//! The end of a transaction does not say which one of its producer it is for. So a producer is used again only when the next
//! transaction of its task, of another producer, is committed, too, and with it the checkpoint behind counts: what is open by the
//! producer that a checkpoint names, and has no mark, is the transaction that this checkpoint has, whatever another run does.

use crate::awaited::{Awaited, joined};
use crate::outgoing::Outgoing;
use crate::protocol::{Coordinator, ProducerId, Refusal};
use crate::rights::{Needs, code_of};
use crate::threads::start;
use crate::transactions::{
    Attempt, Clients, Epoch, Failure, Found, Mark, PATIENCE, SLICE, answered, foreign, is_gone,
    needs, tried,
};
use crate::writer::{DELETED, Deliveries, Room, Sent};
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{Producer as _, ThreadedProducer};
use rdkafka::topic_partition_list::TopicPartitionList;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::{Prepared, SinkWaker};
use thalweg::{Data, Error, ErrorKind, Result};

/// Producers that a task begins with: one is filled, one waits for its checkpoint, and one rests.
const USUAL: usize = 3;
/// Producers of a task at most. Where checkpoints fail, all but the one that rests have a transaction that waits for the next one.
const MOST: usize = 8;
/// How long a producer may be unused. Brokers forget a transactional id after a week, by default.
const STALE: Duration = Duration::from_secs(6 * 3600);
/// Tasks in a row of which the coordinator knows nothing before there are no more.
const UNKNOWN_TASKS: usize = 4;
/// How long the mark of a transaction that another host has committed may take to be seen. It takes milliseconds.
const SEEN: Duration = Duration::from_secs(2);
/// How long a transaction that is given up may take to be aborted.
const ABORT: Duration = Duration::from_secs(5);

/// What commits an open transaction.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct OpenTransaction {
    transactional_id: String,
    producer: ProducerId,
}

impl OpenTransaction {
    fn mark(&self, number: u64) -> Mark {
        let ProducerId { id, epoch } = self.producer;
        Mark { number, digest: format!("{id}:{epoch}") }
    }
}

/// One of a task's producers.
struct TaskProducer {
    transactional_id: String,
    /// Among those of its task.
    number: usize,
    /// Of the task's transactions.
    name: String,
    client: ThreadedProducer<Deliveries>,
    /// As the brokers know it.
    known: ProducerId,
    transaction: Mutex<Transaction>,
}

/// What a producer does.
#[derive(Debug)]
struct Transaction {
    step: Step,
    /// When it last began one.
    began: Instant,
    /// Whether it can begin no other.
    gave_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Free,
    Filled,
    /// This one waits to be committed.
    Waits(u64),
    /// What it had is committed, and nothing behind it.
    Rests,
}

impl TaskProducer {
    fn transaction(&self) -> MutexGuard<'_, Transaction> {
        self.transaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> KafkaResult<()> {
        self.client.begin_transaction()?;
        let mut transaction = self.transaction();
        (transaction.step, transaction.began) = (Step::Filled, Instant::now());
        Ok(())
    }

    fn deliveries(&self) -> &Deliveries {
        self.client.client().context()
    }
}

/// The producers of a sink's tasks on this host.
#[derive(Default)]
pub(crate) struct TaskProducers(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<String, Arc<TaskProducer>>,
    /// The last transaction of each name that is committed.
    committed: HashMap<String, u64>,
}

impl TaskProducers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, producer: &Arc<TaskProducer>) {
        self.known().by_id.insert(producer.transactional_id.clone(), Arc::clone(producer));
    }

    /// The producer that has a transaction, if it is one of this run.
    fn find(&self, open: &OpenTransaction, number: u64) -> Option<Arc<TaskProducer>> {
        let known = self.known();
        let producer = known.by_id.get(&open.transactional_id)?;
        let is_it =
            producer.known == open.producer && producer.transaction().step == Step::Waits(number);
        is_it.then(|| Arc::clone(producer))
    }

    /// A transaction is committed. Its producer rests, and the one that rested is free.
    fn note_committed(&self, name: &str, number: u64, of: Option<(&TaskProducer, bool)>) {
        let mut known = self.known();
        let last = known.committed.entry(name.to_owned()).or_default();
        *last = number.max(*last);
        let Some((producer, gave_up)) = of else { return };
        for other in known.by_id.values().filter(|other| other.name == name) {
            let mut transaction = other.transaction();
            if transaction.step == Step::Rests {
                transaction.step = Step::Free;
            }
        }
        let mut transaction = producer.transaction();
        (transaction.step, transaction.gave_up) = (Step::Rests, gave_up);
    }

    /// Commits a transaction, unless that was done before.
    pub(crate) fn commit(
        &self,
        clients: &Clients,
        topic: &str,
        (open, name, number): (&OpenTransaction, &str, u64),
        forgotten: Forgotten,
    ) -> Result<()> {
        let doing = format!("commit transaction {number} of {name}");
        let needs = needs(topic, name, &open.transactional_id);
        let producer = self.find(open, number);
        let mut is_committed = false;
        if let Some(producer) = &producer {
            is_committed = tried(&doing, &needs, &clients.watch.0, || {
                let commits = |patience| producer.client.commit_transaction(patience);
                match answered(&needs, &clients.watch.0, commits, its_thread_hears) {
                    Ok(()) => Ok(true),
                    Err(cause) if is_worth_another(&cause) => Err(cause.into()),
                    Err(cause) => {
                        log::warn!("cannot {doing} by its producer: {cause}");
                        Ok(false)
                    }
                }
            })?;
        }
        if !is_committed {
            let coordinator = Coordinator::new(&clients.producer, clients.watch.0.tokens())?;
            tried(&doing, &needs, &clients.watch.0, || {
                resume(&coordinator, clients, topic, (open, name, number), forgotten)
            })?;
        }
        let of = producer.as_ref().map(|producer| (&**producer, !is_committed));
        self.note_committed(name, number, of);
        Ok(())
    }
}

/// Waits a moment for what a producer's own thread hears of its connections.
fn its_thread_hears() {
    thread::sleep(Duration::from_millis(10));
}

/// What to make of a transaction of which brokers know nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgotten {
    Fails,
    IsCommitted,
}

/// Commits a transaction whose producer is gone, unless that was done before.
fn resume(
    coordinator: &Coordinator,
    clients: &Clients,
    topic: &str,
    (open, name, number): (&OpenTransaction, &str, u64),
    forgotten: Forgotten,
) -> Attempt<()> {
    let found = || -> Attempt<Found> {
        let (last, _) = clients.last(topic, name)?;
        Ok(open.mark(number).found_behind(&last, None))
    };
    let id = &open.transactional_id;
    let mut of_mark = found()?;
    let mut refusal = None;
    if of_mark == Found::Missing {
        match coordinator.commit(id, open.producer) {
            Ok(()) => return Ok(()),
            Err(why @ (Refusal::Gone(_) | Refusal::Forgotten(_))) => refusal = Some(why),
            Err(why) => return Err(why.into()),
        }
    }
    // Another host may have committed it meanwhile, and its task have begun with the transactional id.
    let refused = Instant::now();
    while of_mark == Found::Missing && refused.elapsed() < SEEN {
        thread::sleep(Duration::from_millis(50));
        of_mark = found()?;
    }
    match (of_mark, refusal) {
        (Found::Written, _) => Ok(()),
        (Found::Foreign, _) => Err(Failure::Final(foreign(name))),
        (Found::Missing, Some(Refusal::Forgotten(_))) if forgotten == Forgotten::IsCommitted => {
            log::warn!(
                "transaction {number} of {name}, which brokers have forgotten, is taken as committed"
            );
            Ok(())
        }
        (Found::Missing, Some(Refusal::Forgotten(_))) => {
            Err(Failure::Final(unknown(name, number, id)))
        }
        (Found::Missing, _) => Err(Failure::Final(lost(name, number, id))),
    }
}

// Starting the job again cannot help with these, so that they are of the kind `Config`.

#[cold]
fn unknown(name: &str, number: u64, id: &str) -> Error {
    let what = format!(
        "cannot tell whether transaction {number} of {name}, which is in the checkpoint, was committed: the brokers have forgotten its \
         mark (`offsets.retention.minutes`) and its transactional id {id} (`transactional.id.expiration.ms`). If the job ran \
         on to a later checkpoint or was suspended, or if `JobHandle::savepoint` has returned this one, it was: set \
         `KafkaSink::forgotten_are_committed` for this run. Otherwise look for its records in the topic; if they are not there, go on \
         from an earlier checkpoint"
    );
    Error::new(ErrorKind::Config, what)
}

#[cold]
fn lost(name: &str, number: u64, id: &str) -> Error {
    let what = format!(
        "cannot commit transaction {number} of {name}, which is in the checkpoint: the brokers have aborted it, because the job came \
         back later than `KafkaSink::open_transactions` allows or another process has used the transactional id {id}. Its records are \
         not in the topic. Each run from this checkpoint fails: remove it (`thalweg checkpoint ls DIR`, `thalweg checkpoint rm DIR \
         --number N`), and the job goes on from the one before; what other tasks have committed since is then in the topic twice"
    );
    Error::new(ErrorKind::Config, what)
}

/// Whether brokers have aborted the transaction, or whoever has begun with its transactional id.
pub(crate) fn has_ended(cause: &KafkaError) -> bool {
    matches!(
        code_of(cause),
        Some(
            Code::InvalidProducerEpoch
                | Code::InvalidTransactionalState
                | Code::InvalidProducerIdMapping
                | Code::ProducerFenced
                | Code::Fenced
        )
    )
}

/// The error of a job that runs, which goes on from the last checkpoint when it is started again.
#[cold]
pub(crate) fn ended(id: &str, cause: KafkaError) -> Error {
    let what = format!(
        "the brokers have aborted the transaction of {id}: it was open for longer than `KafkaSink::open_transactions` allows (it is \
         committed with the next checkpoint), or another process has begun with this transactional id, such as a later run of this job"
    );
    Error::new(ErrorKind::Io, what).caused_by(cause)
}

#[cold]
fn expires(id: &str, age: Duration, timeout: Duration) -> Error {
    let what = format!(
        "the transaction of {id} has been open for {age:.1?}, and brokers abort it after {timeout:?}: the job ends before a checkpoint \
         counts that has it, and goes on from the last one when it is run again. Allow more in `KafkaSink::open_transactions`, or set \
         a shorter `--checkpoint-interval`; if checkpoints have failed, warnings say why"
    );
    Error::new(ErrorKind::Io, what)
}

/// Whether the same call may succeed later. What follows from a failed transaction does not.
fn is_worth_another(cause: &KafkaError) -> bool {
    match cause {
        KafkaError::Transaction(error) => error.is_retriable() && !error.txn_requires_abort(),
        KafkaError::Flush(_) => true,
        _ => false,
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Later(why) | Refusal::Gone(why) | Refusal::Forgotten(why) => Self::Later(why),
            Refusal::Final(error) => Self::Final(error),
        }
    }
}

/// What makes the producers of a task.
#[derive(Clone)]
pub(crate) struct Factory {
    pub(crate) clients: Arc<Clients>,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) producers: Arc<TaskProducers>,
    pub(crate) topic: String,
    /// What the names of all tasks begin with.
    pub(crate) base: String,
    /// Of this one, and of how many.
    pub(crate) task: usize,
    pub(crate) tasks: usize,
    pub(crate) room: Room,
    /// How long a transaction may be open.
    pub(crate) timeout: Duration,
    pub(crate) waker: SinkWaker,
    /// Whether the task is gone. What is begun with then would end what the next run has open.
    pub(crate) is_gone: Arc<AtomicBool>,
}

impl Factory {
    /// The name of a task's transactions, which is that of the group with their marks. Not that of transactions that are kept: these
    /// must not wait for open ones.
    fn name(&self, task: usize) -> String {
        format!("{}-{task}-open", self.base)
    }

    fn transactional_id(&self, task: usize, number: usize) -> String {
        format!("{}-{number}", self.name(task))
    }

    /// Makes a producer. It fences all others of its transactional id, and what they have open is aborted.
    fn producer(&self, number: usize) -> Result<Arc<TaskProducer>> {
        let id = self.transactional_id(self.task, number);
        let producer = self.tried(&id, |needs| {
            let connections = &self.clients.watch.0;
            let (topic, of) = (self.topic.clone(), Some(id.clone()));
            let deliveries = Deliveries::new(topic, of, self.room, Arc::clone(connections));
            let mut config = self.clients.producer.clone();
            let client: ThreadedProducer<_> =
                config.set("transactional.id", &id).create_with_context(deliveries)?;
            client.client().context().waked(self.waker.clone());
            let begin = |patience| client.init_transactions(patience);
            answered(needs, connections, begin, its_thread_hears)?;
            let described = self.coordinator.describe(&id)?;
            let described = described
                .ok_or_else(|| Failure::Later(format!("{id} is not known to its coordinator")))?;
            let transaction =
                Transaction { step: Step::Free, began: Instant::now(), gave_up: false };
            Ok(Arc::new(TaskProducer {
                transactional_id: id.clone(),
                number,
                name: self.name(self.task),
                client,
                known: described.producer,
                transaction: Mutex::new(transaction),
            }))
        })?;
        self.producers.add(&producer);
        Ok(producer)
    }

    /// Makes the first producer, with which records can be sent.
    fn first(&self) -> Result<Made> {
        let name = self.name(self.task);
        let (producer, marks) = thread::scope(|threads| {
            let producer = threads.spawn(|| self.producer(0));
            let marks = self.tried(&name, |_| Ok(self.clients.last(&self.topic, &name)?));
            (joined(producer.join()), marks)
        });
        let (mark, group) = marks?;
        // A mark may be seen a moment after its transaction is committed.
        let committed = self.producers.known().committed.get(&name).copied().unwrap_or_default();
        let last = mark.number.max(committed);
        Ok(Made { producers: vec![producer?], marks: Some((last, Arc::new(group))) })
    }

    /// Makes the other producers that a task usually has, and fences what may be left elsewhere.
    fn others(&self) -> Result<Made> {
        let producers: Vec<_> = thread::scope(|threads| {
            let made = (1..USUAL).map(|number| threads.spawn(move || self.producer(number)));
            let made: Vec<_> = made.collect();
            made.into_iter().map(|producer| joined(producer.join())).collect()
        });
        let producers = producers.into_iter().collect::<Result<_>>()?;
        self.fence_others()?;
        Ok(Made { producers, marks: None })
    }

    /// Fences the producers of a run before this one whose transactional ids are not begun with, and aborts what they have open:
    /// who reads what is committed would wait for it. A process that is held up may go on, so those with nothing open are
    /// fenced, too. A task begins with one of a greater number only when it has those before it.
    fn fence_others(&self) -> Result<()> {
        let fence_from = |task, first| -> Result<bool> {
            for number in first..MOST {
                if !self.fence(&self.transactional_id(task, number))? {
                    return Ok(number > first);
                }
            }
            Ok(true)
        };
        fence_from(self.task, USUAL)?;
        if self.task == 0 {
            let (mut other, mut unknown) = (self.tasks, 0);
            while unknown < UNKNOWN_TASKS {
                unknown = if fence_from(other, 0)? { 0 } else { unknown + 1 };
                other += 1;
            }
        }
        Ok(())
    }

    /// Fences a transactional id; returns whether the coordinator knows it.
    fn fence(&self, id: &str) -> Result<bool> {
        self.tried(id, |_| {
            let Some(described) = self.coordinator.describe(id)? else { return Ok(false) };
            if described.is_open {
                log::info!("what {id} has left open is aborted");
            }
            self.coordinator.fence(id)?;
            Ok(true)
        })
    }

    fn tried<T>(&self, id: &str, attempt: impl Fn(&Needs<'_>) -> Attempt<T>) -> Result<T> {
        let name = self.name(self.task);
        let needs = needs(&self.topic, &name, id);
        let doing = format!("begin with the transactions {id}");
        tried(&doing, &needs, &self.clients.watch.0, || {
            if self.is_gone.load(Ordering::Acquire) {
                let what = "the task is over before it could begin with its transactions";
                return Err(Failure::Final(Error::new(ErrorKind::Io, what)));
            }
            attempt(&needs)
        })
    }
}

/// Producers that were made, and with a task's first, the number of its last transaction and the group with its marks.
struct Made {
    producers: Vec<Arc<TaskProducer>>,
    marks: Option<(u64, Arc<ConsumerGroupMetadata>)>,
}

/// Says that a task is over, once nothing is left that waits for its producers: the writer, and what it has prepared.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The transactions of a task.
pub(crate) struct OpenTransactions {
    factory: Factory,
    producers: Vec<Arc<TaskProducer>>,
    awaited: Option<Awaited<Made>>,
    over: Arc<Over>,
    /// The number of the last transaction, and the group, once they are known.
    marks: Option<(u64, Arc<ConsumerGroupMetadata>)>,
    /// The transaction that records are sent in.
    current: Option<Current>,
    /// The one before it.
    before: Option<Current>,
    /// Records that came when they should have waited.
    waiting: Vec<u8>,
}

struct Current {
    producer: Arc<TaskProducer>,
    sent: Arc<Sent>,
}

impl OpenTransactions {
    /// Makes the producers, on threads of their own.
    pub(crate) fn begin(factory: Factory) -> Result<Self> {
        let over = Arc::new(Over(Arc::clone(&factory.is_gone)));
        let of_thread = factory.clone();
        let awaited = Awaited::start(factory.waker.clone(), move || of_thread.first())?;
        Ok(Self {
            factory,
            producers: Vec::new(),
            awaited: Some(awaited),
            over,
            marks: None,
            current: None,
            before: None,
            waiting: Vec::new(),
        })
    }

    /// Takes the answer of brokers that there is meanwhile, which may be an error, and that of deliveries; sends what has waited.
    pub(crate) fn answer(&mut self) -> Result<()> {
        if self.awaited.as_ref().is_some_and(Awaited::is_over) {
            self.know()?;
        }
        self.producers.iter().try_for_each(|producer| producer.deliveries().check())?;
        if !self.waiting.is_empty() && !self.must_wait() {
            self.fill()?;
        }
        Ok(())
    }

    /// Takes the answer, for which this waits.
    fn know(&mut self) -> Result<()> {
        if let Some(awaited) = self.awaited.take() {
            let Made { producers, marks } = awaited.wait()?;
            self.producers.extend(producers);
            if marks.is_some() {
                self.marks = marks;
                let factory = self.factory.clone();
                let others = move || factory.others();
                self.awaited = Some(Awaited::start(self.factory.waker.clone(), others)?);
            }
        }
        Ok(())
    }

    /// Whether records should wait: for room, for a producer, or until all that was sent before is in the topic, as one
    /// producer's records may overtake another's.
    pub(crate) fn is_full(&mut self) -> bool {
        match &self.current {
            Some(current) => current.producer.deliveries().is_full(),
            None => self.must_wait(),
        }
    }

    fn must_wait(&mut self) -> bool {
        if self.before.as_ref().is_some_and(|before| !before.sent.is_complete()) {
            return true;
        }
        // An error is that of the next record, too.
        self.free().is_none()
            && self.more().is_ok()
            && self.awaited.as_ref().is_some_and(|awaited| !awaited.is_over())
    }

    pub(crate) fn send(&mut self, record: &Outgoing) -> Result<()> {
        if self.current.is_none() {
            if self.must_wait() {
                record.save(&mut self.waiting);
                return Ok(());
            }
            self.fill()?;
        }
        let Self { current: Some(Current { producer, sent }), factory, .. } = self else {
            return Err(Error::new(ErrorKind::Internal, "no transaction was begun"));
        };
        sent.send(&producer.client, &factory.topic, record)
    }

    /// Begins a transaction, when it need not wait any more, and sends in it what has waited.
    #[cold]
    fn fill(&mut self) -> Result<()> {
        if let Some(Current { producer, sent }) = self.before.take() {
            sent.wait(producer.deliveries())?;
        }
        let producer = loop {
            match self.free() {
                Some(producer) => break producer,
                None => {
                    self.more()?;
                    self.know()?;
                }
            }
        };
        producer.begin().map_err(|cause| {
            let needs = needs(&self.factory.topic, &producer.name, &producer.transactional_id);
            self.factory.clients.watch.0.error("begin a transaction", &needs, cause)
        })?;
        // Before what may fail, so that it is aborted then.
        let current = self.current.insert(Current { producer, sent: Arc::default() });
        let waiting = std::mem::take(&mut self.waiting);
        let (mut rest, mut record) = (&*waiting, Outgoing::default());
        while !rest.is_empty() {
            record.load(&mut rest)?;
            current.sent.send(&current.producer.client, &self.factory.topic, &record)?;
        }
        Ok(())
    }

    /// A producer that is free. Those that can begin no transaction are made anew, and so are those that brokers may have
    /// forgotten.
    fn free(&mut self) -> Option<Arc<TaskProducer>> {
        self.producers.retain(|producer| {
            let transaction = producer.transaction();
            let is_fit = !transaction.gave_up && transaction.began.elapsed() < STALE;
            transaction.step != Step::Free || is_fit
        });
        let is_free = |producer: &&Arc<TaskProducer>| producer.transaction().step == Step::Free;
        self.producers.iter().find(is_free).cloned()
    }

    /// Makes one more producer, if none is on its way.
    fn more(&mut self) -> Result<()> {
        if self.awaited.is_some() {
            return Ok(());
        }
        let is_unused = |number: &usize| self.producers.iter().all(|it| it.number != *number);
        let Some(number) = (0..MOST).find(is_unused) else {
            let what = format!(
                "{} transactions of a task wait for a checkpoint that counts: the last checkpoints have all failed",
                MOST - 1
            );
            return Err(Error::new(ErrorKind::Io, what));
        };
        let factory = self.factory.clone();
        let make = move || Ok(Made { producers: vec![factory.producer(number)?], marks: None });
        self.awaited = Some(Awaited::start(self.factory.waker.clone(), make)?);
        Ok(())
    }

    /// Ends the transaction that records are sent in, if there is one. It waits to be committed.
    ///
    /// Blocks only if records came although it [was full](Self::is_full), and a barrier follows at once.
    pub(crate) fn prepare(&mut self) -> Result<Option<Prepared<Epoch>>> {
        self.look_at_ages()?;
        if !self.waiting.is_empty() {
            self.fill()?;
        }
        // The task may be at its end, and what was left open elsewhere is to be aborted.
        let others = self.awaited.clone().filter(|_| self.producers.len() < USUAL);
        let are_awaited = others.is_some();
        let over = Arc::clone(&self.over);
        let end_of_others = move || {
            let ended = others.map_or(Ok(()), |others| others.check());
            drop(over);
            ended
        };
        let Some(Current { producer, sent }) = self.current.take() else {
            let prepared = || Prepared::new(Epoch::nothing()).after(end_of_others);
            return Ok(are_awaited.then(prepared));
        };
        let Some((last, group)) = &mut self.marks else {
            return Err(Error::new(ErrorKind::Internal, "a transaction before the first producer"));
        };
        *last += 1;
        let (number, group) = (*last, Arc::clone(group));
        sent.end();
        producer.transaction().step = Step::Waits(number);
        self.before = Some(Current { producer: Arc::clone(&producer), sent: Arc::clone(&sent) });
        let id = producer.transactional_id.clone();
        let open = OpenTransaction { transactional_id: id, producer: producer.known };
        let epoch = Epoch::of_open(producer.name.clone(), number, open.clone());
        let Factory { clients, topic, .. } = self.factory.clone();
        // All of it is with the brokers then, and only the commit is left.
        let flush = move || {
            sent.wait(producer.deliveries())?;
            end_of_others()?;
            let marks = open.mark(number).offset(&topic);
            let doing = format!("complete transaction {number} of {}", producer.name);
            let id = &producer.transactional_id;
            let needs = needs(&topic, &producer.name, id);
            tried(&doing, &needs, &clients.watch.0, || {
                let marks = marks.as_ref().map_err(KafkaError::clone)?.clone();
                let add = || add_offsets(&producer, marks, &group, &topic);
                let Some(added) = add().map_err(Failure::Final)? else {
                    let what = format!("cannot {doing} to {topic}: {DELETED}");
                    return Err(Failure::Final(Error::new(ErrorKind::Io, what)));
                };
                added.map_err(|cause| match cause {
                    cause if is_worth_another(&cause) => cause.into(),
                    cause if has_ended(&cause) => Failure::Final(ended(id, cause)),
                    cause => Failure::Final(clients.watch.0.error(&doing, &needs, cause)),
                })
            })
        };
        Ok(Some(Prepared::new(epoch).after(flush)))
    }

    /// A checkpoint that has what brokers have aborted would never be of use: ends the job before.
    fn look_at_ages(&self) -> Result<()> {
        let timeout = self.factory.timeout;
        for producer in &self.producers {
            let transaction = producer.transaction();
            let age = transaction.began.elapsed();
            let is_open = matches!(transaction.step, Step::Filled | Step::Waits(_));
            if is_open && age >= timeout * 9 / 10 {
                return Err(expires(&producer.transactional_id, age, timeout));
            }
        }
        Ok(())
    }
}

/// Adds offsets to a transaction; `None` if its topic is not there any more.
///
/// The client tries that again itself for as long as it may, also without a topic, and cannot be stopped. So it has a thread of its
/// own, which is left behind in this case.
fn add_offsets(
    producer: &Arc<TaskProducer>,
    offsets: TopicPartitionList,
    group: &Arc<ConsumerGroupMetadata>,
    topic: &str,
) -> Result<Option<KafkaResult<()>>> {
    let (sender, added) = mpsc::channel();
    let (adder, group) = (Arc::clone(producer), Arc::clone(group));
    start("transactions", move || {
        _ = sender.send(adder.client.send_offsets_to_transaction(&offsets, &group, PATIENCE));
    })?;
    loop {
        match added.recv_timeout(SLICE) {
            Ok(added) => return Ok(Some(added)),
            Err(RecvTimeoutError::Timeout) if is_gone(producer.client.client(), topic) => {
                return Ok(None);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let what = "a thread that completes a transaction has panicked";
                return Err(Error::new(ErrorKind::Internal, what));
            }
        }
    }
}

impl Drop for OpenTransactions {
    /// Readers of what is committed need not wait for what is given up.
    fn drop(&mut self) {
        if let Some(Current { producer, .. }) = self.current.take() {
            let abort = move || {
                if let Err(cause) = producer.client.abort_transaction(ABORT) {
                    let id = &producer.transactional_id;
                    log::info!("a transaction of {id} is left to its time-out: {cause}");
                }
            };
            _ = thread::Builder::new().name("transactions".to_owned()).spawn(abort);
        }
    }
}
