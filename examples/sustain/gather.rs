//! Takes the latencies of results, window by window, from all tasks at once.

use crate::tape::Schedule;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg::time::Timestamp;
use thalweg_workloads::Recipe;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    /// The time from the end of a window to that of the next.
    pub(crate) step: Duration,
    /// How many windows are not looked at in the beginning.
    pub(crate) warm: usize,
    /// How many are.
    pub(crate) windows: usize,
    /// Whether only one microsecond's results in sixteen are timed: where a result comes of nearly every
    /// event, to ask the clock for each would be what is measured.
    pub(crate) sampled: bool,
}

/// The latencies of one run.
pub(crate) struct Gather {
    watched: Watched,
    schedule: Arc<Schedule>,
    /// A thread writes into a part of its own, as long as there are no more of them.
    parts: Vec<Mutex<Part>>,
    /// The greatest timestamp of any result, after the schedule's beginning.
    latest: AtomicI64,
}

#[derive(Clone)]
struct Part {
    /// The number of results and the sum of their latencies in microseconds.
    windows: Vec<(u64, u64)>,
    latencies: Histogram,
}

/// How latencies were.
pub(crate) struct Latencies {
    /// The mean of each window's results in milliseconds.
    pub(crate) windows: Vec<Option<f64>>,
    /// How many results were timed.
    pub(crate) timed: u64,
    /// The 50th, 99th and 100th percentile of all in milliseconds, if there are any.
    pub(crate) percentiles: Option<[f64; 3]>,
}

const PARTS: usize = 16;

impl Gather {
    pub(crate) fn new(watched: Watched, schedule: Arc<Schedule>) -> Self {
        let part = Part { windows: vec![(0, 0); watched.windows], latencies: Histogram::default() };
        let parts = (0..PARTS).map(|_| Mutex::new(part.clone())).collect();
        Self { watched, schedule, parts, latest: AtomicI64::new(0) }
    }

    /// Notes that a result is emitted.
    #[inline]
    pub(crate) fn note(&self, at: Timestamp) {
        let after = at.as_micros() - Recipe::START;
        if self.watched.sampled && after % 16 != 0 {
            return;
        }
        self.take(after, self.schedule.elapsed());
    }

    fn take(&self, after: i64, now: Duration) {
        if after > self.latest.load(Ordering::Relaxed) {
            self.latest.fetch_max(after, Ordering::Relaxed);
        }
        let latency = (now.as_micros() as i64 - after).max(0) as u64;
        let window = after as u128 / self.watched.step.as_micros();
        let Some(window) = (window as usize).checked_sub(self.watched.warm) else { return };
        let mut part = lock(&self.parts[mine()]);
        let Some((count, sum)) = part.windows.get_mut(window) else { return };
        (*count, *sum) = (*count + 1, *sum + latency);
        part.latencies.take(latency);
    }

    /// How far the results have come.
    pub(crate) fn latest(&self) -> Duration {
        Duration::from_micros(self.latest.load(Ordering::Relaxed).unsigned_abs())
    }

    /// What there is so far.
    pub(crate) fn latencies(&self) -> Latencies {
        let mut all = vec![(0, 0); self.watched.windows];
        let mut histogram = Histogram::default();
        for part in &self.parts {
            let part = lock(part);
            for ((count, sum), (more, longer)) in all.iter_mut().zip(&part.windows) {
                (*count, *sum) = (*count + more, *sum + longer);
            }
            histogram.add(&part.latencies);
        }
        let mean = |(count, sum): (u64, u64)| (count > 0).then(|| sum as f64 / count as f64 / 1e3);
        let percentile = |share| histogram.percentile(share).map(|micros| micros as f64 / 1e3);
        let percentiles = [0.5, 0.99, 1.0].map(percentile);
        Latencies {
            timed: all.iter().map(|(count, _)| count).sum(),
            windows: all.into_iter().map(mean).collect(),
            percentiles: match percentiles {
                [Some(p50), Some(p99), Some(max)] => Some([p50, p99, max]),
                _ => None,
            },
        }
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // Sums and counts are whole whenever a thread may panic.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part that this thread writes into.
fn mine() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
    }
    MINE.with(|mine| *mine)
}

/// Numbers, counted by their first six bits: exact to 3%.
#[derive(Clone, Default)]
struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    fn take(&mut self, number: u64) {
        let bucket = Self::bucket(number);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    fn add(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    fn bucket(number: u64) -> usize {
        let shift = (64 - number.leading_zeros()).saturating_sub(6);
        (u64::from(shift) * 32 + (number >> shift)) as usize
    }

    /// The middle of a bucket.
    fn number(bucket: usize) -> u64 {
        let shift = (bucket / 32).saturating_sub(1) as u32;
        let first = (bucket as u64 - u64::from(shift) * 32) << shift;
        first + (1 << shift) / 2
    }

    fn percentile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let mut left = ((all as f64 * share).ceil() as u64).max(1);
        let bucket = self.counts.iter().position(|count| {
            let reached = left <= *count;
            left = left.saturating_sub(*count);
            reached
        });
        bucket.map(Self::number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(warm: usize, windows: usize) -> Gather {
        let watched = Watched { step: Duration::from_millis(10), warm, windows, sampled: false };
        Gather::new(watched, Arc::new(Schedule::new(1.0, Duration::from_secs(1))))
    }

    #[test]
    fn results_belong_to_the_window_of_their_timestamps() {
        let gather = gather(1, 3);
        let millis = Duration::from_millis;
        // Windows 0 and 4 are not looked at; window 3, the last, has no result.
        for (after, now) in [(9_999, 12), (10_000, 14), (19_998, 22), (29_999, 35), (40_000, 99)] {
            gather.take(after, millis(now));
        }
        let seen = gather.latencies();
        assert_eq!(seen.windows, [Some(3.001), Some(5.001), None]);
        assert_eq!((seen.timed, gather.latest()), (3, millis(40)));
        let [p50, p99, max] = seen.percentiles.unwrap();
        assert!((3.9..4.1).contains(&p50) && (4.9..5.2).contains(&p99) && p99 == max);
    }

    #[test]
    fn no_results_have_no_latencies() {
        let seen = gather(0, 2).latencies();
        assert_eq!((seen.windows, seen.timed, seen.percentiles), (vec![None, None], 0, None));
    }

    #[test]
    fn threads_are_put_together() {
        let gather = gather(0, 1);
        std::thread::scope(|scope| {
            for n in 0..40 {
                let gather = &gather;
                scope.spawn(move || gather.take(0, Duration::from_millis(n)));
            }
        });
        let seen = gather.latencies();
        assert_eq!((seen.timed, seen.windows), (40, vec![Some(19.5)]));
    }

    #[test]
    fn buckets_are_in_order_and_near() {
        for number in (0..2000).chain((11..64).map(|n| 1 << n)) {
            let bucket = Histogram::bucket(number);
            let near = Histogram::number(bucket);
            assert!(near.abs_diff(number) as f64 <= number as f64 * 0.032, "{number}: {near}");
            let before = number.saturating_sub(1);
            assert!((0..=1).contains(&(bucket - Histogram::bucket(before))), "{number}");
        }
    }
}
