//! Estimates of how far the clocks of two hosts are apart, from messages between them, as in NTP (RFC 5905).
//!
//! A host sends a request with the time on its clock. The other host answers with that time, the time on its own clock at which
//! the request arrived, and the time at which the answer leaves. If both messages take equally long, the offset of the clocks is
//! the mean of the two differences; however long each takes, it differs from that by at most half of the round trip. A message
//! that waits behind data makes the round trip long, so of the last [`KEPT`] exchanges the one with the least uncertainty
//! counts. A sample becomes less certain with time, by [`DRIFT`].
//!
//! Here are only numbers and a lock: no socket, and the clock is read by the caller.

use crate::clock::Nanos;
use crate::sync::{Mutex, lock};

/// The exchanges of which the most certain one counts; so many follow each other without a pause at first.
const KEPT: usize = 8;
/// How much two clocks may drift apart, in nanoseconds a millisecond: 15 ppm, as NTP assumes of clocks that it disciplines.
const DRIFT: Nanos = 15;

/// How far the clock of another host is ahead of this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) nanos: i64,
    /// The most by which that may be wrong.
    pub(crate) uncertainty: Nanos,
}

impl Offset {
    /// How long before `now` on this host's clock the other one's showed `then`; 0 if that was later.
    pub(crate) fn since(self, then: Nanos, now: Nanos) -> Nanos {
        let span = i128::from(now) - (i128::from(then) - i128::from(self.nanos));
        Nanos::try_from(span.max(0)).unwrap_or(Nanos::MAX)
    }
}

/// The times of a request and its answer: the first and the last on the clock of the host that asks.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    asked: Nanos,
    received: Nanos,
    answered: Nanos,
    returned: Nanos,
}

impl Exchange {
    /// The offset that follows; `None` if clocks that run forwards do not show such times.
    fn offset(self) -> Option<Offset> {
        let [asked, received, answered, returned] =
            [self.asked, self.received, self.answered, self.returned].map(i128::from);
        if answered < received {
            return None;
        }
        let round_trip = Nanos::try_from((returned - asked) - (answered - received)).ok()?;
        let nanos = i64::try_from(((received - asked) + (answered - returned)) / 2).ok()?;
        Some(Offset { nanos, uncertainty: round_trip.div_ceil(2) })
    }
}

/// What is known of the clock of another host.
#[derive(Default)]
pub(super) struct RemoteClock(Mutex<State>);

#[derive(Default)]
struct State {
    /// When the request left that has no answer yet.
    asked: Option<Nanos>,
    /// The last samples, each with the time when its answer arrived.
    samples: [Option<(Offset, Nanos)>; KEPT],
    /// How many there were.
    taken: usize,
}

impl RemoteClock {
    /// Begins an exchange; returns whether a request is to be sent. None is while another has no answer, so that no requests
    /// pile up before a connection that takes no bytes.
    pub(super) fn ask(&self, now: Nanos) -> bool {
        let mut state = lock(&self.0);
        let asks = state.asked.is_none();
        if asks {
            state.asked = Some(now);
        }
        asks
    }

    /// Takes an answer; returns whether the next request should follow at once. Times of what was not asked, and times that
    /// make no sense, change nothing.
    pub(super) fn take_answer(
        &self,
        asked: Nanos,
        received: Nanos,
        answered: Nanos,
        now: Nanos,
    ) -> bool {
        let mut state = lock(&self.0);
        if state.asked != Some(asked) {
            return false;
        }
        state.asked = None;
        let exchange = Exchange { asked, received, answered, returned: now };
        let Some(offset) = exchange.offset() else { return false };
        let at = state.taken % KEPT;
        state.samples[at] = Some((offset, now));
        state.taken += 1;
        state.taken < KEPT
    }

    /// The most certain estimate, if there is any.
    pub(super) fn offset(&self, now: Nanos) -> Option<Offset> {
        let state = lock(&self.0);
        let aged = |(offset, at): (Offset, Nanos)| {
            let drift = (now.saturating_sub(at) / 1_000_000).saturating_mul(DRIFT);
            Offset { uncertainty: offset.uncertainty.saturating_add(drift), ..offset }
        };
        state.samples.iter().flatten().copied().map(aged).min_by_key(|offset| offset.uncertainty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;

    /// Exchanges times with a clock that is ahead by `ahead`, over messages that take so long in each direction. Returns when the
    /// answer arrives.
    fn exchange(clock: &RemoteClock, at: Nanos, ahead: i64, there: Nanos, back: Nanos) -> Nanos {
        assert!(clock.ask(at));
        let received = (at + there).checked_add_signed(ahead).unwrap();
        let answered = received + 7;
        let returned = at + there + 7 + back;
        clock.take_answer(at, received, answered, returned);
        returned
    }

    #[test]
    fn equal_delays_give_the_exact_offset() {
        for ahead in [0, 1_204_000, -1_204_000, 5_000_000_000_000, -5_000_000_000_000] {
            let clock = RemoteClock::default();
            let now = exchange(&clock, 9_000_000_000_000, ahead, 30_000, 30_000);
            assert_eq!(clock.offset(now), Some(Offset { nanos: ahead, uncertainty: 30_000 }));
        }
    }

    #[test]
    fn the_true_offset_is_within_the_uncertainty_whatever_the_delays() {
        let mut random = 5;
        let mut draw = |most: u64| splitmix64(&mut random) % most;
        for round in 0..2000 {
            let clock = RemoteClock::default();
            let ahead = draw(2_000_000_000) as i64 - 1_000_000_000;
            let mut at = 5_000_000_000;
            for _ in 0..1 + round % 20 {
                // Most of the time in one direction, or in the other, or one message that waits behind data.
                let [there, back] =
                    [[1, 900_000], [900_000, 1], [40_000, 40_000]][draw(3) as usize];
                let late = if draw(8) == 0 { 50_000_000 } else { 0 };
                at = exchange(&clock, at, ahead, draw(there) + late, draw(back)) + draw(1000);
                let Offset { nanos, uncertainty } = clock.offset(at).unwrap();
                let wrong = nanos.abs_diff(ahead);
                assert!(wrong <= uncertainty, "{nanos} ± {uncertainty} for {ahead}, round {round}");
            }
        }
    }

    #[test]
    fn a_message_that_waits_does_not_change_the_estimate() {
        let clock = RemoteClock::default();
        let mut at = 1_000_000_000;
        for back in [50_000, 40_000, 60_000] {
            at = exchange(&clock, at, 300, 40_000, back);
        }
        let before = clock.offset(at).unwrap();
        assert_eq!(before, Offset { nanos: 300, uncertainty: 40_000 });
        at = exchange(&clock, at, 300, 40_000, 80_000_000);
        let after = clock.offset(at).unwrap();
        // The sample is 80 ms older now.
        assert_eq!(after, Offset { nanos: 300, uncertainty: 40_000 + 80 * DRIFT });
    }

    #[test]
    fn old_samples_give_way() {
        let clock = RemoteClock::default();
        let mut at = exchange(&clock, 1_000_000_000, 0, 10_000, 10_000);
        // The other clock is set, or the first sample is forgotten for its age.
        for _ in 0..KEPT {
            at = exchange(&clock, at, 5_000_000, 20_000, 20_000);
        }
        assert_eq!(clock.offset(at), Some(Offset { nanos: 5_000_000, uncertainty: 20_000 }));
        // A worse sample counts when the better one has drifted further.
        let clock = RemoteClock::default();
        exchange(&clock, 1_000_000_000, 0, 10_000, 10_000);
        let at = exchange(&clock, 101_000_000_000, 1_000_000, 500_000, 500_000);
        assert_eq!(clock.offset(at), Some(Offset { nanos: 1_000_000, uncertainty: 500_000 }));
    }

    #[test]
    fn requests_follow_each_other_until_there_are_enough_samples() {
        let clock = RemoteClock::default();
        assert_eq!(clock.offset(0), None);
        for taken in 1..20 {
            let at = taken as Nanos * 100;
            assert!(clock.ask(at));
            assert!(!clock.ask(at + 1), "the answer is not there");
            assert!(!clock.take_answer(at + 1, 5, 5, at + 9), "that was not asked");
            assert_eq!(clock.take_answer(at, at, at, at + 9), taken < KEPT, "{taken}");
            assert!(!clock.take_answer(at, at, at, at + 9), "it has been answered");
        }
    }

    #[test]
    fn times_that_make_no_sense_are_no_samples() {
        let extremes = [0, 1, 1 << 31, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
        let mut taken = 0;
        for asked in extremes {
            for returned in extremes {
                for received in extremes {
                    for answered in extremes {
                        let clock = RemoteClock::default();
                        assert!(clock.ask(asked));
                        clock.take_answer(asked, received, answered, returned);
                        let Some(offset) = clock.offset(returned) else { continue };
                        taken += 1;
                        assert!(answered >= received && returned >= asked);
                        for (then, now) in extremes.into_iter().zip(extremes.into_iter().rev()) {
                            let _ = (offset.since(then, now), clock.offset(then));
                        }
                    }
                }
            }
        }
        assert!(taken > 100, "{taken}");
    }

    #[test]
    fn spans_between_two_clocks_are_never_negative() {
        let ahead = Offset { nanos: 1000, uncertainty: 0 };
        assert_eq!([1500, 1499, 1700].map(|then| ahead.since(then, 500)), [0, 1, 0]);
        let behind = Offset { nanos: -1000, uncertainty: 0 };
        assert_eq!(behind.since(100, 1500), 400);
        let extreme = Offset { nanos: i64::MIN, uncertainty: 0 };
        assert_eq!([extreme.since(0, u64::MAX), extreme.since(u64::MAX, 0)], [(1 << 63) - 1, 0]);
        assert_eq!(Offset { nanos: i64::MAX, uncertainty: 0 }.since(0, u64::MAX), u64::MAX);
    }
}
