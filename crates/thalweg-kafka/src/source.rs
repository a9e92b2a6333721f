//! Topics as sources.

use crate::ahead::{Ahead, Room};
use crate::client::{Client, LONG_PATIENCE, Options, PATIENCE, asked, asked_for, error};
use crate::connections::Watch;
use crate::fetch::{Fetcher, Plan};
use crate::message::Message;
use crate::partition::{Partition, Position, list_of, place};
use crate::reader::Reader;
use crate::rights::Needs;
use crate::same::SameTopics;
use crate::threads::start;
use crate::tokens::{Token, Tokens};
use crate::topics::Topics;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::{SplitContext, SplitSource};
use thalweg::memory::{MemoryPool, Reservation};
use thalweg::time::Timestamp;
use thalweg::{Error, ErrorKind, Result};

/// Where a source begins in the partitions that were there when the job was first started. Those that are added later are
/// read from their beginning, and a job that goes on from a checkpoint reads on where that has each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begin {
    /// At the oldest record that is still there.
    #[default]
    Earliest,
    /// Behind the newest record.
    Latest,
    /// At the first record with this timestamp or a later one; behind the newest record where there is none.
    At(Timestamp),
    /// Where the [group](KafkaSource::group) has committed, and at the oldest record in partitions where it has not. Without a group it
    /// is an error when the job starts.
    Committed,
    /// At these offsets, by topic and partition, and at the oldest record in partitions that are not named.
    Offsets(BTreeMap<(String, i32), i64>),
}

/// How soon brokers are asked again that do not know for now what a topic has.
const AGAIN: Duration = Duration::from_millis(500);

/// Where a source ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Until {
    Never,
    Now,
    At(Timestamp),
    Offsets(BTreeMap<(String, i32), i64>),
}

/// Reads the partitions of topics. See [`Environment::read`](thalweg::Environment::read).
///
/// It emits [`Message`]s, which are borrowed from what was fetched: closures make of them what the job needs, and no byte is
/// copied that they do not copy. Records of aborted transactions are not there, nor those of open ones, unless
/// `isolation.level` is set to `read_uncommitted`. The source ends only with
/// [`until_now`](Self::until_now) and others.
///
/// Records are fetched ahead. What may be held of them is reserved from the job's memory: an eighth of what is free when the source
/// begins, so that a later one gets less, is shared by the partitions, from 48 KiB to 18 MiB each, which `queued.max.messages.kbytes` and `fetch.message.max.bytes` follow from;
/// [options](Self::option) of these names are reserved as they are. A small budget makes reading
/// slower, and one that is too small for the number of partitions is an error. Beyond it go up to 8 MiB of batches that are longer than
/// a partition's share, as brokers send them whole, and more only while tasks wait for other partitions than those that have been fetched;
/// and what a compressed batch grows to while it is read. Each host has a budget of its own.
///
/// The order of a partition is kept. For event time, give the stream timestamps, say with
/// [`MessageRef::timestamp`](crate::MessageRef::timestamp): each partition has a watermark of its own, and with
/// [`aligned`](thalweg::operators::time::Watermarks::aligned) those that are ahead in event time wait, as in a replay, where otherwise
/// each is read as fast as it goes.
pub struct KafkaSource {
    brokers: String,
    topics: Topics,
    group: Option<String>,
    begin: Begin,
    until: Until,
    look_again: Duration,
    recreated: bool,
    leaves_deleted: bool,
    by_librdkafka: bool,
    options: Options,
    /// What the clients say of their connections.
    watch: Watch,
    /// The client that lists topics and asks for offsets, made when it is first needed.
    lister: Mutex<Option<Arc<Client>>>,
    /// What fetches, and what it may hold of each partition: made on each host when the first one is opened, since both follow from
    /// the job's memory and the number of partitions.
    reading: Mutex<Option<Reading>>,
    /// What was listed last.
    listed: Mutex<Option<Vec<Partition>>>,
    /// Whether topics are still the same, if that can be known.
    same: OnceLock<Option<Arc<SameTopics>>>,
    /// What looks whether they are ends with it.
    watching: Mutex<Option<mpsc::Sender<()>>>,
}

/// What fetches on a host.
#[derive(Clone)]
struct Reading {
    /// `None` if librdkafka does.
    fetcher: Option<Arc<Fetcher>>,
    /// The client that fetches, or is asked for all but records.
    client: Arc<Client>,
    ahead: Ahead,
}

/// What the source sets, and a user may.
const USUAL: [(&str, &str); 4] = [
    ("client.id", "thalweg"),
    // The default of a second is long where a queue was full for a moment.
    ("fetch.queue.backoff.ms", "10"),
    ("fetch.error.backoff.ms", "100"),
    ("isolation.level", "read_committed"),
];

/// What has to be so.
const FIXED: [(&str, &str); 5] = [
    // Offsets are in checkpoints.
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // The end of what is there ends a bounded source.
    ("enable.partition.eof", "true"),
    // Records that are gone are an error, and are not left out in silence.
    ("auto.offset.reset", "error"),
    ("allow.auto.create.topics", "false"),
];

impl KafkaSource {
    /// Reads topics of the cluster that these brokers belong to: `host:port`, several separated by commas.
    pub fn new(brokers: impl Into<String>, topics: impl Into<Topics>) -> Self {
        Self {
            brokers: brokers.into(),
            topics: topics.into(),
            group: None,
            begin: Begin::default(),
            until: Until::Never,
            look_again: Duration::from_secs(60),
            recreated: false,
            leaves_deleted: false,
            by_librdkafka: false,
            options: Options::default(),
            watch: Watch::default(),
            lister: Mutex::default(),
            reading: Mutex::default(),
            listed: Mutex::default(),
            same: OnceLock::new(),
            watching: Mutex::default(),
        }
    }

    /// Commits offsets to this group with each checkpoint, and when the job has ended well, also where it was
    /// [drained](thalweg::JobHandle::drain), so that Kafka's tools show how far the job has read. The job itself goes on from its
    /// checkpoints, whatever the group has. Partitions are not dealt out by the group, so other consumers must not use it. A group
    /// that the user may not see ends the job before it begins.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Where to begin; by default at the oldest records.
    #[must_use]
    pub fn begin(mut self, begin: Begin) -> Self {
        self.begin = begin;
        self
    }

    /// Ends behind the records that are there when the job is first started, in each partition. A job that goes on from a
    /// checkpoint ends at the same place, and reads no partition that was added since. As long as it has no checkpoint, each
    /// start is the first one. A checkpoint of a source without an end is refused, and one of a source with an
    /// end by a source without. Records behind a transaction that is open then are not there yet, also if they are committed.
    #[must_use]
    pub fn until_now(mut self) -> Self {
        self.until = Until::Now;
        self
    }

    /// Ends in each partition before the first record with this timestamp or a later one; where there is none when the job is
    /// first started, behind the last record.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Until::At(end);
        self
    }

    /// Ends before these offsets, by topic and partition, which must be there when the job is first started. Partitions that
    /// are not named end behind the records that are there then.
    #[must_use]
    pub fn until_offsets(mut self, ends: BTreeMap<(String, i32), i64>) -> Self {
        self.until = Until::Offsets(ends);
        self
    }

    /// How often to look for new partitions, and new topics that match; by default each minute. A source that ends does not
    /// look for any. Zero is an error of kind [`Config`](ErrorKind::Config) when the job starts.
    #[must_use]
    pub fn look_again_after(mut self, interval: Duration) -> Self {
        self.look_again = interval;
        self
    }

    /// Reads topics on at the offsets of the checkpoint, and while the job runs, also if they were deleted and made anew, or the
    /// brokers are of another cluster. For a cluster that was restored with the records and offsets that it had; without it such a
    /// topic ends the job, as the same offset means another record. Topics are told from each other by their ids, which brokers
    /// have since version 2.8. Nor are brokers asked then whether they still have the last record of the checkpoint, as leaders have
    /// other epochs there. Where a restored topic has the id that it had, but leaders of earlier epochs, its records wait for about two
    /// minutes, in which the brokers might only be cut off.
    ///
    /// ```
    /// use thalweg_kafka::KafkaSource;
    ///
    /// let orders = KafkaSource::new("restored:9092", "orders").read_recreated_topics();
    /// assert!(format!("{orders:?}").contains("restored:9092"));
    /// ```
    #[must_use]
    pub fn read_recreated_topics(mut self) -> Self {
        self.recreated = true;
        self
    }

    /// Goes on without topics of a [pattern](Topics::matching) that are deleted: what was read of them stays read, and a warning in the
    /// facade [`log`] says so, also where a job goes on from a checkpoint that has them. Otherwise such a topic ends the job, and each run
    /// that goes on from such a checkpoint. Records that were not read are lost either way. A start waits ten seconds before it believes
    /// brokers that a topic is gone. A topic that is made anew under the same name ends the job while it runs, and is not read by
    /// those that go on from its checkpoints.
    ///
    /// Named topics have to be there: with them it is an error of kind [`Config`](ErrorKind::Config) when the job starts.
    ///
    /// ```
    /// use thalweg_kafka::{KafkaSource, Topics};
    ///
    /// let shops = KafkaSource::new("localhost:9092", Topics::matching("shop-.*")).leave_out_deleted_topics();
    /// assert!(format!("{shops:?}").contains("shop-.*"));
    /// ```
    #[must_use]
    pub fn leave_out_deleted_topics(mut self) -> Self {
        self.leaves_deleted = true;
        self
    }

    /// Has librdkafka fetch the records. By default the source fetches them itself, on connections of its own, about five times as fast
    /// (`cargo bench -p thalweg-kafka`). librdkafka takes over where an [option](Self::option) is set that it alone supports, with a
    /// warning in the facade [`log`]: Kerberos, `client.rack`, `socket.*` and others. Those that do not change who fetches are
    /// `client.id`, `isolation.level`, `security.protocol`, the settings of `ssl.` and `sasl.` for certificates and passwords,
    /// `fetch.min.bytes`, `fetch.max.bytes`, `fetch.wait.max.ms` (100 by default; more than 5000 counts as 5000), `fetch.message.max.bytes` and
    /// `queued.max.messages.kbytes`, and `debug`, `statistics.interval.ms`, `queued.min.messages` and the two that end in `backoff.ms`, which mean
    /// something to librdkafka only.
    ///
    /// librdkafka also reads from brokers before Kafka 2.8, and records in the formats of before 0.11. It holds up to 128 MiB of a
    /// partition, checks no sums of batches unless `check.crcs` is set, and finds out only of what it has read itself that brokers have
    /// lost it, not of what runs before have read.
    ///
    /// ```
    /// use thalweg_kafka::KafkaSource;
    ///
    /// let orders = KafkaSource::new("old:9092", "orders").fetch_by_librdkafka();
    /// assert!(format!("{orders:?}").contains("old:9092"));
    /// ```
    #[must_use]
    pub fn fetch_by_librdkafka(mut self) -> Self {
        self.by_librdkafka = true;
        self
    }

    /// Sets a property of librdkafka, by its name. Some have it [fetch the records](Self::fetch_by_librdkafka).
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name.into(), value.into());
        self
    }

    /// Logs in with tokens, by the mechanism OAUTHBEARER of SASL: a closure gives them, for example by a request to a token server. Other
    /// settings than `security.protocol` are not needed for it; the feature `tls` is.
    ///
    /// The closure is called on a thread of its own when the source first connects on a host, and again whenever seven tenths of the
    /// token's lifetime are over; all connections share a token, and log in again before the time that brokers give them is over.
    /// It may block: the first connection waits for it for 30 seconds, and later ones have the token before.
    ///
    /// # Errors
    ///
    /// An error of the closure is logged, and the closure called again after a second, later ten. A job that cannot connect meanwhile ends after
    /// 15 seconds with an error of the kind [`Io`](ErrorKind::Io) that has it; one that runs waits, as where no broker answers. A panic ends the
    /// job with an error of the kind [`Panic`](ErrorKind::Panic), and a token that brokers refuse with one of the kind
    /// [`Config`](ErrorKind::Config).
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_kafka::{KafkaSource, Token};
    ///
    /// fn token() -> std::io::Result<Token> {
    ///     let value = std::fs::read_to_string("/run/secrets/kafka-token")?;
    ///     Ok(Token::expiring_in(value.trim(), Duration::from_secs(300)))
    /// }
    ///
    /// let orders = KafkaSource::new("kafka.example:9093", "orders").option("security.protocol", "sasl_ssl").tokens(token);
    /// assert!(format!("{orders:?}").contains("kafka.example"));
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

    /// The settings of a client.
    fn config(&self, ahead: Option<&Ahead>) -> Result<ClientConfig> {
        let sizes = ahead.map(|ahead| ahead.settings(&self.options)).unwrap_or_default();
        let sizes = sizes.iter().map(|(name, value)| (*name, value.as_str()));
        // The client that reads says how far partitions reach.
        let statistics = ahead.map(|_| ("statistics.interval.ms", "1000"));
        let usual: Vec<_> = USUAL.into_iter().chain(sizes).chain(statistics).collect();
        let mut config = self.options.over(&self.brokers, &usual, &FIXED)?;
        // Partitions are assigned by hand, which takes a name of a group all the same.
        config.set("group.id", self.group.as_deref().unwrap_or("thalweg"));
        Ok(config)
    }

    /// Makes a client.
    fn client(&self, ahead: Option<&Ahead>) -> Result<Arc<Client>> {
        Ok(Arc::new(Client::new(&self.config(ahead)?, &self.watch)?))
    }

    /// What knows whether topics are still the same, if that is to be known.
    fn same(&self) -> Result<Option<&Arc<SameTopics>>> {
        let (config, tokens) = (self.config(None)?, self.watch.0.tokens());
        let make =
            || if self.recreated { None } else { SameTopics::new(&config, tokens).map(Arc::new) };
        Ok(self.same.get_or_init(make).as_ref())
    }

    /// The client that is asked for partitions and offsets. Where librdkafka fetches, a request by that client would wait behind those for records,
    /// which a broker answers when there are some.
    fn lister(&self) -> Result<Arc<Client>> {
        let mut lister = self.lister.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lister) = &*lister {
            return Ok(Arc::clone(lister));
        }
        let made = self.client(None)?;
        *lister = Some(Arc::clone(&made));
        Ok(made)
    }

    /// What fetches, if there is something yet.
    fn made(&self) -> Option<Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What fetches, and what it may hold of each partition of a job with this memory.
    fn reading(&self, memory: &MemoryPool) -> Result<Reading> {
        if let Some(made) = self.made() {
            return Ok(made);
        }
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Other hosts than the first have not listed them.
        let partitions = listed.map_or_else(|| self.list(true), Ok)?.len();
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*reading {
            return Ok(made.clone());
        }
        let ahead = Ahead::within(memory, partitions).or_set(&self.options);
        let fetcher = match self.plan()? {
            Some(plan) => Some(Arc::new(Fetcher::new(plan, self.lister()?, !self.recreated)?)),
            None => None,
        };
        let client = if fetcher.is_some() { self.lister()? } else { self.client(Some(&ahead))? };
        let made = Reading { fetcher, client, ahead };
        if let Some(same) = self.same()? {
            let watching = same.watch(self.look_again, Arc::downgrade(&made.client))?;
            *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = Some(watching);
        }
        *reading = Some(made.clone());
        Ok(made)
    }

    /// How records are fetched; `None` if librdkafka does it.
    fn plan(&self) -> Result<Option<Plan>> {
        if self.by_librdkafka {
            return Ok(None);
        }
        match Plan::new(&self.config(None)?, &self.options, self.watch.0.tokens()) {
            Ok(plan) => Ok(Some(plan)),
            Err(error) => {
                let reader = self.watch.0.operator();
                log::warn!("{reader}: librdkafka fetches the records, which is slower: {error}");
                Ok(None)
            }
        }
    }

    /// Lists the partitions; at first, topics that are in trouble for a moment are waited for: later it does no harm if they are missing.
    fn list(&self, is_first: bool) -> Result<Vec<Partition>> {
        let lister = self.lister()?;
        let patience = if is_first { PATIENCE } else { Duration::ZERO };
        let metadata = self.settled(&lister, patience)?;
        let topics = self.topics.of(&metadata, |name| lister.missing(name))?;
        if let Some(same) = self.same()? {
            let names: Vec<_> = topics.iter().map(|(name, _)| name.as_str()).collect();
            same.look(&names).map_err(|another| another.error())?;
        }
        let of = |(topic, partitions): (String, i32)| {
            (0..partitions).map(move |number| Partition { topic: topic.clone(), number })
        };
        let mut partitions: Vec<_> = topics.into_iter().flat_map(of).collect();
        partitions.sort();
        Ok(partitions)
    }

    /// What the cluster says of the topics, once it knows all of them, or after some time.
    fn settled(&self, lister: &Client, patience: Duration) -> Result<Metadata> {
        let began = Instant::now();
        loop {
            let metadata = lister.metadata(&self.topics)?;
            let in_trouble = self.topics.in_trouble(&metadata)?;
            if in_trouble.is_empty() {
                return Ok(metadata);
            }
            if began.elapsed() >= patience {
                let reader = self.watch.0.operator();
                for (name, code) in in_trouble {
                    log::warn!(
                        "{reader}: the partitions of topic {name} are not known for now: {code}"
                    );
                }
                return Ok(metadata);
            }
            thread::sleep(AGAIN);
        }
    }

    fn reader(
        &self,
        (fetcher, client): (Option<(Arc<Fetcher>, Room)>, Arc<Client>),
        split: &Partition,
        position: Position,
        cx: &SplitContext,
        memory: Reservation,
    ) -> Result<Reader> {
        let reader = match fetcher {
            Some(by) => Reader::by_fetcher(by, client, split, position, cx.waker(), memory),
            None => Reader::by_librdkafka(client, split, position, cx.waker(), memory)?,
        };
        Ok(reader.leaving_out_deleted(self.leaves_deleted))
    }

    /// Refuses what does not go together.
    fn check_settings(&self) -> Result<()> {
        let what = if self.begin == Begin::Committed && self.group.is_none() {
            "`Begin::Committed` begins where a group has committed: name it with `KafkaSource::group`"
        } else if self.look_again.is_zero() {
            "`KafkaSource::look_again_after` needs a time: zero would ask the brokers without a pause; a source that is to find no new \
             partitions can have days"
        } else if self.leaves_deleted && !self.topics.is_pattern() {
            "`KafkaSource::leave_out_deleted_topics` is for the topics of a pattern: those that are named have to be there"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, what))
    }

    /// Refuses offsets of partitions that are not read, and those that are none.
    fn check_offsets(&self, partitions: &[Partition]) -> Result<()> {
        let begins = match &self.begin {
            Begin::Offsets(offsets) => Some(offsets),
            _ => None,
        };
        let ends = match &self.until {
            Until::Offsets(offsets) => Some(offsets),
            _ => None,
        };
        let is_read = |(topic, number): &&(String, i32)| {
            partitions.iter().any(|at| at.topic == *topic && at.number == *number)
        };
        let all = || begins.into_iter().chain(ends).flatten();
        if let Some(((topic, number), offset)) = all().find(|(_, offset)| **offset < 0) {
            let what = format!(
                "{offset} is no offset of {topic}/{number}: they begin at 0; `Begin::Earliest` and `Begin::Latest` are the oldest and the \
                 newest record, `KafkaSource::until_now` ends behind the newest"
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        let mut named = all().map(|(named, _)| named);
        match named.find(|named| !is_read(named)) {
            None => Ok(()),
            Some((topic, number)) => {
                let what = format!("there is no partition {topic}/{number} to have an offset");
                Err(Error::new(ErrorKind::Config, what))
            }
        }
    }

    /// The offset at which a partition is first read.
    fn first_offset(&self, found: &Ends<'_>, is_new: bool) -> Result<i64> {
        let Ends { client, at, .. } = *found;
        let oldest = || Ok(found.get()?.0);
        let begin = if is_new { &Begin::Earliest } else { &self.begin };
        match begin {
            Begin::Earliest => oldest(),
            Begin::Latest => Ok(found.get()?.1),
            Begin::At(time) => offset_at(found, *time),
            Begin::Committed => match self.committed_offset(client, at)? {
                Some(offset) => Ok(offset),
                None => oldest(),
            },
            Begin::Offsets(offsets) => match offsets.get(&(at.topic.clone(), at.number)) {
                Some(offset) => {
                    let newest = found.get()?.1;
                    if *offset > newest {
                        let what = format!(
                            "the partition ends at {newest}, and cannot be read from {offset} on"
                        );
                        return Err(Error::new(ErrorKind::Config, what).at(place(at)));
                    }
                    Ok(*offset)
                }
                None => oldest(),
            },
        }
    }

    /// Refuses a checkpoint of a job that ends where this one does not, or the reverse: where partitions end is saved in it.
    fn check_end(&self, saved: Option<i64>, at: &Partition) -> Result<()> {
        let what = match (saved, &self.until) {
            (None, Until::Never) | (Some(_), Until::At(_) | Until::Now | Until::Offsets(_)) => {
                return Ok(());
            }
            (None, _) => "the checkpoint is of a job that reads the topics without an end",
            (Some(_), Until::Never) => {
                "the checkpoint is of a job that ends, where this one does not"
            }
        };
        let advice =
            "go on with the source as it was, or begin with another directory of checkpoints";
        Err(Error::new(ErrorKind::Config, format!("{what}: {advice}")).at(place(at)))
    }

    /// What the group has committed of a partition.
    fn committed_offset(&self, client: &Client, at: &Partition) -> Result<Option<i64>> {
        let list = list_of(at, Offset::Invalid)?;
        let ask = |patience| offset_in(&client.consumer.committed_offsets(list.clone(), patience)?);
        let group = self.group.as_deref().unwrap_or("thalweg");
        let needs = Needs { group, ..Needs::topic("`Describe`", &at.topic) };
        let asked = asked("ask for the group's offset", &needs, client.connections(), ask);
        asked.map_err(|error| error.at(place(at)))
    }

    /// Refuses a group that may not be used, before the job commits to it in vain. Whether it may be written to is only known then.
    fn check_group(&self, partitions: &[Partition]) -> Result<()> {
        let (Some(_), Some(first)) = (&self.group, partitions.first()) else { return Ok(()) };
        match self.committed_offset(&*self.lister()?, first) {
            Err(error) if error.kind() == ErrorKind::Config => Err(error),
            // The job does not depend on it.
            _ => Ok(()),
        }
    }

    /// The offset at which a partition ends, if it does.
    fn last_offset(&self, found: &Ends<'_>) -> Result<Option<i64>> {
        let at = found.at;
        match &self.until {
            Until::Never => Ok(None),
            Until::Now => Ok(Some(found.get()?.1)),
            Until::At(time) => offset_at(found, *time).map(Some),
            Until::Offsets(offsets) => {
                let newest = found.get()?.1;
                match offsets.get(&(at.topic.clone(), at.number)) {
                    Some(offset) if *offset > newest => {
                        let what = format!(
                            "the partition ends at {newest}, and cannot be read until {offset}"
                        );
                        Err(Error::new(ErrorKind::Config, what).at(place(at)))
                    }
                    offset => Ok(Some(offset.copied().unwrap_or(newest))),
                }
            }
        }
    }
}

impl SplitSource for KafkaSource {
    type Item = Message;
    type Split = Partition;
    type Position = Position;
    type Reader = Reader;

    fn describe(&self) -> String {
        format!("kafka {}", self.topics)
    }

    fn is_bounded(&self) -> bool {
        self.until != Until::Never
    }

    fn splits(&self) -> Result<Vec<Partition>> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_settings()?;
        match self.list(listed.is_none()) {
            Ok(partitions) => {
                if listed.is_none() {
                    self.check_offsets(&partitions)?;
                    self.check_group(&partitions)?;
                }
                *listed = Some(partitions.clone());
                Ok(partitions)
            }
            Err(error) => match &*listed {
                None => Err(error),
                // Trying again cannot help.
                Some(_) if matches!(error.kind(), ErrorKind::Config | ErrorKind::Input) => {
                    Err(error)
                }
                Some(before) => {
                    let (reader, topics) = (self.watch.0.operator(), &self.topics);
                    log::warn!(
                        "{reader}: no new partitions of {topics} can be found for now: {error}"
                    );
                    Ok(before.clone())
                }
            },
        }
    }

    fn look_again_after(&self) -> Option<Duration> {
        (self.until == Until::Never).then_some(self.look_again)
    }

    fn open(&self, split: &Partition, from: Option<Position>, cx: &SplitContext) -> Result<Reader> {
        self.watch.0.used_by(cx.operator(), self.group.as_deref().unwrap_or_default());
        let mut memory = cx.reserve();
        let Reading { fetcher, client, ahead } = self.reading(memory.pool())?;
        let fetcher = match fetcher {
            Some(fetcher) => {
                let may_be_less = cx.is_new() || !Ahead::is_set(&self.options);
                let room = ahead.room(&self.options).reserve(may_be_less, &mut memory)?;
                Some((fetcher, room))
            }
            None => {
                ahead.reserve(&mut memory)?;
                None
            }
        };
        if cx.is_new() && fetcher.is_none() {
            // Otherwise it looks for new partitions each five minutes.
            client.metadata(&self.topics)?;
        }
        let before = from.as_ref().and_then(|from| from.topic);
        let topic = match self.same()? {
            Some(same) => same.go_on(&split.topic, before).map_err(|another| another.error())?,
            None => None,
        };
        let position = match from {
            Some(position) => {
                self.check_end(position.until, split)?;
                // Of another topic or cluster, they are other epochs.
                let epoch = position.epoch.filter(|_| !self.recreated);
                Position { topic, epoch, ..position }
            }
            None => {
                // What was added to a source that ends after it had begun is behind its end.
                if cx.is_new() && self.is_bounded() {
                    let none = Position { next: 0, until: Some(0), topic, epoch: None };
                    return self.reader((fetcher, client), split, none, cx, memory);
                }
                let lister = self.lister()?;
                // One that was just created may have no leader yet.
                let patience = if cx.is_new() { LONG_PATIENCE } else { PATIENCE };
                let found = Ends { client: &lister, at: split, patience, found: OnceCell::new() };
                let next = self.first_offset(&found, cx.is_new())?;
                let until = self.last_offset(&found)?;
                Position { next, until, topic, epoch: None }
            }
        };
        self.reader((fetcher, client), split, position, cx, memory)
    }

    fn goes_on_without(&self, gone: &[Partition]) -> Result<bool> {
        Ok(self.leaves_deleted && self.lister()?.are_gone(gone))
    }

    fn committed(&self, positions: &[(Partition, Position)]) -> Result<()> {
        if self.group.is_none() || positions.is_empty() {
            return Ok(());
        }
        // Only for others to see: the job does not depend on it.
        if let Err(error) =
            self.lister()?.consumer.commit(&offsets_of(positions)?, CommitMode::Async)
        {
            self.watch.0.not_committed(&error);
        }
        Ok(())
    }

    fn finished(&self, positions: &[(Partition, Position)]) -> Result<()> {
        if self.group.is_none() || positions.is_empty() {
            return Ok(());
        }
        let (lister, offsets) = (self.lister()?, offsets_of(positions)?);
        let watch = self.watch.clone();
        let group = self.group.as_deref().unwrap_or_default();
        let needs = Needs { group, ..Needs::topic("`Read`", &positions[0].0.topic) };
        let failed = |doing, cause| watch.0.error(doing, &needs, cause);
        let (answered, answer) = mpsc::channel();
        // The client itself waits for brokers without an end.
        let commit = move || {
            let _ = answered.send(lister.consumer.commit(&offsets, CommitMode::Sync));
        };
        start("kafka-commit", commit)?;
        match answer.recv_timeout(PATIENCE) {
            Ok(committed) => committed.map_err(|cause| failed("commit the group's offsets", cause)),
            Err(_) => {
                let cause = KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut);
                Err(failed("commit the group's offsets in time", cause))
            }
        }
    }
}

/// The offsets of a group that has read so far.
fn offsets_of(positions: &[(Partition, Position)]) -> Result<TopicPartitionList> {
    let mut offsets = TopicPartitionList::with_capacity(positions.len());
    for (Partition { topic, number }, position) in positions {
        offsets
            .add_partition_offset(topic, *number, Offset::Offset(position.next))
            .map_err(|cause| error("name an offset", cause))?;
    }
    Ok(offsets)
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource")
            .field("brokers", &self.brokers)
            .field("topics", &self.topics)
            .field("begin", &self.begin)
            .finish_non_exhaustive()
    }
}

/// The offset of a list's only partition, if there is one. An answer may be of an error of the partition alone.
fn offset_in(list: &TopicPartitionList) -> KafkaResult<Option<i64>> {
    let elements = list.elements();
    let Some(first) = elements.first() else { return Ok(None) };
    first.error()?;
    match first.offset() {
        Offset::Offset(offset) => Ok(Some(offset)),
        _ => Ok(None),
    }
}

fn asked_of<T>(
    client: &Client,
    (doing, patience): (&str, Duration),
    at: &Partition,
    ask: impl FnMut(Duration) -> KafkaResult<T>,
) -> Result<T> {
    let needs = Needs::topic("`Describe`", &at.topic);
    let asked = asked_for(patience, doing, &needs, client.connections(), ask);
    asked.map_err(|error| error.at(place(at)))
}

/// Where a partition begins and ends, which is asked for once when it is opened.
struct Ends<'a> {
    client: &'a Client,
    at: &'a Partition,
    /// How long brokers may take to answer.
    patience: Duration,
    found: OnceCell<(i64, i64)>,
}

impl Ends<'_> {
    /// The oldest offset, and the one behind the newest record that is committed.
    fn get(&self) -> Result<(i64, i64)> {
        if let Some(found) = self.found.get() {
            return Ok(*found);
        }
        let Self { client, at, patience, .. } = *self;
        let ask = |patience| client.consumer.fetch_watermarks(&at.topic, at.number, patience);
        let (oldest, end) =
            asked_of(client, ("ask for the ends of the partition", patience), at, ask)?;
        client.connections().ends.set(&at.topic, at.number, end);
        Ok(*self.found.get_or_init(|| (oldest, end)))
    }
}

/// The offset of the first record with a timestamp, or behind the last one.
fn offset_at(found: &Ends<'_>, time: Timestamp) -> Result<i64> {
    let Ends { client, at, patience, .. } = *found;
    // A millisecond that has begun is over.
    let millis =
        time.as_micros().div_euclid(1000) + i64::from(time.as_micros().rem_euclid(1000) > 0);
    if millis < 0 {
        return Ok(found.get()?.0);
    }
    // Before the offset, so that no record of an earlier time comes in between.
    let (_, end) = found.get()?;
    let times = list_of(at, Offset::Offset(millis))?;
    let ask = |patience| offset_in(&client.consumer.offsets_for_times(times.clone(), patience)?);
    match asked_of(client, ("ask for the offset of a time", patience), at, ask)? {
        Some(offset) => Ok(offset),
        None => Ok(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;
    use rdkafka::types::RDKafkaRespErr;

    #[test]
    fn a_checkpoint_of_a_source_with_another_end_is_refused() {
        let source = || KafkaSource::new("127.0.0.1:1", "orders");
        let at = Partition { topic: "orders".to_owned(), number: 3 };
        source().check_end(None, &at).unwrap();
        source().until_now().check_end(Some(7), &at).unwrap();
        let without = source().check_end(Some(7), &at).unwrap_err();
        let with = source().until(Timestamp::from_micros(1)).check_end(None, &at).unwrap_err();
        for (error, what) in [(without, "of a job that ends"), (with, "without an end")] {
            assert_eq!(error.kind(), ErrorKind::Config);
            let text = error.to_string();
            assert!(text.contains("orders/3") && text.contains(what), "{text}");
        }
    }

    #[test]
    fn topics_in_passing_trouble_are_waited_for() {
        let cluster = MockCluster::<'static, DefaultProducerContext>::new(1).unwrap();
        let trouble = |code| cluster.topic_error("orders", code).unwrap();
        for topics in [Topics::from("orders"), Topics::matching("ord.*")] {
            cluster.create_topic("orders", 3, 1).ok();
            trouble(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE);
            let source = KafkaSource::new(cluster.bootstrap_servers(), topics);
            let listed = thread::scope(|scope| {
                let listing = scope.spawn(|| source.splits());
                thread::sleep(2 * AGAIN);
                trouble(RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
                listing.join().unwrap()
            });
            assert_eq!(listed.unwrap().len(), 3);
        }
    }

    /// No broker listens there, which the client hears while it waits.
    #[test]
    fn offsets_that_are_not_committed_in_time_say_why() {
        let source = KafkaSource::new("127.0.0.1:1", "orders").group("shop").until_now();
        let partition = Partition { topic: "orders".to_owned(), number: 0 };
        let position = Position { next: 1, until: Some(1), topic: None, epoch: None };
        let error = source.finished(&[(partition, position)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let what = "cannot commit the group's offsets in time: 127.0.0.1:1/bootstrap: Connect";
        assert!(error.message().starts_with(what), "{error}");
    }
}
