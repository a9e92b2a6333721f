//! A multimap from keys to rows, built in steps: rows are appended, then linked, then looked up.
//!
//! Rows are stored in the order of insertion. A separate array of heads, indexed by bits of the hash, holds the
//! number of the first row of each chain; each row holds the number of the next. So inserting is appending, linking
//! writes four bytes a row at random positions, and a lookup reads four bytes and then the row: two steps, each of
//! which can be prefetched. Where keys have many rows each, linking also moves the rows of a chain next to each
//! other, so that following a chain does not wait for memory.

use crate::data::Data;
use crate::hints::{LARGE, large_pages, prefetch, prefetch_end};
use std::mem::needs_drop;

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// Heads are prefetched this many rows before they are linked.
const AHEAD: usize = 16;
/// Chains are made contiguous when they have at least this many rows on average.
const MANY: usize = 4;
/// The multiplier of Fibonacci hashing (2^64 divided by the golden ratio): spreads all bits of a hash into the top
/// ones.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A multimap from keys to values.
///
/// The caller passes the hash, which must be [`Data::key_hash`] of the key. Takes the bytes of a row, sixteen in
/// addition, and four to eight for the heads. The owner must reserve memory before it grows, as much as
/// [`bytes_with`](Self::bytes_with) returns.
///
/// ```
/// use thalweg::data::Data;
/// use thalweg::state::Rows;
///
/// let mut rows = Rows::new();
/// for (key, value) in [(1u64, 'a'), (2, 'b'), (1, 'c')] {
///     rows.push(key.key_hash(), key, value);
/// }
/// while rows.link(1000) {}
/// let (hash, mut found) = (1u64.key_hash(), Vec::new());
/// let mut at = rows.find(hash, &1, rows.first(hash));
/// while let Some(row) = at {
///     found.push(*rows.value(row));
///     at = rows.find(hash, &1, rows.after(row));
/// }
/// assert_eq!(found, ['a', 'c']);
/// ```
pub struct Rows<K, V> {
    rows: Vec<Row<K, V>>,
    /// Indexed by the top bits of the spread hash; the length is a power of two, or zero before rows are linked.
    heads: Vec<u32>,
    /// The shift that reduces a spread hash to the index of its head.
    shift: u32,
    linking: Linking,
    /// Whether rows stay where they were inserted when they are linked.
    stays: bool,
    /// The bytes that keys and values own on the heap.
    heap: usize,
}

/// The steps of linking, each with its progress.
enum Linking {
    /// Links the rows before this one; `used` heads have rows so far.
    Rows {
        before: usize,
        used: usize,
    },
    /// Assigns positions to the rows of the chains from this head on, starting at `place`.
    Places {
        head: usize,
        place: u32,
    },
    /// Moves rows to their positions, from this row on.
    Moves {
        place: usize,
    },
    /// Links the rows from this one on, which are contiguous by chain.
    Neighbours {
        row: usize,
    },
    Done,
}

struct Row<K, V> {
    hash: u64,
    next: u32,
    key: K,
    value: V,
}

/// The position of a lookup in a chain, from [`Rows::first`] and [`Rows::after`].
#[derive(Clone, Copy, Debug)]
pub struct Link(u32);

impl Default for Link {
    fn default() -> Self {
        Self(NONE)
    }
}

impl<K: Data + Eq, V: Data> Rows<K, V> {
    /// Leaves rows where they were inserted, though links then lead far where a key has many.
    pub(crate) fn keep_places(&mut self) {
        self.stays = true;
    }

    /// Creates an empty multimap.
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            heads: Vec::new(),
            shift: 0,
            linking: Linking::Done,
            stays: false,
            heap: 0,
        }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the next row needs more memory than is allocated, or more than [`MOST`](Self::MOST) rows.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.rows.len() == self.rows.capacity()
    }

    /// The number of rows that fit without growing.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// The greatest possible number of rows.
    pub const MOST: usize = NONE as usize;

    /// The bytes that keys and values own on the heap.
    #[inline(always)]
    pub fn heap(&self) -> usize {
        self.heap
    }

    /// The bytes of `rows` rows and their heads, without what they own on the heap.
    pub fn bytes_with(rows: usize) -> usize {
        rows * size_of::<Row<K, V>>() + heads_for(rows) * size_of::<u32>()
    }

    /// Allocates memory for `rows` rows in all.
    #[cold]
    pub fn grow(&mut self, rows: usize) {
        self.rows.reserve_exact(rows.saturating_sub(self.rows.len()));
        if size_of_val(self.rows.spare_capacity_mut()) >= LARGE {
            large_pages(self.rows.spare_capacity_mut());
        }
    }

    /// Adds a row, to be linked later.
    #[inline(always)]
    pub fn push(&mut self, hash: u64, key: K, value: V) {
        if needs_drop::<K>() || needs_drop::<V>() {
            self.heap += key.heap_size() + value.heap_size();
        }
        self.rows.push(Row { hash, next: NONE, key, value });
    }

    /// Adds a row and links it before the others of its key, for callers that look up while rows are inserted. Rows
    /// keep their numbers.
    #[inline]
    pub fn insert(&mut self, hash: u64, key: K, value: V) {
        self.push(hash, key, value);
        if self.heads.len() < self.rows.len() {
            self.make_heads();
            (0..self.rows.len()).rev().for_each(|row| self.link_row(row));
        } else {
            self.link_row(self.rows.len() - 1);
        }
    }

    /// Links up to about `most` rows; returns whether there is more to do. After the last call, the rows of a key are
    /// found in the order of insertion. No rows may be added between calls.
    pub fn link(&mut self, most: usize) -> bool {
        if self.heads.is_empty() {
            self.make_heads();
            self.linking = Linking::Rows { before: self.rows.len(), used: 0 };
        }
        self.linking = match self.linking {
            Linking::Rows { before, used } => self.link_rows(before, used, most),
            Linking::Places { head, place } => self.find_places(head, place, most),
            Linking::Moves { place } => self.partition(place, most),
            Linking::Neighbours { row } => self.link_neighbours(row, most),
            Linking::Done => Linking::Done,
        };
        !matches!(self.linking, Linking::Done)
    }

    fn make_heads(&mut self) {
        let heads = heads_for(self.rows.len());
        self.shift = 64 - heads.trailing_zeros();
        self.heads = Vec::with_capacity(heads);
        large_pages(self.heads.spare_capacity_mut());
        self.heads.resize(heads, NONE);
    }

    fn link_rows(&mut self, before: usize, mut used: usize, most: usize) -> Linking {
        let to = before.saturating_sub(most);
        for row in (to..before).rev() {
            if let Some(ahead) = row.checked_sub(AHEAD) {
                prefetch(&self.heads[self.head_of(self.rows[ahead].hash)]);
            }
            self.link_row(row);
            used += usize::from(self.rows[row].next == NONE);
        }
        match to {
            0 if self.rows.len() >= MANY * used.max(1) && !self.stays => {
                Linking::Places { head: 0, place: 0 }
            }
            0 => Linking::Done,
            before => Linking::Rows { before, used },
        }
    }

    /// Writes the final position of each row in place of its link: chain after chain, in the order of the heads.
    fn find_places(&mut self, from: usize, mut place: u32, most: usize) -> Linking {
        let until = (place as usize).saturating_add(most);
        for head in from..self.heads.len() {
            if place as usize >= until {
                return Linking::Places { head, place };
            }
            let first = self.heads[head];
            if first == NONE {
                continue;
            }
            self.heads[head] = place;
            let mut at = first;
            while let Some(row) = self.rows.get_mut(at as usize) {
                at = std::mem::replace(&mut row.next, place);
                place += 1;
            }
        }
        Linking::Moves { place: 0 }
    }

    /// Moves rows to their positions. Each swap puts at least one row where it stays.
    fn partition(&mut self, from: usize, most: usize) -> Linking {
        let mut left = most;
        for place in from..self.rows.len() {
            while self.rows[place].next as usize != place {
                if left == 0 {
                    return Linking::Moves { place };
                }
                left -= 1;
                let other = self.rows[place].next as usize;
                self.rows.swap(place, other);
            }
        }
        Linking::Neighbours { row: 0 }
    }

    fn link_neighbours(&mut self, from: usize, most: usize) -> Linking {
        let to = from.saturating_add(most).min(self.rows.len());
        for row in from..to {
            let head = self.head_of(self.rows[row].hash);
            let behind = self.rows.get(row + 1).map(|behind| self.head_of(behind.hash));
            self.rows[row].next = if behind == Some(head) { row as u32 + 1 } else { NONE };
        }
        if to == self.rows.len() { Linking::Done } else { Linking::Neighbours { row: to } }
    }

    #[inline(always)]
    fn link_row(&mut self, row: usize) {
        let head = self.head_of(self.rows[row].hash);
        self.rows[row].next = std::mem::replace(&mut self.heads[head], row as u32);
    }

    #[inline(always)]
    fn head_of(&self, hash: u64) -> usize {
        // There are at least two heads, so the shift is less than 64.
        (hash.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// Prefetches the head of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if let Some(head) = self.heads.get(self.head_of(hash)) {
            prefetch(head);
        }
    }

    /// Begins a lookup: returns the first row of the chain of this hash, and prefetches it.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> Link {
        let Some(&first) = self.heads.get(self.head_of(hash)) else { return Link(NONE) };
        if let Some(row) = self.rows.get(first as usize) {
            prefetch(row);
            prefetch_end(row);
        }
        Link(first)
    }

    /// Advances a lookup by one prefetch, when the row at `ahead` should have arrived: prefetches the row after it,
    /// and moves `link` past it unless the lookup's hash was found already. Returns whether the chain continues.
    #[inline(always)]
    pub fn look_ahead(&self, hash: u64, link: &mut Link, ahead: &mut Link) -> bool {
        let Some(row) = self.rows.get(ahead.0 as usize) else { return false };
        if link.0 == ahead.0 && row.hash != hash {
            *link = Link(row.next);
        }
        *ahead = Link(row.next);
        match self.rows.get(row.next as usize) {
            Some(behind) => {
                prefetch(behind);
                prefetch_end(behind);
                true
            }
            None => false,
        }
    }

    /// The first row with this key, at or after a link.
    #[inline(always)]
    pub fn find(&self, hash: u64, key: &K, from: Link) -> Option<usize> {
        let mut at = from.0;
        // The index of the chain's end is out of bounds.
        while let Some(row) = self.rows.get(at as usize) {
            if row.hash == hash && row.key == *key {
                return Some(at as usize);
            }
            at = row.next;
        }
        None
    }

    /// The link after a row.
    #[inline(always)]
    pub fn after(&self, row: usize) -> Link {
        Link(self.rows[row].next)
    }

    /// The key of a row.
    #[inline(always)]
    pub fn key(&self, row: usize) -> &K {
        &self.rows[row].key
    }

    /// The value of a row.
    #[inline(always)]
    pub fn value(&self, row: usize) -> &V {
        &self.rows[row].value
    }

    /// Whether more than half of the rows have the same hash, so that no bits of the hash could divide them. May also
    /// be true of exactly half.
    pub fn is_mostly_one(&self) -> bool {
        // Majority vote (Boyer and Moore): a value of more than half of the rows remains after pairs of different
        // values cancel out.
        let (mut hash, mut lead) = (0, 0usize);
        for row in &self.rows {
            if lead == 0 {
                (hash, lead) = (row.hash, 1);
            } else if row.hash == hash {
                lead += 1;
            } else {
                lead -= 1;
            }
        }
        2 * self.rows.iter().filter(|row| row.hash == hash).count() >= self.rows.len()
    }

    /// Removes the last row, and returns it with its hash.
    pub fn pop(&mut self) -> Option<(u64, K, V)> {
        self.heads.clear();
        let Row { hash, key, value, .. } = self.rows.pop()?;
        if needs_drop::<K>() || needs_drop::<V>() {
            self.heap = self.heap.saturating_sub(key.heap_size() + value.heap_size());
        }
        Some((hash, key, value))
    }

    /// Releases memory of rows that were [removed](Self::pop), once less than half of it is in use.
    pub(crate) fn shrink(&mut self) {
        if self.rows.len() < self.rows.capacity() / 2 {
            self.rows.shrink_to_fit();
            self.heads = Vec::new();
        }
    }

    /// Removes all rows and frees their memory.
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

impl<K: Data + Eq, V: Data> Default for Rows<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of heads: between one and two a row.
fn heads_for(rows: usize) -> usize {
    rows.max(2).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(rows: &Rows<u8, u32>, key: u8) -> Vec<u32> {
        let hash = key.key_hash();
        let (mut link, mut all) = (rows.first(hash), Vec::new());
        while let Some(row) = rows.find(hash, &key, link) {
            assert_eq!(*rows.key(row), key);
            all.push(*rows.value(row));
            link = rows.after(row);
        }
        all
    }

    proptest! {
        #[test]
        fn a_key_has_its_rows_in_order(
            keys in prop::collection::vec(0..20u8, 0..300),
            step in 1..50usize,
        ) {
            let (mut gathered, mut inserted) = (Rows::new(), Rows::new());
            for (&key, value) in keys.iter().zip(0u32..) {
                gathered.push(key.key_hash(), key, value);
                inserted.insert(key.key_hash(), key, value);
                prop_assert!(found(&inserted, key).contains(&value));
            }
            prop_assert!(found(&gathered, 1).is_empty(), "not linked yet");
            while gathered.link(step) {}
            for key in 0..25u8 {
                let of_key = keys.iter().zip(0u32..).filter(|(other, _)| **other == key);
                let expected: Vec<u32> = of_key.map(|(_, value)| value).collect();
                prop_assert_eq!(&found(&gathered, key), &expected);
                let mut inserted = found(&inserted, key);
                inserted.sort();
                prop_assert_eq!(inserted, expected);
            }
        }
    }

    #[test]
    fn many_rows_of_a_key_become_contiguous() {
        let mut rows = Rows::new();
        let keys = 100u64;
        (0..10 * keys).for_each(|n| rows.push((n % keys).key_hash(), n % keys, n));
        while rows.link(7) {}
        for row in 0..rows.len() {
            let Link(next) = rows.after(row);
            assert!(next == NONE || next as usize == row + 1);
        }
    }

    #[test]
    fn one_key_with_most_rows_is_detected() {
        let rows = |keys: &[u8]| {
            let mut rows = Rows::new();
            keys.iter().for_each(|key| rows.push(key.key_hash(), *key, ()));
            rows
        };
        assert!(rows(&[1, 2, 1, 3, 1, 1]).is_mostly_one());
        assert!(!rows(&[1, 2, 1, 3, 4, 5]).is_mostly_one());
        assert!(rows(&[]).is_mostly_one());
    }

    #[test]
    fn heap_of_rows_is_counted() {
        let mut rows = Rows::new();
        rows.push(0, "a".repeat(100), ());
        assert_eq!((rows.len(), rows.heap()), (1, 100));
        assert!(rows.pop().is_some() && rows.pop().is_none());
        assert_eq!(rows.heap(), 0);
    }
}
