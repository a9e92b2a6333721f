//! Sets of nodes as words of bits: what each node has edges to, and what can be reached from there.

use thalweg::Data;

/// A set of numbers: the words of a bitmap that are not nothing, in ascending order. Where numbers lie close
/// together, one word holds up to 64 of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Data)]
pub struct Set(pub(super) Vec<(u32, u64)>);

impl Set {
    /// The set of these, of which some may be the same.
    pub fn new(mut members: Vec<u32>) -> Self {
        members.sort_unstable();
        let mut words: Vec<(u32, u64)> = Vec::new();
        for member in members {
            let (word, bit) = (member / 64, 1 << (member % 64));
            match words.last_mut() {
                Some((last, bits)) if *last == word => *bits |= bit,
                _ => words.push((word, bit)),
            }
        }
        Self(words)
    }

    /// The members, in ascending order.
    pub fn into_members(self) -> impl Iterator<Item = u32> {
        self.0.into_iter().flat_map(|word| members(&word))
    }
}

/// The members that a word holds.
pub(super) fn members(&(word, mut bits): &(u32, u64)) -> impl Iterator<Item = u32> + use<> {
    std::iter::from_fn(move || {
        let member = (bits != 0).then(|| word * 64 + bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
        member
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sets_are_those_of_the_standard_library() {
        let mut state = 1u64;
        let mut next = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % below
        };
        for round in 0..50 {
            let mut members = || (0..round).map(|_| next(1 + 7 * round)).collect::<Vec<_>>();
            let a = members();
            let plain = |of: &[u32]| of.iter().copied().collect::<BTreeSet<_>>();
            assert!(Set::new(a.clone()).into_members().eq(plain(&a)));
        }
        assert!(Set::new(vec![u32::MAX, 0]).into_members().eq([0, u32::MAX]));
    }
}
