//! Streams whose records have keys.
//!
//! [`Stream::group_by`] only defines the key and moves no record. The first operator that needs all records of a key
//! in one task decides how they are exchanged:
//!
//! ```text
//!   combines (count, sum, reduce, …)         does not (fold, stateful_map, …)
//!
//!   records                                  records
//!      │ Combiner: a small table per task       │ AddHash
//!      ▼                                        ▼
//!   Partial(hash, key, aggregate)            Hashed(hash, record)
//!      ║ exchange by key group                  ║ exchange by key group
//!      ▼                                        ▼
//!   Group: the table of the task that owns the key
//! ```
//!
//! The hash is computed once, by the sending task, and sent with the record. After that the stream is
//! [`Partitioned`], and further operators on the same keys need no exchange.

// The types of these methods show which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod aggregate;
mod boxed;
mod combine;
mod distinct;
mod fold;
mod generic;
mod group;
mod group_by;
mod key_by;
mod local_unique;
mod map;
mod merge;
pub(in crate::operators) mod other_kind;
mod other_names;
mod partition;
mod process;
mod repartition;
mod sorted_by_time;
mod stateful;
mod stateful_flat_map;
mod stateful_map;
mod unique;
mod unkey;

/// Chains that end in one of these operators.
pub mod chains {
    pub use super::group::{Grouped, Partials, Upsert, Values};
    pub use super::process::Processing;
    pub use super::stateful::{Remembering, Step};
    pub use super::stateful_map::StatefulMapStep;
    pub use super::unkey::PairsOf;
    pub use crate::exchange::{Hashed, Partial, PartialEntry};
}

pub use distinct::Distinct;
pub(super) use distinct::Whole;
pub use generic::Keyed;
pub use key_by::{ByRef, Carried, FirstOf, KeyBy, Plain, ValueRef};
pub(super) use partition::{AddHash, add_hash, by_hash};
pub use partition::{Combining, Like, Partitioned, Placed, Scattered};
pub use process::{Process, ProcessContext, Timer};
pub use unkey::Pairs;

use crate::config::BatchMode;
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;

/// A stream whose records have keys.
///
/// Made by [`Stream::group_by`], [`Stream::group_by_ref`] and [`Stream::keyed`]. Its operators treat each key
/// separately; [`unkey`](Self::unkey) turns it back into an ordinary stream of pairs.
///
/// `C` is the chain of operators, as in [`Stream`]. `G` extracts key and value from a record: [`FirstOf`] from a pair
/// of both, [`ByRef`] by a closure. `P` is where the records of a key are: [`Scattered`] over all tasks, or
/// [`Partitioned`], in the one task that owns the key.
///
/// # Functions over keyed streams
///
/// A function that accepts any keyed stream has the bound [`Keyed`], and names only the types of key, value and time:
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
/// A function that accepts only what [`Stream::group_by`] and [`Stream::keyed`] return can have a shorter bound:
/// `KeyedStream<impl Chain<Item = (u32, u64)>>`. To store a keyed stream in a struct, or to return one of several,
/// see [`boxed`](Self::boxed).
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

    /// Sets when the next exchange of this stream sends a batch: see [`Stream::batch_mode`].
    pub fn batch_mode(self, mode: BatchMode) -> Self {
        Self::new(self.stream.batch_mode(mode), self.keys)
    }

    /// Names the preceding operator. The name appears in plans, statistics and messages, and identifies the
    /// operator's state ([`State::id`](crate::plan::State::id)). Names must be unique within a job.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self::new(self.stream.name(name), self.keys)
    }

    /// Names the sink that follows: see [`Stream::sink_name`].
    pub fn sink_name(self, name: impl Into<String>) -> Self {
        Self::new(self.stream.sink_name(name), self.keys)
    }
}
