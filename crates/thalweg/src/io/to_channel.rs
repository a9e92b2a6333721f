//! A sink that sends the records to the program while the job runs.
//!
//! Its tasks put the output of each batch into one queue, and the program takes all of the queue at once. The queue
//! has credit like an exchange: when more bytes are queued than the credit, the tasks stop reading input until the
//! program has taken them. So a slow reader blocks the job but no thread, and twice the credit may be in flight.
//!
//! On several hosts, all records go to one task, and from there to a task on each host, which has the queue of the
//! program that runs there. So all programs get the same records in the same order, and the job goes as fast as the
//! slowest of them reads.
//!
//! In a job with checkpoints, a barrier passes when the program asks for a record after the last one before the barrier: it has
//! processed all of these then, unless it does so elsewhere. So does the end. Records that were only in the queue, or had just been returned, would
//! be lost with the process.
//!
//! The receiver must distinguish a success of every task from tasks that are dropped before their end. The tasks and
//! their factory share one value, the sending side; when the last of them drops it, no more records can follow.

use crate::clock::{Clock, Nanos, nanos};
use crate::data::{Data, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Broadcast;
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, Waker};
use crate::metrics::{Awaits, Report};
use crate::plan::{Details, Origin, TieKind};
use crate::runtime::Threads;
use crate::stream::{Chain, Stream};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::Time;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl<C: Chain> Stream<C> {
    /// Sends the records to the program while the job runs, also those of an unbounded stream.
    ///
    /// If the records are needed only at the end, [`collect`](Self::collect) is simpler. Borrowed records are sent as
    /// owned ones (`str` as `String`). The records of one task stay in order.
    ///
    /// The program must read while the job runs, so [start](crate::Environment::start) the job rather than
    /// [run](crate::Environment::run) it. A job that is ahead of its reader by twice the
    /// [credit](crate::config::Config::credit) waits. If the reader is dropped, the part of the job that feeds only
    /// this sink ends. A thread that runs the job before it reads deadlocks once the job waits for it. That is not
    /// refused, since another thread may read; [`OperatorStats::awaits`](crate::metrics::OperatorStats::awaits) shows
    /// it, and a warning of the facade `log` (target `thalweg::stalls`) reports it once, after
    /// [`Config::stall_after`](crate::config::Config::stall_after); in application mode (module `cli`) it is on standard
    /// error too.
    /// The deterministic scheduler runs tasks only in [`wait`](crate::JobHandle::wait): read in another thread then.
    ///
    /// A lock is taken for each batch, on both sides, and none for a record.
    ///
    /// On several hosts, the program of each receives all records, in the same order on all hosts, and the job waits for
    /// the slowest of those that still read. The part of the job that feeds only this sink ends when the readers of all
    /// hosts are dropped.
    ///
    /// In a job with [checkpoints](crate::config::Config::checkpoints), the program receives each record at least once: after a failure, those since the last
    /// checkpoint again. A checkpoint waits until the program asks for the next record after all that come before the checkpoint, and
    /// the job does not end before it has asked for a record after the last one: read until there is none, or drop the reader.
    ///
    /// # Errors
    ///
    /// If the job does not run to its end, the reader receives an error after the last record: see [`Incoming`].
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let squares = env.iter(0u64..).map(|n| n * n).to_channel();
    /// let job = env.start()?;
    /// let first = squares.take(3).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(first, [0, 1, 4]);
    /// // The reader is gone by now, so the job ends.
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn to_channel(self) -> Incoming<<C::Item as Portable>::Owned>
    where
        C::Item: Portable,
    {
        let origin = Origin::here("to_channel");
        let Some(hosts) = self.env.hosts_if_several() else {
            return self.into_queue(origin, |push| push);
        };
        let one = self.gather(origin);
        let (edge, all) = one.env.to_each_host(hosts, one.stage, origin);
        one.builder().pass_sink_name(one.stage, all.stage);
        one.close(Origin { kind: "broadcast", ..origin }, Details::none(), move |cx, op| {
            let hosts = Broadcast::new(edge.lanes_from(cx.task, cx.op(op)));
            Ok(ToHosts { hosts, record: Vec::new(), types: PhantomData::<fn(&C::Item)> })
        });
        all.into_queue(origin, FromHosts)
    }

    /// Sends the records to the program of the host where they are. `wrap` makes records of what
    /// the stream carries.
    fn into_queue<O, N>(self, origin: Origin, wrap: fn(ChannelPush<C::Item, O>) -> N) -> Incoming<O>
    where
        O: Send + 'static,
        N: Push<C::Item, C::Time> + 'static,
    {
        let queue = Queue {
            records: VecDeque::new(),
            bytes: 0,
            added: 0,
            received: 0,
            unended: None,
            gone: false,
            unwanted: false,
            waiting: Vec::new(),
        };
        let credit = self.env.config().credit;
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new(), credit });
        let operator = origin.label();
        let receiver = Incoming {
            shared: Arc::clone(&shared),
            taken: VecDeque::new(),
            failed: false,
            operator,
            threads: self.env.threads(),
        };
        let sender = Arc::new(Sender { shared });
        let (env, stage) = (self.env.clone(), self.stage);
        self.close_in_sink(origin, Details::none(), move |cx, op| {
            let me = cx.links.hosts().me();
            let here = cx.hosts.iter().filter(|host| **host == me).count();
            lock(&sender.shared.queue).unended.get_or_insert(here);
            Ok(wrap(ChannelPush {
                op: cx.op(op),
                waker: cx.waker.clone(),
                waits: Waits { for_program: cx.has_checkpoints(), awaited: 0, ended: false },
                held: Vec::new(),
                held_bytes: 0,
                count: 0,
                sender: Arc::clone(&sender),
                types: PhantomData::<fn(&C::Item)>,
            }))
        });
        env.tie_last(stage, TieKind::Program);
        receiver
    }
}

/// The records of a running job, received by the program. See [`Stream::to_channel`].
///
/// Iterates over the records; if the job has failed, the last item is an error.
pub struct Incoming<T> {
    shared: Arc<Shared<T>>,
    /// Records taken from the queue and not returned yet.
    taken: VecDeque<T>,
    /// Whether the iterator has returned the error of a failed job.
    failed: bool,
    operator: String,
    /// The threads of the job's runtime, which must not block on the channel.
    threads: Threads,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    /// The queued bytes beyond which senders wait.
    credit: usize,
}

struct Queue<T> {
    records: VecDeque<T>,
    /// The size of the queued records in bytes.
    bytes: usize,
    /// How many records were put into the queue.
    added: u64,
    /// How many of them the program had received when it last asked for more.
    received: u64,
    /// The number of tasks that have not ended; `None` before they are made.
    unended: Option<usize>,
    /// Whether all senders were dropped.
    gone: bool,
    /// Whether the receiver was dropped.
    unwanted: bool,
    /// The tasks to wake when there is credit again.
    waiting: Vec<Waker>,
}

impl<T> Queue<T> {
    /// Whether a task must wait for the reader before it goes on.
    fn makes_wait(&self, task: &Waits, credit: usize) -> bool {
        // A task that has ended does not wait for credit: the queue outlives it.
        let lacks_credit = self.bytes > credit && !task.ended;
        !self.unwanted && (lacks_credit || self.received < task.awaited)
    }
}

/// What a task waits for.
struct Waits {
    /// Whether barriers and the end wait for the program.
    for_program: bool,
    /// The number of records that the program must have received.
    awaited: u64,
    ended: bool,
}

/// The sending side. Dropped by the last task, or with the job's description if the job never ran.
struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        lock(&self.shared.queue).gone = true;
        self.shared.changed.notify_all();
    }
}

impl<T> Drop for Incoming<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.unwanted = true;
        queue.bytes = 0;
        let unread = std::mem::take(&mut queue.records);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        // First, since a record's destructor may run any code.
        waiting.iter().for_each(Waker::wake);
        drop(unread);
    }
}

impl<T> Incoming<T> {
    /// Waits for the next record; returns `None` when the stream has ended.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) if the job failed, was cancelled or was never started;
    /// [`JobHandle::wait`](crate::JobHandle::wait) returns the cause. [`Plan`](ErrorKind::Plan) if a closure of a job
    /// on the same threads would have to wait.
    pub fn recv(&mut self) -> Result<Option<T>> {
        self.next_until(None)
    }

    /// Waits for the next record at most for this duration. Returns `None` if the duration has passed or the stream
    /// has ended; [`is_over`](Self::is_over) distinguishes them.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (sender, stream) = env.channel::<u32>(1);
    /// let mut numbers = stream.to_channel();
    /// let job = env.start()?;
    /// assert_eq!(numbers.recv_timeout(Duration::from_millis(1))?, None);
    /// assert!(!numbers.is_over());
    /// drop(sender);
    /// assert_eq!(numbers.recv()?, None);
    /// assert!(numbers.is_over());
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<T>> {
        if let Some(record) = self.taken.pop_front() {
            return Ok(Some(record));
        }
        let clock = Clock::system();
        let until = clock.now().saturating_add(nanos(timeout));
        self.next_until(Some((clock, until)))
    }

    /// Whether no record is left and none will follow.
    pub fn is_over(&self) -> bool {
        let queue = lock(&self.shared.queue);
        self.taken.is_empty()
            && queue.records.is_empty()
            && (queue.unended == Some(0) || queue.gone)
    }

    fn next_until(&mut self, limit: Option<(Clock, Nanos)>) -> Result<Option<T>> {
        if let Some(record) = self.taken.pop_front() {
            return Ok(Some(record));
        }
        let mut queue = lock(&self.shared.queue);
        queue.received = queue.added - queue.records.len() as u64;
        queue.waiting.drain(..).for_each(|task| task.wake());
        while queue.records.is_empty() {
            if queue.unended == Some(0) {
                return Ok(None);
            }
            if queue.gone {
                let what = "there are no more records: the job has not run to its end";
                let error = Error::new(ErrorKind::NotProduced, what);
                return Err(error.in_operator(self.operator.clone()));
            }
            if let Err(error) = self.threads.may_wait() {
                return Err(error.in_operator(self.operator.clone()));
            }
            let changed = &self.shared.changed;
            queue = match &limit {
                None => changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some((clock, until)) => {
                    let left = until.saturating_sub(clock.now());
                    if left == 0 {
                        return Ok(None);
                    }
                    let waited = changed.wait_timeout(queue, Duration::from_nanos(left));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        std::mem::swap(&mut queue.records, &mut self.taken);
        queue.bytes = 0;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        waiting.iter().for_each(Waker::wake);
        Ok(self.taken.pop_front())
    }
}

impl<T> Iterator for Incoming<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.failed {
            return None;
        }
        let next = self.recv();
        self.failed = next.is_err();
        next.transpose()
    }
}

impl<T> fmt::Debug for Incoming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = self.is_over();
        f.debug_struct("Incoming").field("operator", &self.operator).field("over", &over).finish()
    }
}

struct ChannelPush<I: ?Sized, O> {
    op: Op,
    waker: Waker,
    /// The output of the current batch.
    held: Vec<O>,
    held_bytes: usize,
    count: u64,
    waits: Waits,
    sender: Arc<Sender<O>>,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, O> ChannelPush<I, O> {
    /// Adds the held records to the queue, whatever its size; the credit is exceeded by at most one batch.
    fn hand_over(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let shared = &self.sender.shared;
        let mut queue = lock(&shared.queue);
        if queue.unwanted {
            drop(queue);
            self.held.clear();
            self.held_bytes = 0;
            return;
        }
        queue.bytes += std::mem::take(&mut self.held_bytes);
        queue.added += self.held.len() as u64;
        queue.records.extend(self.held.drain(..));
        drop(queue);
        shared.changed.notify_one();
    }
}

impl<I: ?Sized, O: Data> ChannelPush<I, O> {
    #[inline(always)]
    fn hold(&mut self, record: O) {
        self.count += 1;
        self.held_bytes += size_of::<O>() + record.heap_size();
        self.held.push(record);
    }
}

impl<I: ?Sized, O: Send> Pipe for ChannelPush<I, O> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.hand_over();
        if self.waits.for_program && matches!(event, Event::Barrier(_) | Event::End) {
            self.waits.awaited = lock(&self.sender.shared.queue).added;
        }
        if event == Event::End && !self.waits.ended {
            self.waits.ended = true;
            if let Some(unended) = &mut lock(&self.sender.shared.queue).unended {
                *unended -= 1;
            }
            self.sender.shared.changed.notify_all();
        }
    }

    fn resume(&mut self) -> Flow {
        self.hand_over();
        let shared = &self.sender.shared;
        let mut queue = lock(&shared.queue);
        if !queue.makes_wait(&self.waits, shared.credit) {
            return Flow::Ready;
        }
        queue.waiting.push(self.waker.clone());
        Flow::Blocked
    }

    fn is_full(&mut self) -> bool {
        self.held.len() >= CHUNK
    }

    fn is_closed(&mut self) -> bool {
        lock(&self.sender.shared.queue).unwanted
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.count);
        let queue = lock(&self.sender.shared.queue);
        let waits = queue.makes_wait(&self.waits, self.sender.shared.credit);
        report.awaits(self.op.id(), waits.then_some(Awaits::Reader));
    }
}

impl<I, T> Push<I, T> for ChannelPush<I, I::Owned>
where
    I: Portable + ?Sized,
    T: Time,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.hold(I::to_owned(item));
    }
}

/// Sends each record, encoded, to a task on each host.
struct ToHosts<I: ?Sized, T: Time> {
    hosts: Broadcast<[u8], T>,
    /// One record.
    record: Vec<u8>,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, T: Time> Pipe for ToHosts<I, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.hosts)
    }
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for ToHosts<I, T> {
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.record.clear();
        I::to_owned(item).encode(&mut self.record);
        self.hosts.push(&self.record, time);
    }
}

/// Decodes the records that are sent to each host.
struct FromHosts<O>(ChannelPush<[u8], O>);

impl<O: Data> Pipe for FromHosts<O> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<O: Data, T: Time> Push<[u8], T> for FromHosts<O> {
    fn push(&mut self, mut bytes: &[u8], _: T) {
        match O::decode(&mut bytes) {
            Ok(record) => self.0.hold(record),
            Err(error) => {
                let what = format!("a record cannot be decoded as it was encoded: {error}");
                self.0.op.fail(Error::new(ErrorKind::Internal, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::every;
    use crate::config::{Config, Scheduler};
    use crate::sync::{AtomicU64, Ordering};

    #[test]
    fn every_record_arrives_while_the_job_runs() {
        every(|env| {
            let mut receiver = env.range(0..5000).map(|n| n.to_string()).to_channel();
            let reader = std::thread::spawn(move || {
                let mut sum = 0;
                while let Some(text) = receiver.recv()? {
                    sum += text.parse::<u64>().unwrap();
                }
                Ok::<_, Error>(sum)
            });
            env.run()?;
            assert_eq!(reader.join().unwrap()?, 4999 * 5000 / 2);
            Ok(())
        });
    }

    #[test]
    fn the_least_credit_is_enough() -> Result<()> {
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            for credit in [1, 1000, 1 << 30] {
                let env =
                    Environment::with_config(Config { scheduler, credit, ..Config::default() });
                let incoming = env.range(0..50_000).to_channel();
                let job = env.start()?;
                let mut all = incoming.collect::<Result<Vec<_>>>()?;
                job.wait()?;
                all.sort_unstable();
                assert!(all.into_iter().eq(0..50_000), "{scheduler:?}, credit {credit}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_time_limit_is_not_the_end() -> Result<()> {
        let env = Environment::new();
        let (sender, stream) = env.channel(1);
        let mut incoming = stream.to_channel();
        let job = env.start()?;
        assert_eq!(incoming.recv_timeout(Duration::from_millis(1))?, None);
        assert!(!incoming.is_over());
        sender.send('x').unwrap();
        assert_eq!(incoming.recv_timeout(Duration::from_secs(10))?, Some('x'));
        drop(sender);
        assert_eq!(incoming.recv()?, None);
        assert!(incoming.is_over());
        assert!(incoming.next().is_none());
        job.wait()?;
        Ok(())
    }

    #[test]
    fn a_job_whose_reader_sleeps_waits() -> Result<()> {
        let env = Environment::with_config(Config { credit: 800, ..Config::default() });
        let made = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&made);
        let receiver = env
            .iter(0..1_000_000_u64)
            .inspect(move |_| _ = counter.fetch_add(1, Ordering::Relaxed))
            .to_channel();
        let job = env.start()?;
        let mut last = u64::MAX;
        // The job comes to a standstill long before its end.
        loop {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = made.load(Ordering::Relaxed);
            if now == last {
                break;
            }
            last = now;
        }
        assert!((1..100_000).contains(&last), "{last}");
        assert!(!job.is_over());
        assert!(receiver.map(Result::unwrap).eq(0..1_000_000));
        job.wait()?;
        Ok(())
    }

    #[test]
    fn a_dropped_reader_ends_the_job() -> Result<()> {
        let env = Environment::new();
        let mut receiver = env.iter(0_u64..).shuffle().to_channel();
        let job = env.start()?;
        assert!(receiver.recv()?.is_some());
        drop(receiver);
        job.wait()?;
        Ok(())
    }

    #[test]
    fn a_job_that_did_not_end_well_is_an_error() -> Result<()> {
        let env = Environment::new();
        let failing = env.iter(0..10_u64).map(|n| 10 / (5 - n)).to_channel();
        let job = env.start()?;
        let results: Vec<_> = failing.collect();
        let error = results.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotProduced);
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
        assert!(error.operator().unwrap_or_default().starts_with("to_channel ("), "{error}");
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Panic);

        let env = Environment::new();
        let mut never = env.iter(0..3).to_channel();
        drop(env);
        assert_eq!(never.recv().unwrap_err().kind(), ErrorKind::NotProduced);
        Ok(())
    }
}
