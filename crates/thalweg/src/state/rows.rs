//! Rows by key, any number of them a key: gathered first, then linked, then looked up.
//!
//! Rows lie in the order in which they came. Beside them stands a row of heads, by a part of the hash:
//! the number of the first row with that part, each row naming the next. So gathering is appending,
//! linking writes four bytes a row in no order, and a look-up reads four bytes and then the row: two
//! steps, each of which can be asked for ahead. Where keys have many rows each, linking also moves the rows of
//! a head beside each other, so that going from one to the next waits for nothing.

use super::hints::{LARGE, large_pages, prefetch, prefetch_end};
use crate::data::Data;
use std::mem::needs_drop;

/// Behind the last row of a chain.
const NONE: u32 = u32::MAX;
/// Rows that are linked ahead of which their heads are asked for.
const AHEAD: usize = 16;
/// As many rows for a head that has any, on average, are worth to be brought together.
const MANY: usize = 4;
/// Odd, with about as many ones as zeros: brings all bits of a hash into the top ones.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rows of a key and a value, found by their keys.
///
/// The hash is given by the caller, and must be [`Data::key_hash`] of the key. Takes the bytes of a row,
/// sixteen beside them, and four to eight for the heads. Its owner asks the memory pool beforehand, with
/// what [`bytes_with`](Self::bytes_with) says.
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
    /// By the top bits of the spread hash, a power of two of them; none before rows are linked.
    heads: Vec<u32>,
    /// How far a spread hash is moved to be the number of its head.
    shift: u32,
    linking: Linking,
    /// What keys and values own on the heap.
    heap: usize,
}

/// What is to be done before rows can be looked up, and how far that is.
enum Linking {
    /// To link the rows before this one; so many heads have rows.
    Rows {
        before: usize,
        used: usize,
    },
    /// To say of the rows from this head on to which place they go, of which this is the next one.
    Places {
        head: usize,
        place: u32,
    },
    /// To bring rows to the places from this one on.
    Moves {
        place: usize,
    },
    /// To link the rows from this one on, which lie beside each other.
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

/// Where a look-up goes on; said by [`Rows::first`] and [`Rows::after`].
#[derive(Clone, Copy, Debug)]
pub struct Link(u32);

impl Default for Link {
    fn default() -> Self {
        Self(NONE)
    }
}

impl<K: Data + Eq, V: Data> Rows<K, V> {
    /// Without rows.
    pub fn new() -> Self {
        Self { rows: Vec::new(), heads: Vec::new(), shift: 0, linking: Linking::Done, heap: 0 }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the next row needs more memory than there is, or more numbers than rows have.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.rows.len() == self.rows.capacity()
    }

    /// The rows that fit in without growing.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// The most rows that there can be.
    pub const MOST: usize = NONE as usize;

    /// What keys and values own on the heap.
    #[inline(always)]
    pub fn heap(&self) -> usize {
        self.heap
    }

    /// The bytes of so many rows, with their heads, and without what they own on the heap.
    pub fn bytes_with(rows: usize) -> usize {
        rows * size_of::<Row<K, V>>() + heads_for(rows) * size_of::<u32>()
    }

    /// Makes room for so many rows in all.
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

    /// Adds a row and links it before the others of its key, for who looks up while rows come. Rows keep their numbers.
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

    /// Does up to about `most` rows' worth of linking, after all of which those of a key are found in the order in
    /// which they came; answers whether there is more to do. Rows must not be added meanwhile.
    pub fn link(&mut self, most: usize) -> bool {
        if self.heads.is_empty() {
            self.make_heads();
            self.linking = Linking::Rows { before: self.rows.len(), used: 0 };
        }
        self.linking = match self.linking {
            Linking::Rows { before, used } => self.link_rows(before, used, most),
            Linking::Places { head, place } => self.find_places(head, place, most),
            Linking::Moves { place } => self.bring_together(place, most),
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
            0 if self.rows.len() >= MANY * used.max(1) => Linking::Places { head: 0, place: 0 },
            0 => Linking::Done,
            before => Linking::Rows { before, used },
        }
    }

    /// Notes in place of its link where each row is to go: behind the rows of the heads before its own.
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

    /// Brings rows to where they are to go. Each exchange puts at least one where it stays.
    fn bring_together(&mut self, from: usize, most: usize) -> Linking {
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
        // There is more than one head, so that the shift is less than all bits.
        (hash.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// Asks for the head of this hash, without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if let Some(head) = self.heads.get(self.head_of(hash)) {
            prefetch(head);
        }
    }

    /// Begins a look-up: where rows with this hash may be, which are asked for.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> Link {
        let Some(&first) = self.heads.get(self.head_of(hash)) else { return Link(NONE) };
        if let Some(row) = self.rows.get(first as usize) {
            prefetch(row);
            prefetch_end(row);
        }
        Link(first)
    }

    /// Goes ahead of a look-up, when the row at `ahead` has had time to come: asks for the one behind it, and
    /// takes the look-up's link past it, if that has not met its hash yet. Answers whether there is more to
    /// go ahead to.
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

    /// The first row of this key at or after a link.
    #[inline(always)]
    pub fn find(&self, hash: u64, key: &K, from: Link) -> Option<usize> {
        let mut at = from.0;
        // Behind the last one there is no row.
        while let Some(row) = self.rows.get(at as usize) {
            if row.hash == hash && row.key == *key {
                return Some(at as usize);
            }
            at = row.next;
        }
        None
    }

    /// What comes after a row.
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

    /// Whether at least half of the rows have one and the same hash, so that no part of the hash could
    /// take them apart.
    pub fn is_mostly_one(&self) -> bool {
        // Whatever more than half have is what remains when two different ones are struck out, again
        // and again (Boyer and Moore).
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

    /// Takes out the last row, with its hash.
    pub fn pop(&mut self) -> Option<(u64, K, V)> {
        self.heads.clear();
        let Row { hash, key, value, .. } = self.rows.pop()?;
        Some((hash, key, value))
    }

    /// Forgets all rows and gives their memory back.
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

impl<K: Data + Eq, V: Data> Default for Rows<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// As many heads as rows, or up to twice as many.
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
        fn a_key_has_its_rows_in_their_order(
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
    fn many_rows_of_a_key_are_brought_beside_each_other() {
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
    fn one_key_that_has_most_rows_is_seen() {
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
    fn what_rows_own_is_counted() {
        let mut rows = Rows::new();
        rows.push(0, "a".repeat(100), ());
        assert_eq!((rows.len(), rows.heap()), (1, 100));
        assert!(rows.pop().is_some() && rows.pop().is_none());
    }
}
