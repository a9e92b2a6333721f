//! Hot keys: the most frequent keys of a stream, estimated from a sample.

use crate::data::Key;

/// At first, one record in this many is sampled.
const FIRST_EVERY: u64 = 251;
/// The sparsest sampling: one record in this many.
const LAST_EVERY: u64 = 16_273;
/// The sampling interval doubles after this many samples.
const PLENTY: u32 = 1024;
/// The number of keys counted at a time.
const KEPT: usize = 64;

/// The most frequent keys of a stream, found in a sample with bounded memory.
///
/// When the sample has more than [`KEPT`] keys, the least frequent is replaced, as in the space-saving algorithm of
/// Metwally et al.: a key with more than 1/64 of the records is found. Sampling becomes sparser as the stream grows;
/// each sample is weighted by the records that it represents.
pub(crate) struct HotKeys {
    seen: u64,
    /// The number of records seen at which the next sample is due.
    due: u64,
    /// The records that the samples represent: all up to the last sample.
    sampled: u64,
    /// The sampling interval, in records.
    every: u64,
    until_sparser: u32,
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
            seen: 0,
            due: FIRST_EVERY,
            sampled: 0,
            every: FIRST_EVERY,
            until_sparser: PLENTY,
            keys: Vec::new(),
        }
    }
}

impl HotKeys {
    /// Counts records without sampling; the caller calls [`sample`](Self::sample) when it [is due](Self::is_due).
    #[inline(always)]
    pub(crate) fn pass(&mut self, records: u64) {
        self.seen += records;
    }

    /// Counts a record, and samples it if a sample is due.
    #[inline(always)]
    pub(crate) fn see<K: Key + ?Sized>(&mut self, hash: u64, key: &K) {
        self.pass(1);
        if self.is_due() {
            // A copy, so that the record of which the key is a part may stay in registers.
            let mut arena = K::Arena::default();
            let slot = key.store(key.probe(), &mut arena);
            self.sample(hash, || K::view(&slot, &arena, |key| format!("{key:?}")));
        }
    }

    /// Whether a sample is due.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.seen >= self.due
    }

    /// Adds a record to the sample; it represents all records since the last sample.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample(&mut self, hash: u64, show: impl FnOnce() -> String) {
        let records = self.seen - self.sampled;
        self.sampled = self.seen;
        self.until_sparser -= 1;
        if self.until_sparser == 0 {
            self.until_sparser = PLENTY;
            self.every = (self.every * 2 + 1).min(LAST_EVERY);
        }
        self.due = self.seen + self.every;
        if let Some(seen) = self.keys.iter_mut().find(|seen| seen.hash == hash) {
            seen.count += records;
        } else if self.keys.len() < KEPT {
            self.keys.push(Seen { hash, count: records, key: show() });
        } else if let Some(least) = self.keys.iter_mut().min_by_key(|seen| seen.count) {
            *least = Seen { hash, count: least.count + records, key: show() };
        }
    }

    /// The number of records seen so far.
    #[inline(always)]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The number of records that the sample represents.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampled
    }

    /// The keys in the sample, most frequent first, each with the number of records that it represents.
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
            hot.see(key, &key);
        }
        assert_eq!(hot.top()[0].0, "7");
        assert!(hot.top()[0].1 * 3 > hot.sampled() * 8 / 10);
    }

    #[test]
    fn sampling_once_a_batch_finds_it_too() {
        let (mut single, mut batched) = (HotKeys::default(), HotKeys::default());
        let keys: Vec<u64> = (0..1_000_000).map(|i| i * i % 37).collect();
        for key in &keys {
            single.see(*key, key);
        }
        for batch in keys.chunks(100) {
            batched.pass(batch.len() as u64);
            if batched.is_due() {
                batched.sample(batch[0], || batch[0].to_string());
            }
        }
        assert_eq!((single.seen(), batched.seen()), (1_000_000, 1_000_000));
        let share = |hot: &HotKeys| hot.top()[0].1 as f64 / hot.sampled() as f64;
        assert!((share(&single) - share(&batched)).abs() < 0.02);
    }
}
