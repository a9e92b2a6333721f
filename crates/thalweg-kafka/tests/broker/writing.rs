//! What sinks write.

use crate::Test;
use crate::broker::{Broker, PATIENCE};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};
use thalweg_kafka::{Begin, KafkaSink, KafkaSource, Outgoing};

pub const TESTS: &[Test] = &[
    ("records_are_written_as_they_are_made", parts),
    ("keys_go_where_kafkas_own_clients_send_them", partitions),
    ("all_is_written_at_least_once", at_least_once),
    ("all_is_written_exactly_once_without_checkpoints", exactly_once),
    ("a_source_that_is_faster_than_the_brokers_waits", fast),
    ("a_transaction_is_written_once_however_often_it_is_committed", once),
    ("a_producer_that_was_fenced_begins_anew", fenced),
    ("a_checkpoint_does_not_wait_for_what_is_sent_behind_it", endless),
    ("what_cannot_be_written_is_said", refused),
    ("a_failed_job_has_written_nothing", failed),
    ("offsets_are_committed_to_the_group", groups),
];

fn texts(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("{n:06}")).collect()
}

fn number(n: u64, out: &mut Outgoing) -> thalweg::Result<()> {
    out.key(format!("{n}")).payload(format!("{n:06}"));
    Ok(())
}

fn environment(tasks: usize, checkpoints: Option<&Path>) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(tasks).unwrap();
    config.checkpoints = checkpoints.map(CheckpointConfig::new);
    Environment::with_config(config)
}

fn parts(broker: &mut Broker) {
    for (topic, exactly) in [("written-1", false), ("written-2", true)] {
        let topic = broker.topic(topic, 2);
        let encode = |n: u64, out: &mut Outgoing| {
            match n {
                0 => out.key("k").payload("v").header("h", Some(b"1")).header("none", None),
                1 => out.key("k").tombstone().partition(1),
                _ => out.payload("w").partition(1).timestamp(Timestamp::from_micros(7_000)),
            };
            Ok(())
        };
        let sink = match exactly {
            false => KafkaSink::at_least_once(broker.address(), &topic, encode),
            true => KafkaSink::exactly_once(broker.address(), &topic, encode),
        };
        let env = environment(1, None);
        env.iter(0..3u64).write(sink);
        env.run().unwrap();
        let all = broker.records(&topic);
        let find = |payload: Option<&str>| {
            all.iter().find(|found| found.payload.as_deref() == payload).unwrap()
        };
        assert_eq!(all.len(), 3);
        assert_eq!(find(Some("v")).headers, ["h", "none"]);
        assert_eq!(find(Some("v")).key.as_deref(), Some(&b"k"[..]));
        assert_eq!((find(None).partition, find(None).key.is_some()), (1, true));
        let last = find(Some("w"));
        assert_eq!((last.partition, last.key.is_some(), last.millis), (1, false, Some(7)));
    }
}

/// The partitions of these keys, of 7, are those that the Java client's hash (murmur2, its sign removed) gives.
fn partitions(broker: &mut Broker) {
    let topic = broker.topic("partitions", 7);
    let env = environment(2, None);
    let sink = KafkaSink::at_least_once(broker.address(), &topic, number);
    env.range(0..1_000).write(sink);
    env.run().unwrap();
    let by_hand = |key: &[u8]| ((murmur2(key) & 0x7fff_ffff) % 7) as i32;
    assert_eq!(murmur2(b"21") as i32, -973_932_308);
    assert_eq!(murmur2(b"foobar") as i32, -790_332_482);
    for found in broker.records(&topic) {
        let key = found.key.unwrap();
        assert_eq!(found.partition, by_hand(&key), "{}", String::from_utf8_lossy(&key));
    }
}

/// Austin Appleby's hash, with the seed and word size that Kafka uses.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

fn at_least_once(broker: &mut Broker) {
    let topic = broker.topic("at-least-once", 4);
    let env = environment(2, None);
    env.range(0..300_000).write(KafkaSink::at_least_once(broker.address(), &topic, number));
    env.run().unwrap();
    assert_eq!(broker.texts(&topic), texts(0..300_000));
}

fn exactly_once(broker: &mut Broker) {
    let topic = broker.topic("exactly-once", 4);
    let env = environment(2, None);
    env.range(0..100_000).write(KafkaSink::exactly_once(broker.address(), &topic, number));
    env.run().unwrap();
    assert_eq!(broker.texts(&topic), texts(0..100_000));
}

/// More than a task may keep, with checkpoints that are taken because of that alone.
fn fast(broker: &mut Broker) {
    let large = |text: String, out: &mut Outgoing| {
        out.key(&text[980..]).payload(&text);
        Ok(())
    };
    let count = 60_000;
    for (name, tasks) in [("fused", 1), ("shuffled", 2), ("little-memory", 2)] {
        let topic = broker.topic(&format!("fast-{name}"), 4);
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.cores = NonZeroUsize::new(tasks).unwrap();
        let mut checkpoints = CheckpointConfig::new(folder.path());
        checkpoints.interval = Duration::from_secs(3600);
        config.checkpoints = Some(checkpoints);
        let mut most = 24 << 20;
        if name == "little-memory" {
            (config.memory, most) = (12 << 20, 16 << 30);
        }
        let env = Environment::with_config(config);
        let sink = KafkaSink::exactly_once(broker.address(), &topic, large).max_epoch_bytes(most);
        let texts = env.range(0..count).map(|n| format!("{n:01000}"));
        match name {
            "shuffled" => texts.shuffle().write(sink),
            _ => texts.write(sink),
        }
        env.run().unwrap();
        let texts = broker.texts(&topic);
        assert_eq!(texts.len() as u64, count, "{name}");
        assert!(texts.iter().enumerate().all(|(n, text)| text.parse() == Ok(n)), "{name}");
    }
}

/// What the engine does when it goes on from a checkpoint whose commits were made, wholly or not.
fn once(broker: &mut Broker) {
    use thalweg::connector::{Sink, SinkWriter};
    let topic = broker.topic("once", 2);
    let prepared = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    // A sink that commits each epoch three times, by itself and by another of the same name.
    struct Again<S: Sink>(S, S, std::sync::Arc<std::sync::Mutex<Vec<S::Commit>>>);
    impl<S: Sink<Writer: SinkWriter>> Sink for Again<S> {
        type Item = S::Item;
        type Commit = S::Commit;
        type Writer = S::Writer;
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn open(&self, cx: &thalweg::connector::SinkContext) -> thalweg::Result<S::Writer> {
            self.0.open(cx)
        }
        fn commit(&self, commit: &S::Commit) -> thalweg::Result<()> {
            self.0.commit(commit)?;
            self.1.commit(commit)?;
            self.2.lock().unwrap().push(commit.clone());
            self.0.commit(commit)
        }
    }
    let sink = || KafkaSink::exactly_once(broker.address(), &topic, number);
    let env = environment(2, None);
    env.range(0..1_000).write(Again(sink(), sink(), std::sync::Arc::clone(&prepared)));
    env.run().unwrap();
    // And long after the job.
    let later = sink();
    for commit in prepared.lock().unwrap().iter() {
        later.commit(commit).unwrap();
    }
    assert_eq!(broker.texts(&topic), texts(0..1_000));
}

fn fenced(broker: &mut Broker) {
    use std::sync::{Arc, Mutex};
    use thalweg::connector::Sink;
    let topic = broker.topic("fenced", 1);
    struct Noted<S: Sink>(S, Arc<Mutex<Vec<S::Commit>>>);
    impl<S: Sink> Sink for Noted<S> {
        type Item = S::Item;
        type Commit = S::Commit;
        type Writer = S::Writer;
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn open(&self, cx: &thalweg::connector::SinkContext) -> thalweg::Result<S::Writer> {
            self.0.open(cx)
        }
        fn commit(&self, commit: &S::Commit) -> thalweg::Result<()> {
            self.1.lock().unwrap().push(commit.clone());
            Ok(())
        }
    }
    let sink = || KafkaSink::exactly_once(broker.address(), &topic, number);
    // Two runs have prepared their first transactions, and committed none: only one of both can count.
    let mut first = Vec::new();
    for range in [0..10, 10..20] {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let folder = tempfile::tempdir().unwrap();
        let env = environment(1, Some(folder.path()));
        env.range(range).parallelism(1).write(Noted(sink(), Arc::clone(&noted)));
        env.run().unwrap();
        first.push(noted.lock().unwrap().remove(0));
    }
    // Clients that take turns fence each other, and each begins anew.
    let (one, other) = (sink(), sink());
    one.commit(&first[0]).unwrap();
    other.commit(&first[0]).unwrap();
    other.commit(&first[1]).unwrap();
    one.commit(&first[1]).unwrap();
    one.commit(&first[0]).unwrap();
    assert_eq!(broker.texts(&topic), texts(0..20));
}

/// Records are always on their way, and checkpoints count all the same.
fn endless(broker: &mut Broker) {
    let topic = broker.topic("endless", 1);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("checkpoints");
    let env = environment(2, Some(&at));
    let sink = KafkaSink::at_least_once(broker.address(), &topic, number);
    env.iter((0..u64::MAX).inspect(|n| {
        if n % 100 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }))
    .write(sink);
    let job = env.start().unwrap();
    let begun = std::time::Instant::now();
    let count = || {
        let dir = thalweg::checkpoint::CheckpointDir::open(&at);
        dir.and_then(|dir| dir.list()).map_or(0, |all| all.len())
    };
    while count() == 0 {
        assert!(begun.elapsed() < PATIENCE, "no checkpoint counts");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    job.drain();
    job.wait().unwrap();
}

fn refused(broker: &mut Broker) {
    let address = broker.address();
    let run = |sink| {
        let env = environment(1, None);
        env.range(0..10).write(sink);
        env.run().unwrap_err()
    };
    type Encode = fn(u64, &mut Outgoing) -> thalweg::Result<()>;
    let none: Encode = |_, _| Ok(());
    let error = run(KafkaSink::at_least_once(&address, "nowhere", none));
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.operator().is_some_and(|name| name.starts_with("write (")), "{error}");
    let topic = broker.topic("refused", 2);
    for fixed in ["enable.idempotence", "transactional.id", "bootstrap.servers"] {
        let sink = KafkaSink::exactly_once(&address, &topic, none).option(fixed, "false");
        assert!(run(sink).message().contains(fixed));
    }
    // More than brokers allow: known when the tasks begin with their transactions, and said though the source never ends, or
    // has nothing.
    for records in [0..u64::MAX, 0..0] {
        let sink = KafkaSink::exactly_once(&address, &topic, none)
            .option("transaction.timeout.ms", "2000000000");
        let env = environment(2, None);
        env.range(records).write(sink);
        let error = env.run().unwrap_err();
        assert!(
            error.message().starts_with("cannot begin with the transactions thalweg-refused-"),
            "{error}"
        );
        assert!(error.operator().is_some_and(|name| name.starts_with("write (")), "{error}");
    }
    fn large(_: u64, out: &mut Outgoing) -> thalweg::Result<()> {
        out.key("large").payload(vec![0; 1_000_000]);
        Ok(())
    }
    fn elsewhere(_: u64, out: &mut Outgoing) -> thalweg::Result<()> {
        out.partition(2);
        Ok(())
    }
    let error = run(KafkaSink::exactly_once(&address, &topic, large as Encode));
    for part in [
        "a record for refused with the key `large` of",
        "larger than the 1000000 that `message.max.bytes`",
    ] {
        assert!(error.message().contains(part), "{error}");
    }
    let error = run(KafkaSink::at_least_once(&address, &topic, elsewhere as Encode));
    assert_eq!(
        error.message(),
        "a record for refused/2 cannot be written, as the topic had 2 partitions when the job began"
    );
    let compacted = broker.compacted_topic("compacted");
    let error = run(KafkaSink::exactly_once(&address, &compacted, none));
    assert!(error.message().starts_with("a record for compacted has no key"), "{error}");
    fn much(_: u64, out: &mut Outgoing) -> thalweg::Result<()> {
        out.payload([0; 1_000]);
        Ok(())
    }
    let error =
        run(KafkaSink::exactly_once(&address, &topic, much as Encode).max_epoch_bytes(5_000));
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.message().contains("`--checkpoint DIR`"), "{error}");
    assert_eq!(broker.records(&topic).len(), 0);
}

fn failed(broker: &mut Broker) {
    let topic = broker.topic("failed", 2);
    let env = environment(2, None);
    let numbers = env.range(0..10_000).try_map(|n| match n {
        9_999 => Err("no more"),
        n => Ok(n),
    });
    numbers.write(KafkaSink::exactly_once(broker.address(), &topic, number));
    assert_eq!(env.run().unwrap_err().message(), "no more");
    assert_eq!(broker.records(&topic).len(), 0);
}

/// With each checkpoint, for tools to see, and for another job to begin there.
fn groups(broker: &mut Broker) {
    let topic = broker.topic("groups", 1);
    let numbers = texts(0..100);
    broker.append(&topic, Some(0), numbers.iter().map(|text| ("", text.as_str())));
    let folder = tempfile::tempdir().unwrap();
    let source = || KafkaSource::new(broker.address(), topic.as_str()).group("of-a-test");
    let env = environment(2, Some(folder.path()));
    let written = broker.topic("groups-out", 1);
    let sink = KafkaSink::at_least_once(broker.address(), &written, |text: String, out| {
        out.payload(text);
        Ok(())
    });
    env.read(source()).try_map(|message| message.text().map(str::to_owned)).write(sink);
    let job = env.start().unwrap();
    let begun = std::time::Instant::now();
    while broker.committed("of-a-test", &topic, 0) != Some(100) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", broker.committed("of-a-test", &topic, 0));
    }
    job.drain();
    job.wait().unwrap();
    assert_eq!(broker.texts(&written), numbers);
    broker.append(&topic, Some(0), [("", "new")]);
    let env = environment(1, None);
    let source = source().begin(Begin::Committed).until_now();
    let out = env.read(source).try_map(|message| message.text().map(str::to_owned));
    let out = out.collect::<Vec<_>>();
    env.run().unwrap();
    assert_eq!(out.take().unwrap(), ["new"]);
}
