//! Jobs and a cluster of several brokers: librdkafka's imitation of one, in this process, whose partitions move when a test says so.

use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};
use thalweg_kafka::{KafkaSink, KafkaSource};

type Cluster = MockCluster<'static, DefaultProducerContext>;

const BROKERS: i32 = 3;
const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    let cluster = Cluster::new(BROKERS).expect("a cluster");
    cluster.create_topic("numbers", PARTITIONS, BROKERS).expect("a topic");
    cluster
}

fn producer(cluster: &Cluster) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("linger.ms", "1");
    // Records are there once, and in order.
    config.set("enable.idempotence", "true").set("reconnect.backoff.max.ms", "100");
    config.create().expect("a client")
}

/// Who fetches, and from where.
type MakeSource = fn(&str) -> KafkaSource;

const SOURCES: [MakeSource; 2] = [
    |servers| KafkaSource::new(servers, "numbers"),
    |servers| {
        let source = KafkaSource::new(servers, "numbers").fetch_by_librdkafka();
        source.option("reconnect.backoff.max.ms", "100")
    },
];

/// The offsets and texts that a job has read, by partition.
type Read = Arc<Mutex<BTreeMap<i32, Vec<(i64, String)>>>>;

fn started(source: KafkaSource) -> (thalweg::JobHandle, Read) {
    let env = Environment::with_config(Config::default());
    let read = Read::default();
    let adds = Arc::clone(&read);
    env.read(source)
        .try_map(|message| {
            let text = message.text()?.to_owned();
            Ok::<_, thalweg::Error>((message.partition(), message.offset(), text))
        })
        .for_each(move |(partition, offset, text)| {
            adds.lock().unwrap().entry(partition).or_default().push((offset, text));
        });
    (env.start().expect("the job can be started"), read)
}

fn count(read: &Read) -> usize {
    read.lock().unwrap().values().map(Vec::len).sum()
}

/// Each partition has the numbers that were written to it, in order, and once.
fn check(read: &Read, records: u64) {
    let read = read.lock().unwrap();
    for partition in 0..PARTITIONS {
        let numbers = (0..records).filter(|n| (n % PARTITIONS as u64) as i32 == partition);
        let expected: Vec<_> = (0..).zip(numbers.map(|n| n.to_string())).collect();
        assert!(read[&partition] == expected, "partition {partition}");
    }
}

fn send(producer: &BaseProducer, n: u64) {
    let text = n.to_string();
    let mut record = BaseRecord::<(), str>::to("numbers").payload(&text);
    record = record.partition((n % PARTITIONS as u64) as i32);
    while let Err((error, back)) = producer.send(record) {
        assert!(error.to_string().contains("Queue full"), "{error}");
        producer.poll(Duration::from_millis(10));
        record = back;
    }
    producer.poll(Duration::ZERO);
}

fn wait(what: &str, job: &thalweg::JobHandle, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(!job.is_over(), "the job has ended before {what}");
        assert!(begun.elapsed() < PATIENCE, "there is not {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Partitions move to another broker each few milliseconds, and brokers are away for a while, one after the other.
#[test]
fn partitions_that_move_are_read_on() {
    const RECORDS: u64 = 20_000;
    for source in SOURCES {
        let cluster = cluster();
        let producer = producer(&cluster);
        let (job, read) = started(source(&cluster.bootstrap_servers()));
        let mut turn = 0;
        for n in 0..RECORDS {
            send(&producer, n);
            if n % 500 == 0 {
                turn += 1;
                // Numbers without a pattern.
                let some = (turn * 7919_i32).rem_euclid(104_729);
                let (partition, broker) = (some % PARTITIONS, some / PARTITIONS % BROKERS + 1);
                cluster.partition_leader("numbers", partition, Some(broker)).unwrap();
                match turn % 10 {
                    3 => cluster.broker_down(broker).unwrap(),
                    5 => cluster.broker_up(-1).unwrap(),
                    7 => (0..PARTITIONS).for_each(|partition| {
                        cluster.partition_leader("numbers", partition, Some(1)).unwrap();
                    }),
                    _ => {}
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        cluster.broker_up(-1).unwrap();
        for partition in 0..PARTITIONS {
            cluster.partition_leader("numbers", partition, Some(1 + partition % BROKERS)).unwrap();
        }
        producer.flush(PATIENCE).expect("all are written");
        wait("all that was written", &job, || count(&read) >= RECORDS as usize);
        check(&read, RECORDS);
        job.cancel();
    }
}

/// Codes that brokers answer with while they have trouble; the imitation has them for a whole answer.
#[test]
fn what_brokers_cannot_answer_for_now_is_asked_again() {
    use RDKafkaRespErr as Code;
    let errors = [
        Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Code::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        Code::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE,
        Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
        Code::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
        Code::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
        Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        Code::RD_KAFKA_RESP_ERR_UNKNOWN,
        Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID,
    ];
    let cluster = cluster();
    let producer = producer(&cluster);
    (0..100).for_each(|n| send(&producer, n));
    producer.flush(PATIENCE).expect("all are written");
    let (job, read) = started(SOURCES[0](&cluster.bootstrap_servers()));
    wait("what was there", &job, || count(&read) == 100);
    for error in errors {
        cluster.request_errors(RDKafkaApiKey::Fetch, &[error; 2]);
        let before = count(&read) as u64;
        (before..before + 10).for_each(|n| send(&producer, n));
        producer.flush(PATIENCE).expect("all are written");
        wait("what was added", &job, || count(&read) as u64 == before + 10);
    }
    check(&read, 100 + 10 * errors.len() as u64);
    job.cancel();
}

/// The broker of a partition is away for longer than partitions may be silent, while the others go on in event time.
#[test]
fn records_that_come_when_a_broker_is_back_are_not_late() {
    const RECORDS: u64 = 800;
    const SILENT: Duration = Duration::from_secs(2);
    const AWAY: (i32, u64) = (2, 1);
    let cluster = cluster();
    for partition in 0..PARTITIONS {
        let broker = if partition == AWAY.1 as i32 { AWAY.0 } else { 1 };
        cluster.partition_leader("numbers", partition, Some(broker)).unwrap();
    }
    let producer = producer(&cluster);
    let send_all = |numbers: &mut dyn Iterator<Item = u64>| {
        numbers.for_each(|n| send(&producer, n));
        producer.flush(PATIENCE).expect("all are written");
    };
    let is_away = |n: &u64| n % PARTITIONS as u64 == AWAY.1;
    send_all(&mut (0..RECORDS / 2));
    // One task reads all partitions.
    let mut config = Config::default();
    config.cores = 1.try_into().unwrap();
    let env = Environment::with_config(config);
    let read = Arc::<AtomicUsize>::default();
    let adds = Arc::clone(&read);
    env.read(KafkaSource::new(cluster.bootstrap_servers(), "numbers"))
        .try_map(|message| Ok::<_, thalweg::Error>(message.text()?.parse::<i64>().unwrap()))
        .assign_timestamps(
            |n| Timestamp::from_secs(*n),
            Watermarks::monotonous().idle_after(SILENT),
        )
        .inspect(move |_| _ = adds.fetch_add(1, Ordering::SeqCst))
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(Duration::from_secs(1)))
        .count()
        .unkey()
        .for_each(drop);
    let job = env.start().expect("the job can be started");
    let is_read = |count: u64| read.load(Ordering::SeqCst) as u64 == count;
    wait("the first half", &job, || is_read(RECORDS / 2));
    cluster.broker_down(AWAY.0).unwrap();
    send_all(&mut (RECORDS / 2..RECORDS).filter(|n| !is_away(n)));
    wait("what other brokers have", &job, || is_read(RECORDS / 8 * 7));
    thread::sleep(2 * SILENT);
    cluster.broker_up(AWAY.0).unwrap();
    send_all(&mut (RECORDS / 2..RECORDS).filter(is_away));
    wait("all", &job, || is_read(RECORDS));
    job.drain();
    let stats = job.wait().expect("the job ends well");
    let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
    assert_eq!(late, 0);
}

/// Keeps what is logged.
struct Kept(Mutex<Vec<String>>);

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

/// Another cluster in the place of the first one, as after one was restored, has fewer records.
#[test]
fn a_log_that_ends_before_the_jobs_end_is_warned_of() {
    log::set_logger(&KEPT).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let dir = tempfile::tempdir().unwrap();
    // A program may have one job in a directory.
    let folders = ["first", "second"].map(|name| dir.path().join(name));
    let begin = |folder: &Path, records: u64, gate: u64| {
        let cluster = cluster();
        let producer = producer(&cluster);
        (0..records).for_each(|n| send(&producer, n));
        producer.flush(PATIENCE).expect("all are written");
        let mut config = Config::default();
        config.cores = 1.try_into().unwrap();
        config.checkpoints = Some(CheckpointConfig::new(folder));
        let env = Environment::with_config(config);
        let read = Arc::<AtomicUsize>::default();
        let adds = Arc::clone(&read);
        let source = KafkaSource::new(cluster.bootstrap_servers(), "numbers");
        env.read(source.until_now().read_recreated_topics())
            .map(|message| message.offset())
            // The first run is stopped before its end.
            .for_each(move |_| {
                if adds.fetch_add(1, Ordering::SeqCst) as u64 >= gate {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        (env.start().expect("the job can be started"), cluster, read)
    };
    let (job, _first, read) = begin(&folders[0], 20_000, 100);
    wait("some records", &job, || read.load(Ordering::SeqCst) > 100);
    job.suspend().expect("the job can be suspended");
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Suspended);
    std::fs::rename(&folders[0], &folders[1]).unwrap();
    let (job, _second, _) = begin(&folders[1], 19_000, u64::MAX);
    // The first run may have read one of the partitions to its end.
    let warning = "ends at offset 4750 for now, and is to be read until 5000";
    let says = || KEPT.0.lock().unwrap().iter().any(|line| line.contains(warning));
    wait("the warning", &job, says);
    job.cancel();
}

/// Of 97 partitions, those of keys with 0 to 40 bytes: `Utils.toPositive(Utils.murmur2(key)) % 97` of Kafka's client in Java.
const OF_KEYS: [i32; 41] = [
    35, 37, 59, 87, 21, 66, 59, 69, 94, 24, 34, 34, 53, 80, 21, 86, 56, 87, 39, 14, 81, 25, 30, 66,
    5, 69, 29, 74, 64, 38, 63, 11, 96, 72, 63, 4, 73, 32, 96, 53, 58,
];

#[test]
fn keys_of_any_length_go_to_the_partitions_of_kafkas_own_client() {
    let cluster = cluster();
    cluster.create_topic("keys", 97, 1).expect("a topic");
    let servers = cluster.bootstrap_servers();
    let key = |length: usize| (0..length).map(|i| (i * 37 + length * 11) as u8).collect::<Vec<_>>();
    let env = Environment::with_config(Config::default());
    // The last ones have no key.
    let keys = (0..200).map(move |length| (length <= 40).then(|| key(length)));
    let sink = KafkaSink::at_least_once(&servers, "keys", |key: Option<Vec<u8>>, record| {
        if let Some(key) = key {
            record.key(key);
        }
        Ok(())
    });
    env.iter(keys).write(sink);
    env.run().expect("all are written");
    let env = Environment::with_config(Config::default());
    let read = env
        .read(KafkaSource::new(&servers, "keys").until_now())
        .map(|message| (message.key().map(<[u8]>::to_vec), message.partition()))
        .collect::<Vec<_>>();
    env.run().expect("all are read");
    let (with, without): (Vec<_>, Vec<_>) =
        read.take().unwrap().into_iter().partition(|(key, _)| key.is_some());
    let expected: BTreeMap<_, _> =
        OF_KEYS.iter().enumerate().map(|(length, at)| (Some(key(length)), *at)).collect();
    assert_eq!(with.into_iter().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(without.len(), 159);
}
