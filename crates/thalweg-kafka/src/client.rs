//! The client of a source: one for all partitions that a process reads.

use crate::connections::{Connections, Watch, missing_feature};
use crate::partition::Partition;
use crate::rights::{Needs, code_of, is_denial};
use crate::threads::start;
use crate::topics::Topics;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::metadata::Metadata;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::connector::SplitWaker;
use thalweg::{Error, ErrorKind, Result};

/// How long brokers may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// The same where a job runs that could go on.
pub(crate) const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// What has methods, or names that have to be found again.
const OURS: [&str; 4] =
    ["bootstrap.servers", "metadata.broker.list", "group.id", "transactional.id"];

/// What a user has set by librdkafka's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    set: BTreeMap<String, String>,
    /// Whether a closure gives tokens, for the mechanism OAUTHBEARER.
    has_tokens: bool,
}

const OAUTHBEARER: &str = "OAUTHBEARER";

impl Options {
    pub(crate) fn set(&mut self, name: String, value: String) {
        self.set.insert(name, value);
    }

    pub(crate) fn use_tokens(&mut self) {
        self.has_tokens = true;
    }

    /// Of what is set.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.set.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }

    /// Settings of a client: ours, and those of the user over them.
    ///
    /// # Errors
    ///
    /// If the user has set what must be as it is.
    pub(crate) fn over(
        &self,
        brokers: &str,
        usual: &[(&str, &str)],
        fixed: &[(&str, &str)],
    ) -> Result<ClientConfig> {
        let mut config = ClientConfig::new();
        // What a broker closes a connection for is on this level, and in errors whether it is logged or not.
        if (config.log_level as i32) < RDKafkaLogLevel::Info as i32 {
            config.set_log_level(RDKafkaLogLevel::Info);
        }
        check_brokers(brokers)?;
        config.set("bootstrap.servers", brokers);
        usual.iter().for_each(|(name, value)| _ = config.set(*name, *value));
        self.check_tokens()?;
        if self.has_tokens {
            config.set("sasl.mechanism", OAUTHBEARER);
        }
        for (name, value) in &self.set {
            if OURS.contains(&name.as_str()) || fixed.iter().any(|(fixed, _)| fixed == name) {
                let instead = instead_of(name);
                let what =
                    format!("the option `{name}` cannot be set: the job depends on it{instead}");
                return Err(Error::new(ErrorKind::Config, what));
            }
            check_file(name, value)?;
            config.set(name, value);
        }
        fixed.iter().for_each(|(name, value)| _ = config.set(*name, *value));
        Ok(config)
    }

    /// Refuses tokens that no login uses, and logins by OAUTHBEARER that have none.
    fn check_tokens(&self) -> Result<()> {
        const CLOSURE: &str = "a closure gives tokens (`KafkaSource::tokens`, `KafkaSink::tokens`)";
        let is_of_librdkafka = |name: &&str| {
            name.starts_with("sasl.oauthbearer.") || *name == "enable.sasl.oauthbearer.unsecure.jwt"
        };
        let mechanism = ["sasl.mechanism", "sasl.mechanisms"];
        let mechanism = mechanism.into_iter().find_map(|name| Some((name, self.get(name)?)));
        let protocol = self.get("security.protocol").unwrap_or("plaintext");
        let has_login = protocol.to_lowercase().starts_with("sasl_");
        let of_librdkafka = self.names().find(is_of_librdkafka);
        let what = match (of_librdkafka, mechanism) {
            (Some(name), _) => format!(
                "the option `{name}` cannot be set: librdkafka is compiled without a client for token servers, so {CLOSURE}"
            ),
            (None, Some((name, OAUTHBEARER))) if !self.has_tokens => {
                format!("the option `{name}` of `OAUTHBEARER` needs tokens: {CLOSURE}")
            }
            (None, Some((name, other))) if self.has_tokens && other != OAUTHBEARER => {
                format!("the option `{name}` of `{other}` takes no tokens: `OAUTHBEARER` does")
            }
            _ if self.has_tokens && !has_login => format!(
                "tokens need the option `security.protocol` of `sasl_ssl` (or `sasl_plaintext`), and it is `{protocol}`"
            ),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Config, what))
    }
}

/// Refuses what is no list of brokers, which librdkafka takes for names of hosts.
fn check_brokers(brokers: &str) -> Result<()> {
    let is_broker = |broker: &str| {
        let (protocol, rest) =
            broker.split_once("://").map_or((None, broker), |(p, r)| (Some(p), r));
        let protocols = ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"];
        let is_known = |protocol: &str| protocols.contains(&protocol.to_ascii_lowercase().as_str());
        // An address of IPv6 is in brackets if it has a port.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (rest, None),
        };
        protocol.is_none_or(is_known)
            && !host.is_empty()
            && !host.contains(['/', ' '])
            && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    let named = || brokers.split(',').map(str::trim).filter(|broker| !broker.is_empty());
    let other = match named().next() {
        None => Some(brokers),
        Some(_) => named().find(|broker| !is_broker(broker)),
    };
    match other {
        None => Ok(()),
        Some(broker) => {
            let what = format!(
                "`{broker}` of the brokers `{brokers}` is none: give HOST:PORT, several with commas between them"
            );
            Err(Error::new(ErrorKind::Config, what))
        }
    }
}

/// Settings that name files.
const FILES: [&str; 5] = [
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
];

/// Refuses the name of a file that cannot be read: of that, librdkafka gives only a code of OpenSSL's.
fn check_file(name: &str, value: &str) -> Result<()> {
    if !FILES.contains(&name) || (name == "ssl.ca.location" && value == "probe") {
        return Ok(());
    }
    // As librdkafka does.
    std::fs::metadata(value.trim_start()).map(drop).map_err(|cause| {
        let what = format!("the option `{name}` names `{value}`, which cannot be found");
        Error::new(ErrorKind::Config, what).caused_by(cause)
    })
}

/// What there is in place of an option that cannot be set.
fn instead_of(name: &str) -> &'static str {
    match name {
        "bootstrap.servers" | "metadata.broker.list" => {
            "; brokers are the first argument of sources and sinks"
        }
        "group.id" => "; `KafkaSource::group` sets that of a source",
        "auto.offset.reset" => {
            "; `KafkaSource::begin` says where to begin, and records that are gone are an error"
        }
        "enable.auto.commit" => {
            "; with `KafkaSource::group`, a source commits offsets with each checkpoint"
        }
        "transactional.id" => "; `KafkaSink::transactional_id_prefix` sets how such names begin",
        "transaction.timeout.ms" => "; it is the argument of `KafkaSink::open_transactions`",
        _ => "",
    }
}

/// An error of the client, of kind [`Config`](ErrorKind::Config) if it is one of the settings.
pub(crate) fn error(doing: &str, cause: KafkaError) -> Error {
    let is_too_long = code_of(&cause) == Some(Code::InvalidTransactionTimeout);
    let kind = match &cause {
        KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) => ErrorKind::Config,
        _ if is_too_long => ErrorKind::Config,
        _ => ErrorKind::Io,
    };
    let what = match missing_feature(&cause) {
        None if let KafkaError::ClientConfig(_, why, name, _) = &cause => {
            let what = match why.starts_with("No such configuration property") {
                true => "librdkafka has no option of this name",
                false => why.as_str(),
            };
            return Error::new(kind, format!("cannot {doing}: the option `{name}`: {what}"));
        }
        None if is_too_long => format!(
            "cannot {doing}: the brokers allow less time for a transaction, as their `transaction.max.timeout.ms` says; ask for less, by the \
             option `transaction.timeout.ms` of an exactly-once sink (600000 by default) or the argument of `KafkaSink::open_transactions`"
        ),
        Some("gssapi") => format!(
            "cannot {doing}: Kerberos needs the feature `gssapi` of the crate thalweg-kafka; it is the mechanism where `sasl.mechanism` is \
             not set: passwords need PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        ),
        Some(feature) => {
            format!(
                "cannot {doing}: a setting needs the feature `{feature}` of the crate thalweg-kafka"
            )
        }
        None => format!("cannot {doing}"),
    };
    Error::new(kind, what).caused_by(cause)
}

/// Whether trying again cannot help.
pub(crate) fn is_hopeless(error: &KafkaError) -> bool {
    let code = code_of(error);
    matches!(error, KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_))
        || code.is_some_and(is_denial)
        || matches!(
            code,
            Some(
                Code::SaslAuthenticationFailed
                    | Code::UnsupportedVersion
                    | Code::InvalidTransactionTimeout
                    | Code::MessageSizeTooLarge
                    | Code::InvalidTopic
                    | Code::PolicyViolation
                    | Code::InvalidRecord
                    | Code::InvalidTimestamp
            )
        )
}

/// Asks brokers until they answer, for a while.
pub(crate) fn asked<T>(
    doing: &str,
    needs: &Needs<'_>,
    connections: &Connections,
    ask: impl FnMut(Duration) -> KafkaResult<T>,
) -> Result<T> {
    asked_for(PATIENCE, doing, needs, connections, ask)
}

/// The same for so long.
pub(crate) fn asked_for<T>(
    patience: Duration,
    doing: &str,
    needs: &Needs<'_>,
    connections: &Connections,
    mut ask: impl FnMut(Duration) -> KafkaResult<T>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        match ask(Duration::from_secs(5)) {
            Ok(answer) => {
                connections.work();
                return Ok(answer);
            }
            Err(cause)
                if connections.are_hopeless(needs, &cause) || began.elapsed() >= patience =>
            {
                return Err(connections.error(doing, needs, cause));
            }
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// The first thing that went wrong in a client without belonging to one reader or writer. It stays, so that nothing is taken for
/// complete afterwards.
#[derive(Default)]
pub(crate) struct Faults {
    any: AtomicBool,
    first: Mutex<Option<Fault>>,
}

/// Makes the error, once for each that is to have it.
pub(crate) type Fault = Box<dyn Fn() -> Error + Send>;

impl Faults {
    pub(crate) fn add(&self, error: Fault) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn check(&self) -> Result<()> {
        if self.any.load(Ordering::Acquire) { self.found() } else { Ok(()) }
    }

    #[cold]
    fn found(&self) -> Result<()> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.as_ref().map_or(Ok(()), |error| Err(error()))
    }
}

pub(crate) type Consumer = BaseConsumer<Watch>;

/// A client of librdkafka, and the thread that attends to what does not belong to a partition.
pub(crate) struct Client {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) faults: Arc<Faults>,
    /// Of the readers, some of which may be gone.
    wakers: Arc<Mutex<Vec<Weak<SplitWaker>>>>,
    /// Partitions of which the brokers have said that they are not there.
    pub(crate) suspects: Arc<Mutex<Vec<Suspect>>>,
    stops: Arc<AtomicBool>,
}

/// Where a partition begins and ends, once it is known; `None` if no broker has answered.
pub(crate) type FoundEnds = Arc<OnceLock<Option<(i64, i64)>>>;

/// A partition that may not be there any more.
pub(crate) struct Suspect {
    pub(crate) topic: String,
    pub(crate) number: i32,
    /// When it was said.
    pub(crate) since: Instant,
    /// Whether it is not believed at once that it is gone, as the job would go on without it.
    pub(crate) asks_again: bool,
    /// What its reader looks at, and may have given up.
    pub(crate) verdict: Weak<OnceLock<Verdict>>,
}

/// What the brokers say of a partition when they have had time to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    There,
    Gone,
}

/// How long a partition may be unknown, as it is for a moment where brokers start.
const UNKNOWN: Duration = Duration::from_secs(10);

impl Client {
    pub(crate) fn new(config: &ClientConfig, watch: &Watch) -> Result<Self> {
        let made = watch.client(config);
        let consumer: Consumer = made.map_err(|cause| error("make a client of Kafka", cause))?;
        let client = Self {
            consumer: Arc::new(consumer),
            faults: Arc::default(),
            wakers: Arc::default(),
            suspects: Arc::default(),
            stops: Arc::default(),
        };
        let (consumer, faults) = (Arc::clone(&client.consumer), Arc::clone(&client.faults));
        let (suspects, stops) = (Arc::clone(&client.suspects), Arc::clone(&client.stops));
        let wakers = Arc::clone(&client.wakers);
        let fail = move |error: Fault| fail(&faults, &wakers, error);
        let attend = move || attend(&consumer, &fail, &suspects, &stops);
        start("kafka-source", attend)?;
        Ok(client)
    }

    /// What wakes a reader when something has gone wrong that it has to look for, as long as the reader keeps it.
    pub(crate) fn waked(&self, waker: SplitWaker) -> Arc<SplitWaker> {
        let waker = Arc::new(waker);
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(&waker));
        waker
    }

    /// Ends the job.
    pub(crate) fn fail(&self, error: Fault) {
        fail(&self.faults, &self.wakers, error);
    }

    /// Asks on a thread where a partition begins and ends; `None` if no broker answers. The reader is waked then.
    pub(crate) fn ends(
        self: &Arc<Self>,
        at: &Partition,
        waker: Arc<SplitWaker>,
    ) -> Result<FoundEnds> {
        let answer = Arc::<OnceLock<_>>::default();
        let (client, at, sets) = (Arc::clone(self), at.clone(), Arc::clone(&answer));
        let ask = move || {
            let (consumer, patience) = (&client.consumer, Duration::from_secs(5));
            let ends = consumer.fetch_watermarks(&at.topic, at.number, patience).ok();
            _ = sets.set(ends);
            waker.wake();
        };
        start("kafka-ends", ask)?;
        Ok(answer)
    }

    /// What is known of the connections.
    pub(crate) fn connections(&self) -> &Connections {
        &self.consumer.context().0
    }

    /// What the cluster says of topics.
    pub(crate) fn metadata(&self, topics: &Topics) -> Result<Metadata> {
        let ask = |patience| self.consumer.fetch_metadata(topics.single(), patience);
        let needs = Needs::topic("`Describe`", topics.single().unwrap_or_default());
        asked(&format!("list the partitions of {topics}"), &needs, self.connections(), ask)
    }

    /// Whether brokers say twice, with time between, that none of these partitions is there: those that have just started may not
    /// know of it yet.
    pub(crate) fn are_gone(&self, partitions: &[Partition]) -> bool {
        let is_gone = |Partition { topic, number }: &Partition| {
            find(&self.consumer, topic, *number) == Some(Verdict::Gone)
        };
        partitions.iter().all(is_gone) && {
            thread::sleep(UNKNOWN);
            partitions.iter().all(is_gone)
        }
    }

    /// Why a topic is not among those that the cluster has listed. A list of all topics leaves out what the user may not see.
    pub(crate) fn missing(&self, name: &str) -> Error {
        match self.metadata(&Topics::from(name)) {
            Ok(metadata) => missing(&metadata, name),
            Err(error) => error,
        }
    }
}

/// Why there are no partitions of a topic in an answer about it.
pub(crate) fn missing(metadata: &Metadata, name: &str) -> Error {
    let topic = metadata.topics().iter().find(|topic| topic.name() == name);
    let code = topic.and_then(|topic| topic.error()).map(Code::from);
    let denied = Needs::topic("`Describe`", name).denied(&format!("find the topic {name}"), code);
    denied.unwrap_or_else(|| {
        let what = format!(
            "there is no topic `{name}`: create it first, or look at its name and the brokers"
        );
        Error::new(ErrorKind::Io, what)
    })
}

fn fail(faults: &Faults, wakers: &Mutex<Vec<Weak<SplitWaker>>>, error: Fault) {
    faults.add(error);
    let wakers = wakers.lock().unwrap_or_else(PoisonError::into_inner);
    wakers.iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
    }
}

/// Serves what is not in the queue of a partition.
fn attend(
    consumer: &Consumer,
    fail: &dyn Fn(Fault),
    suspects: &Mutex<Vec<Suspect>>,
    stops: &AtomicBool,
) {
    let connections = &consumer.context().0;
    let mut is_refused = false;
    while !stops.load(Ordering::Acquire) {
        // Another client of the source may have heard it.
        if !is_refused && connections.are_refused() {
            is_refused = true;
            let connections = Arc::clone(connections);
            fail(Box::new(move || connections.refused()));
        }
        let mut all = suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let due = all.extract_if(.., |suspect| suspect.since.elapsed() >= UNKNOWN);
        let due: Vec<_> = due.collect();
        drop(all);
        let again =
            judged(due, |topic| consumer.fetch_metadata(Some(topic), Duration::from_secs(5)).ok());
        suspects.lock().unwrap_or_else(PoisonError::into_inner).extend(again);
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Err(cause @ KafkaError::MessageConsumptionFatal(_))) => {
                fail(Box::new(move || error("go on with Kafka's client", cause.clone())));
            }
            // Brokers come back, and what does not is seen by the readers.
            Some(Err(_)) => {}
            // Every partition has a queue of its own before it is assigned.
            Some(Ok(_)) => fail(Box::new(|| {
                let what = "a record came by the queue of no partition";
                Error::new(ErrorKind::Internal, what)
            })),
        }
    }
}

/// Sets the verdicts of partitions by what brokers say of their topics, with one request a topic; returns those that are not known
/// yet. Where there is no answer for one topic, there is none for the others: each would be waited for as long.
fn judged(suspects: Vec<Suspect>, mut ask: impl FnMut(&str) -> Option<Metadata>) -> Vec<Suspect> {
    let mut answers = BTreeMap::<String, Metadata>::new();
    let (mut again, mut is_answered) = (Vec::new(), true);
    for mut suspect in suspects {
        let Some(verdict) = suspect.verdict.upgrade() else { continue };
        if is_answered && !answers.contains_key(&suspect.topic) {
            match ask(&suspect.topic) {
                Some(answer) => _ = answers.insert(suspect.topic.clone(), answer),
                None => is_answered = false,
            }
        }
        let answer = answers.get(&suspect.topic);
        match answer.and_then(|answer| verdict_of(answer, &suspect.topic, suspect.number)) {
            Some(found) if found == Verdict::There || !suspect.asks_again => {
                _ = verdict.set(found);
            }
            // Once more; or no broker answers.
            found => {
                suspect.asks_again &= found.is_none();
                suspect.since = Instant::now();
                again.push(suspect);
            }
        }
    }
    again
}

/// Whether a partition is there, as far as brokers answer.
fn find(consumer: &Consumer, topic: &str, number: i32) -> Option<Verdict> {
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(5)).ok()?;
    verdict_of(&metadata, topic, number)
}

fn verdict_of(metadata: &Metadata, topic: &str, number: i32) -> Option<Verdict> {
    let topic = metadata.topics().iter().find(|found| found.name() == topic)?;
    let is_gone = |code| matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic);
    if topic.error().map(Code::from).is_some_and(|code| !is_gone(code)) {
        return None;
    }
    let is_there = topic.partitions().iter().any(|partition| partition.id() == number);
    Some(if is_there { Verdict::There } else { Verdict::Gone })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;

    #[test]
    fn what_is_no_list_of_brokers_is_refused() {
        let check = |brokers| check_brokers(brokers).map_err(|error| error.message().to_owned());
        for brokers in
            ["a:9092", "a", "a:1, b:2,", "SSL://a:1", "10.0.0.1:9", "[::1]:9092", "[fe80::1]"]
        {
            assert_eq!(check(brokers), Ok(()), "{brokers}");
        }
        for brokers in ["", ",", "http://a:1", "a:port", "a:0", ":9092", "a:1 b:2", "a:1/topic"] {
            let said = check(brokers).expect_err(brokers);
            assert!(said.ends_with("give HOST:PORT, several with commas between them"), "{said}");
        }
    }

    #[test]
    fn options_that_cannot_be_are_named() {
        let over = |name: &str, value: &str| {
            let mut options = Options::default();
            options.set(name.to_owned(), value.to_owned());
            let config = options.over("a:1", &[], &[])?;
            let made = config.create::<rdkafka::consumer::BaseConsumer>();
            made.map(drop).map_err(|cause| error("make a client of Kafka", cause))
        };
        for (name, value, says) in [
            ("max.poll.records", "500", "the option `max.poll.records`: librdkafka has no option"),
            ("fetch.wait.max.ms", "-3", "the option `fetch.wait.max.ms`: "),
            ("ssl.ca.location", "/is/not/there", "names `/is/not/there`, which cannot be found"),
        ] {
            let error = over(name, value).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[test]
    fn tokens_and_the_settings_of_logins_go_together() {
        let over = |settings: &[(&str, &str)], has_tokens| {
            let mut options = Options { has_tokens, ..Options::default() };
            let set = |(name, value): &(&str, &str)| options.set((*name).into(), (*value).into());
            settings.iter().for_each(set);
            options.over("a:1", &[], &[])
        };
        let protocol = ("security.protocol", "SASL_SSL");
        let oauthbearer = ("sasl.mechanisms", "OAUTHBEARER");
        for settings in [&[protocol][..], &[protocol, oauthbearer]] {
            let config = over(settings, true).unwrap();
            assert_eq!(config.get("sasl.mechanism"), Some("OAUTHBEARER"));
        }
        for (settings, has_tokens, says) in [
            (
                &[protocol, oauthbearer][..],
                false,
                "`sasl.mechanisms` of `OAUTHBEARER` needs tokens",
            ),
            (&[protocol, ("sasl.mechanism", "PLAIN")], true, "`sasl.mechanism` of `PLAIN`"),
            (&[("security.protocol", "ssl")], true, "and it is `ssl`"),
            (&[], true, "and it is `plaintext`"),
            (&[("sasl.oauthbearer.method", "oidc")], true, "`sasl.oauthbearer.method` cannot"),
            (&[("sasl.oauthbearer.config", "a")], false, "a closure gives tokens"),
            (&[("enable.sasl.oauthbearer.unsecure.jwt", "true")], false, "a closure gives tokens"),
        ] {
            let error = over(settings, has_tokens).expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(says), "{error}");
        }
    }

    /// Partitions of these topics and numbers, and what is found out of them.
    fn suspects(of: &[(&str, i32)]) -> (Vec<Suspect>, Vec<Arc<OnceLock<Verdict>>>) {
        let suspect = |(topic, number): &(&str, i32)| {
            let verdict = Arc::<OnceLock<_>>::default();
            let suspect = Suspect {
                topic: (*topic).to_owned(),
                number: *number,
                since: Instant::now(),
                asks_again: false,
                verdict: Arc::downgrade(&verdict),
            };
            (suspect, verdict)
        };
        of.iter().map(suspect).unzip()
    }

    #[test]
    fn each_topic_is_asked_for_once_and_none_where_no_broker_answers() {
        let (all, verdicts) = suspects(&[("a", 0), ("b", 0), ("a", 1), ("c", 0)]);
        let mut asked = 0;
        let again = judged(all, |_| {
            asked += 1;
            None
        });
        assert_eq!((asked, again.len()), (1, 4));
        assert!(verdicts.iter().all(|verdict| verdict.get().is_none()));
        let cluster = MockCluster::<'static, DefaultProducerContext>::new(1).unwrap();
        for topic in ["a", "b"] {
            cluster.create_topic(topic, 2, 1).unwrap();
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        let consumer: BaseConsumer = config.create().unwrap();
        let (all, verdicts) = suspects(&[("a", 0), ("b", 1), ("a", 7), ("b", 0)]);
        let mut asked = 0;
        let again = judged(all, |topic| {
            asked += 1;
            consumer.fetch_metadata(Some(topic), Duration::from_secs(60)).ok()
        });
        assert_eq!((asked, again.len()), (2, 0));
        use Verdict::{Gone, There};
        let verdicts: Vec<_> = verdicts.iter().map(|verdict| verdict.get().copied()).collect();
        assert_eq!(verdicts, [There, There, Gone, There].map(Some));
    }
}
