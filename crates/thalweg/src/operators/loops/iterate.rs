//! Loops in which what comes out of a round goes into the next.

use super::control::Control;
use super::feedback::{Eater, Feedback, Feeder, Leaving};
use super::feeding::Iterating;
use super::head::Looped;
use super::shared::Shared;
use crate::data::{Data, Portable};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use std::sync::Arc;

/// What comes out of a loop for good.
type Left<I, T> = Stream<Received<I, T>>;
/// An end of a loop that feeds back, and where what is left goes.
type Ends<I, T> = (Eater<I, T>, Leaving<I, T>);

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Sends the records through `body`, what comes out of it through it again, and so on, at most so many
    /// rounds; a state changes from round to round.
    ///
    /// The loop ends when nothing comes out of a round, when a condition holds, or after the most rounds. What
    /// came out of the last round is a stream of its own. Where every round sees the same input, see
    /// [`replay`](Self::replay), which also says what a body may hold; where what is found about keys gets better from
    /// round to round, [`delta_iterate`](crate::KeyedStream::delta_iterate).
    ///
    /// What a task feeds back stays on its way in memory, as far as the budget goes, then on disk, however much more
    /// comes out of a round than goes into it.
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
    /// let (out, odd) = (outcome.collect::<Vec<_>>(), odd.count());
    /// env.run()?;
    /// let outcome = out.take()?.pop().unwrap();
    /// assert_eq!((outcome.state, outcome.rounds, outcome.ended), (95, 7, Ended::NothingLeft));
    /// assert_eq!(odd.take()?, 0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// On a stream that does not end, and with 0 rounds, the job is refused at its start.
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
        let control = Arc::new(Control::new(state, rounds, true));
        let feedback = Feedback::new(self.tasks());
        let (edge, left) = self.aside::<C::Item>(origin);
        let eaters = feedback.clone();
        let make: Make<C> =
            Box::new(move |cx, op| (eaters.eater(cx.task), Leaving::by(&edge, cx, op)));
        let (head, outcome) = self.looped(origin, rounds, &control, make);
        let body = body(head, &control.shared);
        let feed = Box::new(move |cx: &TaskContext<'_>, _| feedback.feeder(cx));
        Iterating { body, control, feed, outcome, rest: left.need_not_be_taken(), origin }
    }
}

type Make<C> =
    Box<dyn Fn(&TaskContext<'_>, usize) -> Ends<<C as Chain>::Item, <C as Chain>::Time> + Send>;

/// The chain of a body that what comes out of it goes into.
pub type Iterated<C, S> = Looped<C, S, Eater<<C as Chain>::Item, <C as Chain>::Time>, Make<C>>;
