//! How much is held of all partitions of a fetcher together: no more than is reserved for them, but for what the job may need to go on.
//!
//! A broker sends at least one batch as it was written, to the first partition of a request that has any. It may be longer than the
//! partition's share, so with many partitions whose shares are small, a batch of each would be many times what is reserved. As long
//! as that is used up, nothing is requested, and tasks read what there is. They may wait for other partitions before that, as those
//! that are aligned do: so where nothing is read for a [`PAUSE`], partitions of which nothing is held are requested all the same,
//! by one request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What may be held beyond what is reserved, so that few partitions with long batches do not wait for each other.
pub(super) const BEYOND: usize = 8 << 20;
/// How long nothing is read before more is requested than there is room for.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Budget {
    reserved: AtomicUsize,
    /// In queues, being read, and requested.
    held: AtomicUsize,
    /// Whether partitions were passed over, as all is used up.
    is_short: AtomicBool,
    /// Since when nothing was read while it was so.
    since: Mutex<Option<Instant>>,
}

impl Budget {
    /// A partition begins, for which so much is reserved.
    pub(super) fn begin(&self, reserved: usize) {
        self.reserved.fetch_add(reserved, Ordering::SeqCst);
    }

    /// A partition ends, of which so much is held.
    pub(super) fn end(&self, reserved: usize, held: usize) {
        self.reserved.fetch_sub(reserved, Ordering::SeqCst);
        self.held.fetch_sub(held, Ordering::SeqCst);
    }

    pub(super) fn hold(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    /// So much of a partition was read, and all that it had or not. Returns whether to look again, as partitions were passed over:
    /// there is room, or this one has nothing any more, which is requested where others wait for it.
    pub(super) fn free(&self, bytes: usize, is_all: bool) -> bool {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        if bytes == 0 || !self.is_short.load(Ordering::SeqCst) {
            return false;
        }
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        (is_all || self.fits(0)) && self.is_short.swap(false, Ordering::SeqCst)
    }

    fn fits(&self, bytes: usize) -> bool {
        let most = self.reserved.load(Ordering::SeqCst).saturating_add(BEYOND);
        let held = self.held.load(Ordering::SeqCst);
        // A batch may be longer than all.
        held == 0 || held.saturating_add(bytes) <= most
    }

    /// Whether nothing was read for so long that a request may go beyond.
    fn may_go_beyond(&self, now: Instant) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let may = now.saturating_duration_since(*since.get_or_insert(now)) >= PAUSE;
        if may {
            *since = Some(now);
        }
        may
    }
}

/// The room for a request, until it is answered.
pub(super) struct Asking {
    budget: Arc<Budget>,
    now: Instant,
    bytes: usize,
    /// Whether it may go beyond what there is room for, once that was needed.
    goes_beyond: Option<bool>,
    /// Whether a partition was passed over.
    is_short: bool,
}

impl Asking {
    pub(super) fn new(budget: &Arc<Budget>, now: Instant) -> Self {
        Self { budget: Arc::clone(budget), now, bytes: 0, goes_beyond: None, is_short: false }
    }

    /// Whether so many bytes of a partition may be requested, of which something is held or not.
    pub(super) fn may_ask(&mut self, bytes: usize, is_any_held: bool) -> bool {
        let fits = self.budget.fits(bytes) || {
            self.budget.is_short.store(true, Ordering::SeqCst);
            // What was read before that has waked no thread.
            self.budget.fits(bytes)
        };
        let goes_beyond = !fits && !is_any_held && {
            let decide = || self.budget.may_go_beyond(self.now);
            *self.goes_beyond.get_or_insert_with(decide)
        };
        if fits || goes_beyond {
            self.budget.hold(bytes);
            self.bytes += bytes;
        }
        self.is_short |= !fits && !goes_beyond;
        fits || goes_beyond
    }

    /// When to look again, if a partition was passed over: all that the task reads next may be of it by then.
    pub(super) fn again(&self) -> Option<Instant> {
        self.is_short.then(|| self.now + PAUSE)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}
