//! A sink that other threads take from.

use crate::data::Portable;
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, Waker};
use crate::metrics::Report;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::Time;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl<C: Chain> Stream<C>
where
    C::Item: Portable,
{
    /// Hands the records to another thread while the job runs.
    ///
    /// The way out for results that are wanted as they come, of bounded and unbounded jobs alike;
    /// where they are wanted at the end, [`collect`](Self::collect) is simpler. Borrowed records
    /// are handed over as owned ones (`str` as `String`). The records of one task stay in order.
    ///
    /// A job that is ahead of the receiver waits once about `capacity` records do (each task may
    /// add one batch to that), without holding up any of the engine's threads. When the receiver
    /// is dropped, the job takes it as "enough": what feeds only this sink ends.
    ///
    /// Start the job by [`start`](crate::Environment::start): a thread that is inside `run` cannot
    /// receive, and the job would wait for it. The records are handed over before it is known whether the job ends well:
    /// [`JobHandle::wait`](crate::JobHandle::wait) tells. Under the deterministic scheduler, where
    /// jobs run on the thread that waits for them, receive on another thread.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let squares = env.iter(1..=3).map(|n| n * n).receiver(100);
    /// let job = env.start()?;
    /// assert_eq!(squares.collect::<Vec<_>>(), [1, 4, 9]);
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn receiver(self, capacity: usize) -> Receiver<<C::Item as Portable>::Owned> {
        let capacity = capacity.max(1);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                // One stands for the job until its tasks are made.
                tasks: 1,
                closed: false,
                blocked: Vec::new(),
            }),
            added: Condvar::new(),
            capacity,
        });
        let receiver = Receiver { shared: Arc::clone(&shared), batch: VecDeque::new() };
        let making = Sending { shared };
        self.close(Origin::here("receiver"), format!("capacity {capacity}"), move |cx, op| {
            Ok(ReceiverPush {
                op: cx.op(op),
                sending: making.clone(),
                waker: cx.waker.clone(),
                batch: Vec::new(),
                count: 0,
                types: PhantomData::<fn(&C::Item)>,
            })
        });
        receiver
    }
}

/// Takes the records of a stream while its job runs.
///
/// Made by [`Stream::receiver`]. Iterating over it waits for each record and ends with the job.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Taken from the tasks, not handed out yet.
    batch: VecDeque<T>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Told when records were added, and when a task has gone.
    added: Condvar,
    capacity: usize,
}

struct State<T> {
    queue: VecDeque<T>,
    /// Those who may still add something.
    tasks: usize,
    /// The receiver has gone.
    closed: bool,
    /// Tasks that wait for room.
    blocked: Vec<Waker>,
}

impl<T> Receiver<T> {
    /// The next record; waits for it. `None` when the job has ended, well or not, or was dropped
    /// before it started.
    pub fn recv(&mut self) -> Option<T> {
        self.next_within(None)
    }

    /// The next record, waiting for it no longer than this. `None` when there was none, be it that
    /// the time was up or that the job has ended; [`is_over`](Self::is_over) tells which.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Option<T> {
        self.next_within(Some(timeout))
    }

    /// Whether no record is left and none will come.
    pub fn is_over(&self) -> bool {
        let state = lock(&self.shared.state);
        self.batch.is_empty() && state.queue.is_empty() && state.tasks == 0
    }

    fn next_within(&mut self, timeout: Option<Duration>) -> Option<T> {
        if let Some(record) = self.batch.pop_front() {
            return Some(record);
        }
        let mut state = lock(&self.shared.state);
        let added = &self.shared.added;
        while state.queue.is_empty() && state.tasks > 0 {
            match timeout {
                None => state = added.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let waited = added.wait_timeout(state, timeout);
                    let (now, over) = waited.unwrap_or_else(PoisonError::into_inner);
                    state = now;
                    if over.timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::swap(&mut state.queue, &mut self.batch);
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        blocked.iter().for_each(Waker::wake);
        self.batch.pop_front()
    }
}

/// Waits for each record; ends with the job.
impl<T> Iterator for Receiver<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.recv()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        let unread = std::mem::take(&mut state.queue);
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        blocked.iter().for_each(Waker::wake);
        drop(unread);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

/// Counts those who may still add records, so that the receiver learns of the last one's end
/// however it comes about.
struct Sending<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Sending<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).tasks += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sending<T> {
    fn drop(&mut self) {
        lock(&self.shared.state).tasks -= 1;
        self.shared.added.notify_all();
    }
}

struct ReceiverPush<I: ?Sized, O> {
    op: Op,
    sending: Sending<O>,
    waker: Waker,
    /// Pushed, not handed over yet.
    batch: Vec<O>,
    count: u64,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, O: Send> Pipe for ReceiverPush<I, O> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, _: Event) {
        // Nothing is left to be handed over, since `resume` has just said so; that the task has
        // ended is known when it is dropped.
    }

    fn resume(&mut self) -> Flow {
        if self.batch.is_empty() {
            return Flow::Ready;
        }
        let shared = &self.sending.shared;
        let mut state = lock(&shared.state);
        if state.closed {
            drop(state);
            self.batch.clear();
            return Flow::Ready;
        }
        if state.queue.len() >= shared.capacity {
            state.blocked.push(self.waker.clone());
            return Flow::Blocked;
        }
        state.queue.extend(self.batch.drain(..));
        drop(state);
        shared.added.notify_all();
        Flow::Ready
    }

    fn is_full(&mut self) -> bool {
        self.batch.len() >= CHUNK
    }

    fn is_closed(&mut self) -> bool {
        lock(&self.sending.shared.state).closed
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.count);
    }
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for ReceiverPush<I, I::Owned>
where
    I::Owned: Send,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.count += 1;
        self.batch.push(I::to_owned(item));
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::config::{Config, Scheduler};
    use std::time::Duration;

    #[test]
    fn every_record_comes_through_whatever_the_capacity() {
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            for capacity in [0, 1, 100, 1_000_000] {
                let config = Config { scheduler, ..Config::default() };
                let env = Environment::with_config(config);
                let receiver = env.range(0..50_000).receiver(capacity);
                let job = env.start().unwrap();
                let mut all: Vec<u64> = receiver.collect();
                job.wait().unwrap();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..50_000), "{scheduler:?}, capacity {capacity}");
            }
        }
    }

    #[test]
    fn the_deterministic_scheduler_is_received_from_on_another_thread() {
        let config =
            Config { scheduler: Scheduler::Deterministic { seed: 5 }, ..Config::default() };
        let env = Environment::with_config(config);
        let receiver = env.iter(0..10_000).receiver(3);
        let job = env.start().unwrap();
        let reader = std::thread::spawn(move || receiver.count());
        job.wait().unwrap();
        assert_eq!(reader.join().unwrap(), 10_000);
    }

    #[test]
    fn a_receiver_that_is_dropped_ends_what_feeds_it() {
        let env = Environment::new();
        let mut receiver = env.iter(0u64..).receiver(10);
        let job = env.start().unwrap();
        assert_eq!(receiver.recv(), Some(0));
        drop(receiver);
        job.wait().unwrap();
    }

    #[test]
    fn a_failed_job_ends_the_receiver() {
        let env = Environment::new();
        let receiver = env.iter(0..10).map(|n| if n == 5 { panic!("no") } else { n }).receiver(1);
        let job = env.start().unwrap();
        assert!(receiver.count() < 10);
        assert_eq!(job.wait().unwrap_err().kind(), crate::ErrorKind::Panic);

        // Also one that never started.
        let env = Environment::new();
        let mut receiver = env.iter(0..10).receiver(1);
        drop(env);
        assert_eq!(receiver.recv(), None);
    }

    #[test]
    fn a_timeout_is_not_the_end() {
        let env = Environment::new();
        let (sender, stream) = env.channel(1);
        let mut receiver = stream.receiver(1);
        let job = env.start().unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), None);
        assert!(!receiver.is_over());
        sender.send('x').unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Some('x'));
        drop(sender);
        assert_eq!(receiver.recv(), None);
        assert!(receiver.is_over());
        job.wait().unwrap();
    }
}
