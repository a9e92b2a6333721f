//! Aggregates that take the values of a key in one after the other.

use super::group::{Grouped, Values};
use super::partition::{Placement, table};
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Key, Record, Wire};
use crate::operators::aggregates::Aggregate;
use crate::operators::aggregates::{Fold, Reduce};
use crate::plan::Origin;
use crate::stream::Chain;
use std::borrow::Borrow;

/// A keyed stream of results.
type Results<C, G, P, A> = KeyedStream<
    Grouped<<P as Placement<C, G>>::Chain, Values<A, <P as Placement<C, G>>::Keys>>,
    FirstOf,
    Partitioned,
>;

/// How the values of a keyed stream look to a closure.
type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    P: Placement<C, G>,
{
    /// Folds the values of each key into a state, and gives it when the input ends.
    ///
    /// Every record is sent to the task that owns its key. Where the state can be computed in
    /// parts, [`fold_assoc`](Self::fold_assoc) sends far less. The values of a key are taken in
    /// the order in which they arrive, which is that of their stream only where one task sends
    /// them all.
    ///
    /// Memory: a state a key, with what it owns on the heap, within the engine's budget; beyond it records and states
    /// wait on disk.
    ///
    /// # Errors
    ///
    /// On a stream that does not end, the job is refused at its start. The state of one key that is larger than a
    /// quarter of the memory budget may stop it.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let by_length = env
    ///     .iter(["a", "b", "ab"])
    ///     .map(str::to_owned)
    ///     .group_by(|word| word.len())
    ///     .fold(String::new(), |all, word| all.push_str(&word));
    /// let out = by_length.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, "ab".into()), (2, "ab".into())].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fold<S, F>(self, init: S, fold: F) -> Results<C, G, P, Fold<S, F>>
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, Value<'a, C, G>) + Send + Sync + 'static,
    {
        self.in_order(Origin::here("fold"), Fold { init, fold })
    }

    /// Makes one value of the value so far and the next one of the key, in the order of their
    /// arrival, until the input ends. See [`fold`](Self::fold) for how, and
    /// [`reduce_assoc`](Self::reduce_assoc) for the form that computes in parts.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let last = env.iter(0..10).group_by(|n| n % 3).reduce(|_, new| new);
    /// let out = last.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(0, 9), (1, 7), (2, 8)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce<V, F>(self, reduce: F) -> Results<C, G, P, Reduce<F>>
    where
        G: KeyBy<C::Item, Value = V>,
        V: Data,
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        self.in_order(Origin::here("reduce"), Reduce { reduce })
    }

    fn in_order<A>(self, origin: Origin, aggregate: A) -> Results<C, G, P, A>
    where
        A: Aggregate<G::Value>,
    {
        KeyedStream::new(table(P::together(self, origin), origin, aggregate), FirstOf)
    }
}
