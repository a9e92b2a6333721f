//! How records get from the tasks of one stage to those of the next.
//!
//! Between each sending and each receiving task lies a [`lane`]: a queue of batches and events under one lock, taken
//! once a batch. An [`outlet`] at the end of a stage fills one batch a lane and sends it when it is full, when the
//! task runs out of input, or when it has waited too long; an [`inlet`] at the head of the next stage takes batches
//! from its lanes in turn and pushes their records. (Where senders send sorted records, a [`merge`] takes the least
//! record of all lanes instead; where two streams meet, a [`pair`] takes from both.) An emptied batch returns to its
//! sender on the same lane. Between hosts, the lanes of an edge with very many tasks are bundled: see [`inbox`].
//!
//! A lane gives its sender credit in bytes. A sender that has used it up on any lane stops taking input, and is woken
//! when the receiver has returned half of it. So a slow receiver exerts back-pressure on its own senders only, and
//! what an edge holds is bounded by `senders x receivers x (credit + what one batch of the sender's input can
//! produce)`. It counts in the memory pool, of which all lanes of a job get a quarter: if that is not enough for the credit that
//! is configured, they get less, and batches are smaller.
//!
//! A barrier arrives behind all batches that were sent before it. Where that takes too long, it may [`overtake`] them.
//!
//! This layer knows nothing of operators, schedulers or plans.

mod align;
mod compression;
mod edge;
mod far;
mod inbox;
mod inlet;
mod intake;
pub(crate) mod lane;
mod merge;
mod outlet;
mod overtake;
mod pair;
mod record_batch;
mod route;

pub(crate) use align::Idleness;
pub(crate) use compression::WORTH_COMPRESSING;
pub(crate) use edge::{Edge, FAR_CREDIT, LaneSettings, TasksOf};
pub(crate) use far::read_from_host;
pub use inlet::Inlet;
pub use merge::MergingInlet;
pub(crate) use outlet::{Broadcast, Outlet};
pub(crate) use overtake::InFlight;
pub use pair::PairInlet;
pub(crate) use record_batch::RecordBatch;
pub use record_batch::{Hashed, Partial, PartialBatch, PartialEntry};
pub(crate) use route::{
    ByHash, Custom, KEY_GROUPS, Random, RoundRobin, Route, hashes_of, key_group, owner,
    owner_of_group,
};

use crate::config::BatchMode;
