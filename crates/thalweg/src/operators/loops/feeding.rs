//! Loops with feedback: how a round is folded, and how the loop ends.

use super::control::{Control, Meeting};
use super::head::Outcomes;
use super::hosts::tie_tail;
use super::tail::{Feed, FoldAndFeed, TailPush};
use crate::data::{Data, Record};
use crate::error::Result;
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;
use std::sync::Arc;

/// Makes the feedback of a tail.
pub(super) type MakeFeed<X> = Box<dyn Fn(&TaskContext<'_>, usize) -> Result<X> + Send>;

/// A loop with feedback, begun by [`Stream::iterate`] or [`delta_iterate`](crate::KeyedStream::delta_iterate):
/// choose how its rounds are folded.
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
    /// Defines how a round is folded: `local` merges a record into its task's partial state, which begins with
    /// the default; `global` merges one task's partial state into another's, in the order of the tasks. The
    /// order in which `local` sees the records of a task is unspecified. With [`Stream::iterate`] it sees the
    /// records that come out of the body, and with [`delta_iterate`](crate::KeyedStream::delta_iterate) the
    /// entries that have changed, each once. On several hosts, partial states are merged on each and then sent, so they
    /// are [`Data`].
    pub fn fold<D, L, G>(self, local: L, global: G) -> Folded<B, S, X, R, D, L, G>
    where
        D: Data + Default,
        L: for<'a, 'b> Fn(&mut D, &'b <X::Seen as Record>::Of<'a>) + Send + Sync + 'static,
        G: Fn(&mut D, D) + Send + Sync + 'static,
    {
        Folded { iterating: self, local, global, part: PhantomData }
    }

    /// Folds nothing, and leaves the state as it is: the loop ends when no records are left for another round,
    /// and after the maximum number of rounds. Returns the same streams as [`until`](Folded::until).
    pub fn all_rounds(self) -> (Outcomes<S, B::Time>, R) {
        self.fold(|(): &mut (), _| {}, |(), ()| {}).all_rounds(|_, ()| {})
    }
}

/// A loop whose rounds are folded: choose what the result of a fold changes, and when the loop ends.
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
    D: Data + Default,
    L: for<'a, 'b> Fn(&mut D, &'b <X::Seen as Record>::Of<'a>) + Send + Sync + 'static,
    G: Fn(&mut D, D) + Send + Sync + 'static,
{
    /// At the end of each round, the closure changes the state by the result of the round's fold, and returns
    /// whether the loop is to end. The loop also ends when no records are left for another round, and after the
    /// maximum number of rounds.
    ///
    /// On several hosts, each has a copy of the state and calls the closure, with the same values. It must do the same on
    /// all of them, so it must not depend on anything else, such as the time; if hosts differ on whether the loop is to
    /// end, the job fails.
    ///
    /// Returns a stream with one record, the outcome of the loop, and the stream of the records that came out
    /// of the last round, or of the solution. In the body of another loop, both emit in each round of that
    /// loop.
    pub fn until(
        self,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> (Outcomes<S, B::Time>, R) {
        let Self { iterating, local, global, .. } = self;
        let Iterating { body, control, feed, outcome, rest, origin } = iterating;
        let (env, stage, head) = (body.env.clone(), body.stage, control.head);
        let meeting = Arc::new(Meeting::new(control, global, until));
        let fold = Arc::new(local);
        body.close(origin, Details::of("tail", true), move |cx, op| {
            let finish = FoldAndFeed { fold: Arc::clone(&fold), feed: feed(cx, op)? };
            TailPush::new(cx, op, &meeting, finish)
        });
        tie_tail(&mut env.builder(), head, stage);
        (outcome, rest)
    }

    /// Like [`until`](Self::until), with a closure that only changes the state.
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
