//! What statistics say of a source that waits: for its records to be fetched, or for new ones.

use crate::Test;
use crate::broker::{Broker, PATIENCE, send};
use rdkafka::producer::{BaseRecord, Producer as _};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::metrics::{SourceWaits, Stats};
use thalweg::{Environment, JobHandle};
use thalweg_kafka::{KafkaSource, MessageRef};

pub const TESTS: &[Test] = &[
    ("statistics_name_a_slow_fetch", slow),
    ("statistics_know_of_records_that_came_later", later),
    ("statistics_say_that_all_was_read", all_read),
];

/// Batches of ten records of a kilobyte.
fn fill(broker: &Broker, topic: &str, partition: i32, batches: usize) {
    let producer = broker.producer(None);
    let text = "x".repeat(1000);
    for _ in 0..batches {
        for _ in 0..10 {
            send(&producer, BaseRecord::to(topic).partition(partition).key("").payload(&*text));
        }
        producer.flush(PATIENCE).unwrap();
    }
}

fn waits(stats: &Stats) -> &SourceWaits {
    stats.operators[0].waits.as_ref().expect("a source of Kafka knows")
}

fn started(source: KafkaSource) -> JobHandle {
    let env = Environment::new();
    env.read(source).map(|message: MessageRef<'_>| message.offset()).for_each(|_| ());
    env.start().unwrap()
}

/// The statistics of a running job when they are so.
fn when(job: &JobHandle, is_so: impl Fn(&Stats) -> bool) -> Stats {
    let begun = Instant::now();
    loop {
        let stats = job.stats();
        if is_so(&stats) {
            return stats;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}\n{stats}", waits(&stats));
        thread::sleep(Duration::from_millis(20));
    }
}

/// The broker makes the client wait.
fn slow(broker: &mut Broker) {
    let topic = broker.topic("slow-fetch", 3);
    fill(broker, &topic, 1, 25);
    broker.quota("slow", "consumer_byte_rate", Some(20_000));
    let source = KafkaSource::new(broker.address(), topic.as_str());
    let source = source.option("client.id", "slow").option("fetch.message.max.bytes", "10000");
    let job = started(source.until_now());
    // While it runs, they say how far it is behind.
    let now = when(&job, |stats| stats.to_string().contains(" waited for the fetch of "));
    assert!(waits(&now).backlog > 0, "{now}");
    assert!(now.to_string().contains(" not read yet"), "{now}");
    let stats = job.wait().unwrap();
    let text = stats.to_string();
    assert!(text.contains(" waited for the fetch of slow-fetch/1 (at most "), "{text}");
    assert!(!text.contains("nothing to give") && !text.contains("slow-fetch/0"), "{text}");
    let waits = waits(&stats);
    assert_eq!((waits.splits.len(), waits.backlog), (1, 0), "{waits:?}");
    assert!((1..=250).contains(&waits.splits[0].most_behind), "{waits:?}");
    let json: serde_json::Value = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["operators"][0]["waits"]["splits"][0]["split"], "slow-fetch/1");
}

/// The source begins in an empty topic: how far it reaches later, only answers to fetches say.
fn later(broker: &mut Broker) {
    let topic = broker.topic("slow-later", 2);
    broker.quota("slow-later", "consumer_byte_rate", Some(20_000));
    let source = KafkaSource::new(broker.address(), topic.as_str());
    let source = source.option("client.id", "slow-later");
    let job = started(source.option("fetch.message.max.bytes", "10000"));
    when(&job, |stats| stats.operators[0].waits.as_ref().is_some_and(|waits| waits.backlog == 0));
    fill(broker, &topic, 1, 60);
    let now = when(&job, |stats| waits(stats).backlog > 0 && !waits(stats).splits.is_empty());
    assert_eq!(waits(&now).splits[0].split, "slow-later/1");
    job.cancel();
    assert!(job.wait().is_err());
}

/// The last offset of each partition is no record, but the end of a transaction.
fn all_read(broker: &mut Broker) {
    let topic = broker.topic("all-read", 2);
    let producer = broker.producer(Some("of a quiet topic"));
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    for partition in [0, 1] {
        send(&producer, BaseRecord::to(&topic).partition(partition).key("").payload("x"));
    }
    producer.commit_transaction(PATIENCE).unwrap();
    let job = started(KafkaSource::new(broker.address(), topic.as_str()));
    let says = |stats: &Stats| stats.to_string().contains(" had read all that was there for ");
    let now = when(&job, says);
    assert!(!now.to_string().contains("the fetch of"), "{now}");
    assert_eq!(waits(&now).backlog, 0);
    // What comes later is read, and is no slow fetch either; the client has said by then where the partitions end.
    fill(broker, &topic, 0, 1);
    let read = |stats: &Stats| stats.operators[0].records_out == Some(12);
    let before = waits(&when(&job, read)).nothing_new.max;
    let longer = before + Duration::from_secs(3);
    when(&job, |stats| waits(stats).backlog == 0 && waits(stats).nothing_new.max >= longer);
    job.drain();
    let stats = job.wait().unwrap();
    assert!(says(&stats) && !stats.to_string().contains("the fetch of"), "{stats}");
}
