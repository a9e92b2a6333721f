//! The timers of a key, in order.
//!
//! The first lies in place: most keys have one timer at most, which then costs no allocation, and no record of the key
//! has to look elsewhere for when the key is due.

use super::context::Due;
use crate::support::keyed_timers::TimerClock;

/// The timers of a key.
#[derive(Debug, Default)]
pub struct TimerSet {
    first: Option<Due>,
    rest: Option<Box<Rest>>,
}

/// The timers after the first, in ascending order; never empty.
#[derive(Debug, Default)]
struct Rest {
    timers: Vec<Due>,
}

impl TimerSet {
    fn rest(&self) -> &[Due] {
        self.rest.as_ref().map_or(&[], |rest| &rest.timers)
    }

    /// The first timer of a clock.
    #[inline(always)]
    pub(super) fn first(&self, clock: TimerClock) -> Option<Due> {
        let first = self.first?;
        if first.clock >= clock {
            return (first.clock == clock).then_some(first);
        }
        let rest = self.rest();
        rest.get(rest.partition_point(|due| due.clock < clock)).copied()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a timer that may be there already.
    pub(super) fn insert(&mut self, due: Due) {
        let later = match &mut self.first {
            None => {
                self.first = Some(due);
                return;
            }
            Some(first) if *first == due => return,
            Some(first) if due < *first => std::mem::replace(first, due),
            Some(_) => due,
        };
        let rest = &mut self.rest.get_or_insert_default().timers;
        if let Err(place) = rest.binary_search(&later) {
            rest.insert(place, later);
        }
    }

    /// Removes a timer, if it is there.
    pub(super) fn remove(&mut self, due: Due) {
        let place = if self.first == Some(due) {
            self.first = self.rest().first().copied();
            Ok(0)
        } else {
            self.rest().binary_search(&due)
        };
        if let (Some(rest), Ok(place)) = (&mut self.rest, place) {
            rest.timers.remove(place);
            if rest.timers.is_empty() {
                self.rest = None;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The bytes that they occupy outside.
    #[inline(always)]
    pub(super) fn heap(&self) -> usize {
        let bytes = |rest: &Rest| size_of::<Rest>() + rest.timers.capacity() * size_of::<Due>();
        self.rest.as_deref().map_or(0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn dues() -> impl Strategy<Value = Due> {
        (any::<bool>(), 0..6i64).prop_map(|(event, at)| Due {
            clock: if event { TimerClock::Event } else { TimerClock::Processing },
            at,
        })
    }

    proptest! {
        #[test]
        fn timers_are_a_set_in_order(steps in prop::collection::vec((0..5u8, dues()), 0..60)) {
            let (mut timers, mut model) = (TimerSet::default(), BTreeSet::new());
            for (step, due) in steps {
                match step {
                    0..3 => {
                        timers.insert(due);
                        model.insert(due);
                    }
                    3 => {
                        timers.remove(due);
                        model.remove(&due);
                    }
                    _ => {
                        if let Some(first) = timers.first(due.clock) {
                            timers.remove(first);
                            model.remove(&first);
                        }
                    }
                }
                let all: Vec<Due> = timers.first.into_iter().chain(timers.rest().to_vec()).collect();
                prop_assert!(model.iter().copied().eq(all));
                for clock in [TimerClock::Event, TimerClock::Processing] {
                    let first = model.iter().find(|due| due.clock == clock).copied();
                    prop_assert_eq!(timers.first(clock), first);
                }
                prop_assert_eq!(timers.is_empty(), model.is_empty());
                prop_assert_eq!(timers.heap() > 0, model.len() > 1);
            }
        }
    }
}
