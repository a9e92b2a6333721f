//! What can be done to the values of a keyed stream without looking at other values.

use super::{FirstOf, KeyBy, KeyedStream};
use crate::data::{Key, Portable, Record};
use crate::operators::per_record::filter::Filter;
use crate::operators::per_record::map::Map;
use crate::plan::Origin;
use crate::stream::Chain;
use std::borrow::Borrow;

// The record has a name of its own: spelt out as the chain's item, the compiler loses sight of it in
// the types of closures behind operators that hand records on as they are, such as `assign_timestamps`.
impl<I, C, G, P> KeyedStream<C, G, P>
where
    I: Record + ?Sized,
    C: Chain<Item = I>,
    G: KeyBy<I>,
    P: 'static,
{
    /// Makes one value of each value, under the same key. Moves no record.
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
            let key = keys.key(&item).own();
            let output = f(key.borrow(), keys.value(item));
            (key, output)
        };
        KeyedStream::new(self.stream.map_as(Origin::here("map"), under_key), FirstOf)
    }

    /// Keeps the records for which the closure, given the key and the whole record, answers
    /// `true`. Moves no record.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env
    ///     .iter(0..10u64)
    ///     .group_by(|n| n % 3)
    ///     .filter(|key, _| *key == 1)
    ///     .count()
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
        F: for<'a, 'k> Fn(&'k G::Key, &'k I::Of<'a>) -> bool + Send + Sync + 'static,
    {
        let keys = self.keys.clone();
        let keep = move |item: &I::Of<'_>| keep(keys.key(item), item);
        KeyedStream::new(self.stream.filter_as(Origin::here("filter"), keep), self.keys)
    }
}
