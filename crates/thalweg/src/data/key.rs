//! What a record must offer to be grouped by, and how the keys of each kind are held.
//!
//! Fixed-size keys are held as they are. Keys that are text or bytes have a packed form of sixteen
//! bytes:
//!
//! * up to fifteen bytes are kept inside it, padded with zeros, and the last byte holds their
//!   number. Two such keys are equal when their two words are, embedded NUL bytes or not;
//! * a longer key is represented by its 64-bit hash, a marker in the last byte, and where its bytes
//!   begin in an arena that all keys of one table share. Its bytes are compared only when the
//!   hashes are equal.
//!
//! This module only arranges keys; the table that looks them up is `state::table`.

use super::hash::{hash_bytes, hash_words, short_words};
use super::{Data, Portable};
use std::fmt::Debug;

/// A kind of key, looked up by reference and copied only when it is new.
///
/// Implemented for every `Data + Eq + Clone + Debug` type, and for `str` and `[u8]`, whose
/// short values are kept inside the table's slot.
///
/// ```
/// use thalweg::data::{Data, Key};
///
/// let probe = "thalweg".probe();
/// assert_eq!(<str as Key>::hash(probe), "thalweg".to_string().key_hash());
/// ```
pub trait Key: Portable + Debug {
    /// What a look-up compares with: the key in the form that is quickest to hash and compare.
    type Probe<'a>: Copy;
    /// The key as a table's slot holds it.
    type Slot: Send + 'static;
    /// What several slots share: the bytes of long keys. Append only until cleared.
    type Arena: Default + Send + 'static;
    /// Keys in a row, as an exchange of partial aggregates carries them.
    type Column: KeyColumn<Self>;

    /// Brings the key into the form that is hashed and compared.
    fn probe(&self) -> Self::Probe<'_>;
    /// The versioned hash of the key; equal to [`Data::key_hash`] of its owned value.
    fn hash(probe: Self::Probe<'_>) -> u64;
    /// Whether a slot holds this key.
    fn matches(slot: &Self::Slot, arena: &Self::Arena, probe: Self::Probe<'_>) -> bool;
    /// Copies the key into the form that a slot holds.
    fn store(&self, arena: &mut Self::Arena) -> Self::Slot;
    /// The hash of a stored key, for growing a table.
    fn slot_hash(slot: &Self::Slot, arena: &Self::Arena) -> u64;
    /// Shows a stored key to `see`, by reference.
    fn view<R>(slot: &Self::Slot, arena: &Self::Arena, see: impl FnOnce(&Self) -> R) -> R;
    /// Takes the key out of its slot.
    fn take(slot: Self::Slot, arena: &Self::Arena) -> <Self as Portable>::Owned;
    /// Copies a key seen by reference into its owned value.
    fn own(&self) -> <Self as Portable>::Owned;
    /// The bytes that the arena occupies.
    fn arena_bytes(arena: &Self::Arena) -> usize;
    /// The bytes that the arena would occupy once this key was stored too.
    fn arena_bytes_with(&self, arena: &Self::Arena) -> usize;
    /// Forgets every stored key and keeps the arena's capacity.
    fn clear_arena(arena: &mut Self::Arena);
    /// The bytes that a slot owns on the heap.
    fn slot_heap(_slot: &Self::Slot) -> usize {
        0
    }
}

/// Keys in a row.
pub trait KeyColumn<K: ?Sized>: Default + Send + 'static {
    /// Appends a copy of the key.
    fn push(&mut self, key: &K);
    /// The key at `index`.
    ///
    /// # Panics
    ///
    /// When there are not that many keys.
    fn get(&self, index: usize) -> &K;
    /// The number of keys.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The bytes occupied.
    fn bytes(&self) -> usize;
    /// Forgets every key and keeps the capacity.
    fn clear(&mut self);
}

impl<T: Data + Eq + Clone + Debug> Key for T {
    type Probe<'a> = &'a T;
    type Slot = T;
    type Arena = ();
    type Column = Vec<T>;

    #[inline(always)]
    fn probe(&self) -> &T {
        self
    }
    #[inline(always)]
    fn hash(probe: &T) -> u64 {
        probe.key_hash()
    }
    #[inline(always)]
    fn matches(slot: &T, _arena: &(), probe: &T) -> bool {
        slot == probe
    }
    #[inline]
    fn store(&self, _arena: &mut ()) -> T {
        self.clone()
    }
    #[inline]
    fn slot_hash(slot: &T, _arena: &()) -> u64 {
        slot.key_hash()
    }
    #[inline(always)]
    fn view<R>(slot: &T, _arena: &(), see: impl FnOnce(&T) -> R) -> R {
        see(slot)
    }
    #[inline(always)]
    fn take(slot: T, _arena: &()) -> <T as Portable>::Owned {
        slot
    }
    #[inline]
    fn own(&self) -> <T as Portable>::Owned {
        self.clone()
    }
    fn arena_bytes(_arena: &()) -> usize {
        0
    }
    fn arena_bytes_with(&self, _arena: &()) -> usize {
        0
    }
    fn clear_arena(_arena: &mut ()) {}
    #[inline]
    fn slot_heap(slot: &T) -> usize {
        slot.heap_size()
    }
}

impl<T: Data + Clone> KeyColumn<T> for Vec<T> {
    #[inline]
    fn push(&mut self, key: &T) {
        Vec::push(self, key.clone());
    }
    #[inline]
    fn get(&self, index: usize) -> &T {
        &self[index]
    }
    fn len(&self) -> usize {
        Vec::len(self)
    }
    fn bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(Data::heap_size).sum::<usize>()
    }
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// The most bytes that a packed key holds in itself.
const INLINE: usize = 15;
/// The last byte of a packed key whose bytes are elsewhere: in an arena.
const STORED: u64 = 0xFF << 56;
/// The last byte of a packed key whose bytes are elsewhere: with the probe.
const SOUGHT: u64 = 0xFE << 56;
/// What remains of the second word beside the last byte.
const OFFSET: u64 = (1 << 56) - 1;

/// Bytes or text as a table's slot holds it: in place up to fifteen bytes, else in the arena.
///
/// Produced and understood by `Key for str` and `Key for [u8]` only.
#[derive(Clone, Copy)]
pub struct PackedKey {
    // The first eight bytes; of a long key, the hash.
    low: u64,
    // The other bytes and, in the last one, their number; of a long key, its offset and `STORED`.
    high: u64,
}

/// Bytes or text being looked for.
#[derive(Clone, Copy)]
pub struct PackedProbe<'a> {
    low: u64,
    high: u64,
    bytes: &'a [u8],
}

/// The bytes of long keys, each after its length.
#[derive(Default)]
pub struct KeyArena(Vec<u8>);

/// Keys that are bytes, in a row: one allocation for all of them, and one for where each ends.
#[derive(Default)]
pub struct BytesColumn {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Keys that are text, in a row: one allocation for all of them, and one for where each ends.
#[derive(Default)]
pub struct TextColumn {
    bytes: String,
    ends: Vec<usize>,
}

impl<'a> PackedProbe<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8]) -> Self {
        if bytes.len() <= INLINE {
            let (low, high) = short_words(bytes);
            Self { low, high, bytes }
        } else {
            Self { low: hash_bytes(bytes), high: SOUGHT, bytes }
        }
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        if self.high == SOUGHT { self.low } else { hash_words(self.low, self.high) }
    }
}

impl PackedKey {
    fn new(bytes: &[u8], arena: &mut KeyArena) -> Self {
        let PackedProbe { low, high, .. } = PackedProbe::new(bytes);
        if high != SOUGHT {
            return Self { low, high };
        }
        let offset = arena.0.len() as u64;
        arena.0.reserve_exact(arena.capacity_with(bytes) - arena.0.len());
        arena.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        arena.0.extend_from_slice(bytes);
        Self { low, high: STORED | offset }
    }

    #[inline(always)]
    fn matches(&self, arena: &KeyArena, probe: PackedProbe<'_>) -> bool {
        // No slot ends in the marker of a probe, so equal words are equal short keys.
        self.low == probe.low
            && (self.high == probe.high
                || (probe.high == SOUGHT
                    && self.high >= STORED
                    && arena.at(self.high & OFFSET) == probe.bytes))
    }

    #[inline]
    fn hash(&self) -> u64 {
        if self.high >= STORED { self.low } else { hash_words(self.low, self.high) }
    }

    #[inline(always)]
    fn view<R>(&self, arena: &KeyArena, see: impl FnOnce(&[u8]) -> R) -> R {
        if self.high >= STORED {
            return see(arena.at(self.high & OFFSET));
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        see(&bytes[..(self.high >> 56) as usize & INLINE])
    }
}

impl KeyArena {
    #[inline]
    fn at(&self, offset: u64) -> &[u8] {
        let (length, bytes) = self.0[offset as usize..].split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        &bytes[..length as usize]
    }

    /// The capacity with one more key.
    fn capacity_with(&self, key: &[u8]) -> usize {
        let now = self.0.capacity();
        let needed = self.0.len() + 8 + key.len();
        if key.len() <= INLINE || needed <= now { now } else { needed.max(2 * now) }
    }
}

/// What the two kinds of packed keys have in common.
macro_rules! packed_key {
    ($key:ty, $column:ty, $bytes:ident => $from_bytes:expr, $as_bytes:ident) => {
        impl Key for $key {
            type Probe<'a> = PackedProbe<'a>;
            type Slot = PackedKey;
            type Arena = KeyArena;
            type Column = $column;

            #[inline(always)]
            fn probe(&self) -> PackedProbe<'_> {
                PackedProbe::new(self.$as_bytes())
            }
            #[inline(always)]
            fn hash(probe: PackedProbe<'_>) -> u64 {
                probe.hash()
            }
            #[inline(always)]
            fn matches(slot: &PackedKey, arena: &KeyArena, probe: PackedProbe<'_>) -> bool {
                slot.matches(arena, probe)
            }
            #[inline]
            fn store(&self, arena: &mut KeyArena) -> PackedKey {
                PackedKey::new(self.$as_bytes(), arena)
            }
            #[inline]
            fn slot_hash(slot: &PackedKey, _arena: &KeyArena) -> u64 {
                slot.hash()
            }
            #[inline(always)]
            fn view<R>(slot: &PackedKey, arena: &KeyArena, see: impl FnOnce(&Self) -> R) -> R {
                slot.view(arena, |$bytes| see($from_bytes))
            }
            #[inline]
            fn take(slot: PackedKey, arena: &KeyArena) -> <Self as Portable>::Owned {
                slot.view(arena, |$bytes| $from_bytes.into())
            }
            #[inline]
            fn own(&self) -> <Self as Portable>::Owned {
                self.into()
            }
            fn arena_bytes(arena: &KeyArena) -> usize {
                arena.0.capacity()
            }
            #[inline]
            fn arena_bytes_with(&self, arena: &KeyArena) -> usize {
                arena.capacity_with(self.$as_bytes())
            }
            fn clear_arena(arena: &mut KeyArena) {
                arena.0.clear();
            }
        }
    };
}

packed_key!([u8], BytesColumn, bytes => bytes, as_ref);
// Checked again each time rather than trusted: keys are shown on output only.
packed_key!(str, TextColumn, bytes => std::str::from_utf8(bytes).expect("stored as text"), as_bytes);

macro_rules! key_column {
    ($key:ty, $column:ty, $append:ident) => {
        impl KeyColumn<$key> for $column {
            #[inline]
            fn push(&mut self, key: &$key) {
                self.bytes.$append(key);
                self.ends.push(self.bytes.len());
            }
            #[inline]
            fn get(&self, index: usize) -> &$key {
                let start = if index == 0 { 0 } else { self.ends[index - 1] };
                &self.bytes[start..self.ends[index]]
            }
            fn len(&self) -> usize {
                self.ends.len()
            }
            fn bytes(&self) -> usize {
                self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
            }
            fn clear(&mut self) {
                self.bytes.clear();
                self.ends.clear();
            }
        }
    };
}

key_column!([u8], BytesColumn, extend_from_slice);
key_column!(str, TextColumn, push_str);

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys about the boundaries of the packed form, many of them with equal beginnings.
    fn awkward() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for length in 1..=40 {
            keys.push(vec![0; length]);
            keys.push(vec![b'a'; length]);
            let mut key = vec![b'a'; length];
            key[length - 1] = 0;
            keys.push(key.clone());
            key[length - 1] = b'b';
            keys.push(key);
        }
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn a_slot_matches_its_own_key_alone() {
        let keys = awkward();
        let mut arena = KeyArena::default();
        let slots: Vec<PackedKey> =
            keys.iter().map(|key| key.as_slice().store(&mut arena)).collect();
        for (slot, stored) in slots.iter().zip(&keys) {
            for key in &keys {
                let matches = <[u8]>::matches(slot, &arena, key.as_slice().probe());
                assert_eq!(matches, key == stored, "{stored:?} and {key:?}");
            }
            <[u8]>::view(slot, &arena, |key| assert_eq!(key, stored));
            assert_eq!(&<[u8]>::take(*slot, &arena), stored);
        }
    }

    #[test]
    fn a_key_its_slot_and_its_owned_value_have_one_hash() {
        for key in awkward() {
            let hash = hash_bytes(&key);
            let mut arena = KeyArena::default();
            let bytes = key.as_slice();
            assert_eq!(<[u8]>::hash(bytes.probe()), hash);
            assert_eq!(<[u8]>::slot_hash(&bytes.store(&mut arena), &arena), hash);
            assert_eq!(bytes.own().key_hash(), hash);
            let text = std::str::from_utf8(&key).expect("letters and NUL bytes");
            assert_eq!(str::hash(text.probe()), hash);
            assert_eq!(text.own().key_hash(), hash);
            assert_eq!(String::hash(&text.own()), hash);
        }
        assert_eq!(u64::hash(&7), 7_u64.key_hash());
    }

    #[test]
    fn the_arena_takes_what_it_announced() {
        let mut arena = KeyArena::default();
        for key in awkward() {
            let announced = key.as_slice().arena_bytes_with(&arena);
            let before = <[u8]>::arena_bytes(&arena);
            key.as_slice().store(&mut arena);
            assert_eq!(<[u8]>::arena_bytes(&arena), announced);
            assert!(announced >= before);
        }
    }

    #[test]
    fn columns_give_back_what_they_took() {
        let keys = awkward();
        let mut bytes = BytesColumn::default();
        let mut text = TextColumn::default();
        let mut owned = Vec::<Vec<u8>>::new();
        for _ in 0..2 {
            for key in &keys {
                bytes.push(key);
                text.push(std::str::from_utf8(key).expect("letters and NUL bytes"));
                KeyColumn::push(&mut owned, key);
            }
            assert_eq!((bytes.len(), text.len()), (keys.len(), keys.len()));
            for (at, key) in keys.iter().enumerate() {
                assert_eq!(bytes.get(at), key);
                assert_eq!(text.get(at).as_bytes(), key);
                assert_eq!(KeyColumn::get(&owned, at), key);
            }
            bytes.clear();
            text.clear();
            KeyColumn::clear(&mut owned);
            assert!(bytes.is_empty() && text.is_empty() && owned.is_empty());
        }
    }
}
