//! How often keys come again, estimated from a part of the keys.

use crate::data::Key;
use crate::state::GroupTable;

/// One key in this many is followed.
const SHARE: u64 = 1024;

/// Counts records, and estimates how many keys they have.
///
/// Follows all records of a fixed, small part of the keys, so that the estimate needs no more memory
/// than that part, and is as good as the number of keys in it is large: within a few hundredths when
/// there are a million keys.
#[derive(Default)]
pub(crate) struct Repeats {
    records: u64,
    followed: GroupTable<u64, ()>,
}

impl Repeats {
    /// Counts records with keys of these hashes.
    #[inline(always)]
    pub(crate) fn see(&mut self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            self.records += 1;
            // Bits by which neither tasks nor slots are chosen.
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

    /// The share of records that would remain, were all combined in one table.
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
