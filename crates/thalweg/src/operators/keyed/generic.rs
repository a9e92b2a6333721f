//! The bound of functions that accept any keyed stream.

use super::{KeyedStream, Like, Pairs, Placed, ValueRef};
use crate::data::{Key, Ownable, Portable, Record, Wire};
use crate::stream::Chain;
use crate::time::Time;
use std::borrow::Borrow;

/// A keyed stream of any kind, as the bound of a function over keyed streams.
///
/// Implemented by every [`KeyedStream`] whose records can be sent to the tasks of their keys, whatever its operators
/// are, however its keys are found and wherever its records are. A function names the associated types that it needs,
/// and begins with [`into_keyed`](Self::into_keyed), which costs nothing.
///
/// The result of an aggregate, a join or a `map` is a stream of pairs, which a function may return as
/// `KeyedStream<impl Chain<Item = (K, V), Time = T>, FirstOf, Partitioned>`, or as `impl Keyed<Key = K, Value = V>`.
/// A function for any key leaves `Key` open; the keys of its result are then owned ones, `String` for `str`, named
/// [`Portable::Owned`].
///
/// ```
/// use thalweg::prelude::*;
///
/// #[derive(Data, Clone)]
/// struct Order { customer: String, amount: u64 }
///
/// /// The customers who spent more than `least`, and how much.
/// fn spenders(
///     orders: impl Keyed<Key = str, Value = Order, Time = ()>,
///     least: u64,
/// ) -> impl Keyed<Key = String, Value = u64, Time = ()> {
///     orders.into_keyed().sum(|order| order.amount).filter(move |_, total| *total > least)
/// }
///
/// let env = Environment::new();
/// let orders = [("ann", 3), ("bob", 5), ("ann", 4)];
/// let orders = orders.map(|(customer, amount)| Order { customer: customer.to_owned(), amount });
/// let orders = env.iter(orders).group_by_ref(|order| order.customer.as_str());
/// let out = spenders(orders, 5).into_keyed().collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [("ann".to_owned(), 7)]);
///
/// /// The number of values of each key, of the keys that have more than one.
/// fn repeated<S: Keyed<Time = ()>>(
///     stream: S,
/// ) -> impl Keyed<Key = <S::Key as thalweg::data::Portable>::Owned, Value = u64, Time = ()> {
///     stream.into_keyed().count().filter(|_, count| *count > 1)
/// }
///
/// let [words, lengths] = env.iter(["be", "to", "be", "not"]).map(str::to_owned).split();
/// let words = repeated(words.group_by_ref(|word| word.as_str())).into_keyed().collect::<Vec<_>>();
/// let lengths = repeated(lengths.group_by(|word| word.len())).into_keyed().collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(words.take()?, [("be".to_owned(), 2)]);
/// assert_eq!(lengths.take()?, [(2, 3)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a keyed stream whose records can be sent to the tasks of their keys",
    label = "needs a keyed stream",
    note = "say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs",
    note = "keys and values must be `Data`; those beside a state are made so by `map`"
)]
pub trait Keyed: Sized {
    /// What the records are grouped by.
    type Key: Key<Owned: Borrow<Self::Key> + Key<Owned = <Self::Key as Portable>::Owned>> + ?Sized;
    /// The value that operators receive.
    type Value: Record + Ownable + ?Sized;
    /// What each record carries beside its value: nothing, or a timestamp.
    type Time: Time;
    /// The chain of operators.
    type Chain: Chain<Item: Wire, Time = Self::Time>;
    /// How keys and values are found in the chain's records.
    type Keys: ValueRef<<Self::Chain as Chain>::Item, Key = Self::Key, Value = Self::Value>
        + Pairs<
            Self::Chain,
            OwnedKey = <Self::Key as Portable>::Owned,
            OwnedValue = <Self::Value as Ownable>::Value,
        >;
    /// Where the records of a key are.
    type Placed: Placed;

    /// The stream itself, with all its operators.
    fn into_keyed(self) -> KeyedStream<Self::Chain, Self::Keys, Like<Self::Placed>>;
}

impl<C, G, P, K, V> Keyed for KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: ValueRef<C::Item, Key = K, Value = V> + Pairs<C, OwnedKey = K::Owned, OwnedValue = V::Value>,
    P: Placed,
    K: Key<Owned: Borrow<K> + Key<Owned = K::Owned>> + ?Sized,
    V: Ownable + ?Sized,
{
    type Key = K;
    type Value = V;
    type Time = C::Time;
    type Chain = C;
    type Keys = G;
    type Placed = P;

    fn into_keyed(self) -> KeyedStream<C, G, Like<P>> {
        KeyedStream::new(self.stream, self.keys)
    }
}
