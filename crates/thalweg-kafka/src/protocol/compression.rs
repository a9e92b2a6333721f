//! Compressed batches, as Kafka's producers make them.

use std::io::{self, Read as _};

/// How a batch is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Snappy,
    Lz4,
    Zstandard,
}

impl Compression {
    /// By its number in the attributes of a batch.
    pub(super) fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstandard),
            _ => None,
        }
    }
}

/// What a batch was before it was compressed. Its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Unpacked(Vec<u8>);

/// The most that a batch is decompressed to, far beyond what brokers take.
const LONGEST: u64 = 1 << 30;
/// The memory that is kept while nothing is read.
const KEPT: usize = 64 << 10;

/// What Java's Snappy begins with, which has blocks; clients of librdkafka write a single one without it.
const SNAPPY_BLOCKS: &[u8] = b"\x82SNAPPY\0";
/// Behind it are two versions.
const SNAPPY_HEAD: usize = 16;

impl Unpacked {
    /// Decompresses a batch's records; returns how many bytes they are.
    pub(super) fn fill(&mut self, compression: Compression, packed: &[u8]) -> io::Result<usize> {
        let bytes = &mut self.0;
        bytes.clear();
        match compression {
            Compression::Gzip => read(flate2::read::MultiGzDecoder::new(packed), bytes)?,
            Compression::Snappy => match packed.starts_with(SNAPPY_BLOCKS) {
                true => snappy_blocks(packed.get(SNAPPY_HEAD..).unwrap_or_default(), bytes)?,
                false => snappy(packed, bytes)?,
            },
            Compression::Lz4 => read(lz4_flex::frame::FrameDecoder::new(packed), bytes)?,
            Compression::Zstandard => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
                read(decoder.map_err(io::Error::other)?, bytes)?
            }
        };
        Ok(bytes.len())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives memory back while nothing is read.
    pub(super) fn shrink(&mut self) {
        self.0.clear();
        self.0.shrink_to(KEPT);
    }
}

fn read(from: impl io::Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let length = from.take(LONGEST).read_to_end(bytes)?;
    if length as u64 == LONGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(length) }
}

fn snappy_blocks(mut packed: &[u8], bytes: &mut Vec<u8>) -> io::Result<usize> {
    let torn = || io::Error::from(io::ErrorKind::UnexpectedEof);
    while let Some((length, rest)) = packed.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| torn())?;
        let (block, rest) = rest.split_at_checked(length).ok_or_else(torn)?;
        snappy(block, bytes)?;
        packed = rest;
    }
    if packed.is_empty() { Ok(bytes.len()) } else { Err(torn()) }
}

/// Appends a block.
fn snappy(block: &[u8], bytes: &mut Vec<u8>) -> io::Result<usize> {
    /// A block of so many bytes has at most this many for each.
    const MOST: usize = 64;
    let length = snap::raw::decompress_len(block)?;
    // What is torn may say anything.
    if length / MOST > block.len() || length as u64 > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let begins = bytes.len();
    bytes.resize(begins + length, 0);
    Ok(snap::raw::Decoder::new().decompress(block, &mut bytes[begins..])?)
}
