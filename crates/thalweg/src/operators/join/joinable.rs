//! The bounds that joins place on keyed streams.

use crate::data::{Data, Key, Portable};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::stream::Chain;
use crate::time::Time;

/// A [`KeyedStream`] that can be joined with another: one whose keys and values can be sent and kept.
///
/// Every keyed stream whose values can be [sent](Portable) implements it; a program meets it in the bounds of
/// joins. A function of your own takes [`Keyed`](crate::operators::keyed::Keyed), which has all operators of a keyed
/// stream, joins among them.
///
/// It is not [`Keyed`](crate::operators::keyed::Keyed) itself, since a join makes pairs of owned keys and values
/// before it sends anything: its key is `String` where that of `Keyed` is `str`, and the records need not be of a kind
/// that can be sent.
///
/// ```
/// use thalweg::operators::keyed::Keyed;
/// use thalweg::{Chain, Environment, Stream};
///
/// /// The orders beside the names of those who made them.
/// fn named(
///     orders: impl Keyed<Key = u32, Value = char, Time = ()>,
///     names: impl Keyed<Key = u32, Value = String, Time = ()>,
/// ) -> Stream<impl Chain<Item = (String, char), Time = ()>> {
///     orders.into_keyed().join(names.into_keyed()).unkey().map(|(_, (order, name))| (name, order))
/// }
///
/// let env = Environment::new();
/// let orders = env.iter([(1, 'a'), (2, 'b'), (1, 'c')]).keyed();
/// let names = env.iter([(1, "ann".to_owned())]).keyed();
/// let out = named(orders, names).sorted().collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [("ann".to_owned(), 'a'), ("ann".to_owned(), 'c')]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no keyed stream that can be joined",
    label = "needs a keyed stream",
    note = "say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs"
)]
pub trait Joinable: Sized {
    /// What records are joined by.
    type Key: Data + Key + Portable<Owned = Self::Key> + Eq + Clone;
    /// The rest of a record.
    type Value: Data;
    /// What records carry beside their values: nothing, or a timestamp.
    type Time: Time;
    /// Where the records of a key are.
    type Placed: Placed;

    /// The chain of the stream.
    #[doc(hidden)]
    type Chain: Chain<Time = Self::Time>;
    /// How keys and values are found in its records.
    #[doc(hidden)]
    type Keys: KeyBy<
            <Self::Chain as Chain>::Item,
            Key: Key<Owned = Self::Key>,
            Value: Portable<Owned = Self::Value>,
        >;

    /// The stream itself.
    #[doc(hidden)]
    fn into_keyed(self) -> KeyedStream<Self::Chain, Self::Keys, Self::Placed>;
}

/// The owned keys of a chain's records.
type OwnedKey<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Key as Portable>::Owned;

// The key is written out: as a parameter of its own, it would be inferred from the other stream's in `JoinableWith`.
impl<C, G, P> Joinable for KeyedStream<C, G, P>
where
    C: Chain,
    G: KeyBy<C::Item, Value: Portable>,
    P: Placed,
    OwnedKey<C, G>: Data + Key + Portable<Owned = OwnedKey<C, G>> + Eq + Clone,
{
    type Key = OwnedKey<C, G>;
    type Value = <G::Value as Portable>::Owned;
    type Time = C::Time;
    type Placed = P;
    type Chain = C;
    type Keys = G;

    fn into_keyed(self) -> Self {
        self
    }
}

/// A [`KeyedStream`] that can be joined with the stream `L`: of the same keys and the same kind of time.
pub trait JoinableWith<L: Joinable>: Joinable<Key: SameKey<L::Key>, Time = L::Time> {}

impl<L, R> JoinableWith<L> for R
where
    L: Joinable,
    R: Joinable<Key: SameKey<L::Key>, Time = L::Time>,
{
}

/// A key of the type `K`, which is the only one that implements it. Unlike an equality of types, a trait has a message
/// for those that are not equal.
#[diagnostic::on_unimplemented(
    message = "a stream with keys of `{K}` cannot be joined with one with keys of `{Self}`",
    label = "the keys of both streams must be of the same type",
    note = "convert the keys of one of them: `group_by(|record| u64::from(record.id))`, or `map` before `keyed`"
)]
pub trait SameKey<K> {
    /// The key itself.
    fn same(self) -> K;
}

impl<K> SameKey<K> for K {
    #[inline(always)]
    fn same(self) -> K {
        self
    }
}

/// The key that the keyed stream `S` is joined by.
pub type KeyOf<S> = <S as Joinable>::Key;
/// The values of the keyed stream `S`, as they are joined.
pub type ValueOf<S> = <S as Joinable>::Value;
/// What the records of the keyed stream `S` carry beside their values.
pub type TimeOf<S> = <S as Joinable>::Time;
