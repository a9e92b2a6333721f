//! Operators on the values of a keyed stream that look at one value at a time.

use super::{FirstOf, KeyBy, KeyedStream, ValueRef};
use crate::data::{Key, Portable, Record};
use crate::operators::per_record::filter::Filter;
use crate::operators::per_record::map::Map;
use crate::plan::Origin;
use crate::stream::Chain;
use std::borrow::Borrow;

// The record type is a parameter of its own. Written as the chain's item, the compiler cannot resolve it in the types
// of closures after operators that pass records on unchanged, such as `assign_timestamps`.
impl<I, C, G, P> KeyedStream<C, G, P>
where
    I: Record + ?Sized,
    C: Chain<Item = I>,
    G: KeyBy<I>,
    P: 'static,
{
    /// Maps each value to another, under the same key. Moves no record.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(1..4u64).group_by(|n| n % 2).map(|key, n| 10 * key + n).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 11), (0, 2), (1, 13)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("map_values", "mapValues"))]
    #[track_caller]
    pub fn map<O, F>(
        self,
        f: F,
    ) -> KeyedStream<
        Map<
            C,
            impl for<'a> Fn(I::Of<'a>) -> (<G::Key as Portable>::Owned, O)
            + Send
            + Sync
            + use<I, C, G, P, O, F>,
            (<G::Key as Portable>::Owned, O),
        >,
        FirstOf,
        P,
    >
    where
        O: 'static,
        <G::Key as Portable>::Owned: Key + Borrow<G::Key>,
        F: for<'a, 'k> Fn(&'k G::Key, <G::Value as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        let keys = self.keys;
        let under_key = move |item: I::Of<'_>| {
            let (key, value) = keys.pair(item);
            let output = f(key.borrow(), value);
            (key, output)
        };
        KeyedStream::new(self.stream.map_as(Origin::here("map"), under_key), FirstOf)
    }

    /// Keeps the values for which the closure returns `true`. Moves no record.
    ///
    /// To change the values as well, see [`filter_map`](Self::filter_map).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env
    ///     .iter(0..10u64)
    ///     .group_by(|n| n % 3)
    ///     .filter(|key, n| *key == 1 && *n > 1)
    ///     .count()
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 2)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("where"))]
    #[track_caller]
    pub fn filter<F>(
        self,
        keep: F,
    ) -> KeyedStream<
        Filter<C, impl for<'a, 'b> Fn(&'b I::Of<'a>) -> bool + Send + Sync + use<I, C, G, P, F>>,
        G,
        P,
    >
    where
        G: ValueRef<I>,
        F: for<'a, 'k> Fn(&'k G::Key, &'k <G::Value as Record>::Of<'a>) -> bool
            + Send
            + Sync
            + 'static,
    {
        let keys = self.keys.clone();
        let keep = move |item: &I::Of<'_>| keep(keys.key(item), keys.value_ref(item));
        KeyedStream::new(self.stream.filter(keep), self.keys)
    }

    /// Maps each value and keeps those results that are `Some`, under the same key. Moves no record.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let texts = env.iter([(1, "7"), (2, "x"), (1, "8")]).keyed();
    /// let numbers = texts.filter_map(|_, text| text.parse::<u32>().ok());
    /// let out = numbers.sum(|n| n * 10).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 150)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("rich_filter_map"))]
    #[track_caller]
    pub fn filter_map<O, F>(
        self,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (<G::Key as Portable>::Owned, O), Time = C::Time> + use<I, C, G, P, O, F>,
        FirstOf,
        P,
    >
    where
        O: 'static,
        <G::Key as Portable>::Owned: Key + Borrow<G::Key>,
        F: for<'a, 'k> Fn(&'k G::Key, <G::Value as Record>::Of<'a>) -> Option<O>
            + Send
            + Sync
            + 'static,
    {
        let keys = self.keys;
        let under_key = move |item: I::Of<'_>| {
            let (key, value) = keys.pair(item);
            let output = f(key.borrow(), value)?;
            Some((key, output))
        };
        KeyedStream::new(self.stream.filter_map(under_key), FirstOf)
    }

    /// Maps each value to any number of values, under the same key: emits everything that the closure's result
    /// iterates over. Moves no record.
    ///
    /// The iterator owns what it iterates over, and may be endless, as in
    /// [`Stream::flat_map`](crate::Stream::flat_map). Each of its values gets a copy of the key. To keep a state for
    /// each key, see [`stateful_flat_map`](Self::stateful_flat_map).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let baskets = env.iter([("ann", vec![3, 4]), ("bob", vec![]), ("ann", vec![5])]);
    /// let baskets = baskets.map(|(name, prices)| (name.to_owned(), prices)).keyed();
    /// let out = baskets.flat_map(|_, prices| prices).sum(|price| price * 10).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [("ann".to_owned(), 120)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("flatMap", "explode"))]
    #[track_caller]
    pub fn flat_map<O, F>(
        self,
        f: F,
    ) -> KeyedStream<
        impl Chain<Item = (<G::Key as Portable>::Owned, O::Item), Time = C::Time>
        + use<I, C, G, P, O, F>,
        FirstOf,
        P,
    >
    where
        O: IntoIterator<IntoIter: Send + 'static, Item: 'static> + 'static,
        <G::Key as Portable>::Owned: Key + Borrow<G::Key>,
        F: for<'a, 'k> Fn(&'k G::Key, <G::Value as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        let keys = self.keys;
        let under_key = move |item: I::Of<'_>| {
            let (key, value) = keys.pair(item);
            let values = f(key.borrow(), value).into_iter();
            UnderKey::<G::Key, _> { key, values }
        };
        KeyedStream::new(self.stream.flat_map(under_key), FirstOf)
    }

    /// Emits the items that each value iterates over, under the same key: the elements of a list, or the value of an
    /// `Option` that is `Some`. Moves no record; each item gets a copy of the key.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([(1, Some('a')), (2, None)]).keyed().flatten().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 'a')]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("explode"))]
    #[track_caller]
    pub fn flatten<O>(
        self,
    ) -> KeyedStream<
        impl Chain<Item = (<G::Key as Portable>::Owned, O::Item), Time = C::Time> + use<I, C, G, P, O>,
        FirstOf,
        P,
    >
    where
        G: KeyBy<I, Value = O>,
        O: IntoIterator<IntoIter: Send + 'static, Item: 'static> + 'static,
        <G::Key as Portable>::Owned: Key + Borrow<G::Key>,
    {
        self.flat_map(|_, values| values)
    }

    /// Calls the closure with a reference to each value and passes the value on unchanged; see
    /// [`Stream::inspect`](crate::Stream::inspect). Moves no record.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sums = env.iter(1..4u64).group_by(|_| 'k').sum(|n| n * 10);
    /// let out = sums.inspect(|key, sum| assert_eq!((*key, *sum), ('k', 60))).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [('k', 60)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("peek"))]
    #[track_caller]
    pub fn inspect<F>(
        self,
        see: F,
    ) -> KeyedStream<impl Chain<Item = I, Time = C::Time> + use<I, C, G, P, F>, G, P>
    where
        G: ValueRef<I>,
        F: for<'a, 'k> Fn(&'k G::Key, &'k <G::Value as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let keys = self.keys.clone();
        let see = move |item: &I::Of<'_>| see(keys.key(item), keys.value_ref(item));
        KeyedStream::new(self.stream.inspect(see), self.keys)
    }
}

/// Pairs each value with a copy of the key.
struct UnderKey<K: Key + ?Sized, V> {
    key: K::Owned,
    values: V,
}

impl<K: Key<Owned: Borrow<K>> + ?Sized, V: Iterator> Iterator for UnderKey<K, V> {
    type Item = (K::Owned, V::Item);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let value = self.values.next()?;
        Some((self.key.borrow().own(), value))
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::{check, every};

    fn exchanges(env: &Environment) -> usize {
        env.plan().operators.iter().filter(|op| op.kind == "repartition").count()
    }

    #[test]
    fn values_change_and_keys_stay() {
        let keyed = |env: &Environment| env.range(0..1000).group_by(|n| n % 7);
        let all = || (0..1000u64).map(|n| (n % 7, n));
        check(move |env| keyed(env).filter(|key, n| (key + n) % 3 == 0).unkey())
            .equals(all().filter(|(key, n)| (key + n) % 3 == 0));
        check(move |env| keyed(env).filter_map(|key, n| (n % 3 == 0).then_some(n + key)))
            .equals(all().filter(|(_, n)| n % 3 == 0).map(|(key, n)| (key, n + key)));
        check(move |env| keyed(env).flat_map(|key, n| 0..(key + n) % 4))
            .equals(all().flat_map(|(key, n)| (0..(key + n) % 4).map(move |m| (key, m))));
        check(move |env| keyed(env).map(|key, n| vec![*key, n]).flatten())
            .equals(all().flat_map(|(key, n)| [(key, key), (key, n)]));
        check(move |env| keyed(env).inspect(|key, n| assert_eq!(*key, n % 7)).unkey())
            .equals(all());
        check(move |env| keyed(env).boxed()).equals(all());
    }

    #[test]
    fn partitioned_streams_stay_partitioned() {
        every(|env| {
            let together = env.range(0..1000).group_by(|n| n % 10).repartition();
            let counts = together
                .inspect(|key, n| assert_eq!(*key, n % 10))
                .filter(|_, n| *n < 500)
                .filter_map(|_, n| (n % 20 < 10).then_some(n))
                .flat_map(|_, n| [n, n])
                .map(|_, n| Some(n))
                .flatten()
                .boxed()
                // Without the knowledge that the stream is partitioned, a second exchange would be needed.
                .stateful_map(0, |_, seen: &mut u64, _| {
                    *seen += 1;
                    *seen
                })
                .fold(0, |most: &mut u64, seen| *most = seen.max(*most))
                .collect::<std::collections::BTreeMap<_, _>>();
            assert_eq!(exchanges(env), 1);
            env.run()?;
            assert_eq!(counts.take()?, (0..10).map(|key| (key, 50)).collect());
            Ok(())
        });
    }

    #[test]
    fn keys_that_are_pointed_to_are_kept() {
        check(|env| {
            let words = env.iter(["a b", "b c"]).flat_map_str(|line, out| out.push(line));
            let words = words.flat_each(crate::text::Words).group_by_ref(|word| *word);
            words.flat_map(|key, word| [key.len(), word.len() + 1])
        })
        .equals(["a", "b", "b", "c"].iter().flat_map(|w| [(w.to_string(), 1), (w.to_string(), 2)]));
    }
}
