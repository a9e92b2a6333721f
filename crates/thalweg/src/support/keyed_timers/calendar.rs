//! The days on which keys are due, one byte a key: in place of a timer for each, where the order does not matter.
//!
//! Time is divided into days of a power of two of microseconds, some 20 to 110 of them from a watermark to the times at
//! which keys are due on average. Beside the slots of the table there is one byte for each: the day on which the key in that slot
//! has to be looked at. So setting a time writes a byte, and so does changing it.
//!
//! ```text
//!   slots of the table   a   -   b   c   d   e   -   f  …
//!   days                 7   -  12   7   -   9   -  12  …      d is due today: it has a timer
//! ```
//!
//! When time reaches a new day, the bytes of the days that have begun are searched for, many at once, and the keys found in the
//! order in which they lie in memory. Of these, the ones that are due later on the last of those days have timers, with their
//! exact times. So watermarks of less than a day cost no search, and those of several days hardly any timer. In the worst
//! case, of keys that are all due today, there is a timer for each of them.
//!
//! The days are those of a calendar queue (Brown, 1988), without its lists.

use crate::state::{Order, Timers, WINDOW, within};

/// The number of days that a byte can tell apart.
const CYCLE: i64 = 128;
/// Set in the byte of a day; a byte without it is no day.
const DAY: u8 = 0x80;
/// The last day that can be told apart, counted from today. Keys that are due later are looked at then.
const FARTHEST: i64 = CYCLE - 1;
/// The length of a day at first, as a power of two of microseconds: a second.
const FIRST_LENGTH: u32 = 20;
/// The longest day.
const LONGEST: u32 = 56;
/// A day has a good length if keys are due so many days ahead, on average. The mean varies with the distance of watermarks: where
/// these are seconds apart in one moment and milliseconds in the next, all times would be set again each time.
const GOOD: std::ops::RangeInclusive<u64> = 20..=112;
/// When the length is changed, they are due at least so many days ahead, and fewer than twice as many.
const BEST: u64 = 32;
/// The number of times to be set before the length is changed, or as many as there are slots.
const SAMPLE: u64 = 512;
/// Days ahead of which a time counts as no further.
const OUTLIER: i64 = 1 << 14;
/// The number of timers between one that is due and the one whose key is prefetched.
pub(super) const AHEAD: usize = 8;
/// The number of slots that are found together.
const FOUND: usize = 64;

/// When the keys in the slots of a table are due.
pub(super) struct Calendar {
    /// For each slot, the day on which its key is looked at; 0 if none.
    days: Vec<u8>,
    /// A day has `1 << length` microseconds.
    length: u32,
    /// The last day that has begun. Keys that are due then, or before, have timers.
    today: i64,
    timers: Timers<usize>,
    search: Option<Search>,
    /// Slots that were found, in reverse.
    found: Vec<usize>,
    /// The number of times that were set, and how many days ahead they were in total.
    set: u64,
    ahead: u64,
}

/// A search for the slots of some days.
#[derive(Clone, Copy)]
struct Search {
    /// The first day, and how many others follow; twice, as the bytes may begin again.
    ranges: [(u8, u8); 2],
    /// The number of the next window.
    cursor: usize,
}

impl Search {
    /// A search for the days behind `after`, up to `last`.
    fn new(after: i64, last: i64) -> Self {
        let ranges = match (byte_of(after.saturating_add(1)), byte_of(last)) {
            _ if last.saturating_sub(after) >= CYCLE => [(DAY, u8::MAX - DAY); 2],
            (first, last) if first <= last => [(first, last - first); 2],
            (first, last) => [(first, u8::MAX - first), (DAY, last - DAY)],
        };
        Self { ranges, cursor: 0 }
    }

    /// The slots of a window whose days are searched for, the first in the lowest bit.
    #[inline(always)]
    fn hits(&self, days: &[u8; WINDOW]) -> u32 {
        let [one, two] = self.ranges;
        within(days, one) | within(days, two)
    }
}

#[inline(always)]
fn byte_of(day: i64) -> u8 {
    day as u8 | DAY
}

impl Calendar {
    pub(super) fn new() -> Self {
        Self {
            days: Vec::new(),
            length: FIRST_LENGTH,
            today: i64::MIN,
            timers: Timers::new(),
            search: None,
            found: Vec::new(),
            set: 0,
            ahead: 0,
        }
    }

    /// The bytes occupied.
    pub(super) fn bytes(&self) -> usize {
        self.days.len() + self.timers.bytes() + self.found.capacity() * size_of::<usize>()
    }

    /// Forgets all times: for a table of so many slots, whose keys are then [set again](Self::set_again).
    pub(super) fn reset(&mut self, slots: usize) {
        self.days.clear();
        self.days.resize(slots.next_multiple_of(WINDOW), 0);
        if !self.timers.is_empty() {
            self.timers = Timers::new();
        }
        self.search = None;
        self.found.clear();
    }

    /// Sets the time at which the key in a slot is due: whenever it has changed from `before`, and without that when the key
    /// was returned by [`next`](Self::next).
    #[inline(always)]
    pub(super) fn set(&mut self, slot: usize, before: Option<i64>, due: i64) {
        let ahead = self.days_ahead(due);
        self.set += 1;
        self.ahead += ahead.clamp(0, OUTLIER) as u64;
        // A key that was due today has a timer, which finds out that it has been put off.
        if ahead > 0 || before.is_none_or(|before| due < before || self.days_ahead(before) > 0) {
            self.put(slot, due, ahead);
        }
    }

    /// The same after [`reset`](Self::reset): the time is not new.
    pub(super) fn set_again(&mut self, slot: usize, due: i64) {
        self.put(slot, due, self.days_ahead(due));
    }

    #[inline(always)]
    fn days_ahead(&self, due: i64) -> i64 {
        (due >> self.length).saturating_sub(self.today)
    }

    #[inline(always)]
    fn put(&mut self, slot: usize, due: i64, ahead: i64) {
        match self.days.get_mut(slot) {
            Some(day) if ahead > 0 => *day = byte_of(self.today + ahead.min(FARTHEST)),
            _ => self.timers.add(due, slot),
        }
    }

    /// The next slot whose key may be due by `until`, which must not go back. It has no time any more.
    #[inline]
    pub(super) fn next(&mut self, until: i64, mut prefetch: impl FnMut(usize)) -> Option<usize> {
        loop {
            if let Some(slot) = self.found.pop() {
                return Some(slot);
            }
            if self.search.is_some() {
                self.find(&mut prefetch);
            } else if let today = until >> self.length
                && today > self.today
            {
                if self.today == i64::MIN {
                    // Times before the first day say nothing of its length.
                    (self.set, self.ahead) = (0, 0);
                }
                self.search = Some(Search::new(self.today, today));
                self.today = today;
            } else {
                let (_, slot) = self.timers.next(until, Order::Any)?;
                if let Some(ahead) = self.timers.ahead(AHEAD) {
                    prefetch(*ahead);
                }
                return Some(slot);
            }
        }
    }

    /// Goes on with a search until some slots are found.
    #[inline(never)]
    fn find(&mut self, prefetch: &mut impl FnMut(usize)) {
        let Self { days, search: searching, found, .. } = self;
        let Some(search) = *searching else { return };
        let (windows, _) = days.as_chunks_mut::<WINDOW>();
        let mut number = search.cursor;
        while let Some(window) = windows.get_mut(number)
            && found.len() + WINDOW <= FOUND
        {
            let mut hits = search.hits(window);
            while hits != 0 {
                let at = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                window[at] = 0;
                found.push(number * WINDOW + at);
            }
            number += 1;
        }
        found.iter().for_each(|slot| prefetch(*slot));
        found.reverse();
        *searching = (number < windows.len()).then_some(Search { cursor: number, ..search });
    }

    /// Changes the length of a day if keys are due too few days ahead, or too many; returns whether all times have to be
    /// set again.
    pub(super) fn changes_length(&mut self) -> bool {
        if self.set < SAMPLE.max(self.days.len() as u64) || self.today == i64::MIN {
            return false;
        }
        let mean = self.ahead / self.set;
        (self.set, self.ahead) = (0, 0);
        if GOOD.contains(&mean) {
            return false;
        }
        let length = (self.length + mean.max(1).ilog2()).saturating_sub(BEST.ilog2());
        let length = length.min(LONGEST);
        self.today = (self.today << self.length) >> length;
        std::mem::replace(&mut self.length, length) != length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SLOTS: usize = 40;

    /// A calendar with the times that it must know.
    struct Model {
        calendar: Calendar,
        due: BTreeMap<usize, i64>,
        /// How many slots were returned that were not due.
        early: usize,
    }

    impl Model {
        fn new() -> Self {
            let mut calendar = Calendar::new();
            calendar.reset(SLOTS);
            Self { calendar, due: BTreeMap::new(), early: 0 }
        }

        fn set(&mut self, slot: usize, due: i64) {
            let before = self.due.insert(slot, due);
            if before != Some(due) {
                self.calendar.set(slot, before, due);
            }
        }

        fn set_all_again(&mut self) {
            self.calendar.reset(SLOTS);
            self.due.iter().for_each(|(slot, due)| self.calendar.set_again(*slot, *due));
        }

        /// Takes out up to `most` slots that are due.
        fn take(&mut self, until: i64, most: usize) -> Vec<usize> {
            let mut taken = Vec::new();
            while taken.len() < most
                && let Some(slot) = self.calendar.next(until, |_| {})
            {
                match self.due.get(&slot) {
                    Some(due) if *due <= until => {
                        self.due.remove(&slot);
                        taken.push(slot);
                    }
                    Some(due) => {
                        self.early += 1;
                        self.calendar.set(slot, None, *due);
                    }
                    None => self.early += 1,
                }
            }
            taken
        }

        fn is_late(&self, until: i64) -> bool {
            self.due.values().any(|due| *due <= until)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, i64),
        /// Set relative to the last time.
        Ahead(usize, i64),
        /// Goes on by so much.
        Go(i64),
        /// Takes some slots only, and sets all times again before the others are taken.
        Half(i64),
        Lengthen,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let slot = || 0..SLOTS;
        let time =
            prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -5_000_000..50_000_000i64];
        let by = || prop_oneof![0..1_000i64, 0..100_000_000i64, 0..1_000_000_000_000_000i64];
        let step = prop_oneof![
            2 => (slot(), time).prop_map(|(slot, at)| Step::Set(slot, at)),
            8 => (slot(), by()).prop_map(|(slot, at)| Step::Ahead(slot, at)),
            3 => by().prop_map(Step::Go),
            1 => by().prop_map(Step::Half),
            1 => Just(Step::Lengthen),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        #[test]
        fn every_slot_is_returned_when_it_is_due(steps in steps(), sample in any::<bool>()) {
            let (mut model, mut now) = (Model::new(), -1_000_000);
            for step in steps {
                match step {
                    Step::Set(slot, at) => model.set(slot, at),
                    Step::Ahead(slot, by) => model.set(slot, now + by),
                    Step::Go(by) => {
                        now += by;
                        model.take(now, usize::MAX);
                        prop_assert!(!model.is_late(now), "{now}: {:?}", model.due);
                    }
                    Step::Half(by) => {
                        now += by;
                        model.take(now, 2);
                        model.set_all_again();
                        model.take(now, usize::MAX);
                        prop_assert!(!model.is_late(now), "{now}: {:?}", model.due);
                    }
                    Step::Lengthen => {
                        if sample {
                            model.calendar.set = model.calendar.set.max(SAMPLE);
                        }
                        if model.calendar.changes_length() {
                            model.set_all_again();
                        }
                    }
                }
            }
            let left = model.due.len();
            prop_assert_eq!(model.take(i64::MAX, usize::MAX).len(), left);
        }
    }

    /// Keys that are due a minute or a millisecond ahead, and watermarks of a hundredth of that.
    #[test]
    fn the_length_of_a_day_follows_from_how_far_ahead_keys_are_due() {
        for gap in [1_000, 60_000_000_i64] {
            let (mut model, mut now) = (Model::new(), 0);
            for round in 0..20_000 {
                now += gap / 100;
                model.take(now, usize::MAX);
                assert!(!model.is_late(now));
                model.set(round % SLOTS, now + gap);
                if model.calendar.changes_length() {
                    model.set_all_again();
                }
            }
            let days = gap >> model.calendar.length;
            assert!(GOOD.contains(&(days as u64)), "{days}");
        }
    }

    #[test]
    fn the_length_of_a_day_stays_where_watermarks_go_to_and_fro() {
        let mut calendar = Calendar::new();
        calendar.reset(SLOTS);
        assert_eq!(calendar.next(0, |_| {}), None);
        for days in [28, 106].repeat(4) {
            (0..SAMPLE).for_each(|n| calendar.set(n as usize % SLOTS, None, days << FIRST_LENGTH));
            assert!(!calendar.changes_length(), "{days} days");
        }
    }

    #[test]
    fn a_time_that_is_put_off_costs_no_look() {
        let (mut model, mut now) = (Model::new(), 0);
        model.take(now, usize::MAX);
        for _ in 0..10_000 {
            now += 100_000;
            model.set(7, now + 30_000_000);
            assert!(model.take(now, usize::MAX).is_empty());
        }
        assert_eq!(model.early, 0);
        // On one day, one timer is enough.
        for by in 0..200 {
            model.set(9, now + by);
        }
        assert_eq!(model.calendar.timers.len(), 1);
        assert!(model.take(now + 100, usize::MAX).is_empty());
        assert_eq!((model.early, model.calendar.timers.len()), (1, 1));
        assert_eq!(model.take(now + 199, usize::MAX), [9]);
        assert_eq!(model.take(now + 30_000_000, usize::MAX), [7]);
    }

    #[test]
    fn the_ranges_of_a_search_are_its_days() {
        for after in -300..300_i64 {
            for span in [1, 2, 100, 126, 127, 128, 129, 1000] {
                let search = Search::new(after, after + span);
                // By the byte of a day.
                let mut is_in = [false; 256];
                (1..=span).for_each(|ahead| is_in[usize::from(byte_of(after + ahead))] = true);
                for day in after - CYCLE..after + CYCLE {
                    let mut days = [0; WINDOW];
                    days[3] = byte_of(day);
                    let is_in = is_in[usize::from(days[3])];
                    assert_eq!(search.hits(&days), u32::from(is_in) << 3, "{after} {span} {day}");
                }
            }
        }
        assert_eq!(Search::new(i64::MIN, i64::MAX).hits(&[byte_of(5); WINDOW]), 0xFFFF);
    }
}
