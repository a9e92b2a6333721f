//! What is in a record, and how its moments make spans.
//!
//! Moments are nanoseconds since 1970, by the clock of the machine that all parts share.

use std::time::{SystemTime, UNIX_EPOCH};
use thalweg::Data;

/// The time now.
#[inline(always)]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The least bytes of a record: there must be room for what the pipeline adds.
pub(crate) const LEAST: usize = RESULT;
/// The bytes of what a record begins with when it is made.
const MADE: usize = 3 * 8;
/// The same when it has gone through a pipeline.
pub(crate) const RESULT: usize = 8 * 8;
/// The key of records that belong to no measurement.
pub(crate) const PROBE: u64 = u64::MAX;

/// A record as it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputRecord {
    /// When it was due, which is when it would have been made at an even rate.
    pub(crate) due: u64,
    pub(crate) number: u64,
    pub(crate) key: u64,
}

impl InputRecord {
    /// Writes it over the beginning of a record.
    pub(crate) fn write(self, record: &mut [u8]) {
        put(record, [self.due, self.number, self.key]);
    }

    /// Reads the beginning of a record; `None` if it is too short.
    #[inline(always)]
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let [due, number, key] = get::<MADE, 3>(record)?;
        Some(Self { due, number, key })
    }
}

/// A record in a pipeline, or a result that follows from several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Data)]
pub(crate) struct TracedRecord {
    pub(crate) due: u64,
    /// When it was in the log, as the broker says: to the millisecond. 0 if that is not known.
    pub(crate) logged: u64,
    /// When the client of the pipeline's source handed it over.
    pub(crate) fetched: u64,
    /// When it was decoded, and so had arrived in the pipeline.
    pub(crate) arrived: u64,
    pub(crate) number: u64,
    pub(crate) key: u64,
    /// How many records it follows from, or how many there were of its key so far.
    pub(crate) count: u64,
}

impl TracedRecord {
    /// A record that was handed over then and arrives now; `logged` is its timestamp in milliseconds.
    #[inline(always)]
    pub(crate) fn arriving(payload: &[u8], fetched: u64, logged: Option<i64>) -> Option<Self> {
        let InputRecord { due, number, key } = InputRecord::read(payload)?;
        // In the middle of its millisecond.
        let logged = logged.map_or(0, |millis| millis as u64 * 1_000_000 + 500_000);
        Some(Self { due, logged, fetched, arrived: now(), number, key, count: 1 })
    }

    /// The result of a window, which is due when the window ends. Its number is that moment.
    pub(crate) fn of_window(end: u64, key: u64, count: u64) -> Self {
        Self { due: end, logged: 0, fetched: end, arrived: end, number: end, key, count }
    }

    /// Writes it over the beginning of a record that leaves the pipeline now.
    #[inline(always)]
    pub(crate) fn leave(self, record: &mut [u8]) {
        let Self { due, logged, fetched, arrived, number, key, count } = self;
        put(record, [due, logged, fetched, arrived, now(), number, key, count]);
    }
}

/// A record that has left a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputRecord {
    pub(crate) traced: TracedRecord,
    pub(crate) left: u64,
}

impl OutputRecord {
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let [due, logged, fetched, arrived, left, number, key, count] = get::<RESULT, 8>(record)?;
        let traced = TracedRecord { due, logged, fetched, arrived, number, key, count };
        Some(Self { traced, left })
    }
}

/// The parts of a record's way, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSpans {
    pub(crate) whole: u64,
    pub(crate) reading: u64,
    /// Of reading: until it is in the log, and from there until it is handed over. Exact to a millisecond.
    pub(crate) log: Option<(u64, u64)>,
    /// Of reading: from there.
    pub(crate) decoding: u64,
    /// Processing and writing, of a record that has left.
    pub(crate) rest: Option<(u64, u64)>,
}

impl RecordSpans {
    /// Of a record that was read from the second topic at `end`.
    pub(crate) fn of(OutputRecord { traced, left }: OutputRecord, end: u64) -> Self {
        let rest = (left.saturating_sub(traced.arrived), end.saturating_sub(left));
        let whole = end.saturating_sub(traced.due);
        Self { whole, rest: Some(rest), ..Self::of_reading(traced) }
    }

    /// Of a record that goes nowhere from the source.
    pub(crate) fn of_reading(traced: TracedRecord) -> Self {
        let reading = traced.arrived.saturating_sub(traced.due);
        let decoding = traced.arrived.saturating_sub(traced.fetched).min(reading);
        let fetched = reading - decoding;
        let log = (traced.logged > 0).then(|| {
            // The broker's time is exact to a millisecond, and cannot have been outside.
            let to = traced.logged.saturating_sub(traced.due).min(fetched);
            (to, fetched - to)
        });
        Self { whole: reading, reading, log, decoding, rest: None }
    }
}

fn put<const N: usize>(record: &mut [u8], words: [u64; N]) {
    for (place, word) in record.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

#[inline(always)]
fn get<const BYTES: usize, const N: usize>(record: &[u8]) -> Option<[u64; N]> {
    let record: &[u8; BYTES] = record.first_chunk()?;
    let (words, _) = record.as_chunks::<8>();
    Some(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACED: TracedRecord = TracedRecord {
        due: 1_000,
        logged: 1_400,
        fetched: 1_900,
        arrived: 2_000,
        number: 7,
        key: 3,
        count: 1,
    };

    #[test]
    fn records_are_read_as_they_are_written() {
        let mut record = [b'x'; 80];
        let made = InputRecord { due: u64::MAX, number: 1, key: PROBE };
        made.write(&mut record);
        assert_eq!(InputRecord::read(&record), Some(made));
        assert_eq!(record[MADE..], [b'x'; 80 - MADE]);
        assert_eq!(InputRecord::read(&record[..MADE - 1]), None);

        let before = now();
        let traced = TracedRecord::arriving(&record, before, Some(5)).unwrap();
        assert_eq!((traced.due, traced.logged, traced.number), (u64::MAX, 5_500_000, 1));
        traced.leave(&mut record);
        let output = OutputRecord::read(&record).unwrap();
        assert_eq!(output.traced, traced);
        assert!(
            before == traced.fetched
                && before <= traced.arrived
                && traced.arrived <= output.left
                && output.left <= now()
        );
        assert_eq!(record[RESULT..], [b'x'; 80 - RESULT]);
        assert_eq!(OutputRecord::read(&record[..RESULT - 1]), None);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let spans = RecordSpans::of(OutputRecord { traced: TRACED, left: 2_500 }, 4_000);
        let (log, rest) = (Some((400, 500)), Some((500, 1_500)));
        assert_eq!(spans, RecordSpans { whole: 3_000, reading: 1_000, log, decoding: 100, rest });
        // What the broker says is to the millisecond, and may lie outside.
        for (logged, log) in [(0, None), (900, Some((0, 900))), (9_000, Some((900, 0)))] {
            assert_eq!(RecordSpans::of_reading(TracedRecord { logged, ..TRACED }).log, log);
        }
    }

    #[test]
    fn a_window_s_result_is_due_at_its_end() {
        let traced = TracedRecord::of_window(5_000, 3, 9);
        let spans = RecordSpans::of(OutputRecord { traced, left: 5_700 }, 6_000);
        let rest = Some((700, 300));
        assert_eq!(spans, RecordSpans { whole: 1_000, reading: 0, log: None, decoding: 0, rest });
    }
}
