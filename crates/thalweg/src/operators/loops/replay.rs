//! Loops that see the same input in each round.

use super::control::{Control, Meeting, Needs};
use super::head::{Looped, Outcomes};
use super::hosts::tie_tail;
use super::kept::ReplayInput;
use super::shared::Shared;
use super::tail::{Fold, TailPush};
use crate::data::{Data, Record};
use crate::error::Result;
use crate::flow::NullSink;
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;
use std::sync::Arc;

impl<D: Data, C: Chain<Item = D>> Stream<C> {
    /// Sends the same records through `body` in each round, for at most `rounds` rounds, with a state that
    /// changes from round to round.
    ///
    /// The body gets the records by reference, and the state as it was at the beginning of the round;
    /// [`with`](Stream::with) pairs records with it. The output of the body is folded into the next state: see
    /// [`Replaying::fold`]. For loops in which the output of a round is the input of the next, see
    /// [`iterate`](Self::iterate).
    ///
    /// Records stay in the tasks that have them: a round costs what the body does. They are held in memory as
    /// long as no more than half of the budget is taken, and beyond that on disk, from where they are read in
    /// each round.
    ///
    /// A body may contain any operators, further loops too. Operators that wait for the end of their input,
    /// such as `fold` or `group_by(…).count()`, emit at the end of each round and begin anew; a stream from
    /// outside the loop is read once, in the first round. Watermarks do not enter a body.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// /// Of two numbers, the one nearer to x.
    /// fn nearest(x: f64, means: &[f64; 2]) -> usize {
    ///     usize::from((x - means[1]).abs() < (x - means[0]).abs())
    /// }
    ///
    /// let env = Environment::new();
    /// let points = env.iter([1.0, 2.0, 3.0, 10.0, 12.0]);
    /// let means = points
    ///     .replay(100, [1.0, 2.0], |points, means| {
    ///         points.with(means).map(|(x, means)| (nearest(*x, means), *x))
    ///     })
    ///     .fold(
    ///         |sums: &mut [(f64, f64); 2], (at, x)| sums[at] = (sums[at].0 + x, sums[at].1 + 1.0),
    ///         |sums, other| (0..2).for_each(|at| sums[at] = (sums[at].0 + other[at].0, sums[at].1 + other[at].1)),
    ///     )
    ///     .all_rounds(|means, sums| *means = sums.map(|(sum, count)| sum / count));
    /// let out = means.collect::<Vec<_>>();
    /// env.run()?;
    /// let outcome = out.take()?.pop().unwrap();
    /// assert_eq!((outcome.state, outcome.rounds), ([2.0, 11.0], 100));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream does not end, or with 0 rounds, the job is refused at its start.
    #[track_caller]
    pub fn replay<S, B, F>(self, rounds: u64, state: S, body: F) -> Replaying<B, S>
    where
        S: Data + Clone + Sync,
        B: Chain<Time = C::Time>,
        F: FnOnce(Stream<Replayed<C, S>>, &Shared<S>) -> Stream<B>,
    {
        let origin = Origin::here("replay");
        let make: Make<D, C> = |cx, op| Ok((ReplayInput::new(cx, op)?, NullSink));
        let (head, control, outcome) = self.looped(origin, rounds, (state, Needs::Nothing), make);
        let body = body(head, &Shared(Arc::clone(&control)));
        control.end_body();
        Replaying { body, control, outcome, origin }
    }
}

type Make<D, C> =
    fn(&TaskContext<'_>, usize) -> Result<(ReplayInput<D, <C as Chain>::Time>, NullSink)>;

/// The chain that begins a body whose input is replayed.
pub type Replayed<C, S> =
    Looped<C, S, ReplayInput<<C as Chain>::Item, <C as Chain>::Time>, Make<<C as Chain>::Item, C>>;

/// A loop begun by [`Stream::replay`]: choose how its rounds are folded.
#[must_use = "a loop does nothing until it is said what its rounds come to"]
pub struct Replaying<B: Chain, S: Data + Clone + Sync> {
    body: Stream<B>,
    control: Arc<Control<S>>,
    outcome: Outcomes<S, B::Time>,
    origin: Origin,
}

impl<B: Chain, S: Data + Clone + Sync> Replaying<B, S> {
    /// Defines how the output of the body is folded in each round: `local` merges a record into its task's
    /// partial state, which begins with the default; `global` merges one task's partial state into another's,
    /// in the order of the tasks. The order in which `local` sees the records of a task is unspecified. On several hosts,
    /// partial states are merged on each and then sent, so they are [`Data`].
    pub fn fold<D, L, G>(self, local: L, global: G) -> FoldedReplay<B, S, D, L, G>
    where
        D: Data + Default,
        L: for<'a> Fn(&mut D, <B::Item as Record>::Of<'a>) + Send + Sync + 'static,
        G: Fn(&mut D, D) + Send + Sync + 'static,
    {
        FoldedReplay { replaying: self, local, global, part: PhantomData }
    }
}

/// A loop whose rounds are folded: choose what the result of a fold changes, and when the loop ends.
#[must_use = "a loop does nothing until it is said what becomes of its rounds"]
pub struct FoldedReplay<B: Chain, S: Data + Clone + Sync, D, L, G> {
    replaying: Replaying<B, S>,
    local: L,
    global: G,
    part: PhantomData<fn() -> D>,
}

impl<B, S, D, L, G> FoldedReplay<B, S, D, L, G>
where
    B: Chain,
    S: Data + Clone + Sync,
    D: Data + Default,
    L: for<'a> Fn(&mut D, <B::Item as Record>::Of<'a>) + Send + Sync + 'static,
    G: Fn(&mut D, D) + Send + Sync + 'static,
{
    /// At the end of each round, the closure changes the state by the result of the round's fold, and returns
    /// whether the loop is to end; the loop also ends after the maximum number of rounds. The stream has one
    /// record: the outcome of the loop. In the body of another loop it has one record in each round of that
    /// loop.
    ///
    /// On several hosts, each has a copy of the state and calls the closure, with the same values. It must do the same on
    /// all of them, so it must not depend on anything else, such as the time; if hosts differ on whether the loop is to
    /// end, the job fails.
    pub fn until(
        self,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> Outcomes<S, B::Time> {
        let Self { replaying, local, global, .. } = self;
        let Replaying { body, control, outcome, origin } = replaying;
        let (env, stage, head) = (body.env.clone(), body.stage, control.head);
        let meeting = Arc::new(Meeting::new(control, global, until));
        let local = Arc::new(local);
        body.close(origin, Details::of("tail", true), move |cx, op| {
            TailPush::new(cx, op, &meeting, Fold(Arc::clone(&local)))
        });
        tie_tail(&mut env.builder(), head, stage);
        outcome
    }

    /// Runs the maximum number of rounds; the closure changes the state at the end of each. The stream has one
    /// record, like that of [`until`](Self::until).
    pub fn all_rounds(
        self,
        update: impl Fn(&mut S, D) + Send + Sync + 'static,
    ) -> Outcomes<S, B::Time> {
        self.until(move |state, part| {
            update(state, part);
            false
        })
    }
}
