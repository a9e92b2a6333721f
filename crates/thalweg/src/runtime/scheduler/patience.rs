//! Whether it pays to search for work before parking.
//!
//! Waking a parked thread costs about as much as a search of [`SEARCH`]. A search pays where work usually arrives within
//! that time, and costs as much again where it does not: a job with a record now and then would otherwise keep threads
//! busy with searches. Each thread predicts its next wait by those before, as a branch predictor does: two long waits end
//! the searches, two short ones resume them. A wait counts whether the thread searched or was parked, so there is nothing
//! to try out.

use crate::clock::Nanos;

/// How long a thread searches before it parks: 20 µs, about the cost of waking it again.
pub(super) const SEARCH: Nanos = 20_000;

/// A predictor of a thread's waits for work.
pub(super) struct Patience {
    /// From 0, for long waits, to [`MOST`](Self::MOST).
    score: u8,
}

impl Patience {
    const MOST: u8 = 3;

    pub(super) fn new() -> Self {
        Self { score: Self::MOST }
    }

    /// Whether to search.
    pub(super) fn searches(&self) -> bool {
        self.score > Self::MOST / 2
    }

    /// A wait has ended. `after` is the time until another thread added work; `None` if none did.
    pub(super) fn waited(&mut self, after: Option<Nanos>) {
        self.score = match after {
            Some(after) if after < SEARCH => Self::MOST.min(self.score + 1),
            _ => self.score.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_long_waits_end_the_searches_and_two_short_ones_resume_them() {
        let mut patience = Patience::new();
        let mut waits = |after, times: usize| {
            (0..times).for_each(|_| patience.waited(after));
            patience.searches()
        };
        assert!(waits(None, 1), "one long wait among short ones changes nothing");
        assert!(!waits(Some(SEARCH), 1));
        assert!(!waits(None, 100));
        assert!(!waits(Some(0), 1));
        assert!(waits(Some(SEARCH - 1), 1));
        assert!(waits(Some(0), 100));
        assert!(waits(None, 1));
    }
}
