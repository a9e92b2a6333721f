//! Jobs between two topics on several hosts, each a process: how they share the partitions, and what is left when one of them or
//! the broker is killed. This program starts itself as the hosts.

use crate::Test;
use crate::broker::{Broker, PATIENCE, apart, free_port, send};
use crate::killed::{JOB, OPEN_FOR, set, signal};
use crate::kills::{Kills, check, spread};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use thalweg::config::{CheckpointConfig, Config, HostConfig, Secret};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, Pane};
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};
use thalweg_kafka::{Begin, KafkaSink, KafkaSource, MessageRef, Outgoing};

pub const TESTS: &[Test] = &[
    ("hosts_share_the_partitions_and_answer_as_one", shared),
    ("a_bounded_job_ends_on_hosts_without_a_partition", few),
    ("bad_records_go_aside_on_the_host_that_reads_them", bad_records),
    ("each_record_counts_once_whichever_host_is_killed", |broker| {
        killed(broker, Kills::new("killed-hosts", 4), "kept");
    }),
    ("each_record_counts_once_in_open_transactions_whichever_host_is_killed", |broker| {
        killed(broker, Kills::new("open-killed-hosts", 3), "open");
    }),
    ("a_job_goes_on_with_more_tasks_than_partitions", |broker| rescaled(broker, "rescaled-few", 2)),
    ("a_job_goes_on_with_fewer_tasks_than_partitions", |broker| {
        rescaled(broker, "rescaled-many", 9)
    }),
    ("one_of_the_hosts_reads_partitions_that_are_added", added),
    ("each_record_counts_once_on_hosts_whose_broker_is_killed", |broker| {
        broker_killed(broker, Kills::new("hosts-without-a-broker", 1), "kept");
    }),
    ("each_record_counts_once_in_open_transactions_on_hosts_whose_broker_is_killed", |broker| {
        broker_killed(broker, Kills::new("open-hosts-without-a-broker", 1), "open");
    }),
    ("windows_of_what_is_new_are_those_of_one_host", windows),
];

/// Keys of the records, in partitions that follow from them.
const KEYS: u64 = 50;

/// The group of all jobs here.
const GROUP: &str = "of-hosts";

fn number(name: &str) -> usize {
    set(name).parse().expect("a number")
}

/// What a record does to the state of its key: it shows each that is lost, doubled or in another order.
fn mixed(hash: u64, n: u64) -> u64 {
    hash.wrapping_mul(31).wrapping_add(n + 1) & 0xffff_ffff
}

/// Hashes the numbers of each key, and writes each hash with the host and the partition that its record came from. Records that
/// are no numbers go to a topic of their own, if there is one.
pub fn job() -> Result<()> {
    let (brokers, host) = (set(JOB), number("TEST_HOST"));
    let env = environment()?;
    if std::env::var_os("TEST_WINDOWS").is_some() {
        return count_in_windows(&env, &brokers);
    }
    let source = KafkaSource::new(&*brokers, &*set("TEST_FROM")).group(GROUP);
    let source = source.look_again_after(Duration::from_millis(200));
    let source = match std::env::var_os("TEST_ENDS") {
        Some(_) => source.until_now(),
        None => source,
    };
    let (good, bad) = env.read(source).side_output(move |message, bad| match message.json() {
        Ok(n) => {
            let key = message.key().and_then(|key| std::str::from_utf8(key).ok()?.parse().ok());
            Some((key.unwrap_or(u64::MAX), n, host as u64, message.partition()))
        }
        Err(error) => {
            bad.push(format!("{host} {error}"));
            None
        }
    });
    match std::env::var("TEST_BAD") {
        Err(_) => bad.for_each(drop),
        Ok(to) => {
            let text = |text: String, out: &mut Outgoing| {
                out.payload(text);
                Ok(())
            };
            bad.write(KafkaSink::exactly_once(&*brokers, to, text));
        }
    }
    type Record = (u64, u64, u64, i32);
    let hashes = good.group_by(|record: &Record| record.0).stateful_map(
        (0u64, 0u64),
        |_, (count, hash), (_, n, host, partition)| {
            (*count, *hash) = (*count + 1, mixed(*hash, n));
            format!("{count}:{hash:08x} {host} {partition}")
        },
    );
    let encode = |(key, text): (u64, String), out: &mut Outgoing| {
        out.key(key.to_string()).payload(format!("{key} {text}"));
        Ok(())
    };
    let sink = KafkaSink::exactly_once(&*brokers, set("TEST_TO"), encode);
    hashes.unkey().write(match std::env::var("TEST_SINK").as_deref() {
        Ok("open") => sink.open_transactions(OPEN_FOR),
        _ => sink,
    });
    let job = env.start()?;
    let (control, asked) = (job.control(), PathBuf::from(set("TEST_FOLDER")).join("suspend"));
    thread::spawn(move || {
        while !asked.exists() {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = control.suspend();
    });
    job.wait().map(drop)
}

/// Counts the records of each key in each second of their own time, of what is new when the job is first started.
fn count_in_windows(env: &Environment, brokers: &str) -> Result<()> {
    let source = KafkaSource::new(brokers, &*set("TEST_FROM")).group(GROUP).begin(Begin::Latest);
    let encode = |(key, pane): (String, Pane<u64>), out: &mut Outgoing| {
        out.payload(format!("{key} {} {}", pane.start.as_micros() / 1_000_000, pane.value));
        Ok(())
    };
    env.read(source)
        .assign_timestamps(
            |message: &MessageRef<'_>| message.timestamp().unwrap_or(Timestamp::MIN),
            Watermarks::monotonous(),
        )
        .try_map(|message| message.text().map(str::to_owned))
        .group_by(|key| key.clone())
        .window(EventTimeWindow::tumbling(Duration::from_secs(1)))
        .count()
        .unkey()
        .write(KafkaSink::exactly_once(brokers, set("TEST_TO"), encode));
    env.run()
}

fn environment() -> Result<Environment> {
    let mut config = Config::default();
    config.cores = set("TEST_CORES").parse().expect("a number of cores");
    let saved = PathBuf::from(set("TEST_FOLDER")).join("checkpoints");
    let mut checkpoints = CheckpointConfig::new(saved);
    checkpoints.interval = Duration::from_millis(30);
    config.checkpoints = Some(checkpoints);
    let (host, hosts) = (number("TEST_HOST"), number("TEST_HOSTS"));
    if hosts == 1 {
        return Ok(Environment::with_config(config));
    }
    let secret = Secret::new("the secret of a test");
    let mut host = HostConfig::new(host, hosts, set("TEST_FIRST"), secret);
    // Others wait so long for one that is killed before it has connected.
    host.connect_timeout = Duration::from_secs(5);
    Environment::on_hosts(config, host)
}

/// A job on several hosts, and what it is to have read. Its hosts end with it.
struct Fleet {
    producer: BaseProducer,
    from: String,
    to: String,
    partitions: u64,
    folder: TempDir,
    hosts: Vec<Child>,
    /// The number of the run that the hosts are of.
    run: usize,
    variables: Vec<(&'static str, String)>,
    /// The numbers of each key.
    sent: BTreeMap<u64, Vec<u64>>,
}

/// What a job has written.
#[derive(Debug, Default)]
struct Answers {
    /// Of each key, in the order of its partition.
    hashes: BTreeMap<u64, Vec<String>>,
    /// The hosts that have read records of each partition.
    readers: BTreeMap<i32, BTreeSet<usize>>,
    count: usize,
}

impl Fleet {
    fn new(broker: &Broker, name: &str, partitions: u64) -> Self {
        Self {
            producer: broker.idempotent_producer(),
            from: broker.topic(&format!("{name}-from"), partitions as i32),
            to: broker.topic(&format!("{name}-to"), 3),
            partitions,
            folder: tempfile::tempdir().unwrap(),
            hosts: Vec::new(),
            run: 0,
            variables: Vec::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Starts a host for each of these numbers of cores.
    fn start(&mut self, broker: &Broker, cores: &[usize]) {
        assert!(self.hosts.is_empty(), "there is a run already");
        self.run += 1;
        let first = format!("127.0.0.1:{}", free_port());
        for (host, of_host) in cores.iter().enumerate() {
            let mut job = apart(std::env::current_exe().unwrap());
            job.env(JOB, broker.address()).env("TEST_DELIVERY", "hosts").env("TEST_FIRST", &first);
            job.env("TEST_FROM", &self.from).env("TEST_TO", &self.to);
            job.env("TEST_FOLDER", self.folder.path()).env("TEST_CORES", of_host.to_string());
            job.env("TEST_HOST", host.to_string()).env("TEST_HOSTS", cores.len().to_string());
            job.envs(self.variables.iter().cloned());
            let errors = File::create(self.errors(self.run, host)).unwrap();
            job.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
            self.hosts.push(job.spawn().unwrap());
        }
    }

    /// Where a host's standard error goes.
    fn errors(&self, run: usize, host: usize) -> PathBuf {
        self.folder.path().join(format!("errors-{run}-{host}"))
    }

    fn said(&self, run: usize, host: usize) -> String {
        fs::read_to_string(self.errors(run, host)).unwrap_or_default()
    }

    /// Appends records of keys, each to the partition of its key; returns when they are acknowledged.
    fn append(&mut self, keys: Range<u64>, count: u64) {
        self.send(keys, count, Duration::ZERO);
        self.flush();
    }

    /// Sends records of keys until a time is over, so that the job has some on their way at each moment.
    fn send(&mut self, keys: Range<u64>, count: u64, over: Duration) {
        let begun = self.records() as u64;
        let Self { producer, from, partitions, sent, .. } = self;
        spread(count, over, |part| {
            for n in part.start + begun..part.end + begun {
                let key = keys.start + n % (keys.end - keys.start);
                sent.entry(key).or_default().push(n);
                let partition = (key % *partitions) as i32;
                let (key, text) = (key.to_string(), n.to_string());
                let record = BaseRecord::to(from).key(&*key).payload(&*text);
                send(producer, record.partition(partition));
            }
        });
    }

    /// Waits until all are acknowledged, which a broker may have to be started for.
    fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }

    /// Kills a host with signal 9; returns the others, which have lost it.
    fn kill(&mut self, host: usize) -> Survivors {
        let mut hosts = std::mem::take(&mut self.hosts);
        let mut killed = hosts.remove(host);
        killed.kill().unwrap();
        let numbers = (0..=hosts.len()).filter(|number| *number != host);
        let survivors = Survivors(numbers.zip(hosts).collect(), self.run);
        assert!(!killed.wait().unwrap().success(), "the job has ended");
        survivors
    }

    /// Sends a signal to all hosts but the first.
    fn others(&self, name: &str) {
        self.hosts[1..].iter().for_each(|host| signal(host, name));
    }

    /// Waits until all hosts have ended.
    fn wait(&mut self) -> Vec<ExitStatus> {
        let hosts = std::mem::take(&mut self.hosts).into_iter().enumerate();
        Survivors(hosts.collect(), self.run).wait(self)
    }

    fn wait_until_well(&mut self) {
        let ended = self.wait();
        assert!(ended.iter().all(ExitStatus::success), "{ended:?}");
    }

    /// Ends the job with a last checkpoint.
    fn suspend(&mut self) {
        let asked = self.folder.path().join("suspend");
        File::create(&asked).unwrap();
        let hosts = self.hosts.len();
        assert!(self.wait().iter().all(|ended| !ended.success()));
        for host in 0..hosts {
            let said = self.said(self.run, host);
            assert!(said.contains("ended: Suspended"), "host {host}: {said}");
        }
        fs::remove_file(asked).unwrap();
    }

    fn records(&self) -> usize {
        self.sent.values().map(Vec::len).sum()
    }

    /// What is to be written of each key.
    fn expected(&self) -> BTreeMap<u64, Vec<String>> {
        let hashes = |sent: &Vec<u64>| {
            let mut hash = 0;
            let next = sent.iter().enumerate().map(|(at, n)| {
                hash = mixed(hash, *n);
                format!("{}:{hash:08x}", at + 1)
            });
            next.collect()
        };
        self.sent.iter().map(|(key, sent)| (*key, hashes(sent))).collect()
    }

    /// What the topic has.
    fn answers(&self, broker: &Broker) -> Answers {
        let mut answers = Answers::default();
        for found in broker.records(&self.to) {
            let payload = found.payload.unwrap();
            let [key, hash, host, partition] = words(&payload);
            let partition = partition.parse().unwrap();
            answers.hashes.entry(key.parse().unwrap()).or_default().push(hash.to_owned());
            answers.readers.entry(partition).or_default().insert(host.parse().unwrap());
            answers.count += 1;
        }
        answers
    }

    /// Waits until the job has written as much as there is to write, or `count` records.
    fn expect(&mut self, broker: &Broker, count: usize) {
        let begun = Instant::now();
        loop {
            let found = broker.records(&self.to).len();
            if found >= count {
                return;
            }
            for host in 0..self.hosts.len() {
                let ended = self.hosts[host].try_wait().unwrap();
                assert!(ended.is_none(), "host {host} has ended: {}", self.said(self.run, host));
            }
            assert!(begun.elapsed() < 2 * PATIENCE, "{found} of {count} records in time");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Checks that each record has counted once, in its order; returns the hosts that have read each partition.
    fn each_once(&self, broker: &Broker) -> BTreeMap<i32, BTreeSet<usize>> {
        let Answers { hashes, readers, .. } = self.answers(broker);
        let expected = self.expected();
        assert_eq!(hashes.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, expected) in expected {
            check(&hashes[&key], &expected, &format!("key {key}"));
        }
        readers
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.hosts.iter_mut().for_each(end);
        if thread::panicking() {
            for path in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
                let name = path.file_name().into_string().unwrap_or_default();
                if name.starts_with("errors-") {
                    let said = fs::read_to_string(path.path()).unwrap_or_default();
                    eprintln!("{name}: {}", said.trim_end());
                }
            }
        }
    }
}

fn end(host: &mut Child) {
    let _ = host.kill();
    let _ = host.wait();
}

fn words<const N: usize>(text: &str) -> [&str; N] {
    let words: Vec<_> = text.splitn(N, ' ').collect();
    words.try_into().unwrap_or_else(|_| panic!("not as it was written: {text}"))
}

/// Hosts that end by themselves, with their numbers, and their run.
struct Survivors(Vec<(usize, Child)>, usize);

impl Survivors {
    fn wait(&mut self, fleet: &Fleet) -> Vec<ExitStatus> {
        let begun = Instant::now();
        let run = self.1;
        let wait = |(number, host): &mut (usize, Child)| loop {
            if let Some(ended) = host.try_wait().unwrap() {
                return ended;
            }
            let said = fleet.said(run, *number);
            assert!(begun.elapsed() < PATIENCE, "host {number} does not end: {said}");
            thread::sleep(Duration::from_millis(10));
        };
        self.0.iter_mut().map(wait).collect()
    }

    fn signal(&self, name: &str) {
        self.0.iter().for_each(|(_, host)| signal(host, name));
    }

    /// Waits until they have noticed that a host is lost.
    fn notice(mut self, fleet: &Fleet, was_running: bool) {
        assert!(self.wait(fleet).iter().all(|ended| !ended.success()));
        for (number, _) in self.0.iter().filter(|_| was_running) {
            let said = fleet.said(self.1, *number);
            assert!(said.contains("ended: Lost"), "host {number}: {said}");
        }
    }
}

impl Drop for Survivors {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, host)| end(host));
    }
}

/// A host has a share of the partitions that is that of its tasks, and reads each of them alone.
fn shared(broker: &mut Broker) {
    let mut fleet = Fleet::new(broker, "shared", 6);
    fleet.variables.push(("TEST_ENDS", "yes".to_owned()));
    fleet.append(0..KEYS, 5_000);
    fleet.start(broker, &[1, 2, 1]);
    fleet.wait_until_well();
    let readers = fleet.each_once(broker);
    // Of four tasks, the second host has two.
    let expected = [0, 1, 1, 2, 0, 1].map(|host| BTreeSet::from([host]));
    assert_eq!(readers, (0..).zip(expected).collect());
    let ends = |partition| (broker.committed(GROUP, &fleet.from, partition), partition);
    for (committed, partition) in (0..6).map(ends) {
        assert_eq!(committed, Some(broker.end_of(&fleet.from, partition)), "of {partition}");
    }
    // On one process.
    let several = fleet.answers(broker).hashes;
    fleet.to = broker.topic("shared-by-one", 3);
    fleet.folder = tempfile::tempdir().unwrap();
    fleet.start(broker, &[2]);
    fleet.wait_until_well();
    assert_eq!(fleet.answers(broker).hashes, several);
}

fn few(broker: &mut Broker) {
    let mut fleet = Fleet::new(broker, "few", 1);
    fleet.variables.push(("TEST_ENDS", "yes".to_owned()));
    fleet.append(0..KEYS, 500);
    fleet.start(broker, &[1, 1, 1]);
    fleet.wait_until_well();
    assert_eq!(fleet.each_once(broker), BTreeMap::from([(0, BTreeSet::from([0]))]));
    assert_eq!(broker.committed(GROUP, &fleet.from, 0), Some(500));
}

fn bad_records(broker: &mut Broker) {
    let mut fleet = Fleet::new(broker, "bad-of-hosts", 3);
    let bad = broker.topic("bad-of-hosts-aside", 1);
    fleet.variables = vec![("TEST_ENDS", "yes".to_owned()), ("TEST_BAD", bad.clone())];
    for partition in 0..3 {
        fleet.append(0..3, 30);
        broker.append(&fleet.from, Some(partition), [("0", "{")]);
    }
    fleet.start(broker, &[1, 1, 1]);
    fleet.wait_until_well();
    let readers = fleet.each_once(broker);
    let found: Vec<_> = broker.texts(&bad);
    assert_eq!(found.len(), 3, "{found:?}");
    for (partition, text) in (0..3).zip(found) {
        let host = readers[&partition].first().unwrap();
        let offset = 10 * (partition + 1);
        let place = format!("{host} bad-of-hosts-from/{partition} at {offset}: ");
        assert!(text.starts_with(&place), "{text} does not begin with {place}");
    }
    // The bad record is the last one of the last partition, and is read all the same.
    for partition in 0..3 {
        let committed = broker.committed(GROUP, &fleet.from, partition);
        assert_eq!(committed, Some(broker.end_of(&fleet.from, partition)), "of {partition}");
    }
}

fn killed(broker: &mut Broker, mut kills: Kills, sink: &str) {
    let mut fleet = Fleet::new(broker, kills.of(), 5);
    fleet.variables.push(("TEST_SINK", sink.to_owned()));
    let cores = [1, 2, 1];
    fleet.start(broker, &cores);
    while let Some(kill) = kills.another() {
        // Half of them when the job is known to run, so that it gets on.
        let was_running = kill % 2 == 0;
        if was_running {
            let written = fleet.answers(broker).count;
            fleet.append(0..KEYS, 1_000);
            fleet.expect(broker, fleet.records().min(written + 1));
        }
        let time = kills.millis_below(if was_running { 150 } else { 1_500 });
        fleet.send(0..KEYS, 1_000, time);
        // Where the first host is lost, others may be held up, and notice it when the next run has written behind what they have.
        if kill % 4 == 0 {
            fleet.others("STOP");
            let survivors = fleet.kill(0);
            fleet.flush();
            fleet.start(broker, &cores);
            fleet.append(0..KEYS, 2_000);
            fleet.expect(broker, fleet.records());
            survivors.signal("CONT");
            survivors.notice(&fleet, true);
        } else {
            let survivors = fleet.kill(kills.below(3) as usize);
            fleet.flush();
            survivors.notice(&fleet, was_running);
            fleet.start(broker, &cores);
        }
        if kills.is_checked() {
            fleet.expect(broker, fleet.records());
            fleet.each_once(broker);
        }
    }
    fleet.append(0..KEYS, 2_000);
    fleet.expect(broker, fleet.records());
    fleet.kill(1).notice(&fleet, true);
    fleet.each_once(broker);
}

/// From one process to three and back, suspended and killed.
fn rescaled(broker: &mut Broker, name: &str, partitions: u64) {
    let mut fleet = Fleet::new(broker, name, partitions);
    for (run, cores) in [&[2][..], &[1, 2, 1], &[1], &[2, 1]].into_iter().enumerate() {
        fleet.append(0..KEYS, 1_000);
        fleet.start(broker, cores);
        fleet.expect(broker, fleet.records());
        // What is there already when the job goes on, beside what comes later.
        fleet.append(0..KEYS, 1_000);
        match run % 2 {
            0 => fleet.suspend(),
            _ => fleet.kill(cores.len() - 1).notice(&fleet, true),
        }
    }
    fleet.start(broker, &[1]);
    fleet.expect(broker, fleet.records());
    fleet.suspend();
    fleet.each_once(broker);
}

fn added(broker: &mut Broker) {
    let mut fleet = Fleet::new(broker, "added", 1);
    fleet.append(0..KEYS, 500);
    fleet.start(broker, &[1, 1]);
    fleet.expect(broker, fleet.records());
    broker.add_partitions(&fleet.from, 4);
    fleet.partitions = 4;
    // Which knows them.
    fleet.producer = broker.idempotent_producer();
    // Keys of their own, since those before have records in the first partition.
    fleet.append(KEYS..2 * KEYS, 500);
    fleet.expect(broker, fleet.records());
    fleet.append(KEYS..2 * KEYS, 500);
    fleet.expect(broker, fleet.records());
    let readers = fleet.each_once(broker);
    assert_eq!(readers, (0..).zip([0, 1, 0, 1].map(|host| BTreeSet::from([host]))).collect());
    // And they are read on where they were.
    fleet.kill(1).notice(&fleet, true);
    fleet.append(KEYS..2 * KEYS, 500);
    fleet.start(broker, &[1, 1]);
    fleet.expect(broker, fleet.records());
    fleet.suspend();
    fleet.each_once(broker);
}

fn broker_killed(broker: &mut Broker, mut kills: Kills, sink: &str) {
    let mut fleet = Fleet::new(broker, kills.of(), 4);
    fleet.variables.push(("TEST_SINK", sink.to_owned()));
    fleet.start(broker, &[1, 1]);
    while let Some(kill) = kills.another() {
        // Half of them when the job is known to get on.
        if kill % 2 == 0 {
            let written = fleet.answers(broker).count;
            fleet.append(0..KEYS, 2_000);
            fleet.expect(broker, fleet.records().min(written + 1));
        }
        fleet.send(0..KEYS, 2_000, kills.millis_below(1_000));
        broker.kill();
        thread::sleep(kills.millis_below(500));
        broker.restart();
        fleet.flush();
        if kills.is_checked() {
            fleet.expect(broker, fleet.records());
            fleet.each_once(broker);
        }
    }
    fleet.append(0..KEYS, 2_000);
    fleet.expect(broker, fleet.records());
    fleet.suspend();
    fleet.each_once(broker);
}

/// One host is killed with records of half the windows read, and those of the others come before the next run.
fn windows(broker: &mut Broker) {
    // Brokers remove what is old.
    let base = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let results = [&[2][..], &[1, 2, 1]].map(|cores| {
        let mut fleet = Fleet::new(broker, &format!("windows-of-{}", cores.len()), 5);
        fleet.variables.push(("TEST_WINDOWS", "yes".to_owned()));
        let from = fleet.from.clone();
        let append = |seconds: std::ops::Range<i64>| {
            let producer = broker.producer(None);
            for millis in (seconds.start * 1_000..seconds.end * 1_000).step_by(20) {
                for partition in 0..5 {
                    let key = (millis / 20 % 7 + i64::from(partition)).to_string();
                    let record = BaseRecord::<str, _>::to(&from).payload(&*key);
                    send(&producer, record.partition(partition).timestamp(1_000 * base + millis));
                }
            }
            producer.flush(PATIENCE).unwrap();
        };
        // Which no run is to read.
        append(0..10);
        fleet.start(broker, cores);
        let begun = Instant::now();
        while (0..5).any(|number| broker.committed(GROUP, &fleet.from, number).is_none()) {
            assert!(begun.elapsed() < PATIENCE, "the partitions are not read");
        }
        append(0..10);
        // Of nine windows, by eleven keys.
        fleet.expect(broker, 99);
        if cores.len() > 1 {
            fleet.kill(1).notice(&fleet, true);
        } else {
            end(&mut fleet.hosts.remove(0));
        }
        append(10..20);
        fleet.start(broker, cores);
        fleet.expect(broker, 209);
        fleet.hosts.iter_mut().for_each(end);
        broker.texts(&fleet.to)
    });
    let mut expected = BTreeMap::<_, u64>::new();
    for millis in (0..19_000).step_by(20) {
        for partition in 0..5 {
            let (key, second) = (millis / 20 % 7 + partition, base + millis / 1_000);
            *expected.entry((key, second)).or_default() += 1;
        }
    }
    let expected = expected.into_iter().map(|((key, second), n)| format!("{key} {second} {n}"));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    for found in results {
        assert!(found == expected, "{found:?} for {expected:?}");
    }
}
