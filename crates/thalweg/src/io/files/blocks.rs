//! One split, cut into blocks of complete lines.
//!
//! All of it works within one buffer. What was read but not handed out (the beginning of a line,
//! as a rule) is moved to the front and the rest of the buffer filled behind it; the next block
//! reaches to the last line end that came. Where the split ends, reading goes on in small steps
//! until the last line has ended, so that little is read that belongs to the next split.

use std::iter::FusedIterator;
use std::ops::Range;

use memchr::{Memchr, memchr, memchr_iter, memrchr};

use super::decode::FileReader;
use super::paths::InputFile;
use super::split::Split;
use crate::{Error, ErrorKind, Place, Result};

/// How much is read at once, and how long a line may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// The size of the buffer, and so of a block, in bytes: 256 KiB unless told, which a core's
    /// second cache holds. At least 1.
    pub block_bytes: usize,
    /// The longest line that is accepted, in bytes without its line feed: 64 MiB unless told. For
    /// a longer line than `block_bytes` the buffer grows up to this, and stays so large; lines up
    /// to `block_bytes` always pass.
    pub max_line_bytes: usize,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { block_bytes: 256 << 10, max_line_bytes: 64 << 20 }
    }
}

/// Reads one [`Split`] as blocks of complete lines of bytes.
///
/// What the bytes mean is not looked at, except that a UTF-8 byte order mark at the start of the
/// file is dropped. For text see [`LineBlocks`](super::LineBlocks).
///
/// A file that is written to while it is read: what was appended after it was listed is not read,
/// except the rest of a line that had begun; when it became shorter, that is an error.
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
    /// The length that the file had when it was listed, if that is the length of what is read.
    file_bytes: Option<u64>,
    split: Split,
    sizes: BlockSizes,
    pub(super) state: State,
    pub(super) buffer: Vec<u8>,
    /// `buffer[head..filled]` was read and not handed out. A line begins at `head`, except while
    /// the first one is looked for.
    head: usize,
    filled: usize,
    /// Where `buffer[head]` lies in the file, decompressed.
    offset: u64,
    /// Lines that begin here or later belong to other splits. No bound at the end of a compressed file,
    /// whatever its length turns out to be.
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
    /// Where the first of them lies in the file, decompressed where it is compressed.
    pub offset: u64,
}

/// Past the end of a split, at least so many bytes are read at once.
const STEP_PAST_END: usize = 4 << 10;

/// What editors put before UTF-8 text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl ByteBlocks {
    /// Opens the file of a split and finds the place, without reading yet.
    ///
    /// `split.file` is not looked at: `file` is the one that it stands for.
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

    /// Goes on with another split, of the same or another file, in the same buffer.
    ///
    /// # Errors
    /// As [`open`](Self::open). What was read before is then still current.
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
        self.end = if splittable || !is_whole(file, split) { split.end } else { u64::MAX };
        self.at_end_of_file = false;
    }

    /// The next lines of the split, or none when all were read.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when reading fails; [`ErrorKind::Input`] when a line is too long, the
    /// file has become shorter, or compressed data are corrupt. Nothing can be read after an
    /// error but another split.
    pub fn next_block(&mut self) -> Result<Option<ByteBlock<'_>>> {
        let offset_and_range = self.next_range()?;
        Ok(offset_and_range.map(|(offset, range)| ByteBlock { bytes: &self.buffer[range], offset }))
    }

    /// The next block as a range of [`buffer`](Self::buffer), and its offset in the file.
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

    /// The file that is read.
    pub fn path(&self) -> &std::path::Path {
        self.reader.path()
    }

    /// The split that is read.
    pub fn split(&self) -> Split {
        self.split
    }

    /// How much of the split was handed out, in bytes of the file itself: rises from 0 to
    /// [`Split::bytes`]. Of a compressed file, how much was decompressed; nothing of a beginning that was cut off,
    /// which is decompressed again.
    pub fn consumed(&self) -> u64 {
        match self.state {
            State::Unread => 0,
            _ if self.end == u64::MAX => self.reader.consumed(),
            _ if self.file_bytes.is_none() => 0,
            State::Ended => self.split.bytes(),
            _ => self.offset.clamp(self.split.start, self.split.end) - self.split.start,
        }
    }

    /// The memory that the buffer takes: `block_bytes`, or more once a longer line was met.
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
                // The first line is ours, although it now begins behind a split of fewer bytes.
                self.end = self.end.max(self.offset + 1);
            }
            return Ok(());
        }
        // Reading began at the byte before the split. The first line begins after the first line
        // feed, and what comes before it belongs to the split before, however long it is.
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
        // The first line of a split may have come with a full block behind it.
        if self.filled < self.sizes.block_bytes {
            self.fill()?;
        }
        // No line feed lies before this.
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

    /// How many bytes at the front of the buffer are complete lines of ours, if that is known.
    fn complete_lines(&self, searched: usize) -> Option<usize> {
        let data = &self.buffer[..self.filled];
        // How much of `data` is within the split, except its last byte: a line feed there or
        // later ends our last line.
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

    /// Reads behind what is in the buffer, which must begin at its front: up to the block size, or
    /// as far as the buffer has grown; but no further than the end of the split while that lies
    /// ahead, and in growing steps once it lies behind.
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

fn is_whole(file: &InputFile, split: Split) -> bool {
    split.start == 0 && split.end == file.bytes
}

fn open_split(file: &InputFile, split: Split) -> Result<FileReader> {
    let within = split.end <= file.bytes || !file.compression.is_splittable();
    if split.start > split.end || !within {
        let message = format!("{split:?} is not a split of this file of {} bytes", file.bytes);
        return Err(Error::new(ErrorKind::Internal, message).at(Place::File(file.path.clone())));
    }
    // The byte before the split tells whether a line begins at its first byte.
    FileReader::open_at(&file.path, file.compression, split.start.saturating_sub(1))
}

impl<'a> ByteBlock<'a> {
    /// The lines, each without its line feed and the carriage return before that.
    pub fn lines(&self) -> ByteLines<'a> {
        ByteLines { bytes: self.bytes, start: 0, ends: memchr_iter(b'\n', self.bytes) }
    }

    /// How many lines there are: tens of GB/s.
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
