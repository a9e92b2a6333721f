//! Borrowed texts, each with a value.

use super::codec::{extend_from, list_heap};
use super::{Batch, Covariant, Data, DecodeError, Ownable, Portable, Record, TextBatch, Wire};
use crate::hints::prefetch_push;
use std::marker::PhantomData;

/// A kind of record: a borrowed text with a value; a closure receives it as a pair of `&str` and `T`.
///
/// A [visitor](crate::Visit) emits such records if it finds names in its input and computes a value for each: nothing
/// is allocated for the name, not even when it crosses to another task. When records are grouped by the name
/// (`group_by_ref(|pair| pair.0)`), it is copied once, when it is new. For owned names, use a pair of `String` and
/// `T`.
///
/// ```
/// use thalweg::data::Labelled;
/// use thalweg::{Environment, Visit};
///
/// /// The words of a line, and how long the line is.
/// struct Words;
///
/// impl Visit<str> for Words {
///     type Out = Labelled<u64>;
///     type Scratch = ();
///
///     fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut((&str, u64))) {
///         line.split(' ').for_each(|word| emit((word, line.len() as u64)));
///     }
/// }
///
/// let env = Environment::new();
/// let lines = env.iter(["a b", "a"]).flat_map_str(|line, out| out.push(line));
/// let sums = lines.flat_each(Words).group_by_ref(|pair| pair.0).sum(|pair| pair.1).collect::<Vec<_>>();
/// env.run()?;
/// let mut sums = sums.take()?;
/// sums.sort();
/// assert_eq!(sums, [("a".to_owned(), 4), ("b".to_owned(), 3)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Labelled<T> {
    kind: PhantomData<fn() -> T>,
    /// Makes the type unsized, so that it is not a record that is passed by value.
    _unsized: [()],
}

impl<T: 'static> Record for Labelled<T> {
    type Of<'a> = (&'a str, T);
}

impl<T: 'static> Covariant for Labelled<T> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: (&'long str, T)) -> (&'short str, T) {
        item
    }
}

impl<T: 'static> Ownable for Labelled<T> {
    type Value = (String, T);

    #[inline]
    fn into_value(item: (&str, T)) -> (String, T) {
        (item.0.into(), item.1)
    }
}

impl<T: Data> Portable for Labelled<T> {
    type Batch = LabelledBatch<T>;
    type Owned = (String, T);

    #[inline]
    fn to_owned(item: (&str, T)) -> (String, T) {
        (item.0.into(), item.1)
    }
}

impl<T: Data> Wire for Labelled<T> {
    #[inline]
    fn encode(item: &(&str, T), out: &mut Vec<u8>) {
        <str as Wire>::encode(&item.0, out);
        Data::encode(&item.1, out);
    }

    #[inline]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<(&'a str, T), DecodeError> {
        Ok((<str as Wire>::decode(input)?, <T as Data>::decode(input)?))
    }
}

/// A batch of texts with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledBatch<T> {
    texts: TextBatch,
    values: Vec<T>,
}

impl<T> Default for LabelledBatch<T> {
    fn default() -> Self {
        Self { texts: TextBatch::default(), values: Vec::new() }
    }
}

impl<T: Data> Batch<Labelled<T>> for LabelledBatch<T> {
    #[inline]
    fn push(&mut self, (text, value): (&str, T)) {
        self.texts.push(text);
        self.values.push(value);
    }

    #[inline]
    fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.texts.bytes() + self.values.len() * size_of::<T>() + list_heap(&self.values)
    }

    #[inline(always)]
    fn prefetch_push(&self) {
        prefetch_push(&self.values);
    }

    #[inline]
    fn drain(&mut self, mut each: impl FnMut((&str, T))) {
        for (text, value) in self.texts.iter().zip(self.values.drain(..)) {
            each((text, value));
        }
        Batch::clear(&mut self.texts);
    }

    #[inline]
    fn clear(&mut self) {
        Batch::clear(&mut self.texts);
        self.values.clear();
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        self.texts.encode_all(out);
        Data::encode(&self.values, out);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let before = Batch::len(&self.texts);
        self.texts.decode_all(input)?;
        let values = self.values.len();
        extend_from(input, &mut self.values)?;
        if self.values.len() - values != Batch::len(&self.texts) - before {
            return Err(DecodeError::invalid("as many values as texts"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> LabelledBatch<u32> {
        let mut batch = LabelledBatch::default();
        for (text, value) in [("a", 1), ("", 2), ("größer", 3)] {
            batch.push((text, value));
        }
        batch
    }

    #[test]
    fn pairs_come_out_as_they_went_in() {
        let mut batch = batch();
        for _ in 0..2 {
            assert_eq!((batch.len(), batch.bytes()), (3, 9 + 3 * 4 + 3 * 4));
            let mut seen = Vec::new();
            batch.drain(|(text, value)| seen.push((text.to_owned(), value)));
            assert_eq!(seen, [("a", 1), ("", 2), ("größer", 3)].map(|(t, n)| (t.to_owned(), n)));
            assert!(batch.is_empty() && batch.bytes() == 0);
            batch = self::batch();
        }
    }

    #[test]
    fn batches_survive_their_encoding() {
        let batch = batch();
        let mut bytes = Vec::new();
        batch.encode_all(&mut bytes);
        let mut again = LabelledBatch::<u32>::default();
        again.decode_all(&mut bytes.as_slice()).unwrap();
        assert_eq!(again, batch);
        for cut in 0..bytes.len() {
            assert!(LabelledBatch::<u32>::default().decode_all(&mut &bytes[..cut]).is_err());
        }
        // One more value than there are texts.
        let mut wrong = Vec::new();
        batch.texts.encode_all(&mut wrong);
        Data::encode(&vec![1_u32; 4], &mut wrong);
        assert!(LabelledBatch::<u32>::default().decode_all(&mut wrong.as_slice()).is_err());
    }

    #[test]
    fn one_survives_its_encoding() {
        let mut bytes = Vec::new();
        Labelled::encode(&("größer", 7_u64), &mut bytes);
        let decoded = <Labelled<u64> as Wire>::decode(&mut bytes.as_slice()).unwrap();
        assert_eq!(decoded, ("größer", 7));
    }
}
