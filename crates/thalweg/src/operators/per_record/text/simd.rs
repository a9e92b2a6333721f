//! Classification of sixteen bytes at once, by SSE2 instructions.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
    _mm_set1_epi8,
};

/// A mask with a bit for each byte that is an ASCII letter.
#[inline(always)]
pub(super) fn letters16(block: &[u8; 16]) -> u16 {
    let value = u128::from_le_bytes(*block);
    // SAFETY: these take and return values, and need SSE2, which every x86-64 processor has.
    unsafe {
        let bytes = _mm_set_epi64x((value >> 64) as i64, value as i64);
        let lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        // Moves 'a' to the least signed byte: the letters are then the 26 least.
        let moved = _mm_add_epi8(lower, _mm_set1_epi8(i8::MIN.wrapping_sub(b'a' as i8)));
        _mm_movemask_epi8(_mm_cmplt_epi8(moved, _mm_set1_epi8(i8::MIN + 26))) as u16
    }
}

/// A mask with a bit for each byte equal to `byte`.
#[inline(always)]
pub(super) fn equal16(block: &[u8; 16], byte: u8) -> u16 {
    let value = u128::from_le_bytes(*block);
    // SAFETY: these take and return values, and need SSE2, which every x86-64 processor has.
    unsafe {
        let bytes = _mm_set_epi64x((value >> 64) as i64, value as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u16
    }
}
