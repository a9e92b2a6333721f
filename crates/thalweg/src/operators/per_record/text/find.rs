//! Search for a few bytes, in 64 bytes at a time.

#[cfg(target_arch = "x86_64")]
use super::simd::equal16;

/// For each of these bytes a mask with a bit for each of its positions in the block.
#[inline(always)]
pub(crate) fn find64<const N: usize>(block: &[u8; 64], bytes: [u8; N]) -> [u64; N] {
    let (quarters, _) = block.as_chunks::<16>();
    let mut masks = [0; N];
    for (at, quarter) in quarters.iter().enumerate() {
        for (mask, byte) in masks.iter_mut().zip(bytes) {
            *mask |= u64::from(equal16(quarter, byte)) << (16 * at);
        }
    }
    masks
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal16(block: &[u8; 16], byte: u8) -> u16 {
    portable(block, byte)
}

/// [`equal16`] for targets without an instruction for it.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(block: &[u8; 16], byte: u8) -> u16 {
    let bits = block.iter().enumerate().map(|(at, &is)| u16::from(is == byte) << at);
    bits.fold(0, |mask, bit| mask | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same() {
        let block: [u8; 64] = std::array::from_fn(|at| (at * at % 7) as u8 | 0x7e);
        for byte in [0, 0x7e, 0x7f, 0xff] {
            let [mask] = find64(&block, [byte]);
            for (at, quarter) in block.as_chunks::<16>().0.iter().enumerate() {
                assert_eq!(portable(quarter, byte), (mask >> (16 * at)) as u16, "{byte}");
            }
        }
        assert_eq!(
            find64(&block, [0x7e, 0x7f]).map(|mask| mask.count_ones()).iter().sum::<u32>(),
            64
        );
    }
}
