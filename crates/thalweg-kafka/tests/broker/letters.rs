//! Records that cannot be decoded: errors, and dead letters where a job has a use for them.

use crate::Test;
use crate::broker::{Broker, PATIENCE, headers, send};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg::check::check;
use thalweg::time::Timestamp;
use thalweg::{Environment, Error, ErrorKind};
use thalweg_kafka::{DeadLetter, KafkaSink, KafkaSource, Outgoing};

pub const TESTS: &[Test] = &[
    ("a_record_that_is_not_decoded_is_an_error_with_its_place", named),
    ("dead_letters_are_written_to_a_topic_with_all_that_they_had", written),
    ("dead_letters_are_the_same_on_hosts_and_after_restarts", checked),
    ("other_errors_of_a_decoder_end_the_job", other),
    #[cfg(feature = "avro")]
    ("what_is_no_avro_is_a_dead_letter", avro),
];

/// When records were made, in milliseconds: not for long, as the broker deletes what is old.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// A hundred numbers in two partitions, of which every tenth is no JSON, each made a millisecond after the one before.
fn poisoned(broker: &Broker, name: &str, begin: i64) -> String {
    let topic = broker.topic(name, 2);
    let producer = broker.producer(None);
    for n in 0..100i64 {
        let text = if n % 10 == 3 { format!("{{\"n\": {n}") } else { n.to_string() };
        let key = format!("key {n}");
        let record = BaseRecord::to(&topic).partition(n as i32 % 2).key(&*key).payload(&*text);
        let id = n.to_string();
        let more = headers(&[("id", Some(&*id)), ("empty", None)]);
        send(&producer, record.timestamp(begin + n).headers(more));
    }
    producer.flush(PATIENCE).unwrap();
    topic
}

fn source(broker: &Broker, topic: &str) -> KafkaSource {
    KafkaSource::new(broker.address(), topic).until_now()
}

fn fill(letter: DeadLetter, record: &mut Outgoing) -> thalweg::Result<()> {
    letter.fill(record);
    Ok(())
}

fn named(broker: &mut Broker) {
    let topic = poisoned(broker, "poisoned-error", now());
    let env = Environment::new();
    let out = env.read(source(broker, &topic).json::<i64>()).collect::<Vec<_>>();
    let error = env.run().unwrap_err();
    assert!(out.take().is_err());
    assert_eq!(error.kind(), ErrorKind::Input);
    let text = error.to_string();
    assert!(text.starts_with("read ("), "{text}");
    // Every other record is in the partition: the third number is its second one.
    assert!(
        text.contains(": poisoned-error/1 at 1: the record is not the expected JSON: "),
        "{text}"
    );
}

/// A record as a plain consumer has it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Plain {
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: BTreeMap<String, Option<String>>,
}

/// So many records of a topic's only partition.
fn plain(broker: &Broker, topic: &str, count: usize) -> Vec<Plain> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("group.id", "judge of letters");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&all).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let of = |_| {
        let message = consumer.poll(PATIENCE).expect("a record in time").unwrap();
        let headers = message.headers().unwrap().iter();
        Plain {
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_owned(), h.value.map(text))).collect(),
        }
    };
    let mut records: Vec<_> = (0..count).map(of).collect();
    records.sort();
    assert_eq!(broker.end_of(topic, 0), count as i64, "there are no others");
    records
}

fn written(broker: &mut Broker) {
    let begin = now();
    let topic = poisoned(broker, "poisoned", begin);
    // A tombstone has no value either.
    let producer = broker.producer(None);
    send(&producer, BaseRecord::to(&topic).partition(0).key("none").timestamp(begin));
    producer.flush(PATIENCE).unwrap();
    let dead = broker.topic("poisoned-dead", 1);
    let env = Environment::new();
    let (numbers, letters) = env.read(source(broker, &topic).json::<i64>()).dead_letters();
    let sum = numbers.sum(|n| *n).collect_one();
    letters.write(KafkaSink::at_least_once(broker.address(), dead.as_str(), fill));
    let stats = env.start().unwrap().wait().unwrap();
    let good: i64 = (0..100).filter(|n| n % 10 != 3).sum();
    assert_eq!(sum.take().unwrap(), Some(good));
    let mut ops = stats.operators.iter();
    let op = ops.find(|op| op.kind == "dead_letters" && op.stage == 0).unwrap();
    assert_eq!((op.records_in, op.records_out, op.side_output_records), (Some(101), Some(90), 11));
    let mut expected: Vec<_> = (0..100i64)
        .filter(|n| n % 10 == 3)
        .map(|n| {
            let at = (begin + n).to_string();
            // Numbers that end in 3 are odd.
            let offset = (n / 2).to_string();
            let error = "the record is not the expected JSON: invalid type: map, expected i64 at line 1 column 0";
            let id = n.to_string();
            let headers = [
                ("id", Some(&*id)),
                ("empty", None),
                ("thalweg.topic", Some("poisoned")),
                ("thalweg.partition", Some("1")),
                ("thalweg.offset", Some(&*offset)),
                ("thalweg.timestamp", Some(&*at)),
                ("thalweg.error", Some(error)),
            ];
            let own = |(name, value): (&str, Option<&str>)| (name.to_owned(), value.map(str::to_owned));
            Plain {
                key: Some(format!("key {n}").into_bytes()),
                payload: Some(format!("{{\"n\": {n}").into_bytes()),
                headers: headers.map(own).into(),
            }
        })
        .collect();
    let first = begin.to_string();
    let of_tombstone = [
        ("thalweg.topic", "poisoned"),
        ("thalweg.partition", "0"),
        ("thalweg.offset", "50"),
        ("thalweg.timestamp", &*first),
        ("thalweg.error", "the record is a tombstone: it has no value"),
    ];
    expected.push(Plain {
        key: Some(b"none".to_vec()),
        payload: None,
        headers: of_tombstone.map(|(name, text)| (name.to_owned(), Some(text.to_owned()))).into(),
    });
    expected.sort();
    assert_eq!(plain(broker, &dead, 11), expected);
}

/// On hosts, by all schedulers, and interrupted at any moment and restored at other numbers of tasks.
fn checked(broker: &mut Broker) {
    let begin = now();
    let topic = poisoned(broker, "poisoned-checked", begin);
    let address = broker.address();
    let job = move |env: &Environment| {
        let source = KafkaSource::new(address.as_str(), topic.as_str()).until_now();
        let (numbers, letters) = env.read(source.json::<i64>()).dead_letters();
        let letter = move |letter: DeadLetter| {
            assert_eq!(
                letter.timestamp,
                Some(Timestamp::from_millis(begin + 3 + 10 * (letter.offset / 5)))
            );
            (letter.text().into_owned(), letter.place().to_string())
        };
        numbers.map(|n| (n.to_string(), String::new())).merge(letters.map(letter))
    };
    let expected = (0..100i64).map(|n| match n % 10 {
        3 => (format!("{{\"n\": {n}"), format!("poisoned-checked/1 at {}", n / 2)),
        _ => (n.to_string(), String::new()),
    });
    check(job).any_tasks().equals(expected);
}

/// Only a record that is bad is a dead letter: all else that goes wrong in a decoder ends the job, as does a panic.
fn other(broker: &mut Broker) {
    let topic = broker.topic("poisoned-other", 1);
    broker.append(&topic, None, [("a", "1"), ("b", "x")]);
    let run = |fails: fn() -> Error| {
        let env = Environment::new();
        let decoded = source(broker, &topic).decode(move |message| match message.text()? {
            "x" => Err(fails()),
            text => Ok(text.to_owned()),
        });
        let (good, letters) = env.read(decoded).dead_letters();
        let (good, letters) = (good.collect::<Vec<_>>(), letters.collect::<Vec<_>>());
        env.run().map(|()| (good.take().unwrap(), letters.take().unwrap()))
    };
    let (good, letters) = run(|| Error::new(ErrorKind::Input, "it is x")).unwrap();
    assert_eq!((&*good, letters.len()), (&["1".to_owned()][..], 1));
    assert_eq!(letters[0].to_string(), "poisoned-other/0 at 1: it is x, in `x`");
    let error = run(|| Error::new(ErrorKind::Io, "it is not to be had")).unwrap_err();
    let expected = ": poisoned-other/0 at 1: it is not to be had";
    assert!(error.kind() == ErrorKind::Io && error.to_string().ends_with(expected), "{error}");
    let error = run(|| panic!("x is no letter")).unwrap_err();
    assert!(error.to_string().contains("x is no letter"), "{error}");
}

#[cfg(feature = "avro")]
fn avro(broker: &mut Broker) {
    use crate::avro::{append, client, registry, with_id};
    let topic = broker.topic("avro-poisoned", 1);
    let id = registry(broker).register("avro-poisoned-value", "\"long\"");
    let records = [with_id(id, &[2]), b"{}{}{}".to_vec(), with_id(id, &[0x80]), with_id(id, &[6])];
    append(broker, &topic, records.clone().into_iter().map(|payload| (Vec::new(), payload)));
    let dead = broker.topic("avro-poisoned-dead", 1);
    let env = Environment::new();
    let source = || source(broker, &topic);
    let decoder = || client(broker).decoder().unwrap();
    let (numbers, letters) = env.read(source().avro::<i64>(decoder())).dead_letters();
    let numbers = numbers.collect::<Vec<_>>();
    letters.write(KafkaSink::at_least_once(broker.address(), dead.as_str(), fill));
    env.run().unwrap();
    assert_eq!(numbers.take().unwrap(), [1, 3]);
    let found = plain(broker, &dead, 2);
    let of = |offset: &str| {
        let has = |record: &&Plain| record.headers["thalweg.offset"].as_deref() == Some(offset);
        let record = found.iter().find(has).unwrap();
        (record.payload.clone().unwrap(), record.headers["thalweg.error"].clone().unwrap())
    };
    let form =
        "the record is not in the form of a schema registry: it begins with 123 in place of 0";
    assert_eq!(of("1"), (records[1].clone(), form.to_owned()));
    let (payload, error) = of("2");
    assert_eq!(payload, records[2]);
    let expected = format!("the record is not the expected Avro (schema {id}): ");
    assert!(error.starts_with(&expected), "{error}");
    // A registry that does not answer says nothing about the record.
    let env = Environment::new();
    let away = thalweg_kafka::SchemaRegistry::new(["http://127.0.0.1:1"])
        .retries(0, std::time::Duration::ZERO);
    let (numbers, letters) = env.read(source().avro::<i64>(away.decoder().unwrap())).dead_letters();
    numbers.for_each(drop);
    letters.for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}
