//! Which keys most records have, from a sample.

use std::fmt::Debug;

/// One record in this many is sampled at first.
const FIRST_EVERY: u64 = 251;
/// One in this many once there are plenty.
const LAST_EVERY: u64 = 16_273;
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
    seen: u64,
    /// Records seen when the next sample is due.
    due: u64,
    /// Records that the samples taken stand for: those up to the last of them.
    sampled: u64,
    /// How far apart samples are.
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
    /// Counts records, without sampling one: for [`sample`](Self::sample) to be called when that
    /// [is due](Self::is_due).
    #[inline(always)]
    pub(crate) fn pass(&mut self, records: u64) {
        self.seen += records;
    }

    /// Counts a record, and samples it when that is due.
    #[inline(always)]
    pub(crate) fn see(&mut self, hash: u64, key: &(impl Debug + ?Sized)) {
        self.pass(1);
        if self.is_due() {
            self.sample(hash, || format!("{key:?}"));
        }
    }

    /// Whether enough records have passed for another sample.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.seen >= self.due
    }

    /// Takes a record into the sample; it stands for all since the last one.
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

    /// The records seen so far.
    #[inline(always)]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
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
            hot.see(key, &key);
        }
        assert_eq!(hot.top()[0].0, "7");
        assert!(hot.top()[0].1 * 3 > hot.sampled() * 8 / 10);
    }

    #[test]
    fn a_sample_a_batch_is_as_good() {
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
