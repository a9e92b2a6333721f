//! Which keys most records have, from a sample.

/// One record in this many is sampled at first.
const FIRST_EVERY: u32 = 251;
/// One in this many once there are plenty.
const LAST_EVERY: u32 = 16_273;
/// Samples after which every second one is enough.
const PLENTY: u32 = 1024;
/// Keys counted at a time.
const KEPT: usize = 64;

/// The most frequent keys of a stream, found in a sample with bounded memory.
///
/// Where more than [`KEPT`] keys are in the sample, the least frequent make room, as in the
/// space-saving algorithm of Metwally et al.: a key with more than 1/64 of the records is found.
/// The longer the stream the sparser the sample; what it counts are the records it stands for.
pub(crate) struct HotKeys {
    until_next: u32,
    /// Records that a sample stands for.
    every: u32,
    until_sparser: u32,
    sampled: u64,
    keys: Vec<Seen>,
}

struct Seen {
    hash: u64,
    count: u64,
    key: String,
}

impl Default for HotKeys {
    fn default() -> Self {
        Self {
            until_next: FIRST_EVERY,
            every: FIRST_EVERY,
            until_sparser: PLENTY,
            sampled: 0,
            keys: Vec::new(),
        }
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

    /// Passes over a batch of records. When the next of the sample is among them, says which it is;
    /// [`sample`](Self::sample) is then to be called with it.
    #[inline(always)]
    pub(crate) fn pass(&mut self, records: usize) -> Option<usize> {
        let before = self.until_next as usize;
        if records < before {
            self.until_next -= records as u32;
            return None;
        }
        Some(before - 1)
    }

    /// Counts a record of the sample.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample(&mut self, hash: u64, show: impl FnOnce() -> String) {
        let records = u64::from(self.every);
        self.sampled += records;
        self.until_sparser -= 1;
        if self.until_sparser == 0 {
            self.until_sparser = PLENTY;
            self.every = (self.every * 2 + 1).min(LAST_EVERY);
        }
        self.until_next = self.every;
        if let Some(seen) = self.keys.iter_mut().find(|seen| seen.hash == hash) {
            seen.count += records;
        } else if self.keys.len() < KEPT {
            self.keys.push(Seen { hash, count: records, key: show() });
        } else if let Some(least) = self.keys.iter_mut().min_by_key(|seen| seen.count) {
            *least = Seen { hash, count: least.count + records, key: show() };
        }
    }

    /// The records that the sample stands for.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampled
    }

    /// The keys seen, most frequent first, each with the records it stands for.
    pub(crate) fn top(&self) -> Vec<(String, u64)> {
        let mut keys: Vec<_> =
            self.keys.iter().map(|seen| (seen.key.clone(), seen.count)).collect();
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

    #[test]
    fn batches_are_sampled_as_single_records_are() {
        let (mut single, mut batched) = (HotKeys::default(), HotKeys::default());
        let keys: Vec<u64> = (0..1_000_000).map(|i| i * i % 37).collect();
        for key in &keys {
            single.see(*key, || key.to_string());
        }
        for batch in keys.chunks(100) {
            if let Some(at) = batched.pass(batch.len()) {
                batched.sample(batch[at], || batch[at].to_string());
            }
        }
        let share = |hot: &HotKeys| hot.top()[0].1 as f64 / hot.sampled() as f64;
        assert!((share(&single) - share(&batched)).abs() < 0.05);
    }
}
