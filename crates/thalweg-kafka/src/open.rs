//! Transactions that stay open: records are sent as they come, and what was sent becomes visible once the checkpoint behind it
//! counts.
//!
//! While one transaction waits for its checkpoint, the next one is filled. So a task has several transactional ids, its lanes,
//! each with a producer, and uses one that is free. A checkpoint has lane and producer of each transaction: by them any process
//! commits it when the producer is gone. Whatever else a lane has open is aborted when it is begun with.
//!
//! The end of a transaction does not say which one of its producer it is for. So a lane is used again only when the next
//! transaction of its task is committed, too, on another lane, and with it the checkpoint behind counts: what is open by the
//! producer that a checkpoint names, and has no mark, is the transaction that this checkpoint has, whatever another run does.

use crate::awaited::Awaited;
use crate::connections::Watch;
use crate::coordinator::{Coordinator, ProducerId, Refusal};
use crate::outgoing::Outgoing;
use crate::rights::{Needs, code_of};
use crate::transactions::{
    ANSWER, Attempt, Clients, Epoch, Failure, Found, Mark, PATIENCE, answered, foreign, tried,
};
use crate::writer::{Deliveries, Room, Sent};
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer as _, ThreadedProducer};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::{Prepared, SinkContext, SinkWaker};
use thalweg::{Data, Error, ErrorKind, Result};

/// Lanes that a task begins with: one is filled, one waits for its checkpoint, and one was committed last.
const USUAL_LANES: usize = 3;
/// Lanes of a task. Where checkpoints fail, each has a transaction that waits for the next one.
const MOST_LANES: usize = 8;
/// How long a lane may be unused. Brokers forget a transactional id after a week, by default.
const STALE: Duration = Duration::from_secs(6 * 3600);
/// Tasks in a row of which the coordinator knows nothing before there are no more.
const UNKNOWN_TASKS: usize = 4;
/// How long a committed transaction may take to be seen. It takes milliseconds.
const SEEN: Duration = Duration::from_secs(30);
/// How long a transaction that is given up may take to be aborted.
const ABORT: Duration = Duration::from_secs(5);

/// What commits an open transaction.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct Open {
    lane: String,
    producer: ProducerId,
}

impl Open {
    fn mark(&self, number: u64) -> Mark {
        let ProducerId { id, epoch } = self.producer;
        Mark { number, digest: format!("{id}:{epoch}") }
    }
}

/// A transactional id of a task, with its producer.
struct Lane {
    id: String,
    /// Among the task's lanes.
    number: usize,
    /// Of the task's transactions.
    name: String,
    producer: ThreadedProducer<Deliveries>,
    /// As the brokers know it.
    known: ProducerId,
    /// The number of its transaction that waits to be committed, or one of those below.
    transaction: AtomicU64,
    /// When its last transaction began.
    began: Mutex<Instant>,
}

/// It has none.
const FREE: u64 = 0;
/// It has none, and the one that it had is the last that is committed of its task's.
const LAST: u64 = u64::MAX - 1;
/// It has one that has no number yet.
const FILLED: u64 = u64::MAX;

impl Lane {
    fn is_free(&self) -> bool {
        self.transaction.load(Ordering::Acquire) == FREE
    }

    /// How long ago its last transaction began.
    fn age(&self) -> Duration {
        self.began.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn begin(&self) -> KafkaResult<()> {
        self.producer.begin_transaction()?;
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.transaction.store(FILLED, Ordering::Release);
        Ok(())
    }
}

/// The lanes of a sink on this host, by transactional id.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<String, Arc<Lane>>>);

impl Lanes {
    fn add(&self, lane: &Arc<Lane>) {
        self.all().insert(lane.id.clone(), Arc::clone(lane));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Lane>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction of a lane is committed, and the lane that had the one before it is free.
    fn is_committed(&self, lane: &Lane) {
        let all = self.all();
        let before = all.values().filter(|other| other.name == lane.name);
        before.for_each(|other| {
            let _ =
                other.transaction.compare_exchange(LAST, FREE, Ordering::AcqRel, Ordering::Relaxed);
        });
        lane.transaction.store(LAST, Ordering::Release);
    }

    /// The lane that has a transaction, if it is one of this run.
    fn find(&self, open: &Open, number: u64) -> Option<Arc<Lane>> {
        let lanes = self.all();
        let lane = lanes.get(&open.lane).filter(|lane| lane.known == open.producer)?;
        (lane.transaction.load(Ordering::Acquire) == number).then(|| Arc::clone(lane))
    }

    /// Commits a transaction, unless that was done before.
    pub(crate) fn commit(
        &self,
        clients: &Clients,
        topic: &str,
        (open, name, number): (&Open, &str, u64),
        forgotten: Forgotten,
    ) -> Result<()> {
        let doing = format!("commit transaction {number} of {name}");
        let needs = needs(topic, name, &open.lane);
        if let Some(lane) = self.find(open, number) {
            let mut goes_on = true;
            tried(&doing, &needs, &clients.watch.0, || {
                match lane.producer.commit_transaction(ANSWER) {
                    Ok(()) => Ok(()),
                    Err(cause) if is_worth_another(&cause) => Err(cause.into()),
                    Err(cause) => {
                        log::warn!("cannot {doing} by its producer: {cause}");
                        goes_on = false;
                        Ok(())
                    }
                }
            })?;
            if goes_on {
                self.is_committed(&lane);
                return Ok(());
            }
            // Its producer can do no more, and the lane is never free again.
        }
        let coordinator = Coordinator::new(&clients.producer)?;
        tried(&doing, &needs, &clients.watch.0, || {
            resume(&coordinator, clients, topic, (open, name, number), forgotten)
        })
    }
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
    (open, name, number): (&Open, &str, u64),
    forgotten: Forgotten,
) -> Attempt<()> {
    let found = || -> Attempt<Found> {
        let (last, _) = clients.last(topic, name)?;
        Ok(open.mark(number).found_behind(&last, None))
    };
    let mut of_mark = found()?;
    if of_mark == Found::Missing {
        match coordinator.commit(&open.lane, open.producer) {
            Ok(()) => {
                // What is read next, by whoever begins with other transactional ids, is to have the mark.
                let committed = Instant::now();
                while found()? == Found::Missing && committed.elapsed() < SEEN {
                    thread::sleep(Duration::from_millis(10));
                }
                return Ok(());
            }
            Err(Refusal::Forgotten(_)) if forgotten == Forgotten::IsCommitted => {
                log::warn!(
                    "transaction {number} of {name}, which brokers have forgotten, is taken as committed"
                );
                return Ok(());
            }
            Err(Refusal::Forgotten(_)) => {
                // As below.
                if found()? == Found::Missing {
                    return Err(Failure::Final(unknown(name, number, &open.lane)));
                }
                return Ok(());
            }
            // Another host may have committed it meanwhile, and its task have begun with the lane.
            Err(Refusal::Gone(_)) => of_mark = found()?,
            Err(refusal) => return Err(refusal.into()),
        }
    }
    match of_mark {
        Found::Written => Ok(()),
        Found::Foreign => Err(Failure::Final(foreign(name))),
        Found::Missing => Err(Failure::Final(lost(name, number, &open.lane))),
    }
}

#[cold]
fn unknown(name: &str, number: u64, lane: &str) -> Error {
    let what = format!(
        "whether transaction {number} of {name}, which the checkpoint has, was committed is not known any more: the brokers have \
         forgotten its mark and the transactional id {lane}, as they do after some days \
         (`offsets.retention.minutes`, `transactional.id.expiration.ms`). It was, if the job ended well or went on after the \
         checkpoint: then `KafkaSink::forgotten_are_committed` makes it go on from here"
    );
    Error::new(ErrorKind::Io, what)
}

#[cold]
fn lost(name: &str, number: u64, lane: &str) -> Error {
    let what = format!(
        "transaction {number} of {name}, which the checkpoint has, cannot be committed any more: the brokers have aborted it \
         (transactional id {lane}), since it was open for longer than `KafkaSink::open_transactions` allows, or since \
         another process has begun with it. Its records are not in the topic; a job that goes on from an earlier \
         checkpoint writes them again"
    );
    Error::new(ErrorKind::Io, what)
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

/// The error of a job that runs.
#[cold]
pub(crate) fn ended(lane: &str, cause: KafkaError) -> Error {
    let what = format!(
        "the brokers have aborted the transaction of {lane}: it was open for longer than `KafkaSink::open_transactions` allows (it \
         is committed with the next checkpoint), or another process has begun with this transactional id"
    );
    Error::new(ErrorKind::Io, what).caused_by(cause)
}

#[cold]
fn expires(lane: &str, timeout: Duration) -> Error {
    let what = format!(
        "the transaction of {lane} has been open for nearly {timeout:?}, when brokers abort it: `KafkaSink::open_transactions` has to \
         allow for more than the interval between checkpoints (`--checkpoint-interval`), and for some that fail"
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

fn needs<'a>(topic: &'a str, name: &'a str, lane: &'a str) -> Needs<'a> {
    // The marks are offsets of the topic, for which it has to be read.
    Needs { topic: ("`Write` and `Read`", topic), group: name, transactions: lane }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Later(why) | Refusal::Gone(why) | Refusal::Forgotten(why) => Self::Later(why),
            Refusal::Final(error) => Self::Final(error),
        }
    }
}

/// What makes the lanes of a task.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) clients: Arc<Clients>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) topic: String,
    /// What the transactional ids begin with, and the name of the group that has their marks.
    pub(crate) name: String,
    pub(crate) room: Room,
    /// How long a transaction may be open.
    pub(crate) timeout: Duration,
    pub(crate) waker: SinkWaker,
    /// Whether the task is gone. What is begun with then would end what the next run has open.
    pub(crate) is_gone: Arc<AtomicBool>,
}

impl Maker {
    /// Begins with a lane: its producer fences all others, and what they have open is aborted.
    fn lane(&self, number: usize) -> Result<Arc<Lane>> {
        let id = lane_id(&self.name, number);
        let coordinator = Coordinator::new(&self.clients.producer)?;
        let lane = self.tried(&id, |needs| {
            let connections = &self.clients.watch.0;
            let (topic, lane) = (self.topic.clone(), Some(id.clone()));
            let deliveries = Deliveries::new(topic, lane, self.room, Arc::clone(connections));
            let mut config = self.clients.producer.clone();
            let producer: ThreadedProducer<_> =
                config.set("transactional.id", &id).create_with_context(deliveries)?;
            producer.client().context().waked(self.waker.clone());
            let begin = |patience| producer.init_transactions(patience);
            // It has a thread that hears.
            answered(needs, connections, begin, || thread::sleep(Duration::from_millis(10)))?;
            let described = coordinator.describe(&id)?;
            let described = described
                .ok_or_else(|| Failure::Later(format!("{id} is not known to its coordinator")))?;
            Ok(Arc::new(Lane {
                id: id.clone(),
                number,
                name: self.name.clone(),
                producer,
                known: described.producer,
                transaction: AtomicU64::new(FREE),
                began: Mutex::new(Instant::now()),
            }))
        })?;
        self.lanes.add(&lane);
        Ok(lane)
    }

    /// Begins with the first lane, with which records can be sent.
    fn first(&self) -> Result<Made> {
        let marks =
            || self.tried(&self.name, |_| Ok(self.clients.last(&self.topic, &self.name)?));
        let (lane, marks) = thread::scope(|threads| {
            let lane = threads.spawn(|| self.lane(0));
            let marks = marks();
            (lane.join(), marks)
        });
        let (last, group) = marks?;
        Ok(Made { lanes: vec![joined(lane)?], marks: Some((last.number, Arc::new(group))) })
    }

    /// Begins with the other lanes that a task usually has, and aborts what has been left open elsewhere.
    fn others(&self, (task, tasks): (usize, usize)) -> Result<Made> {
        let lanes: Vec<_> = thread::scope(|threads| {
            let lanes = (1..USUAL_LANES).map(|at| threads.spawn(move || self.lane(at)));
            let lanes: Vec<_> = lanes.collect();
            lanes.into_iter().map(|lane| joined(lane.join())).collect()
        });
        let lanes = lanes.into_iter().collect::<Result<_>>()?;
        self.abort_others(task, tasks)?;
        Ok(Made { lanes, marks: None })
    }

    /// Aborts what a run before this one has open on lanes that are not begun with: who reads what is committed would wait for
    /// it. Lanes were begun with in the order of their numbers, by each task.
    fn abort_others(&self, task: usize, tasks: usize) -> Result<()> {
        let coordinator = Coordinator::new(&self.clients.producer)?;
        let abort_from = |name: &str, first| -> Result<bool> {
            let mut any = false;
            for lane in first..MOST_LANES {
                if !self.abort(&coordinator, &lane_id(name, lane))? {
                    break;
                }
                any = true;
            }
            Ok(any)
        };
        abort_from(&self.name, USUAL_LANES)?;
        if task == 0 {
            // Of tasks that this run has not.
            let all = self.name.strip_suffix('0').unwrap_or(&self.name);
            let (mut other, mut unknown) = (tasks, 0);
            while unknown < UNKNOWN_TASKS {
                unknown = if abort_from(&format!("{all}{other}"), 0)? { 0 } else { unknown + 1 };
                other += 1;
            }
        }
        Ok(())
    }

    /// Aborts what is open by a transactional id; returns whether there is one.
    fn abort(&self, coordinator: &Coordinator, id: &str) -> Result<bool> {
        self.tried(id, |needs| {
            let Some(described) = coordinator.describe(id)? else { return Ok(false) };
            if described.is_open {
                let mut config = self.clients.producer.clone();
                let producer: BaseProducer<Watch> =
                    self.clients.watch.client(config.set("transactional.id", id))?;
                let begin = |patience| producer.init_transactions(patience);
                let hear = || producer.poll(Duration::from_millis(100));
                answered(needs, &self.clients.watch.0, begin, hear)?;
            }
            Ok(true)
        })
    }

    fn tried<T>(&self, id: &str, attempt: impl Fn(&Needs<'_>) -> Attempt<T>) -> Result<T> {
        let needs = needs(&self.topic, &self.name, id);
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

fn joined<T>(found: thread::Result<Result<T>>) -> Result<T> {
    let what = "a thread that begins with transactions has panicked";
    found.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, what)))
}

fn lane_id(name: &str, lane: usize) -> String {
    format!("{name}-{lane}")
}

/// Lanes that were begun with, and with a task's first, the number of its last transaction and the group with its marks.
struct Made {
    lanes: Vec<Arc<Lane>>,
    marks: Option<(u64, Arc<ConsumerGroupMetadata>)>,
}

/// The transactions of a task.
pub(crate) struct OpenTransactions {
    maker: Maker,
    /// The task, and how many there are.
    task: (usize, usize),
    lanes: Vec<Arc<Lane>>,
    awaited: Option<Awaited<Made>>,
    /// The number of the last transaction, and the group, once they are known.
    marks: Option<(u64, Arc<ConsumerGroupMetadata>)>,
    /// The one that records are sent in.
    filled: Option<Filled>,
    /// The one before it.
    before: Option<Filled>,
    /// Records that came when they should have waited.
    waiting: Vec<u8>,
}

struct Filled {
    lane: Arc<Lane>,
    sent: Arc<Sent>,
}

impl OpenTransactions {
    /// Begins with the lanes, on threads of their own.
    pub(crate) fn begin(maker: Maker, cx: &SinkContext) -> Result<Self> {
        let of_thread = maker.clone();
        let awaited = Awaited::start(maker.waker.clone(), move || of_thread.first())?;
        Ok(Self {
            maker,
            task: (cx.task(), cx.tasks()),
            lanes: Vec::new(),
            awaited: Some(awaited),
            marks: None,
            filled: None,
            before: None,
            waiting: Vec::new(),
        })
    }

    /// Takes the answer of brokers that there is meanwhile, which may be an error, and that of deliveries; sends what has waited.
    pub(crate) fn answer(&mut self) -> Result<()> {
        if self.awaited.as_ref().is_some_and(Awaited::is_over) {
            self.know()?;
        }
        self.lanes.iter().try_for_each(|lane| lane.producer.client().context().check())?;
        if !self.waiting.is_empty() && !self.must_wait() {
            self.fill()?;
        }
        Ok(())
    }

    /// Takes the answer, for which this waits.
    fn know(&mut self) -> Result<()> {
        if let Some(awaited) = self.awaited.take() {
            let Made { lanes, marks } = awaited.wait()?;
            self.lanes.extend(lanes);
            if marks.is_some() {
                self.marks = marks;
                let (maker, task) = (self.maker.clone(), self.task);
                let others = move || maker.others(task);
                self.awaited = Some(Awaited::start(self.maker.waker.clone(), others)?);
            }
        }
        Ok(())
    }

    /// Whether records should wait: for room, for a lane, or until all that was sent before is in the topic, as one producer's
    /// records may overtake another's.
    pub(crate) fn is_full(&mut self) -> bool {
        match &self.filled {
            Some(filled) => filled.lane.producer.client().context().is_full(),
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
        if self.filled.is_none() {
            if self.must_wait() {
                record.save(&mut self.waiting);
                return Ok(());
            }
            self.fill()?;
        }
        let Self { filled: Some(Filled { lane, sent }), maker, .. } = self else {
            return Err(Error::new(ErrorKind::Internal, "no transaction was begun"));
        };
        sent.send(&lane.producer, &maker.topic, record)
    }

    /// Begins a transaction, when it need not wait any more, and sends in it what has waited.
    #[cold]
    fn fill(&mut self) -> Result<()> {
        if let Some(Filled { lane, sent }) = self.before.take() {
            sent.wait(lane.producer.client().context())?;
        }
        let lane = loop {
            match self.free() {
                Some(lane) => break lane,
                None => {
                    self.more()?;
                    self.know()?;
                }
            }
        };
        lane.begin().map_err(|cause| {
            let connections = &self.maker.clients.watch.0;
            let needs = needs(&self.maker.topic, &self.maker.name, &lane.id);
            connections.error("begin a transaction", &needs, cause)
        })?;
        let Filled { lane, sent } = self.filled.insert(Filled { lane, sent: Arc::default() });
        let waiting = std::mem::take(&mut self.waiting);
        let (mut rest, mut record) = (&*waiting, Outgoing::default());
        while !rest.is_empty() {
            record.load(&mut rest)?;
            sent.send(&lane.producer, &self.maker.topic, &record)?;
        }
        Ok(())
    }

    /// A lane that has no transaction. Those that brokers may have forgotten are begun with anew.
    fn free(&mut self) -> Option<Arc<Lane>> {
        self.lanes.retain(|lane| !lane.is_free() || lane.age() < STALE);
        self.lanes.iter().find(|lane| lane.is_free()).cloned()
    }

    /// Begins with one more lane, if none is on its way.
    fn more(&mut self) -> Result<()> {
        if self.awaited.is_some() {
            return Ok(());
        }
        let is_unused = |number: &usize| self.lanes.iter().all(|lane| lane.number != *number);
        let Some(number) = (0..MOST_LANES).find(is_unused) else {
            let what = format!(
                "{MOST_LANES} transactions of a task wait for a checkpoint that counts, or were given up by their producers: the last \
                 checkpoints have failed"
            );
            return Err(Error::new(ErrorKind::Io, what));
        };
        let maker = self.maker.clone();
        let make = move || Ok(Made { lanes: vec![maker.lane(number)?], marks: None });
        self.awaited = Some(Awaited::start(self.maker.waker.clone(), make)?);
        Ok(())
    }

    /// Ends the transaction that is filled, if there is one. It waits to be committed.
    pub(crate) fn prepare(&mut self) -> Result<Option<Prepared<Epoch>>> {
        // At the end, too, what is left open elsewhere is to be aborted.
        while self.lanes.len() < USUAL_LANES && self.awaited.is_some() {
            self.know()?;
        }
        // Brokers are about to abort it, and a checkpoint that has it would never be of use again.
        let wait =
            |lane: &&Arc<Lane>| !matches!(lane.transaction.load(Ordering::Acquire), FREE | LAST);
        let near = self.maker.timeout * 9 / 10;
        if let Some(lane) = self.lanes.iter().filter(wait).find(|lane| lane.age() >= near) {
            return Err(expires(&lane.id, self.maker.timeout));
        }
        if !self.waiting.is_empty() {
            self.fill()?;
        }
        let Some(Filled { lane, sent }) = self.filled.take() else { return Ok(None) };
        sent.end();
        self.before = Some(Filled { lane: Arc::clone(&lane), sent: Arc::clone(&sent) });
        let Some((last, group)) = &mut self.marks else {
            return Err(Error::new(ErrorKind::Internal, "a transaction before the first lane"));
        };
        *last += 1;
        let (number, group) = (*last, Arc::clone(group));
        lane.transaction.store(number, Ordering::Release);
        let open = Open { lane: lane.id.clone(), producer: lane.known };
        let Maker { clients, topic, name, .. } = self.maker.clone();
        let epoch = Epoch::of_open(name.clone(), number, open.clone());
        // All of it is with the brokers then, and only the commit is left.
        let flush = move || {
            sent.wait(lane.producer.client().context())?;
            let marks = open.mark(number).offset(&topic);
            let doing = format!("complete transaction {number} of {name}");
            let needs = needs(&topic, &name, &lane.id);
            tried(&doing, &needs, &clients.watch.0, || {
                // The client tries again itself, and gives the transaction up when the time is over.
                let marks = marks.as_ref().map_err(KafkaError::clone)?;
                let marked = lane.producer.send_offsets_to_transaction(marks, &group, PATIENCE);
                marked.map_err(|cause| match cause {
                    cause if is_worth_another(&cause) => cause.into(),
                    cause if has_ended(&cause) => Failure::Final(ended(&lane.id, cause)),
                    cause => Failure::Final(clients.watch.0.error(&doing, &needs, cause)),
                })
            })
        };
        Ok(Some(Prepared::new(epoch).after(flush)))
    }
}

impl Drop for OpenTransactions {
    /// Readers of what is committed need not wait for what is given up.
    fn drop(&mut self) {
        self.maker.is_gone.store(true, Ordering::Release);
        if let Some(Filled { lane, .. }) = self.filled.take() {
            let abort = move || {
                if let Err(cause) = lane.producer.abort_transaction(ABORT) {
                    log::info!("a transaction of {} is left to its time-out: {cause}", lane.id);
                }
            };
            _ = thread::Builder::new().name("transactions".to_owned()).spawn(abort);
        }
    }
}
