//! Keyed streams, as joins take them.

use crate::data::{Data, Key, Portable};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::stream::Chain;
use crate::time::Time;

/// A [`KeyedStream`] that can be joined with another: one whose keys and values can be sent and kept.
///
/// Every keyed stream is one, unless its values are records that nothing owns. A program meets it only in the
/// bounds of joins and of functions that are generic over them.
///
/// ```
/// use thalweg::operators::join::{Joinable, JoinableWith};
/// use thalweg::{Chain, Environment, KeyedStream, Stream};
///
/// /// How often each key of one stream occurs beside one of the other.
/// fn pairs<C, G, P, R>(left: KeyedStream<C, G, P>, right: R) -> Stream<impl Chain<Item = u64>>
/// where
///     C: Chain,
///     KeyedStream<C, G, P>: Joinable<Key = u32, Value: Clone>,
///     R: JoinableWith<KeyedStream<C, G, P>, Value: Clone>,
/// {
///     left.join(right).unkey().group_by(|pair| pair.0).count().unkey().map(|(_, count)| count)
/// }
///
/// let env = Environment::new();
/// let (left, right) = (env.iter([(1, 'a'), (2, 'b')]), env.iter([(1, 1.5), (1, 2.5)]));
/// let out = pairs(left.keyed(), right.keyed()).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [2]);
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
    /// What else is known of a record.
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

impl<C, G, P, K> Joinable for KeyedStream<C, G, P>
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned = K>, Value: Portable>,
    P: Placed,
    K: Data + Key + Portable<Owned = K> + Eq + Clone,
{
    type Key = K;
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
pub trait JoinableWith<L: Joinable>: Joinable<Key = L::Key, Time = L::Time> {}

impl<L: Joinable, R: Joinable<Key = L::Key, Time = L::Time>> JoinableWith<L> for R {}

/// What the keyed stream `S` is joined by.
pub type KeyOf<S> = <S as Joinable>::Key;
/// The values of the keyed stream `S`, as they are joined.
pub type ValueOf<S> = <S as Joinable>::Value;
/// What the records of the keyed stream `S` carry beside their values.
pub type TimeOf<S> = <S as Joinable>::Time;
