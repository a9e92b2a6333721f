//! A source whose records other threads send.
//!
//! Of several hosts, the first has the source. Senders of the others accept records and drop them, until the first host
//! says that its channel is closed, or the job is over. If it is not closed, but ends because all senders of the first
//! host are dropped, senders of slower hosts may have records left, and accept them even after the job: the source ends
//! only when all hosts know that.

use crate::clock::Nanos;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Push, Waker};
use crate::metrics::{Awaits, show};
use crate::net::{HostId, Link, Receive};
use crate::plan::{Details, Origin, Parallelism, TaskContext, TieKind};
use crate::runtime::Threads;
use crate::stream::{Chain, Environment, Produced, Source, SourceFactory, Stream, Warnings};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// Records pushed in one call of the source.
const RUN: usize = 4096;

impl Environment {
    /// The records that other threads send, in one task, in the order in which they are sent.
    ///
    /// Use it for input that arrives by blocking calls or callbacks: a socket, a terminal, another library. When the
    /// job falls behind, [`send`](Sender::send) blocks the sender's own thread, never one of the engine's. The
    /// channel holds `capacity` records, at least one; the job takes all queued records at once, so up to twice as
    /// many may be in flight.
    ///
    /// The stream ends when every sender is dropped and the job has taken what they sent. For the plan it is
    /// unbounded, so an operator that needs a bounded stream (`collect`, `count`) is refused.
    ///
    /// Before the job starts it takes no records: a thread that sends more than `capacity` records before it starts
    /// the job deadlocks. So does a thread that [runs](Self::run) the job while it holds a sender:
    /// [start](Self::start) it, and drop the sender before waiting. Neither is refused, since another thread may
    /// start the job, or send. A warning of the facade `log` (target `thalweg::stalls`) reports the wait once, after
    /// [`Config::stall_after`](crate::config::Config::stall_after), if the program has installed a logger; in
    /// application mode (module `cli`) it is on standard error too.
    /// [`OperatorStats::awaits`](crate::metrics::OperatorStats::awaits) also shows that a running job waits for its
    /// senders.
    ///
    /// On several hosts the program runs on each, and the records are those that the program on the first host sends. A
    /// sender on another host accepts records, without ever waiting, and drops them; it fails once senders of the first
    /// host would fail. So a program that sends the same records on every host takes the same course on all of them.
    ///
    /// A job with [checkpoints](crate::config::Config::checkpoints) is refused: the program cannot send again what the job has read since the last one. Use a
    /// source that can, such as [`iter`](Self::iter), [`generate`](Self::generate), or one of files.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (numbers, stream) = env.channel(100);
    /// let squares = stream.map(|n: u32| n * n).to_channel();
    ///
    /// let job = env.start()?;
    /// std::thread::spawn(move || (1..=3).for_each(|n| numbers.send(n).unwrap()));
    /// assert_eq!(squares.collect::<Result<Vec<_>, _>>()?, [1, 4, 9]);
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn channel<T: Send + 'static>(
        &self,
        capacity: usize,
    ) -> (Sender<T>, Stream<impl Chain<Item = T, Time = ()> + use<T>>) {
        let capacity = capacity.max(1);
        let is_remote = !self.is_first_host();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                senders: 1,
                waiting: 0,
                closed: false,
                finished: false,
                acknowledged: 0,
                started: false,
                warned: false,
                sleeper: None,
            }),
            taken: Condvar::new(),
            capacity,
            is_remote,
            threads: self.threads(),
            warnings: self.warnings(),
            patience: self.config().stall_after,
            place: Location::caller(),
        });
        let sender = Sender { shared: Arc::clone(&shared) };
        // The plan has one task for this stage, so the receiver is taken once.
        let receiver = Receiver { shared, batch: VecDeque::new(), others: OnceLock::new() };
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        let channel = Channel { receiver: Arc::clone(&receiver) };
        let details = Details::of("capacity", capacity);
        let stream = self
            .source(Origin::here("channel"), details, Parallelism::Fixed(1), false, channel)
            .tied(TieKind::Program);
        if self.hosts_if_several().is_some() {
            self.open_last_tie(move |links, part| {
                let mut receiver = lock(&receiver);
                if is_remote {
                    let first = links.to(HostId::FIRST, part);
                    if let Some(receiver) = receiver.take() {
                        // The network drops it, with the receiver, when the job is over on this host.
                        let receiver = Mutex::new(Some(receiver));
                        links.open(part, Arc::new(OtherHost { receiver, first }));
                    }
                } else if let Some(receiver) = &*receiver {
                    let _ = receiver.others.set(links.to_others(part));
                    links.open(part, Arc::new(FirstHost { shared: Arc::clone(&receiver.shared) }));
                }
            });
        }
        (sender, stream)
    }
}

/// Sends records into a job. Cloning returns another sender for the same stream; the stream ends when the last sender
/// is dropped.
///
/// Made by [`Environment::channel`].
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The error of [`Sender::send`], with the record: the job has ended, drains or will never start, or a closure on one
/// of its threads would have had to wait for capacity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T, Refused);

/// Why a record was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refused {
    Closed,
    NeedsThread,
}

/// The error of [`Sender::try_send`], with the record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full.
    Full(T),
    /// The job has ended, drains, or will never start.
    Closed(T),
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notified when records are taken, and when the receiver is dropped.
    taken: Condvar,
    capacity: usize,
    /// Whether the source is on another host: records are dropped then.
    is_remote: bool,
    /// The threads of the job's runtime, which must not block on the channel.
    threads: Threads,
    /// The receiver of the warning that a sender waits for a job that has not started, and the time before it.
    warnings: Warnings,
    patience: Option<Duration>,
    place: &'static Location<'static>,
}

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    /// The number of senders that wait for capacity.
    waiting: usize,
    /// Whether the channel accepts no more records.
    closed: bool,
    /// Whether `FINISHED` was sent or, on another host, received: all senders of the first host are dropped.
    finished: bool,
    /// How many other hosts have acknowledged that.
    acknowledged: usize,
    /// Whether the job has started.
    started: bool,
    /// Whether the warning that a sender waits for the start was emitted.
    warned: bool,
    /// The task to wake while it waits for records.
    sleeper: Option<Waker>,
}

impl<T> Shared<T> {
    /// Waits until records are taken or the channel is closed. Warns once if the job does not start within the
    /// patience.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        state.waiting += 1;
        let waits_for_start = !state.started && !state.warned;
        let mut state = match self.patience.filter(|_| waits_for_start) {
            None => self.taken.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.taken.wait_timeout(state, patience);
                let (state, time) = waited.unwrap_or_else(PoisonError::into_inner);
                if time.timed_out() { self.warn_once(state, patience) } else { state }
            }
        };
        state.waiting -= 1;
        state
    }

    #[cold]
    fn warn_once<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        waited: Duration,
    ) -> MutexGuard<'a, State<T>> {
        if state.started || state.closed || std::mem::replace(&mut state.warned, true) {
            return state;
        }
        drop(state);
        self.warnings.of_stall(&format!(
            "channel ({}): a sender has waited for room for {}, and the job has not started: a thread that \
             sends more than the capacity of {} and then starts the job waits for itself",
            self.place,
            show::span(waited),
            self.capacity
        ));
        lock(&self.state)
    }
}

impl<T> Sender<T> {
    /// Sends one record, and waits for capacity if the job is behind.
    ///
    /// A record that was sent is processed, also when the job [drains](crate::JobHandle::drain). If the job ends
    /// early, because it was cancelled, failed, or needs no more input, the record may go unread.
    ///
    /// # Errors
    ///
    /// Returns the record if the job has ended or drains, or was dropped before it started. Also if a closure on one
    /// of the job's own threads would have to wait, which might last for ever: use [`try_send`](Self::try_send)
    /// there.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (sender, stream) = env.channel(1);
    /// drop(stream);
    /// assert_eq!(sender.send("lost?").unwrap_err().0, "lost?");
    /// ```
    pub fn send(&self, record: T) -> Result<(), SendError<T>> {
        let mut state = lock(&self.shared.state);
        if self.shared.is_remote && !state.closed {
            drop(state);
            drop(record);
            return Ok(());
        }
        while state.queue.len() >= self.shared.capacity && !state.closed {
            if self.shared.threads.may_wait().is_err() {
                return Err(SendError(record, Refused::NeedsThread));
            }
            state = self.shared.wait(state);
        }
        if state.closed {
            return Err(SendError(record, Refused::Closed));
        }
        state.queue.push_back(record);
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(task) = sleeper {
            task.wake();
        }
        Ok(())
    }

    /// Sends one record if it can do so without waiting.
    ///
    /// # Errors
    ///
    /// Returns the record, with the reason.
    ///
    /// ```
    /// use thalweg::{Environment, io::TrySendError};
    ///
    /// let env = Environment::new();
    /// let (sender, stream) = env.channel(1);
    /// assert_eq!(sender.try_send('a'), Ok(()));
    /// assert_eq!(sender.try_send('b'), Err(TrySendError::Full('b')));
    /// # drop(stream);
    /// ```
    pub fn try_send(&self, record: T) -> Result<(), TrySendError<T>> {
        let mut state = lock(&self.shared.state);
        if state.closed {
            return Err(TrySendError::Closed(record));
        }
        if self.shared.is_remote {
            drop(state);
            drop(record);
            return Ok(());
        }
        if state.queue.len() >= self.shared.capacity {
            return Err(TrySendError::Full(record));
        }
        state.queue.push_back(record);
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(task) = sleeper {
            task.wake();
        }
        Ok(())
    }

    /// Whether every further send fails: the job has ended or drains, or was dropped before it started.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.senders -= 1;
        let sleeper = if state.senders == 0 { state.sleeper.take() } else { None };
        drop(state);
        if let Some(task) = sleeper {
            task.wake();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

// The error messages do not show the record, so that any type can be sent.

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `unwrap` shows this text; the reason would be lost otherwise.
        write!(f, "SendError(.., {:?})", self.to_string())
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.1 {
            Refused::Closed => "the job that this channel feeds has ended or drains",
            Refused::NeedsThread => {
                "the channel is full, and a closure on the threads of the job that it feeds cannot wait"
            }
        })
    }
}

impl<T> std::error::Error for SendError<T> {}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full",
            Self::Closed(_) => "the job that this channel feeds has ended or drains",
        })
    }
}

impl<T> std::error::Error for TrySendError<T> {}

/// Owns the receiver until the job starts: if the stream is dropped before, the senders are notified.
struct Channel<T> {
    receiver: Arc<Mutex<Option<Receiver<T>>>>,
}

struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Records taken from the queue and not pushed yet.
    batch: VecDeque<T>,
    /// The other hosts, whose senders are to be closed with this receiver.
    others: OnceLock<Vec<Link>>,
}

impl<T> Receiver<T> {
    /// Accepts no more records, on any host.
    fn close(&self) -> MutexGuard<'_, State<T>> {
        let mut state = lock(&self.shared.state);
        if !state.closed && !state.finished {
            state.closed = true;
            self.send_others(CLOSED);
        }
        state
    }

    /// Whether the source may end, as all senders are dropped: once the other hosts know that.
    fn finish(&self, state: &mut State<T>) -> bool {
        if !state.finished && !state.closed {
            state.finished = true;
            self.send_others(FINISHED);
        }
        state.closed || state.acknowledged >= self.others.get().map_or(0, Vec::len)
    }

    fn send_others(&self, what: u8) {
        self.others.get().into_iter().flatten().for_each(|link| link.send(vec![what]));
    }
}

/// The first host's channel accepts no more records.
const CLOSED: u8 = 0;
/// All senders of the first host are dropped, and what they have sent has been taken.
const FINISHED: u8 = 1;
/// Acknowledges [`FINISHED`].
const ACKNOWLEDGED: u8 = 2;

/// The channel on a host without its source.
struct OtherHost<T> {
    /// Dropped when the channel is closed or the job is over, so that senders fail.
    receiver: Mutex<Option<Receiver<T>>>,
    first: Link,
}

impl<T: Send> Receive for OtherHost<T> {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        match frame {
            [CLOSED] => drop(lock(&self.receiver).take()),
            [FINISHED] => {
                if let Some(receiver) = &*lock(&self.receiver) {
                    lock(&receiver.shared.state).finished = true;
                }
                self.first.send(vec![ACKNOWLEDGED]);
            }
            _ => return Err(no_such_frame(from)),
        }
        Ok(())
    }
}

/// The channel on the host with its source.
struct FirstHost<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Send> Receive for FirstHost<T> {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        if frame != [ACKNOWLEDGED] {
            return Err(no_such_frame(from));
        }
        let mut state = lock(&self.shared.state);
        state.acknowledged += 1;
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(task) = sleeper {
            task.wake();
        }
        Ok(())
    }
}

fn no_such_frame(from: HostId) -> Error {
    let what = format!("host {} has sent what is no message about a channel", from.0);
    Error::new(ErrorKind::Internal, what)
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.close();
        // Dropped after the lock is released: a record's destructor may run any code.
        let unread = std::mem::take(&mut state.queue);
        drop(state);
        self.shared.taken.notify_all();
        drop(unread);
    }
}

impl<T: Send + 'static> SourceFactory for Channel<T> {
    type Source = Received<T>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Received<T>> {
        let receiver = lock(&self.receiver).take();
        if let Some(receiver) = &receiver {
            lock(&receiver.shared.state).started = true;
        }
        Ok(Received { receiver, waker: cx.waker.clone(), records: 0 })
    }
}

/// The receiving end of a channel in its task.
struct Received<T> {
    receiver: Option<Receiver<T>>,
    waker: Waker,
    records: u64,
}

impl<T: Send + 'static> Source for Received<T> {
    type Item = T;
    type Time = ();

    fn produce<N: Push<T, ()>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
        let Some(receiver) = &mut self.receiver else { return Ok(Produced::End) };
        if receiver.batch.is_empty() {
            let mut state = lock(&receiver.shared.state);
            if state.queue.is_empty() {
                if state.closed || state.senders == 0 && receiver.finish(&mut state) {
                    return Ok(Produced::End);
                }
                state.sleeper = Some(self.waker.clone());
                return Ok(Produced::Nothing);
            }
            std::mem::swap(&mut state.queue, &mut receiver.batch);
            let waiting = state.waiting;
            drop(state);
            if waiting > 0 {
                receiver.shared.taken.notify_all();
            }
        }
        let batch = &mut receiver.batch;
        let count = batch.len().min(RUN);
        for record in batch.drain(..count) {
            next.push(record, ());
        }
        self.records += count as u64;
        Ok(Produced::Some)
    }

    fn stop(&mut self) -> bool {
        let Some(receiver) = &self.receiver else { return false };
        // The records in the queue have been accepted; from here on none are.
        drop(receiver.close());
        receiver.shared.taken.notify_all();
        true
    }

    fn awaits(&self) -> Option<Awaits> {
        let Receiver { shared, batch, .. } = self.receiver.as_ref()?;
        let state = lock(&shared.state);
        let waits = batch.is_empty() && state.queue.is_empty() && !state.closed;
        (waits && state.senders > 0).then_some(Awaits::Senders(state.senders))
    }

    fn records(&self) -> u64 {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scheduler};
    use std::sync::mpsc;
    use std::time::Duration;

    fn environment(scheduler: Scheduler) -> Environment {
        let config = Config { scheduler, ..Config::default() };
        Environment::with_config(config)
    }

    #[test]
    fn records_of_several_threads_arrive_once_and_in_order() {
        for scheduler in [
            Scheduler::WorkStealing,
            Scheduler::ThreadPerTask,
            Scheduler::Deterministic { seed: 3 },
        ] {
            for capacity in [0, 1, 7, 10_000] {
                let env = environment(scheduler);
                let (sender, stream) = env.channel(capacity);
                let incoming = stream.to_channel();
                let received =
                    std::thread::spawn(move || incoming.collect::<Result<Vec<(u64, u64)>>>());
                let job = env.start().unwrap();
                let threads: Vec<_> = (0..3)
                    .map(|thread| {
                        let sender = sender.clone();
                        std::thread::spawn(move || {
                            (0..2000).for_each(|n| sender.send((thread, n)).unwrap());
                        })
                    })
                    .collect();
                drop(sender);
                job.wait().unwrap();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                let received = received.join().unwrap().unwrap();
                assert_eq!(received.len(), 6000);
                for thread in 0..3 {
                    let of_one = received.iter().filter(|r| r.0 == thread).map(|r| r.1);
                    assert!(of_one.eq(0..2000), "{scheduler:?}, capacity {capacity}");
                }
            }
        }
    }

    #[test]
    fn a_record_is_delivered_while_its_sender_waits_for_the_answer() {
        let env = Environment::new();
        let (sender, stream) = env.channel(10);
        let mut incoming = stream.shuffle().to_channel();
        let job = env.start().unwrap();
        for n in 0..100 {
            sender.send(n).unwrap();
            assert_eq!(incoming.recv_timeout(Duration::from_secs(10)).unwrap(), Some(n));
        }
        drop(sender);
        job.wait().unwrap();
    }

    #[test]
    fn a_sender_that_waits_for_room_learns_that_the_job_has_ended() {
        let env = Environment::new();
        let (sender, stream) = env.channel(1);
        let (started, wait) = mpsc::sync_channel(1);
        let (go_on, hold) = mpsc::channel::<()>();
        let hold = Mutex::new(hold);
        let hold_up = move |_: u32| {
            started.send(()).unwrap();
            lock(&hold).recv().unwrap_err();
        };
        let _incoming = stream.map(hold_up).to_channel();
        let job = env.start().unwrap();
        sender.send(0).unwrap();
        wait.recv().unwrap();
        // The task is blocked in its map: one more record fits, and the next sender waits.
        sender.send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        let waits = std::thread::spawn({
            let sender = sender.clone();
            move || sender.send(3)
        });
        job.cancel();
        drop(go_on);
        let refused = waits.join().unwrap().unwrap_err();
        assert_eq!(refused.0, 3);
        assert!(format!("{refused:?}").contains("has ended or drains"), "{refused:?}");
        assert_eq!(job.wait().unwrap_err().kind(), crate::ErrorKind::Cancelled);
        assert!(sender.is_closed());
        assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
    }

    #[test]
    fn a_failed_start_closes_the_channel() {
        let env = Environment::new();
        let (sender, stream) = env.channel::<u32>(1);
        // Counting needs a bounded stream, so the job is refused.
        let _count = stream.count().collect_one();
        assert_eq!(env.start().err().unwrap().kind(), crate::ErrorKind::Plan);
        assert_eq!(sender.send(1).unwrap_err().0, 1);
    }
}
