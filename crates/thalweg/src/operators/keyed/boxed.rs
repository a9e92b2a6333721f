//! Type erasure for keyed streams.

use super::{FirstOf, KeyedStream, Pairs};
use crate::data::Data;
use crate::stream::{Boxed, Chain};

impl<C: Chain, G: Pairs<C>, P> KeyedStream<C, G, P>
where
    G::OwnedKey: Data,
    G::OwnedValue: Data,
{
    /// Erases the types of the operators so far: the result is a keyed stream of pairs whose type can be named. Its
    /// records stay where they are. See [`Stream::boxed`](crate::Stream::boxed) for when to use it, and for what it
    /// costs; after [`group_by_ref`](crate::Stream::group_by_ref) it copies each record's key as well.
    ///
    /// ```
    /// use thalweg::prelude::*;
    ///
    /// struct Accounts {
    ///     balances: KeyedStream<Boxed<(u32, i64)>, FirstOf, Partitioned>,
    /// }
    ///
    /// let env = Environment::new();
    /// let moved = env.iter([(1, 20), (2, 10), (1, -5)]).keyed();
    /// let accounts = Accounts { balances: moved.sum(|euros| euros * 100).boxed() };
    /// let out = accounts.balances.filter(|_, balance| *balance > 1000).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 1500)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn boxed(self) -> KeyedStream<Boxed<(G::OwnedKey, G::OwnedValue), C::Time>, FirstOf, P> {
        KeyedStream::new(self.unkey().boxed(), FirstOf)
    }
}
