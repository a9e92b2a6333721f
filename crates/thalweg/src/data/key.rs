//! Keys: the trait that a record must implement to be grouped by, and how keys are stored.
//!
//! Fixed-size keys are stored as they are. Keys that are text or bytes have a packed form of sixteen bytes:
//!
//! * up to fifteen bytes are stored inside it, padded with zeros, and the last byte holds their number. Two such keys
//!   are equal if and only if their two words are, even with embedded NUL bytes;
//! * a longer key is represented by its 64-bit hash, a marker in the last byte, and the offset of its bytes in an
//!   arena that all keys of one table share. Its bytes are compared only if the hashes are equal.
//!
//! This module only stores keys; the table that looks them up is `state::table`.

use super::hash::{hash_bytes, hash_words};
use super::short::short_words;
use super::{Data, DecodeError, Portable, Wire};
use std::fmt::Debug;
use std::mem::needs_drop;

/// The bytes up to which a key is copied rather than referred to.
const COPIED: usize = 16;

/// A kind of key, looked up by reference and copied only when it is new.
///
/// Implemented for every `Data + Eq + Clone + Debug` type, and for `str` and `[u8]`, whose short values are stored
/// inside the table's slot. A program needs nothing more: how tables store keys is internal to the engine.
///
/// ```
/// use thalweg::data::{Data, Key};
///
/// let probe = "thalweg".probe();
/// assert_eq!(<str as Key>::hash(probe), "thalweg".to_string().key_hash());
/// ```
#[diagnostic::on_unimplemented(
    message = "records cannot be grouped by a key of `{Self}`",
    label = "a key is compared, copied, shown and sent to other tasks, and this type lacks some of that",
    note = "for a type of your own, add `#[derive(thalweg::Data, PartialEq, Eq, Clone, Debug)]`",
    note = "for a part of the record, as in `|order| &order.customer`, use `group_by_ref`",
    note = "floats are no keys, as NaN is not equal to itself: round them to an integer, or use `to_bits`"
)]
pub trait Key: Portable + Debug {
    /// The key in the form that is fastest to hash and compare.
    #[doc(hidden)]
    type Probe<'a>: Copy;
    /// The key as a table's slot stores it.
    #[doc(hidden)]
    type Slot: Send + 'static;
    /// Storage shared by slots: the bytes of long keys. Append-only until cleared.
    #[doc(hidden)]
    type Arena: Default + Send + 'static;

    /// As [`Data::WORD`], of the key's probe.
    #[doc(hidden)]
    const WORD: Option<fn(Self::Probe<'_>) -> u64> = None;

    /// Converts the key into the form that is hashed and compared.
    #[doc(hidden)]
    fn probe(&self) -> Self::Probe<'_>;
    /// The versioned hash of the key; equal to [`Data::key_hash`] of its owned value.
    #[doc(hidden)]
    fn hash(probe: Self::Probe<'_>) -> u64;
    /// Whether a slot holds this key.
    #[doc(hidden)]
    fn matches(slot: &Self::Slot, arena: &Self::Arena, probe: Self::Probe<'_>) -> bool;
    /// Copies the key into the form that a slot holds. `probe` is the key's probe.
    #[doc(hidden)]
    fn store(&self, probe: Self::Probe<'_>, arena: &mut Self::Arena) -> Self::Slot;
    /// Converts a stored key into the form that is compared, as [`probe`](Self::probe) does.
    #[doc(hidden)]
    fn slot_probe<'a>(slot: &'a Self::Slot, arena: &'a Self::Arena) -> Self::Probe<'a>;
    /// Moves a stored key from one arena to another.
    #[doc(hidden)]
    fn move_slot(slot: Self::Slot, from: &Self::Arena, to: &mut Self::Arena) -> Self::Slot;
    /// Appends the encoding of a stored key, which is that of its owned value.
    #[doc(hidden)]
    fn encode_slot(slot: &Self::Slot, arena: &Self::Arena, out: &mut Vec<u8>);
    /// Decodes a key from the front of `input`, and stores it.
    #[doc(hidden)]
    fn decode_slot(input: &mut &[u8], arena: &mut Self::Arena) -> Result<Self::Slot, DecodeError>;
    /// The hash of a stored key, for growing a table.
    #[doc(hidden)]
    fn slot_hash(slot: &Self::Slot, arena: &Self::Arena) -> u64;
    /// Calls `see` with a reference to a stored key.
    #[doc(hidden)]
    fn view<R>(slot: &Self::Slot, arena: &Self::Arena, see: impl FnOnce(&Self) -> R) -> R;
    /// Moves the key out of its slot.
    #[doc(hidden)]
    fn take(slot: Self::Slot, arena: &Self::Arena) -> <Self as Portable>::Owned;
    /// Copies a borrowed key into its owned value.
    #[doc(hidden)]
    fn own(&self) -> <Self as Portable>::Owned;
    /// The key that this owned value is of.
    #[doc(hidden)]
    fn lent(owned: &<Self as Portable>::Owned) -> &Self;
    /// Converts the key into its owned value, which may be the key itself.
    #[doc(hidden)]
    fn into_owned(self) -> <Self as Portable>::Owned
    where
        Self: Sized,
    {
        self.own()
    }
    /// Calls `see` with the key, or with a copy where that costs nothing. No reference to the record of which the key is
    /// a part leaves the caller then, so the record may stay in registers.
    #[doc(hidden)]
    #[inline(always)]
    fn apart<R>(&self, see: impl FnOnce(&Self) -> R) -> R {
        see(self)
    }
    /// The bytes that the arena occupies.
    #[doc(hidden)]
    fn arena_bytes(arena: &Self::Arena) -> usize;
    /// Removes every stored key and keeps the arena's capacity.
    #[doc(hidden)]
    fn clear_arena(arena: &mut Self::Arena);
    /// The bytes that a slot owns on the heap.
    #[doc(hidden)]
    fn slot_heap(_slot: &Self::Slot) -> usize {
        0
    }
}

#[diagnostic::do_not_recommend]
impl<T: Data + Eq + Clone + Debug> Key for T {
    type Probe<'a> = &'a T;
    type Slot = T;
    type Arena = ();

    const WORD: Option<fn(&T) -> u64> = <T as Data>::WORD;

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
    #[inline(always)]
    fn store(&self, _probe: &T, _arena: &mut ()) -> T {
        self.clone()
    }
    #[inline(always)]
    fn slot_probe<'a>(slot: &'a T, _arena: &'a ()) -> &'a T {
        slot
    }
    #[inline(always)]
    fn move_slot(slot: T, _from: &(), _to: &mut ()) -> T {
        slot
    }
    #[inline]
    fn encode_slot(slot: &T, _arena: &(), out: &mut Vec<u8>) {
        slot.encode(out);
    }
    #[inline]
    fn decode_slot(input: &mut &[u8], _arena: &mut ()) -> Result<T, DecodeError> {
        T::decode(input)
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
    #[inline(always)]
    fn lent(owned: &T) -> &T {
        owned
    }
    #[inline(always)]
    fn into_owned(self) -> T {
        self
    }
    #[inline(always)]
    fn apart<R>(&self, see: impl FnOnce(&T) -> R) -> R {
        if needs_drop::<T>() || size_of::<T>() > COPIED {
            return see(self);
        }
        see(&self.clone())
    }
    fn arena_bytes(_arena: &()) -> usize {
        0
    }
    fn clear_arena(_arena: &mut ()) {}
    #[inline]
    fn slot_heap(slot: &T) -> usize {
        slot.heap_size()
    }
}

/// The most bytes that a packed key stores inline.
const INLINE: usize = 15;
/// The last byte of a packed key whose bytes are in an arena.
const STORED: u64 = 0xFF << 56;
/// The last byte of a packed key whose bytes are in the probe.
const SOUGHT: u64 = 0xFE << 56;
/// The bits of the second word without the last byte.
const OFFSET: u64 = (1 << 56) - 1;

/// Bytes or text as a table's slot stores it: inline up to fifteen bytes, else in the arena.
///
/// Only `Key for str` and `Key for [u8]` create and interpret it.
#[derive(Clone, Copy)]
pub struct PackedKey {
    // The first eight bytes; of a long key, the hash.
    low: u64,
    // The other bytes and, in the last one, their number; of a long key, its offset and `STORED`.
    high: u64,
}

/// Bytes or text to look up.
#[derive(Clone, Copy)]
pub struct PackedProbe<'a> {
    low: u64,
    high: u64,
    bytes: &'a [u8],
}

/// The bytes of long keys, each after its length.
#[derive(Default)]
pub struct KeyArena(Vec<u8>);

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
    #[inline(always)]
    fn new(probe: PackedProbe<'_>, arena: &mut KeyArena) -> Self {
        if probe.high != SOUGHT {
            return Self { low: probe.low, high: probe.high };
        }
        Self { low: probe.low, high: STORED | arena.add(probe.bytes) }
    }

    #[inline(always)]
    fn probe<'a>(&self, arena: &'a KeyArena) -> PackedProbe<'a> {
        let Self { low, high } = *self;
        if high < STORED {
            return PackedProbe { low, high, bytes: &[] };
        }
        PackedProbe { low, high: SOUGHT, bytes: arena.at(high & OFFSET) }
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
    /// Appends a key and returns its offset.
    #[inline(never)]
    fn add(&mut self, key: &[u8]) -> u64 {
        let offset = self.0.len() as u64;
        self.0.extend_from_slice(&(key.len() as u64).to_le_bytes());
        self.0.extend_from_slice(key);
        offset
    }

    #[inline]
    fn at(&self, offset: u64) -> &[u8] {
        let (length, bytes) = self.0[offset as usize..].split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        &bytes[..length as usize]
    }
}

/// The implementation shared by the two kinds of packed keys.
macro_rules! packed_key {
    ($key:ty, $bytes:ident => $from_bytes:expr, $as_bytes:ident) => {
        // A list of these two in an error would mislead, since many other types are keys.
        #[diagnostic::do_not_recommend]
        impl Key for $key {
            type Probe<'a> = PackedProbe<'a>;
            type Slot = PackedKey;
            type Arena = KeyArena;

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
            #[inline(always)]
            fn store(&self, probe: PackedProbe<'_>, arena: &mut KeyArena) -> PackedKey {
                PackedKey::new(probe, arena)
            }
            #[inline(always)]
            fn slot_probe<'a>(slot: &'a PackedKey, arena: &'a KeyArena) -> PackedProbe<'a> {
                slot.probe(arena)
            }
            #[inline(always)]
            fn move_slot(slot: PackedKey, from: &KeyArena, to: &mut KeyArena) -> PackedKey {
                PackedKey::new(slot.probe(from), to)
            }
            #[inline]
            fn encode_slot(slot: &PackedKey, arena: &KeyArena, out: &mut Vec<u8>) {
                slot.view(arena, |$bytes| <Self as Wire>::encode(&$from_bytes, out));
            }
            #[inline]
            fn decode_slot(
                input: &mut &[u8],
                arena: &mut KeyArena,
            ) -> Result<PackedKey, DecodeError> {
                let key = <Self as Wire>::decode(input)?;
                Ok(key.store(key.probe(), arena))
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
            #[inline(always)]
            fn lent(owned: &<Self as Portable>::Owned) -> &Self {
                owned
            }
            fn arena_bytes(arena: &KeyArena) -> usize {
                arena.0.capacity()
            }
            fn clear_arena(arena: &mut KeyArena) {
                arena.0.clear();
            }
        }
    };
}

packed_key!([u8], bytes => bytes, as_ref);
// Checked each time: keys are only shown on output.
packed_key!(str, bytes => std::str::from_utf8(bytes).expect("stored as text"), as_bytes);

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of lengths around the limit of the packed form, many of them with equal beginnings.
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

    fn store(key: &[u8], arena: &mut KeyArena) -> PackedKey {
        key.store(key.probe(), arena)
    }

    #[test]
    fn a_slot_matches_its_own_key_alone() {
        let keys = awkward();
        let mut arena = KeyArena::default();
        let slots: Vec<PackedKey> = keys.iter().map(|key| store(key, &mut arena)).collect();
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
            assert_eq!(<[u8]>::slot_hash(&store(bytes, &mut arena), &arena), hash);
            assert_eq!(bytes.own().key_hash(), hash);
            let text = std::str::from_utf8(&key).expect("letters and NUL bytes");
            assert_eq!(str::hash(text.probe()), hash);
            assert_eq!(text.own().key_hash(), hash);
            assert_eq!(String::hash(&text.own()), hash);
        }
        assert_eq!(u64::hash(&7), 7_u64.key_hash());
    }

    #[test]
    fn a_key_is_the_same_in_another_arena() {
        let keys = awkward();
        let (mut from, mut to) = (KeyArena::default(), KeyArena::default());
        for key in &keys {
            let bytes = key.as_slice();
            let slot = store(bytes, &mut from);
            assert_eq!(<[u8]>::hash(<[u8]>::slot_probe(&slot, &from)), hash_bytes(key));
            let moved = <[u8]>::move_slot(slot, &from, &mut to);
            assert!(<[u8]>::matches(&moved, &to, bytes.probe()));
            assert!(<[u8]>::matches(&moved, &to, <[u8]>::slot_probe(&slot, &from)));
            assert_eq!(&<[u8]>::take(moved, &to), key);
        }
    }
}
