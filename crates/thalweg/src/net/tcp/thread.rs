//! The network's thread, and when it leaves reading to the threads that run tasks.
//!
//! It waits for what arrives. But a thread that waits is woken by every few frames, on a core that has tasks to run: that costs
//! both hosts as much as the frames themselves. So after it has read [`MUCH`] at once while a thread that runs tasks is awake, it
//! naps for a millisecond at most, and those threads read between turns. The last one that runs out of work ends the nap. If
//! they have read little meanwhile, the network's thread waits again.

use super::Shared;
use crate::clock::{Nanos, nanos};
use crate::sync::{AtomicBool, Ordering, lock, park};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// How long a host that leaves waits for the others to take what it has sent.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);
/// The bytes from which on the threads that run tasks read: those of some batches.
pub(super) const MUCH: usize = 64 << 10;
/// How long the network's thread naps: as long as frames are held.
const NAP: Duration = Duration::from_millis(1);

/// Whether the network's thread naps.
#[derive(Default)]
pub(super) struct Nap {
    is_on: AtomicBool,
    /// Whether threads that run tasks are awake, and read meanwhile.
    is_attended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Nap {
    /// Sets whether threads that run tasks are awake. If not, the network's thread does not nap: either it sees that here
    /// before it sleeps, or it is woken.
    pub(super) fn set_attended(&self, attended: bool) {
        if self.is_attended.load(Ordering::SeqCst) == attended {
            return;
        }
        self.is_attended.store(attended, Ordering::SeqCst);
        if !attended {
            self.end();
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    /// Wakes the network's thread if it naps.
    pub(super) fn end(&self) {
        if self.is_on()
            && self.is_on.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Naps, if other threads read meanwhile. Returns whether nobody ended the nap.
    fn take(&self) -> bool {
        if !self.is_attended.load(Ordering::SeqCst) {
            return false;
        }
        self.is_on.store(true, Ordering::SeqCst);
        if self.is_attended.load(Ordering::SeqCst) {
            park(NAP);
        }
        self.is_on.swap(false, Ordering::SeqCst)
    }
}

/// Serves the connections until this host has left.
pub(super) fn run(shared: &Arc<Shared>) {
    let _ = shared.nap.thread.set(std::thread::current());
    let clock = &shared.clock;
    let mut leaves_at = None;
    let mut napped = false;
    loop {
        let mut reading = lock(&shared.reading);
        let until = if napped { 0 } else { leaves_at.unwrap_or(Nanos::MAX) };
        if let Err(why) = reading.turn(shared, until) {
            return reading.lose_all(shared, &why);
        }
        let much = reading.take_read() >= MUCH;
        let all_closed = reading.all_closed();
        drop(reading);
        if shared.leaving.load(Ordering::Acquire) {
            let at = *leaves_at.get_or_insert(clock.now().saturating_add(nanos(FAREWELL)));
            if all_closed || clock.now() >= at {
                return;
            }
        }
        napped = much && shared.nap.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_is_taken_only_while_others_read_and_ends_when_they_rest() {
        let nap = Nap::default();
        let _ = nap.thread.set(std::thread::current());
        assert!(!nap.take() && !nap.is_on(), "nobody reads meanwhile");
        nap.set_attended(true);
        // The other thread may be too late for some of the naps.
        let ended = (0..10_000).any(|_| {
            nap.set_attended(true);
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !nap.is_on() && !is_over.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    nap.set_attended(false);
                });
                let undisturbed = nap.take();
                is_over.store(true, Ordering::SeqCst);
                !undisturbed
            })
        });
        assert!(ended, "no nap ends before its time");
    }
}
