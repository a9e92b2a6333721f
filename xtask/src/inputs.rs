//! Inputs of jobs whose answers are checked: they look random, and are the same in every run with the same seed.

use std::hash::{BuildHasher as _, RandomState};

/// Numbers that look random.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// A random seed, short enough to be typed again.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(0) % 1_000_000_000
}

/// A text of some thousand different words, by lines.
pub(crate) fn text(lines: u64) -> Vec<Vec<String>> {
    let mut numbers = Numbers::new(1);
    let mut word = || {
        let mut rest = numbers.below(20_000) + 1;
        let mut word = String::new();
        while rest > 0 {
            word.push(char::from(b'a' + (rest % 26) as u8));
            rest /= 26;
        }
        word
    };
    (0..lines).map(|_| (0..8).map(|_| word()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_their_seed() {
        let of = |seed| {
            let mut numbers = Numbers::new(seed);
            (0..20).map(|_| numbers.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert!(of(7).iter().all(|number| *number < 1000));
    }

    #[test]
    fn a_text_is_the_same_each_time() {
        assert_eq!(text(50), text(50));
        assert_eq!(text(50).len(), 50);
    }
}
