//! What a sink keeps of the records it got, merged when the job is over.

use bench_protocol::digest::Digest;
use bench_protocol::open_loop::Trace;
use bench_protocol::workload::{NumberCheck, RecordCheck};
use std::sync::{Arc, Mutex, PoisonError};

/// What may be kept a task and put together at the end.
pub(crate) trait Merge: Default + Send + 'static {
    fn merge(&mut self, other: Self);
}

impl Merge for NumberCheck {
    fn merge(&mut self, other: Self) {
        NumberCheck::merge(self, other);
    }
}

impl Merge for RecordCheck {
    fn merge(&mut self, other: Self) {
        RecordCheck::merge(self, other);
    }
}

impl Merge for Digest {
    fn merge(&mut self, other: Self) {
        Digest::merge(self, other);
    }
}

/// The rows of a job under an open loop, and how late they were.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) rows: thalweg_workloads::digest::Digest,
    pub(crate) latencies: Trace,
}

impl Merge for Seen {
    fn merge(&mut self, other: Self) {
        self.rows.merge(other.rows);
        self.latencies.merge(&other.latencies);
    }
}

/// Where the tasks of a sink leave what they kept.
pub(crate) struct Kept<K>(Arc<Mutex<K>>);

impl<K: Merge> Kept<K> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// What each clone of a volatile closure holds: its task's own part.
    pub(crate) fn part(&self) -> Part<K> {
        Part { own: K::default(), all: Arc::clone(&self.0) }
    }

    /// Everything, once the job is over.
    pub(crate) fn take(self) -> K {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one task has kept, merged with the others' when the task is gone.
///
/// A closure must take all of it (`let part = &mut part;`), and so its destructor too.
pub(crate) struct Part<K: Merge> {
    pub(crate) own: K,
    all: Arc<Mutex<K>>,
}

impl<K: Merge> Clone for Part<K> {
    fn clone(&self) -> Self {
        Self { own: K::default(), all: Arc::clone(&self.all) }
    }
}

impl<K: Merge> Drop for Part<K> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(own);
    }
}
