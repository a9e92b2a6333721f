//! Loops in which what comes out of a round goes into the next.

use super::control::{Control, Meeting};
use super::feedback::{Eater, Feedback, Leaving};
use super::head::{Looped, Outcomes};
use super::shared::Shared;
use super::tail::{FoldAndFeed, TailPush};
use crate::data::{Data, Portable, Record};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use std::marker::PhantomData;
use std::sync::Arc;

/// What the body of a loop gets, and what comes out of it for good.
type Left<I, T> = Stream<Received<I, T>>;
/// An end of a loop that feeds back, and where what is left goes.
type Ends<I, T> = (Eater<I, T>, Leaving<I, T>);

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Sends the records through `body`, what comes out of it through it again, and so on, at most so many
    /// rounds; a state changes from round to round.
    ///
    /// The loop ends when nothing comes out of a round, when a condition holds, or after the most rounds. What
    /// came out of the last round is a stream of its own. Where every round sees the same input, see
    /// [`replay`](Self::replay), which also says what a body may hold.
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
    pub fn iterate<S, B, F>(self, rounds: u64, state: S, body: F) -> Iterating<B, S>
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
        Iterating { body, control, feedback, outcome, left, origin }
    }
}

type Make<C> =
    Box<dyn Fn(&TaskContext<'_>, usize) -> Ends<<C as Chain>::Item, <C as Chain>::Time> + Send>;

/// The chain of a body that what comes out of it goes into.
pub type Iterated<C, S> = Looped<C, S, Eater<<C as Chain>::Item, <C as Chain>::Time>, Make<C>>;

/// A loop begun by [`Stream::iterate`]: say what its rounds come to.
#[must_use = "a loop does nothing until it is said what its rounds come to"]
pub struct Iterating<B: Chain<Item: Portable>, S: Data + Clone + Sync> {
    body: Stream<B>,
    control: Arc<Control<S>>,
    feedback: Feedback<B::Item, B::Time>,
    outcome: Outcomes<S, B::Time>,
    left: Left<B::Item, B::Time>,
    origin: Origin,
}

impl<B: Chain<Item: Portable>, S: Data + Clone + Sync> Iterating<B, S> {
    /// Says how what comes out of the body is folded in each round: `local` works a record into its task's
    /// part, which begins with its default; `global` works one task's part into another's, in the order of the
    /// tasks. In which order `local` sees the records of a task is not said.
    pub fn fold<D, L, G>(self, local: L, global: G) -> Folded<B, S, D, L, G>
    where
        D: Default + Send + 'static,
        L: for<'a, 'b> Fn(&mut D, &'b <B::Item as Record>::Of<'a>) + Send + Sync + 'static,
        G: Fn(&mut D, D) + Send + Sync + 'static,
    {
        Folded { iterating: self, local, global, part: PhantomData }
    }
}

/// A loop of which it is said what its rounds come to: say what becomes of that.
#[must_use = "a loop does nothing until it is said what becomes of its rounds"]
pub struct Folded<B: Chain<Item: Portable>, S: Data + Clone + Sync, D, L, G> {
    iterating: Iterating<B, S>,
    local: L,
    global: G,
    part: PhantomData<fn() -> D>,
}

impl<B, S, D, L, G> Folded<B, S, D, L, G>
where
    B: Chain<Item: Portable>,
    S: Data + Clone + Sync,
    D: Default + Send + 'static,
    L: for<'a, 'b> Fn(&mut D, &'b <B::Item as Record>::Of<'a>) + Send + Sync + 'static,
    G: Fn(&mut D, D) + Send + Sync + 'static,
{
    /// At the end of each round, the closure changes the state by what the round has come to, and answers whether
    /// the loop is to end; it also ends when nothing comes out of a round, and after the most rounds. Gives a stream with one record, what has
    /// come of the loop, and the stream of what came out of the last round. In the body of another loop, both
    /// speak in each of that one's rounds.
    pub fn until(
        self,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> (Outcomes<S, B::Time>, Left<B::Item, B::Time>) {
        let Self { iterating, local, global, .. } = self;
        let Iterating { body, control, feedback, outcome, left, origin } = iterating;
        let meeting = Arc::new(Meeting::new(control, body.tasks(), global, until));
        let fold = Arc::new(local);
        body.close(origin, "the end of a round".to_owned(), move |cx, op| {
            let finish = FoldAndFeed { fold: Arc::clone(&fold), feeder: feedback.feeder(cx) };
            Ok(TailPush::new(cx, op, &meeting, finish))
        });
        (outcome, left)
    }

    /// As [`until`](Self::until), with a closure that only changes the state.
    pub fn all_rounds(
        self,
        update: impl Fn(&mut S, D) + Send + Sync + 'static,
    ) -> (Outcomes<S, B::Time>, Left<B::Item, B::Time>) {
        self.until(move |state, part| {
            update(state, part);
            false
        })
    }
}
