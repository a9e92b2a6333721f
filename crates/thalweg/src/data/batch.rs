//! How many records are held together: in an exchange, in a buffer, in a spill file.

use super::codec::list_heap;
use super::{Data, Record};

/// A growable run of records of one kind, taken apart in the order in which it was built.
///
/// An exchange moves whole batches and gives them back to their sender when they are empty, so
/// `clear` and `drain` keep the allocation.
pub trait Batch<I: Record + ?Sized>: Default + Send + 'static {
    /// Appends one record.
    fn push(&mut self, item: I::Of<'_>);

    /// The number of records held.
    fn len(&self) -> usize;

    /// Whether no record is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the held records occupy, those on the heap behind them estimated.
    fn bytes(&self) -> usize;

    /// Hands every record to `each`, in order, and leaves the batch empty with its capacity kept.
    fn drain(&mut self, each: impl FnMut(I::Of<'_>));

    /// Forgets every record and keeps the capacity.
    fn clear(&mut self);
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

    #[inline]
    fn drain(&mut self, mut each: impl FnMut(T)) {
        for item in Vec::drain(self, ..) {
            each(item);
        }
    }

    #[inline]
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// Strings in a row: their bytes in one buffer, their lengths in another.
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
#[derive(Clone, Debug, Default)]
pub struct TextBatch {
    // A `String`, so that a slice of it is a `str` after a look at its ends alone.
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
}

/// Byte strings in a row: the sibling of [`TextBatch`] for records that need not be UTF-8.
#[derive(Clone, Debug, Default)]
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
}

/// Lengths in four bytes each; those that do not fit are kept aside, in order.
#[derive(Clone, Debug, Default)]
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

    fn bytes(&self) -> usize {
        size_of_val(self.short.as_slice()) + size_of_val(self.long.as_slice())
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn lengths_beyond_four_bytes_are_kept() {
        let mut lengths = Lengths::default();
        let given = [3, u32::MAX as usize - 1, u32::MAX as usize, 1 << 40, 0];
        given.iter().for_each(|&len| lengths.push(len));
        assert_eq!(lengths.iter().collect::<Vec<_>>(), given);
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
