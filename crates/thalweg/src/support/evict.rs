//! Moves the states of a keyed table to disk and back, through its [`Overflow`], and into checkpoints.

use super::gradual_save::GradualSave;
use super::overflow::Overflow;
use crate::checkpoint::StateHandle;
use crate::data::{Data, Key, Portable, Wire};
use crate::error::Result;
use crate::flow::Event;
use crate::state::{Drain, GroupTable, HeapEstimate};
use std::borrow::Borrow;

/// The bytes that restored states may own on the heap before they are accounted for.
pub(crate) const UNACCOUNTED: usize = 256 << 10;

/// A state on disk, with its hash and key.
pub(crate) type Evicted<K, V> = (u64, <K as Portable>::Owned, V);

/// Writes all states of a table to disk; from then on every record is written too.
pub(crate) fn evict<K, V, S>(
    table: Drain<K, V>,
    overflow: &mut Overflow<S, Evicted<K, V>>,
) -> Result<()>
where
    K: Key<Owned: Borrow<K>> + ?Sized,
    V: Data,
    S: Wire + ?Sized,
    Evicted<K, V>: Data,
{
    for (key, state) in table {
        let hash = K::hash(key.borrow().probe());
        overflow.write_state(hash, &(hash, key, state))?;
    }
    overflow.evicted()
}

/// Saves the states of a table, each with its key, and what is on disk, if this event is a barrier or the end. A large table is
/// not saved yet: the caller saves it in parts through the returned `GradualSave`, while records change it.
///
/// # Errors
///
/// If what is still to be written to disk cannot be.
pub(crate) fn begin_save<K, V, S>(
    state: &StateHandle,
    event: Event,
    table: &GroupTable<K, V>,
    overflow: &mut Overflow<S, Evicted<K, V>>,
) -> Result<Option<GradualSave>>
where
    K: Key<Owned: Borrow<K>> + ?Sized,
    V: Data,
    S: Wire + ?Sized,
    Evicted<K, V>: Data,
{
    let Some(mut open) = state.open(event) else { return Ok(None) };
    if let Err(error) = overflow.save(&mut open.saving) {
        open.end();
        return Err(error);
    }
    Ok(GradualSave::begin(open, table))
}

/// Restores what [`begin_save`] has saved.
///
/// # Errors
///
/// If it cannot be read, or has no room.
pub(crate) fn restore_all<K, V, S>(
    saved: &StateHandle,
    table: &mut GroupTable<K, V>,
    weighed: &mut HeapEstimate<V>,
    overflow: &mut Overflow<S, Evicted<K, V>>,
) -> Result<()>
where
    K: Key<Owned: Borrow<K>> + ?Sized,
    V: Data,
    S: Wire + ?Sized,
    Evicted<K, V>: Data,
    (K::Owned, V): Data,
{
    saved.restore(|(key, state): (K::Owned, V)| {
        let hash = K::hash(key.borrow().probe());
        restore((hash, key, state), table, weighed, overflow)
    })?;
    // Behind the table: no key is accepted after them.
    saved.restore_files(|file| overflow.restore(&file))
}

/// Moves a state from disk, or from a checkpoint, back into the table, or writes it to disk again where there is no room.
pub(crate) fn restore<K, V, S>(
    (hash, key, state): Evicted<K, V>,
    table: &mut GroupTable<K, V>,
    weighed: &mut HeapEstimate<V>,
    overflow: &mut Overflow<S, Evicted<K, V>>,
) -> Result<()>
where
    K: Key<Owned: Borrow<K>> + ?Sized,
    V: Data,
    S: Wire + ?Sized,
    Evicted<K, V>: Data,
{
    let full = table.is_full() || overflow.is_frozen();
    if full && !overflow.may_grow(table.bytes_if_grown() + weighed.bytes()) {
        return overflow.write_state(hash, &(hash, key, state));
    }
    weighed.comes(&state);
    let key = key.borrow();
    table.upsert(hash, key.probe(), key, || state);
    Ok(())
}
