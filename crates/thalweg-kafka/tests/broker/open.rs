//! Transactions that stay open until a checkpoint counts.

use crate::Test;
use crate::broker::{Broker, PATIENCE};
use rdkafka::producer::Producer as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::connector::{Sink, SinkContext};
use thalweg::{Data, Environment, ErrorKind, Result};
use thalweg_kafka::{Epoch, KafkaSink, Outgoing};

pub const TESTS: &[Test] = &[
    ("all_is_written_exactly_once_in_open_transactions", all),
    ("an_open_transaction_is_committed_by_any_process", elsewhere),
    ("an_open_transaction_that_was_aborted_is_said", aborted),
    ("an_open_transaction_that_was_forgotten_is_said_or_taken_as_committed", forgotten),
    ("a_transaction_that_was_open_for_too_long_ends_the_job", late),
    ("transactions_stay_open_while_checkpoints_fail", without_checkpoints),
    ("an_open_transaction_that_no_checkpoint_gets_in_time_ends_the_job", expires),
    ("open_transactions_need_checkpoints", refused),
];

const OPEN_FOR: Duration = Duration::from_secs(600);

fn texts(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("{n:06}")).collect()
}

type Encode = fn(u64, &mut Outgoing) -> Result<()>;

/// Text of six digits.
fn number(n: u64, out: &mut Outgoing) -> Result<()> {
    out.key(format!("{n}")).payload(format!("{n:06}"));
    Ok(())
}

pub fn sink(broker: &str, topic: &str) -> KafkaSink<u64, Encode> {
    KafkaSink::exactly_once(broker, topic, number as Encode).open_transactions(OPEN_FOR)
}

fn environment(tasks: usize, folder: &Path, interval: Duration) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(tasks).unwrap();
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = interval;
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

fn all(broker: &mut Broker) {
    for (name, tasks, count, millis) in
        [("open-1", 1, 1_000, 1_000), ("open-2", 2, 300_000, 50), ("open-3", 3, 0, 1_000)]
    {
        let topic = broker.topic(name, 4);
        let folder = tempfile::tempdir().unwrap();
        let env = environment(tasks, folder.path(), Duration::from_millis(millis));
        env.range(0..count).write(sink(&broker.address(), &topic));
        env.run().unwrap();
        let found = broker.texts(&topic);
        assert_eq!(found.len() as u64, count);
        assert!(found.iter().enumerate().all(|(n, text)| text.parse() == Ok(n)));
    }
}

/// How often and by which sink what is prepared is committed.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Other,
    OtherThenItself,
    None,
}

/// A sink whose commits are noted.
struct Noted<S: Sink> {
    itself: S,
    other: S,
    by: By,
    commits: Arc<Mutex<Vec<S::Commit>>>,
}

impl<S: Sink> Sink for Noted<S> {
    type Item = S::Item;
    type Commit = S::Commit;
    type Writer = S::Writer;

    fn describe(&self) -> String {
        self.itself.describe()
    }

    fn open(&self, cx: &SinkContext) -> Result<S::Writer> {
        self.itself.open(cx)
    }

    fn commit(&self, commit: &S::Commit) -> Result<()> {
        self.commits.lock().unwrap().push(commit.clone());
        if self.by != By::None {
            self.other.commit(commit)?;
        }
        if self.by == By::OtherThenItself {
            self.itself.commit(commit)?;
        }
        Ok(())
    }
}

/// Runs a job of a few transactions; returns what was to be committed.
pub fn committed_elsewhere(
    broker: &str,
    topic: &str,
    sink: impl Fn(&str, &str) -> KafkaSink<u64, Encode>,
) {
    for (at, by) in [By::Other, By::OtherThenItself].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let env = environment(2, folder.path(), Duration::from_millis(20));
        let commits = Arc::<Mutex<Vec<_>>>::default();
        let (itself, other) = (sink(broker, topic), sink(broker, topic));
        let from = 1_000 * at as u64;
        let slow = (from..from + 1_000).inspect(|n| {
            if n % 100 == 0 {
                thread::sleep(Duration::from_millis(40));
            }
        });
        env.iter(slow).shuffle().write(Noted { itself, other, by, commits: Arc::clone(&commits) });
        env.run().unwrap();
        // And long after the job.
        let later = sink(broker, topic);
        let commits = commits.lock().unwrap();
        assert!(commits.len() > 2, "{commits:?}");
        commits.iter().for_each(|commit| later.commit(commit).unwrap());
    }
}

fn elsewhere(broker: &mut Broker) {
    let topic = broker.topic("open-elsewhere", 2);
    committed_elsewhere(&broker.address(), &topic, sink);
    assert_eq!(broker.texts(&topic), texts(0..2_000));
}

/// Runs a job whose only transaction is not committed.
fn uncommitted(broker: &Broker, topic: &str, open_for: Duration) -> Epoch {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(1, folder.path(), Duration::from_secs(3600));
    let sink = || sink(&broker.address(), topic).open_transactions(open_for);
    let (itself, other, commits) = (sink(), sink(), Arc::<Mutex<Vec<_>>>::default());
    env.range(0..10).write(Noted { itself, other, by: By::None, commits: Arc::clone(&commits) });
    env.run().unwrap();
    commits.lock().unwrap().remove(0)
}

fn id_of(commit: &Epoch) -> String {
    let shown = format!("{commit:?}");
    let id = shown.split_once("transactional_id: \"").unwrap().1;
    id.split_once('"').unwrap().0.to_owned()
}

/// By whoever begins with its transactional id, and by brokers when its time is over.
fn aborted(broker: &mut Broker) {
    for is_late in [false, true] {
        let topic = broker.topic(&format!("open-aborted-{is_late}"), 2);
        let open_for = if is_late { Duration::from_secs(1) } else { OPEN_FOR };
        let commit = uncommitted(broker, &topic, open_for);
        match is_late {
            true => thread::sleep(Duration::from_secs(4)),
            false => {
                broker.producer(Some(&id_of(&commit))).init_transactions(PATIENCE).unwrap();
            }
        }
        let error = sink(&broker.address(), &topic).commit(&commit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let begins = format!("cannot commit transaction 1 of thalweg-open-aborted-{is_late}-");
        assert!(error.message().starts_with(&begins), "{error}");
        assert!(error.message().contains("the brokers have aborted it"), "{error}");
        assert_eq!(broker.records(&topic).len(), 0);
    }
}

/// A checkpoint from long ago: its transactional id has another name here, which the brokers do not know.
fn forgotten(broker: &mut Broker) {
    let topic = broker.topic("open-forgotten", 1);
    let commit = uncommitted(broker, &topic, OPEN_FOR);
    let (mut bytes, id) = (Vec::new(), id_of(&commit));
    commit.encode(&mut bytes);
    let at = bytes.windows(id.len()).position(|part| part == id.as_bytes()).unwrap();
    bytes[at + id.len() - 1] = b'7';
    let old = Epoch::decode(&mut &*bytes).unwrap();
    assert_ne!(old, commit);
    let error = sink(&broker.address(), &topic).commit(&old).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("`KafkaSink::forgotten_are_committed`"), "{error}");
    sink(&broker.address(), &topic).forgotten_are_committed().commit(&old).unwrap();
    // Which is no word about one that is known.
    sink(&broker.address(), &topic).forgotten_are_committed().commit(&commit).unwrap();
    assert_eq!(broker.texts(&topic), texts(0..10));
}

fn late(broker: &mut Broker) {
    let topic = broker.topic("open-late", 1);
    let folder = tempfile::tempdir().unwrap();
    let env = environment(1, folder.path(), Duration::from_secs(3600));
    let slow = (0..2).inspect(|n| {
        if *n == 1 {
            thread::sleep(Duration::from_secs(5));
        }
    });
    let sink = sink(&broker.address(), &topic).open_transactions(Duration::from_secs(1));
    env.iter(slow).write(sink);
    let error = env.run().unwrap_err();
    assert!(error.to_string().contains("open_transactions"), "{error:?}");
    assert_eq!(broker.records(&topic).len(), 0);
}

/// The directory is away for a while, and in the end for good.
fn without_checkpoints(broker: &mut Broker) {
    let topic = broker.topic("open-failing", 2);
    let folder = tempfile::tempdir().unwrap();
    let (at, away) = (folder.path().join("checkpoints"), folder.path().join("away"));
    let env = environment(2, &at, Duration::from_millis(300));
    let moves = (at.clone(), away.clone());
    let slow = (0..2_000u64).inspect(move |n| {
        let (at, away) = &moves;
        match n {
            500 => std::fs::rename(at, away).unwrap(),
            1_500 => std::fs::rename(away, at).unwrap(),
            _ => {}
        }
        thread::sleep(Duration::from_millis(1));
    });
    env.iter(slow).shuffle().write(sink(&broker.address(), &topic));
    env.run().unwrap();
    assert_eq!(broker.texts(&topic), texts(0..2_000));

    let at = folder.path().join("others");
    let env = environment(1, &at, Duration::from_millis(50));
    let slow = (0..u64::MAX).inspect(move |n| {
        if *n == 100 {
            std::fs::rename(&at, at.with_extension("away")).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    });
    let topic = broker.topic("open-without", 1);
    env.iter(slow).write(sink(&broker.address(), &topic));
    let error = env.run().unwrap_err();
    let what = "7 transactions of a task wait for a checkpoint that counts";
    assert!(error.message().starts_with(what), "{error}");
}

/// A checkpoint that counts must not have what brokers have aborted.
fn expires(broker: &mut Broker) {
    let topic = broker.topic("open-expires", 1);
    let folder = tempfile::tempdir().unwrap();
    let (at, away) = (folder.path().join("checkpoints"), folder.path().join("away"));
    let env = environment(1, &at, Duration::from_millis(300));
    let slow = (0..1_000u64).inspect(move |n| {
        if *n == 300 {
            std::fs::rename(&at, &away).unwrap();
        }
        thread::sleep(Duration::from_millis(6));
    });
    let sink = sink(&broker.address(), &topic).open_transactions(Duration::from_secs(2));
    env.iter(slow).write(sink);
    let error = env.run().unwrap_err();
    assert!(error.message().contains("the job ends before a checkpoint counts"), "{error}");
    // Those of the checkpoints that counted.
    let found = broker.texts(&topic);
    assert!(!found.is_empty() && found.len() <= 300, "{}", found.len());
    assert_eq!(found, texts(0..found.len() as u64));
}

fn refused(broker: &mut Broker) {
    let topic = broker.topic("open-refused", 1);
    let run = |sink: KafkaSink<u64, Encode>, has_checkpoints: bool| {
        let folder = tempfile::tempdir().unwrap();
        let env = match has_checkpoints {
            true => environment(1, folder.path(), Duration::from_secs(1)),
            false => Environment::with_config(Config::default()),
        };
        env.range(0..10).write(sink);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    let sink = || sink(&broker.address(), &topic);
    assert!(run(sink(), false).contains("`--checkpoint DIR`"));
    let message = run(sink().option("transaction.timeout.ms", "1000"), true);
    assert!(message.contains("`transaction.timeout.ms` cannot be set"), "{message}");
    // More than brokers allow.
    let message = run(sink().open_transactions(Duration::from_secs(1_000_000)), true);
    assert!(message.contains("`transaction.max.timeout.ms`"), "{message}");
    let encode: Encode = |_, _| Ok(());
    let message = run(sink().open_transactions(Duration::from_millis(10)), true);
    assert!(message.contains("from one second to 24 days"), "{message}");
    let least =
        KafkaSink::at_least_once(broker.address(), &topic, encode).open_transactions(OPEN_FOR);
    assert!(run(least, true).contains("`KafkaSink::exactly_once`"));
    assert_eq!(broker.records(&topic).len(), 0);
}
