//! Saves a keyed table in parts, between batches of records that change it: copy-on-write by encoding.
//!
//! A barrier leaves the operator at once, and the table is encoded later, a run of slots at a time. What is saved is the
//! table as it was at the barrier:
//!
//! ```text
//!   slots:   saved | not saved yet, but for those that are marked
//!                  ^ next
//! ```
//!
//! * Before a record, or a timer, changes a state that is not saved yet, the state is saved and its slot marked. So it pays for
//!   its own key only, wherever the key is in the table. A state without which nothing would be lost is only marked.
//! * A new key goes into an empty slot, which is marked, as the key came after the barrier.
//! * Before the slots move or are emptied (growth, eviction to disk, the end of a round or of the input), and before the next
//!   barrier, the owner saves all that is left. It must not remove single keys meanwhile, since others would move up.
//!
//! There is one bit for each slot while a table is being saved, besides the encoded entries.

use crate::checkpoint::{OpenSaving, Saving};
use crate::data::{Data, Key};
use crate::fault::{Fault, is_planted};
use crate::state::GroupTable;
use std::mem::{self, needs_drop};

/// The most bytes of a table that is saved at once, and of what it is encoded to, which takes a fraction of a millisecond. In
/// tests, whose tables are small, all are saved in parts.
const AT_ONCE: usize = if cfg!(test) { 0 } else { 1 << 20 };

/// Whether tables within the nearest caches may be saved in parts, too: if states own memory, which may be much.
pub(crate) const fn saves_small_in_parts<V>() -> bool {
    cfg!(test) || needs_drop::<V>()
}

/// The fewest slots that are saved between two batches, in some thirty microseconds: a task that has time goes on to run out of
/// input now and then, so that records hardly wait.
const LEAST: usize = if cfg!(test) { 4 } else { 4 << 10 };
/// Where so many batches have come one after another, with no event or wait between them, the task is busy, and twice as many
/// slots are saved from then on: fewer states are saved by records, one at a time, and the caches lose fewer of them.
const BUSY: u32 = if cfg!(test) { 2 } else { 16 };
/// The most slots of a part, and the bytes of encoded states after which it ends: in a few milliseconds.
const MOST: usize = if cfg!(test) { 16 } else { 512 << 10 };
const BYTES: usize = if cfg!(test) { 600 } else { 4 << 20 };
/// So many slots are saved before the bytes are looked at.
const STEP: usize = if cfg!(test) { 1 } else { 256 };
/// The most parts of a table, however large it is, as the snapshot waits for all of them.
const PARTS: usize = if cfg!(test) { 16 } else { 256 };

/// A table that is being saved.
pub(crate) struct GradualSave {
    open: OpenSaving,
    /// The first slot that may hold a state which is not saved yet.
    next: usize,
    /// The number of slots that the table had at the barrier.
    slots: usize,
    /// The number of slots that are saved at a time, and the fewest.
    part: usize,
    least: usize,
    /// Whether a record has come since the last part.
    has_record: bool,
    /// The number of parts of this length, if a record came before each but the first.
    busy: u32,
    /// A bit for each slot: set if there is nothing to save there from `next` on.
    marks: Vec<u64>,
}

/// What a table has for a key, of which the state is saved.
pub(crate) trait ToSave {
    /// The type of the states.
    type State: Data;

    /// The state; `None` if nothing would be lost without it.
    fn to_save(&self) -> Option<&Self::State>;
}

impl<V: Data> ToSave for V {
    type State = V;

    fn to_save(&self) -> Option<&V> {
        Some(self)
    }
}

/// Adds a key of a table, with its state, to the saved entries.
pub(crate) fn add<K, V>(out: &mut Saving, key: &K, state: &V)
where
    K: Key + ?Sized,
    V: Data,
{
    out.add_by_key(K::hash(key.probe()), |bytes| {
        key.own().encode(bytes);
        state.encode(bytes);
    });
}

impl GradualSave {
    /// Begins to save a table at a barrier. A small table is saved at once; then the result is `None`. States that own memory may
    /// be many times as large as the table: what is beyond [`AT_ONCE`] bytes is left.
    pub(crate) fn begin<K, V>(open: OpenSaving, table: &GroupTable<K, V>) -> Option<Self>
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        let is_whole = table.is_cache_resident() && !saves_small_in_parts::<V>();
        Self::begin_within(if is_whole { usize::MAX } else { AT_ONCE }, open, table)
    }

    /// As [`begin`](Self::begin), with so many bytes at once.
    fn begin_within<K, V>(bytes: usize, open: OpenSaving, table: &GroupTable<K, V>) -> Option<Self>
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        let least = LEAST.max(table.slots() / PARTS);
        let mut saving = Some(Self::in_parts_from(least, open, table));
        if table.is_empty() || table.bytes() <= bytes {
            let is_short = |saving: &Self| saving.open.saving.encoded() <= bytes;
            while saving.as_ref().is_some_and(is_short) && Self::save_part(&mut saving, table) {}
        }
        saving
    }

    /// As [`begin`](Self::begin), beginning with so many slots, whatever the size of the table.
    fn in_parts_from<K, V>(least: usize, open: OpenSaving, table: &GroupTable<K, V>) -> Self
    where
        K: Key + ?Sized,
    {
        let slots = table.slots();
        let marks = vec![0; slots.div_ceil(64)];
        Self { open, next: 0, slots, part: least, least, has_record: false, busy: 0, marks }
    }

    /// The number of slots that are saved next.
    fn next_part(&mut self) -> usize {
        if !mem::take(&mut self.has_record) {
            (self.part, self.busy) = (self.least, 0);
        } else if self.busy == BUSY {
            (self.part, self.busy) = ((2 * self.part).min(MOST).max(self.least), 0);
        }
        self.busy += 1;
        self.part
    }

    /// Saves the next part of a table that is being saved, if one is; returns whether there is more.
    pub(crate) fn save_part<K, V>(saving: &mut Option<Self>, table: &GroupTable<K, V>) -> bool
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        let Some(rest) = saving else { return false };
        let until = rest.slots.min(rest.next + rest.next_part());
        let before = rest.open.saving.encoded();
        while rest.next < until && rest.open.saving.encoded() < before + BYTES {
            rest.save_up_to(until.min(rest.next + rest.least.min(STEP)), table);
        }
        let saves = rest.next < rest.slots;
        if !saves && let Some(all) = saving.take() {
            all.open.end();
        }
        saves
    }

    /// Saves the rest of a table that is being saved, if one is. From then on the table may change in any way.
    pub(crate) fn save_rest<K, V>(saving: &mut Option<Self>, table: &GroupTable<K, V>)
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        if let Some(mut rest) = saving.take() {
            rest.save_up_to(rest.slots, table);
            rest.open.end();
        }
    }

    fn save_up_to<K, V>(&mut self, until: usize, table: &GroupTable<K, V>)
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        let Self { open, marks, .. } = self;
        table.for_each_in(self.next..until, |slot, key, entry| {
            if marks[slot / 64] >> (slot % 64) & 1 == 0
                && let Some(state) = entry.to_save()
            {
                add(&mut open.saving, key, state);
            }
        });
        self.next = until;
    }

    /// Saves the state of a key, if that is still to be done, before a record changes it or adds the key. If the table has to
    /// grow for the key, all of it is saved.
    pub(crate) fn before_change<K, V>(
        &mut self,
        table: &mut GroupTable<K, V>,
        hash: u64,
        probe: K::Probe<'_>,
    ) where
        K: Key + ?Sized,
        V: ToSave,
    {
        self.has_record = true;
        if self.next >= self.slots {
            return;
        }
        let place = table.slot_of(hash, probe);
        if place.is_err() && table.is_full() {
            return self.save_up_to(self.slots, table);
        }
        // There is nothing in the state that could change.
        if place.is_ok() && size_of::<V>() == 0 {
            return;
        }
        let (Ok(slot) | Err(slot)) = place;
        self.before_change_at(table, slot);
    }

    /// Saves the state in a slot, if that is still to be done, before it changes.
    pub(crate) fn before_change_at<K, V>(&mut self, table: &mut GroupTable<K, V>, slot: usize)
    where
        K: Key + ?Sized,
        V: ToSave,
    {
        let (word, bit) = (slot / 64, 1_u64 << (slot % 64));
        let is_saved = slot < self.next || self.next >= self.slots || self.marks[word] & bit != 0;
        if is_saved || is_planted(Fault::SavesWhatHasChanged) {
            return;
        }
        self.marks[word] |= bit;
        // For an empty slot, the closure is not called.
        table.see_at(slot, |key, entry| {
            if let Some(state) = entry.to_save() {
                add(&mut self.open.saving, key, state);
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
