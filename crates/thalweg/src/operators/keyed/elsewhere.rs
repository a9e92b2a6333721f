//! Methods that only the other kind of stream has, so that the compiler says how to get there.
//!
//! A stream without keys has no `join`, and a keyed one no `sorted`. Were such a method simply not
//! there, the compiler would say so and propose whatever has a similar name. Here it is there, behind
//! a bound that nothing meets and whose message names the call that is missing. Nothing in this file
//! ever runs.

use super::KeyedStream;
use crate::data::{Portable, Record};
use crate::stream::{Chain, Stream};
use std::cmp::Ordering;
use std::path::Path;

/// What no [`Stream`] is.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this operator works by key, and the stream has no keys",
    label = "needs a keyed stream",
    note = "say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs",
    note = "windows over all records are made by `window_all`"
)]
pub trait HasKeys: Sized {
    /// Stands for the method's body.
    fn never(self) -> !;
}

/// What no [`KeyedStream`] is.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this operator does not work by key, and the stream has keys",
    label = "needs a stream without keys",
    note = "make it a stream of pairs of key and value first: `unkey`"
)]
pub trait HasNoKeys: Sized {
    /// Stands for the method's body.
    fn never(self) -> !;
}

type Item<'a, C> = <<C as Chain>::Item as Record>::Of<'a>;
type Owned<C> = <<C as Chain>::Item as Portable>::Owned;

/// What a keyed stream has.
#[doc(hidden)]
impl<C: Chain> Stream<C> {
    pub fn join<D>(self, _right: D) -> Self
    where
        Self: HasKeys,
    {
        self.never()
    }

    pub fn left_join<D>(self, _right: D) -> Self
    where
        Self: HasKeys,
    {
        self.never()
    }

    pub fn join_with<D>(self, _right: D) -> Self
    where
        Self: HasKeys,
    {
        self.never()
    }

    pub fn unkey(self) -> Self
    where
        Self: HasKeys,
    {
        self.never()
    }

    pub fn window<W>(self, _window: W) -> Self
    where
        Self: HasKeys,
    {
        self.never()
    }
}

/// What a stream without keys has.
#[doc(hidden)]
impl<C: Chain, G, P> KeyedStream<C, G, P> {
    pub fn sorted(self) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn sorted_by<F>(self, _compare: F) -> Stream<C>
    where
        Self: HasNoKeys,
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering,
    {
        self.never()
    }

    pub fn sorted_by_key<K, F>(self, _key: F) -> Stream<C>
    where
        Self: HasNoKeys,
        C::Item: Portable,
        F: Fn(&Owned<C>) -> K,
    {
        self.never()
    }

    pub fn map_async<A, F>(self, _calls: A, _f: F) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn try_map_async<A, F>(self, _calls: A, _f: F) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn map_blocking<A, F>(self, _calls: A, _f: F) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn try_map_blocking<A, F>(self, _calls: A, _f: F) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn map_memo<F>(self, _capacity: usize, _f: F) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn cross<D>(self, _other: D) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn route(self) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn zip<D>(self, _other: D) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn top(self, _n: usize) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn top_by<F>(self, _n: usize, _compare: F) -> Stream<C>
    where
        Self: HasNoKeys,
        C::Item: Portable,
        F: Fn(&Owned<C>, &Owned<C>) -> Ordering,
    {
        self.never()
    }

    pub fn for_each<F>(self, _f: F)
    where
        Self: HasNoKeys,
        F: for<'a> Fn(Item<'a, C>),
    {
        self.never()
    }

    pub fn print(self)
    where
        Self: HasNoKeys,
    {
        self.never()
    }
    pub fn unique(self) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn limit(self, _n: u64) -> Stream<C>
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn write_lines(self, _path: impl AsRef<Path>)
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn write_csv(self, _path: impl AsRef<Path>)
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    pub fn write_json_lines(self, _path: impl AsRef<Path>)
    where
        Self: HasNoKeys,
    {
        self.never()
    }
}
