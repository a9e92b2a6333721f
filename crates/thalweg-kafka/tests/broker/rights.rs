//! Users who may not do all that a job needs, and whose passwords change.

use crate::Test;
use crate::broker::{Broker, More, PATIENCE, Right};
use crate::killed::{KEYS, Pipeline, append, counts, each_once, end_of, expect};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Error, ErrorKind, JobHandle};
use thalweg_kafka::{Begin, KafkaSink, KafkaSource, Outgoing, Topics};

pub const TESTS: &[Test] = &[
    ("a_source_says_what_its_user_may_not_do", source_may_not),
    ("a_sink_says_what_its_user_may_not_do", sink_may_not),
    ("a_right_that_is_taken_ends_a_running_job", taken),
    ("a_password_that_is_changed_ends_a_running_job", changed),
    ("the_rights_that_are_documented_are_enough", enough),
];

/// How a user connects.
#[derive(Clone)]
struct User {
    brokers: String,
    name: &'static str,
    password: &'static str,
}

type Encode = fn(String, &mut Outgoing) -> thalweg::Result<()>;

const ENCODE: Encode = |text, out| {
    out.payload(text);
    Ok(())
};

impl User {
    fn limited(broker: &Broker) -> Self {
        Self { brokers: broker.address_of_users(), name: "limited", password: "secret" }
    }

    fn options(&self) -> [(&'static str, &'static str); 4] {
        [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", self.name),
            ("sasl.password", self.password),
        ]
    }

    fn source(&self, topics: impl Into<Topics>) -> KafkaSource {
        let source = KafkaSource::new(&self.brokers, topics);
        self.options().into_iter().fold(source, |source, (name, value)| source.option(name, value))
    }

    fn sink(&self, topic: &str, exactly: bool) -> KafkaSink<String, Encode> {
        let sink = match exactly {
            true => KafkaSink::exactly_once(&self.brokers, topic, ENCODE),
            false => KafkaSink::at_least_once(&self.brokers, topic, ENCODE),
        };
        self.options().into_iter().fold(sink, |sink, (name, value)| sink.option(name, value))
    }
}

/// The error with which a job ends, in time.
fn error_of(job: JobHandle) -> Error {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || drop(ended.send(job.wait().map(drop))));
    end.recv_timeout(PATIENCE).expect("the job ends in time").unwrap_err()
}

fn read(source: KafkaSource) -> Error {
    let env = Environment::new();
    env.read(source).map(|message| message.offset()).for_each(drop);
    env.start().map_or_else(|error| error, error_of)
}

fn write(sink: KafkaSink<String, Encode>) -> Error {
    let env = Environment::new();
    env.iter(["a".to_owned()]).write(sink);
    env.start().map_or_else(|error| error, error_of)
}

fn check(what: &str, error: &Error, parts: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{what}: {error}");
    }
}

fn source_may_not(broker: &mut Broker) {
    let user = User::limited(broker);
    let name = |name: &str| {
        let topic = broker.topic(name, 2);
        broker.append(&topic, Some(1), [("a", "b")]);
        topic
    };
    let [hidden, unread, open] = ["rights-hidden", "rights-unread", "rights-open"].map(name);
    broker.rule(user.name, Right::topic(&hidden, Right::ALL), false);
    broker.rule(user.name, Right::topic(&unread, Right::DESCRIBE), true);
    broker.rule(user.name, Right::group("rights-group", Right::ALL), false);
    let describe = ["do not authorize `Describe` on the topic `rights-hidden`"];
    check("hidden", &read(user.source(&*hidden)), &describe);
    check("hidden of two", &read(user.source([&*open, &*hidden])), &describe);
    let part = "do not authorize `Read` on the topic `rights-unread`";
    check("unread", &read(user.source(&*unread).until_now()), &[part, "rights-unread/1"]);
    let part = "on the group `rights-group`";
    let group = || user.source(&*open).group("rights-group").until_now();
    check("group", &read(group()), &[part]);
    check("its offsets", &read(group().begin(Begin::Committed)), &[part]);
}

fn sink_may_not(broker: &mut Broker) {
    let user = User::limited(broker);
    let names =
        ["rights-hidden-sink", "rights-unwritten", "rights-unread-sink", "rights-open-sink"];
    let [hidden, unwritten, unread, open] = names.map(|name| broker.topic(name, 1));
    broker.rule(user.name, Right::topic(&hidden, Right::ALL), false);
    broker.rule(user.name, Right::topic(&unwritten, Right::DESCRIBE), true);
    broker.rule(user.name, Right::topic(&unread, Right::DESCRIBE), true);
    broker.rule(user.name, Right::topic(&unread, Right::WRITE), true);
    broker.rule(user.name, Right::transactions("no-transactions", Right::ALL), false);
    broker.rule(user.name, Right::groups("no-groups", Right::ALL), false);
    broker.rule(user.name, Right::groups("no-marks", Right::DESCRIBE), true);
    for exactly in [false, true] {
        let error = write(user.sink(&hidden, exactly));
        check("hidden", &error, &["do not authorize `Describe` on the topic `rights-hidden-sink`"]);
    }
    let error = write(user.sink(&unwritten, false));
    check("unwritten", &error, &["do not authorize `Write` on the topic `rights-unwritten`"]);
    let error = write(user.sink(&unwritten, true));
    check("in a transaction", &error, &["on the topic `rights-unwritten`", "`Write`"]);
    // Its transactions are marked by offsets of the topic.
    let error = write(user.sink(&unread, true));
    check("unread", &error, &["on the topic `rights-unread-sink`", "`Read`"]);
    for (prefix, part) in [
        ("no-transactions", "on the transactional id `no-transactions-rights-open-sink-"),
        ("no-groups", "on the group `no-groups-rights-open-sink-"),
        ("no-marks", "on the group `no-marks-rights-open-sink-"),
    ] {
        let sink = || user.sink(&open, true).transactional_id_prefix(prefix);
        check(prefix, &write(sink()), &[part]);
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.checkpoints = Some(CheckpointConfig::new(folder.path()));
        let env = Environment::with_config(config);
        env.iter(["a".to_owned()]).write(sink().open_transactions(PATIENCE));
        check(prefix, &env.start().map_or_else(|error| error, error_of), &[part]);
    }
}

/// Texts of a topic, read by the super user without an end.
fn texts(broker: &Broker, topic: &str) -> KafkaSource {
    KafkaSource::new(broker.address(), topic)
}

/// A job that copies texts, with its checkpoints in this folder.
fn copies(source: KafkaSource, sink: KafkaSink<String, Encode>, folder: &Path) -> JobHandle {
    let mut config = Config::default();
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = Duration::from_millis(30);
    config.checkpoints = Some(checkpoints);
    let env = Environment::with_config(config);
    env.read(source).try_map(|message| message.text().map(str::to_owned)).write(sink);
    env.start().unwrap()
}

/// Waits until a topic has a record.
fn arrives(broker: &Broker, topic: &str) {
    let begun = Instant::now();
    while broker.texts(topic).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nothing comes to {topic}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Jobs of a user: one that reads, and two that write what comes to a topic, each to its own.
struct Running {
    /// What the first reads, what the others do, and what they write.
    from: String,
    open: String,
    least: String,
    exactly: String,
    reads: JobHandle,
    writes: JobHandle,
    commits: JobHandle,
    _folders: [TempDir; 3],
}

/// Starts them, with topics whose names begin so; returns when each has written a record.
fn running(broker: &Broker, user: &User, prefix: &str) -> Running {
    let name = |name: &str| broker.topic(&format!("{prefix}-{name}"), 1);
    let [from, open, least, exactly, copied] =
        ["from", "open", "least", "exactly", "copied"].map(name);
    for topic in [&from, &open] {
        broker.append(topic, Some(0), [("a", "a")]);
    }
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [first, second, third] = folders.each_ref().map(|folder| folder.path());
    let to_copied = KafkaSink::at_least_once(broker.address(), &*copied, ENCODE);
    let reads = copies(user.source(&*from), to_copied, first);
    let writes = copies(texts(broker, &open), user.sink(&least, false), second);
    let commits = copies(texts(broker, &open), user.sink(&exactly, true), third);
    [&copied, &least, &exactly].into_iter().for_each(|topic| arrives(broker, topic));
    Running { from, open, least, exactly, reads, writes, commits, _folders: folders }
}

fn taken(broker: &mut Broker) {
    let user = User::limited(broker);
    let jobs = running(broker, &user, "taken");
    broker.rule(user.name, Right::topic(&jobs.from, Right::READ), false);
    broker.rule(user.name, Right::topic(&jobs.least, Right::WRITE), false);
    broker.rule(user.name, Right::topic(&jobs.exactly, Right::WRITE), false);
    broker.append(&jobs.open, Some(0), [("b", "b")]);
    let part = "taken-from/0 at 1: cannot read the partition: the brokers do not authorize `Read`";
    check("reads", &error_of(jobs.reads), &[part]);
    check("writes", &error_of(jobs.writes), &["`Write` on the topic `taken-least`"]);
    check("commits", &error_of(jobs.commits), &["`Write` and `Read` on the topic `taken-exactly`"]);
}

/// Brokers close the connections of a user whose password was changed, and refuse the next.
fn changed(broker: &mut Broker) {
    let user = User { name: "changed", password: "before", ..User::limited(broker) };
    let jobs = running(broker, &user, "changed");
    broker.restart_with_password("before", "after");
    // The first two have nothing to do.
    let password = "see `sasl.mechanism`, `sasl.username` and `sasl.password`";
    check("reads", &error_of(jobs.reads), &["Authentication failed", password]);
    check("writes", &error_of(jobs.writes), &["Authentication failed", password]);
    broker.append(&jobs.open, Some(0), [("b", "b")]);
    check("commits", &error_of(jobs.commits), &["Authentication failed", password]);
}

/// A broker on which a user may do nothing but what a rule allows.
fn strict() -> Broker {
    let jars = std::env::var_os("THALWEG_KAFKA_JARS").expect("there was a broker before");
    let properties = "allow.everyone.if.no.acl.found=false\n".to_owned();
    let folder = tempfile::tempdir().unwrap();
    Broker::start_with(Path::new(&jars), folder, &More { properties, ..More::default() })
}

/// The rights of the guide's table, one way after another, and without `Write` on the topic first. What waits then is written when the
/// right is there.
fn enough(_: &mut Broker) {
    let broker = &strict();
    let allow = |right: Right<'_>| broker.rule("limited", right, true);
    allow(Right::group("of-the-job", Right::READ));
    for (name, delivery) in [("least", "at least once"), ("kept", "exactly once"), ("open", "open")]
    {
        let user = vec![
            ("TEST_USER", "limited".to_owned()),
            ("THALWEG_KAFKA_TEST_JOB", broker.address_of_users()),
        ];
        if name == "kept" {
            allow(Right::transactions("thalweg", Right::WRITE));
            allow(Right::groups("thalweg", Right::READ));
        }
        let to = format!("{name}-to");
        let mut pipeline = Pipeline::start_with(broker, name, delivery, user, |from| {
            append(broker, from, 0, 1_000);
            allow(Right::topic(from, Right::READ));
            allow(Right::topic(from, Right::DESCRIBE));
            allow(Right::topic(&to, Right::DESCRIBE));
            if name != "least" {
                allow(Right::topic(&to, Right::READ));
            }
        });
        let error = end_of(&mut pipeline.child, pipeline.folder.path()).unwrap_err();
        for part in ["Config: write (crates/thalweg-kafka/", "`Write`", &format!("topic `{to}`")] {
            assert!(error.contains(part), "{name}: {error}");
        }
        allow(Right::topic(&to, Right::WRITE));
        pipeline.restart(broker);
        expect(broker, &mut pipeline, 1_000);
        append(broker, &pipeline.from, 1_000, 1_000);
        pipeline.kill();
        pipeline.restart(broker);
        expect(broker, &mut pipeline, 2_000);
        pipeline.kill();
        if name != "least" {
            each_once(broker, &pipeline, 2_000);
        }
        for (key, counts) in counts(broker, &to) {
            let counts: BTreeSet<_> = counts.into_iter().collect();
            assert_eq!(counts, (1..=2_000 / KEYS).collect(), "{name}: of key {key}");
        }
    }
}
