//! Loops that feed back, of whatever kind: what is said of them after their body.

use super::control::{Control, Meeting};
use super::head::Outcomes;
use super::tail::{Feed, FoldAndFeed, TailPush};
use crate::data::{Data, Record};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;
use std::sync::Arc;

/// How the tails of a loop get what feeds back.
pub(super) type MakeFeed<X> = Box<dyn Fn(&TaskContext<'_>, usize) -> X + Send>;

/// A loop that feeds back, begun by [`Stream::iterate`] or
/// [`delta_iterate`](crate::KeyedStream::delta_iterate): say what its rounds come to.
///
/// `R` is the stream that comes out of it beside its outcome.
#[must_use = "a loop does nothing until it is said what its rounds come to"]
pub struct Iterating<B: Chain, S: Data + Clone + Sync, X, R> {
    pub(super) body: Stream<B>,
    pub(super) control: Arc<Control<S>>,
    pub(super) feed: MakeFeed<X>,
    pub(super) outcome: Outcomes<S, B::Time>,
    pub(super) rest: R,
    pub(super) origin: Origin,
}

impl<B, S, X, R> Iterating<B, S, X, R>
where
    B: Chain,
    S: Data + Clone + Sync,
    X: Feed<B::Item, B::Time>,
{
    /// Says how a round is folded: `local` works a record into its task's part, which begins with its default;
    /// `global` works one task's part into another's, in the order of the tasks. In which order `local` sees
    /// the records of a task is not said. It sees what comes out of the body of [`Stream::iterate`], and the
    /// entries that have changed, each once, of [`delta_iterate`](crate::KeyedStream::delta_iterate).
    pub fn fold<D, L, G>(self, local: L, global: G) -> Folded<B, S, X, R, D, L, G>
    where
        D: Default + Send + 'static,
        L: for<'a, 'b> Fn(&mut D, &'b <X::Seen as Record>::Of<'a>) + Send + Sync + 'static,
        G: Fn(&mut D, D) + Send + Sync + 'static,
    {
        Folded { iterating: self, local, global, part: PhantomData }
    }

    /// Folds nothing, and leaves the state as it is: the loop ends when nothing is left for another round,
    /// and after the most rounds. Gives what [`until`](Folded::until) gives.
    pub fn all_rounds(self) -> (Outcomes<S, B::Time>, R) {
        self.fold(|(): &mut (), _| {}, |(), ()| {}).all_rounds(|_, ()| {})
    }
}

/// A loop of which it is said what its rounds come to: say what becomes of that.
#[must_use = "a loop does nothing until it is said what becomes of its rounds"]
pub struct Folded<B: Chain, S: Data + Clone + Sync, X, R, D, L, G> {
    iterating: Iterating<B, S, X, R>,
    local: L,
    global: G,
    part: PhantomData<fn() -> D>,
}

impl<B, S, X, R, D, L, G> Folded<B, S, X, R, D, L, G>
where
    B: Chain,
    S: Data + Clone + Sync,
    X: Feed<B::Item, B::Time>,
    D: Default + Send + 'static,
    L: for<'a, 'b> Fn(&mut D, &'b <X::Seen as Record>::Of<'a>) + Send + Sync + 'static,
    G: Fn(&mut D, D) + Send + Sync + 'static,
{
    /// At the end of each round, the closure changes the state by what the round has come to, and answers whether
    /// the loop is to end; it also ends when nothing is left for another round, and after the most rounds.
    ///
    /// Gives a stream with one record, what has come of the loop, and the stream of what came out of the last
    /// round, or of the solution. In the body of another loop, both speak in each of that one's rounds.
    pub fn until(
        self,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> (Outcomes<S, B::Time>, R) {
        let Self { iterating, local, global, .. } = self;
        let Iterating { body, control, feed, outcome, rest, origin } = iterating;
        let meeting = Arc::new(Meeting::new(control, body.tasks(), global, until));
        let fold = Arc::new(local);
        body.close(origin, "the end of a round".to_owned(), move |cx, op| {
            let finish = FoldAndFeed { fold: Arc::clone(&fold), feed: feed(cx, op) };
            Ok(TailPush::new(cx, op, &meeting, finish))
        });
        (outcome, rest)
    }

    /// As [`until`](Self::until), with a closure that only changes the state.
    pub fn all_rounds(
        self,
        update: impl Fn(&mut S, D) + Send + Sync + 'static,
    ) -> (Outcomes<S, B::Time>, R) {
        self.until(move |state, part| {
            update(state, part);
            false
        })
    }
}
