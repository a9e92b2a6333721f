//! Random numbers and text from a seed, the same on every machine: integers, and only those floating-point operations
//! that IEEE 754 rounds exactly.

use std::sync::LazyLock;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection that spreads every bit.
#[inline]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64, seeded anew for every event so that any event can be generated without those before it.
pub(crate) struct Random(u64);

impl Random {
    /// The generator for item `number` under `seed`.
    #[inline]
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(mix(seed ^ mix(number.wrapping_add(GOLDEN))))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `bound`, or 0 if that is 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// One of `things`, which must not be empty.
    #[inline]
    pub(crate) fn of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }

    /// A price in cents: a power of ten with an exponent uniform between 2 and 8.
    ///
    /// The fraction of the exponent is interpolated linearly in a table, with an error below a millionth. The
    /// machine's own power function is not used: its last bits differ between platforms.
    #[inline]
    pub(crate) fn price(&mut self) -> u64 {
        const SCALES: [f64; 6] = [1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
        let exponent = u128::from(self.next()) * SCALES.len() as u128;
        let (whole, fraction) = ((exponent >> 64) as usize, exponent as u64);
        let step = (fraction >> (64 - STEP_BITS)) as usize;
        let within = ((fraction << STEP_BITS) >> 11) as f64 / (1u64 << 53) as f64;
        let powers = &*POWERS;
        let power = powers[step] + (powers[step + 1] - powers[step]) * within;
        (power * SCALES[whole]).round() as u64
    }

    /// Appends `length` letters from a to z.
    #[inline]
    pub(crate) fn letters(&mut self, length: usize, out: &mut Vec<u8>) {
        self.spread(length, 26, out, |choice| b'a' + choice as u8);
    }

    /// Appends at least three and fewer than `most` letters, of which one in 13 is `gap` instead.
    #[inline]
    pub(crate) fn words(&mut self, most: u64, gap: u8, out: &mut Vec<u8>) {
        let length = 3 + self.below(most - 3) as usize;
        self.spread(length, 13 * 26, out, |choice| match choice / 26 {
            0 => gap,
            _ => b'a' + (choice % 26) as u8,
        });
    }

    /// Appends `length` bytes, computed by `byte` from numbers below `bound`. A number is derived from 16 bits, so
    /// some are likelier than others by one part in 65,536 / `bound`.
    #[inline]
    fn spread(&mut self, length: usize, bound: u64, out: &mut Vec<u8>, byte: impl Fn(u64) -> u8) {
        let start = out.len();
        out.resize(start + length, 0);
        for four in out[start..].chunks_mut(4) {
            let bits = self.next();
            for (place, at) in four.iter_mut().enumerate() {
                *at = byte((((bits >> (16 * place)) & 0xffff) * bound) >> 16);
            }
        }
    }
}

const STEP_BITS: u32 = 10;
const STEPS: usize = 1 << STEP_BITS;

/// 10^(i / STEPS), as products of roots of ten: square roots and products are rounded the same everywhere.
static POWERS: LazyLock<[f64; STEPS + 1]> = LazyLock::new(|| {
    let mut powers = [1.0; STEPS + 1];
    let mut root = 10.0;
    for bit in (0..=STEP_BITS).rev() {
        for (step, power) in powers.iter_mut().enumerate() {
            if step >> bit & 1 == 1 {
                *power *= root;
            }
        }
        root = f64::sqrt(root);
    }
    powers
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        for (step, power) in POWERS.iter().enumerate() {
            let exact = 10f64.powf(step as f64 / STEPS as f64);
            assert!((power / exact - 1.0).abs() < 1e-14, "{step}: {power} for {exact}");
        }
    }

    #[test]
    fn prices_are_uniform_in_their_logarithm() {
        let mut random = Random::new(1, 0);
        let mut decades = [0; 6];
        for _ in 0..60_000 {
            let price = random.price();
            assert!((100..=100_000_000).contains(&price));
            decades[((price as f64).log10() - 2.0).min(5.0) as usize] += 1;
        }
        for count in decades {
            assert!((9_500..10_500).contains(&count), "{decades:?}");
        }
    }

    #[test]
    fn text_is_what_it_says() {
        let mut random = Random::new(2, 0);
        let (mut letters, mut words) = (Vec::new(), Vec::new());
        random.letters(50_000, &mut letters);
        assert_eq!(letters.len(), 50_000);
        assert!(letters.iter().all(u8::is_ascii_lowercase));
        for letter in b'a'..=b'z' {
            let count = letters.iter().filter(|&&at| at == letter).count();
            assert!((1_700..2_150).contains(&count), "{}: {count}", letter as char);
        }
        for _ in 0..10_000 {
            let before = words.len();
            random.words(20, b'_', &mut words);
            assert!((3..20).contains(&(words.len() - before)));
        }
        let gaps = words.iter().filter(|&&at| at == b'_').count();
        let share = words.len() as f64 / gaps as f64;
        assert!((12.5..13.5).contains(&share), "one in {share}");
        assert!(words.iter().all(|at| at.is_ascii_lowercase() || *at == b'_'));
    }

    #[test]
    fn below_reaches_both_ends() {
        let mut random = Random::new(3, 0);
        let mut seen = [false; 7];
        (0..1_000).for_each(|_| seen[random.below(7) as usize] = true);
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(0), 0);
    }
}
