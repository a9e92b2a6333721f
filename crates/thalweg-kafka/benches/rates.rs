//! How fast topics are read and written, beside plain clients of librdkafka and, in reading, Flink. `cargo xtask bench kafka-read
//! kafka-exactly-once` starts it with all that it needs.
//!
//! By hand: `THALWEG_KAFKA_JARS=DIR cargo bench -p thalweg-kafka --bench rates`, of one of both with `-- read` or `-- write`, where
//! `cargo xtask test --step kafka` leaves the broker's jars in `target/kafka/jars`. `THALWEG_FLINK_JARS` names the folder of Flink's,
//! which `mvn package` in `benchmarks/pipeline-flink` leaves in `target/jars`; without it Flink is left out. `RECORDS` and `BYTES` say
//! how many records the topic has, and how long they are, `ROUNDS` how many rounds count, and `JSON` names a file for the ratios.
//!
//! Rounds alternate. Each reads all records of a topic with four partitions, or writes as many. The broker runs on the same
//! machine. What is shown is the ratio of throughputs in the same round: median, least and greatest.
//!
//! Beside the plain consumer, all of the time counts, with making the client and connecting it. Beside Flink, it counts from when a task has
//! the first record: neither starting nor connecting, nor what has been fetched ahead by then. It ends with the last record of Flink, and
//! with the end of the job. In each round a new virtual machine reads the topic several times, and the first time, the second, and the
//! last, when its compiler has seen most, have a line each. Two more lines have all of the time of a job: beside the last of those times,
//! and beside the whole of the first, from the start of the virtual machine until it has printed what it has read. Flink has 1 GB of heap,
//! objects that are used again, all else by default, and as many tasks as the job has cores. Its client checks the records' sums, as the
//! job does, and the plain consumer does not.

#[path = "../tests/broker/broker.rs"]
#[allow(dead_code)]
mod broker;

use broker::{Broker, PATIENCE, apart, send};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Result};
use thalweg_kafka::{KafkaSink, KafkaSource, Outgoing};

const PARTITIONS: i32 = 4;
/// How often each virtual machine with Flink reads the topic.
const TIMES: usize = 5;

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
    let mut ratios = Ratios { rounds: number("ROUNDS", 9) as usize, json: Vec::new() };
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |part| only.as_deref().is_none_or(|only| only == part);
    if wanted("read") {
        let flink = std::env::var_os("THALWEG_FLINK_JARS").map(PathBuf::from);
        if flink.is_none() {
            println!("without Flink: THALWEG_FLINK_JARS names no folder with its jars");
        }
        reads(&broker, &from, records, flink.as_deref(), &mut ratios);
    }
    if wanted("write") {
        writes(&broker, records / 2, bytes, &mut ratios);
    }
    if let Some(file) = std::env::var_os("JSON") {
        let json = serde_json::Value::Array(ratios.json);
        std::fs::write(file, format!("{json:#}\n")).expect("the file can be written");
    }
}

/// What was measured so far.
struct Ratios {
    rounds: usize,
    json: Vec<serde_json::Value>,
}

impl Ratios {
    /// Shows the ratios of a case to a peer, one a round.
    fn show(&mut self, (bench, case, peer): (&str, &str, &str), what: &str, mut ratios: Vec<f64>) {
        ratios.sort_by(f64::total_cmp);
        let (median, least, most) = (ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1]);
        println!("{what}: {median:.2} ({least:.2} .. {most:.2})");
        let ratio = serde_json::json!({"median": median, "min": least, "max": most});
        self.json.push(serde_json::json!({
            "bench": bench, "case": case, "peer": peer, "ratio": ratio, "rounds": self.rounds,
        }));
    }
}

/// A job's reading over that of a plain consumer, and of Flink if its jars are there.
fn reads(broker: &Broker, from: &str, records: u64, flink: Option<&Path>, ratios: &mut Ratios) {
    for cores in 1..=2 {
        let mut over_plain = Vec::new();
        let mut over_flink = [const { Vec::new() }; 5];
        let contestants = if flink.is_some() { 3 } else { 2 };
        for round in 0..=ratios.rounds {
            let (mut ours, mut plain, mut theirs) = (None, None, Vec::new());
            for turn in 0..contestants {
                match ((turn + round) % contestants, flink) {
                    (0, _) => ours = Some(read(broker, from, cores)),
                    (1, _) => plain = Some(timed(|| consume(broker, from, records))),
                    (_, jars) => {
                        theirs = on_flink(jars.expect("it takes part"), broker, from, cores)
                    }
                }
            }
            let (ours, (theirs_found, plain)) = ours.zip(plain).expect("both had a turn");
            let Reading { found, seconds, since_start } = ours;
            assert_eq!(found, theirs_found, "the answers differ");
            theirs.iter().for_each(|time| assert_eq!(found, time.found, "Flink's answer differs"));
            // The first round warms up.
            if round == 0 {
                continue;
            }
            over_plain.push(plain / since_start);
            if let [first, second, .., last] = &*theirs {
                let ratios = [
                    first.seconds / seconds,
                    second.seconds / seconds,
                    last.seconds / seconds,
                    last.seconds / since_start,
                    first.since_start / since_start,
                ];
                over_flink.iter_mut().zip(ratios).for_each(|(all, ratio)| all.push(ratio));
            }
        }
        let what = format!("read, {cores} core{}, over", if cores == 1 { "" } else { "s" });
        let case = format!("{cores}-core");
        let mut show = |peer: &str, beside: &str, of: Vec<f64>| {
            ratios.show(("kafka-read", &case, peer), &format!("{what} {beside}"), of);
        };
        show("consumer", "a plain consumer", over_plain);
        if flink.is_some() {
            let [first, second, last, started, whole] = over_flink;
            show("flink-first", "Flink, from the first record to the last", first);
            show("flink-second", "the same, the second time in one virtual machine", second);
            show("flink", &format!("the same, time {TIMES} in one virtual machine"), last);
            show("flink-with-our-start", "the same, the job with its start", started);
            let whole_of = "Flink, the first time, both with the start of its program";
            show("flink-whole", whole_of, whole);
        }
    }
}

/// A job's writing, at least once over a plain producer's, and exactly once, with a checkpoint each second, over at least once.
fn writes(broker: &Broker, written: u64, bytes: usize, all: &mut Ratios) {
    let mut topics = 0;
    let mut topic = |broker: &Broker| {
        topics += 1;
        broker.topic(&format!("to-{topics}"), PARTITIONS)
    };
    let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=all.rounds {
        let to: [_; 4] = std::array::from_fn(|_| topic(broker));
        let ((), plain) = timed(|| fill(broker, &to[0], written, bytes));
        let mut times = [0.0; 3];
        for turn in 0..3 {
            let turn = (turn + round) % 3;
            let ours = [Delivery::AtLeastOnce, Delivery::Kept, Delivery::Open][turn];
            ((), times[turn]) = timed(|| write(broker, &to[1 + turn], written, bytes, ours));
        }
        if round > 0 {
            ratios[0].push(plain / times[0]);
            ratios[1].push(times[0] / times[1]);
            ratios[2].push(times[0] / times[2]);
        }
        to.iter().for_each(|topic| broker.delete_topic(topic));
    }
    let [least, exactly, open] = ratios;
    let mut show = |case: &str, peer: &str, what: &str, of: Vec<f64>| {
        all.show(("kafka-exactly-once", case, peer), what, of);
    };
    show("at-least-once", "producer", "write at least once, over a plain producer", least);
    let what = "write exactly once, checkpoint each second, over at least once";
    show("kept", "at-least-once", what, exactly);
    show("open-transactions", "at-least-once", "the same in open transactions", open);
}

/// What it returns, and the seconds that it takes.
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = run();
    (result, begun.elapsed().as_secs_f64())
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

/// By a job.
fn read(broker: &Broker, topic: &str, cores: usize) -> Reading {
    let (begun, first) = (Instant::now(), Arc::new(OnceLock::new()));
    let task_first = Arc::clone(&first);
    let run = || -> Result<_> {
        let env = environment(cores, None);
        let bytes = env
            .read(KafkaSource::new(broker.address(), topic).until_now())
            .map(move |message| {
                task_first.get_or_init(Instant::now);
                (1, message.payload().map_or(0, <[u8]>::len) as u64)
            })
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
    let found = run().expect("the job ends well");
    let since_first = first.get().expect("there are records").elapsed();
    Reading {
        found,
        seconds: since_first.as_secs_f64(),
        since_start: begun.elapsed().as_secs_f64(),
    }
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

/// One time that the topic was read.
struct Reading {
    /// Records and bytes.
    found: (u64, u64),
    /// From the first record to the last.
    seconds: f64,
    /// From the start of the job, or of Flink's program until this reading was printed.
    since_start: f64,
}

/// By jobs on Flink, one after the other in one virtual machine.
fn on_flink(jars: &Path, broker: &Broker, topic: &str, cores: usize) -> Vec<Reading> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let log = folder.path().join("log");
    let mut java = apart("java");
    java.args(["-Xmx1g", "-XX:+UseG1GC", "-cp"]).arg(jars.join("*"));
    java.arg(format!("-Djava.io.tmpdir={}", folder.path().display()));
    // What Flink's own start scripts open of Java.
    for package in ["java.base/java.util", "java.base/java.lang", "java.base/java.time"] {
        java.arg(format!("--add-opens={package}=ALL-UNNAMED"));
    }
    java.arg("bench.kafka.Reading").args(["--brokers", &broker.address(), "--topic", topic]);
    java.args(["--parallelism", &cores.to_string(), "--times", &TIMES.to_string()]);
    java.stdin(Stdio::null()).stderr(File::create(&log).expect("the folder is ours"));
    let begun = Instant::now();
    let mut child = java.stdout(Stdio::piped()).spawn().expect("java can be started");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let reading = |line: std::io::Result<String>| {
        let since_start = begun.elapsed().as_secs_f64();
        let line = line.expect("its output can be read");
        let numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let [records, bytes, nanos] = *numbers.collect::<Vec<u64>>() else {
            panic!("three numbers are expected: {line}")
        };
        Reading { found: (records, bytes), seconds: nanos as f64 / 1e9, since_start }
    };
    let readings: Vec<_> = lines.map(reading).collect();
    let status = child.wait().expect("it was started here");
    let log = || std::fs::read_to_string(&log).expect("it was made");
    assert!(status.success() && readings.len() == TIMES, "Flink has failed:\n{}", log());
    readings
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
