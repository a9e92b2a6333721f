//! Finds the states of one key among the slices on disk, for windows that have several results.
//!
//! Files of slices are read from their beginnings, part by part. Where a window has results before its end, or again after
//! it, single keys are needed. So a part of a slice that is asked for is copied once to a store of keys, where one search
//! finds what a key has in all slices. What is written to that part later is added when it is asked for again.
//!
//! The files stay: windows are emitted from them at their ends, and checkpoints refer to them. The store is in no checkpoint.

use super::counts::SOME;
use crate::data::{Data, Key, Portable};
use crate::error::Result;
use crate::operators::window::frames::SliceId;
use crate::state::{Drain, SpillDir};
use crate::support::evict::UNACCOUNTED;
use crate::support::keyed_timers::Cold;

/// The states of a key, each with its slice, in the order of the slices.
pub(super) type States<S> = Vec<(SliceId, S)>;

/// The slices on disk by key, as far as they were asked for.
pub(super) struct SliceIndex<K: Key + ?Sized, S: Data>(Cold<K, States<S>>);

impl<K: Key + ?Sized, S: Data> SliceIndex<K, S> {
    /// An empty one, with a cache of so many bytes.
    pub(super) fn new(spill: SpillDir, cache: usize) -> Self {
        Self(Cold::new(spill, cache, 1))
    }

    /// The bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.0.written()
    }

    /// Adds states of a slice; the slices before `first` are over.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be used.
    pub(super) fn add(
        &mut self,
        (slice, first): (SliceId, SliceId),
        mut table: Drain<K, S>,
        combine: &impl Fn(&K, &mut S, S),
    ) -> Result<()> {
        let mut changed: Vec<(u64, <K as Portable>::Owned, States<S>)> = Vec::new();
        loop {
            let mut heap = 0;
            while heap < UNACCOUNTED {
                let next = table.for_next(|key, state| (key.own(), state));
                let Some((key, state)) = next else { break };
                let lent = K::lent(&key);
                let hash = K::hash(lent.probe());
                let mut states = self.0.take(hash, lent)?.unwrap_or_default();
                states.retain(|(other, _)| *other >= first);
                match states.binary_search_by_key(&slice, |(other, _)| *other) {
                    Ok(at) => combine(lent, &mut states[at].1, state),
                    Err(at) => states.insert(at, (slice, state)),
                }
                heap += states.heap_size();
                changed.push((hash, key, states));
            }
            if changed.is_empty() {
                return Ok(());
            }
            let mut changed = changed.drain(..);
            self.0.put_all(|entry| {
                let Some((hash, key, states)) = changed.next() else { return false };
                Cold::<K, States<S>>::fill(entry, hash, K::lent(&key), &states);
                // The key is of no use when its last slice is over.
                entry.due[0] = states.last().map(|(slice, _)| *slice);
                true
            })?;
        }
    }

    /// What a key has in all slices.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn get(&mut self, hash: u64, key: &K) -> Result<States<S>> {
        Ok(self.0.get(hash, key)?.unwrap_or_default())
    }

    /// Removes the keys that have nothing in this slice and later ones.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(super) fn forget_before(&mut self, first: SliceId) -> Result<()> {
        while self.0.first_due(0).is_some_and(|last| last < first) {
            self.0.take_due(0, first - 1, SOME)?;
        }
        if self.0.is_empty() {
            self.0.release();
        }
        Ok(())
    }

    /// Removes everything, and the file.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        self.0.release();
    }
}
