//! Loads that keep to a schedule whatever the contestant does, and what its results' latencies come to.

use crate::histogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When records are due: so many a second from the moment at which the schedule begins.
#[derive(Debug)]
pub struct Schedule {
    per_nano: f64,
    began: OnceLock<Instant>,
}

impl Schedule {
    /// So many records a second.
    pub fn new(rate: f64) -> Self {
        Self { per_nano: rate / 1e9, began: OnceLock::new() }
    }

    /// Records a second.
    pub fn rate(&self) -> f64 {
        self.per_nano * 1e9
    }

    /// Begins, unless it has begun already.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// Nanoseconds since it has begun; 0 before.
    #[inline]
    pub fn now(&self) -> u64 {
        self.began.get().map_or(0, |began| began.elapsed().as_nanos() as u64)
    }

    /// When a record is due, in nanoseconds since the beginning.
    #[inline]
    pub fn due(&self, record: u64) -> u64 {
        (record as f64 / self.per_nano) as u64
    }

    /// How many records are due by now.
    #[inline]
    pub fn due_by_now(&self) -> u64 {
        (self.now() as f64 * self.per_nano) as u64 + 1
    }
}

/// How late results are, altogether and by the second in which they were due.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    all: Histogram,
    seconds: Vec<Second>,
}

#[derive(Debug, Clone, Default)]
struct Second {
    nanos: u64,
    latencies: Histogram,
}

impl Trace {
    /// A result that was due then came now, both in nanoseconds since the schedule's beginning.
    #[inline]
    pub fn record(&mut self, due: u64, now: u64) {
        let latency = now.saturating_sub(due);
        self.all.record_nanos(latency);
        let at = (due / 1_000_000_000) as usize;
        if at >= self.seconds.len() {
            self.seconds.resize(at + 1, Second::default());
        }
        let second = &mut self.seconds[at];
        second.nanos += latency;
        second.latencies.record_nanos(latency);
    }

    /// Adds what another has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        let count = self.seconds.len().max(other.seconds.len());
        self.seconds.resize(count, Second::default());
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.nanos += theirs.nanos;
            mine.latencies.merge(&theirs.latencies);
        }
    }

    /// The percentiles of all results.
    pub fn percentiles(&self) -> Vec<(&'static str, f64)> {
        self.all.percentiles()
    }

    /// The mean and the 99th percentile of each second's results, in seconds, and how many there were. Of
    /// a second without results both are 0.
    pub fn series(&self) -> Vec<(&'static str, Vec<f64>)> {
        let of = |number: &dyn Fn(&Second) -> f64| self.seconds.iter().map(number).collect();
        let mean =
            |second: &Second| second.nanos as f64 / 1e9 / second.latencies.count().max(1) as f64;
        vec![
            ("mean_by_second", of(&mean)),
            ("p99_by_second", of(&|second| second.latencies.quantile(0.99))),
            ("results_by_second", of(&|second| second.latencies.count() as f64)),
        ]
    }
}

/// A thread that does nothing but wake up at set times, and how late it is: the least latency that is possible
/// on this machine in this run.
#[derive(Debug)]
pub struct Idle {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Histogram>,
}

impl Idle {
    /// The time from one waking to the next.
    const TICK: Duration = Duration::from_micros(500);

    /// Starts the thread.
    pub fn start() -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut late = Histogram::default();
            let began = Instant::now();
            let mut due = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                due += Self::TICK;
                // A waking that was slept through counts as well, or a long delay would count once.
                if let Some(early) = due.checked_sub(began.elapsed()) {
                    std::thread::sleep(early);
                }
                late.record(began.elapsed().saturating_sub(due));
            }
            late
        });
        Self { stop, thread }
    }

    /// Ends the thread, and says how late it was.
    ///
    /// # Errors
    /// If the thread panicked.
    pub fn stop(self) -> crate::Result<Vec<(&'static str, f64)>> {
        self.stop.store(true, Ordering::Relaxed);
        let late = self.thread.join().map_err(|_| "the idle thread panicked")?;
        Ok(vec![
            ("idle_p50", late.quantile(0.50)),
            ("idle_p99", late.quantile(0.99)),
            ("idle_p999", late.quantile(0.999)),
            ("idle_p9999", late.quantile(0.9999)),
            ("idle_max", late.max()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_goes_by_its_rate() {
        let schedule = Schedule::new(1e6);
        assert_eq!((schedule.now(), schedule.due_by_now()), (0, 1));
        assert_eq!(schedule.due(2_500_000), 2_500_000_000);
        schedule.begin();
        std::thread::sleep(Duration::from_millis(1));
        assert!(schedule.due_by_now() > 1000);
    }

    #[test]
    fn results_count_in_the_second_in_which_they_were_due() {
        let second = 1_000_000_000;
        let (mut trace, mut other) = (Trace::default(), Trace::default());
        trace.record(0, 10);
        trace.record(5, 25);
        other.record(2 * second, 3 * second);
        trace.merge(&other);
        let series = trace.series();
        assert_eq!(series[0], ("mean_by_second", vec![15e-9, 0.0, 1.0]));
        assert_eq!(series[2], ("results_by_second", vec![2.0, 0.0, 1.0]));
        let percentiles = trace.percentiles();
        assert_eq!(percentiles.iter().find(|(name, _)| *name == "max"), Some(&("max", 1.0)));
    }

    #[test]
    fn idle_threads_are_late() {
        let idle = Idle::start();
        std::thread::sleep(Duration::from_millis(10));
        let late = idle.stop().unwrap();
        assert!(late.iter().all(|(_, seconds)| *seconds > 0.0), "{late:?}");
    }
}
