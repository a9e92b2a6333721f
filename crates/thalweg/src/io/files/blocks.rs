//! Reads one split as blocks of complete lines.
//!
//! All of this works within one buffer. Bytes that were read but not returned (usually the beginning of a line) are
//! moved to the front, and the rest of the buffer is filled behind them; the next block ends at the last line end
//! read. At the end of the split, reading continues in small steps until the last line has ended, so that few bytes
//! of the next split are read.

use std::iter::FusedIterator;
use std::ops::Range;

use memchr::{Memchr, memchr, memchr_iter, memrchr};

use super::decode::FileReader;
use super::paths::InputFile;
use super::split::Split;
use crate::{Error, ErrorKind, Place, Result};

/// The size of a read, and the limit of a line's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// The size of the buffer, and so of a block, in bytes. The default is 256 KiB, which fits into a core's
    /// second-level cache. At least 1.
    pub block_bytes: usize,
    /// The longest line that is accepted, in bytes without its line feed. The default is 64 MiB. For a line longer
    /// than `block_bytes` the buffer grows up to this size, and does not shrink again; lines up to `block_bytes` are
    /// always accepted.
    pub max_line_bytes: usize,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { block_bytes: 256 << 10, max_line_bytes: 64 << 20 }
    }
}

/// Reads one [`Split`] as blocks of complete lines of bytes.
///
/// The content is not checked, except that a UTF-8 byte order mark at the start of the file is dropped. For text see
/// [`LineBlocks`](super::LineBlocks).
///
/// If a file changes while it is read: bytes appended after it was listed are not read, except the rest of a line
/// that had begun; if it has become shorter, that is an error.
///
/// ```
/// use thalweg::io::files::{BlockSizes, ByteBlocks, expand_inputs, plan_splits};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("f");
/// std::fs::write(&path, b"one\r\n\xff\xfe\n\nlast").unwrap();
/// let files = expand_inputs([path]).unwrap();
/// let split = plan_splits(&files, 1 << 20)[0];
/// let mut blocks = ByteBlocks::open(&files[0], split, BlockSizes::default()).unwrap();
/// let mut lines = Vec::new();
/// while let Some(block) = blocks.next_block().unwrap() {
///     lines.extend(block.lines().map(<[u8]>::to_vec));
/// }
/// assert_eq!(lines, [&b"one"[..], b"\xff\xfe", b"", b"last"]);
/// ```
#[derive(Debug)]
pub struct ByteBlocks {
    pub(super) reader: FileReader,
    /// The length of the file when it was listed, if the length of what is read is the same.
    file_bytes: Option<u64>,
    split: Split,
    sizes: BlockSizes,
    pub(super) state: State,
    pub(super) buffer: Vec<u8>,
    /// `buffer[head..filled]` was read and not returned. A line begins at `head`, except while the first one is being
    /// searched for.
    head: usize,
    filled: usize,
    /// The offset of `buffer[head]` in the file, decompressed.
    offset: u64,
    /// Lines that begin at this offset or later belong to other splits. At the end of a compressed file there is no
    /// bound, whatever its length turns out to be.
    end: u64,
    at_end_of_file: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unread,
    Reading,
    Ended,
    Failed,
}

/// Complete lines, each with its line feed, except perhaps the last of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteBlock<'a> {
    /// The lines. Never empty.
    pub bytes: &'a [u8],
    /// The offset of the first line in the file, decompressed if it is compressed.
    pub offset: u64,
}

/// The least number of bytes read at once past the end of a split.
const STEP_PAST_END: usize = 4 << 10;

/// The UTF-8 byte order mark, which some editors put before text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl ByteBlocks {
    /// Opens the file of a split and seeks to its start, without reading yet.
    ///
    /// `split.file` is ignored: `file` is the file to read.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be opened; [`ErrorKind::Internal`] when the split
    /// is not one of this file.
    pub fn open(file: &InputFile, split: Split, sizes: BlockSizes) -> Result<Self> {
        let reader = open_split(file, split)?;
        let mut blocks = Self {
            reader,
            file_bytes: None,
            split,
            sizes,
            state: State::Unread,
            buffer: vec![0; sizes.block_bytes.max(1)],
            head: 0,
            filled: 0,
            offset: 0,
            end: 0,
            at_end_of_file: false,
        };
        blocks.begin_split(file, split);
        Ok(blocks)
    }

    /// Continues with another split, of the same or another file, in the same buffer.
    ///
    /// # Errors
    /// As [`open`](Self::open). The split before then stays current.
    pub fn reopen(&mut self, file: &InputFile, split: Split) -> Result<()> {
        self.reader = open_split(file, split)?;
        self.begin_split(file, split);
        Ok(())
    }

    fn begin_split(&mut self, file: &InputFile, split: Split) {
        let splittable = file.compression.is_splittable();
        self.file_bytes = splittable.then_some(file.bytes);
        self.split = split;
        self.state = State::Unread;
        self.head = 0;
        self.filled = 0;
        self.offset = self.reader.position();
        self.end = split.text_end(file);
        self.at_end_of_file = false;
    }

    /// Reads the next lines of the split; returns `None` when all were read.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when reading fails; [`ErrorKind::Input`] when a line is too long, the file has become
    /// shorter, or compressed data are corrupt. After an error, only another split can be read.
    pub fn next_block(&mut self) -> Result<Option<ByteBlock<'_>>> {
        let offset_and_range = self.next_range()?;
        Ok(offset_and_range.map(|(offset, range)| ByteBlock { bytes: &self.buffer[range], offset }))
    }

    /// The next block, as a range of [`buffer`](Self::buffer), and its offset in the file.
    pub(super) fn next_range(&mut self) -> Result<Option<(u64, Range<usize>)>> {
        let next = match self.state {
            State::Unread => self.find_first_line().and_then(|()| self.cut_block()),
            State::Reading => self.cut_block(),
            State::Ended => Ok(None),
            State::Failed => {
                let message = "a file was read on after an error";
                Err(Error::new(ErrorKind::Internal, message).at(self.place()))
            }
        };
        self.state = match next {
            Ok(Some(_)) => State::Reading,
            Ok(None) => State::Ended,
            Err(_) => State::Failed,
        };
        next
    }

    /// The path of the current file.
    pub fn path(&self) -> &std::path::Path {
        self.reader.path()
    }

    /// The current split.
    pub fn split(&self) -> Split {
        self.split
    }

    /// How much of the split was returned, in bytes of the file itself: rises from 0 to [`Split::bytes`]. For a
    /// compressed file, how much was decompressed, without a beginning that belongs to another split and is
    /// decompressed again.
    pub fn consumed(&self) -> u64 {
        match self.state {
            State::Unread => 0,
            _ if self.end == u64::MAX => self.reader.consumed(),
            _ if self.file_bytes.is_none() => 0,
            State::Ended => self.split.bytes(),
            _ => self.offset.clamp(self.split.start, self.split.end) - self.split.start,
        }
    }

    /// The offset in the file, decompressed if it is compressed, before which all lines of the split were returned.
    pub(crate) fn position(&self) -> u64 {
        match self.state {
            State::Unread => self.split.start,
            State::Ended => self.end,
            State::Reading | State::Failed => self.offset.min(self.end),
        }
    }

    /// The memory of the buffer: `block_bytes`, or more after a longer line.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Moves to the first line that begins in the split.
    fn find_first_line(&mut self) -> Result<()> {
        if self.offset >= self.end {
            return Ok(());
        }
        if self.split.start == 0 {
            while self.filled < BYTE_ORDER_MARK.len() && !self.at_end_of_file {
                self.fill()?;
            }
            if self.buffer[..self.filled].starts_with(BYTE_ORDER_MARK) {
                self.head = BYTE_ORDER_MARK.len();
                self.offset = BYTE_ORDER_MARK.len() as u64;
                // The first line belongs to this split, although it now begins behind a split of fewer bytes.
                self.end = self.end.max(self.offset + 1);
            }
            return Ok(());
        }
        // Reading began at the byte before the split. The first line begins after the first line feed; the bytes
        // before it belong to the split before, however many there are.
        while self.offset < self.end && !self.at_end_of_file {
            self.fill()?;
            if let Some(at) = memchr(b'\n', &self.buffer[..self.filled]) {
                self.head = at + 1;
                self.offset += self.head as u64;
                break;
            }
            self.offset += self.filled as u64;
            self.filled = 0;
        }
        Ok(())
    }

    fn cut_block(&mut self) -> Result<Option<(u64, Range<usize>)>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        self.buffer.copy_within(self.head..self.filled, 0);
        self.filled -= self.head;
        self.head = 0;
        // The first line of a split may have been read with a full block behind it.
        if self.filled < self.sizes.block_bytes {
            self.fill()?;
        }
        // There is no line feed before this index.
        let mut searched = 0;
        loop {
            if let Some(bytes) = self.complete_lines(searched) {
                if bytes == 0 {
                    return Ok(None);
                }
                let offset = self.offset;
                self.head = bytes;
                self.offset += bytes as u64;
                return Ok(Some((offset, 0..bytes)));
            }
            searched = self.filled;
            self.fill()?;
        }
    }

    /// The length of the complete lines of this split at the front of the buffer, if it is known.
    fn complete_lines(&self, searched: usize) -> Option<usize> {
        let data = &self.buffer[..self.filled];
        // The part of `data` within the split, except its last byte: a line feed there or later ends the last line of
        // the split.
        let inside = usize::try_from(self.end - self.offset - 1).unwrap_or(usize::MAX);
        if inside < data.len() {
            let from = inside.max(searched);
            if let Some(at) = memchr(b'\n', &data[from..]) {
                return Some(from + at + 1);
            }
        }
        if self.at_end_of_file {
            return Some(data.len());
        }
        let inside = inside.min(data.len());
        let last = memrchr(b'\n', data.get(searched..inside)?)?;
        Some(searched + last + 1)
    }

    /// Reads behind the bytes in the buffer, which must begin at its front: up to the block size, or to the size that
    /// the buffer has grown to. Reads at most to the end of the split before that is reached, and in growing steps
    /// after it.
    fn fill(&mut self) -> Result<()> {
        if self.at_end_of_file {
            return Ok(());
        }
        if self.filled == self.buffer.len() {
            self.grow()?;
        }
        let block = self.sizes.block_bytes.clamp(1, self.buffer.len());
        let space = if self.filled < block { block } else { self.buffer.len() } - self.filled;
        let position = self.offset + self.filled as u64;
        let wanted = if position < self.end {
            space.min(usize::try_from(self.end - position).unwrap_or(usize::MAX))
        } else {
            let past = usize::try_from(position - self.end).unwrap_or(usize::MAX);
            space.min(past.max(STEP_PAST_END))
        };
        let target = self.filled + wanted;
        while self.filled < target {
            let bytes = self.reader.read(&mut self.buffer[self.filled..target])?;
            self.filled += bytes;
            if bytes == 0 {
                self.at_end_of_file = true;
                return self.check_length();
            }
        }
        Ok(())
    }

    fn grow(&mut self) -> Result<()> {
        // A line of the greatest length, and its line feed.
        let most = self.sizes.max_line_bytes.saturating_add(1).max(BYTE_ORDER_MARK.len());
        let old = self.buffer.len();
        if old >= most {
            let bytes = self.sizes.max_line_bytes.max(self.sizes.block_bytes);
            let message = format!("a line that begins here is longer than {bytes} bytes");
            return Err(Error::new(ErrorKind::Input, message).at(self.place()));
        }
        let new = old.saturating_mul(2).min(most);
        self.buffer.try_reserve_exact(new - old).map_err(|cause| {
            let message = format!("no memory for a line of more than {old} bytes");
            Error::new(ErrorKind::Memory, message).at(self.place()).caused_by(cause)
        })?;
        self.buffer.resize(new, 0);
        Ok(())
    }

    fn check_length(&self) -> Result<()> {
        let position = self.reader.position();
        let Some(listed) = self.file_bytes.filter(|listed| position < *listed) else {
            return Ok(());
        };
        let message = format!(
            "the file ends here, but had {listed} bytes when it was listed: it was cut while it was read"
        );
        let place = Place::Offset(self.path().to_owned(), position);
        Err(Error::new(ErrorKind::Input, message).at(place))
    }

    fn place(&self) -> Place {
        Place::Offset(self.path().to_owned(), self.offset)
    }
}

fn open_split(file: &InputFile, split: Split) -> Result<FileReader> {
    let within = split.end <= file.bytes || !file.compression.is_splittable();
    if split.start > split.end || !within {
        let message = format!("{split:?} is not a split of this file of {} bytes", file.bytes);
        return Err(Error::new(ErrorKind::Internal, message).at(Place::File(file.path.clone())));
    }
    // The byte before the split shows whether a line begins at its first byte.
    FileReader::open_at(&file.path, file.compression, split.start.saturating_sub(1))
}

impl<'a> ByteBlock<'a> {
    /// The lines, each without its line feed or the carriage return before it.
    pub fn lines(&self) -> ByteLines<'a> {
        ByteLines { bytes: self.bytes, start: 0, ends: memchr_iter(b'\n', self.bytes) }
    }

    /// The number of lines; counts tens of GB/s.
    pub fn count_lines(&self) -> usize {
        count_lines(self.bytes)
    }
}

pub(super) fn count_lines(bytes: &[u8]) -> usize {
    let unended = bytes.last().is_some_and(|&last| last != b'\n');
    memchr_iter(b'\n', bytes).count() + usize::from(unended)
}

/// The lines of a [`ByteBlock`].
#[derive(Clone, Debug)]
pub struct ByteLines<'a> {
    bytes: &'a [u8],
    start: usize,
    ends: Memchr<'a>,
}

impl<'a> Iterator for ByteLines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(end) = self.ends.next() {
            let line = &self.bytes[self.start..end];
            self.start = end + 1;
            return Some(line.strip_suffix(b"\r").unwrap_or(line));
        }
        let rest = &self.bytes[self.start..];
        self.start = self.bytes.len();
        // Without a line feed, a carriage return at the end is part of the line.
        if rest.is_empty() { None } else { Some(rest) }
    }
}

impl FusedIterator for ByteLines<'_> {}
