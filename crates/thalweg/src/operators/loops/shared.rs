//! The state of a loop, as its body reads it.

use super::control::Control;
use super::hosts::tie_reader;
use crate::data::{Covariant, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Flow, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The state of a loop, as of the beginning of the round: the argument of a body, which pairs it with its
/// records by [`Stream::with`].
pub struct Shared<S>(pub(super) Arc<Control<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A record with the state of a loop: closures behind [`Stream::with`] see a pair of both.
pub struct Beside<I: ?Sized, S> {
    types: PhantomData<(fn(&I), fn(S))>,
    // Makes the type unsized, so that it does not collide with other kinds of record.
    _unsized: [()],
}

impl<I: Record + ?Sized, S: 'static> Record for Beside<I, S> {
    type Of<'a> = (I::Of<'a>, &'a S);
}

impl<I: Covariant + ?Sized, S: 'static> Covariant for Beside<I, S> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(
        (item, state): (I::Of<'long>, &'long S),
    ) -> (I::Of<'short>, &'short S) {
        (I::shorten(item), state)
    }
}

impl<C: Chain<Item: Covariant>> Stream<C> {
    /// Pairs each record with the state of a loop, as it was when the round began.
    ///
    /// Takes no copy and no lock per record: the operators that follow get a reference. See
    /// [`replay`](Self::replay) for an example.
    ///
    /// # Errors
    ///
    /// On several hosts, if it is called after the loop's body has been described, the job is refused at its start.
    #[track_caller]
    pub fn with<S>(
        self,
        shared: &Shared<S>,
    ) -> Stream<impl Chain<Item = Beside<C::Item, S>, Time = C::Time> + use<C, S>>
    where
        S: Clone + Send + Sync + 'static,
    {
        let shared = shared.clone();
        let (described, head) = (shared.0.is_described(), shared.0.head);
        let with = self.then(Origin::here("with"), |prev, op| With { prev, op, shared });
        if described && with.env.hosts_if_several().is_some() {
            let what = "on several hosts, the state of a loop can only be read in the loop's body";
            with.refuse(Error::new(ErrorKind::Plan, what));
        }
        tie_reader(&mut with.builder(), head, with.stage);
        with
    }
}

struct With<C, S> {
    prev: C,
    op: usize,
    shared: Shared<S>,
}

impl<C: Chain<Item: Covariant>, S: Clone + Send + Sync + 'static> Chain for With<C, S> {
    type Item = Beside<C::Item, S>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<WithPush<C::Item, S, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let control = &self.shared.0;
        let several = cx.links.hosts().count() > 1;
        if several {
            control.join_hosts(cx, self.op)?;
            control.add_reader(cx.waker.clone());
        }
        let push = WithPush {
            control: Arc::clone(control),
            awaits: several.then_some(0),
            seen: None,
            value: None,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Pairs records with the state in a running task.
struct WithPush<I: ?Sized, S, N> {
    control: Arc<Control<S>>,
    /// On several hosts, the number of rounds that have ended for this task: records of the next one may be there before
    /// its state, which the task then waits for.
    awaits: Option<u64>,
    /// The number of rounds after which the state was last read.
    seen: Option<u64>,
    /// Its value, dropped at the end of the round, so that the state can be changed without a copy.
    value: Option<Arc<S>>,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, S: Clone + Send + Sync, N: Pipe> Pipe for WithPush<I, S, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if let Event::Round(depth) = event {
            self.value = None;
            if let Some(rounds) = &mut self.awaits
                && depth == self.control.depth
            {
                *rounds += 1;
            }
        }
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        let rounds = self.control.rounds_here();
        if self.awaits.is_some_and(|awaited| awaited > rounds) {
            return match self.next.resume() {
                Flow::Ready => Flow::Waiting,
                other => other,
            };
        }
        if self.seen != Some(rounds) {
            (self.seen, self.value) = (Some(rounds), Some(self.control.state()));
        }
        self.next.resume()
    }
}

impl<I, S, T, N> Push<I, T> for WithPush<I, S, N>
where
    I: Covariant + ?Sized,
    S: Clone + Send + Sync + 'static,
    T: Time,
    N: Push<Beside<I, S>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let value = self.value.get_or_insert_with(|| self.control.state());
        self.next.push((I::shorten(item), value), time);
    }
}
