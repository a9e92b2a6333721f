//! The types that a program writes: environments, streams, and their chains.
//!
//! A [`Stream`] describes the operators since the last exchange, as a type: each operator's [`Chain`] wraps the one
//! before it. Closing a stage (an exchange, a sink) reverses the nesting: the chain makes each task, as one concrete
//! type into which the rest of the stage is nested.

mod application;
mod boxed;
mod chain;
mod checkpointing;
mod environment;
mod in_flight;
mod job;
mod running_job;
mod savepoints;
mod source;
mod watch;

pub use boxed::Boxed;
pub use chain::{Chain, Received};
pub(crate) use checkpointing::Checkpointing;
pub use environment::Environment;
pub use job::{JobControl, JobHandle};
pub(crate) use source::Produced;
pub use source::{Source, SourceFactory, Sourced};
pub(crate) use watch::Warnings;
#[cfg(feature = "cli")]
pub(crate) use {
    application::{Application, Attendance},
    running_job::RunningJob,
};

use crate::config::BatchMode;
use crate::data::{Data, Portable};
use crate::exchange::Edge;
use crate::flow::{NullSink, Push, Task};
use crate::plan::{
    Builder, Details, Distribution, Origin, Parallelism, Scope, Strategy, TaskContext, TieKind,
};
use crate::sync::MutexGuard;

/// Records that flow through a job, one after the other, in several tasks in parallel.
///
/// A stream is a description: nothing moves until [`Environment::run`]. Its methods, each in the
/// file of its operator, consume it and describe what comes next; a sink ends it.
///
/// To write a function over streams, name the item type and leave the rest open:
///
/// ```
/// use thalweg::{Chain, Environment, Stream};
///
/// fn evens(numbers: Stream<impl Chain<Item = u64>>) -> Stream<impl Chain<Item = u64>> {
///     numbers.filter(|n| n % 2 == 0)
/// }
///
/// let env = Environment::new();
/// let half = evens(env.iter(0..10)).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(half.take()?, [0, 2, 4, 6, 8]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[must_use = "a stream does nothing until it ends in a sink and its environment runs"]
pub struct Stream<C: Chain> {
    pub(crate) env: Environment,
    pub(crate) chain: C,
    /// The current stage.
    pub(crate) stage: usize,
}

/// The edge on which a side output is sent, and the side output as a stream.
type NewSideOutput<I, T> = (Edge<I, T>, Stream<Received<I, T>>);

impl<C: Chain> Stream<C> {
    /// The number of tasks that the current stage has, unless another one is set.
    pub(crate) fn tasks(&self) -> usize {
        self.builder().plan.stages[self.stage].tasks
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.builder().plan.stages[self.stage].bounded
    }

    /// The plan that is being built.
    pub(crate) fn builder(&self) -> MutexGuard<'_, Builder> {
        self.env.builder()
    }

    /// Adds an operator to the current stage: `wrap` makes its chain from the one before it and the
    /// operator's number.
    pub(crate) fn then<D: Chain>(
        self,
        origin: Origin,
        wrap: impl FnOnce(C, usize) -> D,
    ) -> Stream<D> {
        self.then_described(origin, Details::none(), wrap)
    }

    /// Like [`then`](Self::then), with more properties of the operator.
    pub(crate) fn then_described<D: Chain>(
        self,
        origin: Origin,
        details: Details,
        wrap: impl FnOnce(C, usize) -> D,
    ) -> Stream<D> {
        let op = self.builder().operator(self.stage, origin, details);
        Stream { chain: wrap(self.chain, op), env: self.env, stage: self.stage }
    }

    /// Declares the state, of type `S`, that the last operator keeps across records.
    pub(crate) fn with_state<S: Data>(self, scope: Scope) -> Self {
        self.env.state_of_last(self.stage, scope, S::schema());
        self
    }

    /// Notes that the last operator may end its stage before the input ends.
    pub(crate) fn ending_early(self) -> Self {
        self.builder().time_origins.ends_early(self.stage);
        self
    }

    /// Declares a tie between the tasks of the last operator.
    pub(crate) fn tied(self, kind: TieKind) -> Self {
        self.env.tie_last(self.stage, kind);
        self
    }

    /// Keeps the number of tasks of this stream from being set; the reason is for messages, which name the last operator.
    pub(crate) fn with_fixed_tasks(self, why: &'static str) -> Self {
        self.builder().fix_tasks(self.stage, why);
        self
    }

    /// Makes the job fail at its start if this stream does not end by itself.
    pub(crate) fn bounded_for(self, why: &str) -> Self {
        self.env.require_bounded_last(self.stage, why);
        self
    }

    /// Makes the job fail at its start with this error, attributed to the last operator.
    pub(crate) fn refuse(&self, error: crate::Error) {
        self.env.refuse_last(self.stage, error);
    }

    /// Ends the stage: `end` makes the last operator of each task.
    pub(crate) fn close<N>(
        self,
        origin: Origin,
        details: Details,
        end: impl Fn(&TaskContext<'_>, usize) -> crate::Result<N> + Send + 'static,
    ) where
        N: Push<C::Item, C::Time> + 'static,
    {
        let op = self.builder().operator(self.stage, origin, details);
        let chain = self.chain;
        let factory = move |cx: &TaskContext<'_>| {
            let task = chain.attach(cx, end(cx, op)?)?;
            Ok(Box::new(task) as Box<dyn Task>)
        };
        self.env.builder().close(self.stage, Box::new(factory));
    }

    /// As [`close`](Self::close), in a sink.
    pub(crate) fn close_in_sink<N>(
        self,
        origin: Origin,
        details: Details,
        end: impl Fn(&TaskContext<'_>, usize) -> crate::Result<N> + Send + 'static,
    ) where
        N: Push<C::Item, C::Time> + 'static,
    {
        let (env, stage) = (self.env.clone(), self.stage);
        self.close(origin, details, end);
        env.builder().name_sink(stage);
    }

    /// Ends the stage with an exchange and begins the next one in this parallelism; `end` makes the
    /// sending end of each task.
    pub(crate) fn exchange<N>(
        self,
        origin: Origin,
        distribution: impl Into<Distribution>,
        parallelism: Parallelism,
        end: impl Fn(&TaskContext<'_>, usize, &Edge<C::Item, C::Time>) -> N + Send + 'static,
    ) -> Stream<Received<C::Item, C::Time>>
    where
        C::Item: Portable,
        N: Push<C::Item, C::Time> + 'static,
    {
        let env = self.env.clone();
        let bounded = self.is_bounded();
        let stage = env.builder().stage_after(&[self.stage], parallelism, bounded);
        env.builder().pass_sink_name(self.stage, stage);
        let edge = self.send_to(stage, origin, distribution, end);
        env.receive(stage, origin, vec![edge])
    }

    /// Begins a side output of an operator that is still to be added: the edge on which the operator sends it, and
    /// the stream, which has as many tasks as this one.
    pub(crate) fn begin_side_output<I: Portable + ?Sized>(
        &self,
        origin: Origin,
    ) -> NewSideOutput<I, C::Time> {
        let (parallelism, bounded) = (Parallelism::Free(self.tasks()), self.is_bounded());
        let to = self.builder().stage_after(&[self.stage], parallelism, bounded);
        let edge = self.env.link(self.stage, to, Strategy::Forward);
        let second = self.env.receive(to, origin, vec![edge.clone()]);
        (edge, second)
    }

    /// Lets this stream, which has no operators yet, stay without a consumer: its records are then dropped.
    pub(crate) fn need_not_be_taken(self) -> Self
    where
        C: Clone,
    {
        let chain = self.chain.clone();
        let drop =
            move |cx: &TaskContext<'_>| Ok(Box::new(chain.attach(cx, NullSink)?) as Box<dyn Task>);
        self.builder().close_if_unconsumed(self.stage, Box::new(drop));
        self
    }

    /// Ends the stage with an exchange that leads to another one.
    pub(crate) fn send_to<N>(
        self,
        to: usize,
        origin: Origin,
        distribution: impl Into<Distribution>,
        end: impl Fn(&TaskContext<'_>, usize, &Edge<C::Item, C::Time>) -> N + Send + 'static,
    ) -> Edge<C::Item, C::Time>
    where
        C::Item: Portable,
        N: Push<C::Item, C::Time> + 'static,
    {
        let edge = self.env.link(self.stage, to, distribution);
        let sending = edge.clone();
        self.close(origin, Details::none(), move |cx, op| Ok(end(cx, op, &sending)));
        edge
    }

    /// Sets when the next exchange of this stream sends the records it has collected. See [`BatchMode`]. Later
    /// exchanges, and those of other streams, use [`Config::batch`](crate::config::Config::batch).
    ///
    /// ```
    /// use thalweg::{Environment, config::BatchMode};
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..10).batch_mode(BatchMode::Single).shuffle().count().collect_one();
    /// env.run()?;
    /// assert_eq!(out.take()?, Some(10));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn batch_mode(self, mode: BatchMode) -> Self {
        self.builder().batch_modes.insert(self.stage, mode);
        self
    }

    /// Names the operator before: in plans, statistics and messages, and as the identity of its
    /// state ([`State::id`](crate::plan::State::id)). Names must differ within a job. For sinks, which return no stream, there
    /// is [`sink_name`](Self::sink_name).
    pub fn name(self, name: impl Into<String>) -> Self {
        self.builder().name(self.stage, name.into());
        self
    }

    /// Names the sink that follows, as [`name`](Self::name) does other operators: in plans, statistics and messages, and in
    /// checkpoints. Without a name, a checkpoint knows a sink by its kind and its number among those, so that none can be added
    /// in front of it or removed.
    ///
    /// # Errors
    ///
    /// If the stream ends in no sink, as where it is split, or has got another name for it before, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.range(0..10).map(|n| n * n).sink_name("squares").collect::<Vec<_>>();
    /// assert!(env.plan().operators.iter().any(|op| op.kind == "collect" && op.name == "squares"));
    /// env.run()?;
    /// assert_eq!(out.take()?.len(), 10);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn sink_name(self, name: impl Into<String>) -> Self {
        self.builder().set_sink_name(self.stage, name.into());
        self
    }
}
