//! The keys of rows: converts columns to keys of the engine's keyed table and back.
//!
//! A key of one column of integers or text is the same key as in a typed program: it has the same hash and the same
//! form in the table. Any other key is a [`RowKey`], with the hash of a tuple of its columns.

use super::ordered;
use crate::Visit;
use crate::data::{Data, DecodeError, Key, Portable, Record, Schema, mix};
use crate::dynamic::columns::Columnar;
use crate::dynamic::columns::{Block, Column, Field, Text};
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

/// A row of a block and its key.
pub(super) struct Row<'a, K: ?Sized> {
    pub(super) key: &'a K,
    pub(super) block: &'a Block,
    pub(super) at: usize,
}

/// The kind of record that a [`Row`] is.
pub(super) struct Keyed<K: ?Sized> {
    key: PhantomData<fn(&K)>,
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl<K: Key + ?Sized> Record for Keyed<K> {
    type Of<'a> = Row<'a, K>;
}

/// The key of a row.
#[inline(always)]
pub(super) fn key_of<'k, K: ?Sized>(row: &'k Row<'_, K>) -> &'k K {
    row.key
}

/// How rows are keyed.
pub(super) trait KeyKind: Send + Sync + 'static {
    /// The key in the table.
    type Key: Key<Owned: Borrow<Self::Key> + Key> + ?Sized;

    /// Calls `each` with the key and the index of every row; the first `keys` columns are the key.
    fn each(block: &Block, keys: usize, scratch: &mut RowKey, each: impl FnMut(&Self::Key, usize));

    /// Converts keys from the table to columns; `None` if they do not have these fields.
    fn columns(fields: &[Field], keys: Vec<<Self::Key as Portable>::Owned>) -> Option<Vec<Column>>;
}

/// A visitor that splits blocks into rows with keys.
pub(super) struct KeyRows<X> {
    keys: usize,
    kind: PhantomData<fn() -> X>,
}

impl<X> KeyRows<X> {
    pub(super) fn new(keys: usize) -> Self {
        Self { keys, kind: PhantomData }
    }
}

impl<X: KeyKind> Visit<Columnar> for KeyRows<X> {
    type Out = Keyed<X::Key>;
    type Scratch = RowKey;

    #[inline(always)]
    fn visit(&self, block: Block, scratch: &mut RowKey, emit: &mut impl FnMut(Row<'_, X::Key>)) {
        let block = &block;
        X::each(block, self.keys, scratch, |key, at| emit(Row { key, block, at }));
    }
}

/// The key column of a block that was checked.
fn column(block: &Block) -> &Column {
    block.columns().first().expect("a checked group has its key column")
}

/// One column of `u64`.
pub(super) struct ByU64;

impl KeyKind for ByU64 {
    type Key = u64;

    #[inline(always)]
    fn each(block: &Block, _: usize, _: &mut RowKey, mut each: impl FnMut(&u64, usize)) {
        let Column::U64(values) = column(block) else { panic!("the key is not u64") };
        values.iter().enumerate().for_each(|(at, key)| each(key, at));
    }

    fn columns(_: &[Field], keys: Vec<u64>) -> Option<Vec<Column>> {
        Some(vec![Column::U64(keys)])
    }
}

/// One column of `i64`.
pub(super) struct ByI64;

impl KeyKind for ByI64 {
    type Key = i64;

    #[inline(always)]
    fn each(block: &Block, _: usize, _: &mut RowKey, mut each: impl FnMut(&i64, usize)) {
        let Column::I64(values) = column(block) else { panic!("the key is not i64") };
        values.iter().enumerate().for_each(|(at, key)| each(key, at));
    }

    fn columns(_: &[Field], keys: Vec<i64>) -> Option<Vec<Column>> {
        Some(vec![Column::I64(keys)])
    }
}

/// One column of text.
pub(super) struct ByText;

impl KeyKind for ByText {
    type Key = str;

    #[inline(always)]
    fn each(block: &Block, _: usize, _: &mut RowKey, mut each: impl FnMut(&str, usize)) {
        let Column::Utf8(texts) = column(block) else { panic!("the key is not utf8") };
        texts.iter().enumerate().for_each(|(at, key)| each(key, at));
    }

    fn columns(_: &[Field], keys: Vec<String>) -> Option<Vec<Column>> {
        let mut texts = Text::with_capacity(keys.len(), keys.iter().map(String::len).sum());
        keys.iter().for_each(|key| texts.push(key));
        Some(vec![Column::Utf8(texts)])
    }
}

/// Columns of any number and type.
pub(super) struct ByRow;

impl KeyKind for ByRow {
    type Key = RowKey;

    #[inline(always)]
    fn each(
        block: &Block,
        keys: usize,
        scratch: &mut RowKey,
        mut each: impl FnMut(&RowKey, usize),
    ) {
        let columns = &block.columns()[..keys];
        let places: Vec<usize> = (0..keys).collect();
        for (at, hash) in hashes(block, &places).into_iter().enumerate() {
            scratch.hash = hash;
            scratch.bytes.clear();
            for column in columns {
                write_key(column, at, &mut scratch.bytes);
            }
            each(scratch, at);
        }
    }

    fn columns(fields: &[Field], keys: Vec<RowKey>) -> Option<Vec<Column>> {
        let mut columns: Vec<_> = fields.iter().map(|field| Column::new(field.kind)).collect();
        for key in keys {
            let mut input = key.bytes.as_slice();
            let read = columns.iter_mut().all(|column| ordered::read(&mut input, false, column));
            if !read || !input.is_empty() {
                return None;
            }
        }
        Some(columns)
    }
}

/// Writes a value of a key, such that floats that are equal are the same key.
fn write_key(column: &Column, at: usize, out: &mut Vec<u8>) {
    match column {
        Column::F64(values) if values[at] == 0.0 => {
            ordered::write(&Column::F64(vec![0.0]), 0, false, out);
        }
        column => ordered::write(column, at, false, out),
    }
}

/// The hash of each row over the columns at these indices.
pub(super) fn hashes(block: &Block, keys: &[usize]) -> Vec<u64> {
    let mut hashes = vec![0; block.rows()];
    for &key in keys {
        add_hashes(&block.columns()[key], keys.len() == 1, &mut hashes);
    }
    hashes
}

/// Mixes the hashes of a column's values into those of the columns before it.
fn add_hashes(column: &Column, alone: bool, hashes: &mut [u64]) {
    let mut join = |at: usize, hash: u64| {
        hashes[at] = if alone { hash } else { mix(hashes[at], hash) };
    };
    match column {
        Column::I64(values) => {
            values.iter().enumerate().for_each(|(at, value)| join(at, value.key_hash()));
        }
        Column::U64(values) => {
            values.iter().enumerate().for_each(|(at, value)| join(at, value.key_hash()));
        }
        Column::F64(values) => {
            values.iter().enumerate().for_each(|(at, value)| join(at, value.key_hash()));
        }
        Column::Bool(bits) => {
            bits.iter().enumerate().for_each(|(at, value)| join(at, value.key_hash()));
        }
        Column::Utf8(texts) => {
            texts.iter().enumerate().for_each(|(at, text)| join(at, str::hash(text.probe())));
        }
        Column::Bytes(bytes) => {
            bytes.iter().enumerate().for_each(|(at, bytes)| join(at, <[u8]>::hash(bytes.probe())));
        }
    }
}

/// The encoded values of a key's columns, in order, and their hash.
#[derive(Clone, Default)]
pub(super) struct RowKey {
    hash: u64,
    bytes: Vec<u8>,
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for RowKey {}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", ordered::show(&self.bytes))
    }
}

impl Data for RowKey {
    fn encode(&self, out: &mut Vec<u8>) {
        self.hash.encode(out);
        self.bytes.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { hash: u64::decode(input)?, bytes: Vec::decode(input)? })
    }

    fn key_hash(&self) -> u64 {
        self.hash
    }

    fn schema() -> Schema {
        Schema::Tuple(vec![Schema::U64, Schema::Bytes])
    }

    fn heap_size(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_hash_of_a_typed_program() {
        let columns = [
            Column::I64(vec![-5, 7]),
            Column::F64(vec![-0.0, f64::NAN]),
            Column::Utf8(["river", "a longer text than fits into a slot"].into_iter().collect()),
            Column::Bool([true, false].into_iter().collect()),
            Column::Bytes([&[1, 0][..], &[]].into_iter().collect()),
        ];
        let hashes = |columns: &[Column]| {
            let block = Block::new(2, columns.to_vec()).expect("one length");
            let mut hashes = Vec::new();
            let mut scratch = RowKey::default();
            ByRow::each(&block, columns.len(), &mut scratch, |key, _| hashes.push(key.key_hash()));
            hashes
        };
        let typed = [
            (-5_i64, 0.0_f64, "river".to_owned(), true, vec![1_u8, 0]).key_hash(),
            (
                7_i64,
                f64::NAN,
                "a longer text than fits into a slot".to_owned(),
                false,
                Vec::<u8>::new(),
            )
                .key_hash(),
        ];
        assert_eq!(hashes(&columns), typed);
        assert_eq!(hashes(&columns[3..4]), [true.key_hash(), false.key_hash()]);
        assert_eq!(hashes(&columns[1..2]), [0.0.key_hash(), f64::NAN.key_hash()]);
    }
}
