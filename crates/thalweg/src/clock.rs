//! The only access to the clock, so that tests can replace it.

#![expect(clippy::disallowed_methods, reason = "the door to time")]

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use std::sync::{Arc, atomic};
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since a clock was created, or since the one was that it [goes on from](Clock::resume).
pub(crate) type Nanos = u64;

/// A clock. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock when this one was created, and what it counts from.
    System(Instant, Arc<Origin>),
    /// A simulated clock, which advances only when it is set.
    Virtual(Arc<AtomicU64>),
}

/// What a clock counts from. It changes before the tasks of a job run, so models of threads need not know of it.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The time of day at which it began, in microseconds.
    began: atomic::AtomicI64,
    /// How long ago that was when the clock was created.
    ahead: atomic::AtomicU64,
}

/// How far a clock has come, for another one to go on from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The time of day at which it began.
    pub(crate) began: Timestamp,
    pub(crate) now: Nanos,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub(crate) fn system() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began = Timestamp::default().saturating_add(since).as_micros();
        let origin = Origin { began: began.into(), ahead: 0.into() };
        Self::System(Instant::now(), Arc::new(origin))
    }

    pub(crate) fn simulated() -> Self {
        Self::Virtual(Arc::new(AtomicU64::new(0)))
    }

    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::System(created, origin) => {
                created.elapsed().as_nanos() as Nanos + origin.ahead.load(atomic::Ordering::Relaxed)
            }
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// The time of day; a virtual clock begins in 1970. Does not jump when the system's clock is set.
    pub(crate) fn wall(&self) -> Timestamp {
        self.began().saturating_add(Duration::from_nanos(self.now()))
    }

    fn began(&self) -> Timestamp {
        match self {
            Self::System(_, origin) => {
                Timestamp::from_micros(origin.began.load(atomic::Ordering::Relaxed))
            }
            Self::Virtual(_) => Timestamp::default(),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    pub(crate) fn read(&self) -> Reading {
        Reading { began: self.began(), now: self.now() }
    }

    /// Goes on from where a clock was, perhaps of another process: the times that were taken from that one are valid on this
    /// one. As much time has passed as by the time of day, or none if that is earlier here. No task may run meanwhile.
    pub(crate) fn resume(&self, from: Reading) {
        match self {
            Self::Virtual(_) => self.advance_to(from.now),
            Self::System(created, origin) => {
                let now = nanos(self.wall().since(from.began)).max(from.now);
                let elapsed = created.elapsed().as_nanos() as Nanos;
                origin.ahead.store(now.saturating_sub(elapsed), atomic::Ordering::Relaxed);
                origin.began.store(from.began.as_micros(), atomic::Ordering::Relaxed);
            }
        }
    }

    /// The same in nanoseconds since 1970, for hosts that compare their clocks: the time of day, so that the difference of two clocks is that
    /// of the machines', and not of when the processes started.
    pub(crate) fn stamp(&self) -> Nanos {
        self.stamp_of(self.now())
    }

    /// The [stamp](Self::stamp) of a time of this clock.
    pub(crate) fn stamp_of(&self, now: Nanos) -> Nanos {
        let began = u64::try_from(self.began().as_micros()).unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_where_another_one_was() {
        let hour = Duration::from_secs(3600);
        let first = Clock::system().read();
        // As if the other one had begun an hour ago, and this machine's time of day were right.
        let clock = Clock::system();
        clock.resume(Reading { began: first.began.saturating_sub(hour), now: 5 });
        assert!((nanos(hour)..2 * nanos(hour)).contains(&clock.now()), "{}", clock.now());
        assert!(clock.wall() >= first.began && clock.wall() < first.began.saturating_add(hour));
        // As if it had been read an hour from now: time does not go back.
        let clock = Clock::system();
        clock.resume(Reading { began: first.began, now: nanos(hour) });
        assert!((nanos(hour)..2 * nanos(hour)).contains(&clock.now()), "{}", clock.now());
        assert!(clock.wall() >= first.began.saturating_add(hour));
        assert_eq!(
            clock.stamp() / 1_000_000_000_000,
            clock.stamp_of(clock.now()) / 1_000_000_000_000
        );
        let clock = Clock::simulated();
        clock.resume(Reading { now: 7, ..Reading::default() });
        assert_eq!(clock.read(), Reading { now: 7, ..Reading::default() });
    }
}
