//! The `map_async` operators: one output record for each input record, made by a future.

use super::polled::Futures;
use super::saved::Keep;
use super::side_output::{Failures, begin_failures};
use super::{Attempts, Calls, calling};
use crate::data::{ByValue, Data};
use crate::error::Result;
use crate::operators::side_outlet::NoSideOutput;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record by a future that the closure returns, such as a request to a service or
    /// a query.
    ///
    /// Futures are polled by the tasks of the stream itself, and only when they have been woken, so that many
    /// can be in flight and none keeps a core from other work. They need no particular runtime: see
    /// [`Calls::around`] for those that do. For calls that block their thread there is
    /// [`map_blocking`](Self::map_blocking); for closures that compute and never wait, [`map`](Self::map) after
    /// a [`shuffle`](Self::shuffle). Where a call may return an error, see
    /// [`try_map_async`](Self::try_map_async).
    ///
    /// When as many calls are in flight as [`Calls`] allows, the input is subject to back-pressure. [`Calls`]
    /// also defines whether order is kept; in event time records keep their timestamps, and no watermark
    /// overtakes them. The end of the input, the end of a loop's round and a barrier wait for the calls before
    /// them, so that none is in flight then. When the job is cancelled, or no receiver needs more results,
    /// futures in flight are dropped.
    ///
    /// In a job with [checkpoints](crate::config::Config::checkpoints), a call is made at least once: after a failure, calls that had not ended at the last
    /// checkpoint, or came after it, are made again. A checkpoint waits for the calls before it, unless [`Calls::saved`] saves
    /// their records.
    ///
    /// Memory: the futures in flight, as many results, and a batch or two of records that wait. Once as many
    /// calls have been in flight as may be, the operator allocates nothing per call beside the future itself.
    ///
    /// # Errors
    ///
    /// A call whose last attempt exceeds the timeout stops the job with an error of kind
    /// [`TimedOut`](crate::ErrorKind::TimedOut). A panic stops it as in any closure.
    ///
    /// ```
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// async fn look_up(id: u32) -> String {
    ///     // A request would be awaited here.
    ///     format!("customer {id}")
    /// }
    ///
    /// let env = Environment::new();
    /// let names = env.iter(1..=3).map_async(Calls::in_flight(10), look_up).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(names.take()?, ["customer 1", "customer 2", "customer 3"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("AsyncDataStream", "unorderedWait"))]
    #[track_caller]
    pub fn map_async<D, O, A, F, Fut>(
        self,
        calls: Calls<A>,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        C: Chain<Item = D>,
        D: ByValue + Send,
        O: Send + 'static,
        A: Attempts<D>,
        F: Fn(D) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
    {
        let answer = move |record: D| {
            let future = f(record);
            async move { Ok::<O, Infallible>(future.await) }
        };
        let make = Futures::new(answer, calls.around.clone());
        calling(self, Origin::here("map_async"), calls, A::keep(), make, NoSideOutput)
    }

    /// Like [`map_async`](Self::map_async), where a call may return an error: it is retried as [`Calls::retry`]
    /// defines, and otherwise stops the job.
    ///
    /// To continue with the other records instead, send those whose calls fail to a side output:
    /// [`try_map_async_with_side_output`](Self::try_map_async_with_side_output).
    ///
    /// Checkpoints wait for calls, which are made at least once, as in [`map_async`](Self::map_async).
    ///
    /// # Errors
    ///
    /// The error of the last attempt stops the job as in [`try_map`](Self::try_map), with the number of
    /// attempts if there was more than one; a timeout stops it as in [`map_async`](Self::map_async).
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let env = Environment::new();
    /// let calls = Calls::in_flight(4).retry(3, Duration::from_millis(1));
    /// let out = env.iter(["1", "two"]).try_map_async(calls, async |text| text.parse::<u32>()).count().collect_one();
    /// let error = env.run().unwrap_err();
    /// assert_eq!(error.message(), "no success in 3 attempts");
    /// assert!(error.to_string().ends_with("attempts: invalid digit found in string"));
    /// # assert!(out.take().is_err());
    /// ```
    #[track_caller]
    pub fn try_map_async<D, O, E, A, F, Fut>(
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
        F: Fn(D) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let make = Futures::new(f, calls.around.clone());
        calling(self, Origin::here("try_map_async"), calls, A::keep(), make, NoSideOutput)
    }

    /// Like [`try_map_async`](Self::try_map_async), with a side output of the records whose calls have failed
    /// for good, by an error or a timeout, with what happened: see [`FailedCall`](super::FailedCall).
    ///
    /// The side output has as many tasks and the same time, and must end in a sink like any other. Costs a
    /// clone of the record for each attempt. A panic still stops the job.
    ///
    /// Calls are made at least once, as in [`map_async`](Self::map_async), and checkpoints do not wait for them, as with
    /// [`Calls::saved`]. A call that is made again may fail where it had not, or the other way round: only the result that is emitted
    /// behind the checkpoint counts.
    ///
    /// ```
    /// use thalweg::{Environment, operators::calls::Calls};
    ///
    /// let env = Environment::new();
    /// let texts = env.iter(["1", "two", "3"]).map(str::to_owned);
    /// let (numbers, failed) =
    ///     texts.try_map_async_with_side_output(Calls::in_flight(4), async |text| text.parse::<u32>());
    /// let (numbers, failed) = (numbers.collect::<Vec<_>>(), failed.collect::<Vec<_>>());
    /// env.run()?;
    /// assert_eq!(numbers.take()?, [1, 3]);
    /// let failed = failed.take()?;
    /// assert_eq!((&*failed[0].record, failed[0].attempts), ("two", 1));
    /// assert_eq!(failed[0].error, "invalid digit found in string");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn try_map_async_with_side_output<D, O, E, A, F, Fut>(
        self,
        calls: Calls<A>,
        f: F,
    ) -> (Stream<impl Chain<Item = O, Time = C::Time>>, Failures<D, C::Time>)
    where
        C: Chain<Item = D>,
        D: Data + Clone,
        O: Send + 'static,
        E: Display + Send + 'static,
        F: Fn(D) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let origin = Origin::here("try_map_async");
        let (failed, failures) = begin_failures(&self, origin);
        let make = Futures::new(f, calls.around.clone());
        (calling(self, origin, calls, Keep::saved_clones(), make, failed), failures)
    }
}
