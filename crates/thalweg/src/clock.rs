//! The one door to the clock, so that a test can turn its hands.

#![expect(clippy::disallowed_methods, reason = "the door to time")]

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since a clock was made.
pub(crate) type Nanos = u64;

/// Where the engine reads time. Cloning shares the clock.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock, and the time of day when it was begun.
    System(Instant, Timestamp),
    /// A clock that stands still until it is told to move.
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

    /// The time of day; a virtual clock began in 1970. It does not jump when somebody sets the system's.
    pub(crate) fn wall(&self) -> Timestamp {
        let began = match self {
            Self::System(_, began) => *began,
            Self::Virtual(_) => Timestamp::default(),
        };
        began.saturating_add(Duration::from_nanos(self.now()))
    }

    /// Moves a virtual clock forward to `to`; a system clock moves by itself.
    pub(crate) fn advance_to(&self, to: Nanos) {
        if let Self::Virtual(now) = self {
            now.fetch_max(to, Ordering::Relaxed);
        }
    }
}

/// A span in nanoseconds, as long as the clock can count.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}
