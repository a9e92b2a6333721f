//! Records on their way into a table that is larger than the caches.

use super::GroupTable;
use crate::data::{Batch, Key, Portable};
use std::fmt;

/// Records that wait while the slots they will need are being fetched.
///
/// A look-up in a table in main memory waits for it longer than all else takes. Records that wait
/// here have their slots fetched meanwhile, many at a time. The hash is computed once, before.
///
/// Order is kept. While the table [is in the caches](GroupTable::is_cache_resident) a record goes
/// straight in.
pub struct KeyedBuffer<I: Portable + ?Sized> {
    hashes: Vec<u64>,
    items: I::Batch,
}

impl<I: Portable + ?Sized> KeyedBuffer<I> {
    /// How many records wait at most: enough for memory to answer, and few enough for what it
    /// answered to be still in the first cache.
    pub const CAPACITY: usize = 64;

    /// A buffer without records.
    pub fn new() -> Self {
        Self { hashes: Vec::with_capacity(Self::CAPACITY), items: I::Batch::default() }
    }

    /// Takes a record whose key has this hash. `apply` brings a record into the table: this one
    /// now, or it and those before it later.
    #[inline(always)]
    pub fn push<K: Key + ?Sized, A>(
        &mut self,
        table: &mut GroupTable<K, A>,
        hash: u64,
        item: I::Of<'_>,
        mut apply: impl FnMut(&mut GroupTable<K, A>, u64, I::Of<'_>),
    ) {
        if table.is_cache_resident() && self.hashes.is_empty() {
            apply(table, hash, item);
            return;
        }
        table.prefetch(hash);
        self.hashes.push(hash);
        self.items.push(item);
        if self.hashes.len() == Self::CAPACITY {
            self.flush(table, apply);
        }
    }

    /// Brings every waiting record into the table. To be called when no record comes for now, and
    /// before the table is read.
    #[inline(never)]
    pub fn flush<K: Key + ?Sized, A>(
        &mut self,
        table: &mut GroupTable<K, A>,
        mut apply: impl FnMut(&mut GroupTable<K, A>, u64, I::Of<'_>),
    ) {
        let mut hashes = self.hashes.iter();
        self.items.drain(|item| {
            let hash = hashes.next().expect("a hash for every item");
            apply(table, *hash, item);
        });
        self.hashes.clear();
    }

    /// The number of waiting records.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

impl<I: Portable + ?Sized> Default for KeyedBuffer<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Portable + ?Sized> fmt::Debug for KeyedBuffer<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts keys, and notes the order in which they came to the table.
    fn run(distinct: u64, records: u64) {
        let mut table = GroupTable::<u64, u64>::new();
        let mut buffer = KeyedBuffer::<u64>::new();
        let mut order = Vec::new();
        let mut apply = |table: &mut GroupTable<u64, u64>, hash, key: u64| {
            order.push(key);
            *table.upsert(hash, &key, &key, || 0) += 1;
        };
        let keys: Vec<u64> = (0..records).map(|at| at * 7919 % distinct).collect();
        let mut waited = false;
        for key in &keys {
            buffer.push(&mut table, u64::hash(key), *key, &mut apply);
            waited |= !buffer.is_empty();
            assert!(buffer.len() < KeyedBuffer::<u64>::CAPACITY);
        }
        buffer.flush(&mut table, &mut apply);
        assert!(buffer.is_empty());
        assert_eq!(waited, !table.is_cache_resident());
        assert_eq!(order, keys);
        assert_eq!(table.values().sum::<u64>(), records);
        assert_eq!(table.len() as u64, distinct.min(records));
    }

    #[test]
    fn a_small_table_takes_records_at_once() {
        run(100, 1000);
    }

    #[test]
    fn a_large_table_takes_them_in_order() {
        run(200_000, 300_000);
    }
}
