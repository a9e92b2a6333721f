//! Work that all contestants of a bench must do alike: the records they make and the arithmetic
//! they do on each. Everything is deterministic.

use crate::Part;
use crate::digest::Digest;
use std::time::{Duration, Instant};

/// The `i`-th number of the `u64` exchange and of the fusion bench: cheap to make, with bits that
/// are no simple function of `i`, so that routing cannot be predicted and no loop over them has a
/// closed form.
#[inline]
pub fn number(i: u64) -> u64 {
    let spread = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ (spread >> 32)
}

/// Keeps a core busy for so long, as a slow closure does. Nothing is done for zero.
#[inline]
pub fn work_for(duration: Duration) {
    if !duration.is_zero() {
        let began = Instant::now();
        while began.elapsed() < duration {
            std::hint::spin_loop();
        }
    }
}

/// The `i`-th reading of the window-latency bench: a key below `keys`, and a value.
#[inline]
pub fn reading(i: u64, keys: u64) -> (u64, u64) {
    let bits = crate::digest::mix(i);
    (((bits >> 32) * keys) >> 32, bits & 0xffff)
}

/// What a receiver of the `u64` exchange keeps of the numbers it got: enough to see a lost, doubled
/// or changed number, cheap enough not to be what is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NumberCheck {
    count: u64,
    sum: u64,
    xor: u64,
}

impl NumberCheck {
    /// Takes in one number.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(number);
        self.xor ^= number;
    }

    /// Takes in what another receiver kept.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.xor ^= other.xor;
    }

    /// How many numbers were taken in.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The digest of the rows `count`, `sum`, `xor`.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.add(b"count", self.count);
        digest.add(b"sum", self.sum);
        digest.add(b"xor", self.xor);
        digest
    }
}

impl Part for NumberCheck {
    fn merge(&mut self, other: Self) {
        Self::merge(self, other);
    }

    fn to_words(&self) -> Vec<u64> {
        vec![self.count, self.sum, self.xor]
    }

    fn from_words(words: &[u64]) -> Option<Self> {
        let &[count, sum, xor] = words else { return None };
        Some(Self { count, sum, xor })
    }
}

/// A record of the exchange with strings, borrowed: a number and three strings, 166 bytes in
/// all on average. A contestant turns it into whatever its natural record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unique; the low bits name the receiver.
    pub id: u64,
    /// 8 to 23 bytes.
    pub name: &'a str,
    /// 32 to 63 bytes.
    pub url: &'a str,
    /// 64 to 127 bytes.
    pub body: &'a str,
}

/// Where the strings of [`record`] are cut from.
static LETTERS: &str = {
    const BYTES: [u8; 512] = {
        let mut bytes = [0; 512];
        let mut i = 0;
        while i < bytes.len() {
            bytes[i] = b'a' + (crate::digest::mix(i as u64) % 26) as u8;
            i += 1;
        }
        bytes
    };
    match std::str::from_utf8(&BYTES) {
        Ok(letters) => letters,
        Err(_) => panic!("letters are ASCII"),
    }
};

#[inline]
fn cut(start: u64, length: u64) -> &'static str {
    let start = (start & 255) as usize;
    &LETTERS[start..start + length as usize]
}

/// The `i`-th record of the exchange with strings.
#[inline]
pub fn record(i: u64) -> Record<'static> {
    let id = number(i);
    Record {
        id,
        name: cut(id >> 8, 8 + (id >> 16 & 15)),
        url: cut(id >> 20, 32 + (id >> 28 & 31)),
        body: cut(id >> 33, 64 + (id >> 41 & 63)),
    }
}

impl Record<'_> {
    /// The bytes of the record's contents.
    #[inline]
    pub fn bytes(&self) -> u64 {
        (8 + self.name.len() + self.url.len() + self.body.len()) as u64
    }
}

/// What a receiver of the exchange with strings keeps of the records it got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCheck {
    ids: NumberCheck,
    bytes: u64,
    ends: u64,
}

impl RecordCheck {
    /// Takes in one record: its id, its length, and the first and last byte of each string, so
    /// that the strings are really there.
    #[inline]
    pub fn add(&mut self, record: Record<'_>) {
        self.ids.add(record.id);
        self.bytes += record.bytes();
        for text in [record.name, record.url, record.body] {
            let bytes = text.as_bytes();
            if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
                self.ends += u64::from(*first) * 31 + u64::from(*last);
            }
        }
    }

    /// Takes in what another receiver kept.
    pub fn merge(&mut self, other: Self) {
        self.ids.merge(other.ids);
        self.bytes += other.bytes;
        self.ends += other.ends;
    }

    /// How many bytes the records' contents had.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of the rows of the ids' check, `bytes` and `ends`.
    pub fn digest(&self) -> Digest {
        let mut digest = self.ids.digest();
        digest.add(b"bytes", self.bytes);
        digest.add(b"ends", self.ends);
        digest
    }
}

impl Part for RecordCheck {
    fn merge(&mut self, other: Self) {
        Self::merge(self, other);
    }

    fn to_words(&self) -> Vec<u64> {
        [self.ids.to_words(), vec![self.bytes, self.ends]].concat()
    }

    fn from_words(words: &[u64]) -> Option<Self> {
        let (ids, &[bytes, ends]) = words.split_at_checked(3)? else { return None };
        Some(Self { ids: NumberCheck::from_words(ids)?, bytes, ends })
    }
}

/// The map of the `fused` bench.
#[inline]
pub fn fused_map(x: u64) -> u64 {
    x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 7)
}

/// The filter of the `fused` bench, after the map: keeps seven of eight.
#[inline]
pub fn fused_keep(x: u64) -> bool {
    x & 0x700 != 0
}

/// The steps from `n` to 1: `n / 2` when even, `3 n + 1` when odd.
#[inline]
pub fn collatz_steps(mut n: u64) -> u32 {
    let mut steps = 0;
    while n > 1 {
        if n & 1 == 0 {
            // A run of halvings at once.
            let zeros = n.trailing_zeros();
            n >>= zeros;
            steps += zeros;
        } else {
            n = 3 * n + 1;
            steps += 1;
        }
    }
    steps
}

/// The better of two candidates `(n, steps)`: more steps, on ties the smaller number.
#[inline]
pub fn collatz_better(a: (u64, u32), b: (u64, u32)) -> (u64, u32) {
    if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) { b } else { a }
}

/// The digest of a single row with integer key and value: the answers of `collatz` (number,
/// steps) and of `fused` and `fusion` (records in, wrapping sum).
pub fn single_row(key: u64, value: u64) -> Digest {
    let mut digest = Digest::default();
    digest.add_number(key, value);
    digest
}

/// An item of the `skew` bench as it is in its file: two little-endian `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The key, 1 to 50.
    pub id: u32,
    /// The number whose root is taken, 1 to 100.
    pub number: u32,
}

/// Reads an item file.
///
/// # Errors
/// When the file cannot be read or has a partial item at its end.
pub fn read_items(path: &std::path::Path) -> crate::Result<Vec<Item>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (items, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{}: not a whole number of items", path.display()).into());
    }
    let word = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    Ok(items.iter().map(|item| Item { id: word(&item[..4]), number: word(&item[4..]) }).collect())
}

/// Reads a file of little-endian `u64` keys.
///
/// # Errors
/// When the file cannot be read or has a partial key at its end.
pub fn read_keys(path: &std::path::Path) -> crate::Result<Vec<u64>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (keys, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{}: not a whole number of keys", path.display()).into());
    }
    Ok(keys.iter().map(|key| u64::from_le_bytes(*key)).collect())
}

/// What the `join` bench keeps of the pairs of two tables: how many there are, and a sum of the places of
/// both rows in their tables, so that a pair which is lost, doubled or wrong shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pairs {
    /// How many pairs.
    pub count: u64,
    /// Of 3 times the left place and once the right one.
    pub sum: u64,
}

impl Pairs {
    /// Takes in one pair of places.
    #[inline]
    pub fn add(&mut self, left: u64, right: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(3 * left + right);
    }

    /// Takes in what another receiver kept.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The digest of the single row of count and sum.
    pub fn digest(&self) -> Digest {
        single_row(self.count, self.sum)
    }
}

/// The square root by Newton's method, with a fixed number of steps: the work of the `skew` bench.
#[inline]
pub fn newton_sqrt(square: u32, iterations: u32) -> f64 {
    let target = f64::from(square);
    let mut guess = target;
    for _ in 0..iterations {
        guess -= (guess * guess - target) / (guess * 2.0);
    }
    guess
}

/// How items are spread over partitions in the `skew` bench: which partition, of those a static
/// pipeline has, gets the items of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Ids are dealt out in turn.
    Even,
    /// Ids 1 to 25, which carry 75% of the items, all go to the first partition.
    Skewed,
}

impl Split {
    /// Reads a name as `--split` gives it.
    ///
    /// # Errors
    /// When there is no such split.
    pub fn parse(name: &str) -> crate::Result<Self> {
        match name {
            "even" => Ok(Self::Even),
            "skewed" => Ok(Self::Skewed),
            _ => Err(format!("there is no split {name:?}: even, skewed").into()),
        }
    }

    /// The partition of an id among `partitions`.
    #[inline]
    pub fn partition(self, id: u32, partitions: usize) -> usize {
        let turn = id as usize - 1;
        match self {
            Self::Even => turn % partitions,
            Self::Skewed if turn < 25 || partitions == 1 => 0,
            Self::Skewed => 1 + (turn - 25) % (partitions - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collatz_by_hand() {
        assert_eq!(collatz_steps(1), 0);
        assert_eq!(collatz_steps(6), 8);
        assert_eq!(collatz_steps(27), 111);
        assert_eq!(collatz_better((3, 7), (20, 7)), (3, 7));
        assert_eq!(collatz_better((20, 7), (3, 7)), (3, 7));
        assert_eq!(collatz_better((20, 8), (3, 7)), (20, 8));
    }

    #[test]
    fn records_have_the_size_they_claim() {
        let total: u64 = (0..100_000).map(|i| record(i).bytes()).sum();
        assert!((160..=170).contains(&(total / 100_000)), "{}", total / 100_000);
    }

    #[test]
    fn newton_finds_the_root() {
        assert!((newton_sqrt(81, 100) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_skewed_split_fills_the_first_partition() {
        assert!((1..=25).all(|id| Split::Skewed.partition(id, 4) == 0));
        assert!((26..=50).all(|id| (1..4).contains(&Split::Skewed.partition(id, 4))));
        assert!((1..=50).all(|id| Split::Skewed.partition(id, 1) == 0));
    }
}
