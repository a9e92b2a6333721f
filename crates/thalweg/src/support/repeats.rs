//! Estimates how often keys repeat, from a sample of the keys.

use crate::data::Key;
use crate::state::GroupTable;

/// One key in this many is followed.
const SHARE: u64 = 1024;

/// Counts records, and estimates how many keys they have.
///
/// Follows all records of a fixed, small sample of the keys. So the estimate needs memory for the sample only, and is
/// better the more keys the sample has: within a few per cent when there are a million keys.
#[derive(Default)]
pub(crate) struct Repeats {
    records: u64,
    followed: GroupTable<u64, ()>,
}

impl Repeats {
    /// Counts records whose keys have these hashes.
    #[inline(always)]
    pub(crate) fn see(&mut self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            self.records += 1;
            // Bits that choose neither the task nor the slot.
            if (hash >> 20) & (SHARE - 1) == 0 {
                self.follow(hash);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn follow(&mut self, hash: u64) {
        self.followed.upsert(u64::hash(&hash), &hash, &hash, || ());
    }

    /// The share of records that would remain if all were combined in one table.
    pub(crate) fn kept(&self) -> f64 {
        (self.followed.len() as u64 * SHARE) as f64 / self.records.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_new_keys_is_estimated() {
        let mut repeats = Repeats::default();
        let keys = 500_000_u64;
        for round in 1..=4_u32 {
            repeats.see((0..keys).map(|key| u64::hash(&key)));
            let expected = 1.0 / f64::from(round);
            assert!((repeats.kept() / expected - 1.0).abs() < 0.2, "{}", repeats.kept());
        }
    }
}
