//! Random numbers that never change: SplitMix64 and sampling by integer arithmetic alone.

/// SplitMix64 (Steele, Lea, Flood 2014): a 64-bit counter put through a mixing function.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`, by multiplication; its bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event of `per_mille` in a thousand happens.
    #[inline]
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// Draws indices with given weights in constant time (the alias method of Walker and Vose), with
/// integers only, so that no rounding of floating-point numbers decides.
#[derive(Debug, Clone)]
pub struct Weighted {
    /// Per index: the threshold below which the index itself is meant, and the other index.
    cells: Vec<(u64, u32)>,
}

impl Weighted {
    /// Prepares for drawing indices with probability in proportion to `weights`.
    ///
    /// # Panics
    /// When there is no weight above zero, or more than 2^32 of them.
    pub fn new(weights: &[u64]) -> Self {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        assert!(total > 0, "there must be a weight above zero");
        let count = weights.len() as u128;
        // Each cell has room for `total`; index i brings `weights[i] * count`.
        let mut left: Vec<u128> = weights.iter().map(|w| u128::from(*w) * count).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..u32::try_from(weights.len())
            .expect("at most 2^32 weights"))
            .partition(|index| left[*index as usize] < total);
        let mut cells = vec![(u64::MAX, 0); weights.len()];
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            let share = (left[low as usize] << 64) / total;
            cells[low as usize] = (share.min(u128::from(u64::MAX)) as u64, high);
            left[high as usize] -= total - left[low as usize];
            if left[high as usize] < total {
                large.pop();
                small.push(high);
            }
        }
        // What is left over fills its cell but for rounding; `u64::MAX` means always itself.
        for index in small.into_iter().chain(large) {
            cells[index as usize] = (u64::MAX, index);
        }
        Self { cells }
    }

    /// Weights in proportion to `1 / rank`: the Zipf distribution with exponent one.
    pub fn zipf(count: u64) -> Self {
        let weights: Vec<u64> = (1..=count).map(|rank| (1 << 40) / rank).collect();
        Self::new(&weights)
    }

    /// Draws an index.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> usize {
        let index = random.below(self.cells.len() as u64) as usize;
        let (threshold, other) = self.cells[index];
        if random.bits() <= threshold { index } else { other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_never_change() {
        // The reference values of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_follow_the_weights() {
        let weighted = Weighted::new(&[5, 0, 3, 1, 1]);
        let mut random = Random::new(1);
        let mut counts = [0i32; 5];
        for _ in 0..100_000 {
            counts[weighted.draw(&mut random)] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, expected) in counts.into_iter().zip([50_000, 0, 30_000, 10_000, 10_000]) {
            assert!((count - expected).abs() < 1000, "{counts:?}");
        }
    }
}
