//! Operators that call external systems: services, databases, other programs.
//!
//! No task blocks on a call. [`map_async`](crate::Stream::map_async) polls futures when they have been woken,
//! and [`map_blocking`](crate::Stream::map_blocking) has threads of its own. [`Calls`] configures how many
//! calls run at once, the order of results, timeouts and retries.

mod bank;
mod failed;
mod map_async;
mod map_blocking;
mod order;
mod permits;
pub(crate) mod polled;
mod running;
mod saved;
mod side_output;
mod threads;

pub use failed::FailedCall;

use crate::data::{ByValue, Data};
use crate::error::{Error, ErrorKind};
use crate::operators::side_outlet::MaybeSideOutput;
use crate::plan::{Details, Origin, TieKind};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use permits::Permits;
use polled::Around;
use running::{Calling, Make, Rules};
use saved::Keep;
use side_output::OnFailure;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of an operator that makes calls: how many at once, their order, timeout and retries.
///
/// For [`map_async`](Stream::map_async), [`map_blocking`](Stream::map_blocking) and their variants. By default,
/// results keep the order of their records, there is no timeout, and a call that fails is not retried.
///
/// ```
/// use std::time::Duration;
/// use thalweg::operators::calls::Calls;
///
/// let calls = Calls::in_flight(64)
///     .unordered()
///     .timeout(Duration::from_secs(2))
///     .retry(3, Duration::from_millis(100));
/// assert_eq!(
///     format!("{calls:?}"),
///     "at most 64 at once, unordered, each for 2s at most, up to 3 attempts, 100ms and longer between them"
/// );
/// ```
#[derive(Clone)]
#[must_use = "it says how calls are made, and makes none"]
pub struct Calls<A = Once> {
    rules: Rules,
    around: Option<Around>,
    attempts: PhantomData<fn() -> A>,
}

/// A call is tried once: its record is moved into the call, and not cloned.
#[derive(Clone, Copy, Debug)]
pub struct Once;

/// A call may be retried: its record is cloned for each attempt. See [`Calls::retry`].
#[derive(Clone, Copy, Debug)]
pub struct Again;

/// The records of calls in flight are saved in checkpoints, and calls may be retried. See [`Calls::saved`].
#[derive(Clone, Copy, Debug)]
pub struct Saved;

/// How often calls for records of `D` may be tried: [`Once`] or [`Again`], also after a failure of the job if [`Saved`].
#[diagnostic::on_unimplemented(
    message = "calls for records of `{D}` cannot be tried again",
    label = "each attempt needs a copy of the record",
    note = "records must be `Clone` where `Calls::retry` is used: derive it, or wrap them in an `Arc`",
    note = "where `Calls::saved` is used they must be `Data` too: add `#[derive(thalweg::Data)]`"
)]
pub trait Attempts<D> {
    /// How records are kept for further attempts, if there may be any.
    #[doc(hidden)]
    fn keep<T: Time>() -> Keep<D, T>;
}

impl<D> Attempts<D> for Once {
    fn keep<T: Time>() -> Keep<D, T> {
        Keep::none()
    }
}

// The error message is about its bound.
#[diagnostic::do_not_recommend]
impl<D: Clone> Attempts<D> for Again {
    fn keep<T: Time>() -> Keep<D, T> {
        Keep::clones()
    }
}

#[diagnostic::do_not_recommend]
impl<D: Data + Clone> Attempts<D> for Saved {
    fn keep<T: Time>() -> Keep<D, T> {
        Keep::saved()
    }
}

/// What [`Calls::retry`] makes of calls: calls that are [`Saved`] remain so.
pub trait Retries {
    /// Calls that may be tried again.
    type Retried;
}

impl Retries for Once {
    type Retried = Again;
}

impl Retries for Again {
    type Retried = Self;
}

impl Retries for Saved {
    type Retried = Self;
}

impl Calls<Once> {
    /// Allows at most `calls` calls at once: of the operator, over all of its tasks, on all hosts.
    ///
    /// Every task whose records wait gets its share, however busy others are. Hosts borrow from the first as many as
    /// they need, and wait for a message and its answer where they have not enough. For futures, this bounds the load
    /// on the service, and the cost is the memory of as many futures; a few hundred are cheap. For blocking
    /// calls it is the number of threads. A task also holds no more results than this that wait for something
    /// before them. 0 is refused at the job's start.
    pub fn in_flight(calls: usize) -> Self {
        let rules = Rules {
            most: calls,
            ordered: true,
            timeout: None,
            attempts: 1,
            backoff: Duration::ZERO,
        };
        Self { rules, around: None, attempts: PhantomData }
    }
}

impl<A> Calls<A> {
    /// Emits results in the order of their records. This is the default.
    ///
    /// A slow call delays the results of those behind it, and when as many wait as may be in flight, it also
    /// blocks the input.
    pub fn ordered(mut self) -> Self {
        self.rules.ordered = true;
        self
    }

    /// Emits results as soon as they are available, in any order.
    ///
    /// Faster where some calls take much longer than others. In event time, this makes no record late: a
    /// watermark still waits for all records that came before it. Where the results get their event time in the same stage, by
    /// [`assign_timestamps`](crate::Stream::assign_timestamps), they keep their order all the same, as each partition of the input
    /// has its own.
    pub fn unordered(mut self) -> Self {
        self.rules.ordered = false;
        self
    }

    /// Sets a timeout: a call that takes longer has failed. A timeout of zero is refused at the job's start.
    ///
    /// The timeout holds for each attempt, from when it starts. A future is then dropped, which ends it. A
    /// blocking call cannot be stopped: its result is dropped when it returns, and until then it occupies its
    /// thread, for ever if it never returns.
    ///
    /// Time is that of the engine's clock, which is simulated under the deterministic scheduler: there it
    /// advances when no task can run, even if a future waits for something external, so such futures time out
    /// at once. Blocking calls take no time there.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.rules.timeout = Some(timeout);
        self
    }

    /// Retries a call that fails, up to `attempts` attempts in all. The second attempt is delayed by `backoff`,
    /// and the delay doubles for each further one.
    ///
    /// A failure is an error where the closure may return one ([`try_map_async`](Stream::try_map_async)), or a
    /// call that exceeds the [`timeout`](Self::timeout). A panic stops the job. A call that waits for its next
    /// attempt is not in flight, but keeps its position in the order. Each attempt clones the record. 0
    /// attempts are refused at the job's start.
    pub fn retry(self, attempts: u32, backoff: Duration) -> Calls<A::Retried>
    where
        A: Retries,
    {
        let rules = Rules { attempts, backoff, ..self.rules };
        Calls { rules, around: self.around, attempts: PhantomData }
    }

    /// Saves the records of calls in flight in [checkpoints](crate::config::Config::checkpoints), so that these need not wait for the
    /// calls.
    ///
    /// Otherwise the barrier of a checkpoint waits until all calls before it have ended, with all of their attempts, and no input is
    /// read meanwhile. With `saved`, it passes them. Calls whose results had not been emitted at the barrier are made
    /// again, before any others, when the job goes on from the checkpoint; their attempts are counted anew. The variants with a side output always
    /// do so, since they need nothing more of their records.
    ///
    /// Records must be [`Data`] and `Clone`. In a job with checkpoints each is cloned for its call and kept until
    /// the result has been emitted, and encoded at barriers only; a job without checkpoints does neither. While a checkpoint is being taken, the records in front of
    /// its barrier are accepted although as many calls are in flight as may be: up to 32 MiB in each task, within the memory budget. With more,
    /// the barrier waits until calls have ended.
    ///
    /// Results that keep their order can be restored with as many tasks only, if calls were in flight;
    /// [`unordered`](Self::unordered) ones with any number. When a job is [suspended](crate::JobHandle::suspend), its last checkpoint does wait
    /// for all calls, so that none is made twice, and can be restored with any number of tasks. Barriers also wait where records get their timestamps
    /// ([`assign_timestamps`](Stream::assign_timestamps)) behind the calls, in the same stage: assign them before.
    ///
    /// The idea is that of Flink's asynchronous I/O.
    ///
    /// ```
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let env = Environment::new();
    /// let calls = Calls::in_flight(4).unordered().saved();
    /// let out = env.range(0..9).map_async(calls, async |n| n * n).sum(|n| *n).collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(204));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn saved(self) -> Calls<Saved> {
        Calls { rules: self.rules, around: self.around, attempts: PhantomData }
    }

    /// Runs the polling of futures within the closure, which must call its argument, once.
    ///
    /// For futures that depend on their thread's context: those of tokio's timers and sockets must be polled
    /// within its runtime, which then drives them on its own threads:
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    /// let handle = tokio.handle().clone();
    /// let calls = Calls::in_flight(100).around(move |poll| {
    ///     let _within = handle.enter();
    ///     poll();
    /// });
    ///
    /// let env = Environment::new();
    /// let rested = env.iter(0..200u64).map_async(calls, async |n| {
    ///     tokio::time::sleep(Duration::from_millis(n % 5)).await;
    ///     n
    /// });
    /// let out = rested.collect::<Vec<_>>();
    /// env.run()?;
    /// assert!(out.take()?.into_iter().eq(0..200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Futures may also be spawned on the runtime, and their join handles awaited here; that does not need
    /// `around`, and does the work on the runtime's threads too.
    ///
    /// Costs a dynamic call each time that futures have been woken. Blocking calls are not polled, and are
    /// refused with `around` at the job's start.
    pub fn around<W>(mut self, around: W) -> Self
    where
        W: Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    {
        self.around = Some(Arc::new(around));
        self
    }

    /// What is wrong with the configuration, if anything.
    fn fault(&self) -> Option<&'static str> {
        match &self.rules {
            Rules { most: 0, .. } => Some("at most 0 calls in flight are none at all"),
            Rules { attempts: 0, .. } => Some("0 attempts are none at all"),
            Rules { timeout: Some(Duration::ZERO), .. } => {
                Some("a call that may take no time always takes too long")
            }
            _ => None,
        }
    }
}

impl Rules {
    fn details(&self) -> Details {
        let Self { most, ordered, timeout, attempts, backoff } = *self;
        let details = Details::of("in_flight", most)
            .with("results", if ordered { "ordered" } else { "unordered" })
            .with_some("timeout", timeout);
        if attempts > 1 {
            details.with("attempts", u64::from(attempts)).with("backoff", backoff)
        } else {
            details
        }
    }
}

/// The configuration in words.
impl<A> fmt::Debug for Calls<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { most, ordered, timeout, attempts, backoff } = &self.rules;
        write!(f, "at most {most} at once, {}", if *ordered { "ordered" } else { "unordered" })?;
        if let Some(timeout) = timeout {
            write!(f, ", each for {timeout:?} at most")?;
        }
        if *attempts > 1 {
            write!(f, ", up to {attempts} attempts, {backoff:?} and longer between them")?;
        }
        Ok(())
    }
}

/// Adds an operator that makes calls.
fn calling<C, D, A, M, L>(
    stream: Stream<C>,
    origin: Origin,
    calls: Calls<A>,
    keep: Keep<D, C::Time>,
    make: M,
    failed: L,
) -> Stream<Calling<C, D, M, L>>
where
    C: Chain<Item = D>,
    D: ByValue + Send,
    M: Make<D>,
    L: MaybeSideOutput<FailedCall<D>, C::Time, Outlet: OnFailure<D>>,
{
    let (details, fault) = (calls.rules.details(), calls.fault());
    let Calls { rules, .. } = calls;
    let permits = Permits::new(rules.most);
    let called = stream.then_described(origin, details, |prev, op| Calling {
        prev,
        op,
        rules,
        permits,
        keep,
        make,
        failed,
    });
    let called = called.tied(TieKind::Permits);
    if let Some(fault) = fault {
        called.refuse(Error::new(ErrorKind::Plan, fault));
    }
    called
}

#[cfg(test)]
mod tests;
