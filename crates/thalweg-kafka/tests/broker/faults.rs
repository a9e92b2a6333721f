//! What goes wrong on the brokers' side while jobs run, or between two runs: topics and records that are gone, partitions without
//! records, and transactions whose time is over.

use crate::broker::{Broker, PATIENCE, Right};
use crate::folders::Folders;
use crate::{Test, logs};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, Error, ErrorKind, JobHandle, Result};
use thalweg_kafka::{KafkaSink, KafkaSource, MessageRef, Outgoing, Topics};

pub const TESTS: &[Test] = &[
    ("a_partition_without_records_holds_event_time_back_and_is_named", silent),
    ("partitions_are_not_idle_while_their_broker_hangs", hangs),
    ("a_topic_that_is_deleted_ends_the_jobs_that_write_to_it", deleted),
    ("a_topic_made_anew_ends_the_job_that_reads_it", anew_while_it_runs),
    ("a_topic_made_anew_is_not_read_on_from_a_checkpoint", anew_between_runs),
    ("records_that_expire_before_they_are_read_are_an_error", expired_while_it_runs),
    ("records_that_expire_between_two_runs_are_an_error", expired_between_runs),
    ("topics_that_are_deleted_between_two_runs_are_left_out_if_wanted", deleted_between_runs),
    ("a_checkpoint_of_a_source_without_an_end_is_not_gone_on_from_with_one", other_end),
    ("a_job_with_an_end_reads_no_partition_that_is_added_between_runs", added_behind_the_end),
    ("a_transaction_whose_time_is_over_is_written_again", out_of_time),
    ("warnings_name_the_operator_and_the_topic", warned),
    ("a_job_that_is_cancelled_waits_for_no_broker", cancelled),
    ("a_topic_that_is_the_brokers_own_is_refused", internal),
];

fn texts(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("{n:06}")).collect()
}

/// Appends records to the first partition, each in a batch of its own.
fn append_each(broker: &Broker, topic: &str, range: std::ops::Range<u64>) {
    let each = |text: &String| broker.append(topic, Some(0), [(text.as_str(), text.as_str())]);
    texts(range).iter().for_each(each);
}

fn config(folder: Option<&Path>) -> Config {
    let mut config = Config::default();
    config.cores = NonZeroUsize::MIN;
    config.checkpoints = folder.map(|folder| {
        let mut checkpoints = CheckpointConfig::new(folder);
        checkpoints.interval = Duration::from_millis(100);
        checkpoints
    });
    config
}

/// Waits for what is to come.
#[track_caller]
fn wait(what: &str, mut has_come: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !has_come() {
        assert!(begun.elapsed() < PATIENCE, "{what} in time");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The error with which a job ends, in time.
fn error_of(job: JobHandle) -> Error {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || drop(ended.send(job.wait().map(drop))));
    end.recv_timeout(PATIENCE).expect("the job ends in time").expect_err("the job fails")
}

#[track_caller]
fn names(text: impl ToString, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// What a job has read, and how much it may read.
#[derive(Default)]
struct Seen {
    texts: Mutex<Vec<String>>,
    most: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Seen {
    /// Of a job that waits after so many records until it is let on.
    fn up_to(most: usize) -> Arc<Self> {
        Arc::new(Self { most: Mutex::new(Some(most)), ..Self::default() })
    }

    fn add(&self, text: String) {
        let mut all = self.texts.lock().unwrap();
        all.push(text);
        let count = all.len();
        drop(all);
        let most = self.most.lock().unwrap();
        let waits = |most: &mut Option<usize>| most.is_some_and(|most| count >= most);
        drop(self.changed.wait_while(most, waits).unwrap());
    }

    fn go_on(&self) {
        *self.most.lock().unwrap() = None;
        self.changed.notify_all();
    }

    fn all(&self) -> Vec<String> {
        self.texts.lock().unwrap().clone()
    }
}

/// Of a client that fetches hardly more than what is read.
fn source(broker: &Broker, topic: &str) -> KafkaSource {
    let source =
        KafkaSource::new(broker.address(), topic).look_again_after(Duration::from_millis(200));
    ["queued.min.messages", "queued.max.messages.kbytes", "fetch.message.max.bytes"]
        .into_iter()
        .fold(source, |source, name| source.option(name, "1"))
}

fn started(source: KafkaSource, folder: Option<&Path>, seen: &Arc<Seen>) -> Result<JobHandle> {
    let env = Environment::with_config(config(folder));
    let sees = Arc::clone(seen);
    env.read(source)
        .try_map(|message| message.text().map(str::to_owned))
        .for_each(move |text| sees.add(text));
    env.start()
}

/// Runs a job until it has read so many records, and ends it with a checkpoint.
fn suspended(source: KafkaSource, folder: &Path, records: usize) {
    let seen = Arc::default();
    let job = started(source, Some(folder), &seen).unwrap();
    wait("records", || seen.all().len() == records);
    job.suspend().unwrap();
    assert_eq!(error_of(job).kind(), ErrorKind::Suspended);
}

/// Deletes a topic, and makes one of the same name.
fn make_anew(broker: &Broker, topic: &str) {
    broker.delete_topic(topic);
    wait("the topic goes", || broker.topics(topic).is_empty());
    broker.topic(topic, 1);
    broker.append(topic, Some(0), texts(100..150).iter().map(|text| ("", text.as_str())));
}

fn added_behind_the_end(broker: &mut Broker) {
    type Ending = fn(KafkaSource, &str) -> KafkaSource;
    let ends: [(&str, Ending); 3] = [
        ("added-now", |source, _| source.until_now()),
        ("added-time", |source, _| source.until(Timestamp::from_micros(i64::MAX / 2))),
        ("added-offsets", |source, topic| {
            source.until_offsets([((topic.to_owned(), 0), 60)].into())
        }),
    ];
    for (name, end) in ends {
        let topic = broker.topic(name, 1);
        append_each(broker, &topic, 0..60);
        let mut folders = Folders::new();
        let seen = Seen::up_to(3);
        let ending = || end(source(broker, &topic), &topic);
        let job = started(ending(), Some(&folders.next()), &seen).unwrap();
        wait("records", || seen.all().len() == 3);
        job.suspend().unwrap();
        seen.go_on();
        assert_eq!(error_of(job).kind(), ErrorKind::Suspended);
        let mut all = seen.all();
        assert!(all.len() < 60, "{name} was read to its end");
        broker.add_partitions(&topic, 2);
        let added = texts(1000..1050);
        broker.append(&topic, Some(1), added.iter().map(|text| ("", text.as_str())));
        let seen = Arc::default();
        started(ending(), Some(&folders.next()), &seen).unwrap().wait().unwrap();
        all.extend(seen.all());
        assert_eq!(all, texts(0..60), "{name}");
    }
}

fn anew_while_it_runs(broker: &mut Broker) {
    for (name, is_allowed) in [("anew-runs", false), ("anew-allowed", true)] {
        let topic = broker.topic(name, 1);
        append_each(broker, &topic, 0..10);
        let seen = Seen::up_to(3);
        let from = source(broker, &topic);
        let from = if is_allowed { from.read_recreated_topics() } else { from };
        let job = started(from, None, &seen).unwrap();
        wait("records", || seen.all().len() == 3);
        make_anew(broker, &topic);
        if is_allowed {
            // What the error is for: nothing else shows that the offset is in another topic.
            seen.go_on();
            let is_read = || seen.all().contains(&"000149".to_owned());
            wait("the records of the topic made anew", || is_read() || job.is_over());
            if is_read() {
                assert!(!seen.all().contains(&"000100".to_owned()));
                job.cancel();
            } else {
                // It was found before it had any record.
                let said = error_of(job).to_string();
                assert!(said.contains("topic was made anew"), "{said}");
            }
            continue;
        }
        // That it is another one is known meanwhile, or while the rest is read.
        seen.go_on();
        let error = error_of(job);
        assert_eq!(error.kind(), ErrorKind::Input);
        let what = "anew-runs: the topic `anew-runs` is another one than the job has read";
        names(
            &error,
            &["read (", "faults.rs", what, "its id was ", "`KafkaSource::read_recreated_topics`"],
        );
    }
}

fn anew_between_runs(broker: &mut Broker) {
    let topic = broker.topic("anew-between", 1);
    append_each(broker, &topic, 0..10);
    let mut folders = Folders::new();
    suspended(source(broker, &topic), &folders.next(), 10);
    // The same one is read on.
    append_each(broker, &topic, 10..12);
    suspended(source(broker, &topic), &folders.next(), 2);
    make_anew(broker, &topic);
    let seen = Arc::default();
    let job = started(source(broker, &topic), Some(&folders.next()), &seen);
    let error = job.map_or_else(|error| error, error_of);
    assert_eq!(error.kind(), ErrorKind::Input);
    let what = "the topic `anew-between` is another one than the job has read";
    names(&error, &["read (", "faults.rs", "anew-between: ", what]);
    assert!(seen.all().is_empty(), "{:?}", seen.all());
    suspended(source(broker, &topic).read_recreated_topics(), &folders.next(), 50 - 12);
}

fn expired_while_it_runs(broker: &mut Broker) {
    let topic = broker.topic("expired-runs", 1);
    append_each(broker, &topic, 0..60);
    let seen = Seen::up_to(3);
    let job = started(source(broker, &topic), None, &seen).unwrap();
    wait("records", || seen.all().len() == 3);
    broker.delete_before(&topic, 0, 55);
    seen.go_on();
    let error = error_of(job);
    let read = seen.all().len();
    assert!(read < 55, "{read} were fetched before");
    assert_eq!(error.kind(), ErrorKind::Config);
    let what = format!(
        "expired-runs/0 at {read}: the record at offset {read} is not there any more: the partition begins at 55 by now"
    );
    names(&error, &["read (", "faults.rs", &what]);
}

fn expired_between_runs(broker: &mut Broker) {
    let topic = broker.topic("expired-between", 1);
    append_each(broker, &topic, 0..10);
    let mut folders = Folders::new();
    suspended(source(broker, &topic), &folders.next(), 10);
    append_each(broker, &topic, 10..20);
    broker.delete_before(&topic, 0, 15);
    let job = started(source(broker, &topic), Some(&folders.next()), &Arc::default());
    let error = job.map_or_else(|error| error, error_of);
    assert_eq!(error.kind(), ErrorKind::Config);
    let what = "expired-between/0 at 10: the record at offset 10 is not there any more: the partition begins at 15 by now";
    names(&error, &["read (", "faults.rs", what]);
}

fn deleted_between_runs(broker: &mut Broker) {
    let [kept, gone] = ["between-kept", "between-gone"].map(|topic| broker.topic(topic, 1));
    [&kept, &gone].iter().for_each(|topic| append_each(broker, topic, 0..10));
    let mut folders = Folders::new();
    let source = || {
        KafkaSource::new(broker.address(), Topics::matching("between-.*"))
            .look_again_after(Duration::from_millis(200))
    };
    suspended(source(), &folders.next(), 20);
    broker.delete_topic(&gone);
    wait("the topic goes", || broker.topics(&gone).is_empty());
    let refused = started(source(), Some(&folders.next()), &Arc::default());
    let error = refused.map_or_else(|error| error, error_of);
    assert_eq!(error.kind(), ErrorKind::Input);
    names(&error, &["read (", "between-gone/0", "is not among those that kafka topics"]);
    append_each(broker, &kept, 10..20);
    let warnings = logs::warnings();
    suspended(source().leave_out_deleted_topics(), &folders.next(), 10);
    assert!(warnings.find(&["read (", "between-gone/0", "the job goes on without"]).is_some());
    // It counts as read to its end: no further run asks for it, or has to be allowed to.
    append_each(broker, &kept, 20..30);
    suspended(source(), &folders.next(), 10);
}

type Encode = fn(u64, &mut Outgoing) -> Result<()>;

const ENCODE: Encode = |n, out| {
    out.key(format!("{n}")).payload(format!("{n:06}"));
    Ok(())
};

/// More than a job writes with pauses while a test runs.
const NUMBERS: u64 = 100_000;

/// A job that writes numbers, with a pause behind each.
fn writes(sink: KafkaSink<u64, Encode>, folder: &Path, pause: Duration) -> JobHandle {
    let env = Environment::with_config(config(Some(folder)));
    let slowly = (0..NUMBERS).inspect(move |_| thread::sleep(pause));
    env.iter(slowly).write(of_short_memory(sink));
    env.start().unwrap()
}

/// Clients find out within 30 s by default that a topic is gone.
fn of_short_memory(sink: KafkaSink<u64, Encode>) -> KafkaSink<u64, Encode> {
    let sink = sink.option("topic.metadata.propagation.max.ms", "1000");
    sink.option("topic.metadata.refresh.interval.ms", "500")
}

/// A job that writes a few numbers and then none, with its first checkpoint later.
fn writes_few(sink: KafkaSink<u64, Encode>, folder: &Path) -> JobHandle {
    let mut config = config(Some(folder));
    config.checkpoints.as_mut().unwrap().interval = Duration::from_secs(8);
    let env = Environment::with_config(config);
    let slowly = (0..NUMBERS).inspect(|_| thread::sleep(Duration::from_millis(10)));
    env.iter(slowly).filter(|n| *n < 10).write(of_short_memory(sink));
    env.start().unwrap()
}

fn deleted(broker: &mut Broker) {
    let [least, kept, open, few] =
        ["least", "kept", "open", "few"].map(|way| broker.topic(&format!("deleted-{way}"), 2));
    let address = broker.address();
    let exactly = |topic: &str| KafkaSink::exactly_once(&address, topic, ENCODE);
    let [first, third, fourth] = [0; 3].map(|_| tempfile::tempdir().unwrap());
    let (mut second, pause) = (Folders::new(), Duration::from_millis(10));
    let jobs = [
        writes(KafkaSink::at_least_once(&address, &least, ENCODE), first.path(), pause),
        writes(exactly(&kept), &second.next(), pause),
        writes(exactly(&open).open_transactions(10 * PATIENCE), third.path(), pause),
        writes_few(exactly(&few).open_transactions(10 * PATIENCE), fourth.path()),
    ];
    let all = [&least, &kept, &open, &few];
    let visible = [&least, &kept, &open];
    visible.iter().for_each(|topic| wait("records", || !broker.records(topic).is_empty()));
    wait("all of a transaction", || broker.appended(&few, 0) + broker.appended(&few, 1) == 10);
    let before = broker.texts(&kept);
    all.iter().for_each(|topic| broker.delete_topic(topic));
    let errors = jobs.map(error_of);
    errors.iter().for_each(|error| assert_eq!(error.kind(), ErrorKind::Io, "{error}"));
    let gone = "its topic is not there any more";
    let of = |topic| format!("for {topic}");
    names(
        &errors[0],
        &["write (", "faults.rs", "cannot send a record", &of(&least), "with the key `", gone],
    );
    names(
        &errors[1],
        &[
            "write (",
            "faults.rs",
            "cannot commit transaction",
            &*kept,
            gone,
            "bytes, is not written",
        ],
    );
    names(&errors[2], &["write (", "faults.rs", "deleted-open", gone]);
    names(&errors[3], &["write (", "faults.rs", "cannot complete transaction 1", &*few, gone]);
    // All that was not written comes, and nothing else.
    broker.topic(&kept, 2);
    writes(exactly(&kept), &second.next(), Duration::ZERO).wait().unwrap();
    let after = broker.texts(&kept);
    let first: u64 = after[0].parse().unwrap();
    assert!(first >= before.len() as u64, "{first} was written before");
    assert!(after == texts(first..NUMBERS), "{} of {}", after.len(), NUMBERS - first);
}

fn other_end(broker: &mut Broker) {
    let topic = broker.topic("other-end", 1);
    append_each(broker, &topic, 0..3);
    let mut folders = Folders::new();
    suspended(source(broker, &topic), &folders.next(), 3);
    let until_now = source(broker, &topic).until_now();
    let job = started(until_now, Some(&folders.next()), &Arc::default()).unwrap();
    let error = error_of(job);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    names(error, &["read (", "faults.rs", "other-end/0", "reads the topics without an end"]);
    // Nothing is lost by that.
    append_each(broker, &topic, 3..5);
    suspended(source(broker, &topic), &folders.next(), 2);
}

fn out_of_time(broker: &mut Broker) {
    let topic = broker.topic("out-of-time", 1);
    let large: Encode = |n, out| {
        out.payload(format!("{n:06}{}", " ".repeat(1_000)));
        Ok(())
    };
    // Brokers hold back what is written faster, for several times as long as a transaction may be open.
    broker.quota("slow", "producer_byte_rate", Some(100_000));
    let warnings = logs::warnings();
    let sink = KafkaSink::exactly_once(broker.address(), &topic, large);
    let sink = sink.option("client.id", "slow").option("transaction.timeout.ms", "1000");
    let env = Environment::with_config(config(None));
    env.range(0..3_000).write(sink);
    let job = env.start().unwrap();
    let again = ["cannot commit transaction 1 of thalweg-out-of-time-", "and try again"];
    wait("the first attempt fails", || warnings.find(&again).is_some());
    broker.quota("slow", "producer_byte_rate", None);
    job.wait().unwrap();
    let written: Vec<_> = broker.texts(&topic).iter().map(|text| text[..6].to_owned()).collect();
    assert_eq!(written, texts(0..3_000));
    let all = broker.count_all(&topic);
    assert!(all > 3_000, "{all}: nothing of the first attempt is there to be aborted");
}

/// Windows of ten seconds, from records that have the time of their text, in seconds.
fn windows(
    source: KafkaSource,
    idle_after: Option<Duration>,
) -> (JobHandle, thalweg::Incoming<(i64, u64)>) {
    let mut config = config(None);
    config.stall_after = Some(Duration::from_millis(300));
    let env = Environment::with_config(config);
    let watermarks = Watermarks::monotonous();
    let watermarks = match idle_after {
        Some(time) => watermarks.idle_after(time),
        None => watermarks,
    };
    let at = |message: &MessageRef<'_>| {
        Timestamp::from_secs(message.text().ok().and_then(|text| text.parse().ok()).unwrap_or(0))
    };
    let counts = env
        .read(source)
        .assign_timestamps(at, watermarks)
        .map(|message| message.partition())
        .group_by(|_| 0u8)
        .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
        .count()
        .unkey()
        .map(|(_, window)| (window.start.as_micros() / 1_000_000, window.value))
        .to_channel();
    (env.start().unwrap(), counts)
}

fn silent(broker: &mut Broker) {
    let topic = broker.topic("silent", 2);
    let source = || KafkaSource::new(broker.address(), topic.as_str());
    append_each(broker, &topic, 0..25);
    // Windows of what is read end, although the other partition has nothing.
    let (job, mut counts) = windows(source(), Some(Duration::from_millis(100)));
    let mut now = 25;
    let mut next = || {
        append_each(broker, &topic, now..now + 1);
        now += 1;
    };
    for expected in [(0, 10), (10, 10)] {
        let begun = Instant::now();
        let found = loop {
            if let Some(found) = counts.recv_timeout(Duration::from_millis(1)).unwrap() {
                break found;
            }
            assert!(begun.elapsed() < PATIENCE, "no window ends");
            next();
        };
        assert_eq!(found, expected);
    }
    job.cancel();
    // Without, none does, and what is waited for is said.
    let warnings = logs::warnings();
    let (job, mut counts) = windows(source(), None);
    let waits = ["records arrive and no window has ended", "partition silent/1 has had nothing"];
    wait("a warning", || {
        next();
        warnings.find(&waits).is_some()
    });
    names(warnings.find(&waits).unwrap(), &["window (", "faults.rs", "there is no watermark yet"]);
    let stats = job.stats();
    let mark = stats.operators.iter().find_map(|op| op.watermark.as_ref()).unwrap();
    assert_eq!(mark.split.as_deref(), Some("silent/1"));
    assert_eq!(counts.recv_timeout(Duration::from_millis(1)).unwrap(), None);
    // Until it has records.
    broker.append(&topic, Some(1), [("", "1000")]);
    wait("a window", || counts.recv_timeout(Duration::from_millis(1)).unwrap() == Some((0, 10)));
    job.cancel();
}

/// The broker hangs for longer than a partition without records takes to be idle, and for less than a request is waited for.
fn hangs(broker: &mut Broker) {
    let idle_after = Duration::from_secs(6);
    for attempt in 0..5 {
        let topic = broker.topic(&format!("hangs-{attempt}"), 2);
        append_each(broker, &topic, 0..25);
        let source = KafkaSource::new(broker.address(), topic.as_str());
        let begun = Instant::now();
        let (job, mut counts) = windows(source, Some(idle_after));
        let mut next = || counts.recv_timeout(Duration::from_millis(1)).unwrap();
        let has_read = |count| job.stats().operators.iter().any(|op| op.records_out == Some(count));
        wait("records", || has_read(25));
        // Quiet for less long than the partition that has nothing.
        thread::sleep(Duration::from_secs(1));
        append_each(broker, &topic, 25..26);
        wait("a record", || has_read(26));
        broker.halt();
        // Of a machine so slow that the other partition may be idle before it is known.
        let was_late = begun.elapsed() > idle_after / 2;
        let halted = Instant::now();
        let mut ended = None;
        while halted.elapsed() < idle_after + Duration::from_secs(2) {
            ended = ended.or_else(&mut next);
        }
        broker.go_on();
        if was_late {
            job.cancel();
            continue;
        }
        assert_eq!(ended, None, "the other partition may have had records");
        let mut now = 26;
        wait("a window", || {
            append_each(broker, &topic, now..now + 1);
            now += 1;
            next() == Some((0, 10))
        });
        job.cancel();
        return;
    }
    panic!("this machine is too slow");
}

fn warned(broker: &mut Broker) {
    let topics = ["warned-a", "warned-b"].map(|name| broker.topic(name, 1));
    topics.iter().for_each(|topic| append_each(broker, topic, 0..1));
    broker.rule("limited", Right::group("warned-group", Right::DESCRIBE), true);
    let warnings = logs::warnings();
    let source = KafkaSource::new(broker.address_of_users(), topics.each_ref().map(String::as_str));
    let source = source.look_again_after(Duration::from_millis(200)).group("warned-group");
    let source = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "limited"),
        ("sasl.password", "secret"),
    ]
    .into_iter()
    .fold(source, |source, (name, value)| source.option(name, value));
    let (folder, seen) = (tempfile::tempdir().unwrap(), Arc::<Seen>::default());
    let job = started(source, Some(folder.path()), &seen).unwrap();
    let group = [
        "read (",
        "faults.rs",
        "offsets of the group `warned-group` could not be committed",
        "warned-a",
        "Group authorization failed",
    ];
    wait("a warning of the group", || warnings.find(&group).is_some());
    broker.delete_topic(&topics[1]);
    let partitions = [
        "read (",
        "faults.rs",
        "no new partitions of topics warned-a, warned-b can be found",
        "`warned-b`",
    ];
    wait("a warning of the topics", || warnings.find(&partitions).is_some());
    job.cancel();
}

/// The broker is away while each kind of sink waits for it.
fn cancelled(broker: &mut Broker) {
    let number = |n: u64, out: &mut Outgoing| {
        out.key(format!("{n}")).payload("x");
        Ok(())
    };
    // Made before, as a broker that has just started may not know one yet.
    let names = ["cancelled-once", "cancelled-kept", "cancelled-open"];
    for (kind, topic) in names.map(|name| broker.topic(name, 2)).into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let sink = match kind {
            0 => KafkaSink::at_least_once(broker.address(), &topic, number),
            1 => KafkaSink::exactly_once(broker.address(), &topic, number),
            _ => KafkaSink::exactly_once(broker.address(), &topic, number)
                .open_transactions(Duration::from_secs(60)),
        };
        let env = Environment::with_config(config(Some(folder.path())));
        env.generate(1000.0, Some).write(sink);
        let job = env.start().unwrap();
        wait("records", || broker.count_all(&topic) > 0);
        broker.kill();
        // A checkpoint waits for it by then.
        thread::sleep(Duration::from_secs(1));
        job.cancel();
        assert_eq!(error_of(job).kind(), ErrorKind::Cancelled, "{topic}");
        broker.restart();
    }
}

/// Nothing but brokers may write to it, which is found when a transaction has records for it.
fn internal(broker: &mut Broker) {
    let folder = tempfile::tempdir().unwrap();
    let encode = |_: u64, out: &mut Outgoing| {
        out.key("k").payload("x");
        Ok(())
    };
    let env = Environment::with_config(config(Some(folder.path())));
    env.range(0..100).write(KafkaSink::exactly_once(
        broker.address(),
        "__consumer_offsets",
        encode,
    ));
    let error = error_of(env.start().unwrap());
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(
        error.to_string().contains("`Write` and `Read` on the topic `__consumer_offsets`"),
        "{error}"
    );
}
