//! Signs of life between hosts: when one is due, and for how long another host has sent none.
//!
//! Both go by the clock, and not by how often a thread has run. A thread that has stood still, as where its process was stopped or had
//! no processor, does once what was due meanwhile. The time by which it is late does not count as silence of other hosts: it has
//! not read what they have sent by then, and where all hosts stood still they have sent nothing.
//!
//! Here are only numbers: no thread, and the clock is read by the caller.

use crate::clock::{Nanos, nanos};
use std::time::Duration;

/// What is due again and again.
pub(crate) struct Periodic {
    every: Nanos,
    next: Nanos,
}

impl Periodic {
    /// Due for the first time after `every` from now.
    pub(crate) fn new(every: Duration, now: Nanos) -> Self {
        let every = nanos(every);
        Self { every, next: now.saturating_add(every) }
    }

    /// When it is due next.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// If it is due, by how much it is late; it is due again after its period from now.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let late = now.checked_sub(self.next)?;
        self.next = now.saturating_add(self.every);
        Some(late)
    }
}

/// For how long a host has been silent from which something has `arrived` last at this time, as seen by a look that is late by so
/// much. That is not counted, in this look and in later ones.
pub(crate) fn silence(arrived: &mut Nanos, late: Nanos, now: Nanos) -> Nanos {
    *arrived = arrived.saturating_add(late).min(now);
    now.saturating_sub(*arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST_AFTER: Nanos = 10_000;
    const EVERY: Duration = Duration::from_nanos(LOST_AFTER / 4);
    const TICK: Nanos = 20;

    /// When a host is lost to one whose thread runs at these times, and that gets something at those: each time it reads first.
    fn lost(runs: impl Iterator<Item = Nanos>, sent: &[Nanos]) -> Option<Nanos> {
        let (mut looks, mut sent) = (Periodic::new(EVERY, 0), sent.iter().peekable());
        let mut arrived = 0;
        for now in runs {
            while sent.next_if(|at| **at <= now).is_some() {
                arrived = now;
            }
            if let Some(late) = looks.take(now)
                && silence(&mut arrived, late, now) >= LOST_AFTER
            {
                return Some(now);
            }
        }
        None
    }

    /// Every tick up to this time, but for those while the thread stands still.
    fn runs(until: Nanos, still: std::ops::Range<Nanos>) -> impl Iterator<Item = Nanos> {
        (1..)
            .map(|tick| tick * TICK)
            .take_while(move |at| *at <= until)
            .filter(move |at| !still.contains(at))
    }

    #[test]
    fn a_host_that_is_gone_is_lost_at_the_look_after_the_longest_silence() {
        let last = 3_333;
        let lost_at = lost(runs(100_000, 0..0), &[1_000, last]).expect("it is lost");
        let longest = last + LOST_AFTER;
        assert!((longest..longest + LOST_AFTER / 4 + 2 * TICK).contains(&lost_at), "{lost_at}");
        // Where the thread stands still meanwhile, in the time that is left once it runs.
        let lost_at = lost(runs(1_000_000, 5_000..500_000), &[1_000, last]).expect("it is lost");
        assert!((500_000..=500_000 + LOST_AFTER).contains(&lost_at), "{lost_at}");
    }

    #[test]
    fn a_thread_that_stood_still_gives_others_the_time_to_send() {
        // All hosts stand still for long, as on a machine that is suspended, and this one runs first again.
        for at in (2_000..7_000).step_by(500) {
            let still = at..at + 50 * LOST_AFTER;
            let again = still.end + 1_000;
            let sent: Vec<_> = (1..60 * LOST_AFTER / 2_500)
                .map(|number| number * 2_500)
                .map(|due| if (still.start..again).contains(&due) { again } else { due })
                .collect();
            assert_eq!(lost(runs(55 * LOST_AFTER, still), &sent), None, "from {at} on");
        }
    }

    #[test]
    fn signs_of_life_are_due_by_the_clock_however_long_ticks_are() {
        let every = nanos(EVERY);
        for tick in [TICK, 5 * TICK, every - 1, 3 * every] {
            let mut beats = Periodic::new(EVERY, 0);
            let mut before = 0;
            for at in (1..1_000).map(|number| number * tick) {
                assert!(at - before < every + tick, "{at}, after {before}, by ticks of {tick}");
                if beats.take(at).is_some() {
                    before = at;
                }
            }
        }
        // What was missed is not made up for.
        let mut beats = Periodic::new(EVERY, 0);
        let late = [40 * every, 40 * every + TICK, 41 * every - 1, 41 * every];
        assert_eq!(late.map(|at| beats.take(at)), [Some(39 * every), None, None, Some(0)]);
        assert_eq!(beats.next(), 42 * every);
    }
}
