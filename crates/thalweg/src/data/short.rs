//! Short text and bytes as two words, the form in which they are hashed, compared and kept.
#![allow(unsafe_code)] // A masked load takes a raw pointer.

/// At most 15 bytes as two little-endian words: zero-padded to 16 bytes, the length in the last.
#[inline(always)]
pub(crate) fn short_words(bytes: &[u8]) -> (u64, u64) {
    debug_assert!(bytes.len() <= 15);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has the instructions.
        return unsafe { masked(bytes) };
    }
    in_parts(bytes)
}

/// One load for every length, without a branch that could be mispredicted: a third of the time for words of a text, the
/// call included. A program that is compiled for such a processor has no call.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512bw,avx512vl")]
#[inline]
fn masked(bytes: &[u8]) -> (u64, u64) {
    use std::arch::x86_64::{_mm_cvtsi128_si64, _mm_extract_epi64, _mm_maskz_loadu_epi8};
    let len = bytes.len();
    let mask = ((1_u32 << len) - 1) as u16;
    // SAFETY: the load reads the bytes selected by the mask, which are among those of `bytes`, and is defined not to access
    // the others.
    let value = unsafe { _mm_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) };
    let low = _mm_cvtsi128_si64(value) as u64;
    (low, _mm_extract_epi64::<1>(value) as u64 | (len as u64) << 56)
}

/// The portable version, for any machine.
#[inline(always)]
fn in_parts(bytes: &[u8]) -> (u64, u64) {
    let len = bytes.len();
    let tag = (len as u64) << 56;
    // Two reads that overlap cover every length without a loop over the bytes.
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let tail = u64::from_le_bytes(*tail);
        // Two shifts, because a shift by 64 bits is an overflow.
        (u64::from_le_bytes(*head), ((tail >> 1) >> (8 * (16 - len) - 1)) | tag)
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        (u64::from(head) | u64::from(tail) << (8 * (len - 4)), tag)
    } else if let (Some(&head), Some(&tail)) = (bytes.first(), bytes.last()) {
        let middle = u64::from(bytes[len / 2]) << (8 * (len / 2));
        (u64::from(head) | middle | u64::from(tail) << (8 * (len - 1)), tag)
    } else {
        (0, tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_padded_form() {
        let bytes: Vec<u8> = (1..=15).collect();
        for len in 0..=15 {
            let mut padded = [0; 16];
            padded[..len].copy_from_slice(&bytes[..len]);
            padded[15] = len as u8;
            let value = u128::from_le_bytes(padded);
            let words = (value as u64, (value >> 64) as u64);
            // Boxed, so that a read past the end would be past an allocation.
            let bytes: Box<[u8]> = bytes[..len].into();
            assert_eq!(short_words(&bytes), words);
            assert_eq!(in_parts(&bytes), words);
        }
    }
}
