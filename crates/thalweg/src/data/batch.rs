//! Batches: several records stored together, in an exchange, a buffer or a spill file.

use super::codec::{extend_from, list_heap};
use super::drain::drain_each;
use super::{Data, DecodeError, Record};
use crate::hints::prefetch_push;
use std::mem::needs_drop;

/// A growable sequence of records of one kind, which are removed in the order of insertion.
///
/// An exchange moves whole batches and returns them to their sender when they are empty, so `clear` and `drain` keep
/// the allocation.
pub trait Batch<I: Record + ?Sized>: Default + Send + 'static {
    /// Appends one record.
    fn push(&mut self, item: I::Of<'_>);

    /// The number of records held.
    fn len(&self) -> usize;

    /// Whether no record is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the records occupy, including an estimate of what they own on the heap.
    fn bytes(&self) -> usize;

    /// An estimate of the bytes that the last record owns on the heap; 0 where records own none. Called for every
    /// record that is sent, so that a batch of a few large records does not wait for more.
    #[inline(always)]
    fn last_heap(&self) -> usize {
        0
    }

    /// Prefetches the memory of records that are pushed after some others. Called for every record that is sent, behind
    /// which others usually follow; a hint, which does nothing by default.
    #[inline(always)]
    fn prefetch_push(&self) {}

    /// Passes the hash of each record's key to `each`, in order, if the batch carries hashes. By default, it carries none.
    #[inline(always)]
    fn each_hash(&self, _each: impl FnMut(u64)) {}

    /// Passes every record to `each`, in order, and leaves the batch empty with its capacity kept.
    fn drain(&mut self, each: impl FnMut(I::Of<'_>));

    /// Removes every record and keeps the capacity.
    fn clear(&mut self);

    /// Appends the encoding of all records to `out`.
    fn encode_all(&self, out: &mut Vec<u8>);

    /// Decodes one batch from the front of `input`, advances `input` past it, and appends its records.
    ///
    /// # Errors
    ///
    /// If the bytes are not the encoding of a batch; some records may have been appended by then.
    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError>;
}

impl<T: Data> Batch<T> for Vec<T> {
    #[inline]
    fn push(&mut self, item: T) {
        Vec::push(self, item);
    }

    #[inline]
    fn len(&self) -> usize {
        Vec::len(self)
    }

    /// Constant time for types that own no heap, a walk over the records otherwise.
    #[inline]
    fn bytes(&self) -> usize {
        Vec::len(self) * size_of::<T>() + list_heap(self)
    }

    #[inline(always)]
    fn last_heap(&self) -> usize {
        if needs_drop::<T>() { self.last().map_or(0, T::heap_size) } else { 0 }
    }

    #[inline(always)]
    fn prefetch_push(&self) {
        prefetch_push(self);
    }

    #[inline]
    fn drain(&mut self, each: impl FnMut(T)) {
        drain_each(self, each);
    }

    #[inline]
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        Data::encode(self, out);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        extend_from(input, self)
    }
}

/// Strings stored contiguously: their bytes in one buffer, their lengths in another.
///
/// Appending copies the string's bytes and allocates nothing once the buffers have grown.
///
/// ```
/// use thalweg::data::{Batch, TextBatch};
///
/// let mut batch = TextBatch::default();
/// batch.push("along");
/// batch.push("the river");
/// let mut seen = Vec::new();
/// batch.drain(|text| seen.push(text.to_owned()));
/// assert_eq!(seen, ["along", "the river"]);
/// assert!(batch.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextBatch {
    // A `String`, so that a slice of it is a `str` after a check of its ends alone.
    text: String,
    lengths: Lengths,
}

impl TextBatch {
    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.text.as_str();
        self.lengths.iter().map(move |len| {
            let (item, after) = rest.split_at(len);
            rest = after;
            item
        })
    }

    /// The length of the last string in bytes, 0 if there is none.
    #[inline]
    pub fn last_len(&self) -> usize {
        self.lengths.last()
    }
}

impl Batch<str> for TextBatch {
    #[inline]
    fn push(&mut self, item: &str) {
        self.text.push_str(item);
        self.lengths.push(item.len());
    }

    #[inline]
    fn len(&self) -> usize {
        self.lengths.short.len()
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.text.len() + self.lengths.bytes()
    }

    #[inline]
    fn drain(&mut self, each: impl FnMut(&str)) {
        self.iter().for_each(each);
        self.clear();
    }

    #[inline]
    fn clear(&mut self) {
        self.text.clear();
        self.lengths.clear();
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        self.lengths.encode(out);
        out.extend_from_slice(self.text.as_bytes());
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let (lengths, bytes) = Lengths::decode_with_bytes(input)?;
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::invalid("UTF-8"))?;
        let mut end = 0;
        for len in lengths.iter() {
            end += len;
            if !text.is_char_boundary(end) {
                return Err(DecodeError::invalid("texts that end with a whole character"));
            }
        }
        self.text.push_str(text);
        self.lengths.append(lengths);
        Ok(())
    }
}

/// Byte strings stored contiguously: the sibling of [`TextBatch`] for records that need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BytesBatch {
    bytes: Vec<u8>,
    lengths: Lengths,
}

impl BytesBatch {
    /// The byte strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |len| {
            let (item, after) = rest.split_at(len);
            rest = after;
            item
        })
    }

    /// The length of the last byte string, 0 if there is none.
    #[inline]
    pub fn last_len(&self) -> usize {
        self.lengths.last()
    }
}

impl Batch<[u8]> for BytesBatch {
    #[inline]
    fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.lengths.push(item.len());
    }

    #[inline]
    fn len(&self) -> usize {
        self.lengths.short.len()
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.bytes.len() + self.lengths.bytes()
    }

    #[inline]
    fn drain(&mut self, each: impl FnMut(&[u8])) {
        self.iter().for_each(each);
        self.clear();
    }

    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        self.lengths.encode(out);
        out.extend_from_slice(&self.bytes);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let (lengths, bytes) = Lengths::decode_with_bytes(input)?;
        self.bytes.extend_from_slice(bytes);
        self.lengths.append(lengths);
        Ok(())
    }
}

/// Lengths in four bytes each; longer ones are stored separately, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lengths {
    short: Vec<u32>,
    long: Vec<usize>,
}

impl Lengths {
    #[inline]
    fn push(&mut self, len: usize) {
        match u32::try_from(len) {
            Ok(short) if short != u32::MAX => self.short.push(short),
            _ => self.push_long(len),
        }
    }

    #[cold]
    fn push_long(&mut self, len: usize) {
        self.short.push(u32::MAX);
        self.long.push(len);
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = usize> {
        let mut long = self.long.iter();
        self.short.iter().map(move |&len| match len {
            u32::MAX => long.next().copied().unwrap_or(u32::MAX as usize),
            short => short as usize,
        })
    }

    #[inline]
    fn last(&self) -> usize {
        match self.short.last() {
            Some(&u32::MAX) => self.long.last().copied().unwrap_or(0),
            short => short.map_or(0, |&len| len as usize),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self.short.as_slice()) + size_of_val(self.long.as_slice())
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }

    fn append(&mut self, mut after: Self) {
        self.short.append(&mut after.short);
        self.long.append(&mut after.long);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Data::encode(&self.short, out);
        Data::encode(&self.long, out);
    }

    /// Decodes lengths, and takes the bytes behind them that they measure.
    fn decode_with_bytes<'a>(input: &mut &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let lengths = Self { short: Data::decode(input)?, long: Data::decode(input)? };
        let total = lengths.iter().try_fold(0, usize::checked_add);
        let total = total.ok_or(DecodeError::invalid("lengths that can be added"))?;
        let split = input.split_at_checked(total);
        let (bytes, rest) = split.ok_or_else(|| DecodeError::ended(total, input.len()))?;
        *input = rest;
        Ok((lengths, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    #[test]
    fn text_comes_out_as_it_went_in() {
        let mut batch = TextBatch::default();
        let words = ["", "a", "größer", "", "日本", "end"];
        for round in 0..2 {
            for word in words {
                batch.push(word);
            }
            assert_eq!(batch.iter().collect::<Vec<_>>(), words);
            assert_eq!((batch.len(), batch.bytes()), (6, 18 + 6 * 4));
            let capacity = batch.text.capacity();
            let mut seen = Vec::new();
            batch.drain(|word| seen.push(word.to_owned()));
            assert_eq!(seen, words, "round {round}");
            assert_eq!((batch.len(), batch.bytes(), batch.text.capacity()), (0, 0, capacity));
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut batch = BytesBatch::default();
        batch.push(&[255, 0]);
        batch.push(&[]);
        batch.push(&[7]);
        let mut seen = Vec::new();
        batch.drain(|bytes| seen.push(bytes.to_vec()));
        assert_eq!(seen, [vec![255, 0], vec![], vec![7]]);
        assert!(batch.is_empty());
    }

    /// Truncated or altered bytes are refused or decode to another batch; they never cause a panic.
    fn survives<I: Record + ?Sized, B: Batch<I> + Clone + PartialEq + Debug>(batch: &B) {
        let mut bytes = Vec::new();
        batch.encode_all(&mut bytes);
        let mut again = B::default();
        let mut input = bytes.as_slice();
        again.decode_all(&mut input).unwrap();
        assert_eq!((&again, input.len()), (batch, 0));
        for at in 0..bytes.len() {
            assert!(B::default().decode_all(&mut &bytes[..at]).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            let mut other = B::default();
            if other.decode_all(&mut changed.as_slice()).is_ok() {
                other.drain(|_| {});
            }
        }
        again.decode_all(&mut bytes.as_slice()).unwrap();
        assert_eq!(again.len(), 2 * batch.len());
    }

    #[test]
    fn batches_survive_their_encoding() {
        let (mut text, mut bytes) = (TextBatch::default(), BytesBatch::default());
        for word in ["", "a", "größer", "", "日本", "end"] {
            text.push(word);
            bytes.push(word.as_bytes());
        }
        survives::<str, _>(&text);
        survives::<[u8], _>(&bytes);
        survives::<String, _>(&text.iter().map(str::to_owned).collect::<Vec<_>>());
    }

    #[test]
    fn lengths_beyond_four_bytes_are_kept() {
        let mut lengths = Lengths::default();
        let given = [3, u32::MAX as usize - 1, u32::MAX as usize, 1 << 40, 0];
        given.iter().for_each(|&len| lengths.push(len));
        assert_eq!(lengths.iter().collect::<Vec<_>>(), given);
        assert_eq!(lengths.last(), 0);
        for &len in &given {
            lengths.push(len);
            assert_eq!(lengths.last(), len);
        }
        assert_eq!(Lengths::default().last(), 0);
    }

    #[test]
    fn a_batch_of_values_counts_its_heap() {
        let mut batch = vec![1_u64, 2, 3];
        assert_eq!(Batch::bytes(&batch), 24);
        let mut sum = 0;
        Batch::drain(&mut batch, |value: u64| sum += value);
        assert_eq!((sum, batch.len()), (6, 0));
        let words = vec![String::from("river")];
        assert_eq!(Batch::bytes(&words), size_of::<String>() + 5);
    }
}
