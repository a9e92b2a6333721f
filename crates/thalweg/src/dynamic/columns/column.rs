//! Columns: values of one type, in the memory layout of Arrow, so that a conversion moves buffers and copies none.
//!
//! | type | buffers | in Arrow |
//! |---|---|---|
//! | `i64`, `u64`, `f64` | values | `Int64`, `UInt64`, `Float64` |
//! | `bool` | bits, the lowest of a byte first | `Boolean` |
//! | `utf8`, `bytes` | offsets of 64 bits, one more than values; bytes | `LargeUtf8`, `LargeBinary` |
//!
//! There are no missing values, so there is no buffer for validity.

use super::{Type, Value};

/// Truth values, eight a byte, the lowest bit first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at this place; `false` past the end.
    #[inline]
    pub fn get(&self, at: usize) -> bool {
        at < self.len && self.bytes[at / 8] >> (at % 8) & 1 != 0
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(value) << (self.len % 8);
        }
        self.len += 1;
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.len).map(|at| self.get(at))
    }

    /// The bytes that hold the bits; unused bits of the last byte are 0.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bits from packed bytes; `None` unless their number fits `len` and the unused bits are 0.
    pub fn from_bytes(bytes: Vec<u8>, len: usize) -> Option<Self> {
        let spare = match (bytes.last(), len % 8) {
            (Some(last), used @ 1..) => last >> used,
            _ => 0,
        };
        (bytes.len() == len.div_ceil(8) && spare == 0).then_some(Self { bytes, len })
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> Self {
        let mut bits = Self::default();
        values.into_iter().for_each(|value| bits.push(value));
        bits
    }
}

/// The common code of the two kinds of columns with offsets.
macro_rules! strings {
    ($(#[$doc:meta])* $name:ident, $buffer:ty, $item:ty, $append:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            offsets: Vec<i64>,
            data: $buffer,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { offsets: vec![0], data: <$buffer>::new() }
            }
        }

        impl $name {
            /// An empty column with capacity for this many values with this many bytes in all.
            pub fn with_capacity(values: usize, bytes: usize) -> Self {
                let mut offsets = Vec::with_capacity(values + 1);
                offsets.push(0);
                Self { offsets, data: <$buffer>::with_capacity(bytes) }
            }

            /// The number of values.
            pub fn len(&self) -> usize {
                self.offsets.len() - 1
            }

            /// Whether there is no value.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The value at this place; empty past the end.
            #[inline]
            pub fn get(&self, at: usize) -> &$item {
                match self.offsets.get(at..at + 2) {
                    Some(&[from, to]) => &self.data[from as usize..to as usize],
                    _ => Default::default(),
                }
            }

            /// Appends a value.
            #[inline]
            pub fn push(&mut self, value: &$item) {
                self.data.$append(value);
                self.offsets.push(self.data.len() as i64);
            }

            /// The values in order.
            #[inline]
            pub fn iter(&self) -> impl Iterator<Item = &$item> {
                let mut from = 0;
                self.offsets[1..].iter().map(move |&to| {
                    let value = &self.data[from..to as usize];
                    from = to as usize;
                    value
                })
            }

            /// The offset of each value in the data, and last the end of the data.
            pub fn offsets(&self) -> &[i64] {
                &self.offsets
            }

            /// All values, one after the other.
            pub fn data(&self) -> &$item {
                &self.data
            }

            /// The buffers: offsets and data.
            pub fn into_parts(self) -> (Vec<i64>, $buffer) {
                (self.offsets, self.data)
            }

            fn bytes(&self) -> usize {
                self.data.len() + size_of_val(self.offsets.as_slice())
            }

            fn clear(&mut self) {
                self.offsets.truncate(1);
                self.data.clear();
            }
        }
    };
}

strings!(
    /// Text: the values one after the other in one buffer, and where each begins in another.
    Text, String, str, push_str
);

strings!(
    /// Byte strings: the sibling of [`Text`] for values that need not be UTF-8.
    Bytes, Vec<u8>, [u8], extend_from_slice
);

/// The bytes that are copied at once for a short value, since a copy of fixed length is one instruction.
const SHORT: usize = 16;

impl Text {
    /// Appends a part of a longer text: faster than [`push`](Self::push) if parts are short.
    #[inline(always)]
    pub(crate) fn push_part(&mut self, of: &str, from: usize, to: usize) {
        let short = if to - from <= SHORT { of.get(from..from + SHORT) } else { None };
        match short {
            Some(more) => {
                let end = self.data.len() + (to - from);
                self.data.push_str(more);
                self.data.truncate(end);
            }
            None => self.data.push_str(&of[from..to]),
        }
        self.offsets.push(self.data.len() as i64);
    }

    /// Converts ASCII letters to lower case.
    pub(crate) fn lowercase_ascii(&mut self) {
        self.data.make_ascii_lowercase();
    }

    /// Converts ASCII letters to upper case.
    pub(crate) fn uppercase_ascii(&mut self) {
        self.data.make_ascii_uppercase();
    }

    /// Text from its buffers; `None` unless the offsets begin with 0, ascend, end with the data's
    /// length and never split a character.
    pub fn from_parts(offsets: Vec<i64>, data: String) -> Option<Self> {
        let whole = |at: &i64| usize::try_from(*at).is_ok_and(|at| data.is_char_boundary(at));
        (are_offsets(&offsets, data.len()) && offsets.iter().all(whole))
            .then_some(Self { offsets, data })
    }
}

impl Bytes {
    /// Byte strings from their buffers; `None` unless the offsets begin with 0, ascend and end
    /// with the data's length.
    pub fn from_parts(offsets: Vec<i64>, data: Vec<u8>) -> Option<Self> {
        are_offsets(&offsets, data.len()).then_some(Self { offsets, data })
    }
}

fn are_offsets(offsets: &[i64], len: usize) -> bool {
    offsets.first() == Some(&0)
        && offsets.is_sorted()
        && offsets.last().is_some_and(|&last| usize::try_from(last) == Ok(len))
}

impl<'a> FromIterator<&'a str> for Text {
    fn from_iter<I: IntoIterator<Item = &'a str>>(values: I) -> Self {
        let mut text = Self::default();
        values.into_iter().for_each(|value| text.push(value));
        text
    }
}

impl<'a> FromIterator<&'a [u8]> for Bytes {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(values: I) -> Self {
        let mut bytes = Self::default();
        values.into_iter().for_each(|value| bytes.push(value));
        bytes
    }
}

/// Values of one type.
///
/// ```
/// use thalweg::dynamic::{Column, Text, Type, Value};
///
/// let words = Column::Utf8(["river", "bed"].into_iter().collect::<Text>());
/// assert_eq!((words.kind(), words.len()), (Type::Utf8, 2));
/// assert_eq!(words.value(1), Some(Value::from("bed")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Signed integers.
    I64(Vec<i64>),
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Floating-point numbers.
    F64(Vec<f64>),
    /// Truth values.
    Bool(Bits),
    /// Text.
    Utf8(Text),
    /// Byte strings.
    Bytes(Bytes),
}

/// Applies the same expression to the buffer of each kind of column.
macro_rules! each {
    ($column:expr, $buffer:ident => $do:expr) => {
        match $column {
            Column::I64($buffer) => $do,
            Column::U64($buffer) => $do,
            Column::F64($buffer) => $do,
            Column::Bool($buffer) => $do,
            Column::Utf8($buffer) => $do,
            Column::Bytes($buffer) => $do,
        }
    };
}

impl Column {
    /// An empty column.
    pub fn new(kind: Type) -> Self {
        match kind {
            Type::I64 => Self::I64(Vec::new()),
            Type::U64 => Self::U64(Vec::new()),
            Type::F64 => Self::F64(Vec::new()),
            Type::Bool => Self::Bool(Bits::default()),
            Type::Utf8 => Self::Utf8(Text::default()),
            Type::Bytes => Self::Bytes(Bytes::default()),
        }
    }

    /// A column of `rows` times the same value.
    pub fn repeat(value: &Value, rows: usize) -> Self {
        match value {
            Value::I64(value) => Self::I64(vec![*value; rows]),
            Value::U64(value) => Self::U64(vec![*value; rows]),
            Value::F64(value) => Self::F64(vec![*value; rows]),
            Value::Bool(value) => Self::Bool(std::iter::repeat_n(*value, rows).collect()),
            Value::Utf8(value) => Self::Utf8(std::iter::repeat_n(value.as_str(), rows).collect()),
            Value::Bytes(value) => {
                Self::Bytes(std::iter::repeat_n(value.as_slice(), rows).collect())
            }
        }
    }

    /// The type of its values.
    pub fn kind(&self) -> Type {
        match self {
            Self::I64(_) => Type::I64,
            Self::U64(_) => Type::U64,
            Self::F64(_) => Type::F64,
            Self::Bool(_) => Type::Bool,
            Self::Utf8(_) => Type::Utf8,
            Self::Bytes(_) => Type::Bytes,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the values occupy.
    pub fn bytes(&self) -> usize {
        match self {
            Self::I64(values) => size_of_val(values.as_slice()),
            Self::U64(values) => size_of_val(values.as_slice()),
            Self::F64(values) => size_of_val(values.as_slice()),
            Self::Bool(bits) => bits.bytes.len(),
            Self::Utf8(text) => text.bytes(),
            Self::Bytes(bytes) => bytes.bytes(),
        }
    }

    /// The value at this place, copied.
    pub fn value(&self, at: usize) -> Option<Value> {
        if at >= self.len() {
            return None;
        }
        Some(match self {
            Self::I64(values) => Value::I64(values[at]),
            Self::U64(values) => Value::U64(values[at]),
            Self::F64(values) => Value::F64(values[at]),
            Self::Bool(bits) => Value::Bool(bits.get(at)),
            Self::Utf8(text) => Value::from(text.get(at)),
            Self::Bytes(bytes) => Value::from(bytes.get(at)),
        })
    }

    /// Appends a value and returns `true` if it is of the column's type; otherwise does nothing.
    #[must_use]
    pub fn push(&mut self, value: &Value) -> bool {
        match (self, value) {
            (Self::I64(values), Value::I64(value)) => values.push(*value),
            (Self::U64(values), Value::U64(value)) => values.push(*value),
            (Self::F64(values), Value::F64(value)) => values.push(*value),
            (Self::Bool(bits), Value::Bool(value)) => bits.push(*value),
            (Self::Utf8(text), Value::Utf8(value)) => text.push(value),
            (Self::Bytes(bytes), Value::Bytes(value)) => bytes.push(value),
            _ => return false,
        }
        true
    }

    /// The values at these places, in this order; places past the end are left out.
    pub fn take(&self, places: &[usize]) -> Self {
        let places = places.iter().filter(|&&at| at < self.len()).copied();
        match self {
            Self::I64(values) => Self::I64(places.map(|at| values[at]).collect()),
            Self::U64(values) => Self::U64(places.map(|at| values[at]).collect()),
            Self::F64(values) => Self::F64(places.map(|at| values[at]).collect()),
            Self::Bool(bits) => Self::Bool(places.map(|at| bits.get(at)).collect()),
            Self::Utf8(text) => Self::Utf8(places.map(|at| text.get(at)).collect()),
            Self::Bytes(bytes) => Self::Bytes(places.map(|at| bytes.get(at)).collect()),
        }
    }

    /// Removes the values and keeps the capacity.
    pub fn clear(&mut self) {
        match self {
            Self::I64(values) => values.clear(),
            Self::U64(values) => values.clear(),
            Self::F64(values) => values.clear(),
            Self::Bool(bits) => *bits = Bits::default(),
            Self::Utf8(text) => text.clear(),
            Self::Bytes(bytes) => bytes.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_lowest_first() {
        let values: Vec<bool> = (0..19).map(|at| at % 3 == 0).collect();
        let bits: Bits = values.iter().copied().collect();
        assert_eq!(bits.iter().collect::<Vec<_>>(), values);
        assert_eq!(bits.as_bytes(), [0b0100_1001, 0b1001_0010, 0b100]);
        assert_eq!(Bits::from_bytes(bits.as_bytes().to_vec(), 19), Some(bits));
        assert_eq!(Bits::from_bytes(vec![0b100], 2), None);
        assert_eq!(Bits::from_bytes(vec![0, 0], 8), None);
    }

    #[test]
    fn a_part_of_a_text_is_what_a_slice_of_it_is() {
        let long = "ein größerer Fluss fließt über 16 Bytes hinaus";
        let places: Vec<usize> = (0..=long.len()).filter(|at| long.is_char_boundary(*at)).collect();
        let mut text = Text::default();
        let mut expected = Vec::new();
        for &from in &places {
            for &to in places.iter().filter(|to| **to >= from) {
                text.push_part(long, from, to);
                expected.push(&long[from..to]);
            }
        }
        assert_eq!(text.iter().collect::<Vec<_>>(), expected);
        assert!((0..text.len()).all(|at| text.get(at) == expected[at]));
        assert_eq!(text.get(text.len()), "");
        let (offsets, data) = text.clone().into_parts();
        assert_eq!(Text::from_parts(offsets, data), Some(text));
    }

    #[test]
    fn buffers_that_are_no_text_are_refused() {
        let refused = |offsets: &[i64]| Text::from_parts(offsets.to_vec(), "aß".into()).is_none();
        assert!(!refused(&[0, 1, 3]));
        for offsets in [&[][..], &[0], &[1, 3], &[0, 2, 3], &[0, 3, 1, 3], &[0, -1, 3], &[0, 4]] {
            assert!(refused(offsets), "{offsets:?}");
        }
    }
}
