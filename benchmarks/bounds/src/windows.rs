//! Sums and maxima in sliding windows by hand: a table of slices by keys, filled by threads that have
//! a range of time each, then gone through by threads that have a range of keys each. Sums are running
//! ones; a maximum is that of the end of one stretch of slices and of the beginning of the next.

use bench_protocol::{Request, Result};
use thalweg_workloads::SECOND;
use thalweg_workloads::digest::Digest;
use thalweg_workloads::readings::{RATE, Reading, Readings, RowReadings};
use thalweg_workloads::windows::Windows;

use crate::streams::{SEED, answer, merged};
use crate::threads::{on_each, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let keys: u64 = request.value("keys")?;
    let readings = Readings::generate(SEED, keys, request.value("events")?);
    let seconds = |name| request.value::<i64>(name).map(|seconds| seconds * SECOND);
    let windows = Windows::sliding(seconds("size")?, seconds("slide")?);
    let whole = windows.slide() > 0 && windows.size() % windows.slide() == 0;
    if !whole {
        return Err("the size must be a multiple of the slide".into());
    }
    let sum = match request.get("form").unwrap_or("sum") {
        "sum" => true,
        "max" => false,
        other => return Err(format!("there is no form {other:?}: sum, max").into()),
    };
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            let add = |sum: &mut u64, value: u64| *sum += value;
            let raise = |max: &mut u64, value: u64| *max = value.max(*max);
            if sum {
                sums(&Slices::of(&readings, keys, windows, cores, add), cores)
            } else {
                maxima(&Slices::of(&readings, keys, windows, cores, raise), cores)
            }
        });
        Ok(answer(digest, records, bytes))
    })
}

/// Every slice's aggregate of every key; 0 where it has none, since all values are above it.
struct Slices {
    keys: usize,
    cells: Vec<u64>,
    /// Slices in a window.
    within: usize,
    windows: Windows,
    /// Where the first slice begins.
    begin: i64,
}

impl Slices {
    fn of(
        readings: &Readings,
        keys: u64,
        windows: Windows,
        cores: usize,
        aggregate: impl Fn(&mut u64, u64) + Sync,
    ) -> Self {
        let first = readings.range(0..1).next().map_or(0, |reading| reading.time);
        let begin = windows.last_start(first);
        let width = keys as usize;
        // The first reading is at the beginning of a slice, so slices are ranges of numbers.
        let per_slice = RATE * (windows.slide() / SECOND) as u64;
        let slices = readings.count().div_ceil(per_slice);
        let parts = on_each(cores, |index| {
            let mine = part(slices, index, cores);
            let mut cells = vec![0; (mine.end - mine.start) as usize * width];
            for (slice, row) in mine.zip(cells.chunks_mut(width)) {
                for reading in readings.range(slice * per_slice..(slice + 1) * per_slice) {
                    aggregate(&mut row[reading.key as usize], reading.value);
                }
            }
            cells
        });
        let cells = parts.concat();
        let within = (windows.size() / windows.slide()) as usize;
        Self { keys: width, cells, within, windows, begin }
    }

    /// How many windows there are: those at both ends are filled in part.
    fn windows(&self) -> usize {
        self.cells.len() / self.keys + self.within - 1
    }

    fn start(&self, window: usize) -> i64 {
        self.begin + (window as i64 - (self.within as i64 - 1)) * self.windows.slide()
    }

    /// The keys `from..to` of slice `at` of the windows, of which the first windows' slices are before
    /// all readings.
    fn slice(&self, at: usize, from: usize, to: usize) -> Option<&[u64]> {
        let row = at.checked_sub(self.within - 1)? * self.keys;
        self.cells.get(row + from..row + to)
    }
}

/// Digests the aggregates of some keys in a window.
fn add_rows(digest: &mut Digest, start: i64, first_key: usize, values: impl Iterator<Item = u64>) {
    for (key, value) in (first_key as u64..).zip(values) {
        if value > 0 {
            digest.add(&RowReadings { start, key, value });
        }
    }
}

fn sums(slices: &Slices, cores: usize) -> Digest {
    merged(on_each(cores, |index| {
        let mine = part(slices.keys as u64, index, cores);
        let (from, to) = (mine.start as usize, mine.end as usize);
        let mut digest = Digest::default();
        let mut running = vec![0u64; to - from];
        let enter = slices.within - 1;
        for window in 0..slices.windows() {
            if let Some(slice) = slices.slice(window + enter, from, to) {
                running.iter_mut().zip(slice).for_each(|(sum, value)| *sum += value);
            }
            add_rows(&mut digest, slices.start(window), from, running.iter().copied());
            if let Some(slice) = slices.slice(window, from, to) {
                running.iter_mut().zip(slice).for_each(|(sum, value)| *sum -= value);
            }
        }
        digest
    }))
}

fn maxima(slices: &Slices, cores: usize) -> Digest {
    merged(on_each(cores, |index| {
        let mine = part(slices.keys as u64, index, cores);
        let (from, to) = (mine.start as usize, mine.end as usize);
        let (width, within) = (to - from, slices.within);
        let raise = |maxima: &mut [u64], slice: &[u64]| {
            maxima.iter_mut().zip(slice).for_each(|(max, value)| *max = (*max).max(*value));
        };
        let mut digest = Digest::default();
        // Of a stretch of slices: for each the maxima from it to the stretch's end.
        let mut ends = vec![0u64; width * within];
        let mut begun = vec![0u64; width];
        for stretch in (0..slices.windows()).step_by(within) {
            for at in (0..within).rev() {
                let (these, later) = ends[at * width..].split_at_mut(width);
                these.fill(0);
                if at + 1 < within {
                    these.copy_from_slice(&later[..width]);
                }
                if let Some(slice) = slices.slice(stretch + at, from, to) {
                    raise(these, slice);
                }
            }
            begun.fill(0);
            for at in 0..within.min(slices.windows() - stretch) {
                let window =
                    ends[at * width..].iter().zip(&begun).map(|(end, begun)| *end.max(begun));
                add_rows(&mut digest, slices.start(stretch + at), from, window);
                if let Some(slice) = slices.slice(stretch + within + at, from, to) {
                    raise(&mut begun, slice);
                }
            }
        }
        digest
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::digest::digest;
    use thalweg_workloads::readings::aggregates;

    #[test]
    fn answers_are_those_of_the_definition() {
        for keys in [3, 20_000] {
            let readings = Readings::generate(9, keys, 125_000);
            for (size, slide) in [(1, 1), (3, 1), (4, 2), (30, 1)] {
                let windows = Windows::sliding(size * SECOND, slide * SECOND);
                let expected = |of: fn(u64, u64) -> u64| {
                    digest(aggregates(readings.range(0..125_000), windows, of))
                };
                let slices =
                    Slices::of(&readings, keys, windows, 2, |sum: &mut u64, value| *sum += value);
                assert_eq!(sums(&slices, 2), expected(|a, b| a + b), "{keys} {size} {slide}");
                let slices =
                    Slices::of(&readings, keys, windows, 2, |max: &mut u64, value: u64| {
                        *max = value.max(*max)
                    });
                assert_eq!(maxima(&slices, 2), expected(u64::max), "{keys} {size} {slide}");
            }
        }
    }
}
