//! What an operator adds to a state that is being saved.

use super::Aside;
use super::files::{FileEntry, SavedFiles, Spilled};
use super::snapshot::{Entries, LARGE};
use crate::data::Data;
use crate::error::Result;
use crate::state::HashRange;
use std::sync::Arc;

/// A state that is being saved.
#[derive(Default)]
pub(crate) struct Saving {
    pub(super) entries: Entries,
    /// Where files are copied.
    pub(super) files: Option<Arc<SavedFiles>>,
    /// The hashes of the keys that the task owns.
    pub(super) hashes: HashRange,
    /// Files that hold a part of the state.
    pub(super) spilled: Vec<Spilled>,
    pub(super) syncs: Vec<Aside>,
    pub(super) commits: Vec<Aside>,
    /// Whether nothing of it is needed any more, if it was saved at the end.
    pub(super) until: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    pub(super) refused: Option<String>,
}

impl Saving {
    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &impl Data) {
        match entry.heap_size() {
            bytes if bytes >= LARGE => self.entries.add_large(0, bytes, |out| entry.encode(out)),
            _ => self.add_by_key(0, |out| entry.encode(out)),
        }
    }

    /// Adds an entry that goes with a key of this hash: `write` appends its encoding.
    pub(crate) fn add_by_key(&mut self, hash: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.entries.add(hash, write);
    }

    /// The bytes that its entries have in the snapshot, up to now.
    pub(crate) fn encoded(&self) -> usize {
        self.entries.bytes()
    }

    /// Calls `sync` before the snapshot counts, on a thread that runs no tasks.
    pub(crate) fn before_it_counts(
        &mut self,
        sync: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) {
        self.syncs.push(Arc::new(sync));
    }

    /// Calls `commit` once the snapshot counts, on a thread that runs no tasks. It is not called if the job is over by then, nor
    /// with the last snapshot, which is taken when all tasks have ended. Its errors end the job.
    pub(crate) fn once_it_counts(
        &mut self,
        commit: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) {
        self.commits.push(Arc::new(commit));
    }

    /// What is saved at the end counts only until `is_done`: snapshots that are taken later have nothing of it. What was saved
    /// at a barrier counts for that one alone.
    pub(crate) fn until(&mut self, is_done: impl Fn() -> bool + Send + Sync + 'static) {
        self.until = Some(Box::new(is_done));
    }

    /// The files, and adds to `syncs` what is still to be copied.
    pub(super) fn copied(&mut self, syncs: &mut Vec<Aside>) -> Vec<FileEntry> {
        for Spilled { prefix, .. } in &mut self.spilled {
            // What was copied at an earlier barrier needs the file of the operator no more.
            *prefix = prefix.take().filter(|prefix| !prefix.is_copied());
            if let (Some(prefix), Some(files)) = (prefix.clone(), self.files.clone()) {
                syncs.push(Arc::new(move || prefix.copy_into(&*files.folder)));
            }
        }
        self.spilled.iter().map(|spilled| spilled.entry.clone()).collect()
    }

    /// The state cannot be saved now, for this reason: there is no snapshot at this barrier.
    pub(crate) fn refuse(&mut self, why: impl Into<String>) {
        self.refused.get_or_insert(why.into());
    }

    #[cfg(test)]
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }
}
