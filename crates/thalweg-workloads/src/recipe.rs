//! The parameters of a stream of events: its seed and its rate in event time. Pure arithmetic.

use std::num::NonZeroU64;

/// The time of event 0: 2015-07-15, midnight UTC, in microseconds since 1970. A whole number of
/// days, so that windows of up to a day begin there.
pub const START: i64 = 1_436_918_400 * crate::SECOND;

/// The seed and the rate, which together with an event's number determine the event.
///
/// Use [`nexmark::recipe`](crate::nexmark::recipe) or [`ysb::recipe`](crate::ysb::recipe) for the benchmark's own
/// rate: answers can be compared only if seed and rate are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of events per second of event time.
    pub rate: NonZeroU64,
}

impl Recipe {
    /// The time of event 0.
    pub const START: i64 = START;

    /// The time of event `number`: `number / rate` seconds after [`Recipe::START`], rounded down to microseconds.
    /// Times never decrease with the number, and saturate at the greatest time.
    ///
    /// ```
    /// use thalweg_workloads::{Recipe, SECOND, nexmark};
    ///
    /// let recipe = nexmark::recipe(1);
    /// assert_eq!(recipe.time(25_000) - Recipe::START, 5 * SECOND / 2);
    /// ```
    #[inline]
    pub fn time(&self, number: u64) -> i64 {
        START.saturating_add(self.span(number))
    }

    /// The duration of `events` in event time, in microseconds.
    #[inline]
    pub(crate) fn span(&self, events: u64) -> i64 {
        // A division of 64 bits is several times as fast, and sufficient for 18 trillion events.
        let span = match events.checked_mul(1_000_000) {
            Some(scaled) => scaled / self.rate,
            None => {
                let span = u128::from(events) * 1_000_000 / u128::from(self.rate.get());
                u64::try_from(span).unwrap_or(u64::MAX)
            }
        };
        i64::try_from(span).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_never_decrease_and_stop_at_the_last() {
        let recipe = Recipe { seed: 0, rate: NonZeroU64::new(3).unwrap() };
        assert_eq!(recipe.time(0), START);
        assert_eq!(recipe.time(1), START + 333_333);
        assert_eq!(recipe.time(3), START + 1_000_000);
        let turn = u64::MAX / 1_000_000;
        assert!(recipe.time(turn) <= recipe.time(turn + 1));
        assert_eq!(recipe.time(u64::MAX), i64::MAX);
    }

    #[test]
    fn the_start_is_a_whole_day() {
        assert_eq!(START % (86_400 * crate::SECOND), 0);
    }
}
