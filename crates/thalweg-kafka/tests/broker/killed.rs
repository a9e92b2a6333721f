//! Jobs between two topics, whose process or broker is killed.

use crate::Test;
use crate::broker::{Broker, PATIENCE, apart, send};
use crate::kills::{Kills, check, spread};
use crate::superseded::{Held, stop_at};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Result};
use thalweg_kafka::{KafkaSink, KafkaSource, Outgoing};

pub const TESTS: &[Test] = &[
    ("each_record_counts_once_whenever_the_job_is_killed", jobs),
    ("each_record_counts_once_whenever_the_broker_is_killed", brokers),
    ("each_record_counts_once_in_open_transactions_whenever_the_job_is_killed", open_jobs),
    (
        "each_record_counts_once_whenever_the_job_is_killed_and_changes_its_kind_of_transactions",
        changed_jobs,
    ),
    ("each_record_counts_once_in_open_transactions_whenever_the_broker_is_killed", open_brokers),
    ("no_record_is_lost_at_least_once_whenever_the_job_is_killed", at_least_once),
    ("a_job_that_is_killed_ends_where_it_was_to_end", ends),
    ("another_job_with_the_same_directory_goes_on_with_its_transactions", numbers_go_on),
];

/// Set for the job: its broker.
pub const JOB: &str = "THALWEG_KAFKA_TEST_JOB";

/// Longer than a test waits: what is left open makes it fail.
pub const OPEN_FOR: Duration = Duration::from_secs(600);

/// Keys of the records, each of which has a count.
pub const KEYS: u64 = 50;

/// Counts the records of each key, and writes each count. A record that is lost or counts twice is seen in all that follow.
fn count() -> Result<()> {
    let (brokers, from, to) = (set(JOB), set("TEST_FROM"), set("TEST_TO"));
    let env = environment();
    let encode = |(key, count): (u64, u64), out: &mut Outgoing| {
        out.key(key.to_string()).payload(format!("{key}:{count:06}"));
        Ok(())
    };
    let sink = match set("TEST_DELIVERY").as_str() {
        "exactly once" | "now and then kept" => KafkaSink::exactly_once(&*brokers, to, encode),
        "open" => KafkaSink::exactly_once(&*brokers, to, encode).open_transactions(OPEN_FOR),
        // What is left open when the next run has kept ones ends with its time.
        "now and then open" => {
            KafkaSink::exactly_once(&*brokers, to, encode).open_transactions(Duration::from_secs(5))
        }
        "at least once" => KafkaSink::at_least_once(&*brokers, to, encode),
        other => panic!("no delivery is {other}"),
    };
    let source = KafkaSource::new(&*brokers, from.as_str()).group("of-the-job");
    let source = match std::env::var("TEST_ENDS") {
        Ok(_) => source.until_now(),
        Err(_) => source,
    };
    let slow = std::env::var("TEST_SLOW").map_or(0, |millis| millis.parse().expect("a number"));
    let (source, sink) = match std::env::var("TEST_USER") {
        Ok(user) => options(&user).into_iter().fold((source, sink), |(source, sink), option| {
            (source.option(option.0, option.1), sink.option(option.0, option.1))
        }),
        Err(_) => (source, sink),
    };
    env.read(source)
        .try_map(move |message| {
            thread::sleep(Duration::from_millis(slow));
            message.text().map(|text| text.parse::<u64>().unwrap_or(KEYS))
        })
        .group_by(|key| *key)
        .stateful_map(0u64, |_, count, _| {
            *count += 1;
            *count
        })
        .unkey()
        .write(Held(sink));
    env.run()
}

/// How a user connects with the password of tests.
pub fn options(user: &str) -> [(&'static str, &str); 4] {
    [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", user),
        ("sasl.password", "secret"),
    ]
}

/// Writes a thousand numbers, from the one that is set, and ends.
fn numbers() -> Result<()> {
    let from: u64 = set("TEST_FROM").parse().expect("a number");
    let env = environment();
    let sink = KafkaSink::exactly_once(set(JOB), set("TEST_TO"), |n: u64, out: &mut Outgoing| {
        out.payload(format!("{n:06}"));
        Ok(())
    });
    let sink = match set("TEST_DELIVERY").as_str() {
        "open numbers" => sink.open_transactions(OPEN_FOR),
        _ => sink,
    };
    env.range(from..from + 1_000).write(sink);
    env.run()
}

pub fn signal(run: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &run.id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "the signal {name} cannot be sent");
}

pub fn set(name: &str) -> String {
    std::env::var(name).expect("the test sets it")
}

fn environment() -> Environment {
    let mut config = Config::default();
    config.cores = set("TEST_CORES").parse().expect("a number of cores");
    let mut checkpoints = CheckpointConfig::new(PathBuf::from(set("TEST_FOLDER")));
    let interval = std::env::var("TEST_INTERVAL").map(|millis| millis.parse().expect("a number"));
    checkpoints.interval = Duration::from_millis(interval.unwrap_or(30));
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Runs the job that is set.
pub fn job() -> ExitCode {
    let ended = match set("TEST_DELIVERY").as_str() {
        "numbers" | "open numbers" => numbers(),
        "hosts" => crate::hosts::job(),
        _ => count(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let said = format!("the job ended: {:?}: {error}", error.kind());
            eprintln!("{said}");
            let to = PathBuf::from(set("TEST_FOLDER")).join(format!("ended-{}", process::id()));
            std::fs::write(to, said).expect("the folder is there");
            ExitCode::FAILURE
        }
    }
}

/// A job that runs, and may be started again.
pub struct Pipeline {
    pub from: String,
    pub to: String,
    pub folder: TempDir,
    delivery: &'static str,
    cores: usize,
    /// What the job is to know beside that.
    pub variables: Vec<(&'static str, String)>,
    pub child: Child,
}

impl Pipeline {
    pub fn start(broker: &Broker, name: &str, delivery: &'static str) -> Self {
        Self::start_with(broker, name, delivery, Vec::new(), |_| {})
    }

    /// Starts it when there is something in the topic that it reads.
    pub fn start_with(
        broker: &Broker,
        name: &str,
        delivery: &'static str,
        variables: Vec<(&'static str, String)>,
        prepare: impl FnOnce(&str),
    ) -> Self {
        let from = broker.topic(&format!("{name}-from"), 3);
        let to = broker.topic(&format!("{name}-to"), 2);
        prepare(&from);
        let folder = tempfile::tempdir().unwrap();
        let mut job = command(broker, &from, &to, folder.path(), delivery, 2);
        let child = job.envs(variables.iter().cloned()).spawn().unwrap();
        Self { from, to, folder, delivery, cores: 2, variables, child }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self, broker: &Broker) {
        drop(self.replace(broker));
    }

    /// Goes on, at another number of cores; returns the process before.
    pub fn replace(&mut self, broker: &Broker) -> Child {
        self.cores = self.cores % 3 + 1;
        self.delivery = match self.delivery {
            "now and then open" => "now and then kept",
            "now and then kept" => "now and then open",
            other => other,
        };
        let Self { from, to, folder, delivery, cores, .. } = self;
        let mut job = command(broker, from, to, folder.path(), delivery, *cores);
        let next = job.envs(self.variables.iter().cloned()).spawn().unwrap();
        std::mem::replace(&mut self.child, next)
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

fn command(
    broker: &Broker,
    from: &str,
    to: &str,
    folder: &Path,
    delivery: &str,
    cores: usize,
) -> Command {
    let mut job = apart(std::env::current_exe().unwrap());
    job.env(JOB, broker.address()).env("TEST_FROM", from).env("TEST_TO", to);
    job.env("TEST_FOLDER", folder).env("TEST_DELIVERY", delivery);
    job.env("TEST_CORES", NonZeroUsize::new(cores).unwrap().to_string());
    job.stdin(Stdio::null()).stdout(Stdio::null());
    job
}

/// Waits until a run has ended; returns whether it has ended well, or its error.
pub fn end_of(run: &mut Child, folder: &Path) -> std::result::Result<(), String> {
    let begun = Instant::now();
    let ended = loop {
        match run.try_wait().unwrap() {
            Some(ended) => break ended,
            None => assert!(begun.elapsed() < PATIENCE, "the job does not end"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    let said = || std::fs::read_to_string(folder.join(format!("ended-{}", run.id()))).unwrap();
    if ended.success() { Ok(()) } else { Err(said()) }
}

/// Appends records of all keys; returns when they are acknowledged, which a broker may have to be started for.
pub fn append(broker: &Broker, topic: &str, from: u64, count: u64) {
    let producer = broker.producer(None);
    for n in from..from + count {
        let key = (n % KEYS).to_string();
        send(&producer, BaseRecord::to(topic).key(&*key).payload(&*key));
    }
    producer.flush(PATIENCE).unwrap();
}

/// Appends records to a topic.
struct Feed {
    producer: BaseProducer,
    topic: String,
    /// Sent so far.
    sent: u64,
}

impl Feed {
    fn new(broker: &Broker, pipeline: &Pipeline) -> Self {
        Self { producer: broker.idempotent_producer(), topic: pipeline.from.clone(), sent: 0 }
    }

    /// Sends records of all keys until a time is over, so that a job has some on their way at each moment.
    fn send(&mut self, over: Duration) {
        spread(5_000, over, |part| {
            for n in part {
                let key = (n % KEYS).to_string();
                send(&self.producer, BaseRecord::to(&self.topic).key(&*key).payload(&*key));
            }
        });
        self.sent += 5_000;
    }

    /// Waits until all are acknowledged, which a broker may have to be started for.
    fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }
}

/// The counts of each key that are in the topic, in the order of its partition.
pub fn counts(broker: &Broker, topic: &str) -> BTreeMap<String, Vec<u64>> {
    let mut counts = BTreeMap::<_, Vec<_>>::new();
    for found in broker.records(topic) {
        let payload = found.payload.unwrap();
        let (key, count) = payload.split_once(':').unwrap();
        counts.entry(key.to_owned()).or_default().push(count.parse().unwrap());
    }
    counts
}

/// Waits until all keys have all their counts.
pub fn expect(broker: &Broker, pipeline: &mut Pipeline, records: u64) {
    let begun = Instant::now();
    let each = records / KEYS;
    loop {
        let counts = counts(broker, &pipeline.to);
        let complete = counts.values().filter(|counts| counts.contains(&each)).count();
        if complete == KEYS as usize {
            return;
        }
        assert!(pipeline.is_running(), "the job has ended");
        assert!(begun.elapsed() < 2 * PATIENCE, "{complete} of {KEYS} keys are complete");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the job has written more than before.
fn gets_on(broker: &Broker, pipeline: &Pipeline, feed: &mut Feed) {
    let written = || broker.records(&pipeline.to).len();
    let (begun, before) = (Instant::now(), written());
    feed.send(Duration::ZERO);
    while written() == before {
        assert!(begun.elapsed() < 2 * PATIENCE, "the job does not get on");
    }
}

/// Waits until all is written that was sent, and some more, and checks it.
fn settle(broker: &Broker, pipeline: &mut Pipeline, feed: &mut Feed) {
    feed.send(Duration::ZERO);
    feed.flush();
    expect(broker, pipeline, feed.sent);
    each_once(broker, pipeline, feed.sent);
}

/// Checks that all keys have all their counts.
pub fn each_once(broker: &Broker, pipeline: &Pipeline, records: u64) {
    let all = counts(broker, &pipeline.to);
    assert_eq!(all.len(), KEYS as usize);
    let expected: Vec<_> = (1..=records / KEYS).collect();
    for (key, mut counts) in all {
        if pipeline.delivery == "at least once" {
            counts.sort_unstable();
            counts.dedup();
        }
        check(&counts, &expected, &format!("key {key}"));
    }
}

fn jobs(broker: &mut Broker) {
    killed_jobs(broker, Kills::new("jobs", 5), "exactly once");
}

fn open_jobs(broker: &mut Broker) {
    killed_jobs(broker, Kills::new("open-jobs", 5), "open");
}

fn changed_jobs(broker: &mut Broker) {
    killed_jobs(broker, Kills::new("changed-jobs", 6), "now and then open");
}

fn at_least_once(broker: &mut Broker) {
    killed_jobs(broker, Kills::new("least", 4), "at least once");
}

fn killed_jobs(broker: &mut Broker, mut kills: Kills, delivery: &'static str) {
    let mut pipeline = Pipeline::start(broker, kills.of(), delivery);
    let mut feed = Feed::new(broker, &pipeline);
    while let Some(kill) = kills.another() {
        // Each fourth one when it is known to write, so that it gets on; the others from before it reads on.
        let limit = if kill % 4 == 0 { 300 } else { 1_000 };
        if kill % 4 == 0 {
            gets_on(broker, &pipeline, &mut feed);
        }
        feed.send(kills.millis_below(limit));
        assert!(pipeline.is_running(), "the job has ended");
        pipeline.kill();
        feed.flush();
        pipeline.restart(broker);
        if kills.is_checked() {
            settle(broker, &mut pipeline, &mut feed);
        }
    }
    settle(broker, &mut pipeline, &mut feed);
    pipeline.kill();
}

fn brokers(broker: &mut Broker) {
    killed_brokers(broker, Kills::new("brokers", 2), "exactly once");
}

fn open_brokers(broker: &mut Broker) {
    killed_brokers(broker, Kills::new("open-brokers", 2), "open");
}

fn killed_brokers(broker: &mut Broker, mut kills: Kills, delivery: &'static str) {
    let mut pipeline = Pipeline::start(broker, kills.of(), delivery);
    let mut feed = Feed::new(broker, &pipeline);
    while let Some(kill) = kills.another() {
        // From when it answers again to long after the job goes on.
        feed.send(kills.millis_below([1_500, 700, 300][kill as usize % 3]));
        broker.kill();
        // Now and then the job dies meanwhile.
        let dies = kill % 3 == 1;
        if dies {
            pipeline.kill();
        }
        // Or the broker again, while it starts.
        if kill % 4 == 3 {
            broker.start_and_kill(kills.millis_below(5_000));
        }
        broker.restart();
        if dies {
            pipeline.restart(broker);
        }
        if kills.is_checked() {
            settle(broker, &mut pipeline, &mut feed);
        }
    }
    settle(broker, &mut pipeline, &mut feed);
    pipeline.kill();
}

/// Killed before its first checkpoint and behind it, with more records each time, and a partition more.
fn ends(broker: &mut Broker) {
    let first =
        ["TEST_ENDS", "TEST_SLOW", "TEST_INTERVAL"].into_iter().zip(["yes", "1", "3600000"]);
    let first = first.map(|(name, value)| (name, value.to_owned())).collect();
    let before = |from: &str| append(broker, from, 0, 1_000);
    let mut pipeline = Pipeline::start_with(broker, "ends", "exactly once", first, before);
    stop_at("write", &pipeline, || {});
    pipeline.kill();
    assert!(checkpoints_in(&pipeline).is_empty());
    // It has no checkpoint, and is first started now.
    append(broker, &pipeline.from, 1_000, 1_000);
    pipeline.variables[2].1 = "30".to_owned();
    pipeline.restart(broker);
    stop_at("commit", &pipeline, || {});
    pipeline.kill();
    assert!(!checkpoints_in(&pipeline).is_empty());
    append(broker, &pipeline.from, 2_000, 1_000);
    broker.add_partitions(&pipeline.from, 4);
    broker.append(&pipeline.from, Some(3), [("1", "1")]);
    pipeline.restart(broker);
    assert_eq!(end_of(&mut pipeline.child, pipeline.folder.path()), Ok(()));
    each_once(broker, &pipeline, 2_000);
}

fn checkpoints_in(pipeline: &Pipeline) -> Vec<String> {
    let names = std::fs::read_dir(pipeline.folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("checkpoint-")).collect()
}

/// A directory of checkpoints gives the transactions of a sink the same names each time.
fn numbers_go_on(broker: &mut Broker) {
    let (topic, folder) = (broker.topic("numbers", 2), tempfile::tempdir().unwrap());
    let runs = [("numbers", 1), ("open numbers", 3), ("numbers", 2), ("open numbers", 1)];
    for (round, (delivery, cores)) in runs.into_iter().enumerate() {
        let from = format!("{}", 1_000 * round);
        let mut job = command(broker, &from, &topic, folder.path(), delivery, cores);
        assert!(job.status().unwrap().success());
    }
    let expected: Vec<_> = (0..4_000).map(|n| format!("{n:06}")).collect();
    assert_eq!(broker.texts(&topic), expected);
}
