//! Compression of the batches in a frame, by LZ4.
//!
//! The task that sends a frame compresses it, and the one that receives it decompresses it, so the work is spread as that of
//! encoding is. A frame that is short, or does not shrink, travels as it is; its kind says so ([`far`](super::far)).
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 3 | the length of the batches, little-endian |
//! | from 4 | the batches, as a block of LZ4 |

use crate::data::DecodeError;
use crate::net::LARGEST_FRAME;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// The bytes from which frames are compressed: below, a block has little to refer back to.
pub(crate) const WORTH_COMPRESSING: usize = 512;
/// The bytes of the length before a block.
const LENGTH: usize = 4;
/// A byte of a block stands for at most so many.
const MOST_FOR_A_BYTE: usize = 255;
/// The bytes of output that are kept in any case.
const KEPT: usize = 1 << 20;
/// A frame is sent compressed if it shrinks by one part in so many.
const WORTHWHILE: usize = 16;

/// Compresses the frames that a task sends.
pub(super) struct Compressor {
    /// Fewer bytes are not compressed.
    least: usize,
    table: CompressTable,
    /// The last frame that was compressed.
    output: Vec<u8>,
}

impl Compressor {
    /// A compressor of frames with at least so many bytes.
    pub(super) fn new(least: usize) -> Self {
        Self { least, table: CompressTable::default(), output: Vec::new() }
    }

    /// The compressed form of batches, if that is worthwhile.
    pub(super) fn compress(&mut self, batches: &[u8]) -> Option<&[u8]> {
        if batches.len() < self.least || batches.len() > LARGEST_FRAME {
            return None;
        }
        let length = u32::try_from(batches.len()).ok()?.to_le_bytes();
        let most = LENGTH + get_maximum_output_size(batches.len());
        if self.output.len() < most {
            self.output.resize(most, 0);
        } else if self.output.len() > KEPT.max(4 * most) {
            // It was made for an unusual frame.
            self.output = vec![0; most];
        }
        self.output[..LENGTH].copy_from_slice(&length);
        let block = &mut self.output[LENGTH..];
        let length = LENGTH + compress_into_with_table(batches, block, &mut self.table).ok()?;
        let worthwhile = batches.len() - batches.len() / WORTHWHILE;
        (length < worthwhile).then(|| &self.output[..length])
    }
}

/// The batches that were compressed. What the sender says of their length is believed as far as it is possible.
pub(super) fn decompress(compressed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let torn = || DecodeError::invalid("compressed batches");
    let (length, block) = compressed.split_first_chunk::<LENGTH>().ok_or_else(torn)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > LARGEST_FRAME || length > block.len().saturating_mul(MOST_FOR_A_BYTE) {
        return Err(torn());
    }
    let mut batches = vec![0; length];
    match decompress_into(block, &mut batches) {
        Ok(decompressed) if decompressed == length => Ok(batches),
        Ok(_) | Err(_) => Err(torn()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;

    fn noise(length: usize) -> Vec<u8> {
        let mut seed = 1;
        (0..length).map(|_| splitmix64(&mut seed) as u8).collect()
    }

    fn text(length: usize) -> Vec<u8> {
        b"all the words of a text, all of them again, "
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect()
    }

    #[test]
    fn what_shrinks_comes_back_and_nothing_else_is_compressed() {
        let mut compressor = Compressor::new(100);
        for length in [100, 1000, 65_534, 65_535, 65_536, 300_000, 200] {
            let batches = text(length);
            let compressed = compressor.compress(&batches).expect("it shrinks");
            assert!(compressed.len() < length);
            assert_eq!(decompress(compressed).unwrap(), batches);
            assert!(compressor.compress(&noise(length)).is_none(), "{length}");
        }
        assert!(compressor.compress(&text(99)).is_none());
        // Zeroes shrink by as much as is possible.
        let zeroes = vec![0; 1 << 20];
        let compressed = compressor.compress(&zeroes).unwrap();
        assert!(compressed.len() < zeroes.len() / 250);
        assert_eq!(decompress(compressed).unwrap(), zeroes);
    }

    #[test]
    fn torn_and_hostile_frames_are_refused() {
        let mut compressor = Compressor::new(0);
        let batches = [text(500), noise(100), text(300)].concat();
        let compressed = compressor.compress(&batches).unwrap().to_vec();
        for end in 0..compressed.len() {
            assert!(decompress(&compressed[..end]).is_err(), "torn at {end}");
        }
        // A length that is wrong, or that no block can have, whatever the memory.
        for length in [0, batches.len() - 1, batches.len() + 1, 1 << 20, u32::MAX as usize] {
            let mut wrong = compressed.clone();
            wrong[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
            assert!(decompress(&wrong).is_err(), "{length}");
        }
        for at in LENGTH..compressed.len() {
            for bit in 0..8 {
                let mut wrong = compressed.clone();
                wrong[at] ^= 1 << bit;
                if let Ok(other) = decompress(&wrong) {
                    assert_eq!(other.len(), batches.len());
                }
            }
        }
    }
}
