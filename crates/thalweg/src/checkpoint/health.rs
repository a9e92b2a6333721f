//! What is known of a job's checkpoints while it runs: how old the newest is that it could go on from, and whether the last attempt
//! to take one has failed. Hosts other than the first get to know it from that one.

use super::Checkpoints;
use crate::clock::Nanos;
use crate::data::Data;
use crate::metrics::{CheckpointStats, NewestCheckpoint};
use crate::sync::lock;
use std::time::Duration;

/// A checkpoint that counts since now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Data)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// How long it took since its barrier was sent.
    pub(crate) took: Nanos,
}

#[derive(Default)]
pub(super) struct Health {
    newest: Option<Newest>,
    taken: u64,
    failed: u64,
    failure: Option<String>,
}

struct Newest {
    number: u64,
    bytes: u64,
    /// By the clock of the job.
    at: Nanos,
    took: Option<Nanos>,
}

impl Checkpoints {
    /// The job begins with its snapshot, which is the checkpoint of this number, in a file of this length.
    pub(crate) fn began_with(&self, (number, bytes): (u64, u64)) {
        if let Some(snapshot) = &*lock(&self.restored) {
            let newest = Newest { number, bytes, at: snapshot.clock.now, took: None };
            lock(&self.health).newest = Some(newest);
        }
    }

    /// A checkpoint counts since `now`, by the clock of the job.
    pub(crate) fn counts(&self, Counted { number, bytes, took }: Counted, now: Nanos) {
        let mut health = lock(&self.health);
        let at = now.saturating_sub(took);
        health.newest = Some(Newest { number, bytes, at, took: Some(took) });
        health.taken += 1;
        health.failure = None;
    }

    /// A checkpoint could not be taken.
    pub(crate) fn fails(&self, why: String) {
        let mut health = lock(&self.health);
        health.failed += 1;
        health.failure = Some(why);
    }

    /// What is known of them at this time of the job's clock; `None` if they are not stored.
    pub(crate) fn stats(&self, now: Nanos) -> Option<CheckpointStats> {
        self.storage.as_ref()?;
        let health = lock(&self.health);
        let Health { newest, taken, failed, failure } = &*health;
        let newest = newest.as_ref().map(|&Newest { number, bytes, at, took }| NewestCheckpoint {
            number,
            age: Duration::from_nanos(now.saturating_sub(at)),
            bytes,
            took: took.map(Duration::from_nanos),
        });
        let (taken, failed, failure) = (*taken, *failed, failure.clone());
        Some(CheckpointStats { newest, taken, failed, failure })
    }
}
