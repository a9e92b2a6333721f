//! All that a broker sends: what Kafka's own client writes in each of its formats, and batches of any size.

use crate::Test;
use crate::broker::{Broker, PATIENCE, apart, send};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg::config::Config;
use thalweg::{Data, Environment};
use thalweg_kafka::KafkaSource;

pub const TESTS: &[Test] = &[
    ("all_formats_of_kafkas_own_client_are_read", formats),
    ("all_formats_of_librdkafka_are_read", of_librdkafka),
    ("batches_of_any_size_are_read_with_any_limits", sizes),
];

/// All of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
struct Whole {
    millis: i64,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, Option<String>)>,
}

fn read(source: KafkaSource) -> Vec<(i64, Whole)> {
    let env = Environment::with_config(Config::default());
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    let all = env.read(source.until_now()).map(move |message| {
        let headers = message.headers().map(|(name, value)| (name.to_owned(), text(value)));
        let whole = Whole {
            millis: message.timestamp().unwrap().as_micros() / 1000,
            key: text(message.key()),
            value: text(message.payload()),
            headers: headers.collect(),
        };
        (message.offset(), whole)
    });
    let all = all.collect::<Vec<_>>();
    env.run().unwrap();
    all.take().unwrap()
}

/// What `Formats.java` writes.
fn expected(n: i64, begin: i64) -> Whole {
    let headers = vec![("n".to_owned(), Some(n.to_string())), ("nothing".to_owned(), None)];
    Whole {
        millis: begin + n,
        key: (n % 3 != 0).then(|| format!("key {n}")),
        value: (n % 7 != 0).then(|| format!("value {n};").repeat(n as usize % 50 + 1)),
        headers: if n % 2 == 0 { vec![] } else { headers },
    }
}

fn formats(broker: &mut Broker) {
    const EACH: i64 = 300;
    let topic = broker.topic("formats", 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let begin = now.as_millis() as i64;
    let mut java = apart("java");
    java.arg("-cp").arg(broker.classes());
    java.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker/Formats.java"));
    let output = java.arg(broker.address()).arg(&topic).arg(begin.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = read(KafkaSource::new(broker.address(), &*topic));
    let numbers = 0..5 * EACH + 20;
    let wanted: Vec<_> = numbers.map(|n| expected(n, begin)).collect();
    assert_eq!(all.len(), wanted.len());
    for ((offset, found), wanted) in all.iter().zip(&wanted) {
        assert_eq!(found, wanted, "at {offset}");
    }
    // Offsets that are left out are those of aborted records and of the ends of transactions.
    let offsets: Vec<_> = all.iter().map(|(offset, _)| *offset).collect();
    let committed = |first: i64| first..first + 10;
    let left = (0..5 * EACH).chain(committed(5 * EACH + 11)).chain(committed(5 * EACH + 33));
    assert_eq!(offsets, left.collect::<Vec<_>>());
    // The aborted ones are there for whoever wants them.
    let source = KafkaSource::new(broker.address(), &*topic);
    let uncommitted = read(source.option("isolation.level", "read_uncommitted"));
    assert_eq!(uncommitted.len(), wanted.len() + 30);
}

fn of_librdkafka(broker: &mut Broker) {
    let topic = broker.topic("formats-of-librdkafka", 1);
    let mut count = 0;
    for compression in ["none", "gzip", "snappy", "lz4"] {
        let mut config = broker.config();
        config.set("compression.codec", compression).set("linger.ms", "50");
        let producer: BaseProducer = config.create().unwrap();
        for n in 0..500 {
            let (key, text) = (n.to_string(), format!("{compression} {n}").repeat(n % 20));
            send(&producer, BaseRecord::to(&topic).key(&*key).payload(&*text));
        }
        producer.flush(PATIENCE).unwrap();
        count += 500;
    }
    let ours = read(KafkaSource::new(broker.address(), &*topic));
    let theirs = read(KafkaSource::new(broker.address(), &*topic).fetch_by_librdkafka());
    assert_eq!(ours.len(), count);
    assert_eq!(ours, theirs);
}

/// Batches that are longer than what is asked for come one at a time, from each partition in its turn.
fn sizes(broker: &mut Broker) {
    let topic = broker.topic("sizes", 4);
    let producer = broker.producer(None);
    let mut wanted = Vec::new();
    for n in 0..120 {
        let text = format!("{n};").repeat(if n % 5 == 0 { 60_000 } else { n * 3 + 1 });
        let key = n.to_string();
        let record = BaseRecord::to(&topic).key(&*key).payload(&*text);
        send(&producer, record.partition(n as i32 % 4));
        // Some batches have one record, and some a few.
        if n % 7 < 4 {
            producer.flush(PATIENCE).unwrap();
        }
        wanted.push((Some(key), Some(text)));
    }
    producer.flush(PATIENCE).unwrap();
    wanted.sort();
    let limits: [&[(&str, &str)]; 5] = [
        &[],
        &[("fetch.message.max.bytes", "1")],
        &[("fetch.max.bytes", "1000000")],
        &[("queued.max.messages.kbytes", "1"), ("max.partition.fetch.bytes", "1000")],
        &[("fetch.min.bytes", "100000"), ("fetch.wait.max.ms", "200")],
    ];
    for options in limits {
        let source = KafkaSource::new(broker.address(), &*topic);
        let set = |source: KafkaSource, (name, value): &(&str, &str)| source.option(*name, *value);
        let all = read(options.iter().fold(source, set));
        let mut found: Vec<_> =
            all.into_iter().map(|(_, whole)| (whole.key, whole.value)).collect();
        found.sort();
        assert!(found == wanted, "{options:?}: {} records", found.len());
    }
}
