//! A real broker, and plain clients of it that share nothing with the crate under test but librdkafka.

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A command that ends with this process.
pub fn apart(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Runs tests, those whose names contain one of the program's arguments if there are any. A test fails if it panics.
#[allow(dead_code)]
pub fn run_tests<T>(
    tests: impl IntoIterator<Item = (&'static str, T)>,
    mut run: impl FnMut(T),
) -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let (mut passed, mut failures) = (0, Vec::new());
    for (name, test) in tests {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part)) {
            continue;
        }
        let begun = Instant::now();
        let verdict = match catch_unwind(AssertUnwindSafe(|| run(test))) {
            Ok(()) => {
                passed += 1;
                "ok"
            }
            Err(panic) => {
                let text = panic.downcast::<String>().map(|text| *text);
                let text =
                    text.or_else(|panic| panic.downcast::<&str>().map(|text| (*text).to_owned()));
                failures.push((name, text.unwrap_or_default()));
                "FAILED"
            }
        };
        println!("test {name} ... {verdict} ({:.1} s)", begun.elapsed().as_secs_f64());
    }
    // Again, behind all that tests and their threads have printed.
    for (name, message) in &failures {
        println!("\n{name} failed: {message}");
    }
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored", failures.len());
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// What a broker has beside its plain listener.
#[derive(Default)]
pub struct More {
    /// Names, protocols and ports of further listeners, which clients reach by `localhost`.
    pub listeners: Vec<(&'static str, &'static str, u16)>,
    pub properties: String,
    /// Users with passwords in the cluster's metadata, as the tool that formats it takes them.
    pub users: Vec<String>,
}

/// A broker: a cluster of its own, which others may [join](Self::join).
pub struct Broker {
    folder: TempDir,
    classes: OsString,
    port: u16,
    /// Of the listener for users with passwords, which brokers that have joined do not have.
    users: u16,
    /// Of the cluster's controller.
    controller: u16,
    child: Child,
}

/// What a user may do or not, by the numbers of Kafka's protocol: the kind of the resource, its name, how names match, the
/// operation.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub struct Right<'a>(pub u8, pub &'a str, pub u8, pub u8);

impl<'a> Right<'a> {
    pub const ALL: u8 = 2;
    pub const DESCRIBE: u8 = 8;
    pub const READ: u8 = 3;
    pub const WRITE: u8 = 4;

    #[allow(dead_code)]
    pub fn topic(name: &'a str, operation: u8) -> Self {
        Self(2, name, 3, operation)
    }

    #[allow(dead_code)]
    pub fn group(name: &'a str, operation: u8) -> Self {
        Self(3, name, 3, operation)
    }

    /// All groups whose names begin so.
    #[allow(dead_code)]
    pub fn groups(prefix: &'a str, operation: u8) -> Self {
        Self(3, prefix, 4, operation)
    }

    /// All transactional ids that begin so.
    #[allow(dead_code)]
    pub fn transactions(prefix: &'a str, operation: u8) -> Self {
        Self(5, prefix, 4, operation)
    }
}

/// The isolation level of consumers that read what is committed.
const COMMITTED: &str = "read_committed";

/// A text of Kafka's protocol.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
}

impl Broker {
    /// Starts a broker, of the jars in a folder.
    #[allow(dead_code)]
    pub fn start(jars: &Path) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        Self::start_with(jars, folder, &More::default())
    }

    /// Starts a broker that has more, and its files in this folder. It keeps all records: those of tests may be of 1970, and be
    /// deleted for their age while they are written.
    pub fn start_with(jars: &Path, folder: TempDir, more: &More) -> Self {
        let (mut listeners, mut advertised, mut map) = <(String, String, String)>::default();
        for (name, protocol, port) in &more.listeners {
            listeners += &format!(",{name}://127.0.0.1:{port}");
            advertised += &format!(",{name}://localhost:{port}");
            map += &format!(",{name}:{protocol}");
        }
        let [port, controller, users] = [free_port(), free_port(), free_port()];
        let data = folder.path().join("data");
        let properties = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},USERS://127.0.0.1:{users}{listeners}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{users}{advertised}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT{map}\n\
             listener.name.users.sasl.enabled.mechanisms=PLAIN\n\
             listener.name.users.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_limited=\"secret\" user_changed=\"before\";\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:ANONYMOUS\n\
             allow.everyone.if.no.acl.found=true\n\
             log.dirs={}\n\
             auto.create.topics.enable=false\n\
             group.initial.rebalance.delay.ms=0\n\
             offsets.topic.num.partitions=4\n\
             offsets.topic.replication.factor=1\n\
             transaction.state.log.num.partitions=4\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             transaction.abort.timed.out.transaction.cleanup.interval.ms=500\n\
             log.retention.check.interval.ms=500\n\
             log.retention.ms=-1\n\
             log.cleaner.backoff.ms=200\n\
             broker.session.timeout.ms=3000\n\
             broker.heartbeat.interval.ms=500\n\
             {}",
            data.display(),
            more.properties
        );
        fs::write(folder.path().join("properties"), properties).expect("the folder is ours");
        let classes = jars.join("*").into_os_string();
        let users_of = more.users.iter().flat_map(|user| ["--add-scram", user.as_str()]);
        let arguments: Vec<_> = ["--standalone"].into_iter().chain(users_of).collect();
        set_up(folder.path(), &classes, &arguments);
        let child = serve(folder.path(), &classes);
        let broker = Self { folder, classes, port, users, controller, child };
        broker.wait();
        broker
    }

    /// Starts a further broker of the cluster, with this number, which is not 1. It is no controller.
    #[allow(dead_code)]
    pub fn join(&self, number: i32) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (classes, controller, port) = (self.classes.clone(), self.controller, free_port());
        let properties = format!(
            "process.roles=broker\n\
             node.id={number}\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:ANONYMOUS\n\
             log.dirs={}\n\
             auto.create.topics.enable=false\n\
             log.retention.ms=-1\n\
             broker.session.timeout.ms=3000\n\
             broker.heartbeat.interval.ms=500\n",
            folder.path().join("data").display()
        );
        fs::write(folder.path().join("properties"), properties).expect("the folder is ours");
        set_up(folder.path(), &classes, &["--no-initial-controllers"]);
        let child = serve(folder.path(), &classes);
        let broker = Self { folder, classes, port, users: 0, controller, child };
        broker.wait();
        broker
    }

    /// Kills it with signal 9.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was started here");
    }

    /// Stops it where it is, with all its connections.
    #[allow(dead_code)]
    pub fn halt(&self) {
        self.signal("STOP");
    }

    /// Has it go on behind [`halt`](Self::halt).
    #[allow(dead_code)]
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    #[allow(dead_code)]
    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &command]).status().expect("there is a shell");
        assert!(sent.success(), "{command}");
    }

    /// Starts it again, with what it had.
    pub fn restart(&mut self) {
        self.child = serve(self.folder.path(), &self.classes);
        self.wait();
    }

    /// Starts it again, or has it go on, if a test that failed has left it killed or halted.
    #[allow(dead_code)]
    pub fn revive(&mut self) {
        match self.child.try_wait().expect("it was started here") {
            Some(_) => self.restart(),
            None => self.go_on(),
        }
    }

    /// Starts it again, and kills it after a time: it may have begun to answer or not.
    #[allow(dead_code)]
    pub fn start_and_kill(&mut self, after: Duration) {
        self.child = serve(self.folder.path(), &self.classes);
        thread::sleep(after);
        self.kill();
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the broker does not answer");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The broker's classes, for Java's option `-cp`.
    #[allow(dead_code)]
    pub fn classes(&self) -> &OsString {
        &self.classes
    }

    /// A folder that is removed with the broker.
    #[allow(dead_code)]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where users come with passwords.
    #[allow(dead_code)]
    pub fn address_of_users(&self) -> String {
        format!("127.0.0.1:{}", self.users)
    }

    /// Starts it again with another password of the user `changed`.
    #[allow(dead_code)]
    pub fn restart_with_password(&mut self, before: &str, after: &str) {
        self.kill();
        let (path, quoted) = (self.folder.path().join("properties"), |text| format!("\"{text}\""));
        let properties = fs::read_to_string(&path).expect("it was written");
        fs::write(path, properties.replace(&quoted(before), &quoted(after))).expect("it is ours");
        self.restart();
    }

    /// Makes a rule of what a user may do or not; returns when the broker knows it. All others but the super user lose all rights
    /// to the resource: what has a rule is not free for all any more.
    #[allow(dead_code)]
    pub fn rule(&self, user: &str, right: Right<'_>, is_allowed: bool) {
        let Right(kind, name, pattern, operation) = right;
        let mut rule = [&1i32.to_be_bytes()[..], &[kind], &text(name), &[pattern]].concat();
        rule.extend([text(&format!("User:{user}")), text("*")].concat());
        rule.extend([operation, 2 + u8::from(is_allowed)]);
        let answer = self.asked(30, 1, &rule);
        assert_eq!(answer[8..10], [0, 0], "the rule is made: {answer:?}");
        let begun = Instant::now();
        // All rules for resources of this name.
        let rules = [&[kind][..], &text(name), &[pattern, 255, 255, 255, 255]].concat();
        let rules = [&rules[..], &[operation, 2 + u8::from(is_allowed)]].concat();
        while self.asked(29, 1, &rules).len() < 20 {
            assert!(begun.elapsed() < PATIENCE, "the broker does not know the rule");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How many bytes in a second clients of this name may write (`producer_byte_rate`) or fetch (`consumer_byte_rate`); as many as
    /// they can if it is `None`.
    pub fn quota(&self, client: &str, rate: &str, bytes: Option<u32>) {
        let one = 1i32.to_be_bytes();
        let entity = [&one[..], &one, &text("client-id"), &text(client)].concat();
        let most = f64::from(bytes.unwrap_or_default()).to_be_bytes();
        let quota = [&one[..], &text(rate), &most, &[u8::from(bytes.is_none())]];
        let answer = self.asked(49, 0, &[&entity[..], &quota.concat(), &[0]].concat());
        // Behind the time for which it is throttled, and the number of entries.
        assert_eq!(answer[8..10], [0, 0], "the quota is set: {answer:?}");
    }

    /// The answer to a request of a version of Kafka's protocol that has no tags, behind the request's number.
    fn asked(&self, key: i16, version: i16, body: &[u8]) -> Vec<u8> {
        let head =
            [&key.to_be_bytes()[..], &version.to_be_bytes(), &[0; 4], &text("a test")].concat();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        let length = (head.len() + body.len()) as i32;
        let request = [&length.to_be_bytes()[..], &head, body].concat();
        stream.write_all(&request).expect("it reads");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("it answers");
        let mut answer = vec![0; i32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).expect("it answers");
        answer.split_off(4)
    }

    /// The settings of a client.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.address());
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("a client")
    }

    fn make(&self, topic: &NewTopic<'_>) -> String {
        let made = block_on(self.admin().create_topics([topic], &options())).expect("an answer");
        made.into_iter().for_each(|made| _ = made.expect("the topic is new"));
        topic.name.to_owned()
    }

    /// Makes a topic.
    pub fn topic(&self, name: &str, partitions: i32) -> String {
        self.make(&NewTopic::new(name, partitions, TopicReplication::Fixed(1)))
    }

    /// Makes a topic whose partitions these brokers have: of each, the first one leads it.
    #[allow(dead_code)]
    pub fn replicated_topic(
        &self,
        name: &str,
        brokers: &[&[i32]],
        settings: &[(&str, &str)],
    ) -> String {
        let partitions = brokers.len() as i32;
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Variable(brokers));
        for (name, value) in settings {
            topic = topic.set(name, value);
        }
        self.make(&topic)
    }

    /// Makes a topic with a partition whose records are compacted by keys.
    pub fn compacted_topic(&self, name: &str) -> String {
        let topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
        self.make(&topic.set("cleanup.policy", "compact"))
    }

    /// Makes a topic with a partition that is compacted soon: all but the records since its last segment began.
    pub fn soon_compacted_topic(&self, name: &str) -> String {
        let topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
        let topic = topic.set("cleanup.policy", "compact").set("segment.ms", "100");
        self.make(&topic.set("min.cleanable.dirty.ratio", "0.0001"))
    }

    /// The offset behind all that a partition has, as tools have it that show how far a group is behind.
    pub fn end_of(&self, topic: &str, partition: i32) -> i64 {
        let consumer: BaseConsumer = self.config().create().expect("a client");
        consumer.fetch_watermarks(topic, partition, PATIENCE).expect("an answer").1
    }

    /// The number of records that a partition was ever given, also in transactions that are open.
    pub fn appended(&self, topic: &str, partition: i32) -> i64 {
        let mut config = self.config();
        config.set("isolation.level", "read_uncommitted");
        let consumer: BaseConsumer = config.create().expect("a client");
        consumer.fetch_watermarks(topic, partition, PATIENCE).expect("an answer").1
    }

    /// The names of topics that begin so.
    #[allow(dead_code)]
    pub fn topics(&self, prefix: &str) -> Vec<String> {
        let metadata = self.admin().inner().fetch_metadata(None, PATIENCE).expect("an answer");
        let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    pub fn delete_topic(&self, name: &str) {
        let gone = block_on(self.admin().delete_topics(&[name], &options())).expect("an answer");
        gone.into_iter().for_each(|gone| _ = gone.expect("the topic was there"));
    }

    pub fn add_partitions(&self, name: &str, total: usize) {
        let more = NewPartitions::new(name, total);
        let made = block_on(self.admin().create_partitions([&more], &options()));
        made.expect("an answer").into_iter().for_each(|made| _ = made.expect("there are more"));
    }

    /// Deletes the records of a partition before an offset.
    pub fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
        block_on(self.admin().delete_records(&offsets, &options())).expect("they are gone");
    }

    /// What makes records; its transactions have this name, if it makes any.
    pub fn producer(&self, transactions: Option<&str>) -> BaseProducer {
        let mut config = self.config();
        config.set("linger.ms", "1");
        if let Some(name) = transactions {
            config.set("transactional.id", name);
        }
        config.create().expect("a client")
    }

    /// What makes records that are there once, also if a broker is killed before it answers. It begins half a second later.
    #[allow(dead_code)]
    pub fn idempotent_producer(&self) -> BaseProducer {
        let mut config = self.config();
        // Soon after the broker is there again.
        config.set("linger.ms", "1").set("reconnect.backoff.max.ms", "500");
        config.set("enable.idempotence", "true").create().expect("a client")
    }

    /// Appends texts to a topic: to this partition, or to that of their keys.
    pub fn append<'a>(
        &self,
        topic: &str,
        partition: Option<i32>,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let producer = self.producer(None);
        for (key, text) in texts {
            let mut record = BaseRecord::to(topic).key(key).payload(text);
            record.partition = partition;
            send(&producer, record);
        }
        producer.flush(PATIENCE).expect("they are delivered");
    }

    /// How many records a topic has, those that are not committed and those of aborted transactions with them.
    pub fn count_all(&self, topic: &str) -> usize {
        self.consumed(topic, "read_uncommitted", |_| ()).len()
    }

    /// All records of a topic that are committed.
    pub fn records(&self, topic: &str) -> Vec<Found> {
        self.consumed(topic, COMMITTED, |message| Found {
            partition: message.partition(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(|payload| text_of(payload).to_owned()),
            headers: message.headers().map_or_else(Vec::new, |headers| {
                headers.iter().map(|header| header.key.to_owned()).collect()
            }),
            millis: message.timestamp().to_millis(),
        })
    }

    /// Keys and payloads of all records of a topic that are committed.
    #[allow(dead_code)]
    pub fn raw_records(&self, topic: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
        self.consumed(topic, COMMITTED, |message| (bytes(message.key()), bytes(message.payload())))
    }

    fn consumed<T>(
        &self,
        topic: &str,
        isolation: &str,
        of: impl Fn(&BorrowedMessage<'_>) -> T,
    ) -> Vec<T> {
        let mut config = self.config();
        config.set("group.id", "judge").set("enable.partition.eof", "true");
        config.set("isolation.level", isolation).set("enable.auto.commit", "false");
        // The broker waits so long at the end.
        config.set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer = config.create().expect("a client");
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("an answer");
        let partitions = metadata.topics()[0].partitions().len();
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions as i32 {
            all.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&all).expect("they are there");
        let (mut found, mut ended) = (Vec::new(), BTreeSet::new());
        while ended.len() < partitions {
            match consumer.poll(PATIENCE).expect("an answer in time") {
                Err(KafkaError::PartitionEOF(partition)) => _ = ended.insert(partition),
                Err(error) => panic!("{error}"),
                Ok(message) => found.push(of(&message)),
            }
        }
        found
    }

    /// The texts of a topic's records, in order.
    pub fn texts(&self, topic: &str) -> Vec<String> {
        let records = self.records(topic).into_iter();
        let mut texts: Vec<_> = records.filter_map(|record| record.payload).collect();
        texts.sort();
        texts
    }

    /// What a group has committed of a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut config = self.config();
        let consumer: BaseConsumer = config.set("group.id", group).create().expect("a client");
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let list = consumer.committed_offsets(list, PATIENCE).expect("an answer");
        match list.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A record as a plain consumer has it.
#[derive(Debug)]
pub struct Found {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub payload: Option<String>,
    pub headers: Vec<String>,
    pub millis: Option<i64>,
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("tests write text")
}

/// Sends a record, and waits for room.
pub fn send(producer: &BaseProducer, record: BaseRecord<'_, str, str>) {
    let mut record = record;
    while let Err((error, back)) = producer.send(record) {
        assert!(error.to_string().contains("Queue full"), "{error}");
        producer.poll(Duration::from_millis(10));
        record = back;
    }
    producer.poll(Duration::ZERO);
}

/// Headers with these names and values.
pub fn headers(all: &[(&str, Option<&str>)]) -> OwnedHeaders {
    let add = |headers: OwnedHeaders, &(key, value): &(&str, Option<&str>)| {
        headers.insert(Header { key, value })
    };
    all.iter().fold(OwnedHeaders::new(), add)
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}

fn java(classes: &OsString) -> Command {
    let mut java = apart("java");
    java.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(classes);
    java
}

/// Sets up a broker's folder, which has its properties, with further arguments of Kafka's tool.
fn set_up(folder: &Path, classes: &OsString, arguments: &[&str]) {
    let mut tool = java(classes);
    tool.args(["kafka.tools.StorageTool", "format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]);
    tool.arg("--config").arg(folder.join("properties")).args(arguments);
    let done = tool.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "the broker cannot be set up");
}

fn serve(folder: &Path, classes: &OsString) -> Child {
    let log = fs::File::create(folder.join("log")).expect("the folder is ours");
    let mut java = java(classes);
    java.arg("kafka.Kafka").arg(folder.join("properties"));
    java.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    java.spawn().expect("java can be started")
}
