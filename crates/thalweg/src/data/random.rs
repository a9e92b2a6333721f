//! Pseudo-random numbers from a seed.

/// The next number of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Its state begins as the seed. Any seed is
/// valid, and the sequence of each contains every 64-bit number once before it repeats.
#[inline(always)]
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    /// The first numbers that the authors' program gives for this seed.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut state = 1_234_567;
        let numbers = [(); 5].map(|()| super::splitmix64(&mut state));
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, expected);
    }
}
