//! Converts a user's paths to blocks of complete lines.
//!
//! The steps, one module each:
//!
//! 1. [`paths`] expands files, directories and globs into a sorted list of [`InputFile`]s;
//! 2. [`split`] divides their bytes into [`Split`]s, each read by one reader;
//! 3. [`decode`] opens one file and decompresses gzip and zstd;
//! 4. [`blocks`] cuts the bytes into blocks of complete lines ([`ByteBlocks`]);
//! 5. [`text`] checks each block once for UTF-8 and iterates over its lines ([`LineBlocks`]).
//!
//! Nothing here depends on tasks, threads or streams, and only the file system can block it. The file system is
//! accessed in `paths` (listing, and opening each file once to check it) and `decode` (reading) only.
//!
//! # Which reader reads a line
//! A line belongs to the split that contains its first byte. A reader whose split starts in the middle of a file
//! reads the byte before it, to know whether a line begins there. Every reader continues past the end of its split
//! until its last line ends. So readers need not coordinate, splits may be cut anywhere (inside a character, between
//! CR and LF), and every line is read exactly once.
//!
//! ```
//! use thalweg::io::files::{BlockSizes, LineBlocks, Utf8, expand_inputs, plan_splits};
//!
//! # fn main() -> thalweg::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # std::fs::write(dir.path().join("a.txt"), "one\r\ntwo\nthree").unwrap();
//! let files = expand_inputs([dir.path()])?;
//! let mut lines = Vec::new();
//! // Four bytes a split, so that this small file has several.
//! for split in plan_splits(&files, 4) {
//!     let file = &files[split.file];
//!     let mut blocks = LineBlocks::open(file, split, BlockSizes::default(), Utf8::Stop)?;
//!     while let Some(block) = blocks.next_block()? {
//!         lines.extend(block.lines().map(str::to_owned));
//!     }
//! }
//! assert_eq!(lines, ["one", "two", "three"]);
//! # Ok(())
//! # }
//! ```
#![allow(clippy::disallowed_methods)] // This module is the door to files.

pub mod blocks;
pub mod decode;
pub mod paths;
pub mod split;
pub mod text;

#[cfg(test)]
mod tests;

pub(super) use blocks::BYTE_ORDER_MARK;
pub use blocks::{BlockSizes, ByteBlock, ByteBlocks, ByteLines};
pub use decode::{Compression, FileReader};
pub(crate) use paths::FileVersion;
pub use paths::{InputFile, expand_inputs};
pub(super) use split::assign_files;
pub use split::{Split, assign_splits, largest_first, plan_splits};
pub use text::{Block, LineBlocks, Lines, Utf8, line_number_at};
