//! Blocks: rows held by column, which flow between the operators of a graph.

use super::{Bits, Bytes, Column, Text, Type, Value};
use crate::data::{Batch, Data, DecodeError, Portable, Record, Schema, hash_bytes};
use std::sync::Arc;

/// Rows, held by column.
///
/// Columns are shared: passing on an unchanged column, or sending a block to several receivers, copies nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    rows: usize,
    columns: Vec<Arc<Column>>,
}

impl Block {
    /// A block of these columns; `None` unless each has `rows` values.
    ///
    /// ```
    /// use thalweg::dynamic::{Block, Column};
    ///
    /// let block = Block::new(2, [Column::U64(vec![1, 2])]).unwrap();
    /// assert_eq!((block.rows(), block.bytes()), (2, 16));
    /// assert!(Block::new(3, [Column::U64(vec![1, 2])]).is_none());
    /// ```
    pub fn new<C: Into<Arc<Column>>>(
        rows: usize,
        columns: impl IntoIterator<Item = C>,
    ) -> Option<Self> {
        let columns: Vec<Arc<Column>> = columns.into_iter().map(Into::into).collect();
        columns.iter().all(|column| column.len() == rows).then_some(Self { rows, columns })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in the order of the schema.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }

    /// Returns the columns.
    pub fn into_columns(self) -> Vec<Arc<Column>> {
        self.columns
    }

    /// The bytes that the columns occupy.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.bytes()).sum()
    }

    /// The values of one row, copied.
    pub fn row(&self, at: usize) -> Option<Vec<Value>> {
        if at >= self.rows {
            return None;
        }
        self.columns.iter().map(|column| column.value(at)).collect()
    }

    /// The rows at these places, in this order; places past the end are left out.
    pub fn take(&self, places: &[usize]) -> Self {
        let rows = places.iter().filter(|&&at| at < self.rows).count();
        let columns = self.columns.iter().map(|column| Arc::new(column.take(places))).collect();
        Self { rows, columns }
    }

    /// The first rows.
    pub(crate) fn head(self, rows: usize) -> Self {
        if rows >= self.rows {
            return self;
        }
        self.take(&(0..rows).collect::<Vec<_>>())
    }
}

/// The kind of record of a block: each row counts as one record.
///
/// As the item of a stream it is passed by value; when it crosses an exchange, the length of a batch of blocks is its
/// number of rows.
pub struct Columnar {
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl Record for Columnar {
    type Of<'a> = Block;
}

impl Portable for Columnar {
    type Batch = BlockBatch;
    type Owned = Block;

    fn to_owned(item: Block) -> Block {
        item
    }
}

/// A batch of blocks on its way to one receiver.
#[derive(Default)]
pub struct BlockBatch {
    blocks: Vec<Block>,
    rows: usize,
    bytes: usize,
}

impl Batch<Columnar> for BlockBatch {
    fn push(&mut self, block: Block) {
        self.rows += block.rows;
        self.bytes += block.bytes();
        self.blocks.push(block);
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn drain(&mut self, each: impl FnMut(Block)) {
        (self.rows, self.bytes) = (0, 0);
        self.blocks.drain(..).for_each(each);
    }

    fn clear(&mut self) {
        self.drain(drop);
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        Data::encode(&self.blocks, out);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let blocks = <Vec<Block> as Data>::decode(input)?;
        blocks.into_iter().for_each(|block| self.push(block));
        Ok(())
    }
}

/// Encoded as the number of rows, and for each column its type and its buffers.
impl Data for Block {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.rows as u64).encode(out);
        (self.columns.len() as u64).encode(out);
        for column in &self.columns {
            (column.kind() as u8).encode(out);
            match &**column {
                Column::I64(values) => i64::encode_slice(values, out),
                Column::U64(values) => u64::encode_slice(values, out),
                Column::F64(values) => f64::encode_slice(values, out),
                Column::Bool(bits) => out.extend_from_slice(bits.as_bytes()),
                Column::Utf8(text) => {
                    i64::encode_slice(text.offsets(), out);
                    out.extend_from_slice(text.data().as_bytes());
                }
                Column::Bytes(bytes) => {
                    i64::encode_slice(bytes.offsets(), out);
                    out.extend_from_slice(bytes.data());
                }
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let rows = usize::try_from(u64::decode(input)?)
            .map_err(|_| DecodeError::invalid("a number of rows"))?;
        let mut columns = Vec::new();
        for _ in 0..u64::decode(input)? {
            columns.push(Arc::new(decode_column(rows, input)?));
        }
        if columns.is_empty() && rows > 0 {
            return Err(DecodeError::invalid("a block: rows without a column"));
        }
        Ok(Self { rows, columns })
    }

    fn key_hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        hash_bytes(&bytes)
    }

    fn schema() -> Schema {
        Schema::Columns(Vec::new())
    }

    fn heap_size(&self) -> usize {
        self.bytes()
    }
}

fn decode_column(rows: usize, input: &mut &[u8]) -> Result<Column, DecodeError> {
    let kinds = [Type::I64, Type::U64, Type::F64, Type::Bool, Type::Utf8, Type::Bytes];
    let kind = usize::from(u8::decode(input)?);
    let kind = kinds.get(kind).ok_or(DecodeError::variant("Type", kind as u64))?;
    Ok(match kind {
        Type::I64 => Column::I64(i64::decode_list(input, rows)?),
        Type::U64 => Column::U64(u64::decode_list(input, rows)?),
        Type::F64 => Column::F64(f64::decode_list(input, rows)?),
        Type::Bool => {
            let bytes = cut(input, rows.div_ceil(8))?.to_vec();
            let bits = Bits::from_bytes(bytes, rows);
            Column::Bool(bits.ok_or(DecodeError::invalid("truth values"))?)
        }
        Type::Utf8 => {
            let (offsets, data) = decode_strings(rows, input)?;
            let data = String::from_utf8(data).map_err(|_| DecodeError::invalid("UTF-8"))?;
            let text = Text::from_parts(offsets, data);
            Column::Utf8(text.ok_or(DecodeError::invalid("offsets of text"))?)
        }
        Type::Bytes => {
            let (offsets, data) = decode_strings(rows, input)?;
            let bytes = Bytes::from_parts(offsets, data);
            Column::Bytes(bytes.ok_or(DecodeError::invalid("offsets of bytes"))?)
        }
    })
}

fn decode_strings(rows: usize, input: &mut &[u8]) -> Result<(Vec<i64>, Vec<u8>), DecodeError> {
    let count = rows.checked_add(1).ok_or(DecodeError::invalid("a number of rows"))?;
    let offsets = i64::decode_list(input, count)?;
    let end = offsets.last().and_then(|last| usize::try_from(*last).ok());
    let end = end.ok_or(DecodeError::invalid("offsets"))?;
    Ok((offsets, cut(input, end)?.to_vec()))
}

fn cut<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], DecodeError> {
    let (head, rest) = input.split_at_checked(len).ok_or(DecodeError::ended(len, input.len()))?;
    *input = rest;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        let text: Text = ["", "größer", "x"].into_iter().collect();
        let bytes: Bytes = [&[255, 0][..], &[], &[7]].into_iter().collect();
        let columns = [
            Column::I64(vec![-1, 0, i64::MAX]),
            Column::U64(vec![1, 0, u64::MAX]),
            Column::F64(vec![-0.0, 1.5, f64::INFINITY]),
            Column::Bool([true, false, true].into_iter().collect()),
            Column::Utf8(text),
            Column::Bytes(bytes),
        ];
        Block::new(3, columns).unwrap()
    }

    #[test]
    fn a_block_comes_back_from_its_encoding() {
        let block = block();
        let mut bytes = Vec::new();
        block.encode(&mut bytes);
        let mut input = bytes.as_slice();
        assert_eq!(Block::decode(&mut input), Ok(block));
        assert!(input.is_empty());
        for end in 0..bytes.len() {
            assert!(Block::decode(&mut &bytes[..end]).is_err(), "{end}");
        }
        // Whatever the bytes, decoding returns.
        for at in 0..bytes.len() {
            for value in [0, 1, 127, 255] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let _answer = Block::decode(&mut bytes.as_slice());
            }
        }
    }

    #[test]
    fn a_batch_is_as_long_as_it_has_rows() {
        let mut batch = BlockBatch::default();
        batch.push(block());
        batch.push(block().head(2));
        assert_eq!(
            (batch.len(), batch.bytes()),
            (5, block().bytes() + block().take(&[0, 1]).bytes())
        );
        let mut rows = Vec::new();
        batch.drain(|block| rows.push(block.rows()));
        assert_eq!((rows, batch.len(), batch.bytes()), (vec![3, 2], 0, 0));
    }

    #[test]
    fn rows_can_be_taken_in_any_order() {
        let block = block();
        let taken = block.take(&[2, 0, 0, 9]);
        assert_eq!(taken.rows(), 3);
        assert_eq!(taken.row(0), block.row(2));
        assert_eq!((taken.row(1), taken.row(2)), (block.row(0), block.row(0)));
        assert_eq!(taken.row(3), None);
    }
}
