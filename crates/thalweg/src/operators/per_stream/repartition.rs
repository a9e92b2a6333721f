//! Exchanges without a key: to which task of the next stage a record goes.

use crate::data::{Portable, Record};
use crate::exchange::{Broadcast, Custom, Random, RoundRobin};
use crate::plan::{Details, Origin, Parallelism, Strategy};
use crate::stream::{Chain, Received, Stream};
use std::sync::Arc;

/// A stream just after an exchange.
type Exchanged<C> = Stream<Received<<C as Chain>::Item, <C as Chain>::Time>>;

impl<C: Chain> Stream<C> {
    /// Distributes the records evenly to as many tasks as there are cores.
    ///
    /// The operators that follow run in parallel even if the source does not, with the load evenly spread.
    /// Order is kept only among records with the same sending and the same receiving task.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sum = env.iter(0..1000u64).shuffle().map(|n| n * n).reduce(|a, b| a + b);
    /// let out = sum.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [332_833_500]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("rebalance", "round_robin"))]
    #[track_caller]
    pub fn shuffle(self) -> Exchanged<C>
    where
        C::Item: Portable,
    {
        let tasks = self.env.tasks_of_cores();
        self.deal(Origin::here("shuffle"), Strategy::Shuffle, tasks)
    }

    /// Continues in this many tasks, at least one, and distributes the records to them evenly.
    ///
    /// With 1, all operators that follow run in one task, on any cores and with any settings. Another number is replaced by
    /// the one that [`Config::tasks`](crate::config::Config::tasks) sets for the stage, if it does.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let lists = env.range(0..100).parallelism(1).chunks(100).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(lists.take()?.len(), 1);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn parallelism(self, tasks: usize) -> Exchanged<C>
    where
        C::Item: Portable,
    {
        // The operators behind a single task may need to see all records.
        let parallelism = if tasks <= 1 { Parallelism::Fixed(1) } else { Parallelism::Free(tasks) };
        self.deal(Origin::here("parallelism"), Strategy::Shuffle, parallelism)
    }

    /// Continues in as many other tasks, each of which receives the records of one task: an exchange within the
    /// pipeline, so that the operators before and after it run in parallel. Keeps order.
    #[track_caller]
    pub fn forward(self) -> Exchanged<C>
    where
        C::Item: Portable,
    {
        let parallelism = Parallelism::Free(self.tasks());
        self.deal(Origin::here("forward"), Strategy::Forward, parallelism)
    }

    fn deal(self, origin: Origin, strategy: Strategy, parallelism: Parallelism) -> Exchanged<C>
    where
        C::Item: Portable,
    {
        self.exchange(origin, strategy, parallelism, |cx, op, edge| {
            edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
        })
    }

    /// Sends each record to a task drawn at random from a seeded generator: unlike with
    /// [`shuffle`](Self::shuffle), no pattern in the input can coincide with a pattern of the distribution.
    #[track_caller]
    pub fn random(self, seed: u64) -> Exchanged<C>
    where
        C::Item: Portable,
    {
        let (stage, env, tasks) = (self.stage, self.env.clone(), self.env.tasks_of_cores());
        let origin = Origin::here("random");
        let received = self.exchange(origin, Strategy::Random, tasks, move |cx, op, edge| {
            // Odd multiples keep the tasks' sequences apart.
            let route = Random::seeded(seed ^ (cx.task as u64).wrapping_mul(0xa076_1d64_78bd_642f));
            edge.outlet(cx.task, cx.op(op), route)
        });
        env.builder().describe_end(stage, Details::of("seed", seed));
        received
    }

    /// Sends each record to every task of the operators that follow.
    ///
    /// ```
    /// use thalweg::{Environment, config::Config};
    ///
    /// let mut config = Config::default();
    /// config.cores = 3.try_into().unwrap();
    /// let env = Environment::with_config(config);
    /// let out = env.iter(0..10).broadcast().count().collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(30));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast(self) -> Exchanged<C>
    where
        C::Item: Portable,
        for<'a> <C::Item as Record>::Of<'a>: Clone,
    {
        let tasks = self.env.tasks_of_cores();
        self.exchange(Origin::here("broadcast"), Strategy::Broadcast, tasks, |cx, op, edge| {
            Broadcast::new(edge.lanes_from(cx.task, cx.op(op)))
        })
    }

    /// Sends each record to the task whose number the closure returns; its second argument is the number of
    /// tasks. A number that is too large wraps around.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..100u64).repartition_by(|n, tasks| *n as usize % tasks).count().collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(100));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn repartition_by<F>(self, choose: F) -> Exchanged<C>
    where
        C::Item: Portable,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>, usize) -> usize + Send + Sync + 'static,
    {
        let tasks = self.env.tasks_of_cores();
        let choose = Arc::new(choose);
        let origin = Origin::here("repartition_by");
        self.exchange(origin, Strategy::Custom, tasks, move |cx, op, edge| {
            let choose = Arc::clone(&choose);
            let route = move |item: &<C::Item as Record>::Of<'_>, tasks: usize| choose(item, tasks);
            edge.outlet(cx.task, cx.op(op), Custom(route))
        })
    }
}
