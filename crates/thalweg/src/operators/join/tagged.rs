//! Two streams as one, with each value tagged by its side.

use super::inputs::{Inputs, pairs};
use super::joinable::{Joinable, JoinableWith};
use crate::data::{Data, Key};
use crate::error::Result;
use crate::exchange::{Hashed, PairInlet};
use crate::flow::{Pipe, Push, PushTwo};
use crate::operators::keyed::{Carried, FirstOf, KeyedStream, Partitioned};
use crate::plan::{Origin, TaskContext};
use crate::stream::Chain;
use crate::time::Time;

/// A value of one of two streams.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub enum Either<A, B> {
    /// A value of the first stream.
    Left(A),
    /// A value of the second stream.
    Right(B),
}

/// The first chain of a stage that receives two streams as one.
pub struct Tagged<K: Data, A: Data, B: Data, T: Time>(Inputs<K, A, B, T>);

/// Both streams of a join as one, in the tasks that own the keys.
pub(in crate::operators) type Both<L, R> =
    KeyedStream<TaggedBy<L, R>, Carried<FirstOf>, Partitioned>;
/// The chain that begins with [`Tagged`] for the streams `L` and `R`.
pub(in crate::operators) type TaggedBy<L, R> = Tagged<
    <L as Joinable>::Key,
    <L as Joinable>::Value,
    <R as Joinable>::Value,
    <L as Joinable>::Time,
>;

/// Brings both streams to the tasks that own the keys. A stream that is there already stays.
pub(in crate::operators) fn both<L, R>(left: L, right: R, origin: Origin) -> Both<L, R>
where
    L: Joinable,
    R: JoinableWith<L>,
{
    let inputs = Inputs::by_key(pairs(left, origin), pairs(right, origin), origin);
    KeyedStream::from_parts(inputs.begin(Tagged), Carried(FirstOf))
}

impl<K, A, B, T> Chain for Tagged<K, A, B, T>
where
    K: Data + Key,
    A: Data,
    B: Data,
    T: Time,
{
    type Item = Hashed<(K, Either<A, B>)>;
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> =
        PairInlet<Hashed<(K, A)>, Hashed<(K, B)>, T, TaggedPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        Ok(self.0.inlet(cx, TaggedPush { next }))
    }
}

/// Tags each value with its side, in a running task.
pub struct TaggedPush<N> {
    next: N,
}

impl<N: Pipe> Pipe for TaggedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<K, A, B, T, N> PushTwo<Hashed<(K, A)>, Hashed<(K, B)>, T> for TaggedPush<N>
where
    K: Data,
    A: Data,
    B: Data,
    T: Time,
    N: Push<Hashed<(K, Either<A, B>)>, T>,
{
    #[inline(always)]
    fn push_first(&mut self, (hash, (key, value)): (u64, (K, A)), time: T) {
        self.next.push((hash, (key, Either::Left(value))), time);
    }

    #[inline(always)]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, B)), time: T) {
        self.next.push((hash, (key, Either::Right(value))), time);
    }

    fn wants_second(&self) -> bool {
        true
    }
}
