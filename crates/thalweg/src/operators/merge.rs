//! One stream of two.

use crate::data::Portable;
use crate::exchange::RoundRobin;
use crate::plan::{Origin, Strategy};
use crate::stream::{Chain, Received, Stream};

impl<C: Chain<Item: Portable>> Stream<C> {
    /// The records of both streams, as they come.
    ///
    /// Each task of what follows gets what one or some of the tasks before send: of the two streams'
    /// numbers of tasks, the greater counts. Records of one task keep their order. In event time, the
    /// lesser of the two watermarks counts, so that the slower stream holds back windows of both. The
    /// result ends when both have ended. For more than two streams, merge again.
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
    #[track_caller]
    pub fn merge<D>(self, other: Stream<D>) -> Stream<Received<C::Item, C::Time>>
    where
        D: Chain<Item = C::Item, Time = C::Time>,
    {
        let origin = Origin::here("merge");
        let env = self.env.clone();
        let tasks = self.tasks().max(other.tasks());
        let bounded = self.is_bounded() && other.is_bounded();
        let to = env.stage_of_both(&other.env, origin, [self.stage, other.stage], tasks, bounded);
        if !env.is_same(&other.env) {
            // The job is refused; the other stream's stage is of no plan.
            return env.receive(to, origin, Vec::new());
        }
        let edges = vec![hand_over(self, to, origin), hand_over(other, to, origin)];
        env.receive(to, origin, edges)
    }
}

/// Sends a stream's records to another stage, a task to a task where the numbers agree.
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
            let some = env.iter(0u64..).merge(env.iter(0u64..)).limit(10).count();
            env.run()?;
            assert_eq!(some.take()?, 10);
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
    }
}
