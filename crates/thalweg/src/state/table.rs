//! The keyed table: a key's accumulator, found as fast as memory allows.
//!
//! This file says what a table means; `slots` beside it, how an entry is found.

use super::slots::Slots;
use crate::data::{Key, Portable};
use std::fmt;

/// Up to this many bytes, a look-up is answered by the caches and a prefetch only costs. Measured:
/// counts by uniform keys break even between 4 and 9 MB, skewed ones later.
const CACHE_RESIDENT: usize = 8 << 20;

/// Accumulators by key.
///
/// The hash is given by the caller, who has computed it for routing already; it must be
/// [`Key::hash`] of the key's probe. A key is copied when it is new and at no other time.
///
/// A table takes `size_of::<(K::Slot, A)>() + 1` bytes a slot, and is between three eighths and
/// three quarters full. It grows by doubling; its owner asks the memory pool beforehand, with what
/// [`bytes_with`](Self::bytes_with) says. Keys cannot be removed one by one.
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

    /// Whether the table is so small that a prefetch would cost more than it saves.
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

    /// The bytes that the table would occupy with its slots doubled.
    #[inline]
    pub fn bytes_if_grown(&self) -> usize {
        self.slots.bytes_if_grown() + K::arena_bytes(&self.keys.arena) + self.keys.heap
    }

    /// The bytes that the table would occupy with `key` as a new one: what to ask the memory pool
    /// for before [`upsert`](Self::upsert), exact but for what the key itself owns on the heap.
    #[inline]
    pub fn bytes_with(&self, key: &K) -> usize {
        let slots = if self.is_full() { self.slots.bytes_if_grown() } else { self.slots.bytes() };
        slots + key.arena_bytes_with(&self.keys.arena) + self.keys.heap
    }

    /// Asks for the slot at which a look-up of this hash begins, without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.slots.prefetch(hash);
    }

    /// The accumulator of a key, if the key is known.
    #[inline(always)]
    pub fn find(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<&mut A> {
        let arena = &self.keys.arena;
        let entry = self.slots.find(hash, |entry| K::matches(&entry.key, arena, probe))?;
        Some(&mut entry.value)
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
        debug_assert_eq!(hash, K::hash(probe), "the hash must be the key's");
        let entry = self.slots.upsert(
            hash,
            &mut self.keys,
            |entry, keys| K::matches(&entry.key, &keys.arena, probe),
            |keys| {
                let value = init();
                let slot = key.store(&mut keys.arena);
                keys.heap += K::slot_heap(&slot);
                Entry { key: slot, value }
            },
            |entry, keys| K::slot_hash(&entry.key, &keys.arena),
        );
        &mut entry.value
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
        let Entry { key, value } = self.table.slots.take_next(&mut self.cursor)?;
        Some(K::view(&key, &self.table.keys.arena, |key| see(key, value)))
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
