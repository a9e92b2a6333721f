//! Sessions of event time, for systems whose own are of wall-clock time, or that have none.
//!
//! Readings wait until their slide is complete, and are then gone through in the order of their times.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use thalweg_workloads::SECOND;
use thalweg_workloads::readings::{Reading, RowSession};
use thalweg_workloads::windows::Windows;

/// The slides in which readings wait.
pub const SLIDES: Windows = Windows::tumbling(SECOND);

/// The open sessions of a worker.
#[derive(Clone)]
pub struct Sessions<F> {
    gap: i64,
    aggregate: F,
    waiting: BTreeMap<i64, Vec<Reading>>,
    open: FxHashMap<u64, RowSession>,
}

impl<F: Fn(u64, u64) -> u64> Sessions<F> {
    /// Sessions whose readings are no further apart than the gap.
    pub fn new(gap: i64, aggregate: F) -> Self {
        let (waiting, open) = (BTreeMap::new(), FxHashMap::default());
        Self { gap, aggregate, waiting, open }
    }

    /// Takes in a reading of the slide that starts there.
    #[inline]
    pub fn add(&mut self, slide: i64, reading: Reading) {
        self.waiting.entry(slide).or_default().push(reading);
    }

    /// All of a slide, and of those before, has been added: gives the sessions that have ended.
    pub fn complete(&mut self, slide: i64, mut give: impl FnMut(RowSession)) {
        while let Some(first) = self.waiting.first_entry()
            && *first.key() <= slide
        {
            let mut readings = first.remove();
            // Few come from more than one source: mostly in order, which this sort makes use of.
            readings.sort_by_key(|reading| reading.time);
            for Reading { key, time, value } in readings {
                let new = RowSession { start: time, last: time, key, value };
                match self.open.entry(key) {
                    Entry::Vacant(none) => drop(none.insert(new)),
                    Entry::Occupied(mut open) if time - open.get().last > self.gap => {
                        give(open.insert(new));
                    }
                    Entry::Occupied(open) => {
                        let open = open.into_mut();
                        open.value = (self.aggregate)(open.value, value);
                        open.last = time;
                    }
                }
            }
        }
        let end = slide.saturating_add(SLIDES.size());
        self.open.retain(|_, open| {
            let goes_on = open.last.saturating_add(self.gap) >= end;
            if !goes_on {
                give(open.clone());
            }
            goes_on
        });
    }

    /// The slide in which the sessions of this one's readings end, if no others follow: a worker must
    /// learn when that is complete.
    pub fn over(&self, slide: i64) -> i64 {
        SLIDES.last_start(slide + SLIDES.size() - 1 + self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::readings::{Readings, sessions};

    #[test]
    fn sessions_are_those_of_the_definition() {
        for (keys, gap) in [(3, 500), (100, 40_000), (5_000, 700_000)] {
            let readings = Readings::generate(3, keys, 50_000);
            let mut open = Sessions::new(gap, u64::max);
            for odd in [1, 0] {
                let half = readings.range(0..50_000).enumerate().filter(|(at, _)| at % 2 == odd);
                half.for_each(|(_, one)| open.add(SLIDES.last_start(one.time), one));
            }
            let mut found = Vec::new();
            let starts = readings.range(0..50_000).map(|one| SLIDES.last_start(one.time));
            let mut starts: Vec<i64> = starts.collect();
            starts.dedup();
            for start in starts {
                open.complete(start, |session| found.push(session));
            }
            open.complete(i64::MAX - SECOND, |session| found.push(session));
            found.sort_unstable();
            let mut expected = sessions(readings.range(0..50_000), gap, u64::max);
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert!(found.len() > 100);
        }
    }
}
