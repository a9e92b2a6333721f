//! How key and value are found in a record.

use crate::data::{Key, Portable, Record};
use crate::exchange::Hashed;
use std::marker::PhantomData;
use std::sync::Arc;

/// Finds key and value in the records of a keyed stream.
///
/// Programs need it only in the bounds of functions that are generic over keyed streams.
pub trait KeyBy<I: Record + ?Sized>: Clone + Send + Sync + 'static {
    /// What the records are grouped by.
    type Key: Key + ?Sized;
    /// The value that the operators after it receive.
    type Value: Record + ?Sized;

    /// The key, by reference.
    fn key<'k>(&self, item: &'k I::Of<'_>) -> &'k Self::Key;

    /// The key's hash.
    #[inline(always)]
    fn hash(&self, item: &I::Of<'_>) -> u64 {
        Self::Key::hash(self.key(item).probe())
    }

    /// Moves the value out of the record.
    fn value<'a>(&self, item: I::Of<'a>) -> <Self::Value as Record>::Of<'a>;

    /// Moves key and value out of the record; the key is copied where it cannot be moved.
    #[inline(always)]
    fn pair<'a>(&self, item: I::Of<'a>) -> Pair<'a, Self::Key, Self::Value> {
        let key = self.key(&item).own();
        (key, self.value(item))
    }
}

/// An owned key, and its value as a closure sees it.
type Pair<'a, K, V> = (<K as Portable>::Owned, <V as Record>::Of<'a>);

/// Finds key and value in records that contain the value itself, so that it can be borrowed.
#[diagnostic::on_unimplemented(
    message = "the values of this stream are pairs of a value and a borrowed state, and cannot be shown by reference",
    label = "needs values that are not beside a state",
    note = "use `filter_map` in place of `filter`, and `map` in place of `inspect`: they take the pair"
)]
pub trait ValueRef<I: Record + ?Sized>: KeyBy<I> {
    /// The value, by reference.
    fn value_ref<'k, 'a>(&self, item: &'k I::Of<'a>) -> &'k <Self::Value as Record>::Of<'a>;
}

/// Recovers the original record from a record of a keyed stream, without what the exchange by key has added.
pub trait Plain<I: Record + ?Sized>: KeyBy<I> {
    /// The original record, without what was added.
    type Record: Record + ?Sized;

    /// Removes what was added.
    fn plain<'a>(item: I::Of<'a>) -> <Self::Record as Record>::Of<'a>;
}

/// The key is the first element of a pair, the value the second.
#[derive(Clone, Copy, Debug)]
pub struct FirstOf;

impl<K: Key, V: 'static> KeyBy<(K, V)> for FirstOf {
    type Key = K;
    type Value = V;

    #[inline(always)]
    fn key<'k>(&self, item: &'k <(K, V) as Record>::Of<'_>) -> &'k K {
        &item.0
    }

    #[inline(always)]
    fn value<'a>(&self, item: <(K, V) as Record>::Of<'a>) -> <V as Record>::Of<'a> {
        item.1
    }

    #[inline(always)]
    fn pair<'a>(&self, (key, value): (K, V)) -> Pair<'a, K, V> {
        (key.into_owned(), value)
    }
}

impl<K: Key, V: 'static> ValueRef<(K, V)> for FirstOf {
    #[inline(always)]
    fn value_ref<'k, 'a>(&self, item: &'k <(K, V) as Record>::Of<'a>) -> &'k <V as Record>::Of<'a> {
        &item.1
    }
}

impl<K: Key, V: 'static> Plain<(K, V)> for FirstOf {
    type Record = (K, V);

    #[inline(always)]
    fn plain<'a>(item: <(K, V) as Record>::Of<'a>) -> <(K, V) as Record>::Of<'a> {
        item
    }
}

/// The key is a part of the record, which a closure borrows; the value is the whole record.
pub struct ByRef<F, K: ?Sized> {
    find: Arc<F>,
    key: PhantomData<fn(&K)>,
}

impl<F, K: ?Sized> ByRef<F, K> {
    pub(in crate::operators) fn new(find: F) -> Self {
        Self { find: Arc::new(find), key: PhantomData }
    }
}

impl<F, K: ?Sized> Clone for ByRef<F, K> {
    fn clone(&self) -> Self {
        Self { find: Arc::clone(&self.find), key: PhantomData }
    }
}

impl<I, F, K> KeyBy<I> for ByRef<F, K>
where
    I: Record + ?Sized,
    F: for<'a, 'k> Fn(&'k I::Of<'a>) -> &'k K + Send + Sync + 'static,
    K: Key + ?Sized,
{
    type Key = K;
    type Value = I;

    #[inline(always)]
    fn key<'k>(&self, item: &'k I::Of<'_>) -> &'k K {
        (self.find)(item)
    }

    #[inline(always)]
    fn value<'a>(&self, item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}

impl<I, F, K> ValueRef<I> for ByRef<F, K>
where
    I: Record + ?Sized,
    F: for<'a, 'k> Fn(&'k I::Of<'a>) -> &'k K + Send + Sync + 'static,
    K: Key + ?Sized,
{
    #[inline(always)]
    fn value_ref<'k, 'a>(&self, item: &'k I::Of<'a>) -> &'k I::Of<'a> {
        item
    }
}

impl<I, F, K> Plain<I> for ByRef<F, K>
where
    I: Record + ?Sized,
    F: for<'a, 'k> Fn(&'k I::Of<'a>) -> &'k K + Send + Sync + 'static,
    K: Key + ?Sized,
{
    type Record = I;

    #[inline(always)]
    fn plain<'a>(item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}

/// The record carries the hash of its key; `G` finds key and value.
#[derive(Clone, Copy, Debug)]
pub struct Carried<G>(pub(in crate::operators) G);

impl<I: Record + ?Sized, G: KeyBy<I>> KeyBy<Hashed<I>> for Carried<G> {
    type Key = G::Key;
    type Value = G::Value;

    #[inline(always)]
    fn key<'k>(&self, item: &'k (u64, I::Of<'_>)) -> &'k G::Key {
        self.0.key(&item.1)
    }

    #[inline(always)]
    fn hash(&self, item: &(u64, I::Of<'_>)) -> u64 {
        item.0
    }

    #[inline(always)]
    fn value<'a>(&self, item: (u64, I::Of<'a>)) -> <G::Value as Record>::Of<'a> {
        self.0.value(item.1)
    }

    #[inline(always)]
    fn pair<'a>(&self, item: (u64, I::Of<'a>)) -> Pair<'a, G::Key, G::Value> {
        self.0.pair(item.1)
    }
}

impl<I: Record + ?Sized, G: ValueRef<I>> ValueRef<Hashed<I>> for Carried<G> {
    #[inline(always)]
    fn value_ref<'k, 'a>(&self, item: &'k (u64, I::Of<'a>)) -> &'k <G::Value as Record>::Of<'a> {
        self.0.value_ref(&item.1)
    }
}

impl<I: Record + ?Sized, G: Plain<I>> Plain<Hashed<I>> for Carried<G> {
    type Record = G::Record;

    #[inline(always)]
    fn plain<'a>(item: (u64, I::Of<'a>)) -> <G::Record as Record>::Of<'a> {
        G::plain(item.1)
    }
}
