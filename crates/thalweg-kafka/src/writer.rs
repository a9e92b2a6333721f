//! Writes the records of one task.

use crate::awaited::Awaited;
use crate::client::Faults;
use crate::connections::Connections;
use crate::kept::Kept;
use crate::open::{OpenTransactions, ended, has_ended};
use crate::outgoing::{Limits, Outgoing, named};
use crate::rights::{Needs, code_of, is_denial};
use crate::transactions::{Epoch, SLICE};
use rdkafka::Message as _;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, Headers as _};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::{Prepared, SinkWaker, SinkWriter};
use thalweg::data::Record;
use thalweg::{Error, ErrorKind, Result};

/// How much may be on its way before writers are full: half of what the client's queue has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    bytes: usize,
    /// What a record counts for at least, so that there is room for all of them.
    least: usize,
}

/// What the client needs for a header beside its name and value.
const HEADER: usize = 64;

impl Room {
    /// Of a queue with room for so many KiB and messages, if that is set.
    pub(crate) fn within(kbytes: Option<usize>, messages: Option<usize>) -> Self {
        let bytes = kbytes.unwrap_or(usize::MAX).saturating_mul(512).min(64 << 20);
        Self { bytes, least: (2 * bytes / messages.unwrap_or(500_000).max(1)).max(256) }
    }

    /// What a record counts for, with key, payload, and headers, each with name and value.
    fn weight(
        self,
        (key, payload): (usize, usize),
        headers: impl Iterator<Item = (usize, usize)>,
    ) -> usize {
        let headers = headers.map(|(name, value)| name + value + HEADER).sum::<usize>();
        (key + payload + headers).max(self.least)
    }
}

/// What a task may keep for a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) bytes: usize,
    pub(crate) has_checkpoints: bool,
}

/// What a producer says of records that it has sent.
pub(crate) struct Deliveries {
    topic: String,
    /// The transactional id, if records are sent in open transactions.
    transactional_id: Option<String>,
    /// What the client says of the last transaction that failed, or why it can send no more.
    failed: Mutex<Option<String>>,
    room: Room,
    faults: Faults,
    connections: Arc<Connections>,
    /// Bytes on their way.
    pending: AtomicUsize,
    /// Whether a writer waits until there is room.
    is_full: AtomicBool,
    writers: Mutex<Vec<SinkWaker>>,
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> std::result::Result<OAuthToken, Box<dyn StdError>> {
        self.connections.token()
    }

    fn log(&self, level: RDKafkaLogLevel, subject: &str, line: &str) {
        self.connections.logged(level, subject, line);
        if subject == "TXNERR" {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.to_owned());
        }
        self.look();
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.connections.failed(&error, reason);
        // Before its records are purged, all of this.
        if code_of(&error).is_some_and(|code| code == Code::Fatal || is_denial(code)) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| reason.to_owned());
        }
        if self.transactional_id.is_some() && has_ended(&error) {
            _ = self.unsent(&error, (None, None));
            self.wake();
        }
        self.look();
    }
}

impl ProducerContext for Deliveries {
    /// What a task has sent since its last barrier.
    type DeliveryOpaque = Arc<Sent>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, sent: Arc<Sent>) {
        let message = match delivered {
            Ok(message) => message,
            Err((cause, message)) => {
                let partition = Some(message.partition()).filter(|number| *number >= 0);
                _ = self.unsent(cause, (partition, message.key()));
                message
            }
        };
        // After the fault, which whoever waits for this one looks for.
        if sent.acknowledge() {
            self.wake();
        }
        // Those that the record was sent with, or it would not count the same.
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        let headers =
            headers.map(|Header { key, value }| (key.len(), value.map_or(0, <[u8]>::len)));
        let bytes = self.room.weight((message.key_len(), message.payload_len()), headers);
        let left = self.pending.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        if left < self.room.bytes / 2 && self.is_full.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }
}

impl Deliveries {
    pub(crate) fn new(
        topic: String,
        transactional_id: Option<String>,
        room: Room,
        connections: Arc<Connections>,
    ) -> Self {
        Self {
            topic,
            transactional_id,
            failed: Mutex::default(),
            room,
            connections,
            faults: Faults::default(),
            pending: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            writers: Mutex::default(),
        }
    }

    /// An error about a record that could not be sent, of which others hear, too.
    #[cold]
    fn unsent(&self, cause: &KafkaError, (partition, key): (Option<i32>, Option<&[u8]>)) -> Error {
        // Of records that wait when a transaction or the client has failed, only that they are purged is said.
        let is_purged = matches!(code_of(cause), Some(Code::PurgeQueue | Code::PurgeInflight));
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let send = || format!("send {}", named(&self.topic, partition, key));
        let (doing, cause) = match failed.filter(|_| is_purged) {
            Some(line) => match denial_in(&line) {
                Some(code) => (send(), KafkaError::MessageProduction(code)),
                None => (format!("{}: {line}", send()), cause.clone()),
            },
            None => (send(), cause.clone()),
        };
        let connections = Arc::clone(&self.connections);
        let (topic, id) = (self.topic.clone(), self.transactional_id.clone());
        let unsent = move || {
            if let Some(id) = &id
                && has_ended(&cause)
            {
                return ended(id, cause.clone());
            }
            if is_of_no_topic(&cause) {
                return Error::new(ErrorKind::Io, format!("cannot {doing}: {DELETED}"))
                    .caused_by(cause.clone());
            }
            let needs = Needs::topic("`Write`", &topic);
            connections.error(&doing, &needs, cause.clone())
        };
        let error = unsent();
        self.faults.add(Box::new(unsent));
        error
    }

    /// Ends the job if brokers refuse what they had accepted: what is on its way would be tried again for minutes.
    fn look(&self) {
        if self.connections.are_refused() {
            let connections = Arc::clone(&self.connections);
            self.faults.add(Box::new(move || connections.refused()));
            self.wake();
        }
    }

    /// Takes what wakes a writer that was full.
    pub(crate) fn waked(&self, waker: SinkWaker) {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Whether all has gone well.
    pub(crate) fn check(&self) -> Result<()> {
        self.faults.check()
    }

    fn wake(&self) {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.iter().for_each(SinkWaker::wake);
    }

    pub(crate) fn is_full(&self) -> bool {
        // The next record meets the fault.
        if self.faults.check().is_err() {
            return false;
        }
        if self.pending.load(Ordering::Acquire) < self.room.bytes {
            return false;
        }
        self.is_full.store(true, Ordering::SeqCst);
        // Deliveries before that have waked no writer.
        self.pending.load(Ordering::SeqCst) >= self.room.bytes / 2
    }
}

/// The right that is missing, if a client's line says so: in logs it has a name, in errors a text.
fn denial_in(line: &str) -> Option<Code> {
    const SAID: [(&str, Code); 3] = [
        ("TOPIC_AUTHORIZATION_FAILED", Code::TopicAuthorizationFailed),
        ("Topic authorization failed", Code::TopicAuthorizationFailed),
        ("Cluster authorization failed", Code::ClusterAuthorizationFailed),
    ];
    SAID.iter().find(|(text, _)| line.contains(text)).map(|(_, code)| *code)
}

/// What has become of a topic that was there when the job began.
pub(crate) const DELETED: &str =
    "its topic is not there any more, or has fewer partitions: it was deleted";

/// Whether a topic or a partition is not there.
pub(crate) fn is_of_no_topic(cause: &KafkaError) -> bool {
    matches!(
        code_of(cause),
        Some(Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition)
    )
}

/// What a task has sent between two barriers. A producer is never without records on their way while others are sent, so each
/// task counts its own.
#[derive(Default)]
pub(crate) struct Sent {
    on_their_way: AtomicUsize,
    /// Whether there will be no more.
    is_over: AtomicBool,
    lock: Mutex<()>,
    acknowledged: Condvar,
}

/// How long a writer waits for room in the client's queue: it has a thread of the job meanwhile.
const NO_ROOM: Duration = Duration::from_secs(10);

/// A record that the client does not take, and why.
type Unsent<'a> = (KafkaError, BaseRecord<'a, [u8], [u8], Arc<Sent>>);

impl Sent {
    #[inline(always)]
    pub(crate) fn send(
        self: &Arc<Self>,
        producer: &ThreadedProducer<Deliveries>,
        topic: &str,
        record: &Outgoing,
    ) -> Result<()> {
        let context = producer.client().context();
        context.check()?;
        let bytes = context.room.weight(record.lengths(), record.header_lengths());
        context.pending.fetch_add(bytes, Ordering::AcqRel);
        self.on_their_way.fetch_add(1, Ordering::AcqRel);
        let Err((cause, back)) = producer.send(record.as_record(topic, Arc::clone(self))) else {
            return Ok(());
        };
        self.send_again(producer, (cause, back), record)
    }

    /// Waits for room where the client's queue was set to hold less than tasks emit between two looks. The job ends if the record
    /// cannot be sent, so that nothing need be taken back.
    #[cold]
    fn send_again<'a>(
        &self,
        producer: &ThreadedProducer<Deliveries>,
        (mut cause, mut back): Unsent<'a>,
        record: &Outgoing,
    ) -> Result<()> {
        let context = producer.client().context();
        let until = Instant::now() + NO_ROOM;
        while matches!(cause, KafkaError::MessageProduction(Code::QueueFull))
            && Instant::now() < until
        {
            context.check()?;
            thread::sleep(Duration::from_millis(1));
            match producer.send(back) {
                Ok(()) => return Ok(()),
                Err(again) => (cause, back) = again,
            }
        }
        Err({
            // Of what is fatal, the producer alone says what it is.
            let cause = match producer.client().fatal_error() {
                Some((code, _)) => KafkaError::MessageProduction(code),
                None => cause,
            };
            let error = context.unsent(&cause, record.place());
            _ = self.acknowledge();
            error
        })
    }

    /// One more is acknowledged; returns whether that was the last one.
    fn acknowledge(&self) -> bool {
        let is_last = self.on_their_way.fetch_sub(1, Ordering::SeqCst) == 1
            && self.is_over.load(Ordering::SeqCst);
        if is_last {
            drop(self.lock.lock());
            self.acknowledged.notify_all();
        }
        is_last
    }

    /// There will be no more. When the last one is delivered, the writer is waked.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Whether all are delivered or given up.
    pub(crate) fn is_complete(&self) -> bool {
        self.on_their_way.load(Ordering::SeqCst) == 0
    }

    /// Waits until all are delivered or given up, which each is after `message.timeout.ms` at the latest, or the job is to end.
    pub(crate) fn wait(&self, deliveries: &Deliveries) -> Result<()> {
        self.end();
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut left, mut since) = (usize::MAX, Instant::now());
        while !self.is_complete() {
            deliveries.check()?;
            let now_left = self.on_their_way.load(Ordering::SeqCst);
            if now_left != left {
                (left, since) = (now_left, Instant::now());
            }
            // Brokers that answer are waited for.
            if deliveries.connections.are_cancelled() && since.elapsed() >= SLICE {
                return Err(Connections::cancelled("send all records"));
            }
            // The last one may have come before it was known that it is the last.
            let waited = self.acknowledged.wait_timeout(lock, Duration::from_millis(10));
            lock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        deliveries.check()
    }
}

/// Writes the records of one task.
pub struct Writer<I: Record + ?Sized, F> {
    encode: Arc<F>,
    topic: Arc<str>,
    record: Outgoing,
    limits: Limits,
    way: Way,
    items: PhantomData<fn(&I)>,
}

enum Way {
    /// Sends each record as it comes.
    AtOnce { producer: Arc<ThreadedProducer<Deliveries>>, sent: Arc<Sent> },
    /// Sends each record as it comes, in a transaction.
    Open(OpenTransactions),
    /// Keeps records for a transaction.
    InEpochs { numbers: Numbers, kept: Kept, most: Most, hidden: Hidden },
}

/// For how long records have been kept in a job without checkpoints.
struct Hidden {
    since: Option<Instant>,
    is_said: bool,
    /// Of all tasks, which say it once.
    connections: Arc<Connections>,
}

/// A user may wait for records in vain after so long.
const HIDDEN: Duration = Duration::from_secs(10);

impl Hidden {
    /// Looks now and then, where there is a record.
    fn look(&mut self, topic: &str, is_any: bool) {
        if self.is_said || !is_any {
            return;
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() >= HIDDEN {
            self.is_said = true;
            let what = format_args!(
                "what is written exactly once to the topic {topic} is kept until the job ends, as it has no checkpoints: with \
                 `--checkpoint DIR` it appears with each of them"
            );
            self.connections.say(module_path!(), log::Level::Warn, "kept until the end", &what);
        }
    }
}

impl Way {
    /// Takes the answer of brokers that there is meanwhile, which may be an error: in a task without records, too.
    fn answer(&mut self) -> Result<()> {
        match self {
            Self::InEpochs { numbers, .. } => numbers.answer(),
            Self::AtOnce { producer, .. } => producer.client().context().check(),
            Self::Open(open) => open.answer(),
        }
    }
}

/// The numbers of a task's transactions.
enum Numbers {
    /// The last one is looked for, of transactions with this name.
    Asked(String, Awaited<u64>),
    /// The name of the transactions, and the number of the last epoch that was prepared.
    Known(String, u64),
    /// There was no answer, and the job ends.
    Unknown,
}

impl Numbers {
    /// Whether they are being asked for, without an answer so far.
    fn are_awaited(&self) -> bool {
        matches!(self, Self::Asked(_, last) if !last.is_over())
    }

    /// Takes the answer, if there is one.
    fn answer(&mut self) -> Result<()> {
        if self.are_awaited() { Ok(()) } else { self.know() }
    }

    /// Takes the answer, and waits for it if there is none.
    fn know(&mut self) -> Result<()> {
        if matches!(self, Self::Asked(..))
            && let Self::Asked(name, last) = std::mem::replace(self, Self::Unknown)
        {
            *self = Self::Known(name, last.wait()?);
        }
        Ok(())
    }

    /// The next number, with the name.
    fn next(&mut self) -> Result<(String, u64)> {
        self.know()?;
        match self {
            Self::Known(name, last) => {
                *last += 1;
                Ok((name.clone(), *last))
            }
            Self::Asked(..) | Self::Unknown => {
                Err(Error::new(ErrorKind::Internal, "a writer has failed before"))
            }
        }
    }
}

impl<I: Record + ?Sized, F> Writer<I, F> {
    pub(crate) fn at_once(
        encode: Arc<F>,
        topic: &str,
        limits: Limits,
        producer: Arc<ThreadedProducer<Deliveries>>,
        waker: SinkWaker,
    ) -> Self {
        producer.client().context().waked(waker);
        Self::new(encode, topic, limits, Way::AtOnce { producer, sent: Arc::default() })
    }

    pub(crate) fn in_epochs(
        encode: Arc<F>,
        topic: &str,
        limits: Limits,
        (kept, most): (Kept, Most),
        connections: &Arc<Connections>,
        (name, last): (String, Awaited<u64>),
    ) -> Self {
        let numbers = Numbers::Asked(name, last);
        let is_said = most.has_checkpoints;
        let hidden = Hidden { since: None, is_said, connections: Arc::clone(connections) };
        Self::new(encode, topic, limits, Way::InEpochs { numbers, kept, most, hidden })
    }

    pub(crate) fn open(
        encode: Arc<F>,
        topic: &str,
        limits: Limits,
        open: OpenTransactions,
    ) -> Self {
        Self::new(encode, topic, limits, Way::Open(open))
    }

    fn new(encode: Arc<F>, topic: &str, limits: Limits, way: Way) -> Self {
        let topic = Arc::from(topic);
        Self { encode, topic, record: Outgoing::default(), limits, way, items: PhantomData }
    }
}

impl<I, F> SinkWriter for Writer<I, F>
where
    I: Record + ?Sized,
    F: for<'a> Fn(I::Of<'a>, &mut Outgoing) -> Result<()> + Send + Sync + 'static,
{
    type Item = I;
    type Commit = Epoch;

    fn write(&mut self, item: I::Of<'_>) -> Result<()> {
        let Self { encode, topic, record, limits, way, .. } = self;
        record.clear();
        encode(item, record)?;
        record.check(topic, *limits)?;
        match way {
            Way::AtOnce { producer, sent } => sent.send(producer, topic, record),
            Way::Open(open) => open.send(record),
            Way::InEpochs { numbers, kept, most, .. } => {
                numbers.answer()?;
                kept.add(record);
                if kept.len() > most.bytes {
                    return Err(too_much(*most));
                }
                Ok(())
            }
        }
    }

    fn is_full(&mut self) -> bool {
        match &mut self.way {
            Way::AtOnce { producer, .. } => producer.client().context().is_full(),
            Way::Open(open) => open.is_full(),
            // Records do not pile up while brokers do not answer.
            Way::InEpochs { numbers, .. } => numbers.are_awaited(),
        }
    }

    fn has_enough(&mut self) -> bool {
        match &mut self.way {
            Way::AtOnce { .. } | Way::Open(_) => false,
            Way::InEpochs { kept, .. } => kept.are_enough(),
        }
    }

    fn rest(&mut self) -> Result<()> {
        if let Way::InEpochs { kept, hidden, .. } = &mut self.way {
            kept.give_back();
            hidden.look(&self.topic, kept.len() > 0);
        }
        self.way.answer()
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Epoch>>> {
        self.way.answer()?;
        match &mut self.way {
            Way::AtOnce { producer, sent, .. } => {
                let (producer, sent) = (Arc::clone(producer), std::mem::take(sent));
                let flush = move || sent.wait(producer.client().context());
                Ok(Some(Prepared::new(Epoch::nothing()).after(flush)))
            }
            Way::Open(open) => open.prepare(),
            Way::InEpochs { kept, .. } if kept.len() == 0 => Ok(None),
            Way::InEpochs { numbers, kept, .. } => {
                let (name, number) = numbers.next()?;
                Ok(Some(Prepared::new(Epoch::new(name, number, kept.take()))))
            }
        }
    }
}

#[cold]
fn too_much(Most { bytes, has_checkpoints }: Most) -> Error {
    let less = match has_checkpoints {
        true => "checkpoints more often (`--checkpoint-interval`) need less",
        false => "a job with checkpoints (`--checkpoint DIR`) writes with each of them",
    };
    let what = format!(
        "more than {bytes} bytes wait for a transaction: {less}, and `KafkaSink::max_epoch_bytes` allows more"
    );
    Error::new(ErrorKind::Memory, what)
}

impl<I: Record + ?Sized, F> fmt::Debug for Writer<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    #[test]
    fn records_on_their_way_count_with_their_headers_until_they_are_delivered() {
        let cluster = MockCluster::<'static, DefaultProducerContext>::new(1).unwrap();
        cluster.create_topic("topic", 1, 1).unwrap();
        let room = Room::within(None, None);
        let deliveries = Deliveries::new("topic".to_owned(), None, room, Arc::default());
        let mut config = ClientConfig::new();
        // They wait until the producer is flushed.
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("linger.ms", "100000");
        let producer: ThreadedProducer<_> = config.create_with_context(deliveries).unwrap();
        let pending = || producer.client().context().pending.load(Ordering::SeqCst);
        let (sent, mut record) = (Arc::<Sent>::default(), Outgoing::default());
        record.key("key").payload("payload").header("long", Some(&[b'x'; 10_000]));
        record.header("name", None).header("name", Some(&[]));
        sent.send(&producer, "topic", &record).unwrap();
        assert_eq!(pending(), 10_000 + 10 + 4 + 2 * 4 + 3 * HEADER);
        let mut plain = Outgoing::default();
        plain.key("key");
        sent.send(&producer, "topic", &plain).unwrap();
        producer.flush(Duration::from_secs(60)).unwrap();
        sent.wait(producer.client().context()).unwrap();
        // A delivery is taken back behind the acknowledgement.
        while pending() > 0 {
            thread::yield_now();
        }
    }

    /// Whether a record is sent before the brokers refuse the producer or behind it hangs on threads; here it is before.
    #[test]
    fn records_that_wait_for_a_producer_that_is_refused_say_which_right_is_missing() {
        let cluster = MockCluster::<'static, DefaultProducerContext>::new(1).unwrap();
        cluster.create_topic("topic", 1, 1).unwrap();
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::InitProducerId, &[refused; 10]);
        cluster.broker_round_trip_time(1, Duration::from_millis(100)).unwrap();
        let room = Room::within(None, None);
        let deliveries = Deliveries::new("topic".to_owned(), None, room, Arc::default());
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        config.set("enable.idempotence", "true");
        let producer: ThreadedProducer<_> = config.create_with_context(deliveries).unwrap();
        let (sent, mut record) = (Arc::<Sent>::default(), Outgoing::default());
        record.key("key").payload("payload");
        sent.send(&producer, "topic", &record).unwrap();
        let error = sent.wait(producer.client().context()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("`Write` on the topic `topic`"), "{error}");
    }

    #[test]
    fn all_that_is_on_its_way_fits_into_the_clients_queue() {
        assert_eq!(Room::within(None, None), Room { bytes: 64 << 20, least: 268 });
        for (kbytes, messages) in [(1, 1), (32_768, 100_000), (1 << 21, 10), (1 << 20, 10_000_000)]
        {
            let room = Room::within(Some(kbytes), Some(messages));
            assert!(room.bytes <= kbytes * 512, "{room:?}");
            assert!(room.bytes / room.least <= messages, "{room:?}");
        }
    }

    #[test]
    fn a_barrier_waits_for_what_was_sent_before_it() {
        let sent = Arc::new(Sent::default());
        sent.on_their_way.store(2, Ordering::Release);
        let other = Arc::clone(&sent);
        let room = Room::within(None, None);
        let deliveries = Deliveries::new("topic".to_owned(), None, room, Arc::default());
        let waiting = std::thread::spawn(move || other.wait(&deliveries));
        assert!(!sent.acknowledge());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        assert!(sent.acknowledge());
        waiting.join().unwrap().unwrap();
    }
}
