//! Sums of keys in sliding windows, from the sums of slides: a running sum for each key, to which a slide is
//! added when it is complete and from which it is subtracted when it has left.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use thalweg_workloads::readings::RowReadings;
use thalweg_workloads::windows::Windows;

/// What is known of a key: how many slides within the window have a sum, and their sum.
type Running = (usize, u64);

/// The running sums of a worker.
#[derive(Clone, Debug)]
pub struct Sliding {
    windows: Windows,
    waiting: BTreeMap<i64, FxHashMap<u64, u64>>,
    within: VecDeque<(i64, FxHashMap<u64, u64>)>,
    running: FxHashMap<u64, Running>,
}

impl Sliding {
    /// Sums in these windows, of which the size is a multiple of the slide.
    pub fn new(windows: Windows) -> Self {
        let (waiting, within, running) = Default::default();
        Self { windows, waiting, within, running }
    }

    /// Takes in a part of a key's sum in the slide that starts there.
    #[inline]
    pub fn add(&mut self, slide: i64, key: u64, sum: u64) {
        *self.waiting.entry(slide).or_default().entry(key).or_default() += sum;
    }

    /// All of a slide has been added, and those before are complete: gives the sums of the window that ends
    /// with it.
    pub fn complete(&mut self, slide: i64, mut give: impl FnMut(RowReadings)) {
        let start = slide + self.windows.slide() - self.windows.size();
        while self.within.front().is_some_and(|(at, _)| *at < start) {
            let (_, left) = self.within.pop_front().unwrap_or_default();
            for (key, sum) in left {
                if let Some((slides, running)) = self.running.get_mut(&key) {
                    *slides -= 1;
                    *running -= sum;
                    if *slides == 0 {
                        self.running.remove(&key);
                    }
                }
            }
        }
        if let Some(sums) = self.waiting.remove(&slide) {
            for (key, sum) in &sums {
                let (slides, running) = self.running.entry(*key).or_default();
                *slides += 1;
                *running += sum;
            }
            self.within.push_back((slide, sums));
        }
        for (&key, &(_, value)) in &self.running {
            give(RowReadings { start, key, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::SECOND;
    use thalweg_workloads::readings::{Readings, aggregates};

    #[test]
    fn sums_are_those_of_the_definition() {
        let readings = Readings::generate(3, 7_000, 60_000);
        let windows = Windows::sliding(2 * SECOND, SECOND / 2);
        let mut sliding = Sliding::new(windows);
        let mut slides: Vec<i64> = Vec::new();
        for reading in readings.range(0..60_000) {
            slides.push(windows.last_start(reading.time));
            sliding.add(windows.last_start(reading.time), reading.key, reading.value);
        }
        slides.dedup();
        let last = slides[slides.len() - 1];
        slides.extend((1..4).map(|later| last + later * windows.slide()));
        let mut found = Vec::new();
        slides.into_iter().for_each(|slide| sliding.complete(slide, |row| found.push(row)));
        found.sort_unstable();
        assert_eq!(found, aggregates(readings.range(0..60_000), windows, |a, b| a + b));
    }
}
