//! Readings of sensors, for measuring windows: each has a key, a time and a number, and needs no parsing.
//!
//! Times are equidistant, at a fixed number of readings a second. One block of readings is held in memory and
//! repeated as often as needed, each time with later times.

use crate::digest::row;
use crate::random::Random;
use crate::recipe::START;
use crate::windows::Windows;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Readings per second of event time.
pub const RATE: u64 = 10_000;

/// Readings in memory: 400 seconds of them, 96 MB.
const BLOCK: u64 = 400 * RATE;

/// The time from one reading to the next, in microseconds.
const STEP: i64 = crate::SECOND / RATE as i64;

/// A reading of a sensor.
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The sensor.
    pub key: u64,
    /// The time, in microseconds since 1970.
    pub time: i64,
    /// The value: above zero and below a million.
    pub value: u64,
}

row! {
    /// The result of a window.
    RowReadings {
        /// The window's start.
        start: i64,
        /// The sensor.
        key: u64,
        /// The aggregate of its readings in the window.
        value: u64,
    }
}

row! {
    /// The result of a session.
    RowSession {
        /// The time of its first reading.
        start: i64,
        /// The time of its last reading.
        last: i64,
        /// The sensor.
        key: u64,
        /// The aggregate of its readings.
        value: u64,
    }
}

/// A number of readings of a number of sensors.
///
/// ```
/// use thalweg_workloads::readings::Readings;
///
/// let readings = Readings::generate(7, 100, 1_000);
/// let all: Vec<_> = readings.range(0..1_000).collect();
/// assert!(all.iter().all(|reading| reading.key < 100));
/// assert!(all.is_sorted_by_key(|reading| reading.time));
/// ```
#[derive(Clone, Debug)]
pub struct Readings {
    block: Arc<[Reading]>,
    count: u64,
}

impl Readings {
    /// The first `count` readings of `keys` sensors under `seed`.
    pub fn generate(seed: u64, keys: u64, count: u64) -> Self {
        let reading = |number: u64| {
            let mut random = Random::new(seed, number);
            let (key, value) = (random.below(keys), 1 + random.below(999_999));
            Reading { key, time: START + number as i64 * STEP, value }
        };
        Self { block: (0..count.min(BLOCK)).map(reading).collect(), count }
    }

    /// The number of readings.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The readings of a range of numbers, in order.
    #[inline]
    pub fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = Reading> + use<> {
        let block = Arc::clone(&self.block);
        let (mut at, mut later) = (
            (numbers.start % BLOCK) as usize,
            (numbers.start / BLOCK) as i64 * (BLOCK as i64 * STEP),
        );
        (numbers.start..numbers.end.min(self.count)).map(move |_| {
            if at == block.len() {
                at = 0;
                later += BLOCK as i64 * STEP;
            }
            let reading = block[at];
            at += 1;
            Reading { time: reading.time + later, ..reading }
        })
    }
}

/// The aggregate of every key in every window, computed by definition: for small inputs.
pub fn aggregates(
    readings: impl Iterator<Item = Reading>,
    windows: Windows,
    aggregate: impl Fn(u64, u64) -> u64,
) -> Vec<RowReadings> {
    let mut found = BTreeMap::<(i64, u64), u64>::new();
    for Reading { key, time, value } in readings {
        for start in windows.starts(time) {
            found
                .entry((start, key))
                .and_modify(|so_far| *so_far = aggregate(*so_far, value))
                .or_insert(value);
        }
    }
    found.into_iter().map(|((start, key), value)| RowReadings { start, key, value }).collect()
}

/// The sessions of every key, computed by definition: readings no further apart than `gap`. For readings in the order
/// of their times.
pub fn sessions(
    readings: impl Iterator<Item = Reading>,
    gap: i64,
    aggregate: impl Fn(u64, u64) -> u64,
) -> Vec<RowSession> {
    let mut keys = BTreeMap::<u64, Vec<Reading>>::new();
    readings.for_each(|reading| keys.entry(reading.key).or_default().push(reading));
    let sessions = keys.values().flat_map(|all| all.chunk_by(|a, b| b.time - a.time <= gap));
    let row = |session: &[Reading]| {
        let values = session.iter().map(|reading| reading.value);
        let (first, last) = (session.first()?, session.last()?);
        let value = values.reduce(&aggregate)?;
        Some(RowSession { start: first.time, last: last.time, key: first.key, value })
    };
    sessions.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_beyond_the_block() {
        let readings = Readings::generate(1, 10, 2 * BLOCK + 5);
        let around: Vec<Reading> = readings.range(BLOCK - 2..BLOCK + 2).collect();
        assert!(around.windows(2).all(|pair| pair[1].time - pair[0].time == STEP));
        assert_eq!(around[2].value, readings.range(0..1).next().unwrap().value);
        assert_eq!(readings.range(2 * BLOCK..u64::MAX).count(), 5);
        let last = readings.range(2 * BLOCK + 4..2 * BLOCK + 5).next().unwrap();
        assert_eq!(last.time, START + (2 * BLOCK as i64 + 4) * STEP);
    }

    #[test]
    fn a_gap_ends_a_session_when_it_is_longer() {
        let readings =
            [0, 5, 10, 16, 17].map(|time| Reading { key: time as u64 % 2, time, value: 1 });
        let rows = sessions(readings.into_iter(), 10, |a, b| a + b);
        let row = |start, last, key, value| RowSession { start, last, key, value };
        assert_eq!(rows, [row(0, 16, 0, 3), row(5, 5, 1, 1), row(17, 17, 1, 1)]);
    }

    #[test]
    fn a_reading_is_in_all_its_windows() {
        let readings = Readings::generate(3, 1, 4);
        let second = crate::SECOND;
        let rows = aggregates(readings.range(0..4), Windows::sliding(3 * second, second), u64::max);
        let highest = readings.range(0..4).map(|reading| reading.value).max().unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.value == highest));
    }
}
