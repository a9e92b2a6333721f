//! A sink that hands the records to the program while the job runs.
//!
//! Its tasks put what each batch made of into one queue, and the program takes from it. The queue
//! has credit like any exchange: when more bytes are queued than it allows, the tasks stop taking
//! input, and are woken when the program has taken half of them. So a program that does not read
//! holds up the job and no thread.
//!
//! Two ends must be told apart: every task has ended well, or the tasks are gone without. The
//! sending side is one value that the tasks and what makes them share: when the last of them drops
//! it, nothing more can come.

use crate::data::{Data, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, Waker};
use crate::metrics::Report;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::Time;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};

impl<C: Chain> Stream<C> {
    /// Hands the records to the program while the job runs: also those of a stream without an end.
    ///
    /// The program must read while the job runs, so [start](crate::Environment::start) the job
    /// rather than [run](crate::Environment::run) it: a job that is well ahead of its reader waits,
    /// and one whose reader has been dropped ends its sources. The deterministic scheduler runs
    /// tasks only in [`wait`](crate::JobHandle::wait): read in another thread then.
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
        let queue = Queue {
            records: VecDeque::new(),
            bytes: 0,
            unended: self.tasks(),
            gone: false,
            unwanted: false,
            waiting: Vec::new(),
        };
        let credit = self.env.config().credit;
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new(), credit });
        let operator = format!("{} ({}:{})", origin.kind, origin.place.file(), origin.place.line());
        let receiver = Incoming { shared: Arc::clone(&shared), operator };
        let sender = Arc::new(Sender { shared });
        self.close(origin, String::new(), move |cx, op| {
            Ok(ChannelPush {
                op: cx.op(op),
                waker: cx.waker.clone(),
                held: Vec::new(),
                count: 0,
                ended: false,
                sender: Arc::clone(&sender),
                types: PhantomData::<fn(&C::Item)>,
            })
        });
        receiver
    }
}

/// The records of a running job, in the program. See [`Stream::to_channel`].
///
/// Iterates over the records; an error is the last item of a job that has failed.
pub struct Incoming<T> {
    shared: Arc<Shared<T>>,
    operator: String,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    /// The bytes queued beyond which senders wait.
    credit: usize,
}

struct Queue<T> {
    /// Each with its bytes.
    records: VecDeque<(T, usize)>,
    bytes: usize,
    /// Tasks that have not come to their end.
    unended: usize,
    /// Nobody is left who could send.
    gone: bool,
    /// The receiver was dropped.
    unwanted: bool,
    /// Tasks to wake when there is credit again.
    waiting: Vec<Waker>,
}

/// The sending side. Dropped by the last task, or with the job's description if it never ran.
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
        drop(unread);
        waiting.iter().for_each(Waker::wake);
    }
}

impl<T> Incoming<T> {
    /// Waits for the next record; `None` when the stream has ended.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) when the job failed, was cancelled or was never
    /// started; [`JobHandle::wait`](crate::JobHandle::wait) says why.
    pub fn recv(&mut self) -> Result<Option<T>> {
        let mut queue = lock(&self.shared.queue);
        loop {
            if let Some((record, bytes)) = queue.records.pop_front() {
                queue.bytes -= bytes;
                if !queue.waiting.is_empty() && queue.bytes <= self.shared.credit / 2 {
                    let waiting = std::mem::take(&mut queue.waiting);
                    drop(queue);
                    waiting.iter().for_each(Waker::wake);
                }
                return Ok(Some(record));
            }
            if queue.unended == 0 {
                return Ok(None);
            }
            if queue.gone {
                let what = "there are no more records: the job has not run to its end";
                let error = Error::new(ErrorKind::NotProduced, what);
                return Err(error.in_operator(self.operator.clone()));
            }
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Iterator for Incoming<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let next = self.recv();
        if next.is_err() {
            // Said once: the iteration ends after it.
            lock(&self.shared.queue).unended = 0;
        }
        next.transpose()
    }
}

struct ChannelPush<I: ?Sized, O> {
    op: Op,
    waker: Waker,
    /// What the current batch has made, with its bytes.
    held: Vec<(O, usize)>,
    count: u64,
    ended: bool,
    sender: Arc<Sender<O>>,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, O> ChannelPush<I, O> {
    /// Puts what is held into the queue, which takes it whatever it holds already; what exceeds the
    /// credit is bounded by one batch.
    fn hand_over(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let shared = &self.sender.shared;
        let mut queue = lock(&shared.queue);
        if queue.unwanted {
            drop(queue);
            self.held.clear();
            return;
        }
        queue.bytes += self.held.iter().map(|(_, bytes)| bytes).sum::<usize>();
        queue.records.extend(self.held.drain(..));
        drop(queue);
        shared.changed.notify_one();
    }
}

impl<I: ?Sized, O: Send> Pipe for ChannelPush<I, O> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.hand_over();
        if event == Event::End && !self.ended {
            self.ended = true;
            lock(&self.sender.shared.queue).unended -= 1;
            self.sender.shared.changed.notify_all();
        }
    }

    fn resume(&mut self) -> Flow {
        self.hand_over();
        let shared = &self.sender.shared;
        let mut queue = lock(&shared.queue);
        // A task that has ended waits for nobody: what is queued outlives it.
        if queue.bytes <= shared.credit || queue.unwanted || self.ended {
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
    }
}

impl<I, T> Push<I, T> for ChannelPush<I, I::Owned>
where
    I: Portable + ?Sized,
    T: Time,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        let record = I::to_owned(item);
        let bytes = size_of::<I::Owned>() + record.heap_size();
        self.count += 1;
        self.held.push((record, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::every;
    use crate::config::Config;
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
        // Comes to a standstill, far from the end.
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
        assert!(error.operator().unwrap_or_default().starts_with("to_channel ("), "{error}");
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Panic);

        let env = Environment::new();
        let mut never = env.iter(0..3).to_channel();
        drop(env);
        assert_eq!(never.recv().unwrap_err().kind(), ErrorKind::NotProduced);
        Ok(())
    }
}
