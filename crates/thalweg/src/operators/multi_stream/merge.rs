//! Merges of two or many streams into one.

use crate::data::Portable;
use crate::exchange::RoundRobin;
use crate::plan::{Origin, Parallelism, Strategy};
use crate::stream::{Chain, Environment, Received, Stream};

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Merges the records of both streams, in the order of arrival.
    ///
    /// The result has as many tasks as the stream with more tasks; each receives from one or some of the tasks
    /// of each stream. Records of one task keep their order. In event time, the watermark is the lesser of the
    /// two, so the slower stream holds back windows of both. The result ends when both have ended. For many
    /// streams of one type, see [`Environment::merge_all`]; streams of several types are merged one after the
    /// other, or made one type by [`boxed`](Self::boxed).
    ///
    /// Both must carry the same records and the same kind of time: `map` one to the other first.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (odd, even) = (env.iter([1, 3]), env.iter([2, 4]));
    /// let all = odd.merge(even).sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(all.take()?, [1, 2, 3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of two environments are refused at the job's start.
    #[doc(alias("union", "concat", "chain"))]
    #[track_caller]
    pub fn merge<D>(self, other: Stream<D>) -> Stream<Received<C::Item, C::Time>>
    where
        D: Chain<Item = C::Item, Time = C::Time>,
    {
        let origin = Origin::here("merge");
        let env = self.env.clone();
        let tasks = self.tasks().max(other.tasks());
        let bounded = self.is_bounded() && other.is_bounded();
        let before = [self.stage, other.stage];
        let to = env.stage_of_both(&other.env, origin, before, Parallelism::Free(tasks), bounded);
        env.builder().set_merged(to, true);
        if !env.is_same(&other.env) {
            // The job is refused; the other stream's stage is not in this plan.
            return env.receive(to, origin, Vec::new());
        }
        let edges = vec![hand_over(self, to, origin), hand_over(other, to, origin)];
        env.receive(to, origin, edges)
    }
}

impl Environment {
    /// Merges the records of all these streams, in the order of arrival: like [`Stream::merge`], in one step.
    ///
    /// The streams have one type: they come from one function, from [`split`](Stream::split) or
    /// [`route`](Stream::route), or were [boxed](Stream::boxed). Without streams, the result ends at once.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let parts = (0..10u64).map(|ten| env.iter(10 * ten..10 * ten + 10));
    /// let count = env.merge_all(parts).count().collect_one();
    /// env.run()?;
    /// assert_eq!(count.take()?, Some(100));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of another environment are refused at the job's start.
    #[doc(alias("union_all", "concat"))]
    #[track_caller]
    pub fn merge_all<C>(
        &self,
        streams: impl IntoIterator<Item = Stream<C>>,
    ) -> Stream<Received<C::Item, C::Time>>
    where
        C: Chain<Item: Portable>,
    {
        let origin = Origin::here("merge_all");
        // Collected before the stage that receives them is added: the iterator may build the streams lazily.
        let streams: Vec<_> = streams.into_iter().collect();
        let (here, others): (Vec<_>, Vec<_>) =
            streams.into_iter().partition(|stream| self.is_same(&stream.env));
        let before: Vec<usize> = here.iter().map(|stream| stream.stage).collect();
        let tasks = here.iter().map(Stream::tasks).max().unwrap_or(1);
        let bounded = here.iter().all(Stream::is_bounded);
        if let Some(other) = others.first() {
            self.refuse_with(&other.env, origin);
        }
        let mut builder = self.builder();
        let to = builder.stage_after(&before, Parallelism::Free(tasks), bounded);
        builder.set_merged(to, true);
        drop(builder);
        let edges = here.into_iter().map(|stream| hand_over(stream, to, origin)).collect();
        self.receive(to, origin, edges)
    }
}

/// Sends a stream's records to another stage, task to task where the numbers are equal.
fn hand_over<C: Chain<Item: Portable>>(
    stream: Stream<C>,
    to: usize,
    origin: Origin,
) -> crate::exchange::Edge<C::Item, C::Time> {
    stream.send_to(to, origin, Strategy::Forward, |cx, op, edge| {
        edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
    })
}

#[cfg(test)]
mod tests {
    use crate::check::{check, every};
    use crate::config::Config;
    use crate::{Environment, ErrorKind};

    #[test]
    fn all_records_of_both_come_through() {
        check(|env| env.range(0..1000).merge(env.iter(1000..1500u64))).equals(0..1500u64);
        check(|env| {
            let both = env.range(0..1000).merge(env.iter(0..1000u64)).merge(env.range(0..0));
            both.group_by(|n| n % 10).count()
        })
        .equals((0..10u64).map(|key| (key, 200)));
    }

    #[test]
    fn a_limit_ends_both() {
        every(|env| {
            let some = env.iter(0u64..).merge(env.iter(0u64..)).limit(10).count().collect_one();
            env.run()?;
            assert_eq!(some.take()?.unwrap(), 10);
            Ok(())
        });
    }

    #[test]
    fn a_stream_of_another_job_is_refused() {
        let (env, other) = (Environment::new(), Environment::with_config(Config::default()));
        env.iter(0..9).merge(other.iter(0..9)).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.operator().unwrap_or_default().starts_with("merge ("), "{error}");
        env.merge_all([env.iter(0..9), other.iter(0..9)]).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.operator().unwrap_or_default().starts_with("merge_all ("), "{error}");
    }

    #[test]
    fn many_streams_are_merged_at_once() {
        check(|env| {
            let boxed = (0..20u64).map(|n| match n % 3 {
                0 => env.iter(10 * n..10 * n + 10).boxed(),
                1 => env.range(10 * n..10 * n + 10).boxed(),
                _ => env.iter(10 * n..10 * n + 10).shuffle().boxed(),
            });
            env.merge_all(boxed)
        })
        .equals(0..200u64);
        check(|env| env.merge_all([env.range(5..7)])).equals(5..7u64);
        check(|env| env.merge_all(Vec::<crate::Stream<crate::Boxed<u64>>>::new()))
            .equals([0u64; 0]);
        check(|env| {
            let ([a, b], rest) =
                env.range(0..999).route().to(|n| n % 2 == 0).to(|n| n % 3 == 0).split();
            let [c, d] = env.range(1000..1010).split();
            env.merge_all([a, b, rest, c, d])
        })
        .equals((0..999u64).chain(1000..1010).chain(1000..1010));
        every(|env| {
            let endless = (0..5).map(|_| env.iter(0u64..));
            let some = env.merge_all(endless).limit(100).count().collect_one();
            env.run()?;
            assert_eq!(some.take()?.unwrap(), 100);
            Ok(())
        });
    }
}
