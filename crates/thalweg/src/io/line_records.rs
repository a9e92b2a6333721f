//! The parser of files with one record a line, for any format of lines. It iterates over blocks and lines, and
//! determines the line number of a line that does not parse.

use super::bad_record::BadRecord;
use super::files::{BlockSizes, ByteBlocks, InputFile, Split};
use super::records::{LineNumbers, Parser, Taker};
use crate::error::Result;
use std::sync::Arc;

/// Parses a line as a record, as nothing, or as an error.
pub trait ParseLine: Send + 'static {
    /// The record of a line.
    type Record: 'static;

    /// Parses a line without its end.
    fn parse(&self, line: &[u8]) -> Result<Option<Self::Record>, String>;
}

/// One task's parser.
pub struct LineParser<P> {
    parse: P,
    sizes: BlockSizes,
    lines: Arc<LineNumbers>,
    current: Option<Current>,
}

struct Current {
    blocks: ByteBlocks,
    file: InputFile,
    index: usize,
    /// The offset of the first line of the split.
    first: Option<u64>,
    /// The number of lines of the split before the current block.
    before: u64,
}

impl<P: ParseLine> LineParser<P> {
    pub(super) fn new(parse: P, sizes: BlockSizes, lines: &Arc<LineNumbers>) -> Self {
        Self { parse, sizes, lines: Arc::clone(lines), current: None }
    }
}

impl<P: ParseLine> Parser for LineParser<P> {
    type Record = P::Record;

    fn begin(&mut self, file: &InputFile, split: Split, _: &[InputFile]) -> Result<()> {
        let blocks = match self.current.take() {
            Some(mut current) => {
                current.blocks.reopen(file, split)?;
                current.blocks
            }
            None => ByteBlocks::open(file, split, self.sizes)?,
        };
        let file = file.clone();
        self.current = Some(Current { blocks, file, index: split.file, first: None, before: 0 });
        Ok(())
    }

    fn batch(&mut self, taker: &mut impl Taker<P::Record>) -> Result<bool> {
        let Some(Current { blocks, file, index, first, before }) = &mut self.current else {
            return Ok(false);
        };
        let Some(block) = blocks.next_block()? else { return Ok(false) };
        let first = *first.get_or_insert(block.offset);
        let mut count = 0;
        for line in block.lines() {
            match self.parse.parse(line) {
                Ok(Some(record)) => taker.good(record),
                Ok(None) => {}
                Err(error) => {
                    // Before the first line of a file there is at most a byte order mark.
                    let above = if first == 0 { 1 } else { self.lines.at(*index, file, first)? };
                    taker.bad(BadRecord {
                        path: file.path.clone(),
                        line: above + *before + count,
                        bytes: line.to_vec(),
                        error,
                    })?;
                }
            }
            count += 1;
        }
        *before += count;
        Ok(true)
    }

    fn position(&self) -> Result<Option<u64>, &'static str> {
        Ok(self.current.as_ref().map(|current| current.blocks.position()))
    }

    fn consumed(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.blocks.consumed())
    }

    fn buffer_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.blocks.buffer_bytes())
    }
}
