//! The only access to the clock, so that tests can replace it.

#![expect(clippy::disallowed_methods, reason = "the door to time")]

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use std::sync::{Arc, atomic};
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since 1970 on a clock. Those of a simulated one begin at 0.
pub(crate) type Nanos = u64;

/// A clock. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock when this one was created, and the time of day then.
    System(Instant, Arc<Origin>),
    /// A simulated clock, which advances only when it is set.
    Virtual(Arc<AtomicU64>),
}

/// The time of day at which a clock was created, or a later one if it goes on from [where another was](Clock::resume). It changes
/// before the tasks of a job run, so models of threads need not know of it.
type Origin = atomic::AtomicU64;

/// How far a clock has come, for another one to go on from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) is_simulated: bool,
    pub(crate) now: Nanos,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub(crate) fn system() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::System(Instant::now(), Arc::new(nanos(since).into()))
    }

    pub(crate) fn simulated() -> Self {
        Self::Virtual(Arc::new(AtomicU64::new(0)))
    }

    /// The time of day: the machine's when this clock was created, and what has passed since by its monotonic clock. So it does
    /// not jump when the machine's clock is set, and hosts agree on it about as far as their machines do.
    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::System(created, origin) => {
                origin.load(atomic::Ordering::Relaxed) + created.elapsed().as_nanos() as Nanos
            }
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// The same as a timestamp.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::default().saturating_add(Duration::from_nanos(self.now()))
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    pub(crate) fn read(&self) -> Reading {
        Reading { is_simulated: self.is_simulated(), now: self.now() }
    }

    /// Goes on from where a clock was, perhaps that of another machine: it does not go back behind it, so that what was due at
    /// that time is due. No task may run meanwhile.
    pub(crate) fn resume(&self, from: Reading) {
        match self {
            Self::Virtual(_) => self.advance_to(from.now),
            Self::System(_, origin) => {
                let behind = from.now.saturating_sub(self.now());
                origin.fetch_add(behind, atomic::Ordering::Relaxed);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_where_another_one_was() {
        let hour = 3_600_000_000_000;
        let first = Clock::system().read();
        assert!(first.now > 50 * 365 * 24 * hour, "{first:?}");
        // That was an hour ago.
        let clock = Clock::system();
        clock.resume(Reading { now: first.now - hour, ..first });
        assert!((first.now..first.now + hour).contains(&clock.now()), "{clock:?}");
        // As if it had been read an hour from now: time does not go back.
        let later = first.now + hour;
        clock.resume(Reading { now: later, ..first });
        assert!((later..later + hour).contains(&clock.now()), "{clock:?}");
        assert_eq!(clock.wall().as_micros() as u64 / 3_600_000_000, clock.now() / hour);
        let clock = Clock::simulated();
        clock.resume(Reading { is_simulated: true, now: 7 });
        assert_eq!(clock.read(), Reading { is_simulated: true, now: 7 });
    }
}
