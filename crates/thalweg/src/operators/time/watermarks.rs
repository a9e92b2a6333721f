//! How far event time has come, judged by the timestamps seen so far.

use crate::time::Timestamp;
use std::time::Duration;

/// Judges, for one partition of a source, below which timestamp no more records are to be expected.
///
/// Two ways to judge are ready: [`Watermarks::monotonous`] and [`Watermarks::bounded_disorder`]. Another
/// is a value that is cloned for every partition; a file is read in pieces, possibly several at once, and each
/// piece has a clone.
pub trait WatermarkGenerator: Clone + Send + Sync + 'static {
    /// Sees the timestamp of a record.
    fn observe(&mut self, at: Timestamp);

    /// No later record is expected to have a timestamp below this one; `None` while nothing can be
    /// said. Asked between batches. An answer below an earlier one changes nothing: what was promised
    /// holds. [`Timestamp::MAX`] counts as the moment before it, as only the end of the input ends time.
    fn watermark(&self) -> Option<Timestamp>;
}

/// What a generator says, as it is passed on: a watermark never reaches the last timestamp, so that what is due
/// there, which may stand for anything beyond it, waits for the end of the input.
pub(super) fn watermark_of(generator: &impl WatermarkGenerator) -> Option<Timestamp> {
    const LAST: Timestamp = Timestamp::from_micros(i64::MAX - 1);
    generator.watermark().map(|at| at.min(LAST))
}

/// How the watermarks of a stream are made; for
/// [`Stream::assign_timestamps`](crate::Stream::assign_timestamps).
#[derive(Clone, Debug)]
pub struct Watermarks<G> {
    pub(super) generator: G,
    pub(super) idle_after: Option<Duration>,
    pub(super) drift: Option<Duration>,
}

impl Watermarks<Disorder> {
    /// Timestamps never decrease within a partition. A record that breaks this is late.
    pub fn monotonous() -> Self {
        Self::bounded_disorder(Duration::ZERO)
    }

    /// Within a partition, no record comes after another one whose timestamp is more than `by` above
    /// its own. A record that breaks this is late. The more disorder is allowed, the longer windows
    /// wait before they close.
    pub fn bounded_disorder(by: Duration) -> Self {
        Self::generated_by(Disorder { by, greatest: None })
    }
}

impl<G: WatermarkGenerator> Watermarks<G> {
    /// As a generator says, of which every partition, or piece of a file, gets a clone.
    pub fn generated_by(generator: G) -> Self {
        Self { generator, idle_after: None, drift: None }
    }

    /// A partition that has had no record for so long holds back no watermark until it has one
    /// again. That record may be late then.
    ///
    /// Without this, watermarks wait for partitions without records, however long. A partition whose
    /// receivers are slow is never idle.
    pub fn idle_after(mut self, quiet: Duration) -> Self {
        self.idle_after = Some(quiet);
        self
    }

    /// No partition goes on while its watermark is more than `most` ahead of that of the last one: what
    /// windows hold open is bounded, however different the partitions' speeds.
    ///
    /// Tasks that read files are kept together, each with the file that it reads; files advance together in any
    /// case, since the one with the least watermark is read next.
    ///
    /// All wait for a partition that has no record yet, unless [`idle_after`](Self::idle_after) says
    /// how long, or it ends. A partition that waits is not idle.
    pub fn aligned(mut self, most: Duration) -> Self {
        self.drift = Some(most);
        self
    }
}

/// The greatest timestamp so far, less a bound.
#[derive(Clone, Debug)]
pub struct Disorder {
    by: Duration,
    greatest: Option<Timestamp>,
}

impl WatermarkGenerator for Disorder {
    #[inline(always)]
    fn observe(&mut self, at: Timestamp) {
        // Written only when it changes, so that it can stay in a register.
        if self.greatest.is_none_or(|greatest| at > greatest) {
            self.greatest = Some(at);
        }
    }

    fn watermark(&self) -> Option<Timestamp> {
        Some(self.greatest?.saturating_sub(self.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_stay_within_time() {
        let of = |at: i64, by: Duration| {
            let mut disorder = Watermarks::bounded_disorder(by).generator;
            disorder.observe(Timestamp::from_micros(at));
            watermark_of(&disorder).map(Timestamp::as_micros)
        };
        assert_eq!(of(i64::MAX, Duration::ZERO), Some(i64::MAX - 1));
        assert_eq!(of(i64::MAX, Duration::from_micros(2)), Some(i64::MAX - 2));
        assert_eq!(of(i64::MAX, Duration::MAX), Some(i64::MIN));
        assert_eq!(of(i64::MIN, Duration::ZERO), Some(i64::MIN));
        assert_eq!(of(i64::MIN + 1, Duration::MAX), Some(i64::MIN));
        assert_eq!(watermark_of(&Watermarks::monotonous().generator), None);
    }
}
