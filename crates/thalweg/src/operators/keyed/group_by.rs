//! Operators that give a stream keys; `unkey` removes them.

use super::{ByRef, FirstOf, KeyedStream};
use crate::data::{ByValue, Key, Record};
use crate::operators::per_record::map::Map;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

impl<C: Chain> Stream<C> {
    /// Groups records by a key that the closure computes.
    ///
    /// The values of the keyed stream are the records. Where the key is already a part of the record,
    /// [`group_by_ref`](Self::group_by_ref) borrows it, and computes and copies nothing.
    ///
    /// This alone moves no record. The operator after it does, if it needs all records of a key in one task.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let last_digits = env.iter(0..95u64).group_by(|n| n % 10).count().collect::<Vec<_>>();
    /// env.run()?;
    /// let mut counts = last_digits.take()?;
    /// counts.sort();
    /// assert_eq!(counts[4..6], [(4, 10), (5, 9)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("keyBy", "groupBy"))]
    #[doc(alias = "key_by")]
    #[track_caller]
    pub fn group_by<V, K, F>(
        self,
        key: F,
    ) -> KeyedStream<
        Map<
            C,
            impl for<'a> Fn(<C::Item as Record>::Of<'a>) -> (K, V) + Send + Sync + use<C, V, K, F>,
            (K, V),
        >,
        FirstOf,
    >
    where
        C: Chain<Item = V>,
        V: ByValue,
        K: Key,
        F: Fn(&V) -> K + Send + Sync + 'static,
    {
        let pair = move |value: V| (key(&value), value);
        KeyedStream::new(self.map_as(Origin::here("group_by"), pair), FirstOf)
    }

    /// Groups records by a part of the record that the closure borrows.
    ///
    /// The key is looked up in place, and copied only when it is new. The values of the keyed stream are the whole
    /// records. For a key that must be computed see [`group_by`](Self::group_by).
    ///
    /// ```
    /// use thalweg::{Data, Environment};
    ///
    /// #[derive(Data)]
    /// struct Order { customer: String, amount: u64 }
    ///
    /// let env = Environment::new();
    /// let orders = [("ann", 3), ("bob", 5), ("ann", 4)];
    /// let orders = orders.map(|(c, amount)| Order { customer: c.to_owned(), amount });
    /// let totals = env
    ///     .iter(orders)
    ///     .group_by_ref(|order| order.customer.as_str())
    ///     .sum(|order| order.amount)
    ///     .collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(totals.take()?["ann"], 7);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("key_by", "keyBy"))]
    #[track_caller]
    pub fn group_by_ref<K, F>(self, key: F) -> KeyedStream<C, ByRef<F, K>>
    where
        K: Key + ?Sized,
        F: for<'a, 'k> Fn(&'k <C::Item as Record>::Of<'a>) -> &'k K + Send + Sync + 'static,
    {
        KeyedStream::new(self, ByRef::new(key))
    }

    /// Treats pairs as keys and values.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([(1, 'a'), (1, 'b')]).keyed().count().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 2)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn keyed<K, V>(self) -> KeyedStream<C, FirstOf>
    where
        C: Chain<Item = (K, V)>,
        K: Key,
        V: 'static,
    {
        KeyedStream::new(self, FirstOf)
    }
}
