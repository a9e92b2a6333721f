//! Jobs and a cluster of several brokers: librdkafka's imitation of one, in this process, whose partitions move when a test says so.

use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::Environment;
use thalweg::config::Config;
use thalweg_kafka::KafkaSource;

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
