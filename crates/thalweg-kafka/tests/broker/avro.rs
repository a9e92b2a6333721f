//! Avro by a real schema registry, between jobs and Java's Avro.

use crate::Test;
use crate::broker::{Broker, PATIENCE};
use crate::registry::{Registry, hex, judge, unhex};
use rdkafka::producer::{BaseRecord, Producer as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use thalweg::{Environment, ErrorKind};
use thalweg_kafka::{KafkaSink, KafkaSource, SchemaRegistry, SubjectName};

pub const TESTS: &[Test] = &[
    ("avro_of_java_is_read", read),
    ("avro_that_is_written_is_read_by_java", written),
    ("avro_of_older_schemas_is_read_as_a_newer_one", evolved),
    ("what_is_no_avro_is_said", refused),
    ("incompatible_schemas_are_refused", incompatible),
];

/// Something of everything.
const SCHEMA: &str = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"},
    {"name": "count", "type": "int"},
    {"name": "ratio", "type": "float"},
    {"name": "weight", "type": "double"},
    {"name": "paid", "type": "boolean"},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "raw", "type": "bytes"},
    {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "amounts", "type": {"type": "map", "values": "long"}},
    {"name": "pay", "type": ["null", "string",
        {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "long"}]},
        {"type": "record", "name": "Cash", "fields": [{"name": "cents", "type": "int"}]}]},
    {"name": "parent", "type": ["null", "Order"]}]}"#;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: i64,
    count: i32,
    ratio: f32,
    weight: f64,
    paid: bool,
    note: Option<String>,
    raw: Vec<u8>,
    digest: [u8; 4],
    state: State,
    price: String,
    at: i64,
    day: i32,
    uuid: String,
    tags: Vec<String>,
    amounts: BTreeMap<String, i64>,
    pay: Option<Pay>,
    parent: Option<Box<Order>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum State {
    #[serde(rename = "OPEN")]
    Open,
    #[serde(rename = "DONE")]
    Done,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Pay {
    String(String),
    Card { number: i64 },
    Cash { cents: i32 },
}

fn orders() -> Vec<Order> {
    let order = |id: i64, parent: Option<Box<Order>>| Order {
        id: id.wrapping_mul(0x1234_5678_9abc_def1),
        count: -(id as i32),
        ratio: id as f32 / 4.0,
        weight: -0.125 * id as f64,
        paid: id % 2 == 0,
        note: (id % 3 > 0).then(|| format!("nº {id}")),
        raw: (0..id as u8).map(|byte| byte.wrapping_mul(77)).collect(),
        digest: (id as i32).to_be_bytes(),
        state: if id % 2 == 0 { State::Open } else { State::Done },
        price: format!("{}{id}.{:02}", if id % 2 == 0 { "-" } else { "" }, id % 100),
        at: 1_700_000_000_000_000 + id,
        day: 20_000 - id as i32,
        uuid: format!("0123e567-e89b-12d3-a456-4266141740{:02x}", id % 256),
        tags: (0..id % 5).map(|tag| format!("tag {tag}")).collect(),
        amounts: (0..id % 2).map(|key| (format!("key {key}"), key - id)).collect(),
        pay: match id % 4 {
            0 => None,
            1 => Some(Pay::String("voucher".into())),
            2 => Some(Pay::Card { number: id << 40 }),
            _ => Some(Pay::Cash { cents: -1 }),
        },
        parent,
    };
    (1..200).map(|id| order(id, (id % 7 == 0).then(|| Box::new(order(id + 1, None))))).collect()
}

/// Bytes in Avro's JSON are characters of their numbers.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// An order in Avro's JSON, in which branches of unions are named.
fn json_of(order: &Order) -> Value {
    let cents: i64 = order.price.replace('.', "").parse().expect("digits");
    let mut unscaled = cents.to_be_bytes().to_vec();
    while unscaled.len() > 1 && matches!((unscaled[0], unscaled[1] & 0x80), (0, 0) | (0xff, 0x80)) {
        unscaled.remove(0);
    }
    json!({
        "id": order.id, "count": order.count, "ratio": order.ratio, "weight": order.weight, "paid": order.paid,
        "note": order.note.as_ref().map(|note| json!({ "string": note })),
        "raw": latin(&order.raw), "digest": latin(&order.digest), "state": order.state,
        "price": latin(&unscaled), "at": order.at, "day": order.day, "uuid": order.uuid,
        "tags": order.tags, "amounts": order.amounts,
        "pay": order.pay.as_ref().map(|pay| match pay {
            Pay::String(text) => json!({ "string": text }),
            Pay::Card { number } => json!({ "shop.Card": { "number": number } }),
            Pay::Cash { cents } => json!({ "shop.Cash": { "cents": cents } }),
        }),
        "parent": order.parent.as_ref().map(|parent| json!({ "shop.Order": json_of(parent) })),
    })
}

/// Started once, with the first test that needs it. It ends with the process, and its files with the broker's.
pub fn registry(broker: &Broker) -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::start(&jars(), broker.folder()))
}

fn jars() -> PathBuf {
    std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from).expect("main has looked")
}

pub fn client(broker: &Broker) -> SchemaRegistry {
    SchemaRegistry::new([registry(broker).url()])
}

pub fn with_id(id: u32, body: &[u8]) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), body].concat()
}

pub fn append(broker: &Broker, topic: &str, records: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
    let producer = broker.producer(None);
    for (key, payload) in records {
        let record = BaseRecord::to(topic).key(&key).payload(&payload).partition(0);
        producer.send(record).map_err(|(error, _)| error).expect("there is room");
    }
    producer.flush(PATIENCE).expect("they are delivered");
}

fn read(broker: &mut Broker) {
    let topic = broker.topic("avro-read", 1);
    let id = registry(broker).register("avro-read-value", SCHEMA);
    let of_keys = registry(broker).register("avro-read-key", "\"long\"");
    let orders = orders();
    let lines: Vec<_> = orders.iter().map(|order| json_of(order).to_string()).collect();
    let encoded = judge(&jars(), "encode", &[SCHEMA], &lines);
    let key = |count: &i32| {
        with_id(of_keys, &[((-count * 2) as u32 & 0x7f) as u8 | 0x80, ((-count * 2) >> 7) as u8])
    };
    let records = orders.iter().zip(&encoded);
    append(
        broker,
        &topic,
        records.map(|(order, hex)| (key(&order.count), with_id(id, &unhex(hex)))),
    );
    let env = Environment::new();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let (values, keys) = (client(broker).decoder().unwrap(), client(broker).decoder().unwrap());
    let found = env.read(source).try_map(move |message| {
        Ok::<_, thalweg::Error>((message.avro_key::<i64>(&keys)?, message.avro::<Order>(&values)?))
    });
    let found = found.map(|(key, order)| (key, serde_json::to_string(&order).unwrap()));
    let found = found.collect::<Vec<_>>();
    env.run().unwrap();
    let expected =
        orders.iter().map(|order| (-i64::from(order.count), serde_json::to_string(order).unwrap()));
    assert_eq!(found.take().unwrap(), expected.collect::<Vec<_>>());
}

fn written(broker: &mut Broker) {
    let topic = broker.topic("avro-written", 1);
    let encoder = client(broker).encoder(&topic, SCHEMA).unwrap();
    let keys = client(broker).encoder(&topic, "\"string\"").unwrap().for_keys();
    let env = Environment::new();
    let sink = KafkaSink::exactly_once(broker.address(), &topic, move |id: u64, record| {
        let order = &orders()[id as usize];
        record.avro_key(&keys, &order.uuid)?.avro(&encoder, order)
    });
    env.range(0..orders().len() as u64).parallelism(1).write(sink);
    env.run().unwrap();
    let id = registry(broker).register("avro-written-value", SCHEMA);
    let of_keys = registry(broker).register("avro-written-key", "\"string\"");
    let records = broker.raw_records(&topic);
    let orders = orders();
    assert_eq!(records.len(), orders.len());
    let body = |bytes: &[u8], id: u32| {
        assert_eq!(bytes[..5], with_id(id, &[]));
        hex(&bytes[5..])
    };
    let payloads: Vec<_> = records.iter().map(|(_, payload)| body(payload, id)).collect();
    let found = judge(&jars(), "decode", &[SCHEMA], &payloads);
    let found = found.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let expected =
        orders.iter().map(|order| serde_json::from_str(&json_of(order).to_string()).unwrap());
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<Value>>());
    let keys: Vec<_> = records.iter().map(|(key, _)| body(key, of_keys)).collect();
    let found = judge(&jars(), "decode", &["\"string\""], &keys);
    let expected = orders.iter().map(|order| json!(order.uuid).to_string());
    assert_eq!(found, expected.collect::<Vec<_>>());
    // It is there now, so that it need not be registered.
    let lookup = client(broker).encoder(&topic, SCHEMA).unwrap().auto_register(false);
    assert_eq!(lookup.register().unwrap(), id);
    let missing = lookup_missing(broker, &topic);
    assert_eq!(missing.kind(), ErrorKind::Config);
    let expected = "the schema is not registered under the subject `avro-written-shop.Order`";
    assert_eq!(missing.message(), expected);
}

fn lookup_missing(broker: &Broker, topic: &str) -> thalweg::Error {
    let encoder =
        client(broker).encoder(topic, SCHEMA).unwrap().subject_name(SubjectName::TopicRecord);
    encoder.auto_register(false).register().unwrap_err()
}

/// Java's Avro resolves the same two schemas.
fn evolved(broker: &mut Broker) {
    let topic = broker.topic("avro-evolved", 1);
    const OLD: &str = r#"{"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "int"}, {"name": "customer", "type": "string"}, {"name": "note", "type": "string"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A", "B", "C"]}}]}"#;
    const NEW: &str = r#"{"type": "record", "name": "Order", "fields": [
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["C", "X"], "default": "X"}},
        {"name": "buyer", "type": "string", "aliases": ["customer"]},
        {"name": "id", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "int"}, "default": [1, 2]}]}"#;
    #[derive(Serialize, Deserialize)]
    struct New {
        state: String,
        buyer: String,
        id: f64,
        tags: Vec<i32>,
    }
    let ids = [OLD, NEW].map(|schema| registry(broker).register("avro-evolved-value", schema));
    assert_ne!(ids[0], ids[1]);
    let old = |id: usize| {
        let state = ["A", "B", "C"][id % 3];
        json!({ "id": id, "customer": format!("c{id}"), "note": "-", "state": state }).to_string()
    };
    let old: Vec<_> = (0..30).map(old).collect();
    let old = judge(&jars(), "encode", &[OLD], &old);
    let newer = json!({ "state": "C", "buyer": "b", "id": 0.5, "tags": [7] }).to_string();
    let new = judge(&jars(), "encode", &[NEW], &[newer]);
    let mut expected = judge(&jars(), "decode", &[OLD, NEW], &old);
    expected.extend(judge(&jars(), "decode", &[NEW], &new));
    let records = old.iter().map(|hex| with_id(ids[0], &unhex(hex)));
    let records = records.chain(new.iter().map(|hex| with_id(ids[1], &unhex(hex))));
    append(broker, &topic, records.map(|payload| (Vec::new(), payload)));
    let env = Environment::new();
    let decoder = client(broker).decoder_as(NEW).unwrap();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let found = env.read(source).try_map(move |message| message.avro::<New>(&decoder));
    let found = found.map(|order| serde_json::to_string(&order).unwrap()).collect::<Vec<_>>();
    env.run().unwrap();
    let value = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let found = found.take().unwrap();
    assert_eq!(
        found.iter().map(value).collect::<Vec<_>>(),
        expected.iter().map(value).collect::<Vec<_>>()
    );
}

fn refused(broker: &mut Broker) {
    let topic = broker.topic("avro-refused", 1);
    let id = registry(broker).register("avro-refused-value", "\"long\"");
    let bad = [b"{}{}{}".to_vec(), with_id(987_654, &[2]), with_id(id, &[0x80]), with_id(id, &[6])];
    append(broker, &topic, bad.into_iter().map(|payload| (Vec::new(), payload)));
    let env = Environment::new();
    let decoder = client(broker).decoder().unwrap();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let found = env.read(source).map(move |message| match message.avro::<i64>(&decoder) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    });
    let found = found.collect::<Vec<_>>();
    env.run().unwrap();
    let found = found.take().unwrap();
    let expected = [
        "avro-refused/0 at 0: the record is not in the form of a schema registry: it begins with 123 in place of 0",
        "avro-refused/0 at 1: the schema 987654 of the record is not to be had",
        &format!("avro-refused/0 at 2: the record is not the expected Avro (schema {id})"),
        "3",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(found.len(), 4);
    assert!(found[1].contains("answers 404: "), "{}", found[1]);
}

fn incompatible(broker: &mut Broker) {
    let topic = broker.topic("avro-incompatible", 1);
    let of = |fields: &str| format!(r#"{{"type": "record", "name": "R", "fields": [{fields}]}}"#);
    let subject = format!("{topic}-value");
    registry(broker).register(&subject, &of(r#"{"name": "a", "type": "int"}"#));
    registry(broker).check_compatibility(&subject);
    let schema = of(r#"{"name": "a", "type": "int"}, {"name": "b", "type": "int"}"#);
    let encoder = client(broker).encoder(&topic, &schema).unwrap();
    let error = encoder.register().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let expected = "the schema is not compatible with the subject `avro-incompatible-value`";
    assert_eq!(error.message(), expected);
    // Not registered before the job, it is the same error at the first record.
    let env = Environment::new();
    let sink = KafkaSink::at_least_once(broker.address(), &topic, move |n: u64, record| {
        record.avro(&encoder, &json!({ "a": n, "b": n }))
    });
    env.range(0..1_000).write(sink);
    let error = env.run().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Config, expected));
    assert_eq!(broker.records(&topic).len(), 0);
}
