//! The `limit` operator: the first `n` records.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Portable, Record};
use crate::error::Result;
use crate::flow::{Event, Pipe, Push, RoundScoped, RoundState};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Passes on the first `n` records of all tasks together, and ends the sources, even infinite ones.
    ///
    /// Which records are the first depends on which task is the fastest, unless the stream has one task: then
    /// they are the source's first, in order. For the greatest or least `n`, see [`top`](Self::top). The
    /// operators that follow run in one task.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0u64..).limit(3).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [0, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("take", "head", "first"))]
    #[track_caller]
    pub fn limit(self, n: u64) -> Stream<impl Chain<Item = C::Item, Time = C::Time>>
    where
        C::Item: Portable,
    {
        let origin = Origin::here("limit");
        let records = Details::of("records", n);
        let local = records.clone().with("phase", "local");
        // What a single task has passed on depends on speed: only the total count is state.
        let first = self
            .then_described(origin, local, |prev, op| Limit { prev, op, n, is_global: false })
            .ending_early();
        first
            .gather(origin)
            .then_described(origin, records.with("phase", "global"), |prev, op| Limit {
                prev,
                op,
                n,
                is_global: true,
            })
            .ending_early()
            .with_state::<u64>(Scope::Task)
    }
}

/// The chain that ends in a limit.
pub struct Limit<C> {
    prev: C,
    op: usize,
    n: u64,
    /// Whether it counts the records of all tasks.
    is_global: bool,
}

impl<C: Chain> Chain for Limit<C> {
    type Item = C::Item;
    type Time = C::Time;
    type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<LimitPush<C::Item, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, C::Time> + 'static,
    {
        let mut scoped = RoundScoped::new(cx.op(self.op), Left(self.n), next);
        let state = match self.is_global {
            true => cx.state::<u64>(self.op, "left", Redistribution::First),
            false => StateHandle::none(),
        };
        state.restore(|left| {
            scoped.state = Left(left);
            Ok(())
        })?;
        self.prev.attach(cx, LimitPush { emitted: 0, scoped, state, types: PhantomData })
    }
}

/// How many more records may be passed on.
#[derive(Clone)]
pub(crate) struct Left(pub(crate) u64);

impl RoundState for Left {
    fn is_satisfied(&self) -> bool {
        self.0 == 0
    }
}

/// A limit in a running task.
pub struct LimitPush<I: ?Sized, N> {
    emitted: u64,
    scoped: RoundScoped<Left, N>,
    state: StateHandle,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, N: Pipe> Pipe for LimitPush<I, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.scoped)
    }

    fn event(&mut self, event: Event) {
        self.state.save(event, |out| out.add(&self.scoped.state.0));
        self.scoped.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.scoped.op.id(), self.emitted);
        self.scoped.report(report);
    }
}

impl<I: Record + ?Sized, T: Time, N: Push<I, T>> Push<I, T> for LimitPush<I, N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let RoundScoped { state: Left(left), next, .. } = &mut self.scoped;
        if *left > 0 {
            *left -= 1;
            self.emitted += 1;
            next.push(item, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use crate::clock::Nanos;
    use crate::error::Result;
    use crate::flow::Push;
    use crate::plan::{Details, Origin, TaskContext};
    use crate::stream::{Produced, Source, SourceFactory};

    #[test]
    fn no_more_than_asked_for_and_no_less() {
        every(|env| {
            let some = env.range(0..100_000).limit(1234).collect::<Vec<_>>();
            let none = env.iter(0_u64..).shuffle().limit(0).count().collect_one();
            let all = env.iter(0..10).limit(100).count().collect_one();
            let twice = env.iter(0_u64..).limit(9).shuffle().limit(7).count().collect_one();
            env.run()?;
            let some = some.take()?;
            let distinct: std::collections::HashSet<_> = some.iter().copied().collect();
            assert_eq!((some.len(), distinct.len()), (1234, 1234));
            assert!(distinct.iter().all(|n| *n < 100_000));
            assert_eq!(
                (none.take()?.unwrap(), all.take()?.unwrap(), twice.take()?.unwrap()),
                (0, 10, 7)
            );
            Ok(())
        });
    }

    #[test]
    fn endless_sources_end_through_exchanges_and_fan_out() {
        every(|env| {
            let exchanged = env.iter(0_u64..).shuffle().map(|n| n + 1).shuffle().limit(1000);
            let exchanged = exchanged.count().collect_one();
            let fanned = env.iter([5_u64]).flat_map(|n| n..).limit(4).collect::<Vec<_>>();
            let dealt =
                env.iter([5_u64]).flat_map(|n| n..).shuffle().limit(4).count().collect_one();
            env.run()?;
            assert_eq!(dealt.take()?.unwrap(), 4);
            assert_eq!(exchanged.take()?.unwrap(), 1000);
            assert_eq!(fanned.take()?, [5, 6, 7, 8]);
            Ok(())
        });
    }

    /// Three records, then none, without an end.
    #[derive(Clone, Default)]
    struct Quiet(u64);

    impl SourceFactory for Quiet {
        type Source = Self;

        fn open(&self, _: &TaskContext<'_>) -> Result<Self> {
            Ok(self.clone())
        }
    }

    impl Source for Quiet {
        type Item = u64;
        type Time = ();

        fn produce<N: Push<u64, ()>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
            if self.0 == 3 {
                return Ok(Produced::Nothing);
            }
            next.push(self.0, ());
            self.0 += 1;
            Ok(Produced::Some)
        }

        fn records(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn sources_that_have_fallen_silent_end_too() {
        every(|env| {
            let quiet = || {
                let origin = Origin::here("quiet");
                env.source(
                    origin,
                    Details::none(),
                    crate::plan::Parallelism::Fixed(1),
                    false,
                    Quiet::default(),
                )
                .shuffle()
            };
            quiet().limit(3).for_each_parallel(|n| assert!(n < 3));
            quiet().shuffle().limit(2).for_each(|n| assert!(n < 3));
            // A batch mode that holds records back would wait for more of them.
            if matches!(env.config().batch, crate::config::BatchMode::Adaptive { .. }) {
                env.run()
            } else {
                env.start()?.cancel();
                Ok(())
            }
        });
    }
}
