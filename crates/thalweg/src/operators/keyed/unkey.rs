//! From keyed streams back to streams of pairs.

use super::{ByRef, Carried, FirstOf, KeyBy, KeyedStream};
use crate::data::{Data, Key, Ownable, Portable, Record};
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::io::{Collection, Output};
use crate::operators::multi_stream::connect::InBeside;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain, G: KeyBy<C::Item>, P> KeyedStream<C, G, P> {
    /// Turns the keyed stream into an ordinary stream of pairs of key and value.
    ///
    /// Keys and values are owned: `str` becomes `String`. After [`group_by`](Stream::group_by),
    /// [`keyed`](Stream::keyed) and all operators that emit results by key, the records are such pairs already and
    /// this costs nothing. After [`group_by_ref`](Stream::group_by_ref) it copies each record's key. Moves no record.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let words = env.iter(["an", "ox"]).map(str::to_owned).group_by_ref(|word| word.as_str());
    /// let out = words.unkey().map(|(key, word)| key == word).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [true, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("drop_key", "values"))]
    #[track_caller]
    pub fn unkey(
        self,
    ) -> Stream<impl Chain<Item = (G::OwnedKey, G::OwnedValue), Time = C::Time> + use<C, G, P>>
    where
        G: Pairs<C>,
    {
        G::pairs(self.stream, self.keys, Origin::here("unkey"))
    }

    /// Gathers the pairs of key and value in a collection; see [`Stream::collect`].
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let lengths = env.iter(["an", "axe"]).group_by_ref(|word| *word).map(|_, word| word.len());
    /// let out = lengths.collect::<BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?["axe"], 3);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn collect<R>(self) -> Output<R>
    where
        G: Pairs<C>,
        G::OwnedKey: Data,
        G::OwnedValue: Data,
        R: Collection<(G::OwnedKey, G::OwnedValue)>,
    {
        self.unkey().collect()
    }
}

/// Key extractors that can turn records into pairs: those whose keys and values can be owned.
pub trait Pairs<C: Chain>: KeyBy<C::Item> {
    /// The key of a pair.
    type OwnedKey: Key;
    /// The value of a pair.
    type OwnedValue: 'static;
    /// The chain of pairs.
    type Chain: Chain<Item = (Self::OwnedKey, Self::OwnedValue), Time = C::Time>;

    /// Makes the stream of pairs.
    #[doc(hidden)]
    fn pairs(stream: Stream<C>, keys: Self, origin: Origin) -> Stream<Self::Chain>;
}

/// The records are pairs already.
impl<C: Chain<Item = (K, V)>, K: Key, V: 'static> Pairs<C> for FirstOf {
    type OwnedKey = K;
    type OwnedValue = V;
    type Chain = C;

    fn pairs(stream: Stream<C>, _: Self, _: Origin) -> Stream<C> {
        stream
    }
}

/// Implements [`Pairs`] by converting each record.
macro_rules! made {
    ($keys:ty: $($parameters:tt)*) => {
        impl<C, $($parameters)*> Pairs<C> for $keys
        where
            C: Chain,
            Self: KeyBy<C::Item, Key: Key<Owned: Key>, Value: Ownable>,
        {
            type OwnedKey = <<Self as KeyBy<C::Item>>::Key as Portable>::Owned;
            type OwnedValue = <<Self as KeyBy<C::Item>>::Value as Ownable>::Value;
            type Chain = PairsOf<C, Self>;

            fn pairs(stream: Stream<C>, keys: Self, origin: Origin) -> Stream<Self::Chain> {
                stream.then(origin, |prev, op| PairsOf { prev, op, keys })
            }
        }
    };
}

made!(ByRef<F, K>: F, K: ?Sized);
made!(Carried<G>: G);
made!(InBeside<G>: G);

/// The chain that ends in pairs of key and value.
pub struct PairsOf<C, G> {
    prev: C,
    op: usize,
    keys: G,
}

impl<C, G> Chain for PairsOf<C, G>
where
    C: Chain,
    G: KeyBy<C::Item, Value: Ownable>,
{
    type Item = (<G::Key as Portable>::Owned, <G::Value as Ownable>::Value);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<PairsOfPush<C::Item, G, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let (op, keys) = (cx.op(self.op), self.keys.clone());
        self.prev.attach(cx, PairsOfPush { op, keys, next, types: PhantomData })
    }
}

/// Makes pairs in a running task.
pub struct PairsOfPush<I: ?Sized, G, N> {
    op: Op,
    keys: G,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, G: KeyBy<I>, N: Pipe> Pipe for PairsOfPush<I, G, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I, T, G, N> Push<I, T> for PairsOfPush<I, G, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Value: Ownable>,
    N: Push<(<G::Key as Portable>::Owned, <G::Value as Ownable>::Value), T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let pair = guard(&self.op, || {
            let (key, value) = self.keys.pair(item);
            (key, G::Value::into_value(value))
        });
        self.next.push(pair, time);
    }
}

#[cfg(test)]
mod tests {
    use crate::check::check;

    #[test]
    fn every_kind_of_key_makes_pairs() {
        let pairs = || (0..100u64).map(|n| (n % 7, n));
        check(|env| env.range(0..100).group_by(|n| n % 7).unkey()).equals(pairs());
        check(|env| env.range(0..100).group_by(|n| n % 7).repartition().unkey()).equals(pairs());
        let records = || (0..100u64).map(|n| (n, (n, n)));
        let by_ref = |env: &crate::Environment| {
            env.range(0..100).map(|n| (n, n)).group_by_ref(|pair| &pair.0)
        };
        check(move |env| by_ref(env).unkey()).equals(records());
        check(move |env| by_ref(env).repartition().unkey()).equals(records());
        check(move |env| by_ref(env).count().repartition().unkey())
            .equals((0..100u64).map(|n| (n, 1)));
    }

    #[test]
    fn borrowed_records_are_owned_in_pairs() {
        let words = ["an ox", "an axe"];
        let expected = || {
            let words = words.iter().flat_map(|line| line.split(' '));
            words.map(|word| (word.to_owned(), word.to_owned()))
        };
        let grouped = move |env: &crate::Environment| {
            let lines = env.iter(words).flat_map_str(|line, out| out.push(line));
            lines.flat_each(crate::text::Words).group_by_ref(|word| *word)
        };
        check(move |env| grouped(env).unkey()).equals(expected());
        check(move |env| grouped(env).repartition().unkey()).equals(expected());
    }

    #[test]
    fn pairs_that_are_there_cost_no_operator() {
        let env = crate::Environment::new();
        let pairs = env.iter(0..9).group_by(|n| n % 3).unkey();
        assert!(env.plan().operators.iter().all(|op| op.kind != "unkey"));
        pairs.for_each(drop);
    }

    #[test]
    fn values_that_are_no_data_are_moved() {
        struct Opaque(u64);
        check(|env| {
            let opaque = env.range(0..9).map(Opaque).group_by_ref(|it| &it.0);
            opaque.unkey().map(|(key, it)| (key, it.0))
        })
        .equals((0..9u64).map(|n| (n, n)));
    }

    #[test]
    fn a_key_is_moved_out_of_its_pair() {
        use super::super::{FirstOf, KeyBy};
        let key = "a key that is no short one".to_owned();
        let at = key.as_ptr();
        let (key, ()) = FirstOf.pair((key, ()));
        assert_eq!(key.as_ptr(), at);
    }
}
