//! Loops in which the output of a round is the input of the next.

use super::control::Needs;
use super::feedback::{Eater, FED_BACK, Feedback, Feeder, Leaving};
use super::feeding::Iterating;
use super::head::Looped;
use super::shared::Shared;
use crate::data::{Data, Portable};
use crate::error::Result;
use crate::plan::{Origin, TaskContext, TieKind};
use crate::stream::{Chain, Received, Stream};
use std::sync::Arc;

/// The output of the last round.
type Left<I, T> = Stream<Received<I, T>>;
/// The input of a head with feedback, and the output for the records that are left.
type Ends<I, T> = (Eater<I, T>, Leaving<I, T>);

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Sends the records through `body`, its output through it again, and so on, for at most `rounds` rounds,
    /// with a state that changes from round to round.
    ///
    /// The loop ends when a round has no output, when a condition holds, or after the maximum number of rounds.
    /// The output of the last round is a stream of its own. Where every round sees the same input, see
    /// [`replay`](Self::replay), which also documents which operators a body may contain. Where results per key
    /// improve from round to round, see [`delta_iterate`](crate::KeyedStream::delta_iterate).
    ///
    /// In a job with [checkpoints](crate::config::Config::checkpoints), the first round begins when all of the input has arrived.
    ///
    /// Records that a task feeds back stay in memory, as far as the budget goes, and then on disk, however much
    /// larger the output of a round is than its input.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::loops::Ended;
    ///
    /// // Halves numbers until they are odd, and counts how often.
    /// let env = Environment::new();
    /// let (outcome, odd) = env
    ///     .range(1..100)
    ///     .iterate(1000, 0, |numbers, _| numbers.filter(|n| n % 2 == 0).map(|n| n / 2))
    ///     .fold(|halved: &mut u64, _| *halved += 1, |halved, others| *halved += others)
    ///     .all_rounds(|all, halved| *all += halved);
    /// let (out, odd) = (outcome.collect::<Vec<_>>(), odd.collect::<Vec<_>>());
    /// env.run()?;
    /// let outcome = out.take()?.pop().unwrap();
    /// assert_eq!((outcome.state, outcome.rounds, outcome.ended), (95, 7, Ended::NothingLeft));
    /// assert!(odd.take()?.is_empty());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream does not end, or with 0 rounds, the job is refused at its start.
    #[track_caller]
    pub fn iterate<S, B, F>(
        self,
        rounds: u64,
        state: S,
        body: F,
    ) -> Iterating<B, S, Feeder<C::Item, C::Time>, Left<C::Item, C::Time>>
    where
        S: Data + Clone + Sync,
        B: Chain<Item = C::Item, Time = C::Time>,
        F: FnOnce(Stream<Iterated<C, S>>, &Shared<S>) -> Stream<B>,
    {
        let origin = Origin::here("iterate");
        let feedback = Feedback::new(self.tasks());
        let (edge, left) = self.begin_side_output::<C::Item>(origin);
        let eaters = feedback.clone();
        let make: Make<C> = Box::new(move |cx, op| {
            Ok((eaters.eater(cx, op)?.saving(cx, op)?, Leaving::by(&edge, cx, op)))
        });
        let (head, control, outcome) = self.looped(origin, rounds, (state, Needs::Records), make);
        let head = head.tied(TieKind::Feedback).with_fixed_tasks(FED_BACK);
        let body = body(head, &Shared(Arc::clone(&control)));
        control.end_body();
        let feed = Box::new(move |cx: &TaskContext<'_>, op| feedback.feeder(cx, op));
        Iterating { body, control, feed, outcome, rest: left.need_not_be_taken(), origin }
    }
}

type Make<C> = Box<
    dyn Fn(&TaskContext<'_>, usize) -> Result<Ends<<C as Chain>::Item, <C as Chain>::Time>> + Send,
>;

/// The chain that begins a body whose output is fed back.
pub type Iterated<C, S> = Looped<C, S, Eater<<C as Chain>::Item, <C as Chain>::Time>, Make<C>>;
