//! One pool from which tables, sorts, combiners and buffers reserve what they hold.
//!
//! Nothing allocates through the pool. Whoever holds much says so beforehand, and when the pool
//! refuses, moves something to disk, sends something on, or fails by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A budget in bytes, shared by every job of a runtime. Cloning shares it.
#[derive(Clone, Debug)]
pub struct MemoryPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// Bytes taken from a [`MemoryPool`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
}

impl MemoryPool {
    /// A pool of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Pool { limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }))
    }

    /// The budget in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// The bytes reserved now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were reserved at one time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// A reservation of nothing, to be resized.
    pub fn reserve(&self) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0 }
    }
}

impl Reservation {
    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pool that the bytes come from.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// Makes the reservation `bytes` large. Shrinking always succeeds; growing fails, and changes
    /// nothing, when the pool does not have the difference.
    #[must_use = "a refused reservation must lead to a spill or an error"]
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        let pool = &*self.pool.0;
        if bytes <= self.bytes {
            pool.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return true;
        }
        let more = bytes - self.bytes;
        let taken = pool.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|&sum| sum <= pool.limit)
        });
        if let Ok(before) = taken {
            self.bytes = bytes;
            pool.peak.fetch_max(before + more, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_comes_back() {
        let pool = MemoryPool::new(100);
        let mut a = pool.reserve();
        let mut b = pool.reserve();
        assert!(a.try_resize(60));
        assert!(!b.try_resize(41));
        assert_eq!((b.bytes(), pool.used()), (0, 60));
        assert!(b.try_resize(40));
        drop(a);
        assert_eq!((pool.used(), pool.peak()), (40, 100));
        assert!(b.try_resize(0));
        assert_eq!(pool.used(), 0);
    }
}
