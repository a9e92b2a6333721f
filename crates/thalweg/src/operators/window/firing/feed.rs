//! Adds input items to the tables of their slices.

use crate::data::{Key, Record};
use crate::exchange::PartialEntry;
use crate::operators::aggregates::Combine;
use crate::operators::keyed::KeyBy;
use crate::operators::window::slicing::SlicePart;
use crate::state::GroupTable;
use std::marker::PhantomData;
use std::sync::Arc;

/// Defines how an input item is added to the table of its slice.
pub trait Feed<I: Record + ?Sized>: Clone + Send + 'static {
    /// The kind of key.
    type Key: Key + ?Sized;
    /// The state of a key in a slice.
    #[doc(hidden)]
    type State: crate::Data + Clone;
    /// The result type.
    type Output: crate::Data;

    /// The slice, if it is not that of the timestamp.
    #[doc(hidden)]
    fn slice(&self, item: &I::Of<'_>) -> Option<i64>;

    /// Calls a closure with the key and its hash.
    #[doc(hidden)]
    fn see_key<R>(&self, item: &I::Of<'_>, see: impl FnOnce(u64, &Self::Key) -> R) -> R;

    /// Adds the item to the table.
    #[doc(hidden)]
    fn take(&self, table: &mut GroupTable<Self::Key, Self::State>, item: I::Of<'_>);

    /// Merges the state of one slice into that of another.
    #[doc(hidden)]
    fn combine(&self, into: &mut Self::State, from: Self::State);

    /// Whether the state of a slice can be subtracted.
    #[doc(hidden)]
    const INVERTIBLE: bool;

    /// Subtracts the state of a slice, if the aggregate is invertible.
    #[doc(hidden)]
    fn subtract(&self, from: &mut Self::State, what: &Self::State);

    /// Computes the result.
    #[doc(hidden)]
    fn finish(&self, state: Self::State) -> Self::Output;
}

/// The input consists of records.
pub struct Values<A, G> {
    pub(in crate::operators::window) aggregate: Arc<A>,
    pub(in crate::operators::window) keys: G,
}

impl<A, G: Clone> Clone for Values<A, G> {
    fn clone(&self) -> Self {
        Self { aggregate: Arc::clone(&self.aggregate), keys: self.keys.clone() }
    }
}

impl<I, A, G> Feed<I> for Values<A, G>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value, State: Clone>,
{
    type Key = G::Key;
    type State = A::State;
    type Output = A::Output;

    #[inline(always)]
    fn slice(&self, _: &I::Of<'_>) -> Option<i64> {
        None
    }

    #[inline(always)]
    fn see_key<R>(&self, item: &I::Of<'_>, see: impl FnOnce(u64, &G::Key) -> R) -> R {
        see(self.keys.hash(item), self.keys.key(item))
    }

    #[inline(always)]
    fn take(&self, table: &mut GroupTable<G::Key, A::State>, item: I::Of<'_>) {
        let (hash, key) = (self.keys.hash(&item), self.keys.key(&item));
        let known = table.entry(hash, key.probe(), key, || self.aggregate.start());
        known.guard(|state| self.aggregate.update(state, self.keys.value(item)));
    }

    fn combine(&self, into: &mut A::State, from: A::State) {
        self.aggregate.combine(into, from);
    }

    const INVERTIBLE: bool = A::INVERSE.is_some();

    fn subtract(&self, from: &mut A::State, what: &A::State) {
        if let Some(inverse) = A::INVERSE {
            inverse(&self.aggregate, from, what);
        }
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}

/// The input consists of partial aggregates of other tasks.
pub struct Parts<A, K: ?Sized, V: ?Sized> {
    aggregate: Arc<A>,
    types: PhantomData<fn(&K, &V)>,
}

impl<A, K: ?Sized, V: ?Sized> Parts<A, K, V> {
    pub(in crate::operators::window) fn new(aggregate: Arc<A>) -> Self {
        Self { aggregate, types: PhantomData }
    }
}

impl<A, K: ?Sized, V: ?Sized> Clone for Parts<A, K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.aggregate))
    }
}

impl<K, V, A> Feed<SlicePart<K, A::State>> for Parts<A, K, V>
where
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V, State: Clone>,
{
    type Key = K;
    type State = A::State;
    type Output = A::Output;

    #[inline(always)]
    fn slice(&self, part: &PartialEntry<'_, K, (i64, A::State)>) -> Option<i64> {
        Some(part.state.0)
    }

    #[inline(always)]
    fn see_key<R>(
        &self,
        part: &PartialEntry<'_, K, (i64, A::State)>,
        see: impl FnOnce(u64, &K) -> R,
    ) -> R {
        K::view(&part.key, part.arena, |key| see(part.hash, key))
    }

    #[inline(always)]
    fn take(
        &self,
        table: &mut GroupTable<K, A::State>,
        part: PartialEntry<'_, K, (i64, A::State)>,
    ) {
        match table.known(part.hash, part.probe()) {
            Some(known) => known.guard(|state| self.aggregate.combine(state, part.state.1)),
            None => table.insert_slot(part.hash, part.key, part.arena, part.state.1),
        }
    }

    fn combine(&self, into: &mut A::State, from: A::State) {
        self.aggregate.combine(into, from);
    }

    const INVERTIBLE: bool = A::INVERSE.is_some();

    fn subtract(&self, from: &mut A::State, what: &A::State) {
        if let Some(inverse) = A::INVERSE {
            inverse(&self.aggregate, from, what);
        }
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}
