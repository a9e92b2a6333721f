//! The keyed table: a key's accumulator, found as fast as memory allows.
//!
//! This file says what a table means; `slots` beside it, how an entry is found.

use super::slots::Slots;
use crate::data::{Key, Portable};
use crate::flow::note_key;
use std::{fmt, mem};

/// Up to this many bytes, a look-up is answered by the nearest caches, and doing it in steps only
/// costs. Measured: counts by uniform `u64`s break even between 0.6 and 2 MB.
const CACHE_RESIDENT: usize = 1 << 20;

/// Spent keys that may stay in a table, beyond as many as there are others.
const SPENT: usize = 1024;

/// Accumulators by key.
///
/// The hash is given by the caller, who has computed it for routing already; it must be
/// [`Key::hash`] of the key's probe. A key is copied when it is new and at no other time.
///
/// A table takes `size_of::<(K::Slot, A)>() + 1` bytes a slot, and is between three eighths and
/// three quarters full. It grows by doubling; its owner asks the memory pool beforehand, with what
/// [`bytes_if_grown`](Self::bytes_if_grown) says. Keys cannot be removed one by one.
///
/// The order in which keys come out follows from the order in which they came in, and nothing else:
/// equal runs give equal output.
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

/// Where in a table a key probably is; said by [`GroupTable::locate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(usize);

/// A key that is in a table, and its accumulator; made by [`GroupTable::entry`] and
/// [`GroupTable::known`].
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
    /// The same for a while.
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

    /// Calls what may refuse a value of this key with the accumulator.
    #[inline(always)]
    pub(crate) fn guard<R>(self, closure: impl FnOnce(&'t mut A) -> R) -> R {
        let of_key = OfKey::<K> { key: self.key, arena: self.arena };
        let result = closure(self.value);
        mem::forget(of_key);
        result
    }
}

/// While this is there, what is refused is known to be of this key.
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

/// What keys keep outside their slots.
struct Keys<K: Key + ?Sized> {
    arena: K::Arena,
    // The bytes that slots own on the heap, the arena apart.
    heap: usize,
}

impl<K: Key + ?Sized, A> GroupTable<K, A> {
    /// A table without keys, with room for a few.
    pub fn new() -> Self {
        Self { slots: Slots::new(), keys: Keys { arena: K::Arena::default(), heap: 0 } }
    }

    /// The number of keys.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no key.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Whether the next new key makes the table grow.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Whether the table is so small that a look-up in steps would cost more than it saves.
    #[inline(always)]
    pub fn is_cache_resident(&self) -> bool {
        self.slots.bytes() <= CACHE_RESIDENT
    }

    /// The bytes occupied: slots, arena, and what keys own on the heap. What accumulators own there
    /// is for their owner to add.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + K::arena_bytes(&self.keys.arena) + self.keys.heap
    }

    /// The most bytes that the table would occupy while its slots are doubled: the old and the new
    /// ones, three times what it occupies now.
    #[inline]
    pub fn bytes_if_grown(&self) -> usize {
        self.slots.bytes_if_grown() + K::arena_bytes(&self.keys.arena) + self.keys.heap
    }

    /// Begins a look-up: asks for what says where the key is, without waiting for it.
    ///
    /// In a table larger than the caches a look-up waits for memory twice, and longer than all else
    /// takes. In three steps, each taken for a few dozen keys before the next, it need not wait:
    /// this, then [`locate`](Self::locate), then [`find_at`](Self::find_at).
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.slots.prefetch(hash);
    }

    /// Goes on with a look-up: where the key probably is, which memory is asked for.
    #[inline(always)]
    pub fn locate(&self, hash: u64) -> Place {
        Place(self.slots.locate(hash))
    }

    /// The accumulator of a key, if the key is where [`locate`](Self::locate) said. Where it is not,
    /// [`find`](Self::find) may still find it. The table may have changed in between.
    #[inline(always)]
    pub fn find_at(&mut self, place: Place, hash: u64, probe: K::Probe<'_>) -> Option<&mut A> {
        self.known_at(place, hash, probe).map(|known| known.value)
    }

    /// As [`find_at`](Self::find_at), with the key as the table holds it.
    #[inline(always)]
    pub fn known_at(
        &mut self,
        place: Place,
        hash: u64,
        probe: K::Probe<'_>,
    ) -> Option<Known<'_, K, A>> {
        let arena = &self.keys.arena;
        let entry =
            self.slots.find_at(place.0, hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(Known { key: &entry.key, arena, value: &mut entry.value })
    }

    /// The accumulator of a key, if the key is known.
    #[inline(always)]
    pub fn find(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<&mut A> {
        self.known(hash, probe).map(|known| known.value)
    }

    /// As [`find`](Self::find), with the key as the table holds it.
    #[inline(always)]
    pub fn known(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<Known<'_, K, A>> {
        let arena = &self.keys.arena;
        let entry = self.slots.find(hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(Known { key: &entry.key, arena, value: &mut entry.value })
    }

    /// The accumulator of a key, made by `init` if the key is new. `probe` must be `key`'s.
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

    /// As [`upsert`](Self::upsert), with the key as the table holds it: for who must hand on the key when
    /// the record that it came with is gone.
    #[inline(always)]
    pub fn entry(
        &mut self,
        hash: u64,
        probe: K::Probe<'_>,
        key: &K,
        init: impl FnOnce() -> A,
    ) -> Known<'_, K, A> {
        debug_assert_eq!(hash, K::hash(probe), "the hash must be the key's");
        let entry = self.slots.upsert(
            hash,
            &mut self.keys,
            |entry, keys| K::matches(&entry.key, &keys.arena, probe),
            |keys| {
                let value = init();
                let slot = key.store(probe, &mut keys.arena);
                keys.heap += K::slot_heap(&slot);
                Entry { key: slot, value }
            },
            |entry, keys| K::slot_hash(&entry.key, &keys.arena),
        );
        Known { key: &entry.key, arena: &self.keys.arena, value: &mut entry.value }
    }

    /// Adds a key that is not in the table, given as another arena's slot holds it.
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
            |entry, keys| K::slot_hash(&entry.key, &keys.arena),
        );
    }

    /// Shows every key and its accumulator.
    pub fn for_each(&self, mut each: impl FnMut(&K, &A)) {
        for entry in self.slots.iter() {
            K::view(&entry.key, &self.keys.arena, |key| each(key, &entry.value));
        }
    }

    /// Shows every key and its accumulator, which may be changed.
    pub fn for_each_mut(&mut self, mut each: impl FnMut(&K, &mut A)) {
        for entry in self.slots.iter_mut() {
            K::view(&entry.key, &self.keys.arena, |key| each(key, &mut entry.value));
        }
    }

    /// Shows the first key at or behind `cursor` with its accumulator, and moves the cursor behind it;
    /// `None` when there is no further key. Begin with 0; whoever changes the keys begins anew.
    #[inline]
    pub fn see_next<R>(&self, cursor: &mut usize, see: impl FnOnce(&K, &A) -> R) -> Option<R> {
        let entry = self.slots.see_next(cursor)?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &entry.value)))
    }

    /// As [`see_next`](Self::see_next), for an accumulator that may be changed.
    #[inline]
    pub fn see_next_mut<R>(
        &mut self,
        cursor: &mut usize,
        see: impl FnOnce(&K, &mut A) -> R,
    ) -> Option<R> {
        let entry = self.slots.see_next_mut(cursor)?;
        Some(K::view(&entry.key, &self.keys.arena, |key| see(key, &mut entry.value)))
    }

    /// Shows the key with this hash whose accumulator satisfies `is_it`, where no copy of the key is at hand
    /// to look it up; `None` when there is none. Costs what a look-up costs.
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

    /// Makes the table anew with the keys for whose accumulators the closure says `true`, of which there are
    /// `live`, where others are many: for who drops keys at the end of each batch. Costs a step for every
    /// key, now and then, and then for a while the memory of both tables.
    pub fn forget_spent(&mut self, live: usize, mut keep: impl FnMut(&A) -> bool) {
        if self.len() <= 2 * live + SPENT {
            return;
        }
        // Room for as many as there may be before the next time.
        let keys = Keys { arena: K::Arena::default(), heap: 0 };
        let room = Self { slots: Slots::with_room(2 * live), keys };
        let mut all = mem::replace(self, room).into_drain();
        let mut keep_next = |key, arena: &K::Arena, value| {
            if keep(&value) {
                self.insert_slot(K::slot_hash(&key, arena), key, arena, value);
            }
        };
        while all.slot_for_next(&mut keep_next).is_some() {}
    }

    /// The accumulators alone, in the order of [`for_each`](Self::for_each).
    pub fn values(&self) -> impl Iterator<Item = &A> {
        self.slots.iter().map(|entry| &entry.value)
    }

    /// Forgets every key and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        K::clear_arena(&mut self.keys.arena);
        self.keys.heap = 0;
    }

    /// Takes the table apart, as far at a time as the caller likes.
    pub fn into_drain(self) -> Drain<K, A> {
        Drain { table: self, cursor: 0 }
    }
}

impl<K: Key + ?Sized, A> Default for GroupTable<K, A> {
    fn default() -> Self {
        Self::new()
    }
}

/// A table being taken apart, made by [`GroupTable::into_drain`].
///
/// Keys come as owned values from its iterator, or by reference and without an allocation from
/// [`for_next`](Self::for_next); the two may take turns. The memory is kept until the end, and
/// given back with [`into_table`](Self::into_table) for the next round.
pub struct Drain<K: Key + ?Sized, A> {
    table: GroupTable<K, A>,
    cursor: usize,
}

impl<K: Key + ?Sized, A> Drain<K, A> {
    /// The number of keys still to come.
    pub fn remaining(&self) -> usize {
        self.table.len()
    }

    /// The bytes still occupied.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Shows the next key to `see`, with its accumulator. `None` when there is no further key.
    #[inline]
    pub fn for_next<R>(&mut self, see: impl FnOnce(&K, A) -> R) -> Option<R> {
        self.slot_for_next(|key, arena, value| K::view(&key, arena, |key| see(key, value)))
    }

    /// Hands the next key to `see` as its slot held it, with its accumulator. `None` when there is
    /// no further key.
    #[inline]
    pub fn slot_for_next<R>(&mut self, see: impl FnOnce(K::Slot, &K::Arena, A) -> R) -> Option<R> {
        let Entry { key, value } = self.table.slots.take_next(&mut self.cursor)?;
        Some(see(key, &self.table.keys.arena, value))
    }

    /// The table's memory, as a table without keys. Keys that had still to come are forgotten.
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

#[cfg(test)]
mod tests;
