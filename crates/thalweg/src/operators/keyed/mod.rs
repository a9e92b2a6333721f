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

mod aggregate;
mod aggregates;
mod combine;

mod elsewhere;

mod fold;
mod group;
mod group_by;
mod in_parts;
mod key_by;
mod map;

mod partition;
mod process;
mod remember;

mod sieve;
mod stateful_map;
mod sum;
mod together;
mod unique;

pub use aggregate::{Aggregate, Combine};
pub use aggregates::{Average, Count, Fold, FoldAssoc, Max, Min, Reduce};
pub use key_by::{ByRef, Carried, FirstOf, KeyBy, Plain};
pub(super) use partition::{AddHash, Placed, Placement, add_hash, by_hash};
pub use partition::{Partitioned, Scattered};
pub use process::{Process, ProcessContext, Timer};
pub use sum::{Sum, Summand};
pub use unique::Distinct;
pub(super) use unique::Whole;

use crate::stream::{Chain, Stream};
use std::marker::PhantomData;

/// A stream whose records have keys.
///
/// Made by [`Stream::group_by`] and [`Stream::group_by_ref`]. Its operators work on each key by
/// itself; [`unkey`](Self::unkey) makes it an ordinary stream of pairs again.
///
/// `P` says where the records of a key are: [`Scattered`] over all tasks, or [`Partitioned`], in
/// the one task that owns the key.
#[must_use = "a stream does nothing until it ends in a sink and its environment runs"]
pub struct KeyedStream<C: Chain, G, P = Scattered> {
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

    /// Names the operator before: in plans, statistics and messages, and as the identity of its
    /// state in snapshots. Names must differ within a job.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self::new(self.stream.name(name), self.keys)
    }
}
