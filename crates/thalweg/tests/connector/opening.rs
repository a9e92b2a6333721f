//! Sources that wait for others when they open a split.

use super::{Cursor, Log, Partition, Topic, number, on, with_checkpoints};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg::connector::{SplitContext, SplitSource};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, Error, ErrorKind, Result};

/// A topic whose last partition can be opened only once it is let.
struct Held {
    topic: Topic,
    lets: Mutex<Receiver<()>>,
    /// Whether it is being opened.
    begun: Arc<AtomicBool>,
}

impl Held {
    /// With what lets it.
    fn of(log: &Log) -> (Self, Sender<()>) {
        let (lets, let_it) = channel();
        let topic = Topic { bounded: false, ..Topic::of(log) };
        (Self { topic, lets: Mutex::new(let_it), begun: Arc::default() }, lets)
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
        if split.number as usize + 1 == self.topic.log.0.lock().unwrap().len() {
            self.begun.store(true, Ordering::Relaxed);
            if self.lets.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_err() {
                return Err(Error::new(ErrorKind::Io, "it was never let"));
            }
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
    // Another job, which waits for nothing, has a checkpoint meanwhile.
    let dir_of_twin = tempfile::tempdir().unwrap();
    let env = with_checkpoints(dir_of_twin.path(), 1);
    let twin = Topic { bounded: false, ..Topic::of(&others) };
    let of_twin = Arc::clone(&twin.committed);
    env.read(twin).for_each(|_| ());
    let twin = env.start()?;
    wait_until(|| !of_twin.lock().unwrap().is_empty());
    twin.cancel();
    assert!(committed.lock().unwrap().is_empty(), "{committed:?}");
    lets.send(()).unwrap();
    wait_until(|| !committed.lock().unwrap().is_empty());
    job.cancel();
    for job in [job, twin] {
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    }
    Ok(())
}

#[test]
fn a_split_that_is_not_open_holds_event_time_back() -> Result<()> {
    for idle_after in [None, Some(Duration::from_millis(20))] {
        // One task has the first partition, which stays without records, and the last; another one has the second.
        let held = Log::with_partitions(3);
        let (source, lets) = Held::of(&held);
        let (seen, sees) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counts, ends) = (Arc::clone(&seen), Arc::clone(&sees));
        let watermarks = Watermarks::monotonous();
        let watermarks = match idle_after {
            Some(idle_after) => watermarks.idle_after(idle_after),
            None => watermarks,
        };
        let env = Environment::with_config(on(2));
        let mut windows = env
            .read(source)
            .map(number)
            .inspect(move |_| _ = counts.fetch_add(1, Ordering::Relaxed))
            .assign_timestamps(|at| Timestamp::from_micros(*at as i64), watermarks)
            .group_by(|_| 0u8)
            .window(EventTimeWindow::tumbling(Duration::from_micros(10)))
            .count()
            .unkey()
            .map(|(_, window)| (window.start.as_micros(), window.value))
            .inspect(move |_| _ = ends.fetch_add(1, Ordering::Relaxed))
            .to_channel();
        let job = env.start()?;
        (0..30).for_each(|n| held.append(1, n.to_string()));
        wait_until(|| seen.load(Ordering::Relaxed) == 30);
        // For longer than a split is quiet before it is idle.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(sees.load(Ordering::Relaxed), 0, "no window has ended");
        held.append(2, "5");
        lets.send(()).unwrap();
        wait_until(|| seen.load(Ordering::Relaxed) == 31);
        held.close_all();
        assert_eq!(windows.recv()?, Some((0, 11)));
        while windows.recv()?.is_some() {}
        job.wait()?;
    }
    Ok(())
}

#[test]
fn a_job_is_drained_and_cancelled_while_a_split_is_opened() -> Result<()> {
    for drains in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (source, lets) = Held::of(&Log::with_partitions(2));
        let env = with_checkpoints(dir.path(), 1);
        let begun = Arc::clone(&source.begun);
        env.read(source).for_each(|_| ());
        let job = env.start()?;
        wait_until(|| begun.load(Ordering::Relaxed));
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
