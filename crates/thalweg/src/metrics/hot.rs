//! Which keys most records have, from a sample.

use std::collections::HashMap;

/// One record in this many is sampled.
const EVERY: u32 = 509;
/// Keys counted at a time.
const KEPT: usize = 64;

/// The most frequent keys of a stream, found in a sample with bounded memory.
///
/// Where more than [`KEPT`] keys are in the sample, the least frequent make room, as in the
/// space-saving algorithm of Metwally et al.: a key with more than 1/64 of the records is found.
pub(crate) struct HotKeys {
    until_next: u32,
    sampled: u64,
    counts: HashMap<u64, (String, u64)>,
}

impl Default for HotKeys {
    fn default() -> Self {
        Self { until_next: EVERY, sampled: 0, counts: HashMap::new() }
    }
}

impl HotKeys {
    /// Sees one record; `show` is called for those in the sample.
    #[inline(always)]
    pub(crate) fn see(&mut self, hash: u64, show: impl FnOnce() -> String) {
        self.until_next -= 1;
        if self.until_next == 0 {
            self.sample(hash, show);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample(&mut self, hash: u64, show: impl FnOnce() -> String) {
        self.until_next = EVERY;
        self.sampled += 1;
        if let Some((_, count)) = self.counts.get_mut(&hash) {
            *count += 1;
            return;
        }
        let mut count = 1;
        if self.counts.len() >= KEPT
            && let Some((&least, &(_, seen))) =
                self.counts.iter().min_by_key(|(hash, (_, seen))| (*seen, **hash))
        {
            self.counts.remove(&least);
            count += seen;
        }
        self.counts.insert(hash, (show(), count));
    }

    pub(crate) fn sampled(&self) -> u64 {
        self.sampled
    }

    /// The keys seen, most frequent first.
    pub(crate) fn top(&self) -> Vec<(String, u64)> {
        let mut keys: Vec<_> = self.counts.values().cloned().collect();
        keys.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_among_many_is_found() {
        let mut hot = HotKeys::default();
        for i in 0..2_000_000u64 {
            let key = if i % 3 == 0 { 7 } else { i };
            hot.see(key, || key.to_string());
        }
        assert_eq!(hot.top()[0].0, "7");
        assert!(hot.top()[0].1 * 3 > hot.sampled() * 8 / 10);
    }
}
