//! What sources read.

use crate::broker::{Broker, PATIENCE, headers, send};
use crate::{Test, logs};
use rdkafka::producer::{BaseRecord, Producer as _};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::check::check;
use thalweg::config::Config;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind, JobHandle, Result};
use thalweg_kafka::{Begin, KafkaSource, MessageRef, Topics};

pub const TESTS: &[Test] = &[
    ("everything_that_is_there_is_read", everything),
    ("keys_headers_timestamps_and_tombstones_are_there", parts),
    ("aborted_transactions_are_left_out", aborted),
    ("a_source_begins_and_ends_where_it_is_told_to", bounds),
    ("topics_that_match_are_read", matching),
    ("windows_of_the_records_own_time", windows),
    ("partitions_that_are_ahead_in_event_time_wait", aligned),
    ("new_partitions_and_topics_are_found", found_later),
    ("a_bad_record_is_named", bad_record),
    ("records_that_are_gone_are_an_error", gone),
    ("a_topic_that_is_deleted_is_an_error", deleted),
    ("a_topic_of_a_pattern_that_is_deleted_is_left_out_if_wanted", left_out),
    ("what_is_not_there_is_said", not_there),
    ("a_group_has_no_lag_behind_a_job_that_has_ended_well", groups),
    ("compacted_topics_are_read_to_their_end", compacted),
    ("what_is_fetched_ahead_is_within_the_memory_of_the_job", memory),
    ("jobs_restored_at_other_numbers_of_tasks_read_the_same", checked),
];

/// The texts that a source reads, in order of themselves.
fn texts(source: KafkaSource) -> Vec<String> {
    read(source).unwrap()
}

fn read(source: KafkaSource) -> Result<Vec<String>> {
    let env = Environment::new();
    let out = env.read(source).try_map(|message| message.text().map(str::to_owned));
    let out = out.collect::<Vec<_>>();
    env.run()?;
    let mut texts = out.take()?;
    texts.sort();
    Ok(texts)
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| format!("{number:06}")).collect()
}

/// A topic with numbers, by key.
fn topic_of(broker: &Broker, name: &str, partitions: i32, range: std::ops::Range<u64>) -> String {
    let topic = broker.topic(name, partitions);
    append(broker, &topic, range);
    topic
}

fn append(broker: &Broker, topic: &str, range: std::ops::Range<u64>) {
    let numbers = numbers(range);
    broker.append(topic, None, numbers.iter().map(|number| (number.as_str(), number.as_str())));
}

fn everything(broker: &mut Broker) {
    let topic = topic_of(broker, "everything", 4, 0..50_000);
    let env = Environment::new();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let owned = |message: MessageRef<'_>| {
        assert_eq!(message.topic(), "everything");
        let text = message.text().unwrap().to_owned();
        (message.partition(), message.offset(), text)
    };
    let out = env.read(source).map(owned).collect::<Vec<_>>();
    env.run().unwrap();
    let all = out.take().unwrap();
    let mut next = BTreeMap::new();
    for (partition, offset, _) in &all {
        let next = next.entry(*partition).or_insert(0);
        assert_eq!(offset, next, "the order of partition {partition}");
        *next += 1;
    }
    assert_eq!(next.len(), 4);
    let mut texts: Vec<_> = all.into_iter().map(|(_, _, text)| text).collect();
    texts.sort();
    assert_eq!(texts, numbers(0..50_000));
}

fn parts(broker: &mut Broker) {
    let topic = broker.topic("parts", 1);
    let producer = broker.producer(None);
    let with_headers = headers(&[("source", Some("a")), ("empty", None)]);
    let record = BaseRecord::to(&topic).key("k").payload("v").timestamp(1_234);
    send(&producer, record.headers(with_headers));
    send(&producer, BaseRecord::to(&topic).key("k"));
    producer.flush(PATIENCE).unwrap();
    let env = Environment::new();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let owned = |message: MessageRef<'_>| {
        let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let headers = message.headers().map(|(name, value)| (name.to_owned(), bytes(value)));
        let headers: Vec<_> = headers.collect();
        (bytes(message.key()), bytes(message.payload()), headers, message.timestamp())
    };
    let out = env.read(source).map(owned).collect::<Vec<_>>();
    env.run().unwrap();
    let all = out.take().unwrap();
    let (key, payload, headers, time) = &all[0];
    assert_eq!((key.as_deref(), payload.as_deref()), (Some(&b"k"[..]), Some(&b"v"[..])));
    let expected = [("source".to_owned(), Some(b"a".to_vec())), ("empty".to_owned(), None)];
    assert_eq!(headers[..], expected);
    assert_eq!(*time, Some(Timestamp::from_micros(1_234_000)));
    assert_eq!((all.len(), &all[1].1, all[1].2.len()), (2, &None, 0));
}

fn aborted(broker: &mut Broker) {
    let topic = broker.topic("aborted", 2);
    let producer = broker.producer(Some("of a test"));
    producer.init_transactions(PATIENCE).unwrap();
    let write = |from: u64, commits: bool| {
        producer.begin_transaction().unwrap();
        for number in numbers(from..from + 100) {
            send(&producer, BaseRecord::to(&topic).key(&*number).payload(&*number));
        }
        producer.flush(PATIENCE).unwrap();
        match commits {
            true => producer.commit_transaction(PATIENCE).unwrap(),
            false => producer.abort_transaction(PATIENCE).unwrap(),
        }
    };
    write(0, true);
    write(100, false);
    write(200, true);
    let source = || KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let mut committed = numbers(0..100);
    committed.extend(numbers(200..300));
    assert_eq!(texts(source()), committed);
    // The last records of both partitions are none.
    write(300, false);
    assert_eq!(texts(source()), committed);
    assert_eq!(texts(source().fetch_by_librdkafka()), committed);
    let all = source().option("isolation.level", "read_uncommitted");
    assert_eq!(texts(all).len(), 400);
}

fn bounds(broker: &mut Broker) {
    let topic = broker.topic("bounds", 2);
    let producer = broker.producer(None);
    for (n, number) in numbers(0..100).iter().enumerate() {
        let record = BaseRecord::to(&topic).partition(n as i32 % 2).key("").payload(&**number);
        send(&producer, record.timestamp(1_000_000 + 10 * n as i64));
    }
    producer.flush(PATIENCE).unwrap();
    let source = || KafkaSource::new(broker.address(), topic.as_str());
    assert_eq!(texts(source().begin(Begin::Latest).until_now()), numbers(0..0));
    let at = |n: u64| Timestamp::from_micros((1_000_000 + 10 * n as i64) * 1000);
    assert_eq!(texts(source().begin(Begin::At(at(40))).until_now()), numbers(40..100));
    // A time within a millisecond is behind the records of that millisecond.
    let within = Timestamp::from_micros(at(40).as_micros() + 1);
    assert_eq!(texts(source().begin(Begin::At(within)).until_now()), numbers(41..100));
    assert_eq!(texts(source().begin(Begin::At(at(40))).until(at(60))), numbers(40..60));
    assert_eq!(texts(source().begin(Begin::At(at(1000))).until_now()), numbers(0..0));
    assert_eq!(texts(source().until(at(1000))), numbers(0..100));
    let offsets = |of: i64| BTreeMap::from([0, 1].map(|n| ((topic.clone(), n), of)));
    let from = source().begin(Begin::Offsets(offsets(10)));
    assert_eq!(texts(from.until_offsets(offsets(20))), numbers(20..40));
    let error = read(source().until_offsets(offsets(51))).unwrap_err();
    assert!(error.message().contains("ends at 50, and cannot be read until 51"), "{error}");
    let error = read(source().begin(Begin::Offsets(offsets(51))).until_now()).unwrap_err();
    assert!(error.message().contains("ends at 50, and cannot be read from 51 on"), "{error}");
    let named = BTreeMap::from([((topic.clone(), 2), 0)]);
    let error = read(source().begin(Begin::Offsets(named)).until_now()).unwrap_err();
    assert_eq!(error.message(), "there is no partition bounds/2 to have an offset");
    // A group that has committed nothing begins at the oldest record.
    let committed = || source().group("bounds").begin(Begin::Committed).until_now();
    assert_eq!(texts(committed()), numbers(0..100));
}

fn matching(broker: &mut Broker) {
    topic_of(broker, "matching-a", 1, 0..10);
    topic_of(broker, "matching-b", 2, 10..20);
    topic_of(broker, "not-matching-c", 1, 20..30);
    let source = |topics: Topics| KafkaSource::new(broker.address(), topics).until_now();
    assert_eq!(texts(source(Topics::matching("matching-."))), numbers(0..20));
    assert_eq!(texts(source(["not-matching-c", "matching-a"].into())).len(), 20);
    let error = read(source(Topics::matching("("))).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Config, "`(` is no pattern of topics"));
}

/// A partition that is far ahead of another does not make the records of that one late.
fn windows(broker: &mut Broker) {
    let topic = broker.topic("windows", 2);
    let producer = broker.producer(None);
    for n in 0..10_000i64 {
        for partition in [0, 1] {
            let record = BaseRecord::to(&topic).partition(partition).key("").payload("x");
            send(&producer, record.timestamp(1_000_000 + n));
        }
    }
    producer.flush(PATIENCE).unwrap();
    let env = Environment::new();
    let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let out = env
        .read(source)
        .assign_timestamps(
            |message: &MessageRef<'_>| message.timestamp().unwrap(),
            Watermarks::monotonous(),
        )
        .map(|_| ())
        .window_all(EventTimeWindow::tumbling(Duration::from_secs(1)))
        .count()
        .collect::<Vec<_>>();
    env.run().unwrap();
    let counts: Vec<_> = out.take().unwrap().into_iter().map(|pane| pane.value).collect();
    assert_eq!(counts, [2000; 10]);
}

/// The second partition has a record where the first one has twenty.
fn aligned(broker: &mut Broker) {
    let topic = broker.topic("aligned", 2);
    let producer = broker.producer(None);
    for n in 0..200_000i64 {
        for partition in if n % 20 == 0 { 0..2 } else { 0..1 } {
            let record = BaseRecord::to(&topic).partition(partition).key("").payload("x");
            send(&producer, record.timestamp(1_000_000 + n));
        }
    }
    producer.flush(PATIENCE).unwrap();
    for cores in [1, 2] {
        let mut config = Config::default();
        config.cores = cores.try_into().unwrap();
        let env = Environment::with_config(config);
        let source = KafkaSource::new(broker.address(), topic.as_str()).until_now();
        let reached = Arc::new(Mutex::new([1_000_000_000i64; 2]));
        let apart = Arc::new(Mutex::new(0));
        let worst = Arc::clone(&apart);
        let watermarks = Watermarks::monotonous().aligned(Duration::from_secs(2));
        let count = env
            .read(source)
            .assign_timestamps(|message: &MessageRef<'_>| message.timestamp().unwrap(), watermarks)
            .map_with_timestamp(|message: MessageRef<'_>, at| (message.partition(), at.as_micros()))
            .inspect(move |(partition, at)| {
                let mut reached = reached.lock().unwrap();
                let is_last = *at >= 1_000_000_000 + 199_980_000;
                reached[*partition as usize] = if is_last { i64::MAX } else { *at };
                let mut worst = worst.lock().unwrap();
                *worst = (*worst).max(at - reached.iter().min().unwrap());
            })
            .count()
            .collect_one();
        env.run().unwrap();
        assert_eq!(count.take().unwrap(), Some(210_000));
        // A reader emits up to 1024 records between two looks.
        let allowed = 2_000_000 + 1024 * 20_000;
        assert!(*apart.lock().unwrap() <= allowed, "{apart:?} with {cores} tasks");
    }
}

fn found_later(broker: &mut Broker) {
    let topic = topic_of(broker, "later-a", 1, 0..10);
    let env = Environment::new();
    let source = KafkaSource::new(broker.address(), Topics::matching("later-.*"));
    let found = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&found);
    env.read(source.begin(Begin::Latest).look_again_after(Duration::from_millis(200)))
        .try_map(|message| message.text().map(str::to_owned))
        .for_each(move |text| sink.lock().unwrap().push(text));
    let job = env.start().unwrap();
    let expect = |count: usize| {
        let begun = Instant::now();
        while found.lock().unwrap().len() < count {
            assert!(begun.elapsed() < PATIENCE, "{:?} of {count}", found.lock().unwrap());
            thread::sleep(Duration::from_millis(20));
        }
    };
    // What it begins with: some record behind the newest.
    while found.lock().unwrap().is_empty() {
        append(broker, &topic, 10..11);
        thread::sleep(Duration::from_millis(100));
    }
    let before = found.lock().unwrap().len();
    // Records of a new partition that are there before it is found are read, too.
    broker.add_partitions(&topic, 2);
    let in_second = numbers(100..120);
    let pairs = in_second.iter().map(|text| (text.as_str(), text.as_str()));
    broker.append(&topic, Some(1), pairs);
    expect(before + 20);
    topic_of(broker, "later-b", 2, 200..220);
    expect(before + 40);
    job.drain();
    job.wait().unwrap();
    let found = found.lock().unwrap();
    let mut new: Vec<_> = found.iter().filter(|text| text.as_str() >= "000100").cloned().collect();
    new.sort();
    assert_eq!(new, [in_second, numbers(200..220)].concat());
}

fn bad_record(broker: &mut Broker) {
    let topic = broker.topic("bad", 1);
    broker.append(&topic, Some(0), [("a", "1"), ("b", "{"), ("c", "3")]);
    let source = || KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let env = Environment::new();
    let out = env.read(source()).try_map(|message| message.json::<u64>()).collect::<Vec<_>>();
    let error = env.run().unwrap_err();
    assert!(out.take().is_err());
    assert_eq!(error.kind(), ErrorKind::Input);
    let text = error.to_string();
    assert!(text.contains("bad/0") && text.contains("1: "), "{text}");
    assert!(text.contains("not the expected JSON"), "{text}");
    // Others are read, and this one goes aside, with its place.
    let env = Environment::new();
    let parsed =
        env.read(source()).map(|message| message.json::<u64>().map_err(|error| format!("{error}")));
    let out = parsed.collect::<Vec<_>>();
    env.run().unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = out.take().unwrap().into_iter().partition(Result::is_ok);
    assert_eq!(good, [Ok(1), Ok(3)]);
    assert!(matches!(&bad[..], [Err(text)] if text.contains("bad/0")), "{bad:?}");
}

fn gone(broker: &mut Broker) {
    let topic = topic_of(broker, "gone", 1, 0..100);
    broker.delete_before(&topic, 0, 50);
    let source = || KafkaSource::new(broker.address(), topic.as_str()).until_now();
    assert_eq!(texts(source()), numbers(50..100));
    let offsets = BTreeMap::from([((topic.clone(), 0), 10)]);
    let error = read(source().begin(Begin::Offsets(offsets))).unwrap_err();
    let text = error.to_string();
    let what = "gone/0 at 10: the record at offset 10 is not there any more: the partition begins at 50 by now";
    assert!(text.starts_with("read (") && text.contains(what), "{text}");
}

/// Starts a job that counts what it reads, and waits until there was so much.
fn counting(source: KafkaSource, at_least: usize) -> (JobHandle, Arc<Mutex<usize>>) {
    let env = Environment::new();
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    env.read(source).map(|_| ()).for_each(move |()| *count.lock().unwrap() += 1);
    let job = env.start().unwrap();
    until(&seen, at_least);
    (job, seen)
}

fn until(seen: &Mutex<usize>, at_least: usize) {
    let begun = Instant::now();
    while *seen.lock().unwrap() < at_least {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
}

fn deleted(broker: &mut Broker) {
    for by_librdkafka in [false, true] {
        let topic = topic_of(broker, &format!("deleted-{by_librdkafka}"), 1, 0..10);
        let mut source = KafkaSource::new(broker.address(), topic.as_str());
        if by_librdkafka {
            source = source.option("topic.metadata.refresh.interval.ms", "500");
            source = source.option("topic.metadata.propagation.max.ms", "1000");
        }
        let (job, _) = counting(source, 10);
        broker.delete_topic(&topic);
        let error = job.wait().unwrap_err();
        assert!(error.message().contains("its topic was deleted"), "{error}");
        assert!(error.to_string().contains(&format!("{topic}/0")), "{error}");
    }
}

fn left_out(broker: &mut Broker) {
    let pattern = || Topics::matching("left-out-.*");
    let named = KafkaSource::new(broker.address(), "left-out-1").leave_out_deleted_topics();
    let error = read(named.until_now()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    for by_librdkafka in [false, true] {
        let [kept, deleted] =
            ["left-out-1", "left-out-2"].map(|name| topic_of(broker, name, 1, 0..10));
        let mut source = KafkaSource::new(broker.address(), pattern()).leave_out_deleted_topics();
        if by_librdkafka {
            source = source.option("topic.metadata.refresh.interval.ms", "500");
            source = source.option("topic.metadata.propagation.max.ms", "1000");
        }
        let warnings = logs::warnings();
        let (job, seen) = counting(source, 20);
        broker.delete_topic(&deleted);
        let begun = Instant::now();
        while warnings.find(&["left-out-2/0 is not there any more", "goes on without it"]).is_none()
        {
            assert!(begun.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(20));
        }
        append(broker, &kept, 10..15);
        until(&seen, 25);
        job.drain();
        job.wait().unwrap();
        broker.delete_topic(&kept);
    }
}

fn not_there(broker: &mut Broker) {
    let error = read(KafkaSource::new(broker.address(), "nowhere").until_now()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().starts_with("there is no topic `nowhere`: "), "{error}");
    let topic = topic_of(broker, "there", 1, 0..1);
    let source = || KafkaSource::new(broker.address(), topic.as_str()).until_now();
    for fixed in ["enable.auto.commit", "auto.offset.reset", "group.id", "bootstrap.servers"] {
        let error = read(source().option(fixed, "true")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(fixed) && error.message().contains("; "), "{error}");
    }
    let error = read(source().option("sasl.mechanism", "OAUTHBEARER")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("needs tokens: a closure gives"), "{error}");
    let error = read(source().look_again_after(Duration::ZERO)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("look_again_after"), "{error}");
    let error = read(source().option("no.such.option", "1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("no.such.option"), "{error}");
    // No broker listens there.
    let error = read(KafkaSource::new("127.0.0.1:1", "there").until_now()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.message().contains("cannot list the partitions of topic there: 127.0.0.1:1"),
        "{error}"
    );
}

/// On one host and several, interrupted and restored.
fn checked(broker: &mut Broker) {
    let topic = topic_of(broker, "checked", 3, 0..2_000);
    let address = broker.address();
    let job = move |env: &Environment| {
        let source = KafkaSource::new(address.as_str(), topic.as_str()).until_now();
        env.read(source)
            .try_map(|message| message.text().map(|text| text.parse::<u64>().unwrap_or(0)))
            .group_by(|n| n % 10)
            .count()
            .unkey()
    };
    check(job).any_tasks().equals((0..10).map(|key| (key, 200)));
}

/// Commits two hundred records in a transaction, and aborts the next hundred.
fn transactions(broker: &Broker, topic: &str) {
    let producer = broker.producer(Some(topic));
    producer.init_transactions(PATIENCE).unwrap();
    for (from, commits) in [(0, true), (100, true), (200, false)] {
        producer.begin_transaction().unwrap();
        for number in numbers(from..from + 100) {
            send(&producer, BaseRecord::to(topic).key(&*number).payload(&*number));
        }
        producer.flush(PATIENCE).unwrap();
        match commits {
            true => producer.commit_transaction(PATIENCE).unwrap(),
            false => producer.abort_transaction(PATIENCE).unwrap(),
        }
    }
}

fn groups(broker: &mut Broker) {
    let topic = broker.topic("groups-at-the-end", 2);
    transactions(broker, &topic);
    let source = |group: &str| {
        let source = KafkaSource::new(broker.address(), topic.as_str()).group(group);
        source.begin(Begin::Committed).until_now()
    };
    let committed = |group: &str| [0, 1].map(|number| broker.committed(group, &topic, number));
    // A job that fails when all is read commits nothing.
    let env = Environment::new();
    env.read(source("failed"))
        .try_map(|message| message.text().map(str::to_owned))
        .fold(0, |count, _| *count += 1)
        .try_map(|_| Err::<(), _>(thalweg::Error::new(ErrorKind::Input, "refused")))
        .for_each(|()| {});
    assert_eq!(env.run().unwrap_err().message(), "refused");
    assert_eq!(committed("failed"), [None, None]);
    // The last offsets are no records: of a transaction's end, and of one that was aborted.
    assert_eq!(texts(source("ended")), numbers(0..200));
    let ends = [0, 1].map(|number| Some(broker.end_of(&topic, number)));
    assert_eq!(committed("ended"), ends);
    assert_eq!(texts(source("ended")), numbers(0..0));
    append(broker, &topic, 900..910);
    assert_eq!(texts(source("ended")), numbers(900..910));
    // One that has no end is drained.
    let env = Environment::new();
    let endless = KafkaSource::new(broker.address(), topic.as_str()).group("drained");
    let source_of_all = endless.begin(Begin::Committed);
    let mut read =
        env.read(source_of_all).try_map(|message| message.text().map(str::to_owned)).to_channel();
    let job = env.start().unwrap();
    for _ in 0..210 {
        assert!(read.recv().unwrap().is_some());
    }
    assert_eq!(committed("drained"), [None, None]);
    job.drain();
    assert_eq!(read.recv().unwrap(), None);
    job.wait().unwrap();
    assert_eq!(texts(source("drained")), numbers(0..0));
}

fn compacted(broker: &mut Broker) {
    let topic = broker.soon_compacted_topic("soon-compacted");
    let round = |text: &str| {
        let keys: Vec<_> = (0..50).map(|key| key.to_string()).collect();
        broker.append(&topic, Some(0), keys.iter().map(|key| (key.as_str(), text)));
        thread::sleep(Duration::from_millis(150));
    };
    ["a", "b", "c"].into_iter().for_each(round);
    transactions(broker, &topic);
    // Begins the segment that is not compacted.
    broker.append(&topic, Some(0), [("x", "x")]);
    let begun = Instant::now();
    while broker.texts(&topic).len() > 50 + 200 + 1 {
        assert!(begun.elapsed() < PATIENCE, "the topic is not compacted");
        broker.append(&topic, Some(0), [("x", "x")]);
        thread::sleep(Duration::from_millis(200));
    }
    // Records of no transaction have to be behind the newest of one: the next is aborted, and ends the topic with a gap.
    let producer = broker.producer(Some("ends a topic"));
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    send(&producer, BaseRecord::to(&topic).key("y").payload("y"));
    producer.flush(PATIENCE).unwrap();
    producer.abort_transaction(PATIENCE).unwrap();
    let source = || KafkaSource::new(broker.address(), topic.as_str()).until_now();
    let (read, there) = (texts(source().group("compacted")), broker.texts(&topic));
    assert!(there.len() <= 50 + 200 + 2 && there.contains(&"c".to_owned()), "{there:?}");
    assert!(!read.contains(&"a".to_owned()) && !read.contains(&"b".to_owned()));
    assert_eq!(read.iter().filter(|text| *text == "c").count(), 50);
    let numbered = read.iter().filter(|text| text.len() == 6).cloned().collect::<Vec<_>>();
    assert_eq!(numbered, numbers(0..200));
    assert_eq!(texts(source().fetch_by_librdkafka()), read);
    assert_eq!(broker.committed("compacted", &topic, 0), Some(broker.end_of(&topic, 0)));
    // From and until offsets that were removed: of the first round.
    let at = |offset| BTreeMap::from([((topic.clone(), 0), offset)]);
    assert_eq!(texts(source().begin(Begin::Offsets(at(20))).until_offsets(at(70))), numbers(0..0));
    assert_eq!(texts(source().begin(Begin::Offsets(at(20))).until_offsets(at(102))), ["c", "c"]);
}

/// The most bytes and records that were in the queue of a partition, as the client counts them.
static QUEUES: Mutex<[u64; 2]> = Mutex::new([0; 2]);

fn note_queues(text: &str) {
    let mut most = QUEUES.lock().unwrap();
    for (name, most) in ["\"fetchq_size\":", "\"fetchq_cnt\":"].into_iter().zip(&mut *most) {
        for found in text.split(name).skip(1) {
            let digits = found.split(|c: char| !c.is_ascii_digit()).next();
            *most = (*most).max(digits.unwrap_or_default().parse().unwrap_or(0));
        }
    }
}

fn memory(broker: &mut Broker) {
    let _hearing = logs::hear(log::LevelFilter::Debug, note_queues);
    let topic = broker.topic("memory", 4);
    let long = "x".repeat(1_000);
    let keys = numbers(0..6_000);
    // In small batches, since a broker sends at least one.
    let producer = broker.producer(None);
    for keys in keys.chunks(50) {
        let record = |key| BaseRecord::to(&topic).key(key).payload(long.as_str());
        keys.iter().for_each(|key| send(&producer, record(key.as_str())));
        producer.flush(PATIENCE).unwrap();
    }
    let run = |bytes: usize, partitions: &str| {
        let mut config = Config::default();
        config.memory = bytes;
        let env = Environment::with_config(config);
        // Its client says how much it holds.
        let source = KafkaSource::new(broker.address(), partitions).until_now();
        let source = source.fetch_by_librdkafka();
        *QUEUES.lock().unwrap() = [0; 2];
        let all = env.read(source.option("statistics.interval.ms", "20")).map(|message| {
            // Slower than it is fetched.
            if message.offset() % 16 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            message.key().map(<[u8]>::to_vec)
        });
        let all = all.collect::<Vec<_>>();
        env.run()?;
        let mut keys: Vec<_> = all.take()?.into_iter().flatten().collect();
        keys.sort();
        Ok::<_, thalweg::Error>((keys, *QUEUES.lock().unwrap()))
    };
    let keys: Vec<_> = keys.into_iter().map(String::into_bytes).collect();
    // 512 KiB for each partition: half of them in its queue, beside what is asked for at a time.
    let (all, [bytes, records]) = run(16 << 20, &topic).unwrap();
    assert_eq!(all, keys);
    assert!(bytes > 0 && bytes <= (256 + 64 + 32) << 10, "{bytes} bytes");
    assert!(records > 0 && records <= 512, "{records} records");
    // With little memory for so many partitions, all of which are read.
    let many = broker.topic("memory-of-many", 64);
    let mut config = Config::default();
    config.memory = 1 << 20;
    let env = Environment::with_config(config);
    env.read(KafkaSource::new(broker.address(), &*many))
        .map(|message| message.offset())
        .for_each(|_| ());
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    let text = error.to_string();
    for part in ["fetched ahead", "memory-of-many/", "queued.max.messages.kbytes", "--memory"] {
        assert!(text.contains(part), "{text}");
    }
}
