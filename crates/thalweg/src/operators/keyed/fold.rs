//! A state per key, into which its values are folded one after the other.

use super::group::{Grouped, Values};
use super::partition::{Placed, table};
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Key, Record, Wire};
use crate::operators::aggregates::Fold;
use crate::plan::Origin;
use crate::stream::Chain;
use std::borrow::Borrow;

/// A keyed stream of results.
type Results<C, G, P, A> = KeyedStream<
    Grouped<<P as Placed>::PartitionedChain<C, G>, Values<A, <P as Placed>::Keys<C, G>>>,
    FirstOf,
    Partitioned,
>;

/// How the values of a keyed stream look to a closure.
type Value<'a, C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    P: Placed,
{
    /// Folds the values of each key into a state, and emits it when the input ends.
    ///
    /// Every record is sent to the task that owns its key. Where the state can be computed from partial results,
    /// [`fold_assoc`](Self::fold_assoc) sends far less. The values of a key are folded in the order in which they
    /// arrive. That is the order of their stream only where a single task sends them all.
    ///
    /// Memory: one state per key, with what it owns on the heap, within the engine's budget; records and states
    /// beyond it go to disk.
    ///
    /// # Errors
    ///
    /// A stream that does not end is refused when the job starts. A single key whose state is larger than a quarter
    /// of the memory budget may fail the job.
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
        let origin = Origin::here("fold");
        KeyedStream::new(table(P::partitioned(self, origin), origin, Fold { init, fold }), FirstOf)
    }
}
