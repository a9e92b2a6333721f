//! How fast topics are read and written, beside plain clients of librdkafka: `THALWEG_KAFKA_JARS=DIR cargo bench -p thalweg-kafka
//! --bench rates`, of one of both with `-- read` or `-- write`, where `cargo xtask test --step kafka` leaves the broker's jars in `target/kafka/jars`.
//!
//! Rounds alternate. Each reads all records of a topic with four partitions, or writes as many. The broker runs on the same
//! machine. What is shown is the ratio of throughputs in the same round: median, least and greatest.

#[path = "../tests/broker/broker.rs"]
#[allow(dead_code)]
mod broker;

use broker::{Broker, PATIENCE, send};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Result};
use thalweg_kafka::{KafkaSink, KafkaSource, Outgoing};

const PARTITIONS: i32 = 4;
const ROUNDS: usize = 9;

fn main() {
    let Some(jars) = std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from) else {
        eprintln!("THALWEG_KAFKA_JARS names the folder with the broker's jars");
        return;
    };
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let records = number("RECORDS", 2_000_000);
    let bytes = number("BYTES", 200) as usize;
    let broker = Broker::start(&jars);
    let from = broker.topic("from", PARTITIONS);
    fill(&broker, &from, records, bytes);
    println!("{records} records of {bytes} bytes");
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |part| only.as_deref().is_none_or(|only| only == part);
    if wanted("read") {
        reads(&broker, &from, records);
    }
    if wanted("write") {
        writes(&broker, records / 2, bytes);
    }
}

fn reads(broker: &Broker, from: &str, records: u64) {
    let ours = |cores| move |broker: &Broker, from: &str| read(broker, from, cores);
    compare("read, 1 core, over a plain consumer", broker, from, ours(1), move |broker, from| {
        consume(broker, from, records)
    });
    compare("read, 2 cores, over a plain consumer", broker, from, ours(2), move |broker, from| {
        consume(broker, from, records)
    });
}

/// A job's writing, at least once over a plain producer's, and exactly once, with a checkpoint each second, over at least once.
fn writes(broker: &Broker, written: u64, bytes: usize) {
    let mut topics = 0;
    let mut topic = |broker: &Broker| {
        topics += 1;
        broker.topic(&format!("to-{topics}"), PARTITIONS)
    };
    let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let to: [_; 4] = std::array::from_fn(|_| topic(broker));
        let plain = timed(|| fill(broker, &to[0], written, bytes));
        let mut times = [0.0; 3];
        for turn in 0..3 {
            let turn = (turn + round) % 3;
            let ours = [Delivery::AtLeastOnce, Delivery::Kept, Delivery::Open][turn];
            times[turn] = timed(|| write(broker, &to[1 + turn], written, bytes, ours));
        }
        if round > 0 {
            ratios[0].push(plain / times[0]);
            ratios[1].push(times[0] / times[1]);
            ratios[2].push(times[0] / times[2]);
        }
        to.iter().for_each(|topic| broker.delete_topic(topic));
    }
    let [least, exactly, open] = ratios;
    show("write at least once, over a plain producer", least);
    show("write exactly once, checkpoint each second, over at least once", exactly);
    show("the same in open transactions", open);
}

fn timed<T>(run: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_secs_f64()
}

fn compare(
    what: &str,
    broker: &Broker,
    topic: &str,
    ours: impl Fn(&Broker, &str) -> (u64, u64),
    theirs: impl Fn(&Broker, &str) -> (u64, u64),
) {
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let mut found = [(0, 0); 2];
        let mut times = [0.0; 2];
        for turn in [round % 2, 1 - round % 2] {
            times[turn] = timed(|| {
                found[turn] = if turn == 0 { ours(broker, topic) } else { theirs(broker, topic) };
            });
        }
        assert_eq!(found[0], found[1], "the answers differ");
        if round > 0 {
            ratios.push(times[1] / times[0]);
        }
    }
    show(what, ratios);
}

fn show(what: &str, mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    let (median, least, most) = (ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1]);
    println!("{what}: {median:.2} ({least:.2} .. {most:.2})");
}

/// Writes records by a plain producer.
fn fill(broker: &Broker, topic: &str, records: u64, bytes: usize) {
    let producer = broker.producer(None);
    let payload = "x".repeat(bytes);
    for n in 0..records {
        let record = BaseRecord::to(topic).key("").payload(&*payload);
        send(&producer, record.partition((n % PARTITIONS as u64) as i32));
    }
    producer.flush(PATIENCE).expect("they are delivered");
}

fn environment(cores: usize, checkpoints: Option<PathBuf>) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).expect("some cores");
    config.checkpoints = checkpoints.map(CheckpointConfig::new);
    Environment::with_config(config)
}

/// Records and bytes, by a job.
fn read(broker: &Broker, topic: &str, cores: usize) -> (u64, u64) {
    let run = || -> Result<_> {
        let env = environment(cores, None);
        let bytes = env
            .read(KafkaSource::new(broker.address(), topic).until_now())
            .map(|message| (1, message.payload().map_or(0, <[u8]>::len) as u64))
            .fold_assoc(
                (0, 0),
                |sum: &mut (u64, u64), (records, bytes)| {
                    (sum.0, sum.1) = (sum.0 + records, sum.1 + bytes);
                },
                |sum, (records, bytes)| (sum.0, sum.1) = (sum.0 + records, sum.1 + bytes),
            )
            .collect::<Vec<_>>();
        env.run()?;
        Ok(bytes.take()?[0])
    };
    run().expect("the job ends well")
}

/// Records and bytes, by a plain consumer.
fn consume(broker: &Broker, topic: &str, records: u64) -> (u64, u64) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("group.id", "plain");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a client");
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&all).expect("they are there");
    let mut found = (0, 0);
    while found.0 < records {
        let message = consumer.poll(PATIENCE).expect("an answer in time").expect("a record");
        found.0 += 1;
        found.1 += message.payload_len() as u64;
    }
    found
}

#[derive(Clone, Copy)]
enum Delivery {
    AtLeastOnce,
    /// Exactly once, kept until a checkpoint counts.
    Kept,
    /// Exactly once, in open transactions.
    Open,
}

/// Writes records by a job.
fn write(broker: &Broker, topic: &str, records: u64, bytes: usize, delivery: Delivery) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let run = || -> Result<()> {
        // A directory for each job, as each would be a program of its own.
        let env = environment(2, Some(folder.path().join("checkpoints")));
        let payload = vec![b'x'; bytes];
        let encode = move |n: u64, out: &mut Outgoing| {
            out.key([]).payload(&payload).partition((n % PARTITIONS as u64) as i32);
            Ok(())
        };
        let sink = match delivery {
            Delivery::AtLeastOnce => KafkaSink::at_least_once(broker.address(), topic, encode),
            Delivery::Kept => KafkaSink::exactly_once(broker.address(), topic, encode),
            Delivery::Open => KafkaSink::exactly_once(broker.address(), topic, encode)
                .open_transactions(Duration::from_secs(900)),
        };
        env.range(0..records).write(sink);
        env.run()
    };
    run().expect("the job ends well");
}
