//! Sums and maxima of sessions by hand: threads go through a stretch of time each, with an open session for
//! every key in an array; the first and the last of each key are joined to those of the other stretches.

use bench_protocol::{Request, Result};
use thalweg_workloads::digest::Digest;
use thalweg_workloads::readings::{Reading, Readings, RowSession};

use crate::streams::{SEED, answer, merged};
use crate::threads::{on_each, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let keys: u64 = request.value("keys")?;
    let readings = Readings::generate(SEED, keys, request.value("events")?);
    let gap = request.value::<i64>("gap-ms")? * 1000;
    let sum = match request.get("form").unwrap_or("sum") {
        "sum" => true,
        "max" => false,
        other => return Err(format!("there is no form {other:?}: sum, max").into()),
    };
    let records = readings.count();
    let bytes = records * size_of::<Reading>() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| {
            if sum {
                sessions(&readings, keys, gap, cores, |sum, value| sum + value)
            } else {
                sessions(&readings, keys, gap, cores, u64::max)
            }
        });
        Ok(answer(digest, records, bytes))
    })
}

/// A session of a key that is known; without a reading, its value is 0.
#[derive(Clone, Copy, Default)]
struct Session {
    start: i64,
    last: i64,
    value: u64,
}

impl Session {
    fn row(self, key: usize) -> RowSession {
        RowSession { start: self.start, last: self.last, key: key as u64, value: self.value }
    }
}

/// What is left of a stretch: the first session of each key, if it has ended, and the one that has not.
struct Ends {
    first: Vec<Session>,
    open: Vec<Session>,
}

fn sessions(
    readings: &Readings,
    keys: u64,
    gap: i64,
    cores: usize,
    aggregate: impl Fn(u64, u64) -> u64 + Sync,
) -> Digest {
    let parts = on_each(cores, |index| {
        let mut digest = Digest::default();
        let none = || vec![Session::default(); keys as usize];
        let mut ends = Ends { first: none(), open: none() };
        for Reading { key, time, value } in readings.range(part(readings.count(), index, cores)) {
            let open = &mut ends.open[key as usize];
            if time - open.last <= gap {
                open.value = aggregate(open.value, value);
                open.last = time;
                continue;
            }
            let ended = std::mem::replace(open, Session { start: time, last: time, value });
            let first = &mut ends.first[key as usize];
            if first.value == 0 {
                *first = ended;
            } else {
                digest.add(&ended.row(key as usize));
            }
        }
        (digest, ends)
    });
    let mut all = merged(parts.iter().map(|(digest, _)| *digest).collect());
    for key in 0..keys as usize {
        let ends = parts.iter().flat_map(|(_, ends)| [ends.first[key], ends.open[key]]);
        let mut ends = ends.filter(|session| session.value > 0);
        let Some(mut open) = ends.next() else { continue };
        for next in ends {
            if next.start - open.last <= gap {
                open = Session {
                    start: open.start,
                    last: next.last,
                    value: aggregate(open.value, next.value),
                };
            } else {
                all.add(&std::mem::replace(&mut open, next).row(key));
            }
        }
        all.add(&open.row(key));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::digest::digest;
    use thalweg_workloads::readings;

    #[test]
    fn answers_are_those_of_the_definition() {
        for (keys, gap) in [(3, 500), (100, 40_000), (5_000, 700_000)] {
            let readings = Readings::generate(3, keys, 50_000);
            for cores in [1, 2, 5] {
                let found = sessions(&readings, keys, gap, cores, |sum, value| sum + value);
                let all = readings.range(0..50_000);
                assert_eq!(found, digest(readings::sessions(all, gap, |a, b| a + b)));
            }
        }
    }
}
