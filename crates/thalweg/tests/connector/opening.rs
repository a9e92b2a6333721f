//! Sources that wait for others when they open a split.

use super::{Cursor, Log, Partition, Topic, number, on, with_checkpoints};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg::connector::{SplitContext, SplitSource};
use thalweg::{Environment, Error, ErrorKind, Result};

/// A topic whose second partition can be opened only once it is let.
struct Held {
    topic: Topic,
    lets: Mutex<Receiver<()>>,
}

impl Held {
    /// With what lets it.
    fn of(log: &Log) -> (Self, Sender<()>) {
        let (lets, let_it) = channel();
        let topic = Topic { bounded: false, latest: true, ..Topic::of(log) };
        (Self { topic, lets: Mutex::new(let_it) }, lets)
    }
}

impl SplitSource for Held {
    type Item = [u8];
    type Split = Partition;
    type Position = u64;
    type Reader = Cursor;

    fn describe(&self) -> String {
        self.topic.describe()
    }

    fn is_bounded(&self) -> bool {
        self.topic.is_bounded()
    }

    fn splits(&self) -> Result<Vec<Partition>> {
        self.topic.splits()
    }

    fn open(&self, split: &Partition, from: Option<u64>, cx: &SplitContext) -> Result<Cursor> {
        let lets = self.lets.lock().unwrap();
        if split.number == 1 && lets.recv_timeout(Duration::from_secs(60)).is_err() {
            return Err(Error::new(ErrorKind::Io, "it was never let"));
        }
        self.topic.open(split, from, cx)
    }
}

/// Waits for a condition that comes true in any case.
fn wait_until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn other_splits_and_tasks_of_a_core_go_on_while_one_is_opened() -> Result<()> {
    let (held, others) = (Log::with_partitions(2), Log::with_partitions(1));
    let (source, lets) = Held::of(&held);
    let env = Environment::with_config(on(1));
    let mut of_held = env.read(source).map(number).to_channel();
    let other = Topic { bounded: false, ..Topic::of(&others) };
    let mut of_others = env.read(other).map(number).to_channel();
    let job = env.start()?;
    for n in 0..100 {
        others.append(0, n.to_string());
        assert_eq!(of_others.recv()?, Some(n));
    }
    wait_until(|| !held.partition(0).lock().unwrap().readers.is_empty());
    held.append(0, "7");
    assert_eq!(of_held.recv()?, Some(7), "of the split that is open");
    lets.send(()).unwrap();
    wait_until(|| !held.partition(1).lock().unwrap().readers.is_empty());
    held.append(1, "8");
    assert_eq!(of_held.recv()?, Some(8));
    held.close_all();
    others.close_all();
    assert_eq!((of_held.recv()?, of_others.recv()?), (None, None));
    job.wait().map(drop)
}

#[test]
fn no_checkpoint_counts_before_it_is_known_where_splits_begin() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (held, others) = (Log::with_partitions(2), Log::with_partitions(2));
    let (source, lets) = Held::of(&held);
    let env = with_checkpoints(dir.path(), 2);
    env.read(source).for_each(|_| ());
    let other = Topic { bounded: false, ..Topic::of(&others) };
    let committed = Arc::clone(&other.committed);
    env.read(other).for_each(|_| ());
    let job = env.start()?;
    // A job that does not wait has several checkpoints in this time.
    std::thread::sleep(Duration::from_millis(300));
    assert!(committed.lock().unwrap().is_empty(), "{committed:?}");
    lets.send(()).unwrap();
    wait_until(|| !committed.lock().unwrap().is_empty());
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}

#[test]
fn a_job_is_drained_and_cancelled_while_a_split_is_opened() -> Result<()> {
    for drains in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (source, lets) = Held::of(&Log::with_partitions(2));
        let env = with_checkpoints(dir.path(), 1);
        env.read(source).for_each(|_| ());
        let job = env.start()?;
        match drains {
            true => job.drain(),
            false => job.cancel(),
        }
        let ended = job.wait().map(drop).map_err(|error| error.kind());
        assert_eq!(ended, if drains { Ok(()) } else { Err(ErrorKind::Cancelled) });
        drop(lets);
    }
    Ok(())
}
