//! The digest of an answer: the sum of the hashes of its rows, so that order does not matter and parts can be hashed
//! separately.
//!
//! A row is hashed as its fields in order, so that a program in another language can do the same. `fold(a, b)` is the
//! xor of the two halves of the 128-bit product of `a` and `b`, and all words are little-endian:
//!
//! - The hash starts as [`RowHash::START`]; an integer `w`, widened to 64 bits with its sign, changes it to
//!   `fold(hash ^ w, A)`.
//! - Text is hashed as its length in bytes as an integer, then 16 bytes at a time, as two words `x` and `y`:
//!   `fold(hash ^ x, y ^ B)`. If fewer than 16 bytes are left, the last 16 bytes of the text are hashed again; a text
//!   of fewer than 16 bytes is padded with zeros.
//! - The final hash of a row is `fold(hash ^ A, B)`.
//!
//! The digest is the number of rows and the sum of their hashes modulo 2^64, written `rows:sum` with
//! the sum as 16 hexadecimal digits.

use std::fmt;

const A: u64 = 0xd6e8_feb8_6659_fd93;
// All bytes above 127: no ASCII text makes a factor zero.
const B: u64 = 0xa5b9_e3d7_c6f1_8b95;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A row of an answer, or an event: its fields in order.
pub trait Row {
    /// Feeds every field, in the order in which they are declared.
    fn feed(&self, hash: &mut RowHash);
}

impl<R: Row + ?Sized> Row for &R {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        (**self).feed(hash);
    }
}

/// The hash of one row, field by field, as the module's text defines it.
#[derive(Clone, Copy, Debug)]
pub struct RowHash(u64);

impl RowHash {
    /// The hash of no fields.
    pub const START: u64 = 0x2545_f491_4f6c_dd1d;

    /// The hash of a row without fields yet.
    #[inline]
    pub fn new() -> Self {
        Self(Self::START)
    }

    /// Adds an integer, widened to 64 bits.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, A);
    }

    /// Adds text, or any bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (chunks, rest) = bytes.as_chunks::<16>();
        for chunk in chunks {
            self.pair(u128::from_le_bytes(*chunk));
        }
        match bytes.last_chunk::<16>() {
            _ if rest.is_empty() => {}
            Some(last) => self.pair(u128::from_le_bytes(*last)),
            None => self.pair(filled_up(rest)),
        }
    }

    #[inline]
    fn pair(&mut self, both: u128) {
        self.0 = fold(self.0 ^ both as u64, (both >> 64) as u64 ^ B);
    }

    /// The hash of the fields so far.
    #[inline]
    pub fn finish(self) -> u64 {
        fold(self.0 ^ A, B)
    }
}

/// Fewer than 16 bytes, padded with zeros. Two overlapping loads take a third of the time of a copy of variable
/// length, and many texts are short.
#[inline]
fn filled_up(bytes: &[u8]) -> u128 {
    let length = bytes.len() as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u128::from(u64::from_le_bytes(*last)) << (8 * (length - 8));
        last | u128::from(u64::from_le_bytes(*first))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
        u128::from(last | u64::from(u32::from_le_bytes(*first)))
    } else {
        bytes.iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte))
    }
}

impl Default for RowHash {
    fn default() -> Self {
        Self::new()
    }
}

/// A type of a field of a row.
pub(crate) trait Field {
    fn feed(&self, hash: &mut RowHash);
}

macro_rules! integer_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            #[inline]
            fn feed(&self, hash: &mut RowHash) {
                hash.word(*self as u64);
            }
        }
    )*};
}

integer_fields!(u32, u64, i64);

impl Field for str {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        hash.bytes(self.as_bytes());
    }
}

impl Field for &str {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        hash.bytes(self.as_bytes());
    }
}

impl Field for String {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        hash.bytes(self.as_bytes());
    }
}

/// Declares a row: the struct, its [`Row`], and its `Display` as fields separated by tabs.
macro_rules! row {
    ($(#[$about:meta])* $name:ident {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl $crate::digest::Row for $name {
            #[inline]
            fn feed(&self, hash: &mut $crate::digest::RowHash) {
                $($crate::digest::Field::feed(&self.$field, hash);)*
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::digest::tabbed(f, &[$(&self.$field),*])
            }
        }
    };
}
pub(crate) use row;

/// Writes fields separated by tabs.
pub(crate) fn tabbed(f: &mut fmt::Formatter<'_>, fields: &[&dyn fmt::Display]) -> fmt::Result {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            f.write_str("\t")?;
        }
        write!(f, "{field}")?;
    }
    Ok(())
}

/// The digest of an answer, built up row by row or merged from parts.
///
/// ```
/// use thalweg_workloads::{digest::{Digest, digest}, nexmark::oracle::Row2};
///
/// let rows = [Row2 { auction: 123, price: 7 }, Row2 { auction: 246, price: 8 }];
/// let mut parts = Digest::default();
/// parts.add(&rows[1]);
/// parts.merge(digest(&rows[..1]));
/// assert_eq!(parts, digest(&rows));
/// assert_eq!(parts.to_string().parse(), Ok(parts));
/// ```
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest {
    rows: u64,
    sum: u64,
}

impl Digest {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, row: &(impl Row + ?Sized)) {
        let mut hash = RowHash::new();
        row.feed(&mut hash);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash.finish());
    }

    /// Adds all rows of another digest.
    #[inline]
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The sum of the hashes.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.rows, self.sum)
    }
}

/// Parses the output of `Display`; the error describes that format.
impl std::str::FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(rows, sum)| {
            let sum = (sum.len() == 16).then(|| u64::from_str_radix(sum, 16).ok())??;
            Some(Self { rows: rows.parse().ok()?, sum })
        });
        parts.ok_or_else(|| format!("`{text}` is not a digest, such as `3:00000000deadbeef`"))
    }
}

/// The digest of all `rows`, whatever their order.
pub fn digest<R: Row>(rows: impl IntoIterator<Item = R>) -> Digest {
    let mut digest = Digest::default();
    rows.into_iter().for_each(|row| digest.add(&row));
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    row! {
        /// A row of both sorts of field.
        Sample {
            /// A number.
            number: i64,
            /// Text.
            text: String,
        }
    }

    fn sample(number: i64, text: &str) -> Sample {
        Sample { number, text: text.into() }
    }

    #[test]
    fn the_definition_does_not_drift() {
        let rows =
            [sample(-1, ""), sample(2, "sixteen letters!"), sample(3, "and some more letters")];
        assert_eq!(digest(&rows).to_string(), "3:14f04cd843d5cb52");
    }

    #[test]
    fn short_bytes_are_filled_up_with_zeros() {
        let bytes: Vec<u8> = (1..16).collect();
        for length in 0..16 {
            let mut copy = [0; 16];
            copy[..length].copy_from_slice(&bytes[..length]);
            assert_eq!(filled_up(&bytes[..length]), u128::from_le_bytes(copy), "{length}");
        }
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let (a, b) = (sample(1, "x"), sample(2, "y"));
        assert_eq!(digest([&a, &b]), digest([&b, &a]));
        assert_ne!(digest([&a, &b]), digest([&a, &a]));
        assert_ne!(digest([&a]), digest([&a, &a]));
        assert_ne!(digest([&a, &b]), digest([&sample(1, "y"), &sample(2, "x")]));
        assert_ne!(digest([&sample(1, "x")]), digest([&sample(1, "x\0")]));
    }

    #[test]
    fn few_rows_do_not_collide() {
        let hashes: HashSet<u64> = (0..100_000)
            .map(|n| digest([sample(n % 300, &format!("{:0>20}", n / 300))]).sum())
            .collect();
        assert_eq!(hashes.len(), 100_000);
    }

    #[test]
    fn only_digests_are_read() {
        for wrong in
            ["", "1", "1:2", ":0000000000000000", "x:0000000000000000", "1:000000000000000g"]
        {
            assert!(wrong.parse::<Digest>().unwrap_err().contains(wrong));
        }
    }
}
