//! Streams whose records have keys.
//!
//! [`Stream::group_by`] only says what the key is. The first operator that needs all records of a
//! key in one place decides how they get there:
//!
//! ```text
//!   combines (count, sum, reduce, …)         does not (fold, stateful_map, …)
//!
//!   records                                  records
//!      │ Combiner: a small table a task         │ AddHash
//!      ▼                                        ▼
//!   Partial(hash, key, aggregate)            Hashed(hash, record)
//!      ║ exchange by key group                  ║ exchange by key group
//!      ▼                                        ▼
//!   Group: the table of the task that owns the key
//! ```
//!
//! The hash is computed once, on the sending side, and carried along. After that the stream is
//! [`Partitioned`], and further operators on the same keys need no exchange.

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod boxed;
mod combine;
mod elsewhere;
mod fold;
mod generic;
mod group;
mod group_by;
mod in_parts;
mod key_by;
mod map;
mod merge;
mod other_names;
mod partition;
mod process;
mod remember;
mod sieve;
mod stateful_flat_map;
mod stateful_map;
mod together;
mod unique;
mod unkey;

/// Chains that end in one of these operators.
pub mod chains {
    pub use super::group::Grouped;
    pub use super::process::Processing;
    pub use super::remember::Remembering;
    pub use super::unkey::PairsOf;
}

pub use generic::Keyed;
pub use key_by::{ByRef, Carried, FirstOf, KeyBy, Plain, ValueRef};
pub(super) use partition::{AddHash, add_hash, by_hash};
pub use partition::{Combining, Like, Partitioned, Placed, Placement, Scattered};
pub use process::{Process, ProcessContext, Timer};
pub use unique::Distinct;
pub(super) use unique::Whole;
pub use unkey::Pairs;

use crate::config::BatchMode;
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;

/// A stream whose records have keys.
///
/// Made by [`Stream::group_by`], [`Stream::group_by_ref`] and [`Stream::keyed`]. Its operators work on each key
/// by itself; [`unkey`](Self::unkey) makes it an ordinary stream of pairs again.
///
/// `C` is the chain of operators, as in [`Stream`]. `G` finds key and value in a record: [`FirstOf`] in pairs of both,
/// [`ByRef`] by a closure. `P` says where the records of a key are: [`Scattered`] over all tasks, or
/// [`Partitioned`], in the one task that owns the key.
///
/// # Functions over keyed streams
///
/// A function that takes keyed streams of any kind names what flows, and leaves the rest to [`Keyed`]:
///
/// ```
/// use thalweg::prelude::*;
///
/// fn cents(
///     euros: impl Keyed<Key = u32, Value = u64, Time = ()>,
/// ) -> KeyedStream<impl Chain<Item = (u32, u64), Time = ()>, FirstOf, Partitioned> {
///     euros.into_keyed().sum(|euros| euros * 100)
/// }
///
/// let env = Environment::new();
/// let cents = cents(env.iter([(1, 2), (1, 3)]).keyed()).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(cents.take()?, [(1, 500)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// One that takes what [`Stream::group_by`] and [`Stream::keyed`] give, and nothing else, needs less:
/// `KeyedStream<impl Chain<Item = (u32, u64)>>`. To store a keyed stream in a struct, or to return one of several, see
/// [`boxed`](Self::boxed).
#[must_use = "a stream does nothing until it ends in a sink and its environment runs"]
pub struct KeyedStream<C: Chain, G = FirstOf, P = Scattered> {
    stream: Stream<C>,
    keys: G,
    placed: PhantomData<fn() -> P>,
}

impl<C: Chain, G, P> KeyedStream<C, G, P> {
    fn new(stream: Stream<C>, keys: G) -> Self {
        Self { stream, keys, placed: PhantomData }
    }

    pub(super) fn from_parts(stream: Stream<C>, keys: G) -> Self {
        Self::new(stream, keys)
    }

    pub(super) fn into_parts(self) -> (Stream<C>, G) {
        (self.stream, self.keys)
    }

    /// Sets when the next exchange of this stream sends what it collects: see [`Stream::batch_mode`].
    pub fn batch_mode(self, mode: BatchMode) -> Self {
        Self::new(self.stream.batch_mode(mode), self.keys)
    }

    /// Names the operator before: in plans, statistics and messages, and as the identity of its
    /// state ([`State::id`](crate::plan::State::id)). Names must differ within a job.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self::new(self.stream.name(name), self.keys)
    }
}
