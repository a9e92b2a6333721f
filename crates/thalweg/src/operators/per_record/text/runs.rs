//! The bounds of runs of letters, found in 64 bytes at a time.

#[cfg(target_arch = "x86_64")]
use super::simd::letters16;

/// Calls `each` with the bounds of every maximal run of `[A-Za-z]`, in order.
#[inline(always)]
pub(super) fn each_run(bytes: &[u8], mut each: impl FnMut(usize, usize)) {
    let mut runs = Runs { start: 0, open: false };
    let (blocks, tail) = bytes.as_chunks::<64>();
    // The zeros behind the tail end its last run; an empty tail ends a run that fills its block.
    let mut last = [0; 64];
    last[..tail.len()].copy_from_slice(tail);
    // One loop for all blocks, so that `each` is inlined in one place.
    for (at, block) in blocks.iter().chain([&last]).enumerate() {
        runs.block(64 * at, letters(block), &mut each);
    }
}

/// The run that is open at the end of the blocks so far.
struct Runs {
    start: usize,
    open: bool,
}

impl Runs {
    /// Calls `each` for the runs that end in the block at `base`, whose letters are the bits of `mask`.
    #[inline(always)]
    fn block(&mut self, base: usize, mask: u64, each: &mut impl FnMut(usize, usize)) {
        // A bit for each letter whose predecessor is also one.
        let before = mask << 1 | u64::from(self.open);
        let mut starts = mask & !before;
        let mut ends = before & !mask;
        // Beyond the block if no run starts: `start` is then not used before it is set again.
        let mut next_start = || {
            let start = base + starts.trailing_zeros() as usize;
            starts &= starts.wrapping_sub(1);
            start
        };
        if !self.open {
            self.start = next_start();
        }
        // One loop with one branch: as many runs end here as there are bits in `ends`.
        while ends != 0 {
            each(self.start, base + ends.trailing_zeros() as usize);
            ends &= ends - 1;
            self.start = next_start();
        }
        self.open = mask >> 63 != 0;
    }
}

/// One bit for each byte that is a letter.
#[inline(always)]
fn letters(block: &[u8; 64]) -> u64 {
    let (quarters, _) = block.as_chunks::<16>();
    let mut mask = 0;
    for (at, quarter) in quarters.iter().enumerate() {
        mask |= u64::from(letters16(quarter)) << (16 * at);
    }
    mask
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn letters16(block: &[u8; 16]) -> u16 {
    portable(block)
}

/// [`letters16`] for targets without an instruction for it.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(block: &[u8; 16]) -> u16 {
    let ones = block.map(|byte| u8::from((byte | 0x20).wrapping_sub(b'a') < 26));
    let (halves, _) = ones.as_chunks::<8>();
    // The product moves the eight ones to the eight highest bits without overlap.
    let gather = |half: &[u8; 8]| {
        (u64::from_le_bytes(*half).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16
    };
    gather(&halves[0]) | gather(&halves[1]) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_classify_agree() {
        // Fewer bytes under miri, where a step costs a thousand times as much.
        let step = if cfg!(miri) { 16 } else { 1 };
        for byte in 0..=255_u8 {
            for at in (usize::from(byte) % step..16).step_by(step) {
                let mut block = [if byte % 2 == 0 { b' ' } else { b'q' }; 16];
                block[at] = byte;
                let expected = block
                    .iter()
                    .enumerate()
                    .fold(0, |mask, (i, b)| mask | u16::from(b.is_ascii_alphabetic()) << i);
                assert_eq!(letters16(&block), expected);
                assert_eq!(portable(&block), expected);
            }
        }
    }

    #[test]
    fn runs_cross_blocks_and_fill_them() {
        for from in [0, 1, 62, 63, 64, 65, 127, 128] {
            for to in (from + 1..200).step_by(if cfg!(miri) { 33 } else { 1 }) {
                for len in [to, to + 1, 256] {
                    let mut bytes = vec![b'-'; len.max(to)];
                    bytes[from..to].fill(b'x');
                    let mut seen = Vec::new();
                    each_run(&bytes, |a, b| seen.push((a, b)));
                    assert_eq!(seen, [(from, to)], "in {len}");
                }
            }
        }
    }
}
