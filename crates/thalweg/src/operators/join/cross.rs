//! The cross product of two streams.

use super::inputs::{Delivery, Inputs, all};
use super::kinds::Inner;
use super::local::{Local, TableOfRight};
use crate::data::{Data, Portable};
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Stream};

impl<C> Stream<C>
where
    C: Chain<Item: Portable<Owned: Clone>>,
{
    /// Makes a pair of every record with every record of another stream, which must end.
    ///
    /// The other stream is sent to every task, each of which keeps all of it: make it the smaller one. Records
    /// of this one stay in their tasks and keep their order. For pairs with equal keys,
    /// [`join`](crate::KeyedStream::join) compares only those; for tables that are available before the job
    /// begins there is [`join_static`](Self::join_static).
    ///
    /// What does not fit into memory goes to disk, with all of both streams, and is joined block by block.
    ///
    /// # Errors
    ///
    /// Where the other stream does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let pairs = env.iter(1..=3).cross(env.iter(1..=3)).filter(|(a, b)| a < b);
    /// let out = pairs.sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 2), (1, 3), (2, 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cross<D, L, R>(
        self,
        other: Stream<D>,
    ) -> Stream<impl Chain<Item = (L, R), Time = C::Time> + use<C, D, L, R>>
    where
        C: Chain<Item: Portable<Owned = L>>,
        D: Chain<Item: Portable<Owned = R>, Time = C::Time>,
        L: Data + Clone,
        R: Data + Clone,
    {
        let origin = Origin::here("cross");
        let inputs: Inputs<(), L, R, C::Time> =
            Inputs::new(all(self, origin), all(other, origin), Delivery::RightEverywhere, origin);
        let (left, right) = inputs.bounded();
        let fault = <TableOfRight as Local<Inner, (), L, R, C::Time>>::fault(left, right);
        let details =
            Details::of("method", <TableOfRight as Local<Inner, (), L, R, C::Time>>::NAME);
        let chain = <TableOfRight as Local<Inner, (), L, R, C::Time>>::chain;
        let pairs = inputs.join(details, fault, chain);
        pairs.map_as(Origin { kind: "pair", ..origin }, |((), pair)| pair)
    }
}
