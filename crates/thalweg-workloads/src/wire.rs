//! Reads little-endian numbers, lengths and text from bytes, with a check at every step. Never panics, whatever the
//! bytes.

use crate::error::{DecodeError, Problem};

/// The unread bytes of an event.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, whole: bytes.len() }
    }

    /// The unread bytes.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error `back` bytes before the next byte.
    #[cold]
    pub(crate) fn error(&self, problem: Problem, back: usize) -> DecodeError {
        DecodeError { problem, offset: self.whole - self.rest.len() - back }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error(Problem::Short, 0));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| *byte)
    }

    /// Reads `N` words with one check.
    #[inline]
    pub(crate) fn words<const N: usize>(&mut self) -> Result<[u64; N], DecodeError> {
        let (words, _) = self.rest.as_chunks::<8>();
        let Some(words) = words.first_chunk::<N>() else {
            return Err(self.error(Problem::Short, 0));
        };
        self.rest = &self.rest[8 * N..];
        Ok(words.map(u64::from_le_bytes))
    }

    /// Reads a text that follows a byte with its length.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = usize::from(self.byte()?);
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.error(Problem::Short, 0));
        };
        let text = simdutf8::basic::from_utf8(bytes).map_err(|_| self.error(Problem::Text, 0))?;
        self.rest = rest;
        Ok(text)
    }

    /// Reads a length as LEB128, seven bits a byte; accepts only the shortest form.
    #[inline]
    fn length(&mut self) -> Result<usize, DecodeError> {
        match self.rest {
            [byte @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(usize::from(*byte))
            }
            _ => self.long_length(),
        }
    }

    fn long_length(&mut self) -> Result<usize, DecodeError> {
        let (mut length, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit; a last byte of zero is not the shortest form.
            if shift == 63 && byte > 1 || byte == 0 && shift > 0 {
                return Err(self.error(Problem::Length, 1));
            }
            length |= bits << shift;
            if byte < 0x80 {
                return usize::try_from(length).map_err(|_| self.error(Problem::Length, 1));
            }
            shift += 7;
        }
    }

    /// Reads `N` texts: their lengths, then all their bytes, whose UTF-8 is checked at once.
    #[inline]
    pub(crate) fn texts<const N: usize>(&mut self) -> Result<[&'a str; N], DecodeError> {
        let mut lengths = [0; N];
        let mut total = 0usize;
        for length in &mut lengths {
            *length = self.length()?;
            total = total.saturating_add(*length);
        }
        let Some((bytes, rest)) = self.rest.split_at_checked(total) else {
            return Err(self.error(Problem::Short, 0));
        };
        let Ok(mut text) = simdutf8::basic::from_utf8(bytes) else {
            return Err(self.error(Problem::Text, 0));
        };
        let mut texts = [""; N];
        for (at, length) in texts.iter_mut().zip(lengths) {
            let Some((this, others)) = text.split_at_checked(length) else {
                return Err(self.error(Problem::Text, 0));
            };
            *at = this;
            text = others;
        }
        self.rest = rest;
        Ok(texts)
    }
}

/// Appends words, little-endian.
#[inline]
pub(crate) fn put_words<const N: usize>(words: [u64; N], out: &mut Vec<u8>) {
    out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
}

/// Appends texts in the form that [`Reader::texts`] reads.
#[inline]
pub(crate) fn put_texts(texts: &[&str], out: &mut Vec<u8>) {
    for text in texts {
        let mut length = text.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
    }
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_shortest_length_is_taken() {
        let read = |bytes: &[u8]| Reader::new(bytes).length();
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read(&max), Ok(usize::MAX));
        let length = |offset| Err(DecodeError { problem: Problem::Length, offset });
        assert_eq!(read(&[0x80, 0x00]), length(1));
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(read(&over), length(9));
        assert_eq!(read(&[0xff; 11]), length(9));
        assert_eq!(read(&[0x80]), Err(DecodeError { problem: Problem::Short, offset: 1 }));
    }

    #[test]
    fn lengths_that_overflow_in_sum_are_short() {
        let mut bytes = Vec::new();
        for _ in 0..2 {
            bytes.extend([0xff; 9]);
            bytes.push(0x01);
        }
        assert_eq!(Reader::new(&bytes).texts::<2>().unwrap_err().problem, Problem::Short);
    }

    #[test]
    fn a_length_that_cuts_a_character_is_refused() {
        let bytes = [&[1u8, 1][..], "é".as_bytes()].concat();
        assert_eq!(Reader::new(&bytes).texts::<2>().unwrap_err().problem, Problem::Text);
    }

    proptest! {
        #[test]
        fn texts_come_back(a in ".{0,200}", b in ".{0,3}") {
            let mut bytes = Vec::new();
            put_texts(&[&a, &b], &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.texts::<2>().unwrap(), [a.as_str(), b.as_str()]);
            prop_assert!(reader.rest().is_empty());
        }
    }
}
