//! The keyed table: maps a key to its accumulator.
//!
//! This file defines the semantics; `slots` implements the search.

use super::slots::{self, Slots};
use crate::data::{Key, Portable};
use crate::flow::note_key;
use std::ops::Range;
use std::{fmt, mem};

/// Up to this many bytes, the table is in the nearest caches, and a lookup in steps would cost more than it saves.
/// Measured: counts by uniform `u64`s break even between 0.6 and 2 MB.
const CACHE_RESIDENT: usize = 1 << 20;
/// The bytes of a table from which on slots are prefetched: it then has to share the second-level cache with the batches.
const PREFETCHED: usize = 1 << 18;

/// The number of spent keys that may stay in a table, in addition to as many as there are live keys.
const SPENT: usize = 1024;

/// The number of slots for each key at which a table larger than the caches is too large for its keys.
const SPARSE: usize = 16;

/// Accumulators by key.
///
/// The caller passes the hash, which it has computed for routing already; it must be [`Key::hash`] of the key's
/// probe. A key is copied only when it is new.
///
/// A table takes `size_of::<(K::Slot, A)>() + 1` bytes a slot, and is between three eighths and three quarters full; less, to
/// three sixteenths, where keys have come that had to be far from their place. It grows by doubling; the owner must reserve memory first, as much as [`bytes_if_grown`](Self::bytes_if_grown)
/// returns.
///
/// The order of iteration depends only on the order of insertions and removals, so equal runs give equal output.
///
/// ```
/// use thalweg::data::Key;
/// use thalweg::state::GroupTable;
///
/// let mut counts = GroupTable::<str, u64>::new();
/// for word in "the line of fastest flow along the bed".split(' ') {
///     let probe = word.probe();
///     *counts.upsert(str::hash(probe), probe, word, || 0) += 1;
/// }
/// let the = "the".probe();
/// assert_eq!(counts.find(str::hash(the), the), Some(&mut 2));
/// assert_eq!(counts.len(), 7);
/// ```
pub struct GroupTable<K: Key + ?Sized, A> {
    slots: Slots<Entry<K, A>>,
    keys: Keys<K>,
}

/// The probable slot of a key, from [`GroupTable::locate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotHint(usize);

/// A key in a table, with its accumulator; from [`GroupTable::entry`] and [`GroupTable::known`].
pub struct Known<'t, K: Key + ?Sized, A> {
    key: &'t K::Slot,
    arena: &'t K::Arena,
    /// The accumulator.
    pub value: &'t mut A,
}

impl<K: Key + ?Sized, A> Known<'_, K, A> {
    /// A copy of the key.
    #[inline]
    pub fn key(&self) -> <K as Portable>::Owned {
        K::view(self.key, self.arena, K::own)
    }
}

impl<'t, K: Key + ?Sized, A> Known<'t, K, A> {
    /// Borrows it for a shorter time.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Known<'_, K, A> {
        Known { key: self.key, arena: self.arena, value: self.value }
    }

    /// Shows the key with the accumulator.
    #[inline(always)]
    pub(crate) fn see<R>(self, see: impl FnOnce(&K, &'t mut A) -> R) -> R {
        let value = self.value;
        K::view(self.key, self.arena, |key| see(key, value))
    }

    /// Passes the accumulator to a closure that may refuse a value of this key.
    #[inline(always)]
    pub(crate) fn guard<R>(self, closure: impl FnOnce(&'t mut A) -> R) -> R {
        let of_key = OfKey::<K> { key: self.key, arena: self.arena };
        let result = closure(self.value);
        mem::forget(of_key);
        result
    }
}

/// While this value exists, a refusal is attributed to this key.
struct OfKey<'t, K: Key + ?Sized> {
    key: &'t K::Slot,
    arena: &'t K::Arena,
}

impl<K: Key + ?Sized> Drop for OfKey<'_, K> {
    #[inline(always)]
    fn drop(&mut self) {
        note_slot::<K>(self.key, self.arena);
    }
}

#[cold]
#[inline(never)]
fn note_slot<K: Key + ?Sized>(key: &K::Slot, arena: &K::Arena) {
    K::view(key, arena, note_key);
}

struct Entry<K: Key + ?Sized, A> {
    key: K::Slot,
    value: A,
}

/// The storage of keys outside their slots.
struct Keys<K: Key + ?Sized> {
    arena: K::Arena,
    // The bytes that slots own on the heap, without the arena.
    heap: usize,
}

impl<K: Key + ?Sized, A> GroupTable<K, A> {
    /// An empty table, with room for a few keys.
    pub fn new() -> Self {
        Self { slots: Slots::new(), keys: Keys { arena: K::Arena::default(), heap: 0 } }
    }

    /// The number of keys.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no keys.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Whether the next new key makes the table grow.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Whether the table is so small that a lookup in steps would cost more than it saves.
    #[inline(always)]
    pub fn is_cache_resident(&self) -> bool {
        self.slots.bytes() <= CACHE_RESIDENT
    }

    /// The bytes occupied: slots, arena, and what keys own on the heap. The heap of accumulators is not included.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + K::arena_bytes(&self.keys.arena) + self.keys.heap
    }

    /// The peak of the bytes occupied while the number of slots doubles: the old and the new slots, three times as
    /// much as now.
    #[inline]
    pub fn bytes_if_grown(&self) -> usize {
        self.slots.bytes_if_grown() + K::arena_bytes(&self.keys.arena) + self.keys.heap
    }

    /// Begins a lookup: prefetches the tags that locate the key.
    ///
    /// In a table larger than the caches, a lookup waits for memory twice, which takes longer than everything else.
    /// In three steps, each done for a few dozen keys before the next step, it does not wait: this, then
    /// [`locate`](Self::locate), then [`find_at`](Self::find_at).
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.slots.prefetch(hash);
    }

    /// The second step of a lookup: returns the probable slot of the key, and prefetches it.
    #[inline(always)]
    pub fn locate(&self, hash: u64) -> SlotHint {
        SlotHint(self.slots.locate(hash))
    }

    /// Prefetches the probable slot of a key that is looked up soon, if the table is large.
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) {
        if self.bytes() > PREFETCHED {
            self.locate(hash);
        }
    }

    /// The last step of a lookup: the accumulator of a key, if the key is in the slot that [`locate`](Self::locate)
    /// returned. Otherwise [`find`](Self::find) may still find it. The table may have changed since.
    #[inline(always)]
    pub fn find_at(&mut self, place: SlotHint, hash: u64, probe: K::Probe<'_>) -> Option<&mut A> {
        self.known_at(place, hash, probe).map(|known| known.value)
    }

    /// As [`find_at`](Self::find_at), but also returns the key as the table stores it.
    #[inline(always)]
    pub fn known_at(
        &mut self,
        place: SlotHint,
        hash: u64,
        probe: K::Probe<'_>,
    ) -> Option<Known<'_, K, A>> {
        let arena = &self.keys.arena;
        let entry =
            self.slots.find_at(place.0, hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(Known { key: &entry.key, arena, value: &mut entry.value })
    }

    /// The accumulator of a key, if the table has the key.
    #[inline(always)]
    pub fn find(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<&mut A> {
        self.known(hash, probe).map(|known| known.value)
    }

    /// As [`find`](Self::find), but also returns the key as the table stores it.
    #[inline(always)]
    pub fn known(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<Known<'_, K, A>> {
        let arena = &self.keys.arena;
        let entry = self.slots.find(hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(Known { key: &entry.key, arena, value: &mut entry.value })
    }

    /// Borrows the table for a run of look-ups, which cost less than as many calls of [`known`](Self::known): the
    /// table's addresses stay in registers.
    #[inline(always)]
    pub(crate) fn finder(&mut self) -> Finder<'_, K, A> {
        Finder { slots: self.slots.finder(), arena: &self.keys.arena }
    }

    /// The accumulator of a key, created by `init` if the key is new. `probe` must be `key`'s.
    ///
    /// Grows the table when it [is full](Self::is_full) and the key is new.
    #[inline(always)]
    pub fn upsert(
        &mut self,
        hash: u64,
        probe: K::Probe<'_>,
        key: &K,
        init: impl FnOnce() -> A,
    ) -> &mut A {
        self.entry(hash, probe, key, init).value
    }

    /// As [`upsert`](Self::upsert), but also returns the key as the table stores it, for callers that need it after
    /// the record is gone.
    #[inline(always)]
    pub fn entry(
        &mut self,
        hash: u64,
        probe: K::Probe<'_>,
        key: &K,
        init: impl FnOnce() -> A,
    ) -> Known<'_, K, A> {
        self.place(hash, probe, key, init).1
    }

    /// As [`entry`](Self::entry), with the number of the slot, which holds until the table grows or keys are removed.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        hash: u64,
        probe: K::Probe<'_>,
        key: &K,
        init: impl FnOnce() -> A,
    ) -> (usize, Known<'_, K, A>) {
        self.place_or_close(hash, probe, key, || (init(), false))
    }

    /// As [`place`](Self::place), where `init` also returns whether the table counts as [full](Self::is_full) with
    /// the new key, until it [is opened again](Self::reopen) or rebuilt.
    #[inline(always)]
    pub(crate) fn place_or_close(
        &mut self,
        hash: u64,
        probe: K::Probe<'_>,
        key: &K,
        init: impl FnOnce() -> (A, bool),
    ) -> (usize, Known<'_, K, A>) {
        debug_assert_eq!(hash, K::hash(probe), "the hash must be the key's");
        let (at, entry) = self.slots.upsert(
            hash,
            &mut self.keys,
            |entry, keys| K::matches(&entry.key, &keys.arena, probe),
            |keys| {
                let (value, closes) = init();
                let slot = key.store(probe, &mut keys.arena);
                keys.heap += K::slot_heap(&slot);
                (Entry { key: slot, value }, closes)
            },
            hash_of,
        );
        (at, Known { key: &entry.key, arena: &self.keys.arena, value: &mut entry.value })
    }

    /// The table accepts as many keys again as there is room for, if it [was closed](Self::place_or_close).
    pub(crate) fn reopen(&mut self) {
        self.slots.reopen();
    }

    /// Calls `each` with every slot that has a key, the hash of the key, and its accumulator, in the order of slots.
    pub(crate) fn for_each_place(&self, mut each: impl FnMut(usize, u64, &A)) {
        for (at, entry) in self.slots.places() {
            each(at, K::slot_hash(&entry.key, &self.keys.arena), &entry.value);
        }
    }

    /// Whether there are keys whose bytes lie outside their slots.
    pub(crate) fn has_long_keys(&self) -> bool {
        K::arena_bytes(&self.keys.arena) > 0
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.capacity()
    }

    /// Doubles the number of slots.
    pub(crate) fn grow(&mut self) {
        self.slots.grow(|entry| hash_of(entry, &self.keys));
    }

    /// Prefetches the key of a slot.
    #[inline(always)]
    pub(crate) fn prefetch_at(&self, slot: usize) {
        self.slots.prefetch_entry(slot);
    }

    /// Passes the key of a slot to `see`, with its accumulator; `None` if the slot is empty.
    #[inline(always)]
    pub(crate) fn see_at<R>(
        &mut self,
        slot: usize,
        see: impl FnOnce(&K, &mut A) -> R,
    ) -> Option<R> {
        let entry = self.slots.entry_at(slot)?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &mut entry.value)))
    }

    /// The accumulators with their slots.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, &A)> {
        self.slots.places().map(|(at, entry)| (at, &entry.value))
    }

    /// Calls `each` with every key in a range of slots, its slot and its accumulator, in the order of slots.
    pub(crate) fn for_each_in(&self, slots: Range<usize>, mut each: impl FnMut(usize, &K, &A)) {
        for (at, entry) in self.slots.places_in(slots) {
            K::view(&entry.key, &self.keys.arena, |key| each(at, key, &entry.value));
        }
    }

    /// The slot of a key; an error if the table does not have the key, with the slot that it gets if it is added before the
    /// table grows.
    #[inline]
    pub(crate) fn slot_of(&mut self, hash: u64, probe: K::Probe<'_>) -> Result<usize, usize> {
        let arena = &self.keys.arena;
        self.slots.position(hash, |entry| K::matches(&entry.key, arena, probe))
    }

    /// The slot of the key with this hash whose accumulator satisfies `is_it`.
    pub(crate) fn slot_where(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&A) -> bool,
    ) -> Option<usize> {
        self.slots.position(hash, |entry| is_it(&entry.value)).ok()
    }

    /// Adds a key that is not in the table, from a slot of another arena.
    ///
    /// Grows the table when it [is full](Self::is_full).
    #[inline(never)]
    pub fn insert_slot(&mut self, hash: u64, key: K::Slot, arena: &K::Arena, value: A) {
        self.slots.insert_new(
            hash,
            &mut self.keys,
            |keys| {
                let key = K::move_slot(key, arena, &mut keys.arena);
                keys.heap += K::slot_heap(&key);
                Entry { key, value }
            },
            hash_of,
        );
    }

    /// Calls `each` with every key and its accumulator.
    pub fn for_each(&self, mut each: impl FnMut(&K, &A)) {
        for entry in self.slots.iter() {
            K::view(&entry.key, &self.keys.arena, |key| each(key, &entry.value));
        }
    }

    /// Calls `each` with every key and its accumulator, which may be changed.
    pub fn for_each_mut(&mut self, mut each: impl FnMut(&K, &mut A)) {
        for entry in self.slots.iter_mut() {
            K::view(&entry.key, &self.keys.arena, |key| each(key, &mut entry.value));
        }
    }

    /// Passes the first key at or after `cursor` to `see`, with its accumulator, and moves the cursor past it; `None`
    /// if there is no further key. Start at 0, and again whenever keys were added.
    #[inline]
    pub fn see_next<R>(&self, cursor: &mut usize, see: impl FnOnce(&K, &A) -> R) -> Option<R> {
        let entry = self.slots.see_next(cursor)?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &entry.value)))
    }

    /// As [`see_next`](Self::see_next), but the accumulator may be changed.
    #[inline]
    pub fn see_next_mut<R>(
        &mut self,
        cursor: &mut usize,
        see: impl FnOnce(&K, &mut A) -> R,
    ) -> Option<R> {
        let entry = self.slots.see_next_mut(cursor)?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &mut entry.value)))
    }

    /// Passes the key with this hash whose accumulator satisfies `is_it` to `see`; `None` if there is none. For
    /// callers without a copy of the key. Costs as much as a lookup.
    #[inline]
    pub fn see_where<R>(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&A) -> bool,
        see: impl FnOnce(&K, &mut A) -> R,
    ) -> Option<R> {
        let entry = self.slots.find(hash, |entry| is_it(&entry.value))?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &mut entry.value)))
    }

    /// As [`see_where`](Self::see_where), where `see` also returns whether the key stays. Removes it otherwise, and
    /// then also returns its accumulator.
    ///
    /// While the table has keys whose bytes lie outside their slots, all keys stay, as that memory could not be used
    /// again: see [`forget_spent`](Self::forget_spent).
    #[inline]
    pub(crate) fn see_or_remove<R>(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&A) -> bool,
        see: impl FnOnce(&K, &mut A) -> (R, bool),
    ) -> Option<(R, Option<A>)> {
        let Keys { arena, heap } = &mut self.keys;
        let keeps_all = K::arena_bytes(arena) > 0;
        let (seen, entry) = self.slots.see_or_remove(
            hash,
            |entry| is_it(&entry.value),
            |entry| K::slot_hash(&entry.key, arena),
            |entry| {
                let (seen, stays) = K::view(&entry.key, arena, |key| see(key, &mut entry.value));
                (seen, stays || keeps_all)
            },
        )?;
        let removed = entry.map(|Entry { key, value }| {
            *heap -= K::slot_heap(&key);
            value
        });
        Some((seen, removed))
    }

    /// Rebuilds the table with the keys for whose accumulators `keep` returns `true`, of which there are `live`, once
    /// the others or the empty slots are many. For callers that drop keys at the end of each batch. A rebuild costs a
    /// step for every key, and needs the memory of both tables for its duration.
    pub fn forget_spent(&mut self, live: usize, keep: impl FnMut(&A) -> bool) {
        let is_sparse = self.slots.is_sparse(SPARSE) && self.slots.bytes() > CACHE_RESIDENT;
        if self.len() > 2 * live + SPENT || is_sparse {
            // Room for as many keys as there may be before the next rebuild.
            self.rebuild(2 * live, keep);
        }
    }

    /// Rebuilds the table with the keys for whose accumulators `keep` returns `true`, with room for so many.
    pub(crate) fn rebuild(&mut self, room: usize, mut keep: impl FnMut(&A) -> bool) {
        let keys = Keys { arena: K::Arena::default(), heap: 0 };
        let room = Self { slots: Slots::with_room(room), keys };
        let mut all = mem::replace(self, room).into_drain();
        let mut keep_next = |key, arena: &K::Arena, value| {
            if keep(&value) {
                self.insert_slot(K::slot_hash(&key, arena), key, arena, value);
            }
        };
        while all.slot_for_next(&mut keep_next).is_some() {}
    }

    /// The accumulators, in the order of [`for_each`](Self::for_each).
    pub fn values(&self) -> impl Iterator<Item = &A> {
        self.slots.iter().map(|entry| &entry.value)
    }

    /// Removes every key and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        K::clear_arena(&mut self.keys.arena);
        self.keys.heap = 0;
    }

    /// Turns the table into an iterator over its keys and accumulators.
    pub fn into_drain(self) -> Drain<K, A> {
        Drain { table: self, cursor: 0 }
    }
}

/// Not a closure: what grows a table would be compiled again for each place that adds keys.
fn hash_of<K: Key + ?Sized, A>(entry: &Entry<K, A>, keys: &Keys<K>) -> u64 {
    K::slot_hash(&entry.key, &keys.arena)
}

/// A table that is borrowed for a run of look-ups; from [`GroupTable::finder`].
pub(crate) struct Finder<'t, K: Key + ?Sized, A> {
    slots: slots::Finder<'t, Entry<K, A>>,
    arena: &'t K::Arena,
}

impl<K: Key + ?Sized, A> Finder<'_, K, A> {
    /// The same as [`GroupTable::known`].
    #[inline(always)]
    pub(crate) fn known(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<Known<'_, K, A>> {
        let arena = self.arena;
        let entry = self.slots.find(hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(Known { key: &entry.key, arena, value: &mut entry.value })
    }
}

impl<K: Key + ?Sized, A> Default for GroupTable<K, A> {
    fn default() -> Self {
        Self::new()
    }
}

/// The keys and accumulators of a table, from [`GroupTable::into_drain`].
///
/// Keys are returned as owned values by its iterator, or passed by reference and without an allocation by
/// [`for_next`](Self::for_next); the two may be mixed. The memory is kept until the end, and can be used again by
/// [`into_table`](Self::into_table).
pub struct Drain<K: Key + ?Sized, A> {
    table: GroupTable<K, A>,
    cursor: usize,
}

impl<K: Key + ?Sized, A> Drain<K, A> {
    /// The number of keys not returned yet.
    pub fn remaining(&self) -> usize {
        self.table.len()
    }

    /// The bytes still occupied.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Passes the next key to `see`, with its accumulator. `None` after the last key.
    #[inline]
    pub fn for_next<R>(&mut self, see: impl FnOnce(&K, A) -> R) -> Option<R> {
        self.slot_for_next(|key, arena, value| K::view(&key, arena, |key| see(key, value)))
    }

    /// Passes the next key to `see` in the form of its slot, with its accumulator. `None` after the last key.
    #[inline]
    pub fn slot_for_next<R>(&mut self, see: impl FnOnce(K::Slot, &K::Arena, A) -> R) -> Option<R> {
        let Entry { key, value } = self.table.slots.take_next(&mut self.cursor)?;
        Some(see(key, &self.table.keys.arena, value))
    }

    /// An empty table with this table's memory. Drops the keys not returned yet.
    pub fn into_table(self) -> GroupTable<K, A> {
        let mut table = self.table;
        table.clear();
        table
    }
}

impl<K: Key + ?Sized, A> Iterator for Drain<K, A> {
    type Item = (<K as Portable>::Owned, A);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Entry { key, value } = self.table.slots.take_next(&mut self.cursor)?;
        Some((K::take(key, &self.table.keys.arena), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining(), Some(self.remaining()))
    }
}

impl<K: Key + ?Sized, A> ExactSizeIterator for Drain<K, A> {}

impl<K: Key + ?Sized, A: fmt::Debug> fmt::Debug for GroupTable<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        self.for_each(|key, value| {
            map.entry(&key, value);
        });
        map.finish()
    }
}

impl<K: Key + ?Sized, A> fmt::Debug for Drain<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

mod direct;
#[cfg(test)]
mod tests;

pub(crate) use direct::DirectMapped;
