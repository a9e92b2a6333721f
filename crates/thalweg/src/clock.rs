//! The only access to the clock, so that tests can replace it.

#![expect(clippy::disallowed_methods, reason = "the door to time")]

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since a clock was created.
pub(crate) type Nanos = u64;

/// A clock. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock, and the time of day when it was created.
    System(Instant, Timestamp),
    /// A simulated clock, which advances only when it is set.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub(crate) fn system() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::System(Instant::now(), Timestamp::default().saturating_add(since))
    }

    pub(crate) fn simulated() -> Self {
        Self::Virtual(Arc::new(AtomicU64::new(0)))
    }

    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::System(origin, _) => origin.elapsed().as_nanos() as Nanos,
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// The time of day; a virtual clock begins in 1970. Does not jump when the system's clock is set.
    pub(crate) fn wall(&self) -> Timestamp {
        let began = match self {
            Self::System(_, began) => *began,
            Self::Virtual(_) => Timestamp::default(),
        };
        began.saturating_add(Duration::from_nanos(self.now()))
    }

    /// The same in nanoseconds since 1970, for hosts that compare their clocks: the time of day, so that the difference of two clocks is that
    /// of the machines', and not of when the processes started.
    pub(crate) fn stamp(&self) -> Nanos {
        self.stamp_of(self.now())
    }

    /// The [stamp](Self::stamp) of a time of this clock.
    pub(crate) fn stamp_of(&self, now: Nanos) -> Nanos {
        let began = match self {
            Self::System(_, began) => u64::try_from(began.as_micros()).unwrap_or(0),
            Self::Virtual(_) => 0,
        };
        began.saturating_mul(1000).saturating_add(now)
    }

    /// Advances a virtual clock to `to`; has no effect on a system clock.
    pub(crate) fn advance_to(&self, to: Nanos) {
        if let Self::Virtual(now) = self {
            now.fetch_max(to, Ordering::Relaxed);
        }
    }
}

/// A duration in nanoseconds, saturating.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}
