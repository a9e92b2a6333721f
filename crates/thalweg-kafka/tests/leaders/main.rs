//! Jobs that read from a cluster whose brokers are killed: another broker leads a partition then, which may not have all that was
//! read of it.
//!
//! `THALWEG_KAFKA_JARS` names the folder with the brokers' jars. Without it there is nothing to test; `cargo xtask test --step
//! kafka` gets them, and sets it.

#[path = "../broker/broker.rs"]
#[allow(dead_code)]
mod broker;
#[path = "../broker/folders.rs"]
mod folders;

use broker::{Broker, PATIENCE, run_tests, send};
use folders::Folders;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Error, ErrorKind, JobHandle};
use thalweg_kafka::KafkaSource;

/// A test. It panics when it fails.
type Test = (&'static str, fn(&mut Cluster));

const TESTS: [Test; 2] = [
    ("each_record_is_read_once_when_leaders_are_killed", moved),
    ("records_that_brokers_lose_when_they_elect_a_leader_are_an_error", lost),
];

fn main() -> ExitCode {
    let Some(jars) = std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from) else {
        println!("there are no brokers: `cargo xtask test --step kafka` gets one");
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    let mut cluster = Cluster::start(&jars);
    run_tests(TESTS, |test: fn(&mut Cluster)| {
        cluster.others.iter_mut().for_each(Broker::revive);
        test(&mut cluster);
    })
}

/// The numbers of the brokers that have the partitions of tests.
const NUMBERS: [i32; 2] = [2, 3];

/// Three brokers: the controller, which stays and has no partitions of tests, and two that are killed.
struct Cluster {
    first: Broker,
    others: [Broker; 2],
    client: BaseConsumer,
}

/// The leader of a partition, and the brokers that have all of it.
#[derive(Debug, PartialEq)]
struct Found {
    leader: i32,
    in_sync: Vec<i32>,
}

impl Cluster {
    fn start(jars: &Path) -> Self {
        let first = Broker::start(jars);
        let others = NUMBERS.map(|number| first.join(number));
        let client = first.config().create().expect("a client");
        let cluster = Self { first, others, client };
        wait("the brokers have joined", || {
            let metadata = cluster.client.fetch_metadata(None, PATIENCE);
            metadata.is_ok_and(|metadata| metadata.brokers().len() == 3)
        });
        cluster
    }

    fn broker(&mut self, number: i32) -> &mut Broker {
        &mut self.others[if number == NUMBERS[0] { 0 } else { 1 }]
    }

    /// What a broker says of a partition that has a leader.
    fn found(&self, topic: &str, number: i32) -> Option<Found> {
        let metadata = self.client.fetch_metadata(Some(topic), PATIENCE).ok()?;
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let partition = partitions.find(|partition| partition.id() == number)?;
        let leader = partition.leader();
        // Without a leader there may be no list.
        let mut in_sync = if leader < 0 { Vec::new() } else { partition.isr().to_vec() };
        in_sync.sort_unstable();
        Some(Found { leader, in_sync })
    }

    fn is_led_by(&self, topic: &str, number: i32, leader: i32) -> bool {
        self.found(topic, number).is_some_and(|found| found.leader == leader)
    }

    fn is_in_sync(&self, topic: &str, number: i32, brokers: &[i32]) -> bool {
        self.found(topic, number).is_some_and(|found| found.in_sync == brokers)
    }

    /// Appends numbers to the first partition of a topic.
    fn append(&self, topic: &str, numbers: Range<u64>) {
        let texts: Vec<_> = numbers.map(|number| number.to_string()).collect();
        self.first.append(topic, Some(0), texts.iter().map(|text| ("", text.as_str())));
    }

    fn source(&self, topic: &str) -> KafkaSource {
        KafkaSource::new(self.first.address(), topic)
    }
}

/// Waits for what is to come.
#[track_caller]
fn wait(what: &str, mut has_come: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !has_come() {
        assert!(begun.elapsed() < PATIENCE, "{what} in time");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The partitions, offsets and numbers that a job has read.
type Seen = Arc<Mutex<Vec<(i32, i64, u64)>>>;

fn count(seen: &Seen) -> usize {
    seen.lock().unwrap().len()
}

fn started(source: KafkaSource, folder: Option<&Path>, seen: &Seen) -> JobHandle {
    let mut config = Config::default();
    config.cores = NonZeroUsize::MIN;
    config.checkpoints = folder.map(CheckpointConfig::new);
    let env = Environment::with_config(config);
    let sees = Arc::clone(seen);
    env.read(source)
        .try_map(|message| {
            let number = message.text()?.parse::<u64>();
            let number = number.map_err(|error| Error::new(ErrorKind::Input, error.to_string()))?;
            Ok::<_, Error>((message.partition(), message.offset(), number))
        })
        .for_each(move |record| sees.lock().unwrap().push(record));
    env.start().unwrap()
}

/// The error with which a job ends, in time.
fn error_of(job: JobHandle) -> Error {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || drop(ended.send(job.wait().map(drop))));
    end.recv_timeout(PATIENCE).expect("the job ends in time").expect_err("the job fails")
}

/// Checks that a job ends as records are lost, at this place.
#[track_caller]
fn is_lost(job: JobHandle, at: &str, parts: &[&str]) {
    let error = error_of(job);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let text = error.to_string();
    let says = ["read (", "main.rs", at, ": the brokers have lost records: ", "leader epoch "];
    for part in says.iter().chain(parts) {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// Runs a job until it has read so many records, and ends it with a checkpoint.
fn suspended(source: KafkaSource, folder: &Path, records: usize) {
    let seen = Seen::default();
    let job = started(source, Some(folder), &seen);
    wait("records", || count(&seen) >= records);
    job.suspend().unwrap();
    assert_eq!(error_of(job).kind(), ErrorKind::Suspended);
    assert_eq!(count(&seen), records);
}

/// Each of the two brokers is killed while both partitions are read and written.
fn moved(cluster: &mut Cluster) {
    const MORE: u64 = 500;
    let topic = cluster.first.replicated_topic("moved", &[&[2, 3], &[3, 2]], &[]);
    let are_in_sync = |cluster: &Cluster| {
        [0, 1].iter().all(|number| cluster.is_in_sync(&topic, *number, &NUMBERS))
    };
    wait("the brokers are in sync", || are_in_sync(cluster));
    let seen = Seen::default();
    let job = started(cluster.source(&topic), None, &seen);
    let producer = cluster.first.idempotent_producer();
    let mut sent = 0;
    let mut send_more = |producer: &BaseProducer| {
        for number in sent..sent + MORE {
            let text = number.to_string();
            let record = BaseRecord::to(&topic).partition((number % 2) as i32).key("");
            send(producer, record.payload(&*text));
        }
        sent += MORE;
        sent as usize
    };
    for (killed, other) in [(2, 3), (3, 2)] {
        let all = send_more(&producer);
        producer.flush(PATIENCE).unwrap();
        wait("what was there is read", || count(&seen) >= all);
        send_more(&producer);
        cluster.broker(killed).kill();
        let all = send_more(&producer);
        producer.flush(PATIENCE).unwrap();
        wait("all is read", || count(&seen) >= all);
        wait("the other broker leads both", || {
            [0, 1].iter().all(|number| cluster.is_led_by(&topic, *number, other))
        });
        cluster.broker(killed).restart();
        wait("the brokers are in sync", || are_in_sync(cluster));
    }
    // Nothing is read again when a broker is back.
    let all = send_more(&producer);
    producer.flush(PATIENCE).unwrap();
    wait("all is read", || count(&seen) >= all);
    job.cancel();
    assert_eq!(error_of(job).kind(), ErrorKind::Cancelled);
    for partition in [0, 1] {
        let read = seen.lock().unwrap();
        let of_it = read.iter().filter(|(number, ..)| *number == partition);
        let of_it: Vec<_> = of_it.map(|(_, offset, number)| (*offset, *number)).collect();
        let numbers = (0..all as u64).filter(|number| number % 2 == partition as u64);
        assert!(
            (0_i64..).zip(numbers).eq(of_it.iter().copied()),
            "partition {partition}: {of_it:?}"
        );
    }
}

/// A broker leads the partition that did not have the last records, and later the one that had them, without those that came since.
fn lost(cluster: &mut Cluster) {
    let unclean = [("unclean.leader.election.enable", "true")];
    let topic = cluster.first.replicated_topic("lost", &[&[2, 3]], &unclean);
    wait("the brokers are in sync", || cluster.is_in_sync(&topic, 0, &NUMBERS));
    cluster.append(&topic, 0..50);
    cluster.broker(3).kill();
    wait("the other broker is out of sync", || cluster.is_in_sync(&topic, 0, &[2]));
    cluster.append(&topic, 50..100);
    let seen = Seen::default();
    let job = started(cluster.source(&topic), None, &seen);
    let mut older = Folders::new();
    suspended(cluster.source(&topic), &older.next(), 100);
    wait("all is read", || count(&seen) >= 100);
    cluster.broker(2).kill();
    wait("there is no leader", || cluster.is_led_by(&topic, 0, -1));
    cluster.broker(3).restart();
    wait("the broker leads that has half of it", || cluster.is_led_by(&topic, 0, 3));
    let says = ["those from offset 50 to 100 that were read", " until offset 50; begin anew"];
    is_lost(job, "lost/0 at 100", &says);
    assert_eq!(count(&seen), 100);
    // There are other records by then where those were.
    cluster.append(&topic, 1_000..1_020);
    let mut newer = Folders::new();
    suspended(cluster.source(&topic), &newer.next(), 70);
    cluster.append(&topic, 1_020..1_080);
    let seen = Seen::default();
    is_lost(started(cluster.source(&topic), Some(&older.next()), &seen), "lost/0 at 100", &says);
    assert_eq!(count(&seen), 0);
    // The first one has more records than were read of the other one, of an earlier epoch.
    cluster.broker(3).kill();
    wait("there is no leader", || cluster.is_led_by(&topic, 0, -1));
    cluster.broker(2).restart();
    wait("the other broker leads", || cluster.is_led_by(&topic, 0, 2));
    let says = ["the one before offset 70 that was read"];
    is_lost(started(cluster.source(&topic), Some(&newer.next()), &seen), "lost/0 at 70", &says);
    assert_eq!(count(&seen), 0);
}
