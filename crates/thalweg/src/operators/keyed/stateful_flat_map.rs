//! Maps each value to any number of values, with a state per key.

use super::{FirstOf, KeyBy, KeyedStream, Partitioned, Placed};
use crate::data::{Data, Key, Record, Wire};
use crate::plan::Origin;
use crate::stream::Chain;
use std::borrow::Borrow;

impl<C, G, P, Q> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned = Q>>,
    Q: Key<Owned = Q> + Borrow<G::Key>,
    P: Placed,
{
    /// Maps each value to any number of values, with a state per key that is a clone of `init` at first: emits
    /// everything that the closure's result iterates over. The result is a stream with the same keys.
    ///
    /// Like [`stateful_map`](Self::stateful_map), also in cost and errors, but the closure returns an iterator: an
    /// `Option` where not every value has a result, a `Vec` where some have several. The iterator owns what it
    /// iterates over; its values are emitted in its order. Each of them gets a copy of the key.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// // The runs of equal readings of each sensor, when they are over.
    /// let env = Environment::new();
    /// let readings = env.iter([("a", 1), ("a", 1), ("b", 7), ("a", 2), ("b", 8)]);
    /// let readings = readings.map(|(sensor, value)| (sensor.to_owned(), value)).keyed();
    /// let runs = readings.stateful_flat_map((0, 0), |_, (last, length), value| {
    ///     let over = (*length > 0 && *last != value).then_some((*last, *length));
    ///     *length = if *last == value { *length + 1 } else { 1 };
    ///     *last = value;
    ///     over
    /// });
    /// let out = runs.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [("a".to_owned(), (1, 2)), ("b".to_owned(), (7, 1))].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("rich_flat_map", "rich_filter_map", "flatMapWithState", "KeyedProcessFunction"))]
    #[track_caller]
    pub fn stateful_flat_map<S, O, F>(
        self,
        init: S,
        f: F,
    ) -> KeyedStream<impl Chain<Item = (Q, O::Item), Time = C::Time>, FirstOf, Partitioned>
    where
        S: Data + Clone + Sync,
        O: IntoIterator<IntoIter: Send + 'static, Item: 'static> + 'static,
        F: for<'a, 'k> Fn(&'k G::Key, &mut S, <G::Value as Record>::Of<'a>) -> O
            + Send
            + Sync
            + 'static,
    {
        self.stateful_map_as(Origin::here("stateful_flat_map"), init, f).flatten()
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{check, every};
    use crate::config::Config;

    /// Emits the values of a key in pairs: none for the first value of a pair, both for the second.
    fn paired(_: &u64, last: &mut Option<u64>, n: u64) -> Vec<u64> {
        match last.take() {
            Some(first) => vec![first, n],
            None => {
                *last = Some(n);
                vec![]
            }
        }
    }

    #[test]
    fn each_key_remembers_its_own_and_gives_none_or_many() {
        let expected = || (0..7000u64).map(|n| (n % 7, n));
        check(|env| env.iter(0..7000u64).group_by(|n| n % 7).stateful_flat_map(None, paired))
            .must_restore()
            .equals(expected());
    }

    #[test]
    fn keys_stay_where_they_are() {
        every(|env| {
            let kept = env.range(0..1000).group_by(|n| n % 10);
            let counts = kept.stateful_flat_map(None, paired).count();
            let out = counts.collect::<std::collections::BTreeMap<_, _>>();
            let kinds: Vec<_> = env.plan().operators.into_iter().map(|op| op.kind).collect();
            assert_eq!(kinds.iter().filter(|kind| *kind == "repartition").count(), 1, "{kinds:?}");
            env.run()?;
            assert_eq!(out.take()?, (0..10).map(|key| (key, 100)).collect());
            Ok(())
        });
    }

    #[test]
    fn an_endless_result_does_not_hold_up_the_end() {
        every(|env| {
            let endless =
                env.iter(0..9u64).group_by(|n| n % 3).stateful_flat_map(0, |_, from, n| {
                    *from += n;
                    *from..
                });
            let some = endless.unkey().limit(1000).count().collect_one();
            env.run()?;
            assert_eq!(some.take()?, Some(1000));
            Ok(())
        });
    }

    #[test]
    fn keys_beyond_memory_wait_on_disk() -> crate::Result<()> {
        let env = crate::Environment::with_config(Config { memory: 200_000, ..Config::default() });
        let n = 50_000;
        let keyed = env.range(0..2 * n).group_by(move |i| i % n);
        let out = keyed.stateful_flat_map(None, paired).unkey().map(|(_, i)| i).sorted();
        let out = out.collect::<Vec<_>>();
        env.run()?;
        assert!(out.take()?.into_iter().eq(0..2 * n));
        Ok(())
    }
}
