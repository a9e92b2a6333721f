//! How far the cores are from each other: on a machine that others share, its system may move them at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The round trips of one measurement, and how long it may take where threads wait for a core.
const TRIPS: u64 = 4000;
/// The round trips that are timed at once. The fastest of them count: in others, a thread may have waited for a core.
const AT_ONCE: u64 = 100;
const AT_MOST: Duration = Duration::from_millis(20);
/// Ends the other thread.
const OVER: u64 = u64::MAX;

/// The time in which a cache line goes from one core to another and back, in nanoseconds; `None` on a machine with
/// one core.
pub(super) fn round_trip() -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    // The other thread answers every odd number by the next one.
    let line = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match line.load(Ordering::Acquire) {
                    OVER => return,
                    odd if odd % 2 == 1 => line.store(odd + 1, Ordering::Release),
                    _ => std::hint::spin_loop(),
                }
            }
        });
        let trip = |number: u64| {
            line.store(2 * number + 1, Ordering::Release);
            while line.load(Ordering::Acquire) == 2 * number + 1 {
                std::hint::spin_loop();
            }
        };
        trip(0);
        let (began, mut trips, mut least) = (Instant::now(), 0, f64::INFINITY);
        while trips < TRIPS && began.elapsed() < AT_MOST {
            let before = Instant::now();
            (1..=AT_ONCE).for_each(|number| trip(trips + number));
            trips += AT_ONCE;
            least = least.min(before.elapsed().as_nanos() as f64 / AT_ONCE as f64);
        }
        line.store(OVER, Ordering::Release);
        Some(least)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_time_and_ends() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let trip = round_trip();
        assert_eq!(trip.is_some(), cores > 1);
        assert!(trip.is_none_or(|nanoseconds| nanoseconds > 1.0), "{trip:?}");
    }
}
