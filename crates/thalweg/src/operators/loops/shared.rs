//! The state of a loop, as its body reads it.

use crate::data::{Covariant, Record};
use crate::error::Result;
use crate::flow::{Event, Flow, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The state of a loop, as of the beginning of the round: the argument of a body, which pairs it with its
/// records by [`Stream::with`].
pub struct Shared<S>(Arc<Versions<S>>);

struct Versions<S> {
    /// How often the value has changed.
    version: AtomicU64,
    value: Mutex<Arc<S>>,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Clone> Shared<S> {
    pub(super) fn new(value: S) -> Self {
        Self(Arc::new(Versions { version: AtomicU64::new(0), value: Mutex::new(Arc::new(value)) }))
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Arc<S> {
        Arc::clone(&lock(&self.0.value))
    }

    /// Changes the value. It is copied only if another handle to it exists, which is not the case between two
    /// rounds.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let answer = change(Arc::make_mut(&mut lock(&self.0.value)));
        self.0.version.fetch_add(1, Ordering::Release);
        answer
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
    #[track_caller]
    pub fn with<S>(
        self,
        shared: &Shared<S>,
    ) -> Stream<impl Chain<Item = Beside<C::Item, S>, Time = C::Time> + use<C, S>>
    where
        S: Clone + Send + Sync + 'static,
    {
        let shared = shared.clone();
        self.then(Origin::here("with"), |prev, _| With { prev, shared })
    }
}

struct With<C, S> {
    prev: C,
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
        let shared = self.shared.clone();
        self.prev.attach(cx, WithPush { shared, seen: None, value: None, next, types: PhantomData })
    }
}

/// Pairs records with the state in a running task.
struct WithPush<I: ?Sized, S, N> {
    shared: Shared<S>,
    /// The version that was last read.
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
        if matches!(event, Event::Round(_)) {
            self.value = None;
        }
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        let version = Some(self.shared.version());
        if self.seen != version {
            (self.seen, self.value) = (version, Some(self.shared.get()));
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
        let value = self.value.get_or_insert_with(|| self.shared.get());
        self.next.push((I::shorten(item), value), time);
    }
}
