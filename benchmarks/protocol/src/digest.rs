//! The digest by which contestants' answers are compared.
//!
//! An answer is a multiset of rows, each a key and a 64-bit value. With `mix` the finaliser of
//! SplitMix64 and all arithmetic modulo 2^64, a key of `n` bytes hashes to `h = mix(n)`, then
//! `h = mix(h ^ w)` for each little-endian 8-byte word `w` of the key, the last one filled up with
//! zero bytes. A row hashes to `mix(h ^ mix(value))`. The digest is the sum of the rows' hashes,
//! written as `rows:sum` with the sum as 16 hexadecimal digits. An integer key is its 8
//! little-endian bytes; a floating-point value its bits. The order of the rows does not matter; a
//! row more, less or different does. `peers-python/digest.py` is the same in NumPy.

use crate::Part;
use std::fmt;

/// The digest of an answer, built up row by row or merged from parts.
///
/// ```
/// use bench_protocol::digest::Digest;
/// let mut one = Digest::default();
/// one.add(b"apple", 3);
/// one.add(b"pear", 1);
/// let mut other = Digest::default();
/// other.add(b"pear", 1);
/// other.add(b"apple", 3);
/// assert_eq!(one, other);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    rows: u64,
    sum: u64,
}

impl Digest {
    /// So many rows whose hashes have this sum, for rows that are hashed in another way.
    pub fn of_hashes(rows: u64, sum: u64) -> Self {
        Self { rows, sum }
    }

    /// Adds a row with a key of bytes.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: u64) {
        let mut hash = mix(key.len() as u64);
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = mix(hash ^ u64::from_le_bytes(word));
        }
        self.add_hashed(hash, value);
    }

    /// Adds a row with an integer key: the same as its 8 little-endian bytes.
    #[inline]
    pub fn add_number(&mut self, key: u64, value: u64) {
        // `mix(8)`, the hash of the key's length.
        const LENGTH: u64 = mix(8);
        self.add_hashed(mix(LENGTH ^ key), value);
    }

    /// Adds all rows of another digest.
    #[inline]
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    #[inline]
    fn add_hashed(&mut self, hash: u64, value: u64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(mix(hash ^ mix(value)));
    }
}

impl Part for Digest {
    fn merge(&mut self, other: Self) {
        Self::merge(self, other);
    }

    fn to_words(&self) -> Vec<u64> {
        vec![self.rows, self.sum]
    }

    fn from_words(words: &[u64]) -> Option<Self> {
        let &[rows, sum] = words else { return None };
        Some(Self { rows, sum })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.rows, self.sum)
    }
}

/// The finaliser of SplitMix64: a bijection of 64-bit numbers that spreads every input bit.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&str, u64)]) -> Digest {
        let mut digest = Digest::default();
        for (key, value) in rows {
            digest.add(key.as_bytes(), *value);
        }
        digest
    }

    #[test]
    fn the_definition_does_not_drift() {
        // Also asserted by `peers-python/digest.py`, so that the two stay one definition.
        let rows = [("a", 1), ("eight888", 2), ("internationalisation", 3), ("", 4)];
        assert_eq!(of(&rows).to_string(), "4:8b3585ab4871d709");
        let mut numbers = Digest::default();
        numbers.add_number(0, 0);
        numbers.add_number(u64::MAX, 7);
        assert_eq!(numbers.to_string(), "2:85320e3fa8fe6964");
    }

    #[test]
    fn differences_show() {
        assert_ne!(of(&[("a", 1), ("b", 2)]), of(&[("a", 2), ("b", 1)]));
        assert_ne!(of(&[("a", 1)]), of(&[("a", 1), ("a", 1)]));
        assert_ne!(of(&[("a", 1)]), of(&[("a\0", 1)]));
    }

    #[test]
    fn a_number_is_its_bytes() {
        let mut bytes = Digest::default();
        bytes.add(&77u64.to_le_bytes(), 5);
        let mut number = Digest::default();
        number.add_number(77, 5);
        assert_eq!(bytes, number);
    }
}
