//! Blocks of lines as text, which is checked for UTF-8 once a block.

use std::fmt::Write;
use std::iter::FusedIterator;
use std::path::Path;

use memchr::{Memchr, memchr_iter};
use simdutf8::compat::{Utf8Error, from_utf8};

use super::blocks::{BlockSizes, ByteBlocks, State, count_lines};
use super::decode::{Compression, FileReader};
use super::paths::InputFile;
use super::split::Split;
use crate::{Error, ErrorKind, Place, Result};

/// How bytes that are not UTF-8 are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Utf8 {
    /// They are an error, which names the file, the offset and the bytes.
    #[default]
    Stop,
    /// Each invalid sequence is replaced by U+FFFD (�), as in [`String::from_utf8_lossy`].
    Replace,
}

/// Reads one [`Split`] as blocks of complete lines of text.
///
/// If lines need not be UTF-8, or another parser checks them, [`ByteBlocks`] avoids the check. Byte order marks,
/// files that change, and long lines are treated in the same way there.
///
/// ```
/// use thalweg::io::files::{BlockSizes, LineBlocks, Utf8, expand_inputs, plan_splits};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("f");
/// std::fs::write(&path, b"fine\nna\xefve\n").unwrap();
/// let files = expand_inputs([path]).unwrap();
/// let split = plan_splits(&files, 1 << 20)[0];
///
/// let mut blocks = LineBlocks::open(&files[0], split, BlockSizes::default(), Utf8::Stop).unwrap();
/// let error = blocks.next_block().unwrap_err();
/// assert!(error.to_string().ends_with("f at byte 7: not UTF-8: the byte ef"));
///
/// let mut blocks =
///     LineBlocks::open(&files[0], split, BlockSizes::default(), Utf8::Replace).unwrap();
/// let block = blocks.next_block().unwrap().unwrap();
/// assert_eq!(block.lines().collect::<Vec<_>>(), ["fine", "na\u{fffd}ve"]);
/// ```
#[derive(Debug)]
pub struct LineBlocks {
    blocks: ByteBlocks,
    utf8: Utf8,
    /// The last block in which bytes were replaced.
    replaced: String,
}

/// Complete lines of text, each with its line feed, except perhaps the last of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The lines. Never empty.
    pub text: &'a str,
    /// The offset of the first line in the file, in bytes, decompressed if it is compressed. Byte `n` of `text` has
    /// the offset `offset + n`, unless bytes before it were replaced.
    pub offset: u64,
}

impl LineBlocks {
    /// Opens the file of a split and seeks to its start, without reading yet.
    ///
    /// `split.file` is ignored: `file` is the file to read.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be opened; [`ErrorKind::Internal`] when the split
    /// is not one of this file.
    pub fn open(file: &InputFile, split: Split, sizes: BlockSizes, utf8: Utf8) -> Result<Self> {
        let blocks = ByteBlocks::open(file, split, sizes)?;
        Ok(Self { blocks, utf8, replaced: String::new() })
    }

    /// Continues with another split, of the same or another file, in the same buffer.
    ///
    /// # Errors
    /// As [`open`](Self::open). The split before then stays current.
    pub fn reopen(&mut self, file: &InputFile, split: Split) -> Result<()> {
        self.blocks.reopen(file, split)
    }

    /// Reads the next lines of the split; returns `None` when all were read.
    ///
    /// # Errors
    /// As [`ByteBlocks::next_block`], and [`ErrorKind::Input`] with the offset of the first bad byte if a block is
    /// not UTF-8 and the option is [`Utf8::Stop`]. The lines before it in the same block are then not returned.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>> {
        let Some((offset, range)) = self.blocks.next_range()? else { return Ok(None) };
        let bytes = &self.blocks.buffer[range];
        // The block ends at the end of a line, so no character is cut.
        let text = match from_utf8(bytes) {
            Ok(text) => text,
            Err(bad) if self.utf8 == Utf8::Stop => {
                self.blocks.state = State::Failed;
                return Err(not_utf8(self.blocks.reader.path(), offset, bytes, &bad));
            }
            Err(_) => {
                self.replaced.clear();
                for part in bytes.utf8_chunks() {
                    self.replaced.push_str(part.valid());
                    if !part.invalid().is_empty() {
                        self.replaced.push(char::REPLACEMENT_CHARACTER);
                    }
                }
                &self.replaced
            }
        };
        Ok(Some(Block { text, offset }))
    }

    /// The path of the current file.
    pub fn path(&self) -> &Path {
        self.blocks.path()
    }

    /// The current split.
    pub fn split(&self) -> Split {
        self.blocks.split()
    }

    /// How much of the split was returned, as [`ByteBlocks::consumed`].
    pub fn consumed(&self) -> u64 {
        self.blocks.consumed()
    }

    /// How far lines were returned, as [`ByteBlocks::position`].
    pub(crate) fn position(&self) -> u64 {
        self.blocks.position()
    }

    /// The memory of the buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.blocks.buffer_bytes() + self.replaced.capacity()
    }
}

fn not_utf8(path: &Path, offset: u64, block: &[u8], bad: &Utf8Error) -> Error {
    let valid = bad.valid_up_to();
    let rest = &block[valid..];
    // Without a length, the end of the file cuts the character short.
    let sequence = &rest[..bad.error_len().unwrap_or(rest.len())];
    let mut message = String::from("not UTF-8: the byte");
    if sequence.len() > 1 {
        message.push('s');
    }
    for byte in sequence {
        // Writing to a string cannot fail.
        let _ = write!(message, " {byte:02x}");
    }
    if offset == 0 {
        message.push_str(match block {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "; the file seems to be UTF-16",
            [0x1f, 0x8b, ..] => "; the file seems to be gzip, whose name must end in .gz",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                "; the file seems to be Zstandard, whose name must end in .zst"
            }
            _ => "",
        });
    }
    let place = Place::Offset(path.to_owned(), offset + valid as u64);
    Error::new(ErrorKind::Input, message).at(place)
}

impl<'a> Block<'a> {
    /// The lines, each without its line feed or the carriage return before it.
    pub fn lines(&self) -> Lines<'a> {
        Lines { text: self.text, start: 0, ends: memchr_iter(b'\n', self.text.as_bytes()) }
    }

    /// The number of lines; counts tens of GB/s.
    pub fn count_lines(&self) -> usize {
        count_lines(self.text.as_bytes())
    }
}

/// The lines of a [`Block`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    start: usize,
    ends: Memchr<'a>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        if let Some(end) = self.ends.next() {
            let line = &self.text[self.start..end];
            self.start = end + 1;
            return Some(line.strip_suffix('\r').unwrap_or(line));
        }
        let rest = &self.text[self.start..];
        self.start = self.text.len();
        // Without a line feed, a carriage return at the end is part of the line.
        if rest.is_empty() { None } else { Some(rest) }
    }
}

impl FusedIterator for Lines<'_> {}

/// The number, counted from 1, of the line that contains this byte of a file, decompressed if it is compressed.
///
/// For error messages: it reads the file from its start, at several GB/s for a plain file. A line feed belongs to the
/// line that it ends.
///
/// # Errors
/// As [`FileReader`], and [`ErrorKind::Input`] when the file has fewer than `offset` bytes.
///
/// ```
/// use thalweg::io::files::{Compression, line_number_at};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("f");
/// std::fs::write(&path, "one\ntwo\n").unwrap();
/// assert_eq!(line_number_at(&path, Compression::None, 3).unwrap(), 1);
/// assert_eq!(line_number_at(&path, Compression::None, 4).unwrap(), 2);
/// ```
pub fn line_number_at(path: &Path, compression: Compression, offset: u64) -> Result<u64> {
    let mut reader = FileReader::open(path, compression)?;
    let mut buffer = vec![0; 64 << 10];
    let mut line = 1;
    while reader.position() < offset {
        let left = usize::try_from(offset - reader.position()).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let bytes = reader.read(&mut buffer[..wanted])?;
        if bytes == 0 {
            let message = format!("the file ends here, before byte {offset}");
            let place = Place::Offset(path.to_owned(), reader.position());
            return Err(Error::new(ErrorKind::Input, message).at(place));
        }
        line += memchr_iter(b'\n', &buffer[..bytes]).count() as u64;
    }
    Ok(line)
}
