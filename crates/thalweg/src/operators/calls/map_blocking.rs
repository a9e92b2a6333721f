//! The `map_blocking` operators: one output record for each input record, made by a call that blocks its
//! thread.

use super::saved::Keep;
use super::side_output::{Failures, OnFailure, begin_failures};
use super::threads::Threads;
use super::{Attempts, Calling, Calls, FailedCall, calling};
use crate::data::{ByValue, Data};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::side_outlet::{MaybeSideOutput, NoSideOutput};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use std::convert::Infallible;
use std::fmt::Display;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record by a closure that may block its thread, such as a blocking client
    /// library, file access, or another process.
    ///
    /// The closure runs on threads of the operator's own, as many as [`Calls::in_flight`] allows, so that no
    /// task of the job blocks. They are started on demand, and end with the operator. For asynchronous calls
    /// see [`map_async`](Self::map_async), which serves far more calls at once; for closures that compute and
    /// never wait, [`map`](Self::map) after a [`shuffle`](Self::shuffle). Where a call may return an error, see
    /// [`try_map_blocking`](Self::try_map_blocking).
    ///
    /// Order, time, barriers and back-pressure are as in [`map_async`](Self::map_async), and so is what checkpoints do: a call is made
    /// at least once, and [`Calls::saved`] lets them pass while it runs. A call that has begun
    /// cannot be stopped: a job that is cancelled ends without waiting for it, and its thread ends when the
    /// call returns. Under the deterministic scheduler there are no threads: calls are made one after the
    /// other, in the task of the record.
    ///
    /// A call costs two hand-overs between threads and an allocation, a few microseconds. Memory: a thread for
    /// each call in flight, as many results, and a batch or two of records that wait.
    ///
    /// # Errors
    ///
    /// As for [`map_async`](Self::map_async). A thread that cannot be started stops the job.
    ///
    /// ```
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let folder = std::env::temp_dir();
    /// let env = Environment::new();
    /// let exists = env
    ///     .iter([folder.clone(), folder.join("no such file")])
    ///     .map_blocking(Calls::in_flight(4), |path| path.exists());
    /// let out = exists.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_blocking<D, O, A, F>(
        self,
        calls: Calls<A>,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        C: Chain<Item = D>,
        D: ByValue + Send,
        O: Send + 'static,
        A: Attempts<D>,
        F: Fn(D) -> O + Send + Sync + 'static,
    {
        let answer = move |record: D| Ok::<O, Infallible>(f(record));
        blocking(self, Origin::here("map_blocking"), calls, A::keep(), answer, NoSideOutput)
    }

    /// Like [`map_blocking`](Self::map_blocking), where a call may return an error: it is retried as
    /// [`Calls::retry`] defines, and otherwise stops the job. Checkpoints wait for calls, which are made at least once, as there.
    ///
    /// # Errors
    ///
    /// As for [`try_map_async`](Self::try_map_async).
    ///
    /// ```
    /// use thalweg::{Environment, ErrorKind, operators::calls::Calls};
    ///
    /// let env = Environment::new();
    /// let missing = env.iter([std::env::temp_dir().join("no such file")]);
    /// let out = missing.try_map_blocking(Calls::in_flight(4), std::fs::read_to_string).count().collect_one();
    /// let error = env.run().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Input);
    /// # assert!(out.take().is_err());
    /// ```
    #[track_caller]
    pub fn try_map_blocking<D, O, E, A, F>(
        self,
        calls: Calls<A>,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        C: Chain<Item = D>,
        D: ByValue + Send,
        O: Send + 'static,
        E: Display + Send + 'static,
        A: Attempts<D>,
        F: Fn(D) -> Result<O, E> + Send + Sync + 'static,
    {
        blocking(self, Origin::here("try_map_blocking"), calls, A::keep(), f, NoSideOutput)
    }

    /// Like [`try_map_blocking`](Self::try_map_blocking), with a side output of the records whose calls have
    /// failed for good, as in [`try_map_async_with_side_output`](Self::try_map_async_with_side_output). So calls are made at least once, and
    /// checkpoints do not wait for them.
    ///
    /// ```
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let env = Environment::new();
    /// let numbers = env.iter([4, 0, 2u32]);
    /// let (shares, failed) = numbers.try_map_blocking_with_side_output(Calls::in_flight(2), |n| {
    ///     12u32.checked_div(n).ok_or("nobody to share with")
    /// });
    /// let (shares, failed) = (shares.collect::<Vec<_>>(), failed.collect::<Vec<_>>());
    /// env.run()?;
    /// assert_eq!(shares.take()?, [3, 6]);
    /// assert_eq!(failed.take()?[0].error, "nobody to share with");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn try_map_blocking_with_side_output<D, O, E, A, F>(
        self,
        calls: Calls<A>,
        f: F,
    ) -> (Stream<impl Chain<Item = O, Time = C::Time>>, Failures<D, C::Time>)
    where
        C: Chain<Item = D>,
        D: Data + Clone,
        O: Send + 'static,
        E: Display + Send + 'static,
        F: Fn(D) -> Result<O, E> + Send + Sync + 'static,
    {
        let origin = Origin::here("try_map_blocking");
        let (failed, failures) = begin_failures(&self, origin);
        (blocking(self, origin, calls, Keep::saved_clones(), f, failed), failures)
    }
}

/// The stream of results of blocking calls of `F`.
type Blocked<C, D, F, O, E, L> = Stream<Calling<C, D, Threads<F, (O, E)>, L>>;

fn blocking<C, D, O, E, A, F, L>(
    stream: Stream<C>,
    origin: Origin,
    calls: Calls<A>,
    keep: Keep<D, C::Time>,
    f: F,
    failed: L,
) -> Blocked<C, D, F, O, E, L>
where
    C: Chain<Item = D>,
    D: ByValue + Send,
    O: Send + 'static,
    E: Display + Send + 'static,
    F: Fn(D) -> Result<O, E> + Send + Sync + 'static,
    L: MaybeSideOutput<FailedCall<D>, C::Time, Outlet: OnFailure<D>>,
{
    let is_surrounded = calls.around.is_some();
    let make = Threads::new(f, calls.rules.most);
    let called = calling(stream, origin, calls, keep, make, failed);
    if is_surrounded {
        let what = "a blocking call is not polled: `around` is for asynchronous ones";
        called.refuse(Error::new(ErrorKind::Plan, what));
    }
    called
}
