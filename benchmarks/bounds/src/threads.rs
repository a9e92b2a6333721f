//! Running the same work on several threads.

use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Runs `work(index)` on `count` threads, one of them the caller's, and returns their results in
/// order.
pub(crate) fn on_each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..count).map(|index| scope.spawn(move || work(index))).collect();
        let mut results = vec![work(0)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Where threads that stay for all rounds wait for one another: spinning at first, as long as it takes to wake up, and
/// then asleep, since a thread that spins for longer may keep from its core the one that it waits for.
pub(crate) struct Meeting {
    count: usize,
    arrived: AtomicUsize,
    /// How often all have met. Written with the lock held.
    times: AtomicUsize,
    sleepers: Mutex<()>,
    met: Condvar,
}

impl Meeting {
    /// How often a thread looks before it sleeps.
    const PATIENCE: u32 = 1 << 9;

    /// A place for so many threads.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            arrived: AtomicUsize::new(0),
            times: AtomicUsize::new(0),
            sleepers: Mutex::default(),
            met: Condvar::new(),
        }
    }

    /// Waits until all threads are here. What each did before, all others see behind it.
    pub(crate) fn wait(&self) {
        self.wait_after(|| {});
    }

    /// The same; the last to come does something before the others go on.
    pub(crate) fn wait_after(&self, last: impl FnOnce()) {
        let times = self.times.load(Ordering::Relaxed);
        let waiting = || self.times.load(Ordering::Acquire) == times;
        let lock = || self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            let sleepers = lock();
            self.times.store(times + 1, Ordering::Release);
            drop(sleepers);
            self.met.notify_all();
            return;
        }
        for _ in 0..Self::PATIENCE {
            if !waiting() {
                return;
            }
            spin_loop();
        }
        let sleeping = self.met.wait_while(lock(), |()| waiting());
        drop(sleeping.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Pieces of work that go to whichever thread is free, for rounds that all threads go through together.
pub(crate) struct Pieces {
    next: AtomicUsize,
    total: usize,
    size: usize,
}

impl Pieces {
    /// `0..total` in pieces of `size`.
    pub(crate) fn new(total: usize, size: usize) -> Self {
        Self { next: AtomicUsize::new(0), total, size }
    }

    /// The next one, if any is left.
    pub(crate) fn take(&self) -> Option<Range<usize>> {
        let begin = self.next.fetch_add(self.size, Ordering::Relaxed);
        (begin < self.total).then(|| begin..self.total.min(begin + self.size))
    }

    /// All of them again. No thread may be taking one.
    pub(crate) fn again(&self) {
        self.next.store(0, Ordering::Relaxed);
    }
}

/// The `index`-th of `count` parts of `0..total`, as even as can be.
pub(crate) fn part(total: u64, index: usize, count: usize) -> Range<u64> {
    let at = |index: usize| (u128::from(total) * index as u128 / count as u128) as u64;
    at(index)..at(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_meet_see_what_the_others_did() {
        for count in 1..4 {
            let (meeting, sum) = (Meeting::new(count), AtomicUsize::new(0));
            on_each(count, |_| {
                for round in 1..=100 {
                    sum.fetch_add(1, Ordering::Relaxed);
                    meeting.wait_after(|| assert_eq!(sum.load(Ordering::Relaxed), round * count));
                    assert!(sum.load(Ordering::Relaxed) >= round * count);
                }
            });
        }
    }

    #[test]
    fn each_piece_is_taken_once_a_round() {
        let (pieces, sum, meeting) = (Pieces::new(1001, 10), AtomicUsize::new(0), Meeting::new(3));
        on_each(3, |_| {
            for _ in 0..5 {
                while let Some(piece) = pieces.take() {
                    sum.fetch_add(piece.sum::<usize>(), Ordering::Relaxed);
                }
                meeting.wait_after(|| pieces.again());
            }
        });
        assert_eq!(sum.into_inner(), 5 * 1001 * 500);
    }

    #[test]
    fn parts_cover_the_whole_once() {
        for total in [0, 1, 7, 1000] {
            for count in 1..9 {
                let all: Vec<u64> =
                    (0..count).flat_map(|index| part(total, index, count)).collect();
                assert_eq!(all, (0..total).collect::<Vec<_>>());
            }
        }
    }
}
