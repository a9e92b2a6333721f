//! Topics as sinks.

use crate::client::{Options, asked, error, missing};
use crate::connections::Watch;
use crate::kept::Kept;
use crate::open::{Factory, Forgotten, OpenTransactions, TaskProducers};
use crate::outgoing::{Limits, Outgoing};
use crate::protocol::{Coordinator, Topics};
use crate::rights::Needs;
use crate::tokens::{Token, Tokens};
use crate::transactions::{Clients, Epoch, Transactions};
use crate::writer::{Deliveries, Most, Room, Writer};
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{Producer as _, ThreadedProducer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg::connector::{Sink, SinkContext};
use thalweg::data::Record;
use thalweg::{Error, ErrorKind, Result};

/// How often a record is written that the job emits once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// At once, and again when the job goes on from a checkpoint that was taken before.
    AtLeastOnce,
    /// In the transaction of a checkpoint.
    ExactlyOnce,
}

/// Writes records to a topic. See [`Stream::write`](thalweg::Stream::write).
///
/// A closure makes an [`Outgoing`] record of each record of the stream.
///
/// # At least once
///
/// Records are sent as they come. A checkpoint counts once all records before it have been acknowledged by all replicas that are in
/// sync, so none is lost; those behind it are written again when the job goes on from there.
///
/// # Exactly once
///
/// There are two ways. By default, what a task writes between two checkpoints becomes visible in one transaction, to consumers that read what is committed
/// (`isolation.level`), once the second one counts. Until then it is kept in memory, and it is part of that checkpoint: a job that
/// dies in between writes it when it goes on, and knows by an offset that the transaction carries, of a group named like
/// `thalweg-totals-0123456789abcdef-0`, if it had. So no time between checkpoints, and no time in which the job does not run, is too long for a
/// transaction; but a cluster that forgets the offsets of groups (`offsets.retention.minutes`, a week) before the job goes on makes it
/// write that one transaction again. Brokers must be of version 2.5 or later.
///
/// A source that is faster than the brokers waits: when a task has kept a sixteenth of [`max_epoch_bytes`](Self::max_epoch_bytes), 64 MiB
/// unless it is set, or its share of an eighth of the job's memory, or that is refused, a checkpoint is taken before its time, and records go
/// on when its barrier has come. While a transaction is written, the next one is filled. A job with much state and long intervals may
/// want fewer checkpoints and have the memory for it: set more.
///
/// [`open_transactions`](Self::open_transactions) sends records as they come, which is faster, for a job that is sure to be started
/// again within minutes when it dies.
///
/// Without checkpoints all is written in one transaction a task when the job has ended well, and
/// [`max_epoch_bytes`](Self::max_epoch_bytes) is the end of it. So it is for what comes in front of a barrier, such as all that an
/// aggregation emits at the end of its input.
pub struct KafkaSink<I: Record + ?Sized, F> {
    brokers: String,
    topic: String,
    delivery: Delivery,
    /// How long transactions may be open, if records are sent as they come.
    open_for: Option<Duration>,
    forgotten: Forgotten,
    encode: Arc<F>,
    max_epoch_bytes: usize,
    prefix: String,
    options: Options,
    /// What the clients say of their connections.
    watch: Watch,
    /// What sends at once, and what brokers accept: made and asked for when it is first needed, on each host.
    producer: Mutex<Option<(Sending, Limits)>>,
    transactions: Transactions,
    producers: Arc<TaskProducers>,
    items: PhantomData<fn(&I)>,
}

type Sending = Arc<ThreadedProducer<Deliveries>>;

/// What the sink sets, and a user may.
const USUAL: [(&str, &str); 4] = [
    ("client.id", "thalweg"),
    // Batches for throughput, which cost a millisecond where there is little to do.
    ("linger.ms", "1"),
    // As Kafka's own clients do.
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.messages", "500000"),
];

/// What has to be so.
const FIXED: [(&str, &str); 1] = [
    // No record twice, and none before another, when one is sent again.
    ("enable.idempotence", "true"),
];

/// Of transactions, which are open while they are written: ten minutes for the largest on a slow network. They are in memory
/// already, so that little of them need be in the client's queue.
const TRANSACTIONS: [(&str, &str); 2] =
    [("transaction.timeout.ms", "600000"), ("queue.buffering.max.kbytes", "65536")];

/// Of what reads which transactions there were.
const MARKS: [(&str, &str); 2] =
    [("enable.auto.commit", "false"), ("isolation.level", "read_committed")];

/// Of open ones: marks of those that have yet to be committed are not waited for.
const OPEN_MARKS: [(&str, &str); 2] =
    [("enable.auto.commit", "false"), ("isolation.level", "read_uncommitted")];

impl<I, F> KafkaSink<I, F>
where
    I: Record + ?Sized,
    F: for<'a> Fn(I::Of<'a>, &mut Outgoing) -> Result<()> + Send + Sync + 'static,
{
    /// Writes each record at least once.
    pub fn at_least_once(brokers: impl Into<String>, topic: impl Into<String>, encode: F) -> Self {
        Self::new(brokers.into(), topic.into(), Delivery::AtLeastOnce, encode)
    }

    /// Writes each record exactly once, with the checkpoint behind it.
    pub fn exactly_once(brokers: impl Into<String>, topic: impl Into<String>, encode: F) -> Self {
        Self::new(brokers.into(), topic.into(), Delivery::ExactlyOnce, encode)
    }

    fn new(brokers: String, topic: String, delivery: Delivery, encode: F) -> Self {
        Self {
            brokers,
            topic,
            delivery,
            open_for: None,
            forgotten: Forgotten::Fails,
            encode: Arc::new(encode),
            max_epoch_bytes: 1 << 30,
            prefix: "thalweg".to_owned(),
            options: Options::default(),
            watch: Watch::default(),
            producer: Mutex::default(),
            transactions: Transactions::default(),
            producers: Arc::default(),
            items: PhantomData,
        }
    }

    /// Sends the records of a sink that writes [exactly once](Self::exactly_once) as they come, in a transaction for each task and
    /// checkpoint that stays open until the checkpoint counts. That has about the throughput of at least once, where the default
    /// has 0.5 to 0.7 of it (measured on two cores that a broker had, too). Choose it if a job that dies is always running again within
    /// `timeout`; otherwise keep the default.
    ///
    /// `timeout` counts from the first record of a transaction, not from the death of a job: set the longest interval between
    /// checkpoints, with those that may fail, and the longest time for which the job may be away. Brokers allow 15 minutes unless
    /// their `transaction.max.timeout.ms` is greater. A job that comes back later ends with an error: the brokers have aborted
    /// records that its checkpoint counts as written. A job that runs ends at the next barrier when a transaction has been open for
    /// nine tenths of it, or with the seventh checkpoint in a row that fails. While a transaction is open, and while the job is away, consumers that
    /// read what is committed wait at its first record, also for records of others.
    ///
    /// Each task has three clients of librdkafka (up to eight while checkpoints fail), each with threads and connections of its own, and
    /// up to 64 MB on their way beside the job's memory. [`max_epoch_bytes`](Self::max_epoch_bytes) has no effect. Brokers must be
    /// of version 3.0 or later. Transactions of producers that are gone are committed by requests that librdkafka does not have, on
    /// connections that know TLS with certificates in PEM, and SASL by PLAIN, SCRAM and OAUTHBEARER.
    ///
    /// A job may change between the two ways from run to run. What a run has left open that no checkpoint has is aborted when a run
    /// with open transactions begins; when the next one keeps its records, or goes on from a copy of the checkpoints, it stays open
    /// until its time is over.
    ///
    /// # Errors
    ///
    /// The job ends with an error of the kind [`Config`](ErrorKind::Config) if it has no checkpoints or the sink is of at least once, if
    /// brokers allow less than `timeout`, for settings of TLS and SASL that are not supported, and if what its checkpoint counts on
    /// was aborted or [forgotten](Self::forgotten_are_committed).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use thalweg::Environment;
    /// # use thalweg_kafka::{KafkaSink, Outgoing};
    /// let env = Environment::from_args()?;
    /// let sink = KafkaSink::exactly_once("kafka:9092", "squares", |n: u64, out: &mut Outgoing| {
    ///     out.payload(n.to_string());
    ///     Ok(())
    /// });
    /// env.range(0..1_000_000).map(|n| n * n).write(sink.open_transactions(Duration::from_secs(900)));
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn open_transactions(mut self, timeout: Duration) -> Self {
        self.open_for = Some(timeout);
        self
    }

    /// Takes [open transactions](Self::open_transactions) of the checkpoint as committed if the brokers no longer know them; without it,
    /// the job ends with an error then. For a run from a savepoint, or of a job that was suspended, that is older than the brokers'
    /// memory (`offsets.retention.minutes` and `transactional.id.expiration.ms`, a week by default): what these have was committed when
    /// `JobHandle::savepoint` returned, or when the job ended as suspended. So it is of another copy of a checkpoint, by `thalweg
    /// checkpoint cp` for example, where the job went on to a later checkpoint. Set it for that run only: records of a transaction that
    /// was not committed are lost without an error. If the job was killed, look first whether they are in the topic.
    #[must_use]
    pub fn forgotten_are_committed(mut self) -> Self {
        self.forgotten = Forgotten::IsCommitted;
        self
    }

    /// How many bytes of a task may wait for a checkpoint before the job fails, with exactly once; by default 1 GiB. Records
    /// wait for a checkpoint when a task has kept a sixteenth of it; the rest is for what cannot wait.
    #[must_use]
    pub fn max_epoch_bytes(mut self, bytes: usize) -> Self {
        self.max_epoch_bytes = bytes;
        self
    }

    /// What the names of transactions, and of the groups that have their numbers, begin with; by default `thalweg`. The topic, a
    /// number that follows from the path of the checkpoints, and the task come behind it. Jobs whose paths are the same on
    /// different machines, and that write to one topic, need different prefixes.
    #[must_use]
    pub fn transactional_id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets a property of librdkafka, by its name.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name.into(), value.into());
        self
    }

    /// Logs in with tokens, by the mechanism OAUTHBEARER of SASL: a closure gives them. It is called, and fails, as that of
    /// [`KafkaSource::tokens`](crate::KafkaSource::tokens) does. While it gives none, a sink of a job that runs tries again for five minutes,
    /// as where no broker answers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_kafka::{KafkaSink, Outgoing, Token};
    ///
    /// fn token() -> std::io::Result<Token> {
    ///     let value = std::fs::read_to_string("/run/secrets/kafka-token")?;
    ///     Ok(Token::expiring_in(value.trim(), Duration::from_secs(300)))
    /// }
    ///
    /// let encode = |n: u64, out: &mut Outgoing| {
    ///     out.payload(n.to_string());
    ///     Ok(())
    /// };
    /// let sink: KafkaSink<u64, _> = KafkaSink::exactly_once("kafka.example:9093", "squares", encode);
    /// let sink = sink.option("security.protocol", "sasl_ssl").tokens(token);
    /// assert!(format!("{sink:?}").contains("kafka.example"));
    /// ```
    #[must_use]
    pub fn tokens<E>(mut self, give: impl FnMut() -> Result<Token, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.options.use_tokens();
        self.watch = Watch::with(Tokens::new(&self.brokers, give));
        self
    }

    fn config(&self) -> Result<ClientConfig> {
        self.options.over(&self.brokers, &USUAL, &FIXED)
    }

    /// Settings of the clients of transactions that are written when their checkpoint counts.
    fn clients(&self) -> Result<Clients> {
        let producer =
            self.options.over(&self.brokers, &[&USUAL[..], &TRANSACTIONS].concat(), &FIXED)?;
        let marks = self.options.over(&self.brokers, &USUAL[..1], &MARKS)?;
        let (prefix, watch) = (self.prefix.clone(), self.watch.clone());
        Ok(Clients { prefix, producer, marks, watch })
    }

    /// Settings of the clients of open transactions; those of a run before this one keep their own time.
    fn open_clients(&self) -> Result<Clients> {
        let marks = self.options.over(&self.brokers, &USUAL[..1], &OPEN_MARKS)?;
        let Some(timeout) = self.open_for else {
            return Ok(Clients { marks, ..self.clients()? });
        };
        // What librdkafka takes for a transaction.
        let millis = i32::try_from(timeout.as_millis()).ok().filter(|millis| *millis >= 1_000);
        let millis = millis.ok_or_else(|| {
            let what = format!(
                "`KafkaSink::open_transactions` takes from one second to 24 days, and not {timeout:?}"
            );
            Error::new(ErrorKind::Config, what)
        })?;
        // Otherwise they would be as long as a transaction may be open.
        let message = millis.min(300_000).to_string();
        let socket = millis.saturating_sub(100).min(60_000).to_string();
        let of_client = [("message.timeout.ms", &*message), ("socket.timeout.ms", &*socket)];
        let millis = millis.to_string();
        let fixed = [&FIXED[..], &[("transaction.timeout.ms", &*millis)]].concat();
        let usual = [&USUAL[..], &of_client].concat();
        let producer = self.options.over(&self.brokers, &usual, &fixed)?;
        let (prefix, watch) = (self.prefix.clone(), self.watch.clone());
        Ok(Clients { prefix, producer, marks, watch })
    }

    /// The producer of records that are sent at once, and what brokers accept.
    fn producer(&self) -> Result<(Sending, Limits)> {
        let mut known = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((producer, limits)) = &*known {
            return Ok((Arc::clone(producer), *limits));
        }
        let room = self.room()?;
        let deliveries = Deliveries::new(self.topic.clone(), None, room, Arc::clone(&self.watch.0));
        let made = self.config()?.create_with_context(deliveries);
        let made = Arc::new(made.map_err(|cause| error("make a client of Kafka", cause))?);
        let limits = self.limits(&made)?;
        *known = Some((Arc::clone(&made), limits));
        Ok((made, limits))
    }

    /// How much of a producer's may be on its way.
    fn room(&self) -> Result<Room> {
        Ok(Room::within(
            self.number("queue.buffering.max.kbytes")?,
            self.number("queue.buffering.max.messages")?,
        ))
    }

    /// What the brokers accept.
    fn limits(&self, producer: &ThreadedProducer<Deliveries>) -> Result<Limits> {
        let ask = |patience| producer.client().fetch_metadata(Some(&self.topic), patience);
        let needs = Needs::topic("`Describe`", &self.topic);
        let doing = format!("ask for the topic `{}`", self.topic);
        let metadata = asked(&doing, &needs, &self.watch.0, ask)?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        let partitions = topic.map_or(0, |topic| topic.partitions().len() as i32);
        if partitions == 0 {
            return Err(missing(&metadata, &self.topic));
        }
        let asked = self.number("message.max.bytes")?.unwrap_or(1_000_000);
        // Not all may ask for the settings of a topic.
        let settings = self.settings().inspect_err(|error| {
            log::warn!(
                "the settings of the topic {} cannot be asked for, so records that it refuses, as their sizes or keys do not fit, are \
                 sent to the brokers first; `DescribeConfigs` on the topic allows it: {error}",
                self.topic
            );
        });
        let setting = |name: &str| settings.as_ref().ok().and_then(|settings| settings.get(name));
        let most = setting("max.message.bytes").and_then(|text| text.parse().ok());
        let bytes = asked.min(most.unwrap_or(usize::MAX));
        let needs_key = setting("cleanup.policy").is_some_and(|policy| policy.contains("compact"));
        Ok(Limits { bytes, partitions, needs_key })
    }

    /// The topic's settings, as far as they matter.
    fn settings(&self) -> std::result::Result<BTreeMap<String, String>, String> {
        if self.watch.0.tokens().is_none() {
            let found = self.resource().map_err(|error| error.to_string())?;
            let entries = found.entries.into_iter();
            return Ok(entries.filter_map(|entry| Some((entry.name, entry.value?))).collect());
        }
        // Clients of the crate rdkafka for administration take no tokens.
        let topics = self.config().and_then(|config| Topics::new(&config, self.watch.0.tokens()));
        let mut topics = topics.map_err(|error| error.to_string())?;
        topics.settings(&self.topic, &["max.message.bytes", "cleanup.policy"])
    }

    /// The same from librdkafka.
    fn resource(&self) -> KafkaResult<ConfigResource> {
        let config =
            self.config().map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
        let admin: AdminClient<Watch> = self.watch.client(&config)?;
        let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(10)));
        let topic = ResourceSpecifier::Topic(&self.topic);
        let found = block_on(admin.describe_configs([&topic], &options))?;
        let none = || KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopic);
        found.into_iter().next().ok_or_else(none)?.map_err(KafkaError::AdminOp)
    }

    /// An option that is a number.
    fn number(&self, name: &str) -> Result<Option<usize>> {
        let Some(text) = self.options.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|cause| {
            let what = format!("the option `{name}` is no number: {text}");
            Error::new(ErrorKind::Config, what).caused_by(cause)
        })?;
        Ok(Some(number))
    }
}

impl<I, F> Sink for KafkaSink<I, F>
where
    I: Record + ?Sized,
    F: for<'a> Fn(I::Of<'a>, &mut Outgoing) -> Result<()> + Send + Sync + 'static,
{
    type Item = I;
    type Commit = Epoch;
    type Writer = Writer<I, F>;

    fn describe(&self) -> String {
        format!("kafka topic {}", self.topic)
    }

    fn open(&self, cx: &SinkContext) -> Result<Writer<I, F>> {
        self.watch.0.used_by(cx.operator(), "");
        self.watch.0.are_of(cx.cancellation());
        let (producer, limits) = self.producer()?;
        let encode = Arc::clone(&self.encode);
        match (self.delivery, self.open_for) {
            (Delivery::AtLeastOnce, Some(_)) => Err(Error::new(
                ErrorKind::Config,
                "`KafkaSink::open_transactions` needs a sink that `KafkaSink::exactly_once` has made",
            )),
            (Delivery::AtLeastOnce, None) => {
                Ok(Writer::at_once(encode, &self.topic, limits, producer, cx.waker()))
            }
            (Delivery::ExactlyOnce, None) => {
                let most =
                    Most { bytes: self.max_epoch_bytes, has_checkpoints: cx.has_checkpoints() };
                let clients = self.clients()?;
                let base = self.transactions.base(&clients, &self.topic, cx);
                let name = format!("{base}-{}", cx.task());
                let last = self.transactions.begin(clients, &self.topic, &name, cx.waker())?;
                let kept = Kept::new(cx.reserve(), cx.tasks(), self.max_epoch_bytes);
                let epochs = (kept, most);
                Ok(Writer::in_epochs(
                    encode,
                    &self.topic,
                    limits,
                    epochs,
                    &self.watch.0,
                    (name, last),
                ))
            }
            (Delivery::ExactlyOnce, Some(timeout)) => {
                if !cx.has_checkpoints() {
                    let what = "transactions that stay open until a checkpoint counts need a job with checkpoints (`--checkpoint DIR`)";
                    return Err(Error::new(ErrorKind::Config, what));
                }
                let clients = self.open_clients()?;
                let coordinator = Coordinator::new(&clients.producer, clients.watch.0.tokens())?;
                let factory = Factory {
                    coordinator: Arc::new(coordinator),
                    base: self.transactions.base(&clients, &self.topic, cx),
                    clients: Arc::new(clients),
                    producers: Arc::clone(&self.producers),
                    topic: self.topic.clone(),
                    task: cx.task(),
                    tasks: cx.tasks(),
                    room: self.room()?,
                    timeout,
                    waker: cx.waker(),
                    is_gone: Arc::default(),
                };
                Ok(Writer::open(encode, &self.topic, limits, OpenTransactions::begin(factory)?))
            }
        }
    }

    fn commit(&self, epoch: &Epoch) -> Result<()> {
        // Of a run before this one, it may have been made by other settings.
        if epoch.is_nothing() {
            return Ok(());
        }
        let Some(open) = epoch.as_open() else {
            return self.transactions.commit(&self.clients()?, &self.topic, epoch);
        };
        self.producers.commit(&self.open_clients()?, &self.topic, open, self.forgotten)
    }
}

impl<I: Record + ?Sized, F> fmt::Debug for KafkaSink<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}
